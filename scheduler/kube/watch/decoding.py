"""Decodes the bytes of lists and watches into objects.

Everything is decoded straight into its type. What does not fit (a bookmark, an error, or an
unexpected object) is decoded a second time for its identity only.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from scheduler.kube.errors import Unreachable, classified
from scheduler.kube.watch.resources import ApiObject
from scheduler.model.api.objects import Node, ObjectMeta, Pod
from scheduler.model.api.shared_parts import SharedParts

__all__ = [
    "DEEPEST",
    "UNREADABLE",
    "Identity",
    "Known",
    "Lines",
    "ListPage",
    "PageDecoder",
    "UndecodableObject",
    "WatchDecoder",
    "WatchEvent",
    "check_list",
    "ends_list",
    "without_depths",
]

ObjectT = TypeVar("ObjectT", bound=ApiObject)

#: What msgspec raises for unexpected bytes: wrong type or syntax, bytes that are not UTF-8, too
#: deep nesting.
UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)

#: No object of an API server is nearly as large: etcd refuses more than 1.5 MiB.
MAX_LINE_BYTES: Final = 2**24


#: The deepest nesting that is kept of a policy; the schema has ten levels.
DEEPEST: Final = 64
#: Brackets, and strings, in which brackets do not count.
_BRACKETS: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class Identity(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """The part of the metadata that even an undecodable object has."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""

    @property
    def key(self) -> str:
        """Namespace and name joined by a slash, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Known(NamedTuple):
    """The uid and version of a known object."""

    uid: str
    version: str


class _Anything(msgspec.Struct):
    """An object of which only the identity is decoded; or a Status."""

    metadata: Identity = Identity()
    code: int = 0
    reason: str = ""
    message: str = ""


#: The annotation of the bookmark that ends a list as a stream.
_LIST_END: Final = "k8s.io/initial-events-end"


class _Annotated(msgspec.Struct, frozen=True):
    annotations: dict[str, str] | None = None


class _BookmarkObject(msgspec.Struct, frozen=True):
    metadata: _Annotated = _Annotated()


class _Bookmark(msgspec.Struct):
    """A line of a watch, as far as a bookmark may say that everything was listed."""

    object: _BookmarkObject


class WatchEvent(msgspec.Struct, Generic[ObjectT]):
    """A line of a watch."""

    type: str
    object: ObjectT

    @property
    def identity(self) -> ObjectMeta:
        """The metadata of the object."""
        return self.object.metadata


class _RawWatchEvent(msgspec.Struct):
    """A line of a watch whose object is not of the watched type."""

    type: str
    object: msgspec.Raw


@dataclass(frozen=True, slots=True)
class UndecodableObject:
    """What could be decoded of an object, or of a line, that did not fit its type."""

    type: str
    identity: Identity
    #: The message of the decoder.
    problem: str


class WatchDecoder(Generic[ObjectT]):
    """Decodes the lines of a watch."""

    def __init__(self, kind: type[ObjectT]) -> None:
        self._typed = _SharingDecoder(kind)

    def decode(self, line: bytes) -> WatchEvent[ObjectT] | UndecodableObject:
        """Return the event in a line; of an object that does not fit its type, the identity.

        Raises:
            ApiError: The line is an error, with which the server ends the watch.
            Unreachable: The line is not even a watch event, or reports the end of an object without
                a name; the stream is broken.
        """
        problem = ""
        try:
            notice = self._typed.decode(line)
        except UNREADABLE as error:
            problem = str(error)
        else:
            if notice.type != "ERROR":
                return notice
        return _undecodable_event(line, problem)


def _undecodable_event(line: bytes, problem: str) -> UndecodableObject:
    try:
        notice = _RAW_NOTICE.decode(line)
    except UNREADABLE as error:
        raise Unreachable(f"the watch sent something other than events: {error}") from error
    read = _anything(notice.object)
    if notice.type == "ERROR":
        raise classified(read.code, read.reason, f"the watch ended: {read.message}")
    if notice.type == "DELETED" and not read.metadata.name:
        raise Unreachable(f"the watch reported the end of an object without a name: {problem}")
    return UndecodableObject(notice.type, read.metadata, problem)


def ends_list(line: bytes) -> bool:
    """Return whether a bookmark, as a line of a watch, is the one after all objects that exist."""
    try:
        annotations = _BOOKMARK.decode(line).object.metadata.annotations
    except UNREADABLE:
        return False
    return (annotations or {}).get(_LIST_END) == "true"


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _RawPage(msgspec.Struct):
    kind: str
    metadata: _ListMeta
    items: list[msgspec.Raw] | None = None


@dataclass(frozen=True, slots=True)
class ListPage(Generic[ObjectT]):
    """A part of a list."""

    objects: list[ObjectT]
    undecodable: list[UndecodableObject]
    version: str
    #: Where the next page begins; empty on the last.
    token: str


class PageDecoder(Generic[ObjectT]):
    """Decodes the pages of a list.

    Args:
        kind: The type of the objects.
        name: The kind of the objects as the API names it, such as `Pod`.
    """

    def __init__(self, kind: type[ObjectT], name: str) -> None:
        self._name = f"{name}List"
        self._object = msgspec.json.Decoder(kind)
        self._share = _sharing(kind)

    def decode(self, body: bytes) -> ListPage[ObjectT]:
        """Return the objects of a page.

        They are decoded one by one: one that shares its parts frees what it does not need while
        that is in the processor's cache, which takes half the time.

        Raises:
            Unreachable: The body is not a list of this kind, with a version. An object of another
                kind, as a proxy may send it, must not be taken for an empty list.
        """
        try:
            page = _RAW_PAGE.decode(body)
        except UNREADABLE as error:
            raise Unreachable(f"the response is not a list: {error}") from error
        check_list(page.kind, self._name, page.metadata.resource_version)
        objects: list[ObjectT] = []
        undecodable: list[UndecodableObject] = []
        for item in page.items or ():
            try:
                objects.append(self._share(self._object.decode(item)))
            except UNREADABLE as error:
                identity = _anything(item).metadata
                undecodable.append(UndecodableObject("ADDED", identity, str(error)))
        return ListPage(
            objects, undecodable, page.metadata.resource_version, page.metadata.continue_
        )


def check_list(kind: str, wanted: str, version: str) -> None:
    """Check that an answer is the list that was requested.

    Raises:
        Unreachable: It is another object, or a list without a version.
    """
    if kind != wanted:
        raise Unreachable(f"the response is {kind or 'an object without a kind'}, not {wanted}")
    if not version:
        raise Unreachable(f"the {kind} has no resource version")


def without_depths(body: bytes) -> bytes:
    """Return JSON with `null` for each object and array that is nested more than `DEEPEST` deep.

    API servers accept ten thousand levels, which neither msgspec nor Python's decoder can decode.
    """
    parts: list[bytes] = []
    depth = kept_to = 0
    for token in _BRACKETS.finditer(body):
        if token[0] in b"[{":
            depth += 1
            if depth == DEEPEST + 1:
                parts += (body[kept_to : token.start()], b"null")
        elif token[0] in b"]}":
            if depth == DEEPEST + 1:
                kept_to = token.end()
            depth -= 1
    parts.append(body[kept_to:])
    return b"".join(parts)


class Lines:
    """Cuts a stream of bytes into lines, wherever the chunks end."""

    def __init__(self) -> None:
        self._begun: list[bytes] = []
        self._begun_bytes = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that are complete now.

        Raises:
            Unreachable: A line has no end.
        """
        *complete, rest = chunk.split(b"\n")
        if complete and self._begun:
            complete[0] = b"".join((*self._begun, complete[0]))
            self._begun.clear()
            self._begun_bytes = 0
        if rest:
            self._begun.append(rest)
            self._begun_bytes += len(rest)
            if self._begun_bytes > MAX_LINE_BYTES:
                raise Unreachable("the watch sent a line without an end")
        return [line for line in complete if line and line != b"\r"]


_RAW_NOTICE = msgspec.json.Decoder(_RawWatchEvent)
_RAW_PAGE = msgspec.json.Decoder(_RawPage)
_ANYTHING = msgspec.json.Decoder(_Anything)
_BOOKMARK = msgspec.json.Decoder(_Bookmark)


#: The parts of all objects that were decoded.
_PARTS: Final = SharedParts()
_SHARING: Final[dict[type, Callable[[Any], Any]]] = {Pod: _PARTS.pod, Node: _PARTS.node}


def _sharing(kind: type[ObjectT]) -> Callable[[ObjectT], ObjectT]:
    """Return what gives objects of a type the parts that equal ones have."""
    return _SHARING.get(kind, lambda item: item)


class _SharingDecoder(Generic[ObjectT]):
    """Decodes events, whose objects get the parts that equal ones have."""

    def __init__(self, kind: type[ObjectT]) -> None:
        self._decode = msgspec.json.Decoder(WatchEvent[kind]).decode  # type: ignore[valid-type]
        self._share = _sharing(kind)

    def decode(self, line: bytes) -> WatchEvent[ObjectT]:
        event: WatchEvent[ObjectT] = self._decode(line)
        event.object = self._share(event.object)
        return event


def _anything(item: msgspec.Raw) -> _Anything:
    try:
        return _ANYTHING.decode(item)
    except UNREADABLE:
        # Not even its metadata can be decoded: it stays without a name.
        return _Anything()
