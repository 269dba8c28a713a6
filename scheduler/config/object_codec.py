"""Objects with named fields: how a settings class and its place in the file belong together.

A settings class declares its fields with `wire`; `Record` is the codec that reads and writes it.

Fields that the file does not mention take their default; fields that the class does not have are
problems.
"""

import copy
import dataclasses
import operator
from collections.abc import Callable, Iterable
from collections.abc import Mapping as Lookup
from dataclasses import dataclass
from typing import Any, Final, TypeVar, cast

from scheduler.config.codecs import Codec, Mismatch, is_null, wrong
from scheduler.config.document import Json, Mapping, Tree
from scheduler.config.field_errors import ErrorReport, child, suggestion

__all__ = ["Record", "Wire", "wire"]

T = TypeVar("T")
U = TypeVar("U")

_KEEP: Final = object()


@dataclass(frozen=True)
class Wire:
    """How one field stands in the file."""

    #: Name in the file.
    name: str
    codec: Codec[Any]
    #: Value when the object is written in the file but this field is not.
    default: Any
    #: Whether the zero value (0, "", an empty list) stands for the default too.
    zero_is_default: bool = False


def wire(
    name: str,
    codec: Codec[T],
    default: T,
    *,
    absent: T | object = _KEEP,
    zero_is_default: bool = False,
) -> T:
    """Declare a field of a settings class together with its place in the file.

    Args:
        name: what the field is called in the file.
        codec: how its value is read and written.
        default: value of the field when nothing is configured.
        absent: value when the object around it is written, but not the field; like *default*
            unless given.
        zero_is_default: whether 0, "" and an empty list count as not written.
    """
    unset = default if absent is _KEEP else absent
    place = Wire(name, codec, unset, zero_is_default)
    return dataclasses.field(default=default, metadata={"wire": place})


class Record(Codec[T]):
    """Codec of an object with named fields.

    A field that the object does not have is a problem, and so is a forbidden one that is set.
    """

    def __init__(
        self,
        make: Callable[..., T],
        fields: Lookup[str, Wire],
        *,
        get: Callable[[T, str], Any] = getattr,
        forbidden: Lookup[str, str] | None = None,
        ignored: Iterable[str] = (),
    ) -> None:
        """Describe an object.

        Args:
            make: builds it from keyword arguments.
            fields: attribute and place in the file of each field.
            get: returns the value of an attribute.
            forbidden: names that may only be null, with what to say otherwise.
            ignored: names that somebody else has read.
        """
        self._make = make
        self._get = get
        self._fields = {each.name: (attribute, each) for attribute, each in fields.items()}
        self._forbidden = forbidden or {}
        self._ignored = frozenset(ignored)

    @classmethod
    def of(
        cls,
        settings: type[T],
        *,
        forbidden: Lookup[str, str] | None = None,
        ignored: Iterable[str] = (),
    ) -> "Record[T]":
        """Describe an object by the class that holds it, its fields declared with `wire`."""
        wires = {
            each.name: each.metadata["wire"]
            for each in dataclasses.fields(cast("Any", settings))
            if "wire" in each.metadata
        }
        return cls(settings, wires, forbidden=forbidden, ignored=ignored)

    @staticmethod
    def table(codecs: "Lookup[str, Codec[U]]") -> "Record[dict[str, U]]":
        """Describe an object that is held as a dict, with one entry per possible field."""
        wires = {str(name): Wire(str(name), each, each.zero()) for name, each in codecs.items()}
        return Record(dict, wires, get=operator.getitem)

    def zero(self) -> T:
        """Return the object without any field set."""
        return self._make(**self._defaults())

    def read(self, tree: Tree, path: str, report: ErrorReport) -> T:
        """Return the object that a tree describes.

        Raises:
            Mismatch: The tree is no object.
        """
        if not isinstance(tree, Mapping):
            raise wrong("an object", tree)
        values = self._defaults()
        for key, value in tree.entries.items():
            at = child(path, key)
            report.locate(at, tree.lines[key])
            if key in self._fields:
                name, field = self._fields[key]
                values[name] = _field(field, value, at, report)
            else:
                self._stranger(key, value, at, report)
        return self._make(**values)

    def _defaults(self) -> dict[str, Any]:
        return {name: copy.copy(each.default) for name, each in self._fields.values()}

    def _stranger(self, key: str, value: Tree, path: str, report: ErrorReport) -> None:
        if key in self._forbidden:
            if not is_null(value):
                report.forbidden(path, self._forbidden[key])
        elif key not in self._ignored:
            near = suggestion(key, self._fields)
            report.say(path, f'unknown field "{key}"{near}')

    def write(self, value: T) -> dict[str, Json]:
        """Return the object as it stands in a file; what is absent or empty is left out."""
        written: dict[str, Json] = {}
        for attribute, each in self._fields.values():
            held = self._get(value, attribute)
            if held in _EMPTY and held == each.default:
                continue
            shown = each.codec.write(held)
            if shown is not None:
                written[each.name] = shown
        return written


_EMPTY: Final[tuple[object, ...]] = ("", (), [], b"")


def _field(wire_: Wire, tree: Tree, path: str, report: ErrorReport) -> Any:
    codec = wire_.codec
    if codec.nullable and is_null(tree):
        return wire_.default
    try:
        value = codec.read(tree, path, report)
    except Mismatch as error:
        report.broken(path, str(error))
        return wire_.default
    return wire_.default if wire_.zero_is_default and not value else value
