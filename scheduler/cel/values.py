"""What expressions compute with, and how values are compared.

bool, int, float, str and bytes stand for the types of the language with the same meaning, None for
null, lists for lists and dicts for maps. The types that Python does not have are here. A bool is
not a number in the language, so keys of maps go through `to_key`, and values through `equal`.

Source: cel-go v0.26.0 common/types.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import total_ordering
from typing import Any, Final, TypeAlias

from scheduler.cel.errors import CelFailure, no_such_overload

__all__ = [
    "EMPTY",
    "INT_MAX",
    "INT_MIN",
    "NONE",
    "UINT_MAX",
    "DefaultMap",
    "Duration",
    "Opaque",
    "Optional",
    "Timestamp",
    "TypeValue",
    "Uint",
    "Value",
    "compare",
    "contains",
    "equal",
    "equal_or_failed",
    "find",
    "from_key",
    "go_double",
    "go_quote",
    "go_type",
    "show",
    "to_key",
    "type_name",
]

#: A value of an expression.
Value: TypeAlias = Any

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1
#: Powers of ten from which on Go's %g shows an exponent.
_SCIENTIFIC_FROM: Final = 6


class Uint(int):
    """An unsigned integer."""

    __slots__ = ()


@total_ordering
class Duration:
    """A span of time in nanoseconds."""

    __slots__ = ("nanos",)

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanos == other.nanos

    def __lt__(self, other: "Duration") -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash((Duration, self.nanos))


@total_ordering
class Timestamp:
    """A point in time, in nanoseconds since 1970 in UTC; the offset is only shown."""

    __slots__ = ("nanos", "offset")

    def __init__(self, nanos: int, offset: int = 0) -> None:
        self.nanos = nanos
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __lt__(self, other: "Timestamp") -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash((Timestamp, self.nanos))


class Optional:
    """`optional.of(value)`; `NONE` is `optional.none()`."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value


#: `optional.none()`.
NONE: Final = Optional(None)


class TypeValue:
    """A type as a value, as `type(x)` gives it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TypeValue) and self.name == other.name

    def __hash__(self) -> int:
        return hash((TypeValue, self.name))


class Opaque:
    """Base of the types of Kubernetes: quantity, semver, url, ip, cidr, format."""

    __slots__ = ()
    #: The name of the type.
    name: str

    def same(self, other: "Opaque") -> bool | None:
        """Return whether two values are equal; None if they cannot be compared."""
        raise NotImplementedError


class DefaultMap(dict[str, Any]):
    """A map by domain: looking up an unknown domain gives an empty map."""

    __slots__ = ()


#: What an unknown domain has.
EMPTY: Final[dict[str, Any]] = {}


class _Itself:
    """A key that is equal only to itself, as lists and maps are as keys of upstream's maps."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


_TRUE_KEY: Final = ("bool", True)
_FALSE_KEY: Final = ("bool", False)
_MISSING: Final = object()

_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    list: "list",
    dict: "map",
    DefaultMap: "map",
    Duration: "google.protobuf.Duration",
    Timestamp: "google.protobuf.Timestamp",
    Optional: "optional_type",
    TypeValue: "type",
}
_NUMBERS: Final = (int, Uint, float)
_MAPS: Final = (dict, DefaultMap)


_GO_NAMES: Final = {
    "bool": "types.Bool",
    "bytes": "types.Bytes",
    "double": "types.Double",
    "int": "types.Int",
    "list": "*types.baseList",
    "map": "*types.baseMap",
    "null_type": "types.Null",
    "string": "types.String",
    "uint": "types.Uint",
    "google.protobuf.Duration": "types.Duration",
    "google.protobuf.Timestamp": "types.Timestamp",
    "optional_type": "*types.Optional",
    "type": "*types.Type",
    "kubernetes.Quantity": "cel.Quantity",
    "kubernetes.Semver": "cel.Semver",
    "kubernetes.URL": "cel.URL",
    "kubernetes.NamedFormat": "cel.Format",
    "net.IP": "cel.IP",
    "net.CIDR": "cel.CIDR",
}


def go_type(value: Value) -> str:
    """Return the name of upstream's type of a value, which is in some messages."""
    if type(value) in (CelFailure, DefaultMap):
        return "*types.Err" if type(value) is CelFailure else "cel.mapper"
    pointer = "*" if getattr(value, "derived", False) else ""
    return pointer + _GO_NAMES[type_name(value)]


def type_name(value: Value) -> str:
    """Return the name of the type of a value."""
    found = _NAMES.get(type(value))
    return str(value.name) if found is None else found


def to_key(value: Value) -> Value:
    """Return what stands for a value in the dict of a map."""
    if value is True:
        return _TRUE_KEY
    if value is False:
        return _FALSE_KEY
    if type(value) is float:
        return ("double", value)
    return _Itself(value) if isinstance(value, list | dict) else value


def from_key(key: Value) -> Value:
    """Return the value that a key of a dict stands for."""
    if type(key) is tuple:
        return key[1]
    return key.value if type(key) is _Itself else key


def find(entries: dict[Any, Any], key: Value, default: Value) -> Value:
    """Return the value of a key in a map, the default if it is not there."""
    found = _found(entries, key)
    if found is _MISSING:
        return EMPTY if type(entries) is DefaultMap else default
    return found


def _found(entries: dict[Any, Any], key: Value) -> Value:
    found = entries.get(to_key(key), _MISSING)
    if found is _MISSING and type(key) is float and key.is_integer():
        # A double finds an integer; an integer does not find a double.
        return entries.get(int(key), _MISSING)
    return found


def contains(entries: dict[Any, Any], key: Value) -> bool:
    """Return whether a map has a key; unknown domains are not in it."""
    return _found(entries, key) is not _MISSING


def equal(left: Value, right: Value) -> bool:
    """Return whether two values are equal.

    Raises:
        Failure: a type of Kubernetes is compared with another type.
    """
    result = _equal(left, right)
    if result is None:
        raise no_such_overload()
    return result


def equal_or_failed(left: Value, right: Value) -> bool:
    """Return whether elements are equal; upstream counts those that cannot be compared as equal."""
    return _equal(left, right) is not False


def _equal(left: Value, right: Value) -> bool | None:
    """Return whether values are equal, None if they cannot be compared."""
    kind, other = type(left), type(right)
    if kind in _NUMBERS:
        return other in _NUMBERS and _equal_numbers(left, right)
    if isinstance(left, Opaque):
        return _equal_opaque(left, right)
    if kind in _MAPS and other in _MAPS:
        return _equal_maps(left, right)
    if kind is not other:
        return False
    compared = _EQUALITIES.get(kind)
    return bool(left == right) if compared is None else compared(left, right)


def _equal_numbers(left: Value, right: Value) -> bool:
    """Return whether numbers are equal; next to a double, an integer is rounded to one."""
    if type(left) is float or type(right) is float:
        return float(left) == float(right)
    return bool(left == right)


def _equal_opaque(left: Opaque, right: Value) -> bool | None:
    if right is None:
        return False
    return left.same(right) if type(right) is type(left) else None


def _equal_lists(left: list[Value], right: list[Value]) -> bool:
    return len(left) == len(right) and all(map(equal_or_failed, left, right))


def _equal_maps(left: dict[Any, Any], right: dict[Any, Any]) -> bool:
    if len(left) != len(right):
        return False
    for key, value in left.items():
        other = find(right, from_key(key), _MISSING)
        if other is _MISSING or not equal_or_failed(value, other):
            return False
    return True


def _equal_optionals(left: Optional, right: Optional) -> bool | None:
    if left is NONE or right is NONE:
        return left is right
    return _equal(left.value, right.value)


_EQUALITIES: Final[dict[type, Callable[[Any, Any], bool | None]]] = {
    list: _equal_lists,
    Optional: _equal_optionals,
}


def compare(left: Value, right: Value) -> int:
    """Return -1, 0 or 1 as left is less, equal or greater.

    Raises:
        Failure: the types have no order, or a number is NaN.
    """
    kind, other = type(left), type(right)
    if kind in _NUMBERS and other in _NUMBERS:
        if left != left or right != right:  # noqa: PLR0124 - NaN
            raise CelFailure("NaN values cannot be ordered")
        if kind is float or other is float:
            left, right = float(left), float(right)
    elif kind is not other or kind not in (str, bytes, bool, Duration, Timestamp):
        raise no_such_overload()
    if left == right:
        return 0
    return -1 if left < right else 1


def show(value: Value) -> str:
    """Return a value as messages show it, e.g. the key of `no such key`."""
    shown = _SHOWN.get(type(value))
    return str(value) if shown is None else shown(value)


def _show_optional(value: Optional) -> str:
    return "optional.none()" if value is NONE else f"optional({show(value.value)})"


def _go_duration(nanos: int) -> str:
    """Return a duration as Go shows it, e.g. "1h30m0s"."""
    sign, nanos = ("-" if nanos < 0 else ""), abs(nanos)
    for unit, size in (("ns", 1), ("µs", 10**3), ("ms", 10**6)):
        if 0 < nanos < size * 1000:
            return f"{sign}{_decimal(nanos, size)}{unit}"
    minutes, rest = divmod(nanos, 60 * 10**9)
    hours, minutes = divmod(minutes, 60)
    whole = f"{hours}h{minutes}m" if hours else (f"{minutes}m" if minutes else "")
    return f"{sign}{whole}{_decimal(rest, 10**9)}s"


def _go_time(value: Timestamp) -> str:
    """Return a timestamp as Go shows it."""
    seconds, nanos = divmod(value.nanos + value.offset * 10**9, 10**9)
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    fraction = _decimal(nanos, 10**9).removeprefix("0")
    hours, minutes = divmod(abs(value.offset) // 60, 60)
    zone = f"{'-' if value.offset < 0 else '+'}{hours:02d}{minutes:02d}"
    name = zone if value.offset else "UTC"
    return f"{moment.year:04d}-{moment:%m-%d %H:%M:%S}{fraction} {zone} {name}"


def _decimal(number: int, of: int) -> str:
    """Return a fraction of a power of ten in its shortest form."""
    whole, rest = divmod(number, of)
    places = len(str(of)) - 1
    return f"{whole}.{rest:0{places}d}".rstrip("0").rstrip(".") if rest else str(whole)


def go_double(value: float) -> str:
    """Return a double in its shortest form, as Go's %v shows it."""
    if value != value:  # noqa: PLR0124 - NaN
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    sign = "-" if text.startswith("-") else ""
    _, digits, exponent = Decimal(text).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) - 1 + int(exponent) if value else 0
    if -4 <= power < _SCIENTIFIC_FROM:
        return sign + format(Decimal(text).copy_abs(), "f").removesuffix(".0")
    rest = f".{shown[1:]}" if len(shown) > 1 else ""
    return f"{sign}{shown[0]}{rest}e{'-' if power < 0 else '+'}{abs(power):02d}"


_SHOWN: Final[dict[type, Callable[[Any], str]]] = {
    bool: lambda value: "true" if value else "false",
    float: go_double,
    type(None): lambda _: "null",
    Optional: _show_optional,
    TypeValue: lambda value: str(value.name),
    Duration: lambda value: _go_duration(value.nanos),
    Timestamp: _go_time,
}

_QUOTED: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def go_quote(text: str) -> str:
    """Return a text in quotes, as Go's %q shows it."""
    return '"' + "".join(map(_quoted, text)) + '"'


def _quoted(character: str) -> str:
    if character in _QUOTED:
        return _QUOTED[character]
    if character.isprintable():
        return character
    code = ord(character)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
