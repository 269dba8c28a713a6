"""Exponential backoff with jitter, and the sleeping itself.

Neither a clock nor a random generator is read here: the caller provides both, so that tests need
not wait.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

__all__ = ["ExponentialBackoff", "Sleeper"]


@dataclass(frozen=True, slots=True)
class Sleeper:
    """Sleeps, and provides jitter."""

    #: A number in [0, 1), another one at each call.
    jitter: Callable[[], float]
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep


@dataclass(slots=True)
class ExponentialBackoff:
    """Pauses that double from `initial` to `longest` seconds, until reset.

    Each is shortened at random by up to a half, so that clients that failed together do not
    retry together.
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

        Args:
            at_least: The server's `Retry-After`; the jitter then only lengthens the pause.
        """
        base = self._next or self.initial
        self._next = min(base * 2, self.longest)
        jitter = self.sleeper.jitter()
        if at_least is None:
            return base * (1 - jitter / 2)
        return max(at_least, base) * (1 + jitter / 4)

    async def wait(self, at_least: float | None = None) -> None:
        """Sleep for the next pause."""
        await self.sleeper.sleep(self.delay(at_least))
