"""Codecs between trees and typed values: one per kind of field, strict in both directions.

This is the second stage of reading, after `document`. A codec reads a tree and writes the value
back; whole objects are read field by field, see `object_codec`. Null means absent, as in Go. A
value of the wrong type is reported and its field keeps its default, so that all other fields are
still checked.
"""

import base64
import binascii
import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from scheduler.config import durations
from scheduler.config.document import Json, Scalar, Sequence, Tree, plain
from scheduler.config.field_errors import ErrorReport

__all__ = [
    "BOOLEAN",
    "BYTES",
    "DURATION",
    "FLOAT32",
    "INT32",
    "INT64",
    "PLAIN_DURATION",
    "STRING",
    "TREE",
    "Codec",
    "Mismatch",
    "array",
    "converted",
    "is_null",
    "optional",
    "wrong",
]

T = TypeVar("T")
U = TypeVar("U")


class Mismatch(Exception):
    """A tree of the wrong kind; the codec of its container adds the path."""


class Codec(ABC, Generic[T]):
    """Reads and writes values of one type."""

    #: Whether null in the file means that the field is not set.
    nullable: bool = True

    @abstractmethod
    def zero(self) -> T:
        """Return the zero value of the type in Go."""

    @abstractmethod
    def read(self, tree: Tree, path: str, report: ErrorReport) -> T:
        """Return the value of a tree that is not null.

        Raises:
            Mismatch: The tree is of another kind.
        """

    @abstractmethod
    def write(self, value: T) -> Json:
        """Return the value in the form of the file; None omits the field."""


class _Leaf(Codec[T]):
    """A scalar."""

    def __init__(
        self,
        take: Callable[[Tree], T],
        empty: T,
        give: Callable[[T], Json],
        *,
        nullable: bool = True,
    ) -> None:
        self._take = take
        self._empty = empty
        self._give = give
        self.nullable = nullable

    def zero(self) -> T:
        return self._empty

    def read(self, tree: Tree, path: str, report: ErrorReport) -> T:  # noqa: ARG002 (no parts)
        return self._take(tree)

    def write(self, value: T) -> Json:
        return self._give(value)


def wrong(wanted: str, tree: Tree) -> Mismatch:
    """Return the error for a tree of the wrong kind."""
    match tree:
        case Scalar(value=value):
            actual = json.dumps(value, ensure_ascii=False)
        case Sequence():
            actual = "a list"
        case _:
            actual = "an object"
    return Mismatch(f"Invalid type: expected {wanted}, got {actual}")


def _boolean(tree: Tree) -> bool:
    if isinstance(tree, Scalar) and isinstance(tree.value, bool):
        return tree.value
    raise wrong("a boolean", tree)


def _string(tree: Tree) -> str:
    if isinstance(tree, Scalar) and isinstance(tree.value, str):
        return tree.value
    raise wrong("a string", tree)


def _integer(bits: int) -> Callable[[Tree], int]:
    allowed = range(-(2 ** (bits - 1)), 2 ** (bits - 1))

    def take(tree: Tree) -> int:
        value = tree.value if isinstance(tree, Scalar) else None
        if isinstance(value, int) and not isinstance(value, bool) and value in allowed:
            return value
        raise wrong(f"a {bits}-bit integer", tree)

    return take


def _float(tree: Tree) -> float:
    value = tree.value if isinstance(tree, Scalar) else None
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _FLOAT32_MAX:
        return float(value)
    raise wrong("a 32-bit number", tree)


def _duration(tree: Tree) -> float:
    if not (isinstance(tree, Scalar) and isinstance(tree.value, str)):
        raise wrong('a duration like "15s" or "1m30s"', tree)
    try:
        return durations.parse(tree.value)
    except durations.DurationError as error:
        raise Mismatch(f"Invalid value: {error}") from error


def _bytes(tree: Tree) -> bytes:
    try:
        text = _string(tree).replace("\r", "").replace("\n", "")
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise Mismatch(f"Invalid value: not base64: {error}") from error


#: The smallest number that rounds to infinity as a 32-bit float.
_FLOAT32_MAX: Final = (2 - 2**-24) * 2.0**127

BOOLEAN: Final = _Leaf(_boolean, False, bool)
STRING: Final = _Leaf(_string, "", str)
INT32: Final = _Leaf(_integer(32), 0, int)
INT64: Final = _Leaf(_integer(64), 0, int)
FLOAT32: Final = _Leaf(_float, 0.0, lambda value: int(value) if value.is_integer() else value)
#: Seconds.
DURATION: Final = _Leaf(_duration, 0.0, durations.text)
#: Seconds of a field that is not a pointer in Go: null is not a valid duration there.
PLAIN_DURATION: Final = _Leaf(_duration, 0.0, durations.text, nullable=False)
BYTES: Final = _Leaf(_bytes, b"", lambda value: base64.b64encode(value).decode())
#: Any tree, which a later stage reads.
TREE: Final[_Leaf[Tree]] = _Leaf(lambda tree: tree, Scalar(None, None), plain)


class _Optional(Codec[T | None]):
    def __init__(self, inner: Codec[T]) -> None:
        self._inner = inner

    def zero(self) -> T | None:
        return None

    def read(self, tree: Tree, path: str, report: ErrorReport) -> T | None:
        return self._inner.read(tree, path, report)

    def write(self, value: T | None) -> Json:
        return None if value is None else self._inner.write(value)


def optional(codec: Codec[T]) -> Codec[T | None]:
    """Return a codec for a field that may be absent, which is `None`."""
    return _Optional(codec)


class _Converted(Codec[U], Generic[T, U]):
    def __init__(self, inner: Codec[T], load: Callable[[T], U], save: Callable[[U], T]) -> None:
        self._inner = inner
        self._load = load
        self._save = save

    def zero(self) -> U:
        return self._load(self._inner.zero())

    def read(self, tree: Tree, path: str, report: ErrorReport) -> U:
        return self._load(self._inner.read(tree, path, report))

    def write(self, value: U) -> Json:
        return self._inner.write(self._save(value))


def converted(codec: Codec[T], load: Callable[[T], U], save: Callable[[U], T]) -> Codec[U]:
    """Return a codec whose values are converted after reading and before writing."""
    return _Converted(codec, load, save)


class _Array(Codec[tuple[T, ...]], Generic[T]):
    def __init__(self, inner: Codec[T]) -> None:
        self._inner = inner

    def zero(self) -> tuple[T, ...]:
        return ()

    def read(self, tree: Tree, path: str, report: ErrorReport) -> tuple[T, ...]:
        if not isinstance(tree, Sequence):
            raise wrong("a list", tree)
        return tuple(self._item(item, f"{path}[{i}]", report) for i, item in enumerate(tree.items))

    def _item(self, tree: Tree, path: str, report: ErrorReport) -> T:
        report.locate(path, tree.line)
        try:
            absent = self._inner.nullable and is_null(tree)
            return self._inner.zero() if absent else self._inner.read(tree, path, report)
        except Mismatch as error:
            report.broken(path, str(error))
            return self._inner.zero()

    def write(self, value: tuple[T, ...]) -> Json:
        return [self._inner.write(item) for item in value]


def array(codec: Codec[T]) -> Codec[tuple[T, ...]]:
    """Return a codec for a list of values."""
    return _Array(codec)


def is_null(tree: Tree) -> bool:
    """Return whether the tree is null."""
    return isinstance(tree, Scalar) and tree.value is None
