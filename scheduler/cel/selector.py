"""Compiles a selector of a device class or request, and evaluates it for devices."""

from typing import Final

from scheduler.cel.device import CelDevice, refusal
from scheduler.cel.errors import CelFailure, CompileError, EvaluationError
from scheduler.cel.language.checker import check
from scheduler.cel.language.parser import parse
from scheduler.cel.language.source import Source
from scheduler.cel.language.syntax import Expr
from scheduler.cel.language.types import ANY, BOOL, DYN
from scheduler.cel.language.validators import validate
from scheduler.cel.planning.budget import COST, WORK, ceiling
from scheduler.cel.planning.planner import Plan, plan
from scheduler.cel.planning.reads import DeviceReads, reads
from scheduler.cel.values import NONE, Optional, type_name
from scheduler.model.releases import Reference

__all__ = ["CompilationResult", "compile_selector", "typed_tree"]

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


class CompilationResult:
    """A compiled expression.

    Source: dynamic-resource-allocation v0.36.3 and v0.37.2 cel.CompilationResult.
    """

    __slots__ = ("_ceiling", "_knows_lists", "_plan", "cost", "reads", "work")

    def __init__(
        self, planned: Plan, most: int | None, read: DeviceReads | None, *, knows_lists: bool
    ) -> None:
        self._plan = planned
        self._ceiling = most
        self._knows_lists = knows_lists
        #: What of a device the result depends on; None if that is anything.
        self.reads = read
        #: What the last evaluation has cost; the most that it can cost where that is not counted.
        self.cost = 0
        #: About how many microseconds it has taken, or can have taken.
        self.work = 0

    def evaluate(self, device: CelDevice, most_work: int | None = None) -> bool:
        """Return whether the selector selects a device.

        Args:
            device: what it is evaluated for.
            most_work: an evaluation that takes more work is cancelled; None for no limit.

        Raises:
            EvaluationError: as upstream where the evaluation fails, or costs too much.
        """
        refused = refusal(device, knows_lists=self._knows_lists)
        if refused is not None:
            raise EvaluationError(refused)
        environment = self._plan.environment(device.view.fields, most_work)
        try:
            result = self._plan.run(environment)
        finally:
            self.cost = environment[COST] if self._ceiling is None else self._ceiling
            self.work = environment[WORK] if self._ceiling is None else self._ceiling
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


def compile_selector(expression: str, reference: Reference) -> CompilationResult:
    """Return the compiled form of an expression.

    Args:
        expression: its text.
        reference: whose rules hold.

    Raises:
        CompileError: it is not a valid selector.
    """
    tree = typed_tree(expression, reference)
    most = ceiling(tree, len(expression))
    try:
        planned = plan(tree, reference, tracked=most is None)
    except CelFailure as error:
        raise CompileError(f"program instantiation failed: {error}") from None
    knows_lists = reference.selectors_know_list_attributes
    return CompilationResult(planned, most, reads(tree), knows_lists=knows_lists)


def typed_tree(expression: str, reference: Reference) -> Expr:
    """Return the syntax tree of a selector with the types of all nodes.

    Raises:
        CompileError: it is not a valid selector.
    """
    source = Source(expression)
    tree = parse(source, quotes_fields=reference.selectors_quote_fields)
    check(tree, source, reference)
    validate(tree, source)
    unknown = ANY if reference.selectors_type_attributes_as_any else DYN
    if tree.type not in (BOOL, unknown):
        raise CompileError(f"must evaluate to bool or the unknown type, not {tree.type}")
    return tree
