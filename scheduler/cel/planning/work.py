"""Estimates how long parts of an evaluation take here, in units of about a microsecond.

The cost that upstream counts is not proportional to the time: a term of `||` costs nothing, and the
cost of a pattern depends on its length only, however often it repeats its parts. The estimate here
is an upper bound of the time, also for the worst case of a call.
"""

from collections.abc import Callable
from typing import Final

from scheduler.cel.language.syntax import Expr, Fold, children
from scheduler.cel.library.patterns import native_text
from scheduler.cel.library.quantity import Quantity
from scheduler.cel.regex import LARGEST, RegexError, compile_pattern
from scheduler.cel.values import DefaultMap, Optional, Value, from_key

__all__ = ["CONSTANT_TIME", "of_call", "of_pattern", "of_text", "of_value", "weight"]

#: Texts up to this length take no longer than a call does.
_SHORT: Final = 64
#: Patterns that are longer are not compiled to find out how long a search takes.
_LONG_PATTERN: Final = 20_000
_SCALARS: Final = (bool, int, float, type(None))
_MAPS: Final = (dict, DefaultMap)
#: Functions that take as long for a large value as for a small one.
CONSTANT_TIME: Final = frozenset(
    ("size", "first", "last", "hasValue", "value", "optional.of", "dyn", "type")
)
#: Functions that take longer than others for a short text.
_PARSING: Final = frozenset(
    ("ip", "cidr", "url", "isIP", "isCIDR", "isURL", "ip.isCanonical", "containsIP", "containsCIDR")
)
_PARSING_WORK: Final = 6


def weight(root: Expr) -> int:
    """Return how many nodes are evaluated at most, without the bodies of comprehensions."""
    total, pending = 0, [root]
    while pending:
        node = pending.pop()
        total += 1
        if isinstance(node, Fold):
            pending.append(node.target)
        else:
            pending.extend(children(node))
    return total


def of_text(length: int) -> int:
    """Return the work of reading a text in a call, beside the call itself."""
    return max(0, length - _SHORT) >> 3


def of_value(value: Value) -> int:
    """Return the work of reading a value with all that is in it."""
    if type(value) in _SCALARS:
        return 0
    work, pending = 0, [value]
    while pending:
        one = pending.pop()
        kind = type(one)
        if kind is str or kind is bytes:
            work += of_text(len(one))
        elif kind is list:
            inner = [each for each in one if type(each) not in _SCALARS]
            work += 1 + len(one) // 2 + len(inner) // 2
            pending.extend(inner)
        elif kind in _MAPS:
            work += 1 + len(one)
            pending.extend(each for each in one.values() if type(each) not in _SCALARS)
            pending.extend(from_key(key) for key in one if type(key) is not int)
        elif kind is Optional:
            pending.append(one.value)
        elif kind is Quantity:
            work += (one.number.bit_length() + 4 * abs(one.exponent)) >> 8
    return work


def of_call(name: str, values: tuple[Value, ...]) -> int:
    """Return the work of a call of a function, beyond that of its node."""
    if name in CONSTANT_TIME:
        return 0
    if name == "@in" and type(values[1]) in _MAPS:
        return of_value(values[0])
    special = _SPECIAL.get(name)
    work = _PARSING_WORK if name in _PARSING else 0
    return work + sum(map(of_value, values)) + (0 if special is None else special(values))


def of_pattern(pattern: str, length: int) -> int:
    """Return the work of searching a text of some length for a pattern once."""
    if len(pattern) > _LONG_PATTERN:
        return len(pattern) * _SHORT
    try:
        size = compile_pattern(pattern).size
    except RegexError as error:
        return LARGEST if error.too_large else len(pattern)
    # An instruction takes 15 to 60 ns for a character.
    return len(pattern) // 8 + size * (length + 2) // 16


def _search(values: tuple[Value, ...]) -> int:
    text, pattern = native_text(values[0]), values[1]
    if type(text) is not str or type(pattern) is not str:
        return 0
    return of_pattern(pattern, len(text))


def _searches(values: tuple[Value, ...]) -> int:
    """Return the work of `findAll`: each search may read all of the rest."""
    text = native_text(values[0])
    most = len(text) + 1 if type(text) is str else 1
    if len(values) > 2 and type(values[2]) is int and values[2] >= 0:
        most = min(most, values[2])
    return _search(values) * max(1, most)


def _pairs(values: tuple[Value, ...]) -> int:
    """Return the work of comparing all elements of two lists, or of one."""
    left, right = values[0], values[-1]
    return len(left) * of_value(right) if type(left) is list else 0


def _formatting(values: tuple[Value, ...]) -> int:
    """Return the work of writing values: each character is looked at."""
    return 8 * sum(map(of_value, values))


_SPECIAL: Final[dict[str, Callable[[tuple[Value, ...]], int]]] = {
    "matches": _search,
    "find": _search,
    "findAll": _searches,
    "distinct": _pairs,
    "sets.contains": _pairs,
    "sets.intersects": _pairs,
    "sets.equivalent": lambda values: 2 * _pairs(values),
    "format": _formatting,
}
