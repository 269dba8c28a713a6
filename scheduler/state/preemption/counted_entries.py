"""The victims and preemptions that a ledger counts, by what budgets and limits count them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from scheduler.model.policies import BudgetScope
from scheduler.model.times import Seconds
from scheduler.state.preemption.event_times import EventTimes
from scheduler.state.preemption.ledger_arrays import LedgerArrays
from scheduler.state.preemption.ledger_entries import (
    ANY,
    EvictionEntry,
    PreemptionEntry,
    counted_for,
)

__all__ = ["CountedEntries", "entry_key"]


@dataclass(slots=True, eq=False)
class CountedEntries:
    """Entries, with an index by policy, scope and key."""

    #: By uid, or by itself if several were merged.
    _evictions: dict[object, EvictionEntry] = field(default_factory=dict)
    #: By uid and moment, or by itself if several were merged.
    _preemptions: dict[object, PreemptionEntry] = field(default_factory=dict)
    #: The evictions as arrays; `None` if that is out of date.
    _table: LedgerArrays | None = field(default=None, compare=False)
    #: The indices: by policy and scope, and by key.
    _victims: dict[tuple[str, BudgetScope], dict[str, EventTimes]] = field(
        default_factory=dict, compare=False
    )
    _by_owner: dict[tuple[str, str], EventTimes] = field(default_factory=dict, compare=False)
    #: The number of policies of all entries together.
    _counts: int = field(default=0, compare=False)

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

    def find_victim(self, uid: str) -> EvictionEntry | None:
        """Return the entry of a victim; `None` if it is not counted, or was merged with others."""
        return self._evictions.get(uid) if uid else None

    def find_preemption(self, uid: str) -> PreemptionEntry | None:
        """Return the last preemption that is counted for a preemptor; `None` if none is."""
        if not uid:
            return None
        own = (entry for entry in self._preemptions.values() if entry.uid == uid)
        return max(own, key=lambda entry: entry.at, default=None)

    def build_indices(self) -> None:
        """Index the entries of another ledger that this empty one was given."""
        for eviction in [*self._evictions.values()]:
            self._add_eviction(eviction)
        for preemption in [*self._preemptions.values()]:
            self._add_preemption(preemption)

    # Changing -------------------------------------------------------------------------------------

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
        self._preemptions[entry_key(preemption)] = preemption
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

    def _put_preemption(self, preemption: PreemptionEntry) -> PreemptionEntry:
        """Add a preemption, unless one of this pod and moment is counted; return that which is."""
        if entry_key(preemption) not in self._preemptions:
            self._add_preemption(preemption)
        return self._preemptions[entry_key(preemption)]


def entry_key(preemption: PreemptionEntry) -> object:
    """Return the key of a preemption: its pod and moment, or itself if several were merged."""
    return (preemption.uid, preemption.at) if preemption.uid else preemption


def _since(counted: Iterable[EventTimes | None], since: Seconds) -> list[Seconds]:
    lists = [moments.since(since) for moments in counted if moments]
    return lists[0] if len(lists) == 1 else sorted(at for times in lists for at in times)
