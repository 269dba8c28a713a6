"""What an expression can read of a device, as far as its text shows.

Devices that are equal in that get the same result, the same failure and the same cost. Where a map
of the device is used as a value, for example in a comprehension, anything of it can be read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

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

__all__ = ["DeviceField", "DeviceReads", "reads"]

_MAPS: Final = ("attributes", "capacity")
_INDEX: Final = ("_[_]", "_[?_]")
#: A chain of constant keys that begins with the device; None is a key that is not constant.
_Path: TypeAlias = tuple[str | None, ...]


@dataclass(frozen=True, slots=True, order=True)
class DeviceField:
    """An attribute or capacity.

    Attributes:
        kind: "attributes" or "capacity".
        domain: of its name.
        name: the rest of its name.
    """

    kind: str
    domain: str
    name: str


@dataclass(frozen=True, slots=True)
class DeviceReads:
    """What is read.

    Attributes:
        driver: whether the name of the driver is.
        shared: whether it is read if several claims may share the device.
        entries: the attributes and capacities whose value or presence is.
    """

    driver: bool
    shared: bool
    entries: tuple[DeviceField, ...]


class _EverythingError(Exception):
    """The expression can read anything."""


def reads(root: Expr) -> DeviceReads | None:
    """Return what an expression reads at most; None if it can be anything.

    Args:
        root: its typed tree.
    """
    reader = _Reader()
    try:
        reader.visit(root)
    except _EverythingError:
        return None
    fields, entries = reader.fields, tuple(sorted(reader.entries))
    return DeviceReads("driver" in fields, _SHARED in fields, entries)


_SHARED: Final = "allowMultipleAllocations"


class _Reader:
    def __init__(self) -> None:
        self.fields: set[str] = set()
        self.entries: set[DeviceField] = set()
        #: What variables stand for: a map of the device, or None for another value.
        self._scope: dict[str, list[_Path | None]] = {}

    def visit(self, node: Expr) -> None:
        """Collect what a node reads."""
        match node:
            case BoundVariable():
                self._bind(node)
            case Fold():
                self.visit(node.target)
                bodies = (node.condition, node.body)
                self._within(node.names, None, [each for each in bodies if each is not None])
            case Call(function="@in"):
                self._in(node)
            case Ident() | Select() | Call() if _is_step(node):
                path = self._path(node)
                if path is not None:
                    self._record(path)
            case Call() | ListLiteral() | MapLiteral() | Select() | Literal():
                for each in children(node):
                    self.visit(each)
            case _:
                raise _EverythingError

    def _bind(self, node: BoundVariable) -> None:
        path = None
        if node.kind == "bind" and _is_step(node.value) and not _has_optional(node.value):
            path = self._path(node.value)
            if path is not None and (len(path) > 2 or None in path):
                self._record(path)
                path = None
        else:
            self.visit(node.value)
        self._within((node.name,), path, [node.body])

    def _within(self, names: Sequence[str], path: _Path | None, bodies: list[Expr]) -> None:
        for name in names:
            self._scope.setdefault(name, []).append(path)
        for body in bodies:
            self.visit(body)
        for name in names:
            self._scope[name].pop()

    def _in(self, node: Call) -> None:
        """Collect what `"name" in map` reads: whether the name is there."""
        element, container = node.arguments
        path = self._path(container) if _is_step(container) else None
        if path is None and not _is_step(container):
            self.visit(container)
        elif path is not None and isinstance(element, Literal) and type(element.value) is str:
            self._record((*path, element.value))
            return
        elif path is not None:
            self._record(path)
        self.visit(element)

    def _path(self, node: Expr) -> _Path | None:
        """Return the keys of a chain of lookups in the device; None if it looks elsewhere."""
        keys: list[str | None] = []
        while _is_step(node) and not isinstance(node, Ident):
            if isinstance(node, Select):
                keys.append(node.field)
                node = node.operand
                continue
            assert isinstance(node, Call)
            index = node.arguments[1]
            constant = isinstance(index, Literal) and type(index.value) is str
            keys.append(index.value if constant else None)  # type: ignore[attr-defined]
            self.visit(index)
            node = node.arguments[0]
        if not isinstance(node, Ident):
            self.visit(node)
            return None
        if node.type.name == "type":
            return None
        known = self._scope.get(node.name)
        base = known[-1] if known else ()
        return None if base is None else (*base, *reversed(keys))

    def _record(self, path: _Path) -> None:
        if path and path[0] in ("driver", _SHARED):
            self.fields.add(str(path[0]))
            return
        if len(path) < 3 or path[0] not in _MAPS or path[1] is None or path[2] is None:
            raise _EverythingError
        self.entries.add(DeviceField(path[0], path[1], path[2]))


def _is_step(node: Expr) -> bool:
    """Return whether a node is a name or looks up a key."""
    if isinstance(node, Select):
        return not node.named
    return isinstance(node, Ident) or (isinstance(node, Call) and node.function in _INDEX)


def _has_optional(node: Expr) -> bool:
    """Return whether one of the lookups of a chain is optional, or only tests."""
    while _is_step(node) and not isinstance(node, Ident):
        if isinstance(node, Select):
            if node.optional or node.test:
                return True
            node = node.operand
        else:
            assert isinstance(node, Call)
            if node.function == "_[?_]":
                return True
            node = node.arguments[0]
    return False
