"""All changes of a collection, followed from the beginning to the end of a test.

To ask for them at the end would not do: of changes older than 75 s the API server keeps
only 100 of a kind, and after it has dropped one it refuses all versions before the next change.
"""

import contextlib
import threading
from typing import Any, TypeAlias

from deploy.tools.controlplane.api import ApiClient, ApiError
from tests.support.live import PATIENCE_SECONDS

Json: TypeAlias = dict[str, Any]

#: Longer than any test.
WATCH_SECONDS = 3600.0


class Followed:
    """The changes of a collection since this was made."""

    def __init__(self, api: ApiClient, path: str) -> None:
        self._api = api
        self._path = path
        self._changes: list[tuple[str, Json]] = []
        self._arrived = threading.Condition()
        self._stopped = False
        self._problem: Exception | None = None
        begun = api.get(path)["metadata"]["resourceVersion"]
        threading.Thread(target=self._follow, args=(begun,), daemon=True).start()

    def until(self, created: Json) -> list[tuple[str, Json]]:
        """Wait until an object is created; return (type, object) of all changes before it.

        Raises:
            AssertionError: it did not come in time, or the watch ended.
        """
        uid = created["metadata"]["uid"]

        def arrived() -> bool:
            return self._problem is not None or uid in self._uids()

        with self._arrived:
            in_time = self._arrived.wait_for(arrived, PATIENCE_SECONDS)
            assert self._problem is None, repr(self._problem)
            assert in_time, f"{self._path}: the watch did not bring {uid}"
            return self._changes[: self._uids().index(uid)]

    def stop(self) -> None:
        """End with the next change."""
        self._stopped = True

    def _uids(self) -> list[str]:
        return [each["metadata"]["uid"] for _, each in self._changes]

    def _follow(self, begun: str) -> None:
        # A problem is told to whoever asks: tests that stop the API server do not.
        problem: Exception = EOFError("the API server ended the watch")
        try:
            with contextlib.closing(self._api.watch(self._path, begun, WATCH_SECONDS)) as events:
                for kind, each in events:
                    if self._stopped:
                        return
                    if kind != "BOOKMARK":
                        with self._arrived:
                            self._changes.append((kind, each))
                            self._arrived.notify_all()
        except (ApiError, OSError) as error:
            problem = error
        with self._arrived:
            self._problem = problem
            self._arrived.notify_all()
