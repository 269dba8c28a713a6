"""Encodes events as lines of JSON, and decodes them: the format of a capture.

    {"at": 1767225600.25, "kind": "PodObserved", "value": {"pod": {...}}}

An outcome has its effect in the same form: `{"effect": {"kind": "Bind", "value": {...}}, ...}`. So
has an observation of one of several kinds of objects: `{"item": {"kind": "CSINode", ...}}`.
"""

from typing import Any, Final, get_args

import msgspec

from scheduler.model import events
from scheduler.model.api.devices import DeviceObject
from scheduler.model.api.objects import Workload
from scheduler.model.api.storage import Storage
from scheduler.model.effects import Effect
from scheduler.model.events import EffectDone, EffectFailed, Event
from scheduler.model.times import Seconds

__all__ = ["WireError", "decode", "encode"]

_EFFECTS: Final[dict[str, type[Effect]]] = {kind.__name__: kind for kind in get_args(Effect)}
_EVENTS: Final[dict[str, type[Event]]] = {
    kind.__name__: kind for kind in get_args(Event) if kind not in (EffectDone, EffectFailed)
}


#: Observations of objects of several kinds: the field of the object, and the kinds by name.
_OF_KINDS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    observation.__name__: (field, {kind.__name__: kind for kind in get_args(kinds)})
    for observation, field, kinds in (
        (events.StorageObserved, "item", Storage),
        (events.DevicesObserved, "item", DeviceObject),
        (events.WorkloadObserved, "workload", Workload),
    )
}


class WireError(ValueError):
    """A line that is not an event."""


class _Line(msgspec.Struct):
    at: Seconds
    kind: str
    value: msgspec.Raw


class _Outcome(msgspec.Struct, omit_defaults=True):
    effect: "_Tagged"
    changed: bool = True
    failure: events.Failure | None = None


class _Tagged(msgspec.Struct):
    kind: str
    value: msgspec.Raw


def encode(event: Event, at: Seconds) -> bytes:
    """Return an event as one line, without the newline."""
    value: Any = event
    if isinstance(event, EffectDone):
        value = _Outcome(_tagged(event.effect), changed=event.changed)
    elif isinstance(event, EffectFailed):
        value = _Outcome(_tagged(event.effect), failure=event.failure)
    elif type(event).__name__ in _OF_KINDS:
        field, _ = _OF_KINDS[type(event).__name__]
        value = {field: _tagged(getattr(event, field))}
    line = _Line(at, type(event).__name__, msgspec.Raw(msgspec.json.encode(value)))
    return msgspec.json.encode(line)


def decode(line: bytes) -> tuple[Event, Seconds]:
    """Return the event of a line, and the time of its observation.

    Raises:
        WireError: The line is not an event.
    """
    try:
        read = msgspec.json.decode(line, type=_Line)
        if read.kind in ("EffectDone", "EffectFailed"):
            return _outcome(msgspec.json.decode(read.value, type=_Outcome)), read.at
        if read.kind in _OF_KINDS:
            return _of_kind(read), read.at
        event: Event = msgspec.json.decode(read.value, type=_EVENTS[read.kind])
    except (msgspec.DecodeError, KeyError) as error:
        raise WireError(f"not an event: {error}") from error
    return event, read.at


def _tagged(value: Any) -> _Tagged:
    return _Tagged(type(value).__name__, msgspec.Raw(msgspec.json.encode(value)))


def _of_kind(read: _Line) -> Event:
    field, kinds = _OF_KINDS[read.kind]
    tagged = msgspec.json.decode(read.value, type=dict[str, _Tagged])[field]
    made: Any = _EVENTS[read.kind]
    event: Event = made(msgspec.json.decode(tagged.value, type=kinds[tagged.kind]))
    return event


def _outcome(read: _Outcome) -> EffectDone | EffectFailed:
    effect: Effect = msgspec.json.decode(read.effect.value, type=_EFFECTS[read.effect.kind])
    if read.failure is not None:
        return EffectFailed(effect, read.failure)
    return EffectDone(effect, read.changed)
