"""What preemption remembers across restarts: recent evictions, and which of them were wasted.

An eviction is kept with the policies that count it, as long as a window of one of them may reach
back to it. Counting is idempotent, so a plan that is resumed counts its victims once. Too many
entries are merged, always conservatively: see `ledger_entries`.

A victim counts from the decision to evict it. While a plan that names it is carried out, the plan
*holds* its entry, which counts whatever its age. The window begins when the eviction is certain.
Without an answer it is *uncertain*: it may be carried out during `UNCERTAIN_FOR`, so the window
begins then, unless the pod is seen to terminate before that, or to run on after it.

The writer of effects saves the ledger as text (`ledger_codec`); `revision` shows whether there are
changes that were not saved. More is kept here than fits into the text: entries that are merged only
in the text still count one by one during the life of this process.
"""

import math
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Final, TypeVar

from scheduler.model.times import Seconds
from scheduler.state.preemption import ledger_codec
from scheduler.state.preemption.counted_entries import CountedEntries, entry_key
from scheduler.state.preemption.ledger_codec import MAX_BYTES, LedgerError, Written
from scheduler.state.preemption.ledger_entries import (
    ANY,
    EvictionEntry,
    PreemptionEntry,
    merged,
    merged_owners,
    renewed,
)
from scheduler.state.preemption.preemption_backoff import PreemptionBackoff
from scheduler.state.preemption.wasted_evictions import WastedEvictions, WasteEntry, WastePause

__all__ = [
    "ANY",
    "MAX_BYTES",
    "MAX_ENTRIES",
    "UNCERTAIN_FOR",
    "EvictionEntry",
    "Ledger",
    "LedgerError",
    "PreemptionEntry",
]

#: Beyond this number, entries are merged.
MAX_ENTRIES: Final = 8192
#: Entries are also merged beyond this number of counts, one for each policy of each entry.
MAX_COUNTS: Final = 4 * MAX_ENTRIES
#: How long a pod may be evicted, and not be seen to terminate, after an eviction without an answer.
#: The API server gives up a request after a minute; as much again is for watches that lag.
UNCERTAIN_FOR: Final[Seconds] = 120.0
#: Held entries move forward before they leave the shortest window: all in one slice of it at once,
#: since each move makes caches useless, and at least so early (off the milliseconds of times).
_SLICES: Final = 8
_EARLY: Final[Seconds] = 0.0103

_EntryT = TypeVar("_EntryT", EvictionEntry, PreemptionEntry)


@dataclass(slots=True, eq=False)
class Ledger(CountedEntries):
    """Counted victims and preemptions, and failed and wasted preemptions. Owned by the machine."""

    backoff: PreemptionBackoff = field(default_factory=PreemptionBackoff)
    #: Wasted evictions, for any reason.
    wasted_evictions: WastedEvictions = field(default_factory=WastedEvictions)
    #: Grows with every change that must be saved.
    revision: int = 0
    #: Grows with every change of its content, also by what another process has saved.
    version: int = 0
    #: The longest window of any policy in force. Older entries are dropped. 0 before any policy
    #: is known; nothing is dropped then.
    horizon: Seconds = 0.0
    _windows: dict[str, Seconds] = field(default_factory=dict)
    #: Whether the text of another process was merged.
    _loaded: bool = False
    #: Uids of the preemptors whose plans hold a victim, by its uid; and the preemption of each
    #: plan that is carried out, by uid of the preemptor.
    _holders: dict[str, set[str]] = field(default_factory=dict)
    _open_preemptions: dict[str, PreemptionEntry] = field(default_factory=dict)
    #: Of the victims that are held, those that nothing can have evicted yet, by uid.
    _planned: set[str] = field(default_factory=set)
    #: Victims whose eviction is uncertain, by uid; it happens at the time of the entry at last.
    _uncertain: set[str] = field(default_factory=set)
    #: Victims that another process may have held when it wrote their entries, by uid.
    _unsettled: set[str] = field(default_factory=set)
    #: The shortest window of any budget or limit in force, 0 where there is none; and when the
    #: first entry that is held may leave such a window.
    _shortest: Seconds = 0.0
    _renew_at: Seconds = 0.0

    def __len__(self) -> int:
        entries = len(self._evictions) + len(self._preemptions)
        return entries + len(self.backoff) + len(self.wasted_evictions)

    def set_windows(self, windows: Mapping[str, Seconds], shortest: Seconds = 0.0) -> None:
        """Set the windows of the policies in force, in seconds.

        Args:
            windows: The longest window of each policy, by name; 0 for no window.
            shortest: The shortest window of all policies; 0 for no window.
        """
        self._windows = dict(windows)
        self.horizon = max(windows.values(), default=0.0)
        self._shortest, self._renew_at = shortest, 0.0

    # Counting -------------------------------------------------------------------------------------

    def count_victim(self, eviction: EvictionEntry) -> bool:
        """Count a victim once; return whether it was not counted before."""
        if not eviction.policies or eviction.uid in self._evictions:
            return False
        self._add_eviction(eviction)
        self._record_change()
        self._bound(eviction.at)
        return True

    def count_preemption(self, preemption: PreemptionEntry) -> bool:
        """Count a preemption once; return whether it was not counted before."""
        if not preemption.policies or (preemption.uid, preemption.at) in self._preemptions:
            return False
        self._add_preemption(preemption)
        self._record_change()
        self._bound(preemption.at)
        return True

    def restamp(self, uid: str, now: Seconds) -> None:
        """Move the time of a counted victim to now: only now its eviction is certain."""
        if self.find_victim(uid) is not None:
            self._move(uid, now)
            self._uncertain.discard(uid)

    def doubt(self, uid: str, now: Seconds) -> None:
        """Count a victim as evicted although that is uncertain, since no answer came."""
        if self.find_victim(uid) is not None:
            self._move(uid, now + UNCERTAIN_FOR)
            self._uncertain.add(uid)

    def _move(self, uid: str, at: Seconds) -> None:
        self._planned.discard(uid)
        self._add_eviction(replace(self._drop_eviction(uid), at=round(at, 3)))
        self._record_change()

    def observed(self, uid: str, now: Seconds, *, runs_on: bool) -> bool:
        """Process an observed pod: it may settle whether an uncertain victim was evicted.

        Args:
            uid: The pod.
            now: The time.
            runs_on: Whether it is on its node and does not terminate.

        Returns:
            Whether the pod counts for a shorter time now, or not at all.
        """
        if uid not in self._uncertain:
            return False
        if not runs_on:
            self.restamp(uid, now)
            return True
        if uid in self._holders or now < self._evictions[uid].at:
            return False
        self.take_back(uid)
        return True

    def take_back(self, uid: str) -> None:
        """Remove the entry of a victim that was not evicted after all."""
        if self.find_victim(uid) is not None:
            self._drop_eviction(uid)
            self._holders.pop(uid, None)
            self._planned.discard(uid)
            self._uncertain.discard(uid)
            self._record_change()

    def take_back_preemption(self, uid: str, at: Seconds) -> None:
        """Remove the entry of a preemption for which no pod was evicted after all."""
        if (uid, at) in self._preemptions:
            self._drop_preemption((uid, at))
            self._record_change()

    # Plans that are carried out -------------------------------------------------------------------

    def hold(self, eviction: EvictionEntry, preemptor: str) -> None:
        """Count a victim of a plan, whatever its age, until `release`.

        Args:
            eviction: The victim, and the policies that count it for this plan.
            preemptor: The uid of the preemptor.
        """
        uid, known = eviction.uid, self.find_victim(eviction.uid)
        if known is None and not eviction.policies:
            return
        self._holders.setdefault(uid, set()).add(preemptor)
        self._renew_by((known or eviction).at)
        if known is None:
            self._planned.add(uid)
            self.count_victim(eviction)
        elif not eviction.policies <= known.policies:
            policies = known.policies | eviction.policies
            self._add_eviction(replace(self._drop_eviction(uid), policies=policies))
            self._record_change()

    def release(self, uid: str, preemptor: str) -> bool:
        """End what `hold` began; return whether the victim, which stays, does not count any more.

        It still counts if it may have been evicted, or if another plan holds it.
        """
        holders = self._holders.get(uid, set())
        holders.discard(preemptor)
        if holders or self._holders.pop(uid, None) is None or uid not in self._planned:
            return False
        self.take_back(uid)
        return True

    def hold_preemption(self, preemption: PreemptionEntry) -> None:
        """Count the preemption of a plan, whatever its age, until `release_preemption`."""
        self.count_preemption(preemption)
        if entry_key(preemption) in self._preemptions:
            self._open_preemptions[preemption.uid] = preemption
            self._renew_by(preemption.at)

    def release_preemption(self, uid: str, now: Seconds, *, evicted: bool) -> bool:
        """End what `hold_preemption` began; return whether it does not count any more.

        If pods were evicted, it counts from now on.
        """
        preemption = self._open_preemptions.pop(uid, None)
        if preemption is None:
            return False
        self.take_back_preemption(uid, preemption.at)
        if evicted:
            self._put_preemption(replace(preemption, at=max(preemption.at, round(now, 3))))
        return not evicted

    def _renew_by(self, at: Seconds) -> None:
        """Renew by the last slice before a held entry of this time leaves the shortest window."""
        if part := self._shortest / _SLICES:
            last = math.ceil((at + self._shortest - _EARLY) / part) - 1
            self._renew_at = min(self._renew_at, last * part)

    def renew(self, now: Seconds) -> None:
        """Keep what is held within every window; to be called before anything is decided.

        Times move by whole windows, so it does not matter how often this is called.
        """
        step = self._shortest
        if now < self._renew_at or not step or not (self._holders or self._open_preemptions):
            return
        until = (math.floor(now * _SLICES / step) + 1) * step / _SLICES + _EARLY
        for uid in self._holders:
            eviction = self._evictions[uid]
            if (at := renewed(eviction.at, step, until)) != eviction.at:
                self._add_eviction(replace(self._drop_eviction(uid), at=at))
                self.version += 1
        for uid, preemption in [*self._open_preemptions.items()]:
            if (at := renewed(preemption.at, step, until)) != preemption.at:
                self._drop_preemption(entry_key(preemption))
                self._open_preemptions[uid] = self._put_preemption(replace(preemption, at=at))
                self.version += 1
        moments = [self._evictions[uid].at for uid in self._holders]
        moments += (preemption.at for preemption in self._open_preemptions.values())
        self._renew_at = math.inf
        self._renew_by(min(moments))

    def take_unsettled(self) -> list[str]:
        """Return the victims, by uid, that another process may have held when it wrote the ledger.

        Each is returned once. The caller finds out which of them still run.
        """
        uids, self._unsettled = sorted(self._unsettled), set()
        return uids

    def check(self, plans: Mapping[str, Set[str]]) -> None:
        """Assert that exactly some plans hold victims, given by preemptor, and no mark is left."""
        held: dict[str, set[str]] = {}
        for uid, preemptors in self._holders.items():
            for preemptor in preemptors:
                held.setdefault(preemptor, set()).add(uid)
        assert held == plans
        assert self._planned <= self._holders.keys()
        assert (self._holders.keys() | self._uncertain) <= self._evictions.keys()
        opened = map(entry_key, self._open_preemptions.values())
        assert self._preemptions.keys() >= {*opened}

    def record_failure(
        self, preemptor: str, node: str, victims: Iterable[str], now: Seconds, *, lost: bool
    ) -> None:
        """Record a failed preemption; for the arguments see `PreemptionBackoff.record_failure`."""
        self.backoff.record_failure(preemptor, node, victims, now, lost=lost)
        self._record_change()

    def record_success(self, preemptor: str, victims: Iterable[str]) -> None:
        """Record a successful preemption; drops the failures between these owners."""
        if self.backoff.record_success(preemptor, victims):
            self._record_change()

    def record_waste(
        self, preemptor_uid: str, owner: str, node: str, victims: int, now: Seconds
    ) -> WastePause | None:
        """Record wasted evictions; for arguments and result see `WastedEvictions.record`."""
        self._record_change()
        return self.wasted_evictions.record(preemptor_uid, owner, node, victims, now)

    def record_possible_waste(
        self, preemptor_uid: str, owner: str, node: str, victims: int, now: Seconds
    ) -> WasteEntry:
        """Record evictions that may be wasted; see `WastedEvictions.record_possible`."""
        self._record_change()
        return self.wasted_evictions.record_possible(preemptor_uid, owner, node, victims, now)

    def resolve_waste(self, entry: WasteEntry, victims: int, now: Seconds) -> WastePause | None:
        """Record whether possibly wasted evictions were wasted; see `WastedEvictions.resolve`."""
        self._record_change()
        return self.wasted_evictions.resolve(entry, victims, now)

    def record_binding(self, owner: str, node: str) -> None:
        """Record that a preemption led to a binding; see `WastedEvictions.record_binding`."""
        if self.wasted_evictions.record_binding(owner, node):
            self._record_change()

    def _record_change(self) -> None:
        self.revision += 1
        self.version += 1

    # Saving ---------------------------------------------------------------------------------------

    def text(self, now: Seconds) -> str:
        """Prune the ledger and return it as text that `merge` reads.

        The text has at most `MAX_BYTES` bytes. If that is not enough, the older half of the
        counted entries is merged in the text; if that does not help, the oldest entries, also of
        failed and wasted preemptions, are left out.
        """
        self.prune(now)
        held, opened = self._holders, self._open_preemptions
        # What is held may be carried out at any time after this: it has no age in the text.
        written = Written(
            [
                replace(entry, at=now) if entry.uid in held else entry
                for entry in self._evictions.values()
            ],
            [
                replace(entry, at=now) if opened.get(entry.uid) == entry else entry
                for entry in self._preemptions.values()
            ],
            [*self.backoff],
            *self.wasted_evictions.written(),
        )
        return ledger_codec.text(written, now)

    def merge(self, text: str, now: Seconds | None = None) -> int:
        """Add the entries of a text to those of this ledger.

        Any text is safe. Invalid entries are dropped, or count for every namespace, owner or node
        if only that name is damaged; numbers beyond their bounds are replaced by the bound.

        Args:
            text: What `text` has returned, in this process or another one.
            now: Replaces later moments, which are of another clock. `None` for no such bound, if
                the clock is not known.

        Returns:
            How many entries were dropped.

        Raises:
            LedgerError: It is not a ledger of this version; nothing is added then.
        """
        read, damaged = ledger_codec.decoded(text, now, by_age=not self._loaded)
        self._loaded = True
        before = self._versions()
        for eviction in read.evictions:
            if (eviction.uid or eviction) not in self._evictions:
                self._add_eviction(eviction)
                if eviction.uid and now is not None and eviction.at >= now:
                    self._unsettled.add(eviction.uid)
                self._bound(now)
        for preemption in read.preemptions:
            if not self._contains(preemption, now):
                self._add_preemption(preemption)
                self._bound(now)
        for record in read.fruitless:
            self.backoff.merge(record)
        self.wasted_evictions.merge(read.wasted, read.pauses)
        if self._versions() != before:
            self.version += 1
        return damaged

    def _contains(self, preemption: PreemptionEntry, now: Seconds | None) -> bool:
        if not preemption.uid or now is None or preemption.at < now:
            return entry_key(preemption) in self._preemptions
        # If its time is in the future, nothing but the preemptor is certain.
        return self.find_preemption(preemption.uid) is not None

    def _versions(self) -> tuple[int, ...]:
        entries = len(self._evictions), len(self._preemptions)
        return (*entries, self._counts, self.backoff.version, self.wasted_evictions.version)

    def prune(self, now: Seconds) -> None:
        """Drop entries that are older than the windows of all policies that count them."""
        self.backoff.prune(now)
        self.wasted_evictions.prune(now)
        # Before the policies are known, no entry is known to be too old.
        if not self.horizon:
            return
        shortest = min(filter(None, self._windows.values()), default=self.horizon)
        old = now - shortest
        for key, eviction in self._outdated(self._evictions, old, now):
            if key in self._holders:
                continue
            self._drop_eviction(key)
            if (kept := self._kept(eviction, now)) is not None:
                self._add_eviction(kept)
            else:
                self._uncertain.discard(eviction.uid)
        for key, preemption in self._outdated(self._preemptions, old, now):
            if self._open_preemptions.get(preemption.uid) == preemption:
                continue
            self._drop_preemption(key)
            if (held := self._kept(preemption, now)) is not None:
                self._add_preemption(held)

    def _outdated(
        self, entries: Mapping[object, _EntryT], old: Seconds, now: Seconds
    ) -> list[tuple[object, _EntryT]]:
        """Return the entries that not all of their policies count any more."""
        older = ((key, entry) for key, entry in entries.items() if entry.at < old)
        return [(key, entry) for key, entry in older if self._kept(entry, now) is not entry]

    def _kept(self, entry: _EntryT, now: Seconds) -> _EntryT | None:
        """Return an entry with the policies that still count it; `None` if none does."""
        # A policy that has no window now may have had one before it was changed.
        windows, longest = self._windows, self.horizon
        names = [
            name for name in entry.policies if entry.at >= now - (windows.get(name) or longest)
        ]
        if len(names) == len(entry.policies):
            return entry
        return replace(entry, policies=frozenset(names)) if names else None

    # Bounds ---------------------------------------------------------------------------------------

    def _bound(self, now: Seconds | None) -> None:
        if not self._are_many(1.0):
            return
        if now is not None:
            self.prune(now)
        for hard in (False, True):
            if self._are_many(0.75):
                self._merge_older_half(hard=hard)

    def _are_many(self, share: float) -> bool:
        """Return whether there are more entries than a share of the greatest number.

        Those of plans that are carried out do not count: the plans bound them.
        """
        entries, counts = len(self._evictions) + len(self._preemptions), self._counts
        entries -= len(self._holders) + len(self._open_preemptions)
        if counts > MAX_COUNTS * share:
            counts -= sum(len(self._evictions[uid].policies) for uid in self._holders)
            counts -= sum(len(each.policies) for each in self._open_preemptions.values())
        return entries > MAX_ENTRIES * share or counts > MAX_COUNTS * share

    def _merge_older_half(self, *, hard: bool) -> None:
        evictions, preemptions = self._in_order()
        older = evictions[: (len(evictions) + 1) // 2]
        for eviction in older:
            self._drop_eviction(eviction.uid or eviction)
            self._uncertain.discard(eviction.uid)
        for eviction in merged(older, hard=hard):
            self._add_eviction(eviction)
        older_preemptions = preemptions[: (len(preemptions) + 1) // 2]
        for preemption in older_preemptions:
            self._drop_preemption(entry_key(preemption))
        for preemption in merged_owners(older_preemptions, hard=hard):
            self._add_preemption(preemption)

    def _in_order(self) -> tuple[list[EvictionEntry], list[PreemptionEntry]]:
        """Return all entries that are not held, oldest first."""
        held, opened = self._holders, self._open_preemptions
        evictions = [entry for entry in self._evictions.values() if entry.uid not in held]
        preemptions = [each for each in self._preemptions.values() if opened.get(each.uid) != each]
        at = attrgetter("at")
        return sorted(evictions, key=at), sorted(preemptions, key=at)
