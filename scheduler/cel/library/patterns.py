"""Functions with regular expressions.

Source: cel-go v0.26.0 common/types/string.go Match; apiserver v0.36.3 cel/library/regex.go.
"""

from typing import Final

from scheduler.cel.errors import CelFailure, no_such_overload
from scheduler.cel.library.overloads import Overload, function, method, one, regex_cost
from scheduler.cel.regex import RegexError, compile_pattern
from scheduler.cel.values import NONE, Optional, TypeValue, Value
from scheduler.model.releases import Reference

__all__ = ["native_text", "overloads"]


def _matches(text: Value, pattern: Value) -> bool:
    if type(text) is not str or type(pattern) is not str:
        raise no_such_overload()
    try:
        return compile_pattern(pattern).matches(text)
    except RegexError as error:
        raise CelFailure(str(error)) from None


def _find(text: str, pattern: str) -> str:
    try:
        return compile_pattern(pattern).find(text)
    except RegexError as error:
        raise CelFailure(f"Illegal regex: {error}") from None


def _find_all(text: str, pattern: str, most: int = -1) -> list[Value]:
    try:
        return list(compile_pattern(pattern).find_all(text, most))
    except RegexError as error:
        raise CelFailure(f"Illegal regex: {error}") from None


def native_text(value: Value) -> Value:
    """Return the text that upstream takes a value for where a pattern is constant.

    It takes types for their names, and optionals for what they hold.
    """
    while type(value) is Optional and value is not NONE:
        value = value.value
    return value.name if type(value) is TypeValue else value


_OVERLOADS: Final = (
    method("matches", "string, string -> bool", _matches, regex_cost, guarded=False),
    method("find", "string, string -> string", _find, regex_cost),
    method("findAll", "string, string -> list(string)", _find_all, regex_cost),
    method("findAll", "string, string, int -> list(string)", _find_all, regex_cost),
)


def overloads(reference: Reference) -> tuple[Overload, ...]:
    """Return the functions of a release."""
    cost = regex_cost if reference.selectors_charge_matches else one
    return (
        function("matches", "string, string -> bool", _matches, cost, guarded=False),
        *_OVERLOADS,
    )
