"""Calls that stand for something else: `has`, comprehensions, `cel.bind`, `optMap`, `sortBy`.

Source: cel-go v0.26.0 parser/macro.go, ext.Bindings, ext.TwoVarComprehensions, ext.Lists,
cel.OptionalTypes. Upstream expands all of them to one general comprehension; here each keeps its
meaning, which is faster to evaluate and evaluates the target of `optMap` once.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from scheduler.cel.language.source import Source
from scheduler.cel.language.syntax import BoundVariable, Call, Expr, Fold, Ident, Select

__all__ = ["MACROS", "expand"]

_Macro: TypeAlias = Callable[[Call, Source], Expr | None]

#: Names that the accumulator of a comprehension has had.
_ACCUMULATORS: Final = ("__result__", "@result")


def expand(call: Call, source: Source) -> Expr | None:
    """Return what a call stands for; None if it is not a macro.

    Raises:
        CompileError: it is one, with arguments that it does not take.
    """
    macro = MACROS.get((call.function, len(call.arguments), call.target is not None))
    return None if macro is None else macro(call, source)


def _has(call: Call, source: Source) -> Expr:
    (argument,) = call.arguments
    if not isinstance(argument, Select) or argument.optional:
        raise source.error(argument.position, "invalid argument to has() macro")
    return Select(argument.operand, argument.field, test=True, position=call.position)


def _variable(argument: Expr, source: Source, message: str) -> str:
    if not isinstance(argument, Ident):
        raise source.error(argument.position, message)
    if argument.name in _ACCUMULATORS:
        text = "iteration variable overwrites accumulator variable"
        raise source.error(argument.position, text)
    return argument.name


def _names(call: Call, source: Source, count: int, message: str) -> tuple[str, ...]:
    names = tuple(_variable(each, source, message) for each in call.arguments[:count])
    if len(set(names)) < count:
        position = call.arguments[1].position
        raise source.error(position, f"duplicate variable name: {names[0]}")
    return names


def _fold(kind: str, variables: int, message: str = "argument must be a simple name") -> _Macro:
    """Return the macro for `target.kind(variables, body)`, with a condition before the body."""

    def macro(call: Call, source: Source) -> Expr:
        names = _names(call, source, variables, message)
        rest = call.arguments[variables:]
        condition = rest[0] if len(rest) == 2 else None
        assert call.target is not None
        return Fold(kind, call.target, names, condition, rest[-1], position=call.position)

    return macro


def _filter(call: Call, source: Source) -> Expr:
    names = _names(call, source, 1, "argument is not an identifier")
    body = Ident(names[0], position=call.arguments[0].position)
    assert call.target is not None
    return Fold("map", call.target, names, call.arguments[1], body, position=call.position)


def _bind(call: Call, source: Source) -> Expr | None:
    if not isinstance(call.target, Ident) or call.target.name != "cel":
        return None
    name, value, body = call.arguments
    if not isinstance(name, Ident):
        text = "cel.bind() variable names must be simple identifiers"
        raise source.error(name.position, text)
    return BoundVariable("bind", name.name, value, body, position=call.position)


def _optional_map(kind: str) -> _Macro:
    def macro(call: Call, source: Source) -> Expr:
        name, body = call.arguments
        if not isinstance(name, Ident):
            text = f"{kind}() variable name must be a simple identifier"
            raise source.error(name.position, text)
        assert call.target is not None
        return BoundVariable(kind, name.name, call.target, body, position=call.position)

    return macro


def _sort_by(call: Call, source: Source) -> Expr:
    name = _names(call, source, 1, "argument is not an identifier")[0]
    assert call.target is not None
    return BoundVariable("sortBy", name, call.target, call.arguments[1], position=call.position)


_IDENTIFIER: Final = "argument is not an identifier"

#: Macros by name, number of arguments, and whether they are called as methods.
MACROS: Final[dict[tuple[str, int, bool], _Macro]] = {
    ("has", 1, False): _has,
    ("all", 2, True): _fold("all", 1),
    ("all", 3, True): _fold("all", 2),
    ("exists", 2, True): _fold("exists", 1),
    ("exists", 3, True): _fold("exists", 2),
    ("exists_one", 2, True): _fold("exists_one", 1),
    ("exists_one", 3, True): _fold("exists_one", 2),
    ("existsOne", 3, True): _fold("exists_one", 2),
    ("map", 2, True): _fold("map", 1, _IDENTIFIER),
    ("map", 3, True): _fold("map", 1, _IDENTIFIER),
    ("filter", 2, True): _filter,
    ("transformList", 3, True): _fold("map", 2),
    ("transformList", 4, True): _fold("map", 2),
    ("transformMap", 3, True): _fold("transformMap", 2),
    ("transformMap", 4, True): _fold("transformMap", 2),
    ("transformMapEntry", 3, True): _fold("transformMapEntry", 2),
    ("transformMapEntry", 4, True): _fold("transformMapEntry", 2),
    ("bind", 3, True): _bind,
    ("optMap", 2, True): _optional_map("optMap"),
    ("optFlatMap", 2, True): _optional_map("optFlatMap"),
    ("sortBy", 2, True): _sort_by,
}
