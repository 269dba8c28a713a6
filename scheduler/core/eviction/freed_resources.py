"""Wasted evictions: resources that were freed for a preemptor which does not use them.

Preemptors of one scheduler use each other's freed resources: one fits elsewhere before its victims
have terminated, another is planned onto a node where victims terminate already, a more important
one comes first, and a new leader knows nothing of all that. So freed resources are not followed
from pod to pod. Each node is checked once, when it is certain which pods use what the victims had.

An eviction was wasted when the victim's resources are free, or used by pods that are not ours or
could not have evicted it. That is computed from requests and host ports, for the node as it will be
when all terminating pods are removed and all nominated pods are bound.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Final

from scheduler.core.eviction.phases import PreemptionMove
from scheduler.core.eviction.plan import PreemptionPlan
from scheduler.model.api.objects import Pod
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.pod_footprints import PodFootprint, WantedPorts

__all__ = ["USE_WITHIN", "FreedResources", "WasteReason"]

#: How long another preemptor of ours may take to use the freed resources.
USE_WITHIN: Final[Seconds] = 60.0
#: How many plans are checked in one call; the others follow in the next.
MAX_AT_ONCE: Final = 64


class WasteReason(StrEnum):
    """Why a preemptor did not use the resources that were freed for it."""

    #: Other pods took them.
    ROOM_LOST = "room_lost"
    #: The preemptor was placed on another node.
    PLACED_ELSEWHERE = "placed_elsewhere"
    #: The preemptor is gone.
    PREEMPTOR_GONE = "preemptor_gone"
    #: The node is gone.
    NODE_GONE = "node_gone"
    #: Not all victims could be evicted.
    PLAN_FAILED = "plan_failed"
    #: A victim does not finish terminating.
    VICTIM_HANGS = "victim_hangs"


class FreedResources:
    """Plans whose preemptor does not come, until it is certain which pods use the resources."""

    def __init__(self, cluster: Cluster, is_ours: Callable[[Pod], bool]) -> None:
        self._cluster = cluster
        self._is_ours = is_ours
        #: Until when another pod may come, the plan, and why its preemptor does not: in time order.
        self.pending: deque[tuple[Seconds, PreemptionPlan, WasteReason]] = deque()
        #: The same plans by node, in the order in which they were added.
        self._on_node: dict[str, dict[PreemptionPlan, None]] = {}

    def __len__(self) -> int:
        return len(self.pending)

    def nodes(self) -> Iterator[str]:
        """Yield the nodes of these plans."""
        return iter(self._on_node)

    def on_node(self, node: str) -> Iterable[PreemptionPlan]:
        """Return these plans for one node."""
        return self._on_node.get(node, {})

    def add(self, plan: PreemptionPlan, why: WasteReason, now: Seconds) -> None:
        """Keep a plan whose preemptor does not come."""
        self.pending.append((now + USE_WITHIN, plan, why))
        self._on_node.setdefault(plan.node, {})[plan] = None

    def due(self, now: Seconds) -> Iterator[tuple[PreemptionPlan, WasteReason, frozenset[str]]]:
        """Yield each plan whose outcome is known, the reason, and its wasted victims.

        A plan waits as long as a pod is nominated to its node, or an eviction has no answer.
        """
        for _ in range(MAX_AT_ONCE):
            if not self.pending or self.pending[0][0] > now:
                return
            _, plan, why = self.pending.popleft()
            self._forget(plan)
            if plan.outstanding or any(self._nominated_pods(plan)):
                self.add(plan, why, now)
            else:
                plan.change_phase(PreemptionMove.END, now)
                yield plan, why, self.wasted_victims(plan)

    def _forget(self, plan: PreemptionPlan) -> None:
        here = self._on_node[plan.node]
        del here[plan]
        if not here:
            del self._on_node[plan.node]

    def next_wakeup(self) -> Seconds | None:
        """Return when `due` next has something to yield; `None` when never."""
        return self.pending[0][0] if self.pending else None

    def is_taken(self, plan: PreemptionPlan) -> bool:
        """Return whether pods have come to the node that could not have evicted the victims."""
        return any(not self._could_evict(pod, plan) for pod in self._arrivals(plan))

    def wasted_victims(self, plan: PreemptionPlan) -> frozenset[str]:
        """Return the victims, by uid, whose resources no pod uses that could have evicted them.

        These are all victims where no pod that could have evicted them has come to the node. When a
        victim was gone before this process started, a pod that has come since then counts as using
        its resources.
        """
        cluster = self._cluster
        row, arrivals = cluster.columns.row(plan.node), self._arrivals(plan)
        nominated = [pod for pod in self._nominated_pods(plan) if pod.uid != plan.uid]
        if row is None or not (nominated or any(self._could_evict(pod, plan) for pod in arrivals)):
            return frozenset(plan.evicted)
        ignored = (pod.uid for pod in arrivals if not self._could_evict(pod, plan))
        capacity = _RemainingCapacity(
            cluster, row, ignored, (*nominated, *self._victims_of_others(plan))
        )
        wasted = set()
        for victim in sorted(plan.victim_pods.values(), key=lambda pod: -pod.priority):
            if victim.uid in plan.evicted and capacity.try_add(victim):
                wasted.add(victim.uid)
        return frozenset(wasted)

    def _arrivals(self, plan: PreemptionPlan) -> list[Pod]:
        """Return the pods that have come to a plan's node since it was decided.

        For the plan of an earlier leader that is not known: these are all pods there that could
        have evicted the victims.
        """
        cluster = self._cluster
        row = cluster.columns.row(plan.node)
        pods = () if row is None else cluster.pods.pods_on(row)
        if plan.decided_here:
            return [pod for pod in pods if pod.uid not in plan.pods_at_decision]
        return [pod for pod in pods if pod.uid not in plan.uids and self._could_evict(pod, plan)]

    def _nominated_pods(self, plan: PreemptionPlan) -> Iterator[Pod]:
        """Yield the pods nominated to a plan's node that could have evicted its victims."""
        for nomination in self._cluster.nominations.on_node(plan.node):
            if self._could_evict(nomination.pod, plan):
                yield nomination.pod

    def _could_evict(self, pod: Pod, plan: PreemptionPlan) -> bool:
        """Return whether a pod is ours and more important than the least important victim."""
        known = (plan.victim_pods[uid].priority for uid in plan.evicted if uid in plan.victim_pods)
        lowest = min(known, default=None)
        return self._is_ours(pod) and (lowest is None or pod.priority > lowest)

    def _victims_of_others(self, plan: PreemptionPlan) -> Iterator[Pod]:
        """Yield the victims of the other plans kept for the node: free resources count for them."""
        for other in self.on_node(plan.node):
            if other is not plan:
                yield from (
                    other.victim_pods[uid] for uid in other.evicted if uid in other.victim_pods
                )


class _RemainingCapacity:
    """The free resources of a node when its terminating pods are gone."""

    def __init__(
        self, cluster: Cluster, row: int, ignored: Iterable[str], coming: Iterable[Pod]
    ) -> None:
        """Add up what the pods of a node take.

        Args:
            cluster: The current state.
            row: Row of the node.
            ignored: Uids of pods on the node that do not count.
            coming: Pods that count although they are not on the node.
        """
        self._cluster = cluster
        self._columns = cluster.columns
        self._row = row
        self._footprints: list[PodFootprint] = []
        pods, ignored_uids = cluster.pods, frozenset(ignored)
        for slot in pods.on_row(row):
            pod = pods.pod(slot)
            if pod.uid not in ignored_uids and not cluster.is_being_deleted(pod):
                self._footprints.append(pods.footprint(slot))
        self._footprints += (self._footprint(pod) for pod in coming)

    def try_add(self, pod: Pod) -> bool:
        """Add a pod if it fits; return whether it does."""
        wanted = self._footprint(pod)
        if wanted.beyond or len(self._footprints) >= int(self._columns.allowed_pods()[self._row]):
            return False
        taken = [dict(footprint.requests) for footprint in self._footprints]
        for resource, amount in wanted.requests:
            used = sum(requests.get(resource, 0) for requests in taken)
            if used + amount > self._columns.allocatable(resource)[self._row]:
                return False
        ports = {port for footprint in self._footprints for port in footprint.ports}
        if WantedPorts(wanted.ports).conflict(ports):
            return False
        self._footprints.append(wanted)
        return True

    def _footprint(self, pod: Pod) -> PodFootprint:
        return self._cluster.footprints.of(pod)
