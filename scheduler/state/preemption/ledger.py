"""What preemption remembers across restarts: recent evictions, and which of them were wasted.

An eviction is kept with the policies that count it, as long as a window of one of them may reach
back to it. Counting is idempotent, so a plan that is resumed counts its victims once. Too many
entries are merged, always conservatively: see `ledger_entries`.

The writer of effects saves the ledger as text (`ledger_codec`); `revision` shows whether there are
changes that were not saved. More is kept here than fits into the text: entries that are merged only
in the text still count one by one during the life of this process.

The module is longer than others because every count, query and limit is about the same entries.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from scheduler.model.policies import BudgetScope
from scheduler.model.times import Seconds
from scheduler.state.preemption import ledger_codec
from scheduler.state.preemption.event_times import EventTimes
from scheduler.state.preemption.ledger_arrays import LedgerArrays
from scheduler.state.preemption.ledger_codec import MAX_BYTES, LedgerError, Written
from scheduler.state.preemption.ledger_entries import (
    ANY,
    EvictionEntry,
    PreemptionEntry,
    counted_for,
    merged,
    merged_owners,
)
from scheduler.state.preemption.preemption_backoff import PreemptionBackoff
from scheduler.state.preemption.wasted_evictions import WastedEvictions, WasteEntry, WastePause

__all__ = [
    "ANY",
    "MAX_BYTES",
    "MAX_ENTRIES",
    "EvictionEntry",
    "Ledger",
    "LedgerError",
    "PreemptionEntry",
]

#: Beyond this number, entries are merged.
MAX_ENTRIES: Final = 8192
#: Entries are also merged beyond this number of counts, one for each policy of each entry.
MAX_COUNTS: Final = 4 * MAX_ENTRIES

_EntryT = TypeVar("_EntryT", EvictionEntry, PreemptionEntry)


class Ledger:
    """Counted victims and preemptions, and failed and wasted preemptions. Owned by the machine."""

    def __init__(self) -> None:
        self.backoff: Final = PreemptionBackoff()
        #: Wasted evictions, for any reason.
        self.wasted_evictions: Final = WastedEvictions()
        #: Grows with every change that must be saved.
        self.revision = 0
        #: Grows with every change of its content, also by what another process has saved.
        self.version = 0
        #: The longest window of any policy in force. Older entries are dropped. 0 before any policy
        #: is known; nothing is dropped then.
        self.horizon: Seconds = 0.0
        self._windows: Mapping[str, Seconds] = {}
        #: By uid, or by itself if several were merged.
        self._evictions: dict[object, EvictionEntry] = {}
        #: By uid and moment, or by itself if several were merged.
        self._preemptions: dict[object, PreemptionEntry] = {}
        #: The evictions as arrays; `None` if that is out of date.
        self._table: LedgerArrays | None = None
        #: By policy and scope, and by key.
        self._victims: dict[tuple[str, BudgetScope], dict[str, EventTimes]] = {}
        self._by_owner: dict[tuple[str, str], EventTimes] = {}
        #: Whether the text of another process was merged.
        self._loaded = False
        #: The number of policies of all entries together.
        self._counts = 0

    def __len__(self) -> int:
        entries = len(self._evictions) + len(self._preemptions)
        return entries + len(self.backoff) + len(self.wasted_evictions)

    def set_windows(self, windows: Mapping[str, Seconds]) -> None:
        """Set the longest window of each policy in force, by name, in seconds; 0 for no window."""
        self._windows = dict(windows)
        self.horizon = max(windows.values(), default=0.0)

    # Counting -------------------------------------------------------------------------------------

    def count_victim(self, eviction: EvictionEntry) -> bool:
        """Count a victim once; return whether it was not counted before."""
        if not eviction.policies or eviction.uid in self._evictions:
            return False
        self._add_eviction(eviction)
        self._record_change()
        self._bound(eviction.at)
        return True

    def find_victim(self, uid: str) -> EvictionEntry | None:
        """Return the entry of a victim; `None` if it is not counted, or was merged with others.

        After a restart this shows what an earlier process counted for a plan: victims that were not
        evicted after all can be taken back.
        """
        return self._evictions.get(uid) if uid else None

    def find_preemption(self, uid: str) -> PreemptionEntry | None:
        """Return the last preemption that is counted for a preemptor; `None` if none is."""
        if not uid:
            return None
        own = (entry for entry in self._preemptions.values() if entry.uid == uid)
        return max(own, key=lambda entry: entry.at, default=None)

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
            eviction = self._drop_eviction(uid)
            self._add_eviction(replace(eviction, at=round(now, 3)))
            self._record_change()

    def take_back(self, uid: str) -> None:
        """Remove the entry of a victim that was not evicted after all."""
        if self.find_victim(uid) is not None:
            self._drop_eviction(uid)
            self._record_change()

    def take_back_preemption(self, uid: str, at: Seconds) -> None:
        """Remove the entry of a preemption for which no pod was evicted after all."""
        if (uid, at) in self._preemptions:
            self._drop_preemption((uid, at))
            self._record_change()

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

    # Queries --------------------------------------------------------------------------------------

    def victims(self, policy: str, scope: BudgetScope, key: str, since: Seconds) -> list[Seconds]:
        """Return when the victims were evicted that count for one budget, oldest first.

        Args:
            policy: The name of the policy.
            scope: Of the budget.
            key: The namespace, owner or node; ignored for the cluster.
            since: The begin of the window, which is outside of it.

        Returns:
            Seconds since 1970; the last `MAX_RETURNED` at most.
        """
        by_key = self._victims.get((policy, scope), {})
        keys = (ANY,) if scope is BudgetScope.CLUSTER else (key, ANY)
        return _since(map(by_key.get, keys), since)

    def counted(self, policy: str, scope: BudgetScope) -> list[tuple[str, EventTimes]]:
        """Return when the victims were evicted that count for each key of a budget; only to read.

        For the arguments see `victims`. Victims that were merged count for `ANY`.
        """
        return [*self._victims.get((policy, scope), {}).items()]

    def counted_by_owner(self, policy: str) -> list[tuple[str, EventTimes]]:
        """Return when the preemptions of each owner were counted; as `counted`."""
        return [(owner, at) for (name, owner), at in self._by_owner.items() if name == policy]

    def victim_arrays(self) -> LedgerArrays:
        """Return all counted victims as arrays, for callers that need `victims` for many keys."""
        if self._table is None:
            self._table = LedgerArrays.of(self._evictions.values())
        return self._table

    def preemptions(self, policy: str, owner: str, since: Seconds) -> list[Seconds]:
        """Return when preemptions for the pods of an owner were counted, oldest first."""
        return _since([self._by_owner.get((policy, name)) for name in (owner, ANY)], since)

    # Saving ---------------------------------------------------------------------------------------

    def text(self, now: Seconds) -> str:
        """Prune the ledger and return it as text that `merge` reads.

        The text has at most `MAX_BYTES` bytes. If that is not enough, the older half of the
        counted entries is merged in the text; if that does not help, the oldest entries, also of
        failed and wasted preemptions, are left out.
        """
        self.prune(now)
        return ledger_codec.text(self.contents(), now)

    def contents(self) -> Written:
        """Return all entries, in no order; this takes less than a millisecond."""
        return Written(
            [*self._evictions.values()],
            [*self._preemptions.values()],
            [*self.backoff],
            *self.wasted_evictions.written(),
        )

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
            return _key(preemption) in self._preemptions
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
            self._drop_eviction(key)
            if (kept := self._kept(eviction, now)) is not None:
                self._add_eviction(kept)
        for key, preemption in self._outdated(self._preemptions, old, now):
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
        """Return whether there are more entries than a share of the greatest number."""
        entries = len(self._evictions) + len(self._preemptions)
        return entries > MAX_ENTRIES * share or self._counts > MAX_COUNTS * share

    def _merge_older_half(self, *, hard: bool) -> None:
        evictions, preemptions = self._in_order()
        older = evictions[: (len(evictions) + 1) // 2]
        for eviction in older:
            self._drop_eviction(eviction.uid or eviction)
        for eviction in merged(older, hard=hard):
            self._add_eviction(eviction)
        older_preemptions = preemptions[: (len(preemptions) + 1) // 2]
        for preemption in older_preemptions:
            self._drop_preemption(_key(preemption))
        for preemption in merged_owners(older_preemptions, hard=hard):
            self._add_preemption(preemption)

    def _in_order(self) -> tuple[list[EvictionEntry], list[PreemptionEntry]]:
        """Return all entries, oldest first."""
        evictions = sorted(self._evictions.values(), key=lambda entry: entry.at)
        return evictions, sorted(self._preemptions.values(), key=lambda entry: entry.at)

    def _add_eviction(self, eviction: EvictionEntry) -> None:
        self._table = None
        self._evictions[eviction.uid or eviction] = eviction
        self._counts += len(eviction.policies)
        for policy, scope, key in counted_for(eviction):
            by_key = self._victims.setdefault((policy, scope), {})
            by_key.setdefault(key, EventTimes()).add(eviction.at, eviction.count)

    def _drop_eviction(self, key: object) -> EvictionEntry:
        self._table = None
        eviction = self._evictions.pop(key)
        self._counts -= len(eviction.policies)
        for policy, scope, name in counted_for(eviction):
            by_key = self._victims[policy, scope]
            by_key[name].drop(eviction.at, eviction.count)
            if not by_key[name]:
                del by_key[name]
            if not by_key:
                del self._victims[policy, scope]
        return eviction

    def _add_preemption(self, preemption: PreemptionEntry) -> None:
        self._preemptions[_key(preemption)] = preemption
        self._counts += len(preemption.policies)
        for policy in preemption.policies:
            moments = self._by_owner.setdefault((policy, preemption.owner), EventTimes())
            moments.add(preemption.at, preemption.count)

    def _drop_preemption(self, key: object) -> None:
        preemption = self._preemptions.pop(key)
        self._counts -= len(preemption.policies)
        for policy in preemption.policies:
            moments = self._by_owner[policy, preemption.owner]
            moments.drop(preemption.at, preemption.count)
            if not moments:
                del self._by_owner[policy, preemption.owner]


def _key(preemption: PreemptionEntry) -> object:
    return (preemption.uid, preemption.at) if preemption.uid else preemption


def _since(counted: Iterable[EventTimes | None], since: Seconds) -> list[Seconds]:
    lists = [moments.since(since) for moments in counted if moments]
    return lists[0] if len(lists) == 1 else sorted(at for times in lists for at in times)
