"""The text of a ledger in the ConfigMap: how it is written, and how it is validated when read.

A text that is read was written by another process with another clock, and may be damaged or
hostile. So every number, name and list has a limit, and an invalid entry does not affect others.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from scheduler.model.api.owners import MAX_LENGTH, bounded
from scheduler.model.times import Seconds
from scheduler.state.preemption.event_times import MAX_RETURNED
from scheduler.state.preemption.ledger_entries import (
    ANY,
    EvictionEntry,
    PreemptionEntry,
    merged,
    merged_owners,
)
from scheduler.state.preemption.preemption_backoff import FailureRecord
from scheduler.state.preemption.wasted_evictions import NodePause, WasteEntry

__all__ = ["MAX_BYTES", "VERSION", "LedgerError", "Written", "decoded", "encoded", "text"]

VERSION: Final = 1
#: A ConfigMap holds 1 MiB, its other fields included.
MAX_BYTES: Final = 900_000

#: The longest text, in characters; no ConfigMap holds more.
_MAX_TEXT: Final = 2_000_000
#: How many entries of each list are read. The longest text has fewer valid ones.
_MAX_ENTRIES: Final = 50_000
#: Later than any clock shows: the end of the year 9999.
_LATEST: Final[Seconds] = 253_402_300_799.0
#: The most victims of a preemption: more than any node has pods.
_MAX_VICTIMS: Final = 10_000
_MAX_TIMES: Final = 1_000_000

_EMPTY: Final = msgspec.Raw(b"[]")

_T = TypeVar("_T")


class LedgerError(Exception):
    """A text is not a ledger of this version."""


class Written(NamedTuple):
    """The content of the text, all lists oldest first."""

    evictions: list[EvictionEntry]
    preemptions: list[PreemptionEntry]
    fruitless: list[FailureRecord]
    wasted: list[WasteEntry]
    pauses: list[NodePause]

    def smaller(self) -> "Written":
        """Return the same with fewer entries; empty lists stay empty."""
        half, other = (len(self.evictions) + 1) // 2, (len(self.preemptions) + 1) // 2
        for hard in (False, True):
            fewer = self._replace(
                evictions=[*merged(self.evictions[:half], hard=hard), *self.evictions[half:]],
                preemptions=[
                    *merged_owners(self.preemptions[:other], hard=hard),
                    *self.preemptions[other:],
                ],
            )
            # If merging saves less than that, the caller would need too many rounds.
            if fewer.entries() <= self.entries() // 8 * 7:
                return fewer
        return Written(
            self.evictions[-half:] if half > 1 else [],
            self.preemptions[-other:] if other > 1 else [],
            _later_half(self.fruitless),
            _later_half(self.wasted),
            _later_half(self.pauses),
        )

    def entries(self) -> int:
        """Return the number of entries of victims and preemptions."""
        return len(self.evictions) + len(self.preemptions)


def _later_half(items: list[_T]) -> list[_T]:
    return items[len(items) // 2 + 1 :]


# Writing ------------------------------------------------------------------------------------------


class _Names:
    """A table of names, so that each is written once."""

    def __init__(self) -> None:
        self.indices: dict[str, int] = {}

    def index(self, name: str) -> int:
        return self.indices.setdefault(name, len(self.indices))

    def all(self, names: Iterable[str]) -> list[int]:
        return [self.index(name) for name in sorted(names)]


def text(written: Written, now: Seconds) -> str:
    """Return the text of a ledger, with at most `MAX_BYTES` bytes; see `Ledger.text`.

    Args:
        written: The content; victims and preemptions are in any order.
        now: The time.
    """
    evictions = sorted(written.evictions, key=lambda entry: entry.at)
    preemptions = sorted(written.preemptions, key=lambda entry: entry.at)
    ordered = written._replace(evictions=evictions, preemptions=preemptions)
    found = encoded(ordered, now)
    while len(found) > MAX_BYTES:
        ordered = ordered.smaller()
        found = encoded(ordered, now)
    return found.decode()


def encoded(written: Written, now: Seconds) -> bytes:
    """Return the text, as UTF-8. Names are replaced by their index in the table of names."""
    names = _Names()
    name = names.index
    lists = {
        # Time, uid, namespace, owner, node, policies, count.
        "evictions": [
            (e.at, e.uid, name(e.namespace), name(e.owner), name(e.node), names.all(e.policies),
             e.count)
            for e in written.evictions
        ],
        # Time, uid, owner, policies, count.
        "preemptions": [
            (e.at, e.uid, name(e.owner), names.all(e.policies), e.count)
            for e in written.preemptions
        ],
        # Preemptor's owner, node, victims' owner, times, lost, last.
        "fruitless": [
            (name(e.preemptor), name(e.node), name(e.victim), e.times, e.lost, e.last)
            for e in written.fruitless
        ],
        # Time, uid, owner, node, victims.
        "wasted": [
            (e.at, e.uid, name(e.owner), name(e.node), e.victims, e.certain)
            for e in written.wasted
        ],
        # Preemptor's owner, node, times, last.
        "pauses": [(name(e.owner), name(e.node), e.times, e.last) for e in written.pauses],
    }  # fmt: skip
    return msgspec.json.encode(
        {"version": VERSION, "written": now, "names": [*map(bounded, names.indices)], **lists}
    )


# Reading ------------------------------------------------------------------------------------------


def decoded(text: str, now: Seconds | None, *, by_age: bool = False) -> tuple[Written, int]:
    """Return the valid entries of a text, and how many entries were dropped.

    Args:
        text: Any text.
        now: Replaces later moments; `None` for no such bound.
        by_age: Whether to keep the age that entries had when the text was written. This is needed
            if another process has written it: its clock may be an hour behind or ahead, and a
            change of leader must not make failures look old.

    Raises:
        LedgerError: It is not a ledger of this version.
    """
    if len(text) > _MAX_TEXT:
        raise LedgerError(f"{len(text)} characters are too many")
    try:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError) as error:
        raise LedgerError(str(error)[:200]) from error
    if "version" not in fields:
        raise LedgerError("Object missing required field `version`")
    version = _read(fields["version"], object)
    if version != VERSION or isinstance(version, bool):
        raise LedgerError(f"version {str(version)[:20]} is not known, only {VERSION}")
    names = _read(fields.get("names", _EMPTY), list[msgspec.Raw])
    reader = _Reader(names or [], now)
    written = _read(fields.get("written", _EMPTY), float)
    if by_age and now is not None and written is not None and 0 <= written <= _LATEST:
        reader.written = written
    read = Written(
        reader.entries(fields.get("evictions"), reader.eviction),
        reader.entries(fields.get("preemptions"), reader.preemption),
        reader.entries(fields.get("fruitless"), reader.failure),
        reader.entries(fields.get("wasted"), reader.waste),
        reader.entries(fields.get("pauses"), reader.pause),
    )
    return read, reader.damaged


class _DamagedError(Exception):
    """An entry is invalid."""


@dataclass(slots=True)
class _Reader:
    """Reads entries one by one."""

    names: Sequence[msgspec.Raw]
    now: Seconds | None
    #: When the text was written, by the clock of its moments; `None` to keep the moments.
    written: Seconds | None = None
    #: How many entries were dropped.
    damaged: int = 0
    #: The names that were read, by index, so that equal ones are one object.
    known: dict[int, str] = field(default_factory=dict)

    def entries(self, written: msgspec.Raw | None, read: Callable[..., _T]) -> list[_T]:
        """Return the valid entries of a list."""
        listed = _read(_EMPTY if written is None else written, list[msgspec.Raw])
        if listed is None:
            self.damaged += 1
            return []
        self.damaged += max(0, len(listed) - _MAX_ENTRIES)
        valid = []
        for entry in listed[:_MAX_ENTRIES]:
            try:
                valid.append(read(*(_read(entry, list[Any]) or ())))
            except (_DamagedError, TypeError, ValueError, OverflowError):
                self.damaged += 1
        return valid

    def eviction(self, at: object, uid: object, *more: object) -> EvictionEntry:
        """Return a victim."""
        space, owner, node, policies, count = more
        return EvictionEntry(
            self.moment(at), _uid(uid), self.name_or_any(space), self.name_or_any(owner),
            self.name_or_any(node), self.policies(policies), _whole(count, 1, MAX_RETURNED),
        )  # fmt: skip

    def preemption(
        self, at: object, uid: object, owner: object, policies: object, count: object
    ) -> PreemptionEntry:
        """Return a preemption."""
        name, number = self.name_or_any(owner), _whole(count, 1, MAX_RETURNED)
        return PreemptionEntry(self.moment(at), _uid(uid), name, self.policies(policies), number)

    def failure(
        self, preemptor: object, node: object, victim: object, *more: object
    ) -> FailureRecord:
        """Return the failed preemptions of two owners on a node."""
        times, lost, last = more
        often = _whole(times, 1, _MAX_TIMES)
        names = self.name(preemptor), self.name(node), self.name(victim)
        return FailureRecord(*names, often, _whole(lost, 0, often), self.moment(last))

    def waste(
        self, at: object, uid: object, owner: object, node: object, *more: object
    ) -> WasteEntry:
        """Return a wasted preemption; it is certain unless the entry says that it is not."""
        victims, *certain = more
        names = self.name(owner), self.name(node)
        count = _whole(victims, 1, _MAX_VICTIMS)
        return WasteEntry(self.moment(at), _uid(uid), *names, count, certain != [False])

    def pause(self, owner: object, node: object, times: object, last: object) -> NodePause:
        """Return how often preemption failed on a node."""
        names = self.name(owner), self.name(node)
        return NodePause(*names, _whole(times, 1, _MAX_TIMES), self.moment(last))

    def moment(self, at: object) -> Seconds:
        """Return a moment in the past."""
        if not isinstance(at, int | float) or isinstance(at, bool):
            raise _DamagedError
        if not at >= 0:  # also true for NaN; integers may be beyond the range of floats
            raise _DamagedError
        moment = float(min(at, _LATEST))
        if self.written is not None and self.now is not None:
            return self.now - max(0.0, self.written - moment)
        return min(moment, _LATEST if self.now is None else self.now)

    def name(self, index: object) -> str:
        """Return a name of the table."""
        if not isinstance(index, int) or isinstance(index, bool):
            raise _DamagedError
        known = self.known.get(index)
        if known is None:
            if not 0 <= index < len(self.names):
                raise _DamagedError
            name = _read(self.names[index], str)
            if name is None:
                raise _DamagedError
            known = self.known[index] = bounded(name)
        return known

    def name_or_any(self, index: object) -> str:
        """Return a namespace, owner or node; `ANY`, which counts for all, if it is damaged."""
        try:
            return self.name(index)
        except _DamagedError:
            return ANY

    def policies(self, indices: object) -> frozenset[str]:
        """Return the names of policies; at least one."""
        if not isinstance(indices, list) or not indices:
            raise _DamagedError
        names = set()
        for index in indices[:_MAX_ENTRIES]:
            try:
                names.add(self.name(index))
            except _DamagedError:
                continue
        if not names:
            raise _DamagedError
        return frozenset(names)


def _read(written: msgspec.Raw, wanted: type[_T]) -> _T | None:
    """Return a value; `None` if it is of another type, or out of range."""
    try:
        return msgspec.json.decode(written, type=wanted)
    except (ValueError, RecursionError):
        return None


def _uid(uid: object) -> str:
    """Return a uid; empty, as for merged entries, if it is invalid."""
    if not isinstance(uid, str):
        return ""
    return uid if len(uid) <= MAX_LENGTH else bounded(uid)


def _whole(number: object, least: int, most: int) -> int:
    """Return a whole number, limited to its bounds."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise _DamagedError
    return max(least, min(most, number))
