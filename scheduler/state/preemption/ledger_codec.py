"""The text of a ledger: what is written into the ConfigMap, and what is believed of it.

What is read was written by another process, with another clock, and may be damaged or hostile. So
every number, name and list has a bound, and one bad entry spoils no other.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from scheduler.model.api.owners import LONGEST, bounded
from scheduler.model.times import Seconds
from scheduler.state.preemption.ledger_entries import (
    ANY,
    EvictionEntry,
    PreemptionEntry,
    merged,
    merged_owners,
)
from scheduler.state.preemption.moments import MOST_TOLD
from scheduler.state.preemption.preemption_backoff import FailureRecord
from scheduler.state.preemption.wasted_evictions import NodePause, WasteEntry

__all__ = ["VERSION", "LedgerError", "Written", "decoded", "encoded"]

VERSION: Final = 1

#: No ConfigMap holds more, in characters.
_MOST_TEXT: Final = 2_000_000
#: Of each list; more are not looked at. A text of the greatest length has fewer sound ones.
_MOST_ENTRIES: Final = 50_000
#: Later than any clock shows: the end of the year 9999.
_LATEST: Final[Seconds] = 253_402_300_799.0
#: More victims of a preemption than any node has pods.
_MOST_VICTIMS: Final = 10_000
_MOST_TIMES: Final = 1_000_000

_EMPTY: Final = msgspec.Raw(b"[]")

_T = TypeVar("_T")


class LedgerError(Exception):
    """A text is no ledger, or one of another version."""


class Written(NamedTuple):
    """What is written down, all oldest first."""

    evictions: list[EvictionEntry]
    preemptions: list[PreemptionEntry]
    fruitless: list[FailureRecord]
    wasted: list[WasteEntry]
    pauses: list[NodePause]

    def smaller(self) -> "Written":
        """Return the same with less detail; nothing of nothing."""
        half, other = (len(self.evictions) + 1) // 2, (len(self.preemptions) + 1) // 2
        for hard in (False, True):
            fewer = self._replace(
                evictions=[*merged(self.evictions[:half], hard=hard), *self.evictions[half:]],
                preemptions=[
                    *merged_owners(self.preemptions[:other], hard=hard),
                    *self.preemptions[other:],
                ],
            )
            # With less than that it would take too many turns.
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
        """Return how many victims and preemptions there are, merged ones once."""
        return len(self.evictions) + len(self.preemptions)


def _later_half(items: list[_T]) -> list[_T]:
    return items[len(items) // 2 + 1 :]


# Writing ------------------------------------------------------------------------------------------


class _Names:
    """A table of names, so that each is written once."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def place(self, name: str) -> int:
        found = self.places.get(name)
        if found is None:
            found = self.places[name] = len(self.places)
        return found

    def all(self, names: Iterable[str]) -> list[int]:
        return [self.place(each) for each in sorted(names)]


def encoded(written: Written, now: Seconds) -> bytes:
    """Return the text, as UTF-8. Numbers stand for names of the table."""
    names = _Names()
    name = names.place
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
            (e.at, e.uid, name(e.owner), name(e.node), e.victims, e.settled)
            for e in written.wasted
        ],
        # Preemptor's owner, node, times, last.
        "pauses": [(name(e.owner), name(e.node), e.times, e.last) for e in written.pauses],
    }  # fmt: skip
    return msgspec.json.encode(
        {"version": VERSION, "written": now, "names": [*map(bounded, names.places)], **lists}
    )


# Reading ------------------------------------------------------------------------------------------


def decoded(text: str, now: Seconds | None, *, by_age: bool = False) -> tuple[Written, int]:
    """Return what can be believed of a text, and how many of its entries were dropped.

    Args:
        text: Any text.
        now: Later moments are taken for now; `None` for no such bound.
        by_age: Whether entries are as old as they were when the text was written. So it must be
            where another process has written it: its clock may be an hour behind or ahead, and a
            change of leader must not make what was in vain look old.

    Raises:
        LedgerError: It is no ledger of this version.
    """
    if len(text) > _MOST_TEXT:
        raise LedgerError(f"{len(text)} characters are too many")
    try:
        found = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError) as error:
        raise LedgerError(str(error)[:200]) from error
    if "version" not in found:
        raise LedgerError("Object missing required field `version`")
    version = _read(found["version"], object)
    if version != VERSION or isinstance(version, bool):
        raise LedgerError(f"version {str(version)[:20]} is not known, only {VERSION}")
    names = _read(found.get("names", _EMPTY), list[msgspec.Raw])
    reader = _Reader(names or [], now)
    written = _read(found.get("written", _EMPTY), float)
    if by_age and now is not None and written is not None and 0 <= written <= _LATEST:
        reader.written = written
    read = Written(
        reader.entries(found.get("evictions"), reader.eviction),
        reader.entries(found.get("preemptions"), reader.preemption),
        reader.entries(found.get("fruitless"), reader.memory),
        reader.entries(found.get("wasted"), reader.waste),
        reader.entries(found.get("pauses"), reader.pause),
    )
    return read, reader.damaged


class _DamagedError(Exception):
    """An entry makes no sense."""


@dataclass(slots=True)
class _Reader:
    """Reads entries one by one."""

    names: Sequence[msgspec.Raw]
    now: Seconds | None
    #: When the text was written, by the clock of its moments; `None` to take these as they are.
    written: Seconds | None = None
    #: How many entries were dropped.
    damaged: int = 0
    #: The names that were read, so that equal ones are one object.
    known: dict[int, str] = field(default_factory=dict)

    def entries(self, written: msgspec.Raw | None, read: Callable[..., _T]) -> list[_T]:
        """Return the sound entries of a list."""
        listed = _read(_EMPTY if written is None else written, list[msgspec.Raw])
        if listed is None:
            self.damaged += 1
            return []
        self.damaged += max(0, len(listed) - _MOST_ENTRIES)
        found = []
        for each in listed[:_MOST_ENTRIES]:
            try:
                found.append(read(*(_read(each, list[Any]) or ())))
            except (_DamagedError, TypeError, ValueError, OverflowError):
                self.damaged += 1
        return found

    def eviction(self, at: object, uid: object, *more: object) -> EvictionEntry:
        """Return a victim."""
        space, owner, node, policies, count = more
        return EvictionEntry(
            self.moment(at), _uid(uid), self.place(space), self.place(owner), self.place(node),
            self.policies(policies), _whole(count, 1, MOST_TOLD),
        )  # fmt: skip

    def preemption(
        self, at: object, uid: object, owner: object, policies: object, count: object
    ) -> PreemptionEntry:
        """Return a preemption."""
        whom, number = self.place(owner), _whole(count, 1, MOST_TOLD)
        return PreemptionEntry(self.moment(at), _uid(uid), whom, self.policies(policies), number)

    def memory(
        self, preemptor: object, node: object, victim: object, *more: object
    ) -> FailureRecord:
        """Return what came to nothing between two owners."""
        times, lost, last = more
        often = _whole(times, 1, _MOST_TIMES)
        pair = self.name(preemptor), self.name(node), self.name(victim)
        return FailureRecord(*pair, often, _whole(lost, 0, often), self.moment(last))

    def waste(
        self, at: object, uid: object, owner: object, node: object, *more: object
    ) -> WasteEntry:
        """Return a preemption in vain; where it is not said to be suspected only, it is certain."""
        victims, *settled = more
        where = self.name(owner), self.name(node)
        count = _whole(victims, 1, _MOST_VICTIMS)
        return WasteEntry(self.moment(at), _uid(uid), *where, count, settled != [False])

    def pause(self, owner: object, node: object, times: object, last: object) -> NodePause:
        """Return how often preemption failed on a node."""
        where = self.name(owner), self.name(node)
        return NodePause(*where, _whole(times, 1, _MOST_TIMES), self.moment(last))

    def moment(self, at: object) -> Seconds:
        """Return a moment that has been."""
        if not isinstance(at, int | float) or isinstance(at, bool):
            raise _DamagedError
        if not at >= 0:  # NaN, too; integers may be beyond the range of floats
            raise _DamagedError
        moment = float(min(at, _LATEST))
        if self.written is not None and self.now is not None:
            return self.now - max(0.0, self.written - moment)
        return min(moment, _LATEST if self.now is None else self.now)

    def name(self, place: object) -> str:
        """Return a name of the table."""
        if not isinstance(place, int) or isinstance(place, bool):
            raise _DamagedError
        found = self.known.get(place)
        if found is None:
            if not 0 <= place < len(self.names):
                raise _DamagedError
            name = _read(self.names[place], str)
            if name is None:
                raise _DamagedError
            found = self.known[place] = bounded(name)
        return found

    def place(self, place: object) -> str:
        """Return a namespace, owner or node; where it is not known, it counts for all."""
        try:
            return self.name(place)
        except _DamagedError:
            return ANY

    def policies(self, places: object) -> frozenset[str]:
        """Return the names of policies; at least one."""
        if not isinstance(places, list) or not places:
            raise _DamagedError
        found = set()
        for each in places[:_MOST_ENTRIES]:
            try:
                found.add(self.name(each))
            except _DamagedError:
                continue
        if not found:
            raise _DamagedError
        return frozenset(found)


def _read(written: msgspec.Raw, wanted: type[_T]) -> _T | None:
    """Return a value; `None` where it is of another type, or out of range."""
    try:
        return msgspec.json.decode(written, type=wanted)
    except (ValueError, RecursionError):
        return None


def _uid(uid: object) -> str:
    """Return a uid; empty, as for what was merged, where it is none."""
    if not isinstance(uid, str):
        return ""
    return uid if len(uid) <= LONGEST else bounded(uid)


def _whole(number: object, least: int, most: int) -> int:
    """Return a whole number within its bounds."""
    if not isinstance(number, int) or isinstance(number, bool):
        raise _DamagedError
    return max(least, min(most, number))
