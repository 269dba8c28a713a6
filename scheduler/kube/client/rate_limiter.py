"""A client-side limit of requests per second, as set by `clientConnection.qps` and `burst`."""

import asyncio
from collections.abc import Awaitable, Callable

__all__ = ["RateLimiter"]


class RateLimiter:
    """A token bucket: `burst` requests at once, `qps` per second in the long run.

    Requests pass in the order in which they arrive. Waiting requests overdraw the bucket, so
    waiting needs neither a queue nor a lock.
    """

    def __init__(
        self, qps: float, burst: int, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    ) -> None:
        self._qps = qps
        self._burst = burst
        self._sleep = sleep
        self._tokens = float(burst)
        self._filled_at: float | None = None

    async def acquire(self) -> None:
        """Wait for the turn of one request."""
        self._fill()
        self._tokens -= 1
        if self._tokens < 0:
            await self._sleep(-self._tokens / self._qps)

    def take(self) -> bool:
        """Take a token for one request if there is one; return whether there was."""
        self._fill()
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def put_back(self) -> None:
        """Return the token of a request that was not sent."""
        self._tokens += 1

    def _fill(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._filled_at is not None:
            self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._qps)
        self._filled_at = now
