"""What of a machine is copied: the fields of `MachineState`, and of the dataclasses in them.

A dataclass that is a field of another one owns a part of the state, and its fields follow. A field
with `compare=False` is no part of the state: a collaborator, a setting, a metric, or what is made
again when it is needed. These dataclasses have slots, so no attribute can be forgotten.

In the values of the fields, dataclasses that can change are *records*: others may refer to them, so
there is one copy of each. Objects of all other classes never change.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from scheduler.core.machine import MachineState

__all__ = ["CLASSES", "RECORDS", "declared", "hints", "owned_fields"]


_HINTS: Final[dict[type[Any], dict[str, Any]]] = {}


def _changes(kind: type[Any]) -> bool:
    """Return whether objects of a class are dataclasses that can change."""
    return is_dataclass(kind) and not kind.__dataclass_params__.frozen  # type: ignore[attr-defined]


def hints(kind: type[Any]) -> dict[str, Any]:
    """Return the declared types of the fields of a dataclass that are part of the state."""
    if kind not in _HINTS:
        types = get_type_hints(kind)
        _HINTS[kind] = {field.name: types[field.name] for field in fields(kind) if field.compare}
    return _HINTS[kind]


def owned_fields(owner: Any, path: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yield the path of each field of the state, with the object that has it and its name."""
    for name in hints(type(owner)):
        value, where = getattr(owner, name), f"{path}.{name}" if path else name
        if _changes(type(value)):
            yield from owned_fields(value, where)
        else:
            yield where, owner, name


def declared(hint: Any) -> tuple[type[Any], ...]:
    """Return the types of a declaration, without those of their items."""
    kind = get_origin(hint) or hint
    if kind in (UnionType, Union):
        return tuple(each for part in get_args(hint) for each in declared(part))
    return (float, int) if kind is float else (kind,)


def _collect(hint: Any, into: dict[str, type[Any]]) -> None:
    """Add the classes of this program that a declaration names, and those of their fields."""
    for part in get_args(hint):
        _collect(part, into)
    kind = get_origin(hint) or hint
    if not isinstance(kind, type) or not kind.__module__.startswith("scheduler."):
        return
    if into.setdefault(kind.__name__, kind) is not kind:
        raise TypeError(f"the state has two classes {kind.__name__}")
    for declaration in hints(kind).values() if _changes(kind) else ():
        _collect(declaration, into)


def _classes() -> dict[str, type[Any]]:
    found: dict[str, type[Any]] = {}
    _collect(MachineState, found)
    return found


#: The classes of everything in the state, by name, and those of records.
CLASSES: Final = _classes()
RECORDS: Final = {kind: tuple(hints(kind)) for kind in CLASSES.values() if _changes(kind)}
