"""`text.format(arguments)`, and the check of constant formats.

Source: cel-go v0.26.0 ext/formatting.go (strings library version 2).
"""

import re
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Final

from scheduler.cel.errors import Cancelled, CelFailure
from scheduler.cel.library.overloads import LONGEST_RESULT
from scheduler.cel.library.times import duration_text, timestamp_text
from scheduler.cel.values import (
    Duration,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    from_key,
    go_double,
    go_quote,
    type_name,
)

__all__ = ["clauses", "format_text", "type_fits", "unfit"]

_CLAUSE: Final = re.compile(r"(?:\.([0-9]*))?(.)?", re.DOTALL)
_PRECISION: Final = 6
_LARGEST_PRECISION: Final = 1000
_SPECIAL: Final = {"NaN": "NaN", "Infinity": "\u221e", "-Infinity": "-\u221e"}

#: What each clause takes, and what it says of the rest.
_TAKES: Final = {
    "s": (
        ("list", "map", "int", "uint", "double", "bool", "string", "google.protobuf.Timestamp",
         "bytes", "google.protobuf.Duration", "type", "null_type"),
        "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, "
        "types, durations, and timestamps",
    ),
    "d": (("int", "uint"), "decimal clause can only be used on integers"),
    "f": (("double", "string"), "fixed-point clause can only be used on doubles"),
    "e": (("double", "string"), "scientific clause can only be used on doubles"),
    "b": (("int", "uint", "bool"), "only integers and bools can be formatted as binary"),
    "x": (
        ("int", "uint", "string", "bytes"),
        "only integers, byte buffers, and strings can be formatted as hex",
    ),
    "o": (("int", "uint"), "octal clause can only be used on integers"),
}  # fmt: skip


def type_fits(clause: str, name: str) -> bool:
    """Return whether a clause takes values of a type."""
    return name in _TAKES[clause.lower()][0]


def unfit(clause: str, name: str) -> str:
    """Return the error message for a clause that gets an argument of an unsupported type."""
    return f"error during formatting: {_TAKES[clause.lower()][1]}, was given {name}"


def clauses(text: str, available: int) -> tuple[list[str], list[tuple[str, int]]]:
    """Split a format.

    Returns:
        The texts around the clauses, one more than clauses; each clause with its precision.

    Raises:
        Failure: it is malformed, or has more clauses than arguments are available.
    """
    around, found, at = [""], list[tuple[str, int]](), 0
    while True:
        percent = text.find("%", at)
        if percent < 0:
            around[-1] += text[at:]
            return around, found
        around[-1] += text[at:percent]
        if text.startswith("%", percent + 1):
            around[-1] += "%"
            at = percent + 2
            continue
        if len(found) >= available:
            raise CelFailure(f"index {len(found)} out of range")
        if percent + 1 >= len(text):
            raise CelFailure("unexpected end of string")
        clause, precision, at = _clause(text, percent + 1)
        found.append((clause, precision))
        around.append("")


def _clause(text: str, at: int) -> tuple[str, int, int]:
    match = _CLAUSE.match(text, at)
    assert match is not None
    problem = "could not parse formatting clause: "
    if match[2] is None:
        raise CelFailure(
            f"{problem}error while parsing precision: could not find end of precision specifier"
        )
    precision = _PRECISION
    if match[1] is not None:
        if not match[1]:
            inner = "error while parsing precision: error while converting precision to integer"
            raise CelFailure(f'{problem}{inner}: strconv.Atoi: parsing "": invalid syntax')
        precision = min(int(match[1][:9]), LONGEST_RESULT)
    if match[2] not in "sdfebxXo":
        raise CelFailure(f'{problem}unrecognized formatting clause "{match[2]}"')
    return match[2], precision, match.end()


def format_text(text: str, arguments: list[Value]) -> str:
    """Return a text with its clauses replaced by arguments."""
    around, found = clauses(text, len(arguments))
    parts, size = [around[0]], len(around[0])
    for (clause, precision), argument, after in zip(found, arguments, around[1:], strict=False):
        parts.extend((_formatted(clause, precision, argument), after))
        size += len(parts[-2]) + len(after)
        if size > LONGEST_RESULT:
            raise Cancelled
    return "".join(parts)


def _formatted(clause: str, precision: int, value: Value) -> str:
    name = type_name(value)
    special = clause in "fe" and name == "string"
    if not type_fits(clause, name) or (special and value not in _SPECIAL):
        raise CelFailure(unfit(clause, name))
    if clause in "fe":
        return _float_text(clause, precision, value)
    if clause in "xX":
        return _hex(value).upper() if clause == "X" else _hex(value)
    if clause in "bo":
        return format(int(value), clause)
    return str(value) if clause == "d" else _text(value)


def _float_text(clause: str, precision: int, value: Value) -> str:
    number = float(value.replace("Infinity", "inf")) if isinstance(value, str) else value
    if number != number:  # noqa: PLR0124 - NaN
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "∞" if number > 0 else "-∞"
    if precision > _LARGEST_PRECISION:
        raise Cancelled
    if clause == "f":
        return _grouped(number, precision)
    mantissa, _, exponent = format(number, f".{precision}e").partition("e")
    power = int(exponent)
    return f"{mantissa}\u202f\u00d7\u202f10{_superscript(power)}"


def _superscript(power: int) -> str:
    digits = str(abs(power)).rjust(2, "0")
    shown = "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in digits)
    return ("⁻" if power < 0 else "") + shown


def _grouped(number: float, precision: int) -> str:
    """Return a number with commas between thousands, as in English."""
    context = Context(prec=_LARGEST_PRECISION + 400, rounding=ROUND_HALF_EVEN)
    rounded = Decimal(number).quantize(Decimal(1).scaleb(-precision), context=context)
    return format(rounded, f",.{precision}f")


def _hex(value: Value) -> str:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").hex()
    if isinstance(value, bytes):
        return value.hex()
    return format(int(value), "x")


def _text(value: Value) -> str:
    """Return a value as `%s` shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    return _TEXTS[type_name(value)](value)


def _bytes_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        shown = 'could not convert argument "invalid UTF-8 in bytes, cannot convert to string"'
        raise CelFailure(f"error during formatting: {shown} to string") from None


def _list_text(elements: list[Value]) -> str:
    return f"[{', '.join(map(_element, elements))}]"


def _map_text(entries: dict[Value, Value]) -> str:
    pairs = sorted((_element(from_key(key)), _element(value)) for key, value in entries.items())
    return "{" + ", ".join(f"{key}:{value}" for key, value in pairs) + "}"


def _element(value: Value) -> str:  # noqa: PLR0911 - one case for each type
    """Return an element of a list or map as it is shown in it: like a literal."""
    if isinstance(value, str):
        return go_quote(value)
    if isinstance(value, bytes):
        return "b" + go_quote(value.decode("utf-8", "replace"))
    if isinstance(value, float):
        special = {"+Inf": '"+Inf"', "-Inf": '"-Inf"', "NaN": '"NaN"'}
        shown = go_double(value)
        return special.get(shown) or f"{value:.6f}"
    if isinstance(value, Timestamp):
        return f'timestamp("{timestamp_text(value)}")'
    if isinstance(value, Duration):
        return f'duration("{duration_text(value)}")'
    if isinstance(value, TypeValue):
        return f"type({value.name})"
    name = type_name(value)
    if not type_fits("s", name):
        raise CelFailure(f"error during formatting: no formatting function for {name}")
    return _text(value)


_TEXTS: Final[dict[str, Callable[[Value], str]]] = {
    "list": _list_text,
    "map": _map_text,
    "int": str,
    "uint": lambda value: str(Uint(value)),
    "double": go_double,
    "string": str,
    "bytes": _bytes_text,
    "type": lambda value: str(value.name),
    "google.protobuf.Timestamp": timestamp_text,
    "google.protobuf.Duration": duration_text,
}
