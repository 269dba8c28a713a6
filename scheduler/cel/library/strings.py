"""Functions on strings, by code points.

Source: cel-go v0.26.0 ext/strings.go, version 2.
"""

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from scheduler.cel.errors import Cancelled, CelFailure
from scheduler.cel.library.formatting import format_text
from scheduler.cel.library.overloads import (
    LONGEST_RESULT,
    Cost,
    Overload,
    contents_cost,
    function,
    method,
    traversal,
)
from scheduler.cel.values import Value, show
from scheduler.model.releases import Reference

__all__ = ["overloads"]

_UPPER: Final = {code: code - 32 for code in range(ord("a"), ord("z") + 1)}
_LOWER: Final = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
#: What Go's unicode.IsSpace says is space.
_SPACE: Final = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"  # noqa: E501
_QUOTED: Final = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def _out_of_range(index: int) -> CelFailure:
    return CelFailure(f"index out of range: {index}")


def _char_at(text: str, index: int) -> str:
    if not 0 <= index <= len(text):
        raise _out_of_range(index)
    return text[index : index + 1]


def _bounded(index: int, text: str) -> int:
    """Return where nothing is found from an index on."""
    if index < 0:
        raise _out_of_range(index)
    return min(index, len(text))


def _unbounded(index: int, _text: str) -> int:
    return index


#: Takes an index and a text, returns where nothing is found from there on.
_Nothing: TypeAlias = Callable[[int, str], int]


def _index_of(nothing: _Nothing, text: str, part: str, offset: int = 0) -> int:
    if not part:
        return nothing(offset, text)
    if offset < 0:
        raise _out_of_range(offset)
    return -1 if offset >= len(text) else text.find(part, offset)


def _last_index_of(nothing: _Nothing, text: str, part: str, offset: int | None = None) -> int:
    if not part:
        return len(text) if offset is None else nothing(offset, text)
    if offset is None:
        if len(text.encode("utf-8", "replace")) < len(part.encode("utf-8", "replace")):
            return -1
        offset = len(text) - 1
    if offset < 0:
        raise _out_of_range(offset)
    return -1 if offset >= len(text) else _last_found(text[: offset + len(part)], part)


def _last_found(text: str, part: str) -> int:
    """Return what `text.rfind(part)` does, which takes quadratic time for some texts."""
    found = text[::-1].find(part[::-1])
    return found if found < 0 else len(text) - len(part) - found


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    count = -1 if count < 0 else count
    found = text.count(old)
    replaced = found if count < 0 else min(found, count)
    if len(text) + replaced * (len(new) - len(old)) > LONGEST_RESULT:
        raise Cancelled
    return text.replace(old, new, count)


def _split(text: str, separator: str, count: int = -1) -> list[Value]:
    if count == 0:
        return []
    if separator:
        return list(text.split(separator, count - 1 if count > 0 else -1))
    if 0 < count < len(text):
        return [*text[: count - 1], text[count - 1 :]]
    return list(text)


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise CelFailure(f"invalid substring range. start: {start}, end: {end}")
    if not 0 <= start <= len(text):
        raise _out_of_range(start)
    if end is not None and not 0 <= end <= len(text):
        raise _out_of_range(end)
    return text[start:end]


def _join(elements: list[Value], separator: str = "") -> str:
    for each in elements:
        if type(each) is not str:
            raise CelFailure(f"join: invalid input: {show(each)}")
    size = sum(map(len, elements)) + len(separator) * max(0, len(elements) - 1)
    if size > LONGEST_RESULT:
        raise Cancelled
    return separator.join(elements)


def _quote(text: str) -> str:
    return '"' + "".join(_QUOTED.get(each, each) for each in text) + '"'


def _join_cost(_arguments: tuple[Value, ...], result: Value) -> int:
    return traversal(2)((result,), None)


def _both(
    name: str, signature: str, more: str, call: Callable[..., Value], cost: Cost
) -> tuple[Overload, Overload]:
    """Declare a method that takes one argument more or not."""
    arguments, _, result = signature.partition(" ->")
    longer = f"{arguments}, {more} ->{result}"
    return method(name, signature, call, cost), method(name, longer, call, cost)


_OVERLOADS: Final = (
    method("charAt", "string, int -> string", _char_at),
    method("lowerAscii", "string -> string", lambda text: text.translate(_LOWER), traversal()),
    method("upperAscii", "string -> string", lambda text: text.translate(_UPPER), traversal()),
    *_both("replace", "string, string, string -> string", "int", _replace, traversal(2)),
    *_both("split", "string, string -> list(string)", "int", _split, traversal(2)),
    *_both("substring", "string, int -> string", "int", _substring, traversal()),
    method("trim", "string -> string", lambda text: text.strip(_SPACE), traversal()),
    method("format", "string, list(dyn) -> string", format_text, traversal()),
    function("strings.quote", "string -> string", _quote, traversal()),
    *_both("join", "list(string) -> string", "string", _join, _join_cost),
)


def overloads(reference: Reference) -> tuple[Overload, ...]:
    """Return the functions of a release."""
    nothing = _bounded if reference.selectors_bound_empty_search else _unbounded
    searches = (("indexOf", _index_of), ("lastIndexOf", _last_index_of))
    return (
        *_OVERLOADS,
        *(
            overload
            for name, search in searches
            for overload in _both(
                name, "string, string -> int", "int", partial(search, nothing), contents_cost
            )
        ),
    )
