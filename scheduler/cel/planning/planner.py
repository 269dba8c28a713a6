"""Compiles a typed tree to closures.

Each node becomes a function of the environment: a list with the device, the cost so far and the
variables. Expressions that could become expensive get closures that count what upstream counts.

It is longer than others because it has a case for every kind of node.

Source: cel-go v0.26.0 interpreter/planner.go, interpretable.go, decorators.go.
"""

from typing import Any, Final

from scheduler.cel.errors import Failure, no_such_overload
from scheduler.cel.language.syntax import (
    Bind,
    Call,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Node,
    Select,
)
from scheduler.cel.library.lists import sort_by_keys
from scheduler.cel.library.optionals import value_of
from scheduler.cel.planning.access import (
    attribute_step,
    charged,
    check_index,
    has_step,
    index_step,
)
from scheduler.cel.planning.budget import DEVICE, Environment, charge, charge_size
from scheduler.cel.planning.calls import Constant, Step, call_step, dispatched
from scheduler.cel.planning.folds import fold_step
from scheduler.cel.regex.matcher import compile_pattern
from scheduler.cel.regex.syntax import RegexError
from scheduler.cel.values import (
    NONE,
    Opaque,
    Optional,
    TypeValue,
    Value,
    equal,
    show,
    to_key,
    type_name,
)
from scheduler.model.reference import Reference

__all__ = ["Plan", "plan"]

#: Calls of these with a constant are evaluated when an expression is compiled.
_CONVERSIONS: Final = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
_WITH_PATTERN: Final = frozenset(("matches", "find", "findAll"))
_FIRST_VARIABLE: Final = 3
_NO_ENVIRONMENT: Final[Environment] = []
_LIST_COST: Final = 10
_MAP_COST: Final = 30


class Plan:
    """A compiled expression: `run` gives its value in an environment."""

    __slots__ = ("_empty", "run")

    def __init__(self, step: Step, variables: int) -> None:
        self.run = step
        self._empty = [None] * (_FIRST_VARIABLE - 1 + variables)
        self._empty[:2] = [0, 0]  # type: ignore[list-item]

    def environment(self, fields: dict[str, Any]) -> Environment:
        """Return the environment of one evaluation, for the fields of a device."""
        return [fields, *self._empty]


def plan(root: Node, reference: Reference, *, tracked: bool) -> Plan:
    """Return the compiled form of an expression.

    Args:
        root: its typed tree.
        reference: whose rules hold.
        tracked: whether the cost of an evaluation is counted, and limited.

    Raises:
        Failure: a part of it is constant, and cannot be evaluated.
    """
    planner = _Planner(reference, tracked=tracked)
    step = planner.step(root)
    return Plan(step, planner.variables)


class _Planner:
    def __init__(self, reference: Reference, *, tracked: bool) -> None:
        self._apart = reference.selectors_take_optionals_apart
        self._resolved = _taken_apart if self._apart else _as_it_is
        self._or_any_value = reference.selectors_or_any_value
        self._tracked = tracked
        self._scope: dict[str, list[Step]] = {}
        self.variables = 0

    def step(self, node: Node) -> Step:  # noqa: C901, PLR0911 - one case for each kind of node
        """Return the closure of a node."""
        match node:
            case Literal():
                return Constant(node.value)
            case Ident():
                return self._name(node.name, node.type.name)
            case Select():
                return self._selection(node)
            case Call():
                return self._call(node)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Fold():
                return self._fold(node)
            case Bind():
                return self._bind(node)
            case _:
                raise AssertionError(node)

    # Names and selections.

    def _name(self, name: str, kind: str) -> Step:
        known = self._scope.get(name)
        if known:
            return charged(known[-1], 1, tracked=self._tracked)
        name = name.removeprefix(".")
        if kind == "type":
            return Constant(TypeValue(name))
        return charged(lambda environment: environment[DEVICE], 1, tracked=self._tracked)

    def _selection(self, node: Select) -> Step:
        if node.type.name == "type" and not node.test:
            name = str(node.type.parameters[0])
            return Constant(TypeValue(name))
        attribute = None if node.test else self._attribute(node)
        if attribute is not None:
            return charged(attribute, 4, tracked=self._tracked)
        operand = self.step(node.operand)
        if node.test:
            return has_step(operand, node.field, apart=self._apart)
        field = Constant(node.field)
        step = index_step(operand, field, optional=node.optional, apart=self._apart)
        return charged(step, self._access_cost(node.operand), tracked=self._tracked)

    def _attribute(self, node: Node) -> Step | None:
        """Return the closure for a constant path to an attribute or capacity of the device."""
        path: list[str] = []
        while len(path) < 3:
            base, key = _selected(node)
            if base is None or key is None:
                return None
            path.append(key)
            node = base
        is_device = isinstance(node, Ident) and node.name.removeprefix(".") == "device"
        shadowed = isinstance(node, Ident) and bool(self._scope.get(node.name))
        if not is_device or shadowed or path[2] not in ("attributes", "capacity"):
            return None
        return attribute_step(path[2], path[1], path[0])

    def _access_cost(self, operand: Node) -> int:
        """Return what a selection costs; from the result of a call, as much as a name more."""
        is_path = isinstance(operand, Ident | Select) or (
            isinstance(operand, Call) and operand.function in ("_[_]", "_[?_]")
        )
        return 1 if is_path else 2

    # Calls.

    def _call(self, node: Call) -> Step:
        special = {
            "_&&_": self._and,
            "_||_": self._or,
            "_?_:_": self._conditional,
            "_[_]": self._index,
            "_[?_]": self._index,
            "or": self._or_value,
            "orValue": self._or_value,
            "_==_": self._equality,
        }.get(node.function)
        if special is not None:
            return special(node)
        targets = () if node.target is None else (node.target,)
        arguments = [self.step(each) for each in (*targets, *node.arguments)]
        if node.function in _CONVERSIONS and len(arguments) == 1:
            (only,) = arguments
            if isinstance(only, Constant):
                return Constant(dispatched(node)[0](only.value))
        if node.function in _WITH_PATTERN:
            _check_pattern(arguments[1])
        if node.function == "@in" and isinstance(arguments[1], Constant):
            return self._constant_in(node, arguments)
        return call_step(node, arguments, tracked=self._tracked)

    def _constant_in(self, node: Call, arguments: list[Step]) -> Step:
        """Return the closure for `x in [1, 2]`, which costs nothing; in `[]` is nothing at all."""
        if arguments[1](_NO_ENVIRONMENT) == []:
            return Constant(False)
        return call_step(node, arguments, tracked=False)

    def _and(self, node: Call) -> Step:
        return _logical([self.step(each) for each in node.arguments], False)

    def _or(self, node: Call) -> Step:
        return _logical([self.step(each) for each in node.arguments], True)

    def _conditional(self, node: Call) -> Step:
        condition, then, otherwise = (self.step(each) for each in node.arguments)

        resolved = self._resolved

        def step(environment: Environment) -> Value:
            answer = condition(environment)
            if answer is True:
                return resolved(then(environment))
            if answer is False:
                return resolved(otherwise(environment))
            raise no_such_overload()

        return step

    def _equality(self, node: Call) -> Step:
        """Return the closure for `==`; comparing with a constant string is what most do."""
        arguments = [self.step(each) for each in node.arguments]
        left, right = arguments
        if self._tracked or not isinstance(right, Constant) or type(right.value) is not str:
            return call_step(node, arguments, tracked=self._tracked)
        wanted = right.value

        def step(environment: Environment) -> bool:
            value = left(environment)
            return value == wanted if type(value) is str else equal(value, wanted)

        return step

    def _index(self, node: Call) -> Step:
        attribute = self._attribute(node) if node.function == "_[_]" else None
        if attribute is not None:
            return charged(attribute, 4, tracked=self._tracked)
        operand, index = (self.step(each) for each in node.arguments)
        if isinstance(index, Constant):
            check_index(index.value)
        optional = node.function == "_[?_]"
        step = index_step(operand, index, optional=optional, apart=self._apart)
        return charged(step, self._access_cost(node.arguments[0]), tracked=self._tracked)

    def _or_value(self, node: Call) -> Step:
        """Return the closure for `or` and `orValue`, whose argument may not be evaluated."""
        assert node.target is not None
        target, other = self.step(node.target), self.step(node.arguments[0])
        unwrap = node.function == "orValue"
        any_value = self._or_any_value

        def step(environment: Environment) -> Value:
            value = target(environment)
            if type(value) is not Optional:
                if any_value:
                    return value
                raise no_such_overload()
            if value is NONE:
                return other(environment)
            return value_of(value) if unwrap else value

        return step

    # Lists and maps.

    def _list(self, node: ListLiteral) -> Step:
        elements = [self.step(each) for each in node.elements]
        if not node.optional:
            constants = [each.value for each in elements if isinstance(each, Constant)]
            if len(constants) == len(elements):
                return Constant(constants)
            step: Step = lambda environment: [each(environment) for each in elements]  # noqa: E731
        else:
            step = _list_with_optionals(elements, node.optional)
        return charged(step, _LIST_COST, tracked=self._tracked)

    def _map(self, node: MapLiteral) -> Step:
        entries = [
            (self.step(each.key), self.step(each.value), each.optional) for each in node.entries
        ]
        step = _map_step(entries)
        constant = all(
            isinstance(key, Constant) and isinstance(value, Constant) for key, value, _ in entries
        )
        if constant:
            return Constant(step([]))
        return charged(step, _MAP_COST, tracked=self._tracked)

    # Variables.

    def _slot(self) -> int:
        self.variables += 1
        return _FIRST_VARIABLE + self.variables - 1

    def _with(self, names: dict[str, Step], node: Node) -> Step:
        """Return the closure of a node in which some names are visible."""
        for name, step in names.items():
            self._scope.setdefault(name, []).append(step)
        compiled = self.step(node)
        for name in names:
            self._scope[name].pop()
        return compiled

    def _reader(self, slot: int) -> Step:
        resolved = self._resolved
        return lambda environment: resolved(environment[slot])

    def _fold(self, node: Fold) -> Step:
        target = self.step(node.target)
        slots = tuple(self._slot() for _ in node.names)
        names = dict(zip(node.names, map(self._reader, slots), strict=True))
        condition = None if node.condition is None else self._with(names, node.condition)
        body = self._with(names, node.body)
        return fold_step(node.kind, target, slots, condition, body, tracked=self._tracked)

    def _bind(self, node: Bind) -> Step:
        value = self.step(node.value)
        if node.kind == "sortBy":
            return self._sort_by(node, value)
        slot = self._slot()
        if node.kind == "bind":
            return self._lazy(node, value, slot)
        body = self._with({node.name: self._reader(slot)}, node.body)
        wrap = node.kind == "optMap"
        resolved = self._resolved

        def step(environment: Environment) -> Value:
            optional = value(environment)
            if type(optional) is not Optional:
                raise Failure(f"no such overload: hasValue({type_name(optional)})")
            if optional is NONE:
                return NONE
            environment[slot] = value_of(optional)
            result = body(environment)
            return resolved(Optional(result) if wrap else result)

        return step

    def _lazy(self, node: Bind, value: Step, slot: int) -> Step:
        """Return the closure for `cel.bind`: the value is computed when it is first needed."""

        resolved = self._resolved

        def read(environment: Environment) -> Value:
            known = environment[slot]
            if type(known) is not tuple:
                known = _outcome(value, environment)
                environment[slot] = known
            succeeded, result = known
            if succeeded:
                return resolved(result)
            raise result

        body = self._with({node.name: read}, node.body)

        def step(environment: Environment) -> Value:
            environment[slot] = None
            return body(environment)

        return step

    def _sort_by(self, node: Bind, value: Step) -> Step:
        slot = self._slot()
        body = self._with({node.name: self._reader(slot)}, node.body)
        keys = fold_step("map", value, (slot,), None, body, tracked=self._tracked)
        tracked = self._tracked

        def step(environment: Environment) -> Value:
            elements = value(environment)
            found = keys(environment)
            if type(elements) is not list:
                shown = f"@sortByAssociatedKeys({type_name(elements)}, list)"
                raise Failure(f"no such overload: {shown}")
            if tracked:
                charge(environment, 2 * len(found) ** 2 + 11)
                charge_size(environment, elements)
            return sort_by_keys(elements, found)

        return step


def _selected(node: Node) -> tuple[Node | None, str | None]:
    """Return what a node selects from and the constant name that it selects."""
    if isinstance(node, Select) and not node.test and not node.optional:
        return node.operand, node.field
    if isinstance(node, Call) and node.function == "_[_]":
        index = node.arguments[1]
        if isinstance(index, Literal) and type(index.value) is str:
            return node.arguments[0], index.value
    return None, None


def _as_it_is(value: Value) -> Value:
    return value


def _taken_apart(value: Value) -> Value:
    """Return the value of a variable or of `?:`, where upstream takes optionals apart.

    It puts what they hold together again. With most types of Kubernetes the optional holds a
    failure then, and an optional in an optional is lost.
    """
    if type(value) is not Optional or value is NONE:
        return value
    held = value.value
    if type(held) is Optional:
        return Optional(held.value)
    if isinstance(held, Opaque) and held.name != "kubernetes.NamedFormat":
        return Optional(Failure("unsupported conversion to ref.Val"))
    return value


def _outcome(value: Step, environment: Environment) -> tuple[bool, Value]:
    """Return whether a value could be computed, and the value or the failure."""
    try:
        return True, value(environment)
    except Failure as error:
        return False, error


def _check_pattern(argument: Step) -> None:
    """Compile a constant pattern, as upstream does."""
    if isinstance(argument, Constant) and isinstance(argument.value, str):
        try:
            compile_pattern(argument.value)
        except RegexError as error:
            raise Failure(str(error)) from None


def _logical(terms: list[Step], absorbing: bool) -> Step:
    """Return the closure for `&&` (absorbing False) or `||` (absorbing True)."""
    other = not absorbing

    def step(environment: Environment) -> bool:
        failure: Failure | None = None
        for term in terms:
            try:
                value = term(environment)
            except Failure as error:
                failure = failure or error
                continue
            if value is absorbing:
                return bool(absorbing)
            if value is not other and failure is None:
                failure = no_such_overload()
        if failure is not None:
            raise failure
        return other

    return step


def _list_with_optionals(elements: list[Step], optional: frozenset[int]) -> Step:
    def step(environment: Environment) -> Value:
        found = []
        for index, each in enumerate(elements):
            value = each(environment)
            if index in optional:
                if type(value) is not Optional:
                    message = "cannot initialize optional list element from non-optional value"
                    raise Failure(f"{message} {show(value)}")
                if value is NONE:
                    continue
                value = value.value
            found.append(value)
        return found

    return step


def _map_step(entries: list[tuple[Step, Step, bool]]) -> Step:
    def step(environment: Environment) -> Value:
        found: dict[Value, Value] = {}
        for key_step, value_step, optional in entries:
            key = key_step(environment)
            value = value_step(environment)
            if optional:
                if type(value) is not Optional:
                    message = (
                        f"cannot initialize optional entry '{show(key)}' from non-optional value"
                    )
                    raise Failure(f"{message} {show(value)}")
                if value is NONE:
                    found.pop(to_key(key), None)
                    continue
                value = value.value
            found[to_key(key)] = value
        return found

    return step
