"""Gives every node of a tree its static type, and finds which overloads a call can have.

Source: cel-go v0.26.0 checker/checker.go. Comprehensions are checked as what they stand for; the
result is that of checking their expansion.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from scheduler.cel.errors import CompileError
from scheduler.cel.language.source import Source
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
    children,
)
from scheduler.cel.language.types import (
    ANY,
    BOOL,
    DYN,
    INT,
    STRING,
    Type,
    is_dyn,
    list_of,
    map_of,
    optional_of,
    shown,
)
from scheduler.cel.language.unification import Unifier, most_general
from scheduler.cel.library.catalog import FUNCTIONS, TYPES
from scheduler.cel.values import type_name

__all__ = ["DEVICE", "check"]

#: The type of the variable `device`, and its fields.
DEVICE: Final = Type("kubernetes.DRADevice")
_FIELDS: Final = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "attributes": map_of(STRING, map_of(STRING, ANY)),
    "capacity": map_of(STRING, map_of(STRING, Type("kubernetes.Quantity"))),
}
_SORTABLE: Final = frozenset(
    (
        "int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp",
        "string", "bytes",
    )
)  # fmt: skip


def check(root: Node, source: Source) -> None:
    """Set the types of all nodes below a node.

    Raises:
        CompileError: types do not go together, or a name is unknown.
    """
    checker = _Checker(source)
    checker.visit(root)
    checker.finish(root)


def qualified_name(node: Node) -> str | None:
    """Return "a.b.c" for a chain of plain selections from a name."""
    parts = []
    while isinstance(node, Select) and not node.test and not node.optional:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join((node.name, *reversed(parts))).removeprefix(".")


class _Checker:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._types = Unifier()
        self._scopes: list[dict[str, Type]] = []

    def finish(self, root: Node) -> None:
        """Replace the variables in the types of all nodes."""
        pending = [root]
        while pending:
            node = pending.pop()
            node.type = self._types.substitute(node.type, final=True)
            pending.extend(children(node))

    def visit(self, node: Node) -> Type:  # noqa: C901 - one case for each kind of node
        """Set the type of a node and of those below it."""
        match node:
            case Literal():
                node.type = Type(type_name(node.value))
            case Ident():
                node.type = self._name(node)
            case Select():
                node.type = self._selection(node)
            case Call():
                node.type = self._call(node)
            case ListLiteral():
                node.type = self._list(node)
            case MapLiteral():
                node.type = self._map(node)
            case Fold():
                node.type = self._fold(node)
            case Bind():
                node.type = self._bind(node)
            case _:
                raise AssertionError(node)
        return node.type

    def _now(self, one: Type) -> Type:
        return self._types.substitute(one)

    def _mismatch(self, node: Node, expected: Type, found: Type) -> CompileError:
        expected, found = (self._types.substitute(each, final=True) for each in (expected, found))
        message = f"expected type '{shown(expected)}' but found '{shown(found)}'"
        return self._source.error(node.position, message)

    def _unknown(self, node: Node, name: str) -> CompileError:
        message = f"undeclared reference to '{name}' (in container '')"
        return self._source.error(node.position, message)

    # Names and selections.

    def _lookup(self, name: str) -> Type | None:
        if not name.startswith("."):
            for scope in reversed(self._scopes):
                if name in scope:
                    return scope[name]
        name = name.removeprefix(".")
        if name == "device":
            return DEVICE
        return Type("type", (Type(name),)) if name in TYPES else None

    def _name(self, node: Ident) -> Type:
        found = self._lookup(node.name)
        if found is None:
            raise self._unknown(node, node.name)
        return found

    def _selection(self, node: Select) -> Type:
        name = None if node.test or node.optional else qualified_name(node)
        if name is not None and name in TYPES:
            return Type("type", (Type(name),))
        operand = self._now(self.visit(node.operand))
        optional = operand.name == "optional_type"
        target = operand.parameters[0] if optional else operand
        result = self._field(node, target)
        if node.test:
            return BOOL
        return optional_of(result) if optional or node.optional else self._now(result)

    def _field(self, node: Select, target: Type) -> Type:
        if target.name == "map":
            return target.parameters[1]
        if target == DEVICE:
            found = _FIELDS.get(node.field)
            if found is None:
                raise self._source.error(node.position, f"undefined field '{node.field}'")
            return found
        if target.variable:
            self._types.assignable((DYN, target))
        elif not is_dyn(target):
            message = f"type '{shown(target)}' does not support field selection"
            raise self._source.error(node.position, message)
        return DYN

    # Calls.

    def _call(self, node: Call) -> Type:
        arguments = [self.visit(each) for each in node.arguments]
        if node.function in ("_&&_", "_||_"):
            for each in node.arguments:
                if not self._types.assignable((each.type, BOOL)):
                    raise self._mismatch(each, BOOL, each.type)
            return BOOL
        if node.target is not None:
            name = qualified_name(node.target)
            if name is not None and f"{name}.{node.function}" in FUNCTIONS:
                node.function, node.target = f"{name}.{node.function}", None
            else:
                arguments.insert(0, self.visit(node.target))
        node.function = node.function.removeprefix(".")
        if node.function not in FUNCTIONS:
            raise self._unknown(node, node.function)
        return self._overload(node, arguments)

    def _overload(self, node: Call, arguments: list[Type]) -> Type:
        result: Type | None = None
        found = []
        for index, overload in enumerate(FUNCTIONS[node.function]):
            fits = overload.member == (node.target is not None)
            if not fits or len(overload.arguments) != len(arguments):
                continue
            declared = self._types.instantiate((overload.result, *overload.arguments))
            if not self._types.assignable(*zip(arguments, declared[1:], strict=True)):
                continue
            found.append(index)
            this = self._now(declared[0])
            if result is None:
                result = this
            elif not is_dyn(result) and this != result:
                result = DYN
        if result is None:
            raise self._no_overload(node, arguments)
        node.overloads = tuple(found)
        return result

    def _no_overload(self, node: Call, arguments: list[Type]) -> CompileError:
        types = [shown(self._types.substitute(each, final=True)) for each in arguments]
        target = f"{types.pop(0)}." if node.target is not None else ""
        applied = f"{target}({', '.join(types)})"
        message = f"found no matching overload for '{node.function}' applied to '{applied}'"
        return self._source.error(node.position, message)

    # Lists and maps.

    def _joined(self, before: Type | None, current: Type) -> Type:
        """Return the type of elements; mixed ones are refused later, and not within `format`."""
        if before is None:
            return current
        if not self._types.assignable((before, current)):
            return DYN
        return most_general(before, current)

    def _unwrapped(self, node: Node) -> Type:
        """Return what the optional value of an element or entry holds."""
        of = self._now(node.type)
        if of.name == "optional_type":
            return of.parameters[0]
        if not is_dyn(of):
            raise self._mismatch(node, optional_of(of), of)
        return of

    def _list(self, node: ListLiteral) -> Type:
        element: Type | None = None
        for index, each in enumerate(node.elements):
            of = self.visit(each)
            if index in node.optional:
                of = self._unwrapped(each)
            element = self._joined(element, of)
        return list_of(self._types.variable() if element is None else element)

    def _map(self, node: MapLiteral) -> Type:
        key: Type | None = None
        value: Type | None = None
        for entry in node.entries:
            key = self._joined(key, self.visit(entry.key))
            of = self.visit(entry.value)
            if entry.optional:
                of = self._unwrapped(entry.value)
            value = self._joined(value, of)
        if key is None or value is None:
            return map_of(self._types.variable(), self._types.variable())
        return map_of(key, value)

    # Variables.

    @contextmanager
    def _scope(self, **variables: Type) -> Iterator[None]:
        self._scopes.append(variables)
        yield
        self._scopes.pop()

    def _variables(self, target: Node, count: int) -> tuple[Type, ...]:
        """Return the types of the variables that iterate over something."""
        of = self._now(self.visit(target))
        if of.name == "list":
            return (INT, of.parameters[0]) if count == 2 else of.parameters
        if of.name == "map":
            return of.parameters[:count]
        # An attribute of a device is "any": it may be passed as a list, and yet not be iterated.
        if of != DYN and not of.variable:
            message = (
                f"expression of type '{shown(of)}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)"
            )
            raise self._source.error(target.position, message)
        self._types.assignable((DYN, of))
        return (DYN,) * count

    def _predicate(self, node: Node) -> None:
        if not self._types.assignable((self.visit(node), BOOL)):
            raise self._mismatch(node, BOOL, node.type)

    def _fold(self, node: Fold) -> Type:
        types = self._variables(node.target, len(node.names))
        with self._scope(**dict(zip(node.names, types, strict=True))):
            if node.condition is not None:
                self._predicate(node.condition)
            if node.kind in ("all", "exists", "exists_one"):
                self._predicate(node.body)
                return BOOL
            body = self._now(self.visit(node.body))
        if node.kind == "map":
            return list_of(body)
        if node.kind == "transformMap":
            return map_of(types[0], body)
        result = map_of(self._types.variable(), self._types.variable())
        if not self._types.assignable((body, result)):
            raise self._mismatch(node.body, result, body)
        return self._now(result)

    def _bind(self, node: Bind) -> Type:
        if node.kind == "sortBy":
            return self._sort_by(node)
        value = self.visit(node.value)
        if node.kind == "bind":
            with self._scope(**{node.name: value}):
                return self.visit(node.body)
        held = self._held(node)
        with self._scope(**{node.name: held}):
            body = self._now(self.visit(node.body))
        if node.kind == "optMap":
            return optional_of(body)
        result = optional_of(self._types.variable())
        if not self._types.assignable((body, result)):
            raise self._mismatch(node.body, result, body)
        return self._now(body if body.name == "optional_type" else result)

    def _held(self, node: Bind) -> Type:
        """Return what the optional that is mapped holds."""
        held = self._types.variable()
        if not self._types.assignable((node.value.type, optional_of(held))):
            of = shown(self._types.substitute(node.value.type, final=True))
            message = f"found no matching overload for 'hasValue' applied to '{of}.()'"
            raise self._source.error(node.position, message)
        return self._now(held)

    def _sort_by(self, node: Bind) -> Type:
        if isinstance(node.value, Literal | MapLiteral):
            message = (
                "sortBy can only be applied to a list, identifier, comprehension, "
                "call or select expression"
            )
            raise self._source.error(node.value.position, message)
        (element,) = self._variables(node.value, 1)
        with self._scope(**{node.name: element}):
            key = self._now(self.visit(node.body))
        of = self._now(node.value.type)
        if of.name == "map" or not (is_dyn(key) or key.variable or key.name in _SORTABLE):
            message = (
                "found no matching overload for '@sortByAssociatedKeys' applied to "
                f"'{shown(of)}.(list({shown(key)}))'"
            )
            raise self._source.error(node.position, message)
        return of if of.name == "list" else list_of(self._types.variable())
