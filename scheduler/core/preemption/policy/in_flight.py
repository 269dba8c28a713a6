"""Evictions that disruption budgets do not know of yet, and whether more would be too many.

The disruption controller counts a pod that leaves when it has seen it leave, which comes later
than our decision. Until then the pod is *in flight*: promised by a plan, or asked to leave. What
budgets allow is less by all that is in flight, over all plans. A pod is accounted for when its
budget names it among the disrupted ones (the API server does so on `pods/eviction`), or some time
after it was seen to leave. A promise ends with the plan, when its victim stays.

What a budget protects is decided here as the API server does for `pods/eviction`, not as
kube-scheduler does for its best effort: an empty selector selects all pods of the namespace.

Source: kubernetes v1.36.3 pkg/registry/core/pod/storage/eviction.go EvictionREST.Create.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from scheduler.core.preemption.policy.victim_matrix import Standing
from scheduler.model.api.objects import LabelSelector, ObjectMeta, Pod, PodDisruptionBudget
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.row_cursor import RowCursor
from scheduler.state.pods.pod_table import NOWHERE

__all__ = ["SETTLED_AFTER", "InFlightEvictions", "PdbShortfall", "Quota"]

#: How long the disruption controller may take to count a pod that leaves.
SETTLED_AFTER: Final[Seconds] = 30.0
#: With more changed rows than these since the last look, every eviction in flight is looked at.
_MANY_CHANGES: Final = 1024
_NONE: Final = frozenset[str]()


@dataclass(slots=True)
class _PlannedEvictions:
    """One victim in flight."""

    victim: Pod
    preemptor: str
    #: The row that the victim is on; `NOWHERE` where it was not known.
    row: int
    #: When it was first noticed to be leaving or gone; `None` while it stays.
    left: Seconds | None = None
    #: Budgets that it uses up and that have not accounted for it.
    charged: frozenset[str] = frozenset()
    #: Budgets that have accounted for it.
    accounted: set[str] = field(default_factory=set)


class Quota(NamedTuple):
    """What a disruption budget allows now."""

    allowed: int
    #: How many evictions in flight use it up.
    taken: int
    #: Whether its status is of another spec.
    outdated: bool
    #: When the first eviction in flight counts no more twice; `None` where time ends nothing.
    until: Seconds | None


@dataclass(frozen=True, slots=True)
class PdbShortfall:
    """Why some pods cannot be evicted within the disruption budgets."""

    #: The pods and what protects them.
    detail: str
    #: Uids of the pods that the budget protects.
    pods: frozenset[str]
    #: When an eviction in flight counts no more twice; `None` where time ends nothing.
    until: Seconds | None = None
    #: The budgets that are in the way, by namespace and name.
    budgets: frozenset[str] = frozenset()


class InFlightEvictions:
    """All evictions in flight."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: By uid of the victim.
        self.promises: Final[dict[str, _PlannedEvictions]] = {}
        #: Those that a budget has not accounted for, by its key and by uid of the victim.
        self._charged: dict[str, dict[str, _PlannedEvictions]] = {}
        #: Uids of victims, by namespace and by preemptor.
        self._by_namespace: dict[str, set[str]] = {}
        self._by_preemptor: dict[str, set[str]] = {}
        #: The same by row of the victim.
        self._by_row: dict[int, set[str]] = {}
        #: Uids of victims that `settle` looks at each time: no change of a row tells about them.
        self._watched: set[str] = set()
        #: When victims were first noticed to be leaving or gone, with their uids, in time order.
        self._left: deque[tuple[Seconds, str]] = deque()
        self._changes = tuple(
            RowCursor(log) for log in (cluster.columns.pod_changes, cluster.pods.changes)
        )
        self._claims = RowCursor(cluster.nominations.changes)
        #: What budgets of namespaces with promises select, by key.
        self._selectors: dict[str, LabelSelector | None] = {}
        #: Budgets that select pods without labels, by namespace.
        self._broad: dict[str, set[str]] = {}
        #: Budgets with fewer evictions in flight since `freed` was last asked.
        self.unasked: Final[set[str]] = set()
        #: Grows with every change of what is in flight.
        self.version = 0

    def __len__(self) -> int:
        return len(self.promises)

    # What is in flight ----------------------------------------------------------------------------

    def promise(self, preemptor: Pod, victims: Iterable[Pod], now: Seconds) -> None:
        """Note that a plan is about to evict pods."""
        self.settle(now)
        for victim in victims:
            if not victim.terminating:
                self._drop(victim.uid)
                slot = self._cluster.pods.slot(victim.uid)
                row = NOWHERE if slot is None else self._cluster.pods.row(slot)
                promise = self.promises[victim.uid] = _PlannedEvictions(victim, preemptor.uid, row)
                for index, key in self._indices(promise):
                    index.setdefault(key, set()).add(victim.uid)
                self._watched.add(victim.uid)
                self._charge(victim.uid)
                self.version += 1

    def accounted(self, budget: PodDisruptionBudget) -> None:
        """Note a new state of a budget: the pods that it names are accounted for."""
        metadata, named = budget.metadata, budget.status.disrupted_pods
        key = f"{metadata.namespace}/{metadata.name}"
        if self._selectors.get(key) != budget.spec.selector or key not in self._selectors:
            self._selectors[key] = budget.spec.selector
            self._note_broad(budget, key)
            for uid in self._by_namespace.get(metadata.namespace, ()):
                self._charge(uid)
        for uid, promise in [*self._charged.get(key, {}).items()] if named else ():
            if promise.victim.metadata.name in named:
                promise.accounted.add(key)
                self._charge(uid)

    def budget_gone(self, key: str) -> None:
        """Note that a budget is gone, by namespace and name."""
        self._selectors.pop(key, None)
        self._broad.get(key.partition("/")[0], set()).discard(key)
        for uid in [*self._charged.get(key, ())]:
            self._charge(uid)

    def _note_broad(self, budget: PodDisruptionBudget, key: str) -> None:
        bare = Pod(metadata=ObjectMeta(namespace=budget.metadata.namespace))
        known = self._broad.setdefault(budget.metadata.namespace, set())
        if key in self._cluster.budgets.protecting(bare):
            known.add(key)
        else:
            known.discard(key)

    def settle(self, now: Seconds) -> None:
        """Drop what is in flight no more: what has settled, and what will not happen.

        Every event asks for this, so only those are looked at that a change could concern.
        """
        if not self.promises:
            return
        for uid in self._concerned():
            self._look(uid, now)
        left = self._left
        while left and now - left[0][0] >= SETTLED_AFTER:
            self._look(left.popleft()[1], now)

    def _concerned(self) -> Iterable[str]:
        """Return the uids of victims of which something may have changed since the last look."""
        found = set(self._watched)
        for cursor in self._changes:
            rows = cursor.news(_MANY_CHANGES)
            if rows is None:
                found.update(self.promises)
            for row in () if rows is None else rows.tolist():
                found.update(self._by_row.get(row, ()))
        if not self._claims.up_to_date:
            self._claims.news(0)
            claims = self._cluster.nominations
            for preemptor, uids in self._by_preemptor.items():
                if claims.get(preemptor) is None:
                    found.update(uids)
        return found

    def _look(self, uid: str, now: Seconds) -> None:
        """Drop an eviction that is in flight no more; else note what it waits for."""
        promise = self.promises.get(uid)
        if promise is None:
            return
        known = promise.left
        if self._is_over(promise, now):
            self._drop(uid)
            return
        if promise.left is not None and known is None:
            self._left.append((promise.left, uid))
        # That we asked a victim to leave, and that it stays after all, is in no log of changes.
        claims = self._cluster.nominations.get(promise.preemptor) is not None
        if promise.row != NOWHERE and (claims or promise.left is not None):
            self._watched.discard(uid)
        else:
            self._watched.add(uid)

    def end(self, preemptor: str) -> None:
        """Note that the plan of a preemptor has ended, by uid: promised victims that stay, stay.

        Those that were asked to leave are in flight until that has settled.
        """
        self.spare([*self._by_preemptor.get(preemptor, ())])
        self._watched.update(self._by_preemptor.get(preemptor, ()))

    def spare(self, victims: Iterable[str]) -> None:
        """Note that victims are not asked to leave after all, by uid."""
        for uid in victims:
            there = self._cluster.placed(uid)
            if there is not None and not self._cluster.leaves(there):
                self._drop(uid)

    def freed(self) -> frozenset[str]:
        """Return the budgets that allow more than when this was last asked, by key.

        Evictions in flight that have ended free them. What is held by them is to be tried again.
        """
        if not self.unasked:
            return _NONE
        freed = frozenset(self.unasked)
        self.unasked.clear()
        return freed

    def _charge(self, uid: str) -> None:
        """Find out which budgets a promise uses up."""
        promise = self.promises[uid]
        keys = self._cluster.budgets.protecting(promise.victim)
        charged = frozenset(keys) - promise.accounted
        if charged == promise.charged:
            return
        for key in promise.charged - charged:
            self._discharge(key, uid)
        for key in charged - promise.charged:
            self._charged.setdefault(key, {})[uid] = promise
        promise.charged = charged
        self.version += 1

    def _discharge(self, key: str, uid: str) -> None:
        del self._charged[key][uid]
        if not self._charged[key]:
            del self._charged[key]
        self.unasked.add(key)

    def _drop(self, uid: str) -> None:
        promise = self.promises.pop(uid, None)
        if promise is None:
            return
        for key in promise.charged:
            self._discharge(key, uid)
        for index, place in self._indices(promise):
            index[place].discard(uid)
            if not index[place]:
                del index[place]
        self._watched.discard(uid)
        self.version += 1

    def _indices(
        self, promise: _PlannedEvictions
    ) -> Iterator[tuple[dict[Any, set[str]], str | int]]:
        """Yield each index with the key under which it has a promise."""
        yield self._by_namespace, promise.victim.metadata.namespace
        yield self._by_preemptor, promise.preemptor
        yield self._by_row, promise.row

    def _is_over(self, promise: _PlannedEvictions, now: Seconds) -> bool:
        cluster, uid = self._cluster, promise.victim.uid
        there = cluster.placed(uid)
        if there is None or there.terminating:
            if promise.left is None:
                promise.left = now
                self.version += 1
            return now - promise.left >= SETTLED_AFTER
        # It stays unless it was asked to leave: a plan that was given up has no claim any more.
        return not cluster.leaves(there) and cluster.nominations.get(promise.preemptor) is None

    # What budgets allow ---------------------------------------------------------------------------

    def quota(self, key: str) -> Quota:
        """Return what a budget allows now; `settle` comes before."""
        budget = self._cluster.budgets.get(key)
        taken = self._charged.get(key, {})
        ends = [each.left + SETTLED_AFTER for each in taken.values() if each.left is not None]
        return Quota(
            max(0, budget.status.disruptions_allowed),
            len(taken),
            budget.status.observed_generation < budget.metadata.generation,
            min(ends, default=None),
        )

    def in_flight(self, key: str, uids: Iterable[str]) -> int:
        """Return how many of some pods use up a budget as evictions in flight."""
        charged = self._charged.get(key, {})
        return sum(uid in charged for uid in uids)

    def slots_in_flight(self, key: str) -> list[int]:
        """Return the slots of the pods that use up a budget as evictions in flight."""
        slots = map(self._cluster.pods.slot, self._charged.get(key, ()))
        return [slot for slot in slots if slot is not None]

    def overdrafts(self, victims: Sequence[Pod]) -> Iterator[PdbShortfall]:
        """Yield what keeps pods from being evicted together, the evictions in flight included.

        `settle` comes before.

        Args:
            victims: The pods that would leave; those that leave already need no budget.
        """
        charged: dict[str, list[Pod]] = {}
        for pod in victims:
            keys = self.protecting(pod)
            if len(keys) > 1:
                yield PdbShortfall(
                    f"{pod.key} is under {len(keys)} budgets ({', '.join(keys)}), "
                    "and the API server evicts no such pod",
                    frozenset({pod.uid}),
                    budgets=frozenset(keys),
                )
            for key in keys:
                charged.setdefault(key, []).append(pod)
        for key, pods in charged.items():
            overdraft = self._overdraft(key, pods)
            if overdraft is not None:
                yield overdraft

    def _overdraft(self, key: str, pods: Sequence[Pod]) -> PdbShortfall | None:
        quota, uids = self.quota(key), frozenset(pod.uid for pod in pods)
        named, budgets = ", ".join(pod.key for pod in pods), frozenset({key})
        if quota.outdated:
            detail = f"{named}: budget {key} has changed and is not counted yet"
            return PdbShortfall(detail, uids, budgets=budgets)
        taken = quota.taken - self.in_flight(key, uids)
        if len(pods) + taken <= quota.allowed:
            return None
        text = f"{named}: budget {key} allows {quota.allowed}"
        if taken:
            text += f", of which {taken} are in flight"
        return PdbShortfall(text, uids, quota.until if taken else None, budgets)

    def protecting(self, pod: Pod) -> tuple[str, ...]:
        """Return the budgets that evicting a pod would use up, in name order."""
        standing = Standing.of(pod)
        if standing is Standing.FREE or self._cluster.leaves(pod):
            return ()
        return self.used_up(self._keys(pod), ready=standing is Standing.READY)

    def used_up(self, keys: tuple[str, ...], *, ready: bool) -> tuple[str, ...]:
        """Return which of the budgets that select a running pod its eviction would use up."""
        if len(keys) == 1 and not ready and self._spares_unready(keys[0]):
            return ()
        return keys

    def keys_by(self, code: int, namespace: str, *, bare: bool) -> tuple[str, ...]:
        """Return the budgets that select pods, in name order.

        Args:
            code: The set of budgets that protects them, as the cluster says.
            namespace: Theirs; empty where no budget in it selects pods without labels.
            bare: Whether they have no label.
        """
        known, broad = self._cluster.budgets.sets.values[code], self._broad.get(namespace)
        if not broad:
            return known
        every = broad if bare else filter(self._cluster.budgets.selects_all, broad)
        return tuple(sorted({*known, *every}))

    def is_broad(self, namespace: str) -> bool:
        """Tell whether a budget of a namespace selects pods without labels.

        Else the codes of the cluster say all about which budgets the API server asks for its pods.
        """
        return bool(self._broad.get(namespace))

    def _keys(self, pod: Pod) -> tuple[str, ...]:
        """Return the budgets that select a pod on a node, in name order."""
        cluster = self._cluster
        slot = cluster.pods.slot(pod.uid)
        if slot is None or self.is_broad(pod.metadata.namespace):
            return cluster.budgets.protecting(pod)
        return cluster.budgets.sets.values[int(cluster.pods.protection(np.array(slot)))]

    def _spares_unready(self, key: str) -> bool:
        """Tell whether a budget lets pods go that are not ready, without being used up."""
        budget = self._cluster.budgets.get(key)
        if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
            return True
        status = budget.status
        return 0 < status.desired_healthy <= status.current_healthy
