"""The informer of one resource: lists its objects, watches them, and never loses one.

Every change is passed from the API server to the machine as events in batches, in the order of the
server. Guarantees:

* It starts with a consistent list, so every object was in that state when the list was requested.
* An object that disappears between two watches is reported as gone by the next list; so is one
  that was replaced by another of the same name.
* No object stops it: an object that cannot be decoded is reported once and left out. A known object
  whose new state cannot be decoded stays known in its last readable state, because resources that
  may still be in use must not be given to other pods.
* Every watch sends something or ends in time: the server is asked to end it before silence counts
  as a dead connection. Bookmarks do not replace this: for a kind whose objects do not change, the
  server sends the first one only after etcd has reported its progress, by default every ten
  minutes.
* After repeated failures of the watch, all objects are listed.
* Versions that go backwards are detected: etcd was restored from a backup, and the API server would
  send nothing until it has counted up to where the watch began. Then all objects are listed.

Source: client-go v0.36.3 tools/cache/reflector.go lists again after each error of a watch that it
does not retry; apiserver v0.36.3 storage/cacher/cache_watcher.go (`process` and
`nextBookmarkTime`) defines when there are bookmarks. Differs: HTTP/1.1 has no ping, so the end of a
watch after at most 90 seconds is the sign of life, where client-go lets a watch last for five to
ten minutes; and a list comes after three failures, not after one.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from scheduler.kube.client.backoff import ExponentialBackoff, Sleeper
from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import (
    Gone,
    HistoryReplaced,
    KubeError,
    NotFound,
    NotServed,
    TooManyRequests,
    Unreachable,
)
from scheduler.kube.watch.decoding import Known, Lines, PageDecoder, WatchDecoder
from scheduler.kube.watch.discovery import is_served
from scheduler.kube.watch.informer_settings import InformerSettings, WatchHealth
from scheduler.kube.watch.known_objects import KnownObjects
from scheduler.kube.watch.lister import Lister, list_request
from scheduler.kube.watch.resources import ApiObject, ApiResource
from scheduler.kube.watch.retry_state import RetryState
from scheduler.kube.watch.versions import is_older
from scheduler.model.events import Event

__all__ = ["Informer", "InformerSettings", "WatchHealth"]

ObjectT = TypeVar("ObjectT", bound=ApiObject)

#: A stream that was open this long has worked, even if it sent nothing.
HEALTHY_SECONDS: Final = 1.0
#: After so many failures of a watch in a row all objects are listed. With a silent connection each
#: time that takes five minutes, which is also when the age of the watch becomes an alert.
FAILED_WATCHES: Final = 3
#: Seconds until a server without an optional resource is asked again, at first and later.
ABSENT_AT_FIRST_SECONDS: Final = 5.0
ABSENT_SECONDS: Final = 30.0
#: For how long no answer may have an optional resource, until its objects are taken for gone. While
#: the control plane is upgraded, servers with and without it answer in turns. A connection lives no
#: longer than that, so more than one server is asked if there are several.
ABSENT_AGREED_SECONDS: Final = 600.0


class Informer(Generic[ObjectT]):
    """Reports all objects of one resource to a sink until cancelled."""

    def __init__(
        self,
        resource: ApiResource[ObjectT],
        client: Client,
        sink: Callable[[list[Event]], None],
        sleeper: Sleeper,
        settings: InformerSettings | None = None,
    ) -> None:
        self.resource = resource
        #: Set once everything that exists has been handed over.
        self.synced = asyncio.Event()
        #: Called when the history of the server turns out to be another one.
        self.on_replaced: Callable[[], object] = lambda: None
        self._client = client
        self._sink = sink
        self._sleeper = sleeper
        self._observer = client.observer
        self._settings = settings or InformerSettings()
        backoff = ExponentialBackoff(
            sleeper, self._settings.first_pause_seconds, self._settings.longest_pause_seconds
        )
        self._retry = RetryState(resource.name, self._observer, sleeper, backoff)
        self._watch_decoder = WatchDecoder(resource.type)
        self._known = KnownObjects(resource, self._observer)
        self._lister = Lister(
            resource,
            client,
            self._known,
            self._hand_over,
            self._retry.answered,
            self._settings.page_objects,
        )
        #: The version from which the next watch continues; empty when a list is needed.
        self._version = ""
        #: When that version was last known to belong to the server's current history.
        self._confirmed_at = 0.0
        #: Whether a failure may mean that the server's history was replaced.
        self._doubt = False
        #: Times in a row that the server was found not to have the resource, and since when.
        self._absences = 0
        self._absent_at = 0.0
        #: Set when a list that has not begun yet was handed over.
        self._listed: list[asyncio.Event] = []
        #: Ends the open watch.
        self._watch_timeout: asyncio.Timeout | None = None

    def health(self) -> WatchHealth:
        """Return the current state of the informer."""
        return WatchHealth(
            resource=self.resource.name,
            synced=self.synced.is_set(),
            silent_seconds=self._retry.silent_seconds(),
            problem=self._retry.problem,
            undecodable=self._known.undecodable,
            objects=len(self._known),
        )

    def known(self) -> dict[str, Known]:
        """Return the state of each object that was handed over last, by key."""
        return self._known.states()

    def unreadable(self, key: str) -> bool:
        """Return whether an object is left out, or kept as it was, because decoding failed."""
        return self._known.unreadable(key)

    def relist(self) -> None:
        """List everything again, because something was missed."""
        self._version = ""
        if self._watch_timeout is not None and not self._watch_timeout.expired():
            self._watch_timeout.reschedule(_now())

    async def list_again(self) -> None:
        """List everything again, and wait until all that the server has now was handed over.

        This returns at once where the server does not have the resource.
        """
        if self._absences:
            return
        listed = asyncio.Event()
        self._listed.append(listed)
        self.relist()
        self.resume()
        await listed.wait()

    def resume(self) -> None:
        """End a long pause after missing answers, because other requests get answers again."""
        self._retry.resume()

    async def run(self) -> None:
        """List and watch until cancelled; an exception of the sink ends it."""
        while True:
            try:
                if self._version and not self._listed:
                    await self._watch()
                elif not await self._list_if_served():
                    await self._sleeper.sleep(self._record_absence())
            except KubeError as error:
                # The server may have come back with another history.
                self._doubt = not isinstance(error, TooManyRequests)
                if isinstance(error, HistoryReplaced):
                    self.on_replaced()
                before = self._retry.failures
                await self._retry.recover(error)
                failed = self._retry.failures
                again_and_again = failed > before and failed % FAILED_WATCHES == 0
                if again_and_again or isinstance(error, Gone | NotFound | HistoryReplaced):
                    self._version = ""

    # List

    async def _list_if_served(self) -> bool:
        """List; return false where the server does not have the resource, and it is optional."""
        awaited = len(self._listed)
        served = True
        try:
            await self._list()
            self._absences = 0
        except (NotFound, NotServed):
            if not self.resource.optional or await is_served(self._client, self.resource.path):
                raise
            served = False
        for listed in self._listed[:awaited]:
            listed.set()
        del self._listed[:awaited]
        return served

    def _record_absence(self) -> float:
        """Record that the server does not have the resource; return how long to wait.

        Where there were objects, the resource must be missing for some minutes: a server that
        starts does not have all of its resources yet, and one of another release never has them.

        Returns:
            Seconds.
        """
        if not self._absences:
            self._absent_at = _now()
        self._absences += 1
        self._retry.watch_worked()
        self._retry.problem = ""
        had_objects = bool(len(self._known) or self._known.undecodable)
        if had_objects and _now() - self._absent_at < ABSENT_AGREED_SECONDS:
            return ABSENT_AT_FIRST_SECONDS if self._absences == 1 else ABSENT_SECONDS
        if had_objects or not self.synced.is_set():
            self._complete_list(set())
        return ABSENT_SECONDS

    async def _list(self) -> None:
        listed = await self._lister.list_all()
        self._complete_list(listed.seen)
        self._version = listed.version
        self._confirm_history()

    def _complete_list(self, seen: set[str]) -> None:
        """Report known objects that were not seen as gone, after everything was listed."""
        events: list[Event] = []
        self._known.keep_only(seen, events)
        self._hand_over(events)
        self._observer.listed(self.resource.name, len(seen))
        self.synced.set()

    # Watch

    async def _watch(self) -> None:
        if self._doubt or _now() - self._confirmed_at > self._settings.quiet_seconds:
            await self._check_history()
            if not self._version:
                return  # `relist` was called meanwhile
        opened_at = _now()
        worked = False
        try:
            async with asyncio.timeout(None) as self._watch_timeout:
                worked = await self._follow()
        except TimeoutError:
            self._version = ""  # `relist` has ended it
            return
        finally:
            self._watch_timeout = None
        at_once = _now() - opened_at < HEALTHY_SECONDS
        if at_once and not worked:
            raise Unreachable("the server ended the watch at once")
        self._retry.watch_worked()
        if at_once:
            # No failure, but if every watch ends like this one, the next one must not be opened
            # without a pause.
            await self._sleeper.sleep(self._settings.first_pause_seconds)

    async def _follow(self) -> bool:
        """Watch until the server ends the watch; return whether it sent anything."""
        worked = False
        lines = Lines()
        async with self._client.stream(
            self._watch_request(), self._settings.silence_seconds
        ) as stream:
            self._retry.problem = ""
            self._retry.answered()
            while chunk := await stream.read():
                if self._read(lines.feed(chunk)):
                    worked = True
                    self._retry.watch_worked()
                    self._confirm_history()
        return worked

    async def _check_history(self) -> None:
        """Check that the server has issued the version from which the watch continues.

        An API server answers a list with its newest version. Where that is below ours, its history
        was replaced.

        Raises:
            HistoryReplaced: The history was replaced.
        """
        body = await self._client.call(list_request(self.resource, {"limit": "1"}))
        version = PageDecoder(self.resource.type, self.resource.kind).decode(body).version
        if is_older(version, self._version):
            raise HistoryReplaced(
                f"the resourceVersion of {self.resource.name} went backwards, from {self._version}"
                f" to {version}"
            )
        self._confirm_history()

    def _confirm_history(self) -> None:
        self._doubt = False
        self._confirmed_at = _now()

    def _watch_request(self) -> Request:
        spread = 1 + self._sleeper.jitter()
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(int(self._settings.watch_seconds * spread)),
        }
        return list_request(self.resource, query, "watch")

    def _read(self, lines: list[bytes]) -> bool:
        """Hand over the events of some lines; return whether there were lines."""
        events: list[Event] = []
        try:
            for line in lines:
                notice = self._watch_decoder.decode(line)
                self._move_to(notice.identity.resource_version)
                self._known.take(notice, events)
        finally:
            self._hand_over(events)
        return bool(lines)

    def _move_to(self, version: str) -> None:
        """Record the version in a line of the watch; versions of a watch ascend.

        Raises:
            HistoryReplaced: It is below the last one.
        """
        if is_older(version, self._version):
            raise HistoryReplaced(
                f"the resourceVersion of {self.resource.name} in the watch went backwards, from"
                f" {self._version} to {version}"
            )
        if version:
            self._version = version

    # Shared

    def _hand_over(self, events: list[Event]) -> None:
        if events:
            self._observer.watched(self.resource.name, len(events))
            self._sink(events)


def _now() -> float:
    return asyncio.get_running_loop().time()
