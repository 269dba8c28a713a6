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
from scheduler.cel.library.catalog import TYPES, functions
from scheduler.cel.values import type_name
from scheduler.model.releases import Reference

__all__ = ["DEVICE", "check"]

#: The type of the variable `device`, and its fields but for the attributes.
DEVICE: Final = Type("kubernetes.DRADevice")
_FIELDS: Final = {
    "driver": STRING,
    "allowMultipleAllocations": BOOL,
    "capacity": map_of(STRING, map_of(STRING, Type("kubernetes.Quantity"))),
}
_SORTABLE: Final = frozenset(
    (
        "int", "uint", "double", "bool", "google.protobuf.Duration", "google.protobuf.Timestamp",
        "string", "bytes",
    )
)  # fmt: skip


def check(root: Expr, source: Source, reference: Reference) -> None:
    """Set the types of all nodes below a node.

    Raises:
        CompileError: types do not go together, or a name is unknown.
    """
    checker = _Checker(source, reference)
    checker.visit(root)
    checker.finish(root)


def qualified_name(node: Expr) -> str | None:
    """Return "a.b.c" for a chain of plain selections from a name."""
    name = _written(node)
    return None if name is None else name.removeprefix(".")


def _written(node: Expr) -> str | None:
    """Return a chain of plain selections from a name as it is written, with a leading dot."""
    parts = []
    while isinstance(node, Select) and not node.test and not node.optional:
        parts.append(node.field)
        node = node.operand
    if not isinstance(node, Ident):
        return None
    return ".".join((node.name, *reversed(parts)))


class _Checker:
    def __init__(self, source: Source, reference: Reference) -> None:
        self._source = source
        self._functions = functions(reference)
        self._prefers_local = reference.selectors_prefer_local_names
        attribute = ANY if reference.selectors_type_attributes_as_any else DYN
        self._fields = {**_FIELDS, "attributes": map_of(STRING, map_of(STRING, attribute))}
        self._types = Unifier()
        self._scopes: list[dict[str, Type]] = []

    def finish(self, root: Expr) -> None:
        """Replace the variables in the types of all nodes."""
        pending = [root]
        while pending:
            node = pending.pop()
            node.type = self._types.substitute(node.type, final=True)
            pending.extend(children(node))

    def visit(self, node: Expr) -> Type:  # noqa: C901 - one case for each kind of node
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
            case BoundVariable():
                node.type = self._bind(node)
            case _:
                raise AssertionError(node)
        return node.type

    def _now(self, one: Type) -> Type:
        return self._types.substitute(one)

    def _mismatch(self, node: Expr, expected: Type, found: Type) -> CompileError:
        expected, found = (self._types.substitute(each, final=True) for each in (expected, found))
        message = f"expected type '{shown(expected)}' but found '{shown(found)}'"
        return self._source.error(node.position, message)

    def _unknown(self, node: Expr, name: str) -> CompileError:
        message = f"undeclared reference to '{name}' (in container '')"
        return self._source.error(node.position, message)

    # Names and selections.

    def _local(self, name: str) -> Type | None:
        return next((scope[name] for scope in reversed(self._scopes) if name in scope), None)

    def _name(self, node: Ident) -> Type:
        """Return the type of a name; a dot is left before one that a local variable hides."""
        written, name = node.name, node.name.removeprefix(".")
        local = self._local(name)
        hidden = local is not None and written != name and self._prefers_local
        if not hidden:
            node.name = name
        if local is not None and not hidden:
            return local
        if name == "device":
            return DEVICE
        if name not in TYPES:
            raise self._unknown(node, written)
        return Type("type", (Type(name),))

    def _qualified_type(self, node: Select) -> Type | None:
        """Return the type of a qualified name of a type; None if a node is something else."""
        name = None if node.test or node.optional else qualified_name(node)
        if name is None or name not in TYPES:
            return None
        node.named = name
        if self._prefers_local and self._local(name.partition(".")[0]) is not None:
            node.named = _written(node) or ""
            if node.named == name:
                node.named = ""
                return None
        return Type("type", (Type(name),))

    def _selection(self, node: Select) -> Type:
        named = self._qualified_type(node)
        if named is not None:
            return named
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
            found = self._fields.get(node.field)
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
            if name is not None and f"{name}.{node.function}" in self._functions:
                node.function, node.target = f"{name}.{node.function}", None
            else:
                arguments.insert(0, self.visit(node.target))
        node.function = node.function.removeprefix(".")
        if node.function not in self._functions:
            raise self._unknown(node, node.function)
        return self._overload(node, arguments)

    def _overload(self, node: Call, arguments: list[Type]) -> Type:
        result: Type | None = None
        found = []
        everything = self._functions[node.function]
        for overload in everything:
            fits = overload.member == (node.target is not None)
            if not fits or len(overload.arguments) != len(arguments):
                continue
            declared = self._types.instantiate((overload.result, *overload.arguments))
            if not self._types.assignable(*zip(arguments, declared[1:], strict=True)):
                continue
            found.append(overload)
            this = self._now(declared[0])
            if result is None:
                result = this
            elif not is_dyn(result) and this != result:
                result = DYN
        if result is None:
            raise self._no_overload(node, arguments)
        node.overloads = everything if len(found) > 1 else tuple(found)
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

    def _unwrapped(self, node: Expr) -> Type:
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

    def _variables(self, target: Expr, count: int) -> tuple[Type, ...]:
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

    def _predicate(self, node: Expr) -> None:
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

    def _bind(self, node: BoundVariable) -> Type:
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
        # It is a conditional expression of the body and `optional.none()`.
        result, nothing = self._types.variable(), optional_of(self._types.variable())
        if not self._types.assignable((body, result), (nothing, result)):
            raise self._mismatch(node.body, nothing, body)
        return self._now(result)

    def _held(self, node: BoundVariable) -> Type:
        """Return what the optional that is mapped holds."""
        held = self._types.variable()
        if not self._types.assignable((node.value.type, optional_of(held))):
            of = shown(self._types.substitute(node.value.type, final=True))
            message = f"found no matching overload for 'hasValue' applied to '{of}.()'"
            raise self._source.error(node.position, message)
        return self._now(held)

    def _sort_by(self, node: BoundVariable) -> Type:
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
        node.any_key = is_dyn(key)
        if of.name == "list":
            return of
        # Keys of any type fit all overloads, which have different results.
        return DYN if is_dyn(key) else list_of(self._types.variable())
