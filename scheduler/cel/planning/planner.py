"""Compiles a typed tree to closures.

Each node becomes a function of the environment: a list with the device, the cost so far and the
variables. Expressions that could become expensive get closures that count what upstream counts.

Source: cel-go v0.26.0 interpreter/planner.go, interpretable.go, decorators.go.
"""

from typing import Any, Final

from scheduler.cel.errors import CelFailure, no_such_overload
from scheduler.cel.language.syntax import (
    BoundVariable,
    Call,
    Expr,
    Fold,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    children,
)
from scheduler.cel.library.catalog import TYPES
from scheduler.cel.library.lists import pairs_cost
from scheduler.cel.library.optionals import value_of
from scheduler.cel.library.overloads import one
from scheduler.cel.planning.access import (
    Path,
    attribute_step,
    charged,
    check_index,
    discounted,
    has_step,
)
from scheduler.cel.planning.aggregates import list_step, map_step
from scheduler.cel.planning.bindings import (
    as_it_is,
    lazy_reader,
    lazy_step,
    mapped_reader,
    mapped_step,
    reader,
    sorted_step,
    taken_apart,
)
from scheduler.cel.planning.budget import (
    DEVICE,
    FIRST_VARIABLE,
    MOST,
    UNBOUNDED,
    WORK,
    Environment,
    charge_work,
)
from scheduler.cel.planning.calls import Constant, Step, call_step, dispatched
from scheduler.cel.planning.folds import fold_step
from scheduler.cel.planning.work import weight
from scheduler.cel.regex import RegexError, compile_pattern
from scheduler.cel.values import (
    NONE,
    Optional,
    TypeValue,
    Uint,
    Value,
    equal,
)
from scheduler.model.releases import Reference

__all__ = ["Plan", "plan"]

#: Calls of these with a constant are evaluated when an expression is compiled.
_CONVERSIONS: Final = frozenset(
    ("bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint")
)
_WITH_PATTERN: Final = frozenset(("matches", "find", "findAll"))
_PRIMITIVE: Final = (bool, float, int, str, Uint)
_NO_ENVIRONMENT: Final[Environment] = []
_INDEX: Final = ("_[_]", "_[?_]")
_LIST_COST: Final = 10
_MAP_COST: Final = 30


class Plan:
    """A compiled expression: `run` gives its value in an environment."""

    __slots__ = ("_empty", "run")

    def __init__(self, step: Step, variables: int, work: int) -> None:
        self.run = step
        self._empty: Environment = [0] * (FIRST_VARIABLE - 1) + [None] * variables
        self._empty[WORK - 1] = work
        self._empty[MOST - 1] = UNBOUNDED

    def environment(self, fields: dict[str, Any], most_work: int | None = None) -> Environment:
        """Return the environment of one evaluation.

        Args:
            fields: of the device.
            most_work: an evaluation that takes more work is cancelled; None for no limit.
        """
        made = [fields, *self._empty]
        if most_work is not None:
            made[MOST] = most_work
        return made


def plan(root: Expr, reference: Reference, *, tracked: bool) -> Plan:
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
    return Plan(step, planner.variables, weight(root))


class _Planner:
    def __init__(self, reference: Reference, *, tracked: bool) -> None:
        self._apart = reference.selectors_take_optionals_apart
        self._resolve = taken_apart if self._apart else as_it_is
        self._or_any_value = reference.selectors_or_any_value
        self._tracked = tracked
        self._scope: dict[str, list[Step]] = {}
        self.variables = 0

    def step(self, node: Expr) -> Step:  # noqa: C901, PLR0911 - one case for each kind of node
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
            case BoundVariable():
                return self._bind(node)
            case _:
                raise AssertionError(node)

    # Names and selections.

    def _name(self, name: str, kind: str) -> Step:
        if kind == "type":
            return _named_type(name)
        known = self._scope.get(name)
        if known:
            return charged(known[-1], 1, tracked=self._tracked)
        return charged(lambda environment: environment[DEVICE], 1, tracked=self._tracked)

    def _selection(self, node: Select) -> Step:
        if node.named:
            return _named_type(node.named)
        attribute = None if node.test else self._attribute(node)
        if attribute is not None:
            return charged(attribute, 4, tracked=self._tracked)
        if not node.test:
            return self._lookup(node)
        base, path = self._path(node.operand)
        return self._with_base_cost(base, has_step(path, node.field))

    def _lookup(self, node: Select | Call) -> Step:
        """Return the closure for a chain of lookups."""
        base, path = self._path(node)
        return self._with_base_cost(base, path.step)

    def _path(self, node: Expr) -> tuple[Expr, Path]:
        """Return a chain of lookups, and the node that it begins with."""
        keys: list[tuple[Step, bool]] = []
        while _is_path(node) and not isinstance(node, Ident) and self._attribute(node) is None:
            if isinstance(node, Select):
                keys.append((Constant(node.field), node.optional))
                node = node.operand
                continue
            assert isinstance(node, Call)
            index = self._unobserved(node.arguments[1])
            if isinstance(index, Constant):
                check_index(index.value)
            keys.append((index, node.function == "_[?_]"))
            node = node.arguments[0]
        cost = 1 if self._tracked else 0
        return node, Path(self.step(node), tuple(reversed(keys)), self._apart, cost)

    def _attribute(self, node: Expr) -> Step | None:
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

    def _with_base_cost(self, base: Expr, step: Step) -> Step:
        """Return a closure that counts what looking into something costs beside the keys.

        A name is charged for itself; a call is charged like one.
        """
        free = _is_path(base) or _is_conditional(base)
        return charged(step, 0 if free else 1, tracked=self._tracked)

    def _unobserved(self, node: Expr) -> Step:
        """Return the closure of a branch or key; upstream does not charge for the name in it."""
        named = _is_path(node) and not _is_conditional(_root(node))
        step = self.step(node)
        return discounted(step) if named and self._tracked else step

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
                return Constant(dispatched(node, arguments)[0](only.value))
        if node.function in _WITH_PATTERN:
            _check_pattern(arguments[1])
        if (
            node.function == "@in"
            and isinstance(node.arguments[1], ListLiteral)
            and isinstance(arguments[1], Constant)
        ):
            return self._constant_in(node, arguments)
        return call_step(node, arguments, tracked=self._tracked)

    def _constant_in(self, node: Call, arguments: list[Step]) -> Step:
        """Return the closure for `x in [1, 2]`, which costs nothing; in `[]` is nothing at all."""
        container = arguments[1](_NO_ENVIRONMENT)
        if container == []:
            return Constant(False)
        is_set = type(container) is list and all(type(each) in _PRIMITIVE for each in container)
        step = call_step(node, arguments, tracked=self._tracked and not is_set)
        if not is_set or not self._tracked:
            return step
        work = len(container)

        def worked(environment: Environment) -> Value:
            charge_work(environment, work)
            return step(environment)

        return worked

    def _and(self, node: Call) -> Step:
        return _logical([self.step(each) for each in node.arguments], False)

    def _or(self, node: Call) -> Step:
        return _logical([self.step(each) for each in node.arguments], True)

    def _conditional(self, node: Call) -> Step:
        condition = self.step(node.arguments[0])
        then, otherwise = (self._unobserved(each) for each in node.arguments[1:])

        resolve = self._resolve

        def step(environment: Environment) -> Value:
            answer = condition(environment)
            if answer is True:
                return resolve(then(environment))
            if answer is False:
                return resolve(otherwise(environment))
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
        return self._lookup(node)

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
            step = list_step(elements, node.optional)
        return charged(step, _LIST_COST, tracked=self._tracked)

    def _map(self, node: MapLiteral) -> Step:
        entries = [
            (self.step(each.key), self.step(each.value), each.optional) for each in node.entries
        ]
        step = map_step(entries)
        constant = all(
            isinstance(key, Constant) and isinstance(value, Constant) for key, value, _ in entries
        )
        if constant:
            return Constant(step([]))
        return charged(step, _MAP_COST, tracked=self._tracked)

    # Variables.

    def _slot(self) -> int:
        self.variables += 1
        return FIRST_VARIABLE + self.variables - 1

    def _with(self, names: dict[str, Step], node: Expr) -> Step:
        """Return the closure of a node in which some names are visible."""
        for name, step in names.items():
            self._scope.setdefault(name, []).append(step)
        compiled = self.step(node)
        for name in names:
            self._scope[name].pop()
        return compiled

    def _fold(self, node: Fold) -> Step:
        target = self.step(node.target)
        slots = tuple(self._slot() for _ in node.names)
        readers = [reader(slot, self._resolve) for slot in slots]
        names = dict(zip(node.names, readers, strict=True))
        condition = None if node.condition is None else self._with(names, node.condition)
        body = self._with(names, node.body)
        work = weight(node.body) + (0 if node.condition is None else weight(node.condition))
        worked = work if self._tracked else None
        return fold_step(node.kind, target, slots, condition, body, work=worked)

    def _bind(self, node: BoundVariable) -> Step:
        value = self.step(node.value)
        slot = self._slot()
        if node.kind == "sortBy":
            return self._sort_by(node, value, slot)
        _check_type_variable(node)
        if node.kind == "bind":
            read = lazy_reader(value, slot, self._resolve)
            return lazy_step(self._with({node.name: read}, node.body), slot)
        body = self._with({node.name: mapped_reader(slot, self._resolve)}, node.body)
        wrap = node.kind == "optMap"
        return mapped_step(value, body, slot, wrap=wrap, resolve=self._resolve)

    def _sort_by(self, node: BoundVariable, value: Step, slot: int) -> Step:
        held = self._slot()
        body = self._with({node.name: reader(slot, self._resolve)}, node.body)
        target = reader(held, as_it_is)
        keys = fold_step("map", target, (slot,), None, body, work=weight(node.body))
        return sorted_step(value, keys, held, one if node.any_key else pairs_cost)


def _is_path(node: Expr) -> bool:
    """Return whether a node is a name or selects from something, and is no type and no test."""
    if isinstance(node, Select):
        return not (node.test or node.named)
    if isinstance(node, Ident):
        return node.type.name != "type"
    return isinstance(node, Call) and node.function in _INDEX


def _root(node: Expr) -> Expr:
    """Return what a path begins with."""
    while _is_path(node) and not isinstance(node, Ident):
        node = node.operand if isinstance(node, Select) else next(children(node))
    return node


def _is_conditional(node: Expr) -> bool:
    return isinstance(node, Call) and node.function == "_?_:_"


def _selected(node: Expr) -> tuple[Expr | None, str | None]:
    """Return what a node selects from and the constant name that it selects."""
    if isinstance(node, Select) and not node.test and not node.optional:
        return node.operand, node.field
    if isinstance(node, Call) and node.function == "_[_]":
        index = node.arguments[1]
        if isinstance(index, Literal) and type(index.value) is str:
            return node.arguments[0], index.value
    return None, None


def _named_type(name: str) -> Constant:
    """Return what gives a type by its name.

    A variable whose value is known to be a type is taken for the name of one, as upstream does.
    """
    if name not in TYPES:
        raise CelFailure(f"reference to undefined type: {name}")
    return Constant(TypeValue(name))


def _check_type_variable(node: BoundVariable) -> None:
    """Check the variable of a binding, whose value upstream refers to by name."""
    of = node.value.type
    held = of.parameters[0] if of.name == "optional_type" and node.kind != "bind" else of
    if held.name == "type":
        _named_type(node.name)


def _check_pattern(argument: Step) -> None:
    """Compile a constant pattern, as upstream does."""
    if isinstance(argument, Constant) and isinstance(argument.value, str):
        try:
            compile_pattern(argument.value)
        except RegexError as error:
            raise CelFailure(str(error)) from None


def _logical(terms: list[Step], absorbing: bool) -> Step:
    """Return the closure for `&&` (absorbing False) or `||` (absorbing True)."""
    other = not absorbing

    def step(environment: Environment) -> bool:
        failure: CelFailure | None = None
        for term in terms:
            try:
                value = term(environment)
            except CelFailure as error:
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
