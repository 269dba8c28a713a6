"""Events as lines of JSON, and back: what a capture is made of.

    {"at": 1767225600.25, "kind": "PodObserved", "value": {"pod": {...}}}

An outcome carries its effect the same way: `{"effect": {"kind": "Bind", "value": {...}}, ...}`.
"""

from typing import Any, Final, get_args

import msgspec

from scheduler.model import events
from scheduler.model.effects import Effect
from scheduler.model.events import EffectDone, EffectFailed, Event
from scheduler.model.times import Seconds

__all__ = ["WireError", "decode", "encode"]

_EFFECTS: Final[dict[str, type[Effect]]] = {each.__name__: each for each in get_args(Effect)}
_EVENTS: Final[dict[str, type[Event]]] = {
    each.__name__: each for each in get_args(Event) if each not in (EffectDone, EffectFailed)
}


class WireError(ValueError):
    """A line that is no event."""


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
    """Return an event as one line, without its end."""
    value: Any = event
    if isinstance(event, EffectDone):
        value = _Outcome(_tagged(event.effect), changed=event.changed)
    elif isinstance(event, EffectFailed):
        value = _Outcome(_tagged(event.effect), failure=event.failure)
    line = _Line(at, type(event).__name__, msgspec.Raw(msgspec.json.encode(value)))
    return msgspec.json.encode(line)


def decode(line: bytes) -> tuple[Event, Seconds]:
    """Return the event of a line, and when it was observed.

    Raises:
        WireError: The line is no event.
    """
    try:
        read = msgspec.json.decode(line, type=_Line)
        if read.kind in ("EffectDone", "EffectFailed"):
            return _outcome(msgspec.json.decode(read.value, type=_Outcome)), read.at
        event: Event = msgspec.json.decode(read.value, type=_EVENTS[read.kind])
    except (msgspec.DecodeError, KeyError) as error:
        raise WireError(f"not an event: {error}") from error
    return event, read.at


def _tagged(effect: Effect) -> _Tagged:
    return _Tagged(type(effect).__name__, msgspec.Raw(msgspec.json.encode(effect)))


def _outcome(read: _Outcome) -> EffectDone | EffectFailed:
    effect: Effect = msgspec.json.decode(read.effect.value, type=_EFFECTS[read.effect.kind])
    if read.failure is not None:
        return EffectFailed(effect, read.failure)
    return EffectDone(effect, read.changed)
