"""Operators, conversions and the functions of the language itself.

Source: cel-go v0.26.0 common/stdlib/standard.go, common/types, common/types/overflow.go.
"""

import math
import re
from collections.abc import Callable
from typing import Any, Final

from scheduler.cel.errors import Cancelled, CelFailure, no_such_overload
from scheduler.cel.library.overloads import (
    LONGEST_RESULT,
    Cost,
    Overload,
    function,
    method,
    one,
    size_of,
    traversal,
)
from scheduler.cel.library.times import (
    checked_duration,
    checked_timestamp,
    duration_text,
    parse_duration,
    parse_timestamp,
    timestamp_of_seconds,
    timestamp_text,
)
from scheduler.cel.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    compare,
    contains,
    equal,
    go_double,
    type_name,
)
from scheduler.model.releases import Reference

__all__ = ["add", "overloads"]

_RECEIVERS: Final = (str, Duration, Timestamp)
_DECIMAL: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
#: Underscores may separate digits, and follow the prefix of hexadecimal ones.
_DIGITS: Final = r"[0-9]+(?:_[0-9]+)*"
_HEX_DIGITS: Final = r"[0-9a-f]+(?:_[0-9a-f]+)*"
_GO_FLOAT: Final = re.compile(
    rf"[+-]?(?:(?:{_DIGITS}\.?(?:{_DIGITS})?|\.{_DIGITS})(?:e[+-]?{_DIGITS})?|inf(?:inity)?|nan)",
    re.ASCII | re.IGNORECASE,
)
_HEX_FLOAT: Final = re.compile(
    rf"[+-]?0x_?(?:{_HEX_DIGITS}\.?(?:{_HEX_DIGITS})?|\.{_HEX_DIGITS})p[+-]?{_DIGITS}",
    re.ASCII | re.IGNORECASE,
)
_TRUE: Final = ("1", "t", "T", "true", "TRUE", "True")
_FALSE: Final = ("0", "f", "F", "false", "FALSE", "False")


def _undefined(operator: str, left: Value, defined_for: tuple[type, ...]) -> CelFailure:
    """Return the failure of an operator for operands that do not go together."""
    if type(left) in defined_for or type(left) in _RECEIVERS:
        return no_such_overload()
    return CelFailure(f"no such overload: {operator}")


def _int(number: int) -> int:
    if INT_MIN <= number <= INT_MAX:
        return number
    raise CelFailure("integer overflow")


def _uint(number: int) -> Uint:
    if 0 <= number <= UINT_MAX:
        return Uint(number)
    raise CelFailure("unsigned integer overflow")


def _concatenated(left: Any, right: Any) -> Any:
    if len(left) + len(right) > LONGEST_RESULT:
        raise Cancelled
    return left + right


def add(left: Value, right: Value) -> Value:  # noqa: C901, PLR0911 - one case for each type
    """Return the sum of numbers or times, or the concatenation of strings, bytes and lists."""
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return _int(left + right)
        if kind is float:
            return left + right
        if kind is Uint:
            return _uint(int(left) + int(right))
        if kind in (str, bytes, list):
            return _concatenated(left, right)
        if kind is Duration:
            return checked_duration(left.nanos + right.nanos)
    elif kind is Duration and type(right) is Timestamp:
        return checked_timestamp(left.nanos + right.nanos, right.offset)
    elif kind is Timestamp and type(right) is Duration:
        return checked_timestamp(left.nanos + right.nanos, left.offset)
    raise _undefined("_+_", left, (int, float, Uint, str, bytes, list, Duration, Timestamp))


def _subtract(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return _int(left - right)
        if kind is float:
            return left - right
        if kind is Uint:
            return _uint(int(left) - int(right))
        if kind in (Duration, Timestamp):
            return checked_duration(left.nanos - right.nanos)
    elif kind is Timestamp and type(right) is Duration:
        return checked_timestamp(left.nanos - right.nanos, left.offset)
    raise _undefined("_-_", left, (int, float, Uint, Duration, Timestamp))


def _multiply(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind is type(right):
        if kind is int:
            return _int(left * right)
        if kind is float:
            return left * right
        if kind is Uint:
            return _uint(int(left) * int(right))
    raise _undefined("_*_", left, (int, float, Uint))


def _divide(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind is not type(right) or kind not in (int, float, Uint):
        raise _undefined("_/_", left, (int, float, Uint))
    if kind is float:
        return _divide_doubles(left, right)
    if right == 0:
        raise CelFailure("division by zero")
    quotient = abs(int(left)) // abs(int(right))
    if kind is Uint:
        return Uint(quotient)
    return _int(quotient if (left < 0) == (right < 0) else -quotient)


def _divide_doubles(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or left != left:  # noqa: PLR0124 - NaN
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1.0, right)


def _modulo(left: Value, right: Value) -> Value:
    kind = type(left)
    if kind is not type(right) or kind not in (int, Uint):
        raise _undefined("_%_", left, (int, Uint))
    if right == 0:
        raise CelFailure("modulus by zero")
    if left == INT_MIN and right == -1:
        raise CelFailure("integer overflow")
    rest = abs(int(left)) % abs(int(right))
    return Uint(rest) if kind is Uint else (rest if left >= 0 else -rest)


def _negate(value: Value) -> Value:
    kind = type(value)
    if kind is int:
        return _int(-value)
    if kind is float:
        return -value
    if kind is Duration:
        return checked_duration(-value.nanos)
    raise _undefined("-_", value, (bool,))


def _not(value: Value) -> bool:
    if value is True:
        return False
    if value is False:
        return True
    raise no_such_overload()


_ORDERED: Final = (bool, bytes, float, int, Uint, str, Duration, Timestamp)


def _order(operator: str, holds: Callable[[int], bool]) -> Callable[[Value, Value], bool]:
    def implementation(left: Value, right: Value) -> bool:
        if type(left) not in _ORDERED:
            raise _undefined(operator, left, ())
        return holds(compare(left, right))

    return implementation


def _not_equal(left: Value, right: Value) -> bool:
    """Values that cannot be compared are not equal: upstream turns that failure into true."""
    try:
        return not equal(left, right)
    except CelFailure:
        return True


def _in(element: Value, container: Value) -> bool:
    if isinstance(container, dict):
        return contains(container, element)
    if type(container) is not list:
        raise no_such_overload()
    return any(_is_same(element, each) for each in container)


def _is_same(left: Value, right: Value) -> bool:
    try:
        return equal(left, right)
    except CelFailure:
        return False


def _size(value: Value) -> int:
    if isinstance(value, str | bytes | list | dict):
        return len(value)
    raise _undefined("size", value, ())


# Conversions.


def _conversion_error(value: Value, to: str) -> CelFailure:
    return CelFailure(f"type conversion error from '{type_name(value)}' to '{to}'")


def _number(text: str, low: int, high: int, pattern: str = "") -> int | None:
    """Return a decimal number in bounds."""
    if _DECIMAL.fullmatch(text) is None or text[0] in pattern:
        return None
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > 20:
        return None
    number = -int(digits or "0") if text[0] == "-" else int(digits or "0")
    return number if low <= number <= high else None


def _string_to_int(text: str) -> int:
    number = _number(text, INT_MIN, INT_MAX)
    if number is None:
        raise _conversion_error(text, "int")
    return number


def _string_to_uint(text: str) -> Uint:
    number = _number(text, 0, UINT_MAX, "+-")
    if number is None:
        raise _conversion_error(text, "uint")
    return Uint(number)


def _double_to_int(number: float) -> int:
    if not math.isfinite(number) or not -(2.0**63) < number < 2.0**63:
        raise CelFailure("integer overflow")
    return int(number)


def _double_to_uint(number: float) -> Uint:
    if not math.isfinite(number) or not 0 <= number < 2.0**64:
        raise CelFailure("unsigned integer overflow")
    return Uint(number)


def _string_to_double(text: str) -> float:
    if _HEX_FLOAT.fullmatch(text) is not None:
        return _finite(text.replace("_", ""), float.fromhex)
    if _GO_FLOAT.fullmatch(text) is None:
        raise _conversion_error(text, "double")
    return _finite(text, float)


def _finite(text: str, parse: Callable[[str], float]) -> float:
    try:
        number = parse(text)
    except OverflowError:
        number = math.inf
    if math.isinf(number) and "inf" not in text.lower():
        raise _conversion_error(text, "double")
    return number


def _string_to_bool(text: str) -> bool:
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise _conversion_error(text, "bool")


def _bytes_to_string(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise CelFailure("invalid UTF-8 in bytes, cannot convert to string") from None


def _not_a_duration(number: int) -> Duration:
    """Fail: the conversion is declared, but ints cannot be converted."""
    raise _conversion_error(number, "google.protobuf.Duration")


def _same(value: Value) -> Value:
    return value


def _minimum_cost(arguments: tuple[Value, ...], _result: Value) -> int:
    """Cost of comparing strings or lists: a tenth of the shorter one."""
    return math.ceil(min(size_of(arguments[0]), size_of(arguments[1])) * 0.1)


def _sum_cost(arguments: tuple[Value, ...], _result: Value) -> int:
    return math.ceil((size_of(arguments[0]) + size_of(arguments[1])) * 0.1)


def _equality_cost(arguments: tuple[Value, ...], result: Value) -> int:
    return 1 if hasattr(arguments[0], "same") else _minimum_cost(arguments, result)


def _in_list_cost(arguments: tuple[Value, ...], _result: Value) -> int:
    return size_of(arguments[1])


def _contains_cost(arguments: tuple[Value, ...], _result: Value) -> int:
    text, part = arguments
    return math.ceil(size_of(text) * 0.1) * math.ceil(size_of(part) * 0.1)


def _affix_cost(arguments: tuple[Value, ...], _result: Value) -> int:
    return math.ceil(size_of(arguments[1]) * 0.1)


def _on_strings(test: Callable[[str, str], bool]) -> Callable[[Value, Value], bool]:
    def implementation(left: Value, right: Value) -> bool:
        if type(left) is not str or type(right) is not str:
            raise no_such_overload()
        return test(left, right)

    return implementation


def _operator(
    name: str, signatures: str, implementation: Any, cost: Cost, texts: Cost | None = None
) -> list[Overload]:
    """Declare an operator by signatures with ";" between them; `texts` is the cost for texts."""
    return [
        function(name, each, implementation, texts if texts and of_texts else cost, guarded=False)
        for each in signatures.split(";")
        for of_texts in (each.strip().startswith(("string", "bytes")),)
    ]


_ORDER: Final = ";".join(
    f"{pair} -> bool"
    for pair in (
        "bool, bool", "int, int", "int, double", "int, uint", "uint, uint", "uint, double",
        "uint, int", "double, double", "double, int", "double, uint", "string, string",
        "bytes, bytes", "timestamp, timestamp", "duration, duration",
    )
)  # fmt: skip
_ADDITIONS: Final = (
    "bytes, bytes -> bytes; double, double -> double; duration, duration -> duration;"
    "duration, timestamp -> timestamp; timestamp, duration -> timestamp; int, int -> int;"
    "list(A), list(A) -> list(A); string, string -> string; uint, uint -> uint"
)
_SUBTRACTIONS: Final = (
    "double, double -> double; duration, duration -> duration; int, int -> int;"
    "timestamp, duration -> timestamp; timestamp, timestamp -> duration; uint, uint -> uint"
)
_PRODUCTS: Final = "double, double -> double; int, int -> int; uint, uint -> uint"


_OVERLOADS: Final = (
    *_operator("_+_", _ADDITIONS, add, one, _sum_cost),
    *_operator("_-_", _SUBTRACTIONS, _subtract, one),
    *_operator("_*_", _PRODUCTS, _multiply, one),
    *_operator("_/_", _PRODUCTS, _divide, one),
    *_operator("_%_", "int, int -> int; uint, uint -> uint", _modulo, one),
    *_operator("-_", "double -> double; int -> int", _negate, one),
    *_operator("!_", "bool -> bool", _not, one),
    *_operator("_==_", "A, A -> bool", equal, _equality_cost),
    *_operator("_!=_", "A, A -> bool", _not_equal, _minimum_cost),
    *_operator("_<_", _ORDER, _order("_<_", lambda sign: sign < 0), one, _minimum_cost),
    *_operator("_<=_", _ORDER, _order("_<=_", lambda sign: sign <= 0), one, _minimum_cost),
    *_operator("_>_", _ORDER, _order("_>_", lambda sign: sign > 0), one, _minimum_cost),
    *_operator("_>=_", _ORDER, _order("_>=_", lambda sign: sign >= 0), one, _minimum_cost),
    *_operator("@in", "A, list(A) -> bool", _in, _in_list_cost),
    *_operator("@in", "A, map(A, B) -> bool", _in, one),
    # The planner evaluates these itself; here are only their types.
    *_operator("_&&_", "bool, bool -> bool", None, one),
    *_operator("_||_", "bool, bool -> bool", None, one),
    *_operator("_?_:_", "bool, A, A -> A", None, one),
    *_operator("_[_]", "list(A), int -> A; map(A, B), A -> B", None, one),
    *_operator(
        "_[_]", "optional(list(V)), int -> optional(V); optional(map(K, V)), K -> optional(V)",
        None, one,
    ),
    *_operator(
        "_[?_]",
        "list(V), int -> optional(V); optional(list(V)), int -> optional(V);"
        "map(K, V), K -> optional(V); optional(map(K, V)), K -> optional(V)",
        None,
        one,
    ),
    *(
        function("size", f"{kind} -> int", _size, guarded=False)
        for kind in ("bytes", "list(A)", "map(A, B)", "string")
    ),
    *(
        method("size", f"{kind} -> int", _size, guarded=False)
        for kind in ("bytes", "list(A)", "map(A, B)", "string")
    ),
    function("type", "A -> type(A)", lambda value: TypeValue(type_name(value))),
    function("dyn", "A -> dyn", _same),
    function("bool", "bool -> bool", _same),
    function("bool", "string -> bool", _string_to_bool),
    function("bytes", "bytes -> bytes", _same),
    function("bytes", "string -> bytes", lambda text: text.encode(), traversal()),
    function("double", "double -> double", _same),
    function("double", "int -> double", float),
    function("double", "string -> double", _string_to_double),
    function("double", "uint -> double", float),
    function("int", "int -> int", _same),
    function("int", "double -> int", _double_to_int),
    function("int", "duration -> int", lambda value: value.nanos),
    function("int", "string -> int", _string_to_int),
    function("int", "timestamp -> int", lambda value: value.nanos // 10**9),
    function("int", "uint -> int", lambda value: _int(int(value))),
    function("uint", "uint -> uint", _same),
    function("uint", "double -> uint", _double_to_uint),
    function("uint", "int -> uint", _uint),
    function("uint", "string -> uint", _string_to_uint),
    function("string", "string -> string", _same),
    function("string", "bool -> string", lambda value: "true" if value else "false"),
    function("string", "bytes -> string", _bytes_to_string, traversal()),
    function("string", "double -> string", go_double),
    function("string", "duration -> string", duration_text),
    function("string", "int -> string", str),
    function("string", "timestamp -> string", timestamp_text),
    function("string", "uint -> string", str),
    function("duration", "duration -> duration", _same),
    function("duration", "string -> duration", parse_duration),
    function("timestamp", "timestamp -> timestamp", _same),
    function("timestamp", "int -> timestamp", timestamp_of_seconds),
    function("timestamp", "string -> timestamp", parse_timestamp),
    *(
        method(name, "string, string -> bool", _on_strings(test), cost, guarded=False)
        for name, test, cost in (
            ("contains", lambda text, part: part in text, _contains_cost),
        )
    ),
)  # fmt: skip


def overloads(reference: Reference) -> tuple[Overload, ...]:
    """Return the operators and functions of a release."""
    affix = _affix_cost if reference.selectors_charge_affixes else traversal()
    more = [
        method(name, "string, string -> bool", _on_strings(test), affix, guarded=False)
        for name, test in (("startsWith", str.startswith), ("endsWith", str.endswith))
    ]
    if reference.selectors_convert_int_to_duration:
        more.append(function("duration", "int -> duration", _not_a_duration))
    return (*_OVERLOADS, *more)
