"""Passes the state of the scheduler to the process that computes plans, and reads it there.

References to all objects are taken at once in the scheduler's loop: objects never change, so the
state is that of one moment. They are encoded a few at a time, with pauses in which the loop
continues. Policies and the ledger are Python objects of this release, so they are pickled: both
ends are this program.

A part is one byte, which says what it is, and its content.
"""

import asyncio
import io
import pickle
import struct
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from scheduler.config.settings import Settings
from scheduler.core.machine import Machine
from scheduler.model.api.kinds import KINDS
from scheduler.model.api.objects import Pod
from scheduler.model.api.shared_parts import SharedParts
from scheduler.model.times import Seconds
from scheduler.observe.pages import snapshot
from scheduler.sim.manifests import Manifests, keep
from scheduler.sim.what_if_cluster import State
from scheduler.state.preemption import ledger_codec
from scheduler.state.preemption.ledger_codec import Written

__all__ = ["Received", "parts"]

T = TypeVar("T")

#: Objects and bytes of one part. Encoding an object takes 2 to 10 µs, and a megabyte some 2 ms, so
#: a part takes less than a millisecond, unless an object is large.
_OBJECTS: Final = 100
_BYTES: Final = 1 << 18
#: Entries of the ledger in one part; pickling one takes some 3 µs.
_ENTRIES: Final = 200
_PAUSE_SECONDS: Final = 0.001

_HEAD: Final = b"H"
_POLICIES: Final = b"P"
_LEDGER: Final = b"L"
_OBJECTS_TAG: Final = b"O"
#: What stands before each object: the index of its kind, and its length.
_FRAME: Final = struct.Struct(">BI")
_INDICES: Final = {type_: index for index, type_ in enumerate(KINDS)}
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODERS: Final = [msgspec.msgpack.Decoder(type_) for type_ in KINDS]


@dataclass(frozen=True, slots=True)
class _Head:
    """What a state has beside objects."""

    settings: Settings
    now: Seconds
    evict_only: bool
    has_extenders: bool


def parts(
    machine: Machine, settings: Settings, now: Callable[[], Seconds], *, evict_only: bool
) -> AsyncGenerator[bytes]:
    """Return the state of a moment in parts; to be used in the scheduler's loop.

    Args:
        machine: The machine whose state it is.
        settings: The effective configuration. Extenders, which may have secrets, are left out.
        now: Returns the time.
        evict_only: Whether victims are evicted within their disruption budgets only.
    """
    return _parts(machine, settings, now, evict_only=evict_only)


async def _parts(
    machine: Machine, settings: Settings, now: Callable[[], Seconds], *, evict_only: bool
) -> AsyncGenerator[bytes]:
    # All of this belongs to one moment: nothing is awaited before the last reference is taken.
    moment = now()
    items = snapshot.objects(machine)
    as_decided = snapshot.AsDecided(machine, moment)
    ledger = machine.ledger.contents()
    policies = [*machine.cluster.policies]
    public = replace(settings, extenders=())
    head = _Head(public, moment, evict_only, bool(settings.extenders))
    yield _HEAD + _pickled(head)
    for policy in policies:
        yield _POLICIES + _pickled(policy)
        await asyncio.sleep(_PAUSE_SECONDS)
    lists: tuple[Sequence[object], ...] = (*ledger,)
    for index, entries in enumerate(lists):
        for some in _chunks(entries, _ENTRIES):
            yield _LEDGER + _pickled((index, some))
            await asyncio.sleep(_PAUSE_SECONDS)
    encoded = _encoded(items, as_decided)
    while part := _joined(encoded):
        yield _OBJECTS_TAG + part
        await asyncio.sleep(_PAUSE_SECONDS)


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for first in range(0, len(items), size):
        yield items[first : first + size]


def _encoded(items: Iterable[Any], as_decided: Callable[[Any], Any]) -> Iterator[bytes]:
    """Yield each object with its frame."""
    for item in filter(None, map(as_decided, items)):
        body = _ENCODER.encode(item)
        yield _FRAME.pack(_INDICES[type(item)], len(body)) + body


def _joined(encoded: Iterator[bytes]) -> bytes:
    """Return the next objects that make one part; empty at the end."""
    found: list[bytes] = []
    size = 0
    for each in encoded:
        found.append(each)
        size += len(each)
        if len(found) >= _OBJECTS or size >= _BYTES:
            break
    return b"".join(found)


class _Pickler(pickle.Pickler):
    """Pickles also read-only mappings, which settings have."""

    dispatch_table = {MappingProxyType: lambda view: (_read_only, (dict(view),))}  # noqa: RUF012


def _read_only(content: dict[Any, Any]) -> MappingProxyType[Any, Any]:
    return MappingProxyType(content)


def _pickled(value: object) -> bytes:
    buffer = io.BytesIO()
    _Pickler(buffer).dump(value)
    return buffer.getvalue()


@dataclass(slots=True)
class Received:
    """The state that parts have brought so far."""

    manifests: Manifests = field(default_factory=Manifests)
    _head: _Head | None = None
    _parts: SharedParts = field(default_factory=SharedParts)
    _ledger: Written = field(default_factory=lambda: Written([], [], [], [], []))

    def take(self, part: bytes) -> None:
        """Take one part. The sender is this program, so it is trusted."""
        tag, content = part[:1], part[1:]
        if tag == _HEAD:
            self._head = pickle.loads(content)
        elif tag == _POLICIES:
            self.manifests.policies.append(pickle.loads(content))
        elif tag == _LEDGER:
            index, entries = pickle.loads(content)
            self._ledger[index].extend(entries)
        else:
            self._take_objects(memoryview(part))

    def _take_objects(self, part: memoryview) -> None:
        start = 1
        while start < len(part):
            index, length = _FRAME.unpack_from(part, start)
            start += _FRAME.size
            item = _DECODERS[index].decode(part[start : start + length])
            keep(self.manifests, self._parts.pod(item) if isinstance(item, Pod) else item)
            start += length

    def state(self) -> State:
        """Return the state; all parts have come."""
        assert self._head is not None
        head = self._head
        has_ledger = any(self._ledger)
        return State(
            self.manifests,
            head.settings,
            head.now,
            ledger_codec.text(self._ledger, head.now) if has_ledger else "",
            evict_only=head.evict_only,
            has_extenders=head.has_extenders,
        )
