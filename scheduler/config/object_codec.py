"""Codecs of objects with named fields: map settings classes to objects of the file.

A settings class declares its fields with `wire`; `Fields` is the codec that reads and writes it.

Fields that are absent from the file have their default; fields that the class does not have are
errors.
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

__all__ = ["Fields", "Wire", "wire"]

T = TypeVar("T")
U = TypeVar("U")

_KEEP: Final = object()


@dataclass(frozen=True)
class Wire:
    """The form of one field in the file."""

    #: Name in the file.
    name: str
    codec: Codec[Any]
    #: Value if the file has the object but not this field.
    default: Any
    #: Whether the zero value (0, "", an empty list) means the default, too.
    zero_is_default: bool = False


def wire(
    name: str,
    codec: Codec[T],
    default: T,
    *,
    absent: T | object = _KEEP,
    zero_is_default: bool = False,
) -> T:
    """Declare a field of a settings class together with its form in the file.

    Args:
        name: name of the field in the file.
        codec: reads and writes its value.
        default: value of the field if nothing is configured.
        absent: value if the file has the object around it, but not the field; *default* unless
            given.
        zero_is_default: whether 0, "" and an empty list count as absent.
    """
    unset = default if absent is _KEEP else absent
    place = Wire(name, codec, unset, zero_is_default)
    return dataclasses.field(default=default, metadata={"wire": place})


class Fields(Codec[T]):
    """Codec of an object with named fields.

    An unknown field is an error, and so is a forbidden field that is set.
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
            fields: the form in the file of each attribute.
            get: returns the value of an attribute.
            forbidden: names that may only be null, with the error message otherwise.
            ignored: names that are read elsewhere.
        """
        self._make = make
        self._get = get
        self._fields = {field.name: (attribute, field) for attribute, field in fields.items()}
        self._forbidden = forbidden or {}
        self._ignored = frozenset(ignored)

    @classmethod
    def of(
        cls,
        settings: type[T],
        *,
        forbidden: Lookup[str, str] | None = None,
        ignored: Iterable[str] = (),
    ) -> "Fields[T]":
        """Describe an object by its class, whose fields are declared with `wire`."""
        wires = {
            field.name: field.metadata["wire"]
            for field in dataclasses.fields(cast("Any", settings))
            if "wire" in field.metadata
        }
        return cls(settings, wires, forbidden=forbidden, ignored=ignored)

    @staticmethod
    def table(codecs: "Lookup[str, Codec[U]]") -> "Fields[dict[str, U]]":
        """Describe an object that becomes a dict, with one entry per possible field."""
        wires = {str(name): Wire(str(name), codec, codec.zero()) for name, codec in codecs.items()}
        return Fields(dict, wires, get=operator.getitem)

    def zero(self) -> T:
        """Return the object without any field set."""
        return self._make(**self._defaults())

    def read(self, tree: Tree, path: str, report: ErrorReport) -> T:
        """Return the object that a tree describes.

        Raises:
            Mismatch: The tree is not an object.
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
                self._check_unknown(key, value, at, report)
        return self._make(**values)

    def _defaults(self) -> dict[str, Any]:
        return {name: copy.copy(field.default) for name, field in self._fields.values()}

    def _check_unknown(self, key: str, value: Tree, path: str, report: ErrorReport) -> None:
        if key in self._forbidden:
            if not is_null(value):
                report.forbidden(path, self._forbidden[key])
        elif key not in self._ignored:
            near = suggestion(key, self._fields)
            report.say(path, f'unknown field "{key}"{near}')

    def write(self, value: T) -> dict[str, Json]:
        """Return the object in the form of the file, without absent or empty fields."""
        written: dict[str, Json] = {}
        for attribute, field in self._fields.values():
            field_value = self._get(value, attribute)
            if field_value in _EMPTY and field_value == field.default:
                continue
            field_json = field.codec.write(field_value)
            if field_json is not None:
                written[field.name] = field_json
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
