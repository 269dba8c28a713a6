"""How long to wait before trying again, and how the waiting is done.

Neither a clock nor a random generator is read here: both come from the caller, so that tests
wait for nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

__all__ = ["ExponentialBackoff", "Sleeper"]


@dataclass(frozen=True, slots=True)
class Sleeper:
    """Where waiting comes from."""

    #: A number in [0, 1), another one at each call.
    jitter: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


@dataclass(slots=True)
class ExponentialBackoff:
    """Pauses that double from `initial` to `longest` seconds, until reset.

    Each is shortened by up to a half at random, so that clients which failed together do not
    come back together.
    """

    sleeper: Sleeper
    initial: float
    longest: float
    _next: float = 0.0

    def reset(self) -> None:
        """Start from `initial` again."""
        self._next = 0.0

    def delay(self, at_least: float | None = None) -> float:
        """Return the next pause in seconds.

        A server's `Retry-After` goes in as `at_least`; the jitter then only lengthens it.
        """
        base = self._next or self.initial
        self._next = min(base * 2, self.longest)
        jitter = self.sleeper.jitter()
        if at_least is None:
            return base * (1 - jitter / 2)
        return max(at_least, base) * (1 + jitter / 4)

    async def wait(self, at_least: float | None = None) -> None:
        """Let the next pause pass."""
        await self.sleeper.sleep(self.delay(at_least))
