"""Who may have a watch open: so many in total, and so many of one user. In the serving thread."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator

from scheduler.observe.api.requests import ApiError

__all__ = ["WatchPlaces"]

_RETRY_AFTER_SECONDS = 10


class WatchPlaces:
    """Places for watches, which are taken before a watch begins.

    Args:
        most: Returns how many there are.
        each: How many one user may have; a user that is not known may have all.
    """

    def __init__(self, most: Callable[[], int], each: int) -> None:
        self._most = most
        self._each = each
        self._users: Counter[str] = Counter()

    @contextlib.contextmanager
    def held(self, user: str) -> Iterator[None]:
        """Take a place for as long as the context lasts.

        Raises:
            ApiError: There is none.
        """
        if self._users.total() >= self._most():
            raise _refusal("too many watches are open")
        if user and self._users[user] >= self._each:
            raise _refusal(f"{self._each} watches of this user are open")
        self._users[user] += 1
        try:
            yield
        finally:
            self._users[user] -= 1
            if not self._users[user]:
                del self._users[user]


def _refusal(why: str) -> ApiError:
    text = f"{why}; use a list request, or try again later"
    return ApiError(429, "TooManyRequests", text, _RETRY_AFTER_SECONDS)
