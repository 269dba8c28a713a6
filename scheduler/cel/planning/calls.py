"""Closures for calls of functions.

Where all types are sure, the only overload that fits is called directly. Else the values decide,
as in upstream's dispatcher.

Source: cel-go v0.26.0 interpreter/planner.go planCall, common/decls FunctionDecl.Bindings.
"""

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from scheduler.cel.errors import CelFailure, no_such_overload
from scheduler.cel.language.syntax import Call, Expr, Ident, Literal, Select
from scheduler.cel.language.types import Type, is_dyn
from scheduler.cel.library.overloads import Cost, Implementation, Overload, one
from scheduler.cel.library.patterns import native_text
from scheduler.cel.planning.budget import Environment, charge, charge_size, charge_work
from scheduler.cel.planning.work import CONSTANT_TIME, of_call
from scheduler.cel.values import Value, from_key, type_name

__all__ = ["Constant", "Step", "call_step", "dispatched"]

#: A compiled node: takes the environment, returns the value.
Step: TypeAlias = Callable[[Environment], Value]


_NO_ENVIRONMENT: Final[Environment] = []
_WITH_PATTERN: Final = frozenset(("matches", "find", "findAll"))
#: Functions that upstream binds for any number of arguments.
_VARIADIC: Final = frozenset(("check", "fieldSelector", "format", "group", "labelSelector", "path"))
#: Functions of texts that are often called with a literal.
_PARSERS: Final = frozenset(("quantity", "semver", "ip", "cidr", "url", "isQuantity", "isSemver"))


#: Functions whose cost follows from the name, even where no single overload fits the static types.
_COST_BY_NAME: Final = frozenset(
    (
        "_==_", "asApproximateFloat", "asInteger", "check", "cidr", "compareTo", "containsCIDR",
        "containsIP", "fieldSelector", "find", "findAll", "indexOf", "ip", "ip.isCanonical",
        "isCIDR", "isIP", "isQuantity", "isSemver", "isSorted", "includes", "join",
        "labelSelector", "lastIndexOf", "lowerAscii", "max", "min", "quantity", "replace",
        "semver", "split", "substring", "sum", "trim", "upperAscii", "url", "validate",
    )
)  # fmt: skip


class Constant:
    """A closure that gives the same value always."""

    __slots__ = ("value",)

    def __init__(self, value: Value) -> None:
        self.value = value

    def __call__(self, _environment: Environment) -> Value:
        """Return the value."""
        return self.value


def call_step(node: Call, arguments: list[Step], *, tracked: bool) -> Step:
    """Return the closure for a call with its evaluated arguments."""
    implementation, cost = dispatched(node, arguments)
    if tracked:
        together = _takes_failures(node, arguments)
        call = _Call(node.function, implementation, cost)
        return _tracked(call, arguments, together=together)
    if node.function in _PARSERS and all(isinstance(each, Constant) for each in arguments):
        return _parsed(implementation, [each(_NO_ENVIRONMENT) for each in arguments])
    if len(arguments) == 1:
        (only,) = arguments
        return lambda environment: implementation(only(environment))
    if len(arguments) == 2:
        first, second = arguments
        return lambda environment: implementation(first(environment), second(environment))
    return lambda environment: implementation(*[each(environment) for each in arguments])


def _parsed(implementation: Implementation, values: list[Value]) -> Step:
    """Return the closure that gives the result of parsing a literal, which is computed once."""
    try:
        result = implementation(*values)
    except CelFailure:
        # It fails each time: one failure that is raised many times would collect tracebacks.
        return lambda _: implementation(*values)
    return lambda _: result


def _takes_failures(node: Call, arguments: list[Step]) -> bool:
    """Return whether all arguments of a call are evaluated, even if one of them fails.

    Upstream has a fast path for two arguments, which functions with a constant pattern do not take,
    nor those whose overload depends on the values.
    """
    pattern = _has_constant_pattern(node, arguments)
    operator = node.function.startswith(("_", "@"))
    single = len(node.overloads) == 1 and node.function not in _VARIADIC and not pattern
    return len(arguments) == 2 and (operator or single)


class _Call(NamedTuple):
    function: str
    implementation: Implementation
    cost: Cost


def _tracked(call: _Call, arguments: list[Step], *, together: bool) -> Step:
    function, implementation, cost = call
    # What only looks at a value makes nothing, however large the value is.
    sized = function not in CONSTANT_TIME

    def step(environment: Environment) -> Value:
        values, failure = _evaluated(environment, arguments, together=together)
        if len(values) < len(arguments):
            raise failure or AssertionError
        result: Value = failure
        if failure is None:
            charge_work(environment, of_call(function, values))
            for each in values if sized else ():
                if isinstance(each, list) or (isinstance(each, dict) and function != "@in"):
                    charge_size(environment, each)
            result = _outcome(implementation, values)
        charge(environment, cost(values, result))
        if isinstance(result, CelFailure):
            raise result
        if sized and isinstance(result, str | bytes | list | dict):
            charge_size(environment, result)
        return result

    return step


def _evaluated(
    environment: Environment, arguments: list[Step], *, together: bool
) -> tuple[tuple[Value, ...], CelFailure | None]:
    """Return the arguments of a call, with failures among them, and the first failure.

    If they are not evaluated together, those behind a failure are missing; the call is free then.
    """
    values: list[Value] = []
    failure: CelFailure | None = None
    for each in arguments:
        try:
            values.append(each(environment))
        except CelFailure as error:
            values.append(error)
            failure = failure or error
            if not together:
                break
    return tuple(values), failure


def _outcome(implementation: Implementation, values: tuple[Value, ...]) -> Value:
    try:
        return implementation(*values)
    except CelFailure as error:
        return error


def dispatched(node: Call, arguments: list[Step]) -> tuple[Implementation, Cost]:
    """Return what a call does and what it costs."""
    first, *others = node.overloads
    constant_pattern = _has_constant_pattern(node, arguments)
    by_name = not others or node.function in _COST_BY_NAME
    cost = node.overloads[-1].cost if by_name else one
    if not others and _is_known(node):
        return first.implementation, cost
    if constant_pattern:
        return _with_constant_pattern(node.overloads), cost
    return _guarded(node) if first.guarded else first.implementation, cost


def _is_known(node: Call) -> bool:
    """Return whether the values of all arguments are sure to have their static types."""
    targets = () if node.target is None else (node.target,)
    return all(_is_sure(each) for each in (*targets, *node.arguments))


def _is_sure(node: Expr) -> bool:
    """Return whether the value of a node is sure to have its static type.

    `orValue` and `?:` can give something else where an operand is known only at run time.
    """
    if isinstance(node, Literal) or (node.type.name == "kubernetes.Quantity" and _is_path(node)):
        return True
    if isinstance(node, Call) and len(node.overloads) == 1:
        (overload,) = node.overloads
        result = overload.result
        plain = not (result.variable or result.parameters or is_dyn(result))
        return overload.guarded and plain
    return isinstance(node, Select) and node.type.name == "string" and _is_path(node)


def _is_path(node: Expr) -> bool:
    """Return whether a node selects from the device by constants."""
    while isinstance(node, Select | Call):
        if isinstance(node, Select):
            node = node.operand
        elif node.function == "_[_]":
            node = node.arguments[0]
        else:
            return False
    return isinstance(node, Ident) and node.type.name == "kubernetes.DRADevice"


def _fitting(candidates: tuple[Overload, ...], values: tuple[Value, ...]) -> Overload | None:
    for overload in candidates:
        if len(overload.arguments) == len(values) and all(map(_fits, overload.arguments, values)):
            return overload
    return None


def _has_constant_pattern(node: Call, arguments: list[Step]) -> bool:
    return node.function in _WITH_PATTERN and isinstance(arguments[1], Constant)


def _with_constant_pattern(candidates: tuple[Overload, ...]) -> Implementation:
    def implementation(text: Value, *others: Value) -> Value:
        values = native_text(text), *others
        overload = _fitting(candidates, values)
        if overload is None:
            raise no_such_overload()
        return overload.implementation(*values)

    return implementation


def _guarded(node: Call) -> Implementation:
    name, candidates = node.function, node.overloads

    def implementation(*values: Value) -> Value:
        overload = _fitting(candidates, values)
        if overload is None:
            types = ", ".join(map(type_name, values))
            raise CelFailure(f"no such overload: {name}({types})")
        return overload.implementation(*values)

    return implementation


def _fits(declared: Type, value: Value) -> bool:
    """Return whether a value has a declared type; of lists and maps only the first one is asked."""
    if declared.variable or is_dyn(declared):
        return True
    if declared.name != type_name(value):
        return False
    if declared.name == "list" and value:
        return _fits(declared.parameters[0], value[0])
    if declared.name == "map" and value:
        key, held = next(iter(value.items()))
        return _fits(declared.parameters[0], from_key(key)) and _fits(declared.parameters[1], held)
    return True
