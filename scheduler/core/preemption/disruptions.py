"""Evictions that disruption budgets do not know of yet, and whether more would be too many.

The disruption controller counts a pod that leaves when it has seen it leave, which comes later
than our decision. Until then the pod is *in flight*: promised by a plan, or asked to leave. What
budgets allow is less by all that is in flight, over all plans. A pod is accounted for when its
budget names it among the disrupted ones (the API server does so on `pods/eviction`), or some time
after it was seen to leave.

What a budget protects is decided here as the API server does for `pods/eviction`, not as
kube-scheduler does for its best effort: an empty selector selects all pods of the namespace.

Source: kubernetes v1.36.3 pkg/registry/core/pod/storage/eviction.go EvictionREST.Create.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from scheduler.model.objects import Pod, PodDisruptionBudget
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster

__all__ = ["SETTLED_AFTER", "Disruptions", "Overdraft"]

#: How long the disruption controller may take to count a pod that leaves.
SETTLED_AFTER: Final[Seconds] = 30.0


@dataclass(slots=True)
class _Promise:
    """One victim in flight."""

    victim: Pod
    preemptor: str
    #: When it was first noticed to be leaving or gone; `None` while it stays.
    left: Seconds | None = None
    #: Budgets that have accounted for it.
    accounted: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Overdraft:
    """Why some pods cannot be evicted within the disruption budgets."""

    #: The pods and what protects them.
    detail: str
    #: Uids of the pods that the budget protects.
    pods: frozenset[str]
    #: When an eviction in flight counts no more twice; `None` where time ends nothing.
    until: Seconds | None = None


class Disruptions:
    """All evictions in flight."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._promises: dict[str, _Promise] = {}
        #: Grows with every change of what is in flight.
        self.version = 0

    def __len__(self) -> int:
        return len(self._promises)

    def promise(self, preemptor: Pod, victims: Iterable[Pod], now: Seconds) -> None:
        """Note that a plan is about to evict pods."""
        self.settle(now)
        for victim in victims:
            if not victim.terminating:
                self._promises[victim.uid] = _Promise(victim, preemptor.uid)
                self.version += 1

    def accounted(self, budget: PodDisruptionBudget) -> None:
        """Note a new state of a budget: the pods that it names are accounted for."""
        named = budget.status.disrupted_pods
        metadata = budget.metadata
        key = f"{metadata.namespace}/{metadata.name}"
        for promise in self._promises.values() if named else ():
            pod = promise.victim.metadata
            if pod.namespace == metadata.namespace and pod.name in named:
                promise.accounted.add(key)
                self.version += 1

    def settle(self, now: Seconds) -> None:
        """Drop what is in flight no more: what has settled, and what will not happen."""
        over = [uid for uid, each in self._promises.items() if self._is_over(each, now)]
        for uid in over:
            del self._promises[uid]
            self.version += 1

    def overdrafts(self, victims: Sequence[Pod], now: Seconds) -> Iterator[Overdraft]:
        """Yield what keeps pods from being evicted together, the evictions in flight included.

        Args:
            victims: Who would leave; those that leave already need no budget.
            now: The time.
        """
        self.settle(now)
        charged: dict[str, list[Pod]] = {}
        for pod in victims:
            keys = self._protecting(pod)
            if len(keys) > 1:
                yield Overdraft(
                    f"{pod.key} is under {len(keys)} budgets ({', '.join(keys)}), "
                    "and the API server evicts no such pod",
                    frozenset({pod.uid}),
                )
            for key in keys:
                charged.setdefault(key, []).append(pod)
        for key, pods in charged.items():
            overdraft = self._overdraft(key, pods)
            if overdraft is not None:
                yield overdraft

    def _overdraft(self, key: str, pods: Sequence[Pod]) -> Overdraft | None:
        budget = self._cluster.budgets.get(key)
        status, uids = budget.status, frozenset(pod.uid for pod in pods)
        named = ", ".join(pod.key for pod in pods)
        if status.observed_generation < budget.metadata.generation:
            return Overdraft(f"{named}: budget {key} has changed and is not counted yet", uids)
        taken = [each for each in self._promises.values() if self._counts(each, key, uids)]
        allowed = max(0, status.disruptions_allowed)
        if len(pods) + len(taken) <= allowed:
            return None
        text = f"{named}: budget {key} allows {allowed}"
        if taken:
            text += f", of which {len(taken)} are in flight"
        ends = [each.left + SETTLED_AFTER for each in taken if each.left is not None]
        return Overdraft(text, uids, min(ends, default=None))

    def _counts(self, promise: _Promise, key: str, victims: frozenset[str]) -> bool:
        """Tell whether an eviction in flight uses a budget up beside those in question."""
        pod = promise.victim
        if pod.uid in victims or key in promise.accounted:
            return False
        return key in self._cluster.budgets.protecting(pod)

    def _protecting(self, pod: Pod) -> tuple[str, ...]:
        """Return the budgets that evicting a pod would use up."""
        if self._cluster.leaves(pod) or pod.terminal or pod.status.phase == "Pending":
            return ()
        keys = self._cluster.budgets.protecting(pod)
        if len(keys) == 1 and not _is_ready(pod) and self._spares_unready(keys[0]):
            return ()
        return keys

    def _spares_unready(self, key: str) -> bool:
        """Tell whether a budget lets pods go that are not ready, without being used up."""
        budget = self._cluster.budgets.get(key)
        if budget.spec.unhealthy_pod_eviction_policy == "AlwaysAllow":
            return True
        status = budget.status
        return 0 < status.desired_healthy <= status.current_healthy

    def _is_over(self, promise: _Promise, now: Seconds) -> bool:
        cluster, uid = self._cluster, promise.victim.uid
        there = cluster.placed(uid)
        if there is None or there.terminating:
            if promise.left is None:
                promise.left = now
                self.version += 1
            return now - promise.left >= SETTLED_AFTER
        # It stays unless it was asked to leave: a plan that was given up has no claim any more.
        return not cluster.leaves(there) and cluster.nominations.get(promise.preemptor) is None


def _is_ready(pod: Pod) -> bool:
    ready = pod.condition("Ready")
    return ready is not None and ready.status == "True"
