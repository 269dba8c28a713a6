"""The lines of a recording: what the machine was called with, and what it decided, as JSON.

    1767225600.25                                           time passed: `flush`
    [1767225600.25, "PodObserved", {...}]                   an event with its fields
    [1767225600.25, "StorageObserved", "CSINode", {...}]    an object of one of several kinds
    [1767225600.25, "EffectDone", "Bind", {...}, true]      an outcome with its effect
    [1767225600.25, "Decided", {...}]                       a decision

The text of a ledger that was saved is left out, because it may be long and no replay needs it.
"""

from collections.abc import Callable
from typing import Annotated, Any, Final, get_args

import msgspec
from msgspec.structs import replace

from scheduler.model import events
from scheduler.model.api.devices import DeviceObject
from scheduler.model.api.objects import Workload
from scheduler.model.api.storage import Storage
from scheduler.model.decisions import Attempt, Preempting, summary
from scheduler.model.effects import Effect, SaveLedger
from scheduler.model.events import EffectDone, EffectFailed, Event, Failure
from scheduler.model.times import LATEST, Seconds

__all__ = ["Decided", "Flushed", "Line", "LineError", "decided", "decode", "encode_into"]

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

_encode_into = msgspec.json.Encoder().encode_into
#: The offset at which msgspec appends.
_AT_END: Final = -1
_NEWLINE: Final = ord("\n")
_raw_parts = msgspec.json.Decoder(list[msgspec.Raw]).decode
_name = msgspec.json.Decoder(str).decode
_time = msgspec.json.Decoder(Annotated[float, msgspec.Meta(ge=0.0, le=LATEST)]).decode


class LineError(ValueError):
    """A line that is not part of a recording."""


class Flushed(msgspec.Struct, frozen=True):
    """Time passed, and the machine did what was due."""


class Decided(msgspec.Struct, frozen=True, omit_defaults=True):
    """One decision."""

    #: Key of the pod.
    pod: str
    #: As in `DecisionSummary`.
    decision: str
    node: str = ""
    #: Keys of the victims.
    victims: tuple[str, ...] = ()
    #: Why the pod fits nowhere, or why the attempt failed.
    message: str = ""


#: What a line says.
Line = Event | Flushed | Decided

_FLUSHED: Final = Flushed()


def decided(attempt: Attempt) -> Decided:
    """Return the record of an attempt."""
    decision = attempt.decision
    word, node, message = summary(decision)
    victims: tuple[str, ...] = ()
    if isinstance(decision, Preempting):
        victims = tuple(victim.key for victim in decision.victims)
    return Decided(attempt.pod.key, word, node, victims, message)


def encode_into(happened: Event | Attempt | None, at: Seconds, lines: bytearray) -> None:
    """Append what happened as one line, with its newline.

    This runs for everything that happens, so it makes no bytes of its own.

    Args:
        happened: An event, a decision, or `None` for `flush`.
        at: When it happened.
        lines: What the line is appended to. After an exception, a part of it may be there.
    """
    kind = type(happened)
    parts = _PARTS.get(kind)
    _encode_into(
        (at, kind.__name__, happened) if parts is None else parts(happened, at), lines, _AT_END
    )
    lines.append(_NEWLINE)


def _parts_of_time(_happened: None, at: Seconds) -> Seconds:
    return at


def _parts_of_attempt(attempt: Attempt, at: Seconds) -> tuple[Any, ...]:
    return at, "Decided", decided(attempt)


def _parts_of_done(event: EffectDone, at: Seconds) -> tuple[Any, ...]:
    effect = event.effect
    return at, "EffectDone", type(effect).__name__, _short(effect), event.changed


def _parts_of_failed(event: EffectFailed, at: Seconds) -> tuple[Any, ...]:
    effect = event.effect
    return at, "EffectFailed", type(effect).__name__, _short(effect), event.failure


def _parts_of_kind(event: Any, at: Seconds) -> tuple[Any, ...]:
    name = type(event).__name__
    item = getattr(event, _OF_KINDS[name][0])
    return at, name, type(item).__name__, item


def _short(effect: Effect) -> Effect:
    return replace(effect, text="") if isinstance(effect, SaveLedger) else effect


#: What a line has, by type. Most lines are events without an entry here.
_PARTS: Final[dict[type, Callable[[Any, Seconds], Any]]] = {
    type(None): _parts_of_time,
    Attempt: _parts_of_attempt,
    EffectDone: _parts_of_done,
    EffectFailed: _parts_of_failed,
    **{_EVENTS[name]: _parts_of_kind for name in _OF_KINDS},
}


def decode(line: bytes) -> tuple[Line, Seconds]:
    """Return what a line says, and when it happened.

    Raises:
        LineError: The line is not part of a recording.
    """
    try:
        if not line.startswith(b"["):
            return _FLUSHED, _time(line)
        at, kind, *raw = _raw_parts(line)
        return _decoded(_name(kind), raw), _time(at)
    except (msgspec.DecodeError, LookupError, ValueError, TypeError, RecursionError) as error:
        raise LineError(f"not part of a recording: {error}") from error


def _decoded(kind: str, raw: list[msgspec.Raw]) -> Line:
    if kind == "Decided":
        return msgspec.json.decode(raw[0], type=Decided)
    if kind in ("EffectDone", "EffectFailed"):
        name, fields, last = raw
        effect: Effect = msgspec.json.decode(fields, type=_EFFECTS[_name(name)])
        if kind == "EffectDone":
            return EffectDone(effect, msgspec.json.decode(last, type=bool))
        return EffectFailed(effect, msgspec.json.decode(last, type=Failure))
    if kind in _OF_KINDS:
        made: Any = _EVENTS[kind]
        event: Event = made(msgspec.json.decode(raw[1], type=_OF_KINDS[kind][1][_name(raw[0])]))
        return event
    found: Event = msgspec.json.decode(raw[0], type=_EVENTS[kind])
    return found
