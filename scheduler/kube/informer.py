"""Keep up with all objects of one resource: list them, watch them, and never lose one.

Before it stands the API server, after it the machine: everything that is seen is handed over as
events in batches, in the order in which the server told it. What the informer promises:

* It starts with a consistent list, so what it tells was true when it was asked for.
* An object that disappears while nobody watches is reported as gone by the next list; so is one
  that was replaced by another of the same name.
* No object stops it: what cannot be read is reported once and left out. A known object whose new
  state cannot be read stays known in its last readable state, because room that is perhaps still
  in use must not be given away.
* A connection that is silent for longer than the server lets pass between two bookmarks is dead.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar
from urllib.parse import urlencode

from scheduler.kube.client import Client, Request
from scheduler.kube.decoding import Known, Lines, Notice, Odd, Page, PageDecoder, WatchDecoder
from scheduler.kube.errors import ApiError, Gone, KubeError, NotFound, classified
from scheduler.kube.pauses import Backoff, Pauses
from scheduler.kube.resources import ApiObject, Resource
from scheduler.model.events import Event

__all__ = ["Health", "Informer", "InformerSettings"]

ObjectT = TypeVar("ObjectT", bound=ApiObject)

#: A page of large pods takes longer than a write.
LIST_SECONDS: Final = 60.0
#: A stream that lived this long has worked, even if nothing happened in the cluster.
HEALTHY_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class InformerSettings:
    """How patient an informer is."""

    #: Objects in a page of a list; decoding one page blocks the loop for some 5 ms.
    page_objects: int = 500
    #: Without a byte for so long a watch is dead. The server sends a bookmark every 60 to 75 s.
    silence_seconds: float = 100.0
    #: The server is asked to end a watch after that long, or up to twice as long at random, so
    #: that watches spread over the servers again after one was restarted.
    watch_seconds: float = 300.0
    #: Pauses after failures, doubling from the first to the last.
    first_pause_seconds: float = 0.5
    longest_pause_seconds: float = 30.0


@dataclass(frozen=True, slots=True)
class Health:
    """How an informer does."""

    resource: str
    #: Whether everything was listed once.
    synced: bool
    #: Seconds since the last byte from the server; `None` before the first.
    silent_seconds: float | None
    #: Why the list or watch does not work now; empty while it does.
    problem: str
    #: Objects that cannot be read.
    undecodable: int
    #: Objects that are known.
    objects: int


class Informer(Generic[ObjectT]):
    """Tells a sink about all objects of one resource, for ever.

    `_known` holds exactly the objects that were handed over as observed and not yet as gone.
    """

    def __init__(
        self,
        resource: Resource[ObjectT],
        client: Client,
        sink: Callable[[list[Event]], None],
        pauses: Pauses,
        settings: InformerSettings | None = None,
    ) -> None:
        self.resource = resource
        #: Set once everything that exists has been handed over.
        self.synced = asyncio.Event()
        self._client = client
        self._sink = sink
        self._pauses = pauses
        self._observer = client.observer
        self._settings = settings or InformerSettings()
        self._backoff = Backoff(
            pauses, self._settings.first_pause_seconds, self._settings.longest_pause_seconds
        )
        self._page_decoder = PageDecoder(resource.type)
        self._watch_decoder = WatchDecoder(resource.type)
        self._known: dict[str, Known] = {}
        self._undecodable: dict[str, str] = {}
        #: Where the next watch continues; empty when only a list helps.
        self._version = ""
        self._contact_at: float | None = None
        self._problem = ""
        self._paged = True

    def health(self) -> Health:
        """Return how it does now."""
        silent = None
        if self._contact_at is not None:
            silent = asyncio.get_running_loop().time() - self._contact_at
        return Health(
            resource=self.resource.name,
            synced=self.synced.is_set(),
            silent_seconds=silent,
            problem=self._problem,
            undecodable=len(self._undecodable),
            objects=len(self._known),
        )

    def known(self) -> dict[str, Known]:
        """Return which state of each object was handed over last, by key."""
        return self._known.copy()

    def unreadable(self, key: str) -> bool:
        """Tell whether an object is left out, or kept as it was, because it cannot be read."""
        return key in self._undecodable

    async def run(self) -> None:
        """List and watch until cancelled. What the sink raises ends it."""
        while True:
            try:
                if not self._version:
                    await self._list()
                await self._watch()
            except NotFound as error:
                if self.resource.optional and not self._version:
                    self._settle(set())
                self._version = ""
                await self._recover(error)
            except Gone as error:
                self._version = ""
                await self._recover(error)
            except KubeError as error:
                await self._recover(error)

    async def _recover(self, error: KubeError) -> None:
        self._problem = str(error)
        self._observer.interrupted(self.resource.name, self._problem)
        retry_after = error.retry_after if isinstance(error, ApiError) else None
        await self._backoff.wait(retry_after)

    # List

    async def _list(self) -> None:
        seen: set[str] = set()
        page = await self._page("")
        while page.token:
            # The server makes the next page while this one is taken over.
            following = asyncio.create_task(self._page(page.token))
            try:
                await asyncio.sleep(0)  # lets the request be sent
                self._take_over(page, seen)
                page = await following
            finally:
                following.cancel()
        self._take_over(page, seen)
        self._paged = True
        self._settle(seen)
        self._version = page.version

    async def _page(self, token: str) -> Page[ObjectT]:
        try:
            body = await self._client.call(self._list_request(token))
        except Gone:
            # The pages took so long that the list expired: ask for all at once.
            self._paged = False
            raise
        self._touch()
        return self._page_decoder.decode(body)

    def _take_over(self, page: Page[ObjectT], seen: set[str]) -> None:
        """Hand over the objects of a page; note their keys."""
        events: list[Event] = []
        for each in page.objects:
            seen.add(self._observe(each, events))
        for odd in page.odd:
            seen.add(self._skip(odd, events))
        self._hand_over(events)

    def _list_request(self, token: str) -> Request:
        query = {}
        if self._paged:
            query["limit"] = str(self._settings.page_objects)
        if token:
            query["continue"] = token
        return self._request("list", query, LIST_SECONDS)

    def _settle(self, seen: set[str]) -> None:
        """Report as gone what is known and was not seen, after everything was listed."""
        events: list[Event] = []
        for key in [key for key in self._known if key not in seen]:
            self._forget(key, events)
        for key in [key for key in self._undecodable if key not in seen]:
            del self._undecodable[key]
        self._hand_over(events)
        self._observer.listed(self.resource.name, len(seen))
        self.synced.set()

    # Watch

    async def _watch(self) -> None:
        opened_at = self._touch()
        worked = False
        lines = Lines()
        async with self._client.stream(
            self._watch_request(), self._settings.silence_seconds
        ) as stream:
            self._problem = ""
            while chunk := await stream.read():
                self._touch()
                if self._read(lines.feed(chunk)):
                    worked = True
                    self._backoff.reset()
        if worked or self._touch() - opened_at >= HEALTHY_SECONDS:
            self._backoff.reset()
        else:
            await self._recover(KubeError("the server ended the watch at once"))

    def _watch_request(self) -> Request:
        spread = 1 + self._pauses.jitter()
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(int(self._settings.watch_seconds * spread)),
        }
        return self._request("watch", query, LIST_SECONDS)

    def _read(self, lines: list[bytes]) -> bool:
        """Hand over what some lines say; whether there was anything."""
        events: list[Event] = []
        try:
            for line in lines:
                notice = self._watch_decoder.decode(line)
                if isinstance(notice, Notice) and notice.type == "ERROR":
                    notice = self._watch_decoder.decode_odd(line)
                if isinstance(notice, Odd):
                    self._read_odd(notice, events)
                else:
                    self._read_notice(notice, events)
        finally:
            self._hand_over(events)
        return bool(lines)

    def _read_notice(self, notice: Notice[ObjectT], events: list[Event]) -> None:
        if notice.type == "DELETED":
            self._forget(_key(notice.object), events)
        elif notice.type != "BOOKMARK":
            self._observe(notice.object, events)
        self._version = notice.object.metadata.resource_version or self._version

    def _read_odd(self, odd: Odd, events: list[Event]) -> None:
        if odd.type == "ERROR":
            raise classified(odd.code, odd.reason, f"the watch ended: {odd.message}")
        if odd.type == "DELETED":
            self._forget(odd.identity.key, events)
        elif odd.type != "BOOKMARK":
            self._skip(odd, events)
        self._version = odd.identity.resource_version or self._version

    # Objects

    def _observe(self, each: ObjectT, events: list[Event]) -> str:
        """Tell of the state of an object, unless it was told already; return its key."""
        key = _key(each)
        uid, version = each.metadata.uid, each.metadata.resource_version
        known = self._known.get(key)
        if known is not None:
            if known.uid != uid:
                self._forget(key, events)
            elif known.version == version:
                return key
        self._known[key] = Known(uid, version)
        if self._undecodable:
            self._undecodable.pop(key, None)
        events.append(self.resource.observed(each))
        return key

    def _skip(self, odd: Odd, events: list[Event]) -> str:
        """Leave out an object that cannot be read; return its key."""
        key = odd.identity.key
        known = self._known.get(key)
        if known is not None and known.uid != odd.identity.uid:
            self._forget(key, events)
        if key not in self._undecodable:
            self._undecodable[key] = odd.problem
            self._observer.undecodable(self.resource.name, key, odd.problem)
        return key

    def _forget(self, key: str, events: list[Event]) -> None:
        self._undecodable.pop(key, None)
        known = self._known.pop(key, None)
        if known is not None:
            events.append(self.resource.gone(key, known.uid))

    # Shared

    def _hand_over(self, events: list[Event]) -> None:
        if events:
            self._observer.watched(self.resource.name, len(events))
            self._sink(events)

    def _touch(self) -> float:
        """Note that the server spoke, and return when."""
        self._contact_at = asyncio.get_running_loop().time()
        return self._contact_at

    def _request(self, verb: str, query: dict[str, str], answer_seconds: float) -> Request:
        if self.resource.field_selector:
            query["fieldSelector"] = self.resource.field_selector
        path = self.resource.path
        return Request(
            verb=verb,
            resource=self.resource.name,
            method="GET",
            path=f"{path}?{urlencode(query)}" if query else path,
            answer_seconds=answer_seconds,
        )


def _key(each: ApiObject) -> str:
    metadata = each.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
