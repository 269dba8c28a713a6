"""What is refused beyond types: mixed lists, and bad constants of a few functions.

Source: cel-go v0.26.0 cel/validator.go, ext/formatting.go; apiserver v0.36.3 environment/base.go.
"""

from scheduler.cel.errors import CelFailure
from scheduler.cel.language.source import Source
from scheduler.cel.language.syntax import (
    Call,
    Expr,
    ListLiteral,
    Literal,
    MapLiteral,
    children,
)
from scheduler.cel.language.types import DYN, Type, shown
from scheduler.cel.library.formatting import clauses, type_fits, unfit
from scheduler.cel.library.times import parse_duration, parse_timestamp, timestamp_of_seconds
from scheduler.cel.regex import RegexError, compile_pattern
from scheduler.cel.values import Value

__all__ = ["validate"]


def validate(root: Expr, source: Source) -> None:
    """Check a typed tree.

    Raises:
        CompileError: something is refused.
    """
    pending = [(root, False)]
    while pending:
        node, within_format = pending.pop()
        if isinstance(node, Call):
            _check_call(node, source)
            within_format = within_format or node.function == "format"
        elif not within_format and isinstance(node, ListLiteral | MapLiteral):
            _check_homogeneous(node, source)
        pending.extend((child, within_format) for child in children(node))


def _check_homogeneous(node: ListLiteral | MapLiteral, source: Source) -> None:
    if isinstance(node, ListLiteral):
        optional = [index in node.optional for index in range(len(node.elements))]
        _check_equal(list(zip(node.elements, optional, strict=True)), source)
        return
    _check_equal([(entry.key, False) for entry in node.entries], source)
    _check_equal([(entry.value, entry.optional) for entry in node.entries], source)


def _check_equal(elements: list[tuple[Expr, bool]], source: Source) -> None:
    """Check that elements have the same type; the flag says that an element is optional."""
    first: Type | None = None
    for node, optional in elements:
        of = node.type
        if optional:
            of = of.parameters[0] if of.parameters else DYN
        if first is None:
            first = of
        elif of != first:
            message = f"expected type '{shown(first)}' but found '{shown(of)}'"
            raise source.error(node.position, message)


def _check_call(node: Call, source: Source) -> None:
    first = node.arguments[0] if node.arguments else None
    if node.function == "format":
        _check_format(node, source)
    if not isinstance(first, Literal):
        return
    if not _is_valid(node.function, first.value):
        raise source.error(first.position, f"invalid {node.function} argument")


def _is_valid(function: str, value: Value) -> bool:
    """Return whether the constant argument of a function is valid."""
    try:
        if function == "duration":
            return isinstance(value, str) and parse_duration(value) is not None
        if function == "timestamp" and isinstance(value, str):
            parse_timestamp(value)
        elif function == "timestamp":
            timestamp_of_seconds(value)
        elif function == "matches":
            compile_pattern(value)
    except (CelFailure, RegexError):
        return False
    return True


def _check_format(node: Call, source: Source) -> None:
    (arguments,) = node.arguments
    if not isinstance(node.target, Literal) or not isinstance(arguments, ListLiteral):
        return
    elements = arguments.elements
    try:
        _, found = clauses(node.target.value, len(elements))
    except CelFailure as error:
        raise source.error(node.position, str(error)) from None
    for (clause, _), element in zip(found, elements, strict=False):
        _check_clause(clause, element, source)
    if len(elements) > len(found):
        message = (
            "too many arguments supplied to string.format "
            f"(expected {len(found)}, got {len(elements)})"
        )
        raise source.error(node.position, message)


def _check_clause(clause: str, node: Expr, source: Source) -> None:
    name = node.type.name
    if name != "dyn" and not type_fits(clause, name):
        raise source.error(node.position, unfit(clause, name))
    if clause == "s" and isinstance(node, ListLiteral | MapLiteral):
        for child in children(node):
            _check_clause(clause, child, source)
