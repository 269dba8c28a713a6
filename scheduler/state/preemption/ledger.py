"""What preemption has to remember beyond a restart: who was evicted lately, and what was in vain.

Each eviction is kept with the policies that count it, as long as a window of one of them may reach
back to it. Counting is idempotent, so a plan that is taken up again counts its victims once. What
becomes too much is merged, always to the safe side: see `entries`.

The ledger is written down as text (`ledger_text`) by the writer of effects; `revision` tells
whether there is anything that was not. More is kept here than fits into the text: what is merged
for the text alone still counts one by one as long as this process lives.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, TypeVar

from scheduler.model.policies import BudgetScope
from scheduler.model.times import Seconds
from scheduler.state.preemption import ledger_codec
from scheduler.state.preemption.ledger_arrays import LedgerArrays
from scheduler.state.preemption.ledger_codec import LedgerError, Written
from scheduler.state.preemption.ledger_entries import (
    ANY,
    EvictionEntry,
    PreemptionEntry,
    merged,
    merged_owners,
    places,
)
from scheduler.state.preemption.moments import Moments
from scheduler.state.preemption.preemption_backoff import PreemptionBackoff
from scheduler.state.preemption.wasted_evictions import WastedEvictions, WasteEntry, WastePause

__all__ = [
    "ANY",
    "MOST_BYTES",
    "MOST_ENTRIES",
    "EvictionEntry",
    "Ledger",
    "LedgerError",
    "PreemptionEntry",
]

#: More entries than these are merged.
MOST_ENTRIES: Final = 8192
#: More counts than these, an entry for each of its policies, are merged as well.
MOST_COUNTS: Final = 4 * MOST_ENTRIES
#: A ConfigMap holds 1 MiB, its other fields included.
MOST_BYTES: Final = 900_000

_EntryT = TypeVar("_EntryT", EvictionEntry, PreemptionEntry)


class Ledger:
    """All that is remembered. Owned by the machine."""

    def __init__(self) -> None:
        self.fruitless: Final = PreemptionBackoff()
        #: Evictions in vain, whatever the reason.
        self.wasted: Final = WastedEvictions()
        #: Grows with every change that must be written down.
        self.revision = 0
        #: Grows with every change of what it says, also by what others have written down.
        self.version = 0
        #: The longest window of any policy in force. What is older is dropped; 0 before any
        #: policy is known, when nothing is.
        self.horizon: Seconds = 0.0
        self._windows: Mapping[str, Seconds] = {}
        #: By uid, or by itself where several were merged.
        self._evictions: dict[object, EvictionEntry] = {}
        #: By uid and moment, or by itself where several were merged.
        self._preemptions: dict[object, PreemptionEntry] = {}
        #: The same as arrays; `None` where that is not up to date.
        self._table: LedgerArrays | None = None
        #: By policy and scope, and by key.
        self._victims: dict[tuple[str, BudgetScope], dict[str, Moments]] = {}
        self._by_owner: dict[tuple[str, str], Moments] = {}
        #: Whether what another process has written was taken over.
        self._recalled = False
        #: How often entries are counted by policies.
        self._counts = 0

    def __len__(self) -> int:
        entries = len(self._evictions) + len(self._preemptions)
        return entries + len(self.fruitless) + len(self.wasted)

    def reach(self, windows: Mapping[str, Seconds]) -> None:
        """Note how far back each policy in force looks, by name, in seconds; 0 for not at all."""
        self._windows = dict(windows)
        self.horizon = max(windows.values(), default=0.0)

    # Counting -------------------------------------------------------------------------------------

    def count_victim(self, eviction: EvictionEntry) -> bool:
        """Count a victim, once; tell whether it was not counted before."""
        if not eviction.policies or eviction.uid in self._evictions:
            return False
        self._add_eviction(eviction)
        self._note_change()
        self._bound(eviction.at)
        return True

    def counted(self, uid: str) -> EvictionEntry | None:
        """Return how a victim is counted; `None` where it is not, or was merged with others.

        After a restart this tells what an earlier process counted for a plan: what was not asked
        to leave after all can be taken back.
        """
        return self._evictions.get(uid) if uid else None

    def counted_preemption(self, uid: str) -> PreemptionEntry | None:
        """Return the last preemption that is counted for a preemptor; `None` where none is."""
        found = [each for each in self._preemptions.values() if each.uid == uid] if uid else []
        return max(found, key=lambda each: each.at, default=None)

    def count_preemption(self, preemption: PreemptionEntry) -> bool:
        """Count a preemption, once; tell whether it was not counted before."""
        if not preemption.policies or (preemption.uid, preemption.at) in self._preemptions:
            return False
        self._add_preemption(preemption)
        self._note_change()
        self._bound(preemption.at)
        return True

    def restamp(self, uid: str, now: Seconds) -> None:
        """Count a victim from now on: only now it is certain that it leaves."""
        if self.counted(uid) is not None:
            eviction = self._drop_eviction(uid)
            self._add_eviction(replace(eviction, at=round(now, 3)))
            self._note_change()

    def take_back(self, uid: str) -> None:
        """Do not count a victim that was not evicted after all."""
        if self.counted(uid) is not None:
            self._drop_eviction(uid)
            self._note_change()

    def take_back_preemption(self, uid: str, at: Seconds) -> None:
        """Do not count a preemption for which nobody was evicted after all."""
        if (uid, at) in self._preemptions:
            self._drop_preemption((uid, at))
            self._note_change()

    def note_fruitless(
        self, preemptor: str, node: str, victims: Iterable[str], now: Seconds, *, lost: bool
    ) -> None:
        """Record a failed preemption; for the arguments see `PreemptionBackoff.note`."""
        self.fruitless.note(preemptor, node, victims, now, lost=lost)
        self._note_change()

    def note_success(self, preemptor: str, victims: Iterable[str]) -> None:
        """Note that a preemption succeeded: what was in vain between these owners is forgotten."""
        if self.fruitless.succeeded(preemptor, victims):
            self._note_change()

    def waste(
        self, preemptor_uid: str, owner: str, node: str, victims: int, now: Seconds
    ) -> WastePause | None:
        """Record wasted evictions; for arguments and result see `WastedEvictions.record`."""
        self._note_change()
        return self.wasted.record(preemptor_uid, owner, node, victims, now)

    def suspect(
        self, preemptor_uid: str, owner: str, node: str, victims: int, now: Seconds
    ) -> WasteEntry:
        """Note that a preemption may be in vain; see `WastedEvictions.suspect`."""
        self._note_change()
        return self.wasted.suspect(preemptor_uid, owner, node, victims, now)

    def settle_waste(self, entry: WasteEntry, victims: int, now: Seconds) -> WastePause | None:
        """Note what has become of a suspected waste; see `WastedEvictions.settle`."""
        self._note_change()
        return self.wasted.settle(entry, victims, now)

    def credit(self, owner: str, node: str) -> None:
        """Note that a preemption led to a binding; see `WastedEvictions.credited`."""
        if self.wasted.credited(owner, node):
            self._note_change()

    def _note_change(self) -> None:
        self.revision += 1
        self.version += 1

    # Asking ---------------------------------------------------------------------------------------

    def victims(self, policy: str, scope: BudgetScope, key: str, since: Seconds) -> list[Seconds]:
        """Return when victims were counted that share a budget, oldest first.

        Args:
            policy: Its name.
            scope: What shares the budget.
            key: The namespace, owner or node; for the cluster it does not matter.
            since: The begin of the window; what happened then is outside of it.

        Returns:
            Seconds since 1970; the last `MOST_TOLD` at most.
        """
        found = self._victims.get((policy, scope), {})
        keys = (ANY,) if scope is BudgetScope.CLUSTER else (key, ANY)
        return _since([found.get(each) for each in keys], since)

    def counted_victims(self) -> LedgerArrays:
        """Return all victims that are counted, for who asks what `victims` says of many keys."""
        if self._table is None:
            self._table = LedgerArrays.of(self._evictions.values())
        return self._table

    def preemptions(self, policy: str, owner: str, since: Seconds) -> list[Seconds]:
        """Return when preemptions for the pods of an owner were counted, oldest first."""
        return _since([self._by_owner.get((policy, each)) for each in (owner, ANY)], since)

    # Writing down ---------------------------------------------------------------------------------

    def text(self, now: Seconds) -> str:
        """Return everything as text that `merge` reads; what is too old is dropped before.

        The text has at most `MOST_BYTES` bytes. Where that is too little for all, the older half
        of what is counted is merged in the text, and if that does not help, what was in vain
        longest ago is left out.
        """
        self.prune(now)
        evictions, preemptions = self._in_order()
        written = Written(
            evictions, preemptions, list(self.fruitless), *self.wasted.written()
        )  # fmt: skip
        text = ledger_codec.encoded(written, now)
        while len(text) > MOST_BYTES:
            written = written.smaller()
            text = ledger_codec.encoded(written, now)
        return text.decode()

    def merge(self, text: str, now: Seconds | None = None) -> int:
        """Take over what was written down, and keep what is known.

        Any text is safe. Entries that make no sense are dropped, or count for every place where
        only the place is damaged; for numbers beyond their bounds the bound counts.

        Args:
            text: What `text` has returned, here or elsewhere.
            now: Moments after it are taken for now: they are of another clock. `None` for no such
                bound, where the clock is not known.

        Returns:
            How many entries were dropped.

        Raises:
            LedgerError: It is no ledger of this version; nothing is taken over then.
        """
        found, damaged = ledger_codec.decoded(text, now, by_age=not self._recalled)
        self._recalled = True
        before = self._marks()
        for eviction in found.evictions:
            if (eviction.uid or eviction) not in self._evictions:
                self._add_eviction(eviction)
                self._bound(now)
        for preemption in found.preemptions:
            if not self._knows(preemption, now):
                self._add_preemption(preemption)
                self._bound(now)
        for memory in found.fruitless:
            self.fruitless.merge(memory)
        self.wasted.merge(found.wasted, found.pauses)
        if self._marks() != before:
            self.version += 1
        return damaged

    def _knows(self, preemption: PreemptionEntry, now: Seconds | None) -> bool:
        if not preemption.uid or now is None or preemption.at < now:
            return _key(preemption) in self._preemptions
        # Of one that was dated into the future nothing but the preemptor is certain.
        return self.counted_preemption(preemption.uid) is not None

    def _marks(self) -> tuple[int, ...]:
        entries = len(self._evictions), len(self._preemptions)
        return (*entries, self._counts, self.fruitless.version, self.wasted.version)

    def prune(self, now: Seconds) -> None:
        """Drop what no window of the policies that count it reaches back to any more."""
        self.fruitless.prune(now)
        self.wasted.prune(now)
        # Before the policies are known, nothing can be told to be too old.
        if not self.horizon:
            return
        shortest = min((each for each in self._windows.values() if each), default=self.horizon)
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
        before = ((key, each) for key, each in entries.items() if each.at < old)
        return [(key, each) for key, each in before if self._kept(each, now) is not each]

    def _kept(self, entry: _EntryT, now: Seconds) -> _EntryT | None:
        """Return an entry with the policies that still count it; `None` where none does."""
        # A policy that does not count now may have done so before it was changed.
        windows, longest = self._windows, self.horizon
        names = [
            each for each in entry.policies if entry.at >= now - (windows.get(each) or longest)
        ]
        if len(names) == len(entry.policies):
            return entry
        return replace(entry, policies=frozenset(names)) if names else None

    # Keeping it small -----------------------------------------------------------------------------

    def _bound(self, now: Seconds | None) -> None:
        if not self._are_many(1.0):
            return
        if now is not None:
            self.prune(now)
        for hard in (False, True):
            if self._are_many(0.75):
                self._merge_older_half(hard=hard)

    def _are_many(self, share: float) -> bool:
        """Tell whether there are more entries than a share of what is kept at most."""
        entries = len(self._evictions) + len(self._preemptions)
        return entries > MOST_ENTRIES * share or self._counts > MOST_COUNTS * share

    def _merge_older_half(self, *, hard: bool) -> None:
        evictions, preemptions = self._in_order()
        older = evictions[: (len(evictions) + 1) // 2]
        for eviction in older:
            self._drop_eviction(eviction.uid or eviction)
        for eviction in merged(older, hard=hard):
            self._add_eviction(eviction)
        begun = preemptions[: (len(preemptions) + 1) // 2]
        for preemption in begun:
            self._drop_preemption(_key(preemption))
        for preemption in merged_owners(begun, hard=hard):
            self._add_preemption(preemption)

    def _in_order(self) -> tuple[list[EvictionEntry], list[PreemptionEntry]]:
        """Return all entries, oldest first."""
        evictions = sorted(self._evictions.values(), key=lambda each: each.at)
        return evictions, sorted(self._preemptions.values(), key=lambda each: each.at)

    def _add_eviction(self, eviction: EvictionEntry) -> None:
        self._table = None
        self._evictions[eviction.uid or eviction] = eviction
        self._counts += len(eviction.policies)
        for policy, scope, key in places(eviction):
            by_key = self._victims.setdefault((policy, scope), {})
            by_key.setdefault(key, Moments()).add(eviction.at, eviction.count)

    def _drop_eviction(self, key: object) -> EvictionEntry:
        self._table = None
        eviction = self._evictions.pop(key)
        self._counts -= len(eviction.policies)
        for policy, scope, place in places(eviction):
            by_key = self._victims[policy, scope]
            by_key[place].drop(eviction.at, eviction.count)
            if not by_key[place]:
                del by_key[place]
            if not by_key:
                del self._victims[policy, scope]
        return eviction

    def _add_preemption(self, preemption: PreemptionEntry) -> None:
        self._preemptions[_key(preemption)] = preemption
        self._counts += len(preemption.policies)
        for policy in preemption.policies:
            moments = self._by_owner.setdefault((policy, preemption.owner), Moments())
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


def _since(found: Iterable[Moments | None], since: Seconds) -> list[Seconds]:
    lists = [each.since(since) for each in found if each]
    return lists[0] if len(lists) == 1 else sorted(at for each in lists for at in each)
