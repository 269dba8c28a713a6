"""Finds which parts of a device an expression reads."""

from typing import Final, TypeAlias

from scheduler.cel.language.syntax import Bind, Call, Fold, Ident, Literal, Node, Select, children

__all__ = ["Reads", "reads_of"]

#: Parts of a device: a field, or a kind, a domain and a name.
Reads: TypeAlias = frozenset[tuple[str, ...]]

_FIELDS: Final = ("driver", "allowMultipleAllocations")
_INDEX: Final = ("_[_]", "_[?_]")


class _Unknown(Exception):
    """The device is used in a way that is not analysed."""


def reads_of(root: Node) -> Reads | None:
    """Return which parts of a device an expression reads, None if that is not known."""
    found: set[tuple[str, ...]] = set()
    try:
        _walk(root, {}, found)
    except _Unknown:
        return None
    return frozenset(found)


_Scope: TypeAlias = dict[str, tuple[str, ...] | None]


def _path(node: Node, scope: _Scope) -> tuple[str, ...] | None:
    """Return the constant path of a node below the device; None if it is not below it."""
    if isinstance(node, Ident):
        name = node.name
        if name in scope:
            return scope[name]
        return () if name.removeprefix(".") == "device" else None
    base, step = _step(node)
    if base is None:
        return None
    path = _path(base, scope)
    if path is None:
        return None
    if step is None or len(path) >= 3 or (len(path) == 1 and path[0] in _FIELDS):
        # Of a complete path only its value is used; of an incomplete one everything may be.
        return None
    return (*path, step)


def _step(node: Node) -> tuple[Node | None, str | None]:
    """Return what a node selects from, and the constant name that it selects."""
    if isinstance(node, Select):
        return node.operand, node.field
    if isinstance(node, Call) and node.function in _INDEX:
        index = node.arguments[1]
        constant = isinstance(index, Literal) and isinstance(index.value, str)
        return node.arguments[0], index.value if constant else None  # type: ignore[attr-defined]
    if isinstance(node, Call) and node.function == "@in":
        element = node.arguments[0]
        constant = isinstance(element, Literal) and isinstance(element.value, str)
        return node.arguments[1], element.value if constant else None  # type: ignore[attr-defined]
    return None, None


def _walk(node: Node, scope: _Scope, found: set[tuple[str, ...]]) -> None:
    path = _path(node, scope)
    if path is not None:
        if len(path) == 3 or (len(path) == 1 and path[0] in _FIELDS):
            found.add(path)
            return
        raise _Unknown
    if isinstance(node, Bind):
        _walk_bind(node, scope, found)
    elif isinstance(node, Fold):
        _walk(node.target, scope, found)
        inner = {**scope, **dict.fromkeys(node.names)}
        for each in (node.condition, node.body):
            if each is not None:
                _walk(each, inner, found)
    else:
        for child in children(node):
            _walk(child, scope, found)


def _walk_bind(node: Bind, scope: _Scope, found: set[tuple[str, ...]]) -> None:
    """Walk a binding; a variable for a part of the device stands for that part."""
    path = _path(node.value, scope) if node.kind == "bind" else None
    if path is None or len(path) != 2:
        _walk(node.value, scope, found)
        path = None
    _walk(node.body, {**scope, node.name: path}, found)
