"""The generations of a policy that were accepted last, as its status keeps them.

The status survives the scheduler, and who may write a policy cannot write it. What is read back is
nevertheless checked as if a stranger had written it. These specs are only shown: no generation of
the past is put in force from here.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec

from scheduler.model import times

__all__ = [
    "MAX_BYTES",
    "MAX_GENERATIONS",
    "AcceptedGeneration",
    "before",
    "changes",
    "read",
    "with_generation",
]

#: How many generations are kept, the newest included.
MAX_GENERATIONS: Final = 5
#: Of the JSON of all kept specs together: an object may be 1.5 MiB, and there may be many policies.
MAX_BYTES: Final = 32 * 1024
#: How many changes of a generation are shown, and how many characters of each value.
_CHANGES: Final = 6
_VALUE: Final = 40
_NAMESPACES: Final = "namespaceSelector"


class AcceptedGeneration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A generation that was accepted; field names as in the status."""

    generation: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
    #: When the scheduler accepted it, as in RFC 3339.
    time: Annotated[str, msgspec.Meta(max_length=20, pattern=r"^[0-9T:-]+Z$")]
    spec: dict[str, Any]


def read(status: Mapping[str, Any]) -> tuple[AcceptedGeneration, ...]:
    """Return the generations in a status, newest first; what is malformed is left out."""
    found = status.get("history")
    kept: list[AcceptedGeneration] = []
    for item in found[:MAX_GENERATIONS] if isinstance(found, list | tuple) else ():
        each = _converted(item)
        if each is not None and (not kept or each.generation < kept[-1].generation):
            kept.append(each)
    return _bounded(kept)


def with_generation(
    kept: Sequence[AcceptedGeneration], generation: int, spec: dict[str, Any], time: str
) -> tuple[AcceptedGeneration, ...]:
    """Return the generations with one that is accepted now.

    Args:
        kept: Those that are kept, newest first.
        generation: The number of the new one.
        spec: Its rules.
        time: When it is accepted; the time of the newest that is kept does not change.
    """
    if kept and (kept[0].generation, kept[0].spec) == (generation, spec):
        return tuple(kept)
    older = (each for each in kept if each.generation < generation)
    return _bounded([AcceptedGeneration(generation, time, spec), *older])


def before(
    kept: Sequence[AcceptedGeneration], newest: int, spec: object
) -> AcceptedGeneration | None:
    """Return the generation that undoes the newest one: the last other rules that were accepted.

    Args:
        kept: Those that are kept, newest first.
        newest: The number of the newest one, accepted or not.
        spec: Its rules; `None` for rules that were not accepted.
    """
    return next((each for each in kept if each.generation < newest and each.spec != spec), None)


def changes(
    before: Mapping[str, Any], after: Mapping[str, Any], *, hides_namespaces: bool = False
) -> list[str]:
    """Return what differs between two specs, one field in each line.

    Args:
        before: The rules of a generation.
        after: Those of a later one, or of an earlier one to go back to.
        hides_namespaces: Whether the values of selectors of namespaces are left out.
    """
    old, new = dict(_fields(before)), dict(_fields(after))
    paths = [path for path in {**old, **new} if old.get(path) != new.get(path)]
    lines = [
        f"{path.partition(_NAMESPACES)[0]}{_NAMESPACES}: changed"
        if hides_namespaces and _NAMESPACES in path
        else _change(path, old.get(path), new.get(path))
        for path in paths
    ]
    lines = list(dict.fromkeys(lines))
    if len(lines) > _CHANGES:
        lines[_CHANGES:] = [f"{len(lines) - _CHANGES} more"]
    return lines or ["nothing"]


def _converted(item: object) -> AcceptedGeneration | None:
    try:
        each = msgspec.convert(item, AcceptedGeneration)
    except (msgspec.ValidationError, RecursionError):
        return None
    return None if times.parse(each.time) is None else each


def _bounded(generations: Sequence[AcceptedGeneration]) -> tuple[AcceptedGeneration, ...]:
    """Return those that fit, the newest first; one that is too large is left out alone."""
    kept: list[AcceptedGeneration] = []
    left = MAX_BYTES
    for each in generations:
        size = _size(each.spec)
        if size <= left and len(kept) < MAX_GENERATIONS:
            left -= size
            kept.append(each)
    return tuple(kept)


def _size(spec: dict[str, Any]) -> int:
    try:
        return len(msgspec.json.encode(spec))
    except (TypeError, ValueError, RecursionError):
        return MAX_BYTES + 1


def _change(path: str, old: str | None, new: str | None) -> str:
    was, now = (None if value is None else _short(value) for value in (old, new))
    if was is None:
        return f"{path}: {now} is new"
    return f"{path}: {was} is removed" if now is None else f"{path}: {was} → {now}"


def _short(value: str) -> str:
    return value if len(value) <= _VALUE else f"{value[:_VALUE]}…"


def _fields(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of a spec by their paths."""
    if isinstance(value, dict) and (value or not path):
        for key, inner in value.items():
            yield from _fields(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from _fields(inner, f"{path}[{number}]")
    else:
        yield path, value if isinstance(value, str) else json.dumps(value)
