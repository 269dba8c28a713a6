"""Lists all objects of a resource, in parts: no list is ever in memory as a whole.

There are two ways. Either can fail where the other does not, so each is tried after the other; the
next list begins in the way that succeeded:

* *In pages*, at first. They are one list only as long as the API server, or etcd, keeps the version
  of the first one: at least five minutes by default. Pages after that are refused (410), and a list
  begins again, after a pause that the caller makes. A page that does not arrive, because it is too
  large or the connection is too slow, makes the pages of the next list half as long.
* *By a stream*, after pages that broke: a watch that begins with all objects and says when these
  were all. The API server sends it from its cache, so no compaction of etcd can end it, and it has
  no limit of size or time but the ends that servers set. A server refuses it where its feature gate
  `WatchList` is off; then the same list comes in pages. It costs the API server more CPU than pages
  (docs/decisions/0005), so it is not the first way.

Both are consistent: the objects are those at a version that the server had after the request, and a
watch continues from there. What a broken list has handed over is true, but incomplete: objects that
are gone are known after a complete one.

Source: client-go v0.37.2 tools/cache/reflector.go, `watchList` and `list`; `WatchList` is on by
default in API servers since v1.34. Differs: client-go streams at first, lists in pages after any
error of that, and after an expired page without pages, which needs memory for the whole list.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import urlencode

from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import ApiError, Gone, NotServed, Unreachable
from scheduler.kube.watch.decoding import Lines, ListPage, PageDecoder, WatchDecoder, ends_list
from scheduler.kube.watch.known_objects import KnownObjects
from scheduler.kube.watch.resources import ApiObject, ApiResource
from scheduler.model.events import Event

__all__ = ["LIST_SECONDS", "Listed", "Lister", "list_request"]

ObjectT = TypeVar("ObjectT", bound=ApiObject)

#: The limit for a page, and for the silence within a stream. A page of large pods takes longer than
#: a write.
LIST_SECONDS: Final = 60.0
#: When the server is asked to end a stream, which is a failure. As the longest watch of client-go.
STREAM_SECONDS: Final = 600
#: Of a server that does not know the parameters of a stream, or does not serve them.
NO_STREAM: Final = frozenset({400, 422})


class Listed(NamedTuple):
    """A complete list."""

    #: The keys of its objects, also of those that cannot be decoded.
    seen: set[str]
    #: Its resource version.
    version: str


def list_request(
    resource: ApiResource[ObjectT], query: dict[str, str], verb: str = "list"
) -> Request:
    """Return the request for objects of a resource; errors name it by the verb."""
    if resource.field_selector:
        query["fieldSelector"] = resource.field_selector
    path = f"{resource.path}?{urlencode(query)}"
    return Request(verb, resource.name, "GET", path, answer_seconds=LIST_SECONDS)


class Lister(Generic[ObjectT]):
    """Lists one resource.

    Args:
        resource: What to list.
        client: Sends the requests.
        known: Gets each object.
        hand_over: Called with the events of each part.
        answered: Called when a part has arrived.
        page_objects: Objects in a page, and in a part of a stream.
    """

    def __init__(
        self,
        resource: ApiResource[ObjectT],
        client: Client,
        known: KnownObjects[ObjectT],
        hand_over: Callable[[list[Event]], None],
        answered: Callable[[], None],
        page_objects: int,
    ) -> None:
        self._resource = resource
        self._client = client
        self._known = known
        self._hand_over = hand_over
        self._answered = answered
        self._page_objects = self._limit = page_objects
        self._pages = PageDecoder(resource.type, resource.kind)
        self._events = WatchDecoder(resource.type)
        #: Whether the next list is a stream.
        self._streams = False

    async def list_all(self) -> Listed:
        """Hand over all objects; those that are gone are left to the caller.

        Raises:
            KubeError: The list is not complete. The next call begins again, maybe in the other way.
        """
        if self._streams:
            try:
                return await self._list_by_stream()
            except ApiError as error:
                if error.status not in NO_STREAM:
                    raise
                self._streams = False
        return await self._list_in_pages()

    # By a stream

    async def _list_by_stream(self) -> Listed:
        query = {
            "watch": "true",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(STREAM_SECONDS),
        }
        seen: set[str] = set()
        events: list[Event] = []
        lines = Lines()
        request = list_request(self._resource, query)
        try:
            async with self._client.stream(request, LIST_SECONDS) as stream:
                self._streams = False  # until it has come to its end
                while chunk := await stream.read():
                    self._answered()
                    for line in lines.feed(chunk):
                        if version := self._take_line(line, seen, events):
                            self._streams = True
                            return Listed(seen, version)
                        if len(events) >= self._page_objects:
                            part, events = events, []
                            self._hand_over(part)
                            await asyncio.sleep(0)  # lets others run
        finally:
            self._hand_over(events)
        raise Unreachable(f"cannot list {self._resource.name}: the server ended the list too early")

    def _take_line(self, line: bytes, seen: set[str], events: list[Event]) -> str:
        """Report the object in a line; return the version at the end of the list, else empty.

        Objects may change while they are listed; the lines are in the order of the changes.
        """
        notice = self._events.decode(line)
        if notice.type == "DELETED":
            seen.discard(notice.identity.key)
        elif notice.type != "BOOKMARK":
            seen.add(notice.identity.key)
        elif ends_list(line):
            return notice.identity.resource_version
        self._known.take(notice, events)
        return ""

    # In pages

    async def _list_in_pages(self) -> Listed:
        seen: set[str] = set()
        page = await self._page("")
        while page.token:
            # The server prepares the next page while this one is processed.
            following = asyncio.create_task(self._page(page.token))
            try:
                await asyncio.sleep(0)  # lets the request be sent
                self._take_page(page, seen)
                token, page = page.token, await following
            finally:
                following.cancel()
            if page.token == token:
                # As from a cache on the way that ignores the query: this would never end.
                raise Unreachable(f"cannot list {self._resource.name}: a page came twice")
        self._take_page(page, seen)
        self._limit = self._page_objects
        return Listed(seen, page.version)

    async def _page(self, token: str) -> ListPage[ObjectT]:
        query = {"limit": str(self._limit)}
        if token:
            query["continue"] = token
        try:
            body = await self._client.call(list_request(self._resource, query))
        except Gone:
            self._streams = True
            raise
        except NotServed:
            raise
        except Unreachable as error:
            self._streams = error.sent
            self._limit = max(1, self._limit // 2)
            raise
        page = self._pages.decode(body)
        self._answered()
        return page

    def _take_page(self, page: ListPage[ObjectT], seen: set[str]) -> None:
        events: list[Event] = []
        for observed in page.objects:
            seen.add(self._known.observe(observed, events))
        for undecodable in page.undecodable:
            seen.add(self._known.skip(undecodable, events))
        self._hand_over(events)
