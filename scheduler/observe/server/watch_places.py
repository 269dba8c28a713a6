"""Who has watches open, and for how long. In the serving thread.

There are so many places in total, and so many of one user. Where none is left, the user with the
most watches loses one to a user without any. A watch ends when its caller may not open it any more.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final

from scheduler.observe.api.requests import StatusError
from scheduler.observe.server.access import AccessDecision, AccessVerdict

__all__ = ["WatchPlace", "WatchPlaces"]

_RETRY_AFTER_SECONDS: Final = 10
#: A right that cannot be reviewed so often in succession counts as lost.
_UNKNOWN_REVIEWS: Final = 6
_UNKNOWN: Final = (AccessVerdict.THROTTLED, AccessVerdict.UNAVAILABLE)


class WatchPlace:
    """The place of one watch."""

    def __init__(self) -> None:
        self._timeout: asyncio.Timeout | None = None
        self._is_lost = False

    def end(self) -> None:
        """End the watch, also if it has not begun."""
        self._is_lost = True
        if self._timeout is not None and not self._timeout.expired():
            self._timeout.reschedule(asyncio.get_running_loop().time())

    @contextlib.asynccontextmanager
    async def kept(
        self, access: AccessDecision, review: Callable[[], Awaitable[AccessDecision]], every: float
    ) -> AsyncIterator[None]:
        """Leave the context when the place is lost, or the right.

        Args:
            access: What was known of the caller when the watch began.
            review: Reviews the caller again.
            every: Seconds between two reviews.
        """
        reviewing = asyncio.create_task(self._review(access, review, every))
        try:
            async with asyncio.timeout(None) as self._timeout:
                if self._is_lost:
                    self.end()
                yield
        except TimeoutError:
            if not self._is_lost:
                raise
        finally:
            self._timeout = None
            reviewing.cancel()

    async def _review(
        self, access: AccessDecision, review: Callable[[], Awaitable[AccessDecision]], every: float
    ) -> None:
        unknown = 0
        try:
            while unknown < _UNKNOWN_REVIEWS:
                await asyncio.sleep(every)
                found = await review()
                if found.verdict in _UNKNOWN:
                    unknown += 1
                elif found.verdict is AccessVerdict.ALLOWED and found.user == access.user:
                    unknown = 0
                else:
                    return
        except ConnectionError:
            pass  # the scheduler has stopped
        finally:
            self.end()


class WatchPlaces:
    """Places for watches, which are taken before a watch begins.

    Args:
        most: Returns how many there are.
        each: How many one user may have; a user that is not known may have all.
    """

    def __init__(self, most: Callable[[], int], each: int) -> None:
        self._most = most
        self._each = each
        #: The places of each user, oldest first.
        self._places: dict[str, list[WatchPlace]] = {}

    @contextlib.contextmanager
    def held(self, user: str) -> Iterator[WatchPlace]:
        """Take a place for as long as the context lasts.

        Raises:
            ApiError: There is none.
        """
        own = len(self._places.get(user, ()))
        if user and own >= self._each:
            raise _refusal(f"{self._each} watches of this user are open")
        if sum(map(len, self._places.values())) >= self._most() and (own or not self._free()):
            raise _refusal("too many watches are open")
        place = WatchPlace()
        self._places.setdefault(user, []).append(place)
        try:
            yield place
        finally:
            self._remove(user, place)

    def _free(self) -> bool:
        """End the last watch of the user with the most; return whether one has several."""
        user, places = max(self._places.items(), key=lambda item: len(item[1]), default=("", []))
        if len(places) < 2:
            return False
        place = places[-1]
        self._remove(user, place)  # its place is free at once
        place.end()
        return True

    def _remove(self, user: str, place: WatchPlace) -> None:
        places = self._places.get(user, [])
        if place in places:
            places.remove(place)
        if not places:
            self._places.pop(user, None)


def _refusal(why: str) -> StatusError:
    text = f"{why}; use a list request, or try again later"
    return StatusError(429, "TooManyRequests", text, _RETRY_AFTER_SECONDS)
