"""Compiles a selector of a device class or request, and evaluates it for devices."""

from typing import Final

from scheduler.cel.device import Device
from scheduler.cel.errors import CompileError, EvaluationError, Failure
from scheduler.cel.language.checker import check
from scheduler.cel.language.parser import parse
from scheduler.cel.language.source import Source
from scheduler.cel.language.syntax import Node
from scheduler.cel.language.types import ANY, BOOL
from scheduler.cel.language.validators import validate
from scheduler.cel.planning.planner import Plan, plan
from scheduler.cel.planning.reads import Reads, reads_of
from scheduler.cel.values import NONE, Optional, type_name

__all__ = ["Selector", "compile_selector"]

_REASONS: Final = {
    "string": "unsupported native conversion from string to 'bool'",
    "int": "unsupported type conversion from 'int' to bool",
    "uint": "unsupported type conversion from 'uint' to bool",
    "double": "type conversion error from Double to 'bool'",
    "bytes": "type conversion error from Bytes to 'bool'",
    "list": "type conversion error from list to 'bool'",
    "map": "type conversion error from map to 'bool'",
    "null_type": "type conversion error from 'null_type' to 'bool'",
    "type": "type conversion not supported for 'type'",
    "google.protobuf.Duration": "type conversion error from 'Duration' to 'bool'",
    "google.protobuf.Timestamp": "type conversion error from 'Timestamp' to 'bool'",
}


class Selector:
    """A compiled expression.

    Attributes:
        expression: its text.
        reads: which parts of a device it reads: ("driver",), ("allowMultipleAllocations",),
            ("attributes", domain, name), ("capacity", domain, name). None: it may read all of it.
            Devices that are equal in these parts have the same result, so it can be evaluated once
            for each distinct projection.

    Source: dynamic-resource-allocation v0.36.3 cel.CompilationResult.
    """

    __slots__ = ("_plan", "expression", "reads")

    def __init__(self, expression: str, tree: Node, planned: Plan) -> None:
        self.expression: str = expression
        self.reads: Reads | None = reads_of(tree)
        self._plan = planned

    def evaluate(self, device: Device) -> bool:
        """Return whether the selector selects a device.

        Raises:
            EvaluationError: as upstream where the evaluation fails, or costs too much.
        """
        view = device.view
        if view.error is not None:
            raise EvaluationError(str(view.error))
        result = self._plan.run(view.fields)
        if result is True or result is False:
            return result
        raise EvaluationError(_not_bool(result))


def _not_bool(result: object) -> str:
    """Return what upstream says of a result that is not a bool."""
    held = result
    while isinstance(held, Optional) and held is not NONE:
        held = held.value
    if held is NONE:
        reason = "optional.none() dereference"
    else:
        name = type_name(held)
        reason = _REASONS.get(
            name, f"type conversion error from '{name.rpartition('.')[2]}' to 'bool'"
        )
    return f"CEL result of type {type_name(result)} could not be converted to bool: {reason}"


def compile_selector(expression: str) -> Selector:
    """Return the compiled form of an expression.

    Raises:
        CompileError: it is not a valid selector.
    """
    source = Source(expression)
    tree = parse(source)
    check(tree, source)
    validate(tree, source)
    if tree.type not in (BOOL, ANY):
        raise CompileError(f"must evaluate to bool or the unknown type, not {tree.type}")
    try:
        planned = plan(tree, len(expression))
    except Failure as error:
        raise CompileError(f"program instantiation failed: {error}") from None
    return Selector(expression, tree, planned)
