"""Notice when the API server answers again after an outage, and end the pauses of retries.

Lists and watches wait longer after each failure. When the server is back, any request that succeeds
says so, and their pauses have no reason any more.
"""

import asyncio
from typing import Final

__all__ = ["Recovery"]

#: Failures of one request beside others that succeed are no outage: pauses that follow them must
#: not be cut short.
OUTAGE_SECONDS: Final = 3.0


class Recovery:
    """Shared by all clients of one API server."""

    def __init__(self) -> None:
        #: Since when every request has failed, on the loop's clock; `None` after a success.
        self.failing_since: float | None = None
        self._back = asyncio.Event()

    def failed(self) -> None:
        """Hear that a request got no answer, or that the server failed."""
        if self.failing_since is None:
            self.failing_since = asyncio.get_running_loop().time()

    def answered(self) -> None:
        """Hear that the server did what it was asked, or refused it."""
        since, self.failing_since = self.failing_since, None
        if since is None or asyncio.get_running_loop().time() - since < OUTAGE_SECONDS:
            return
        # Pauses of this moment wait for this event; later ones wait for another one.
        self._back.set()
        self._back = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Pause, and no longer than until the server answers again after an outage."""
        try:
            async with asyncio.timeout(seconds):
                await self._back.wait()
        except TimeoutError:
            return
