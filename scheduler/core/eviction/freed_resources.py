"""Wasted evictions: resources that were freed for a preemptor which does not use them.

Preemptors of one scheduler use each other's freed resources: one fits elsewhere before its victims
have terminated, another is planned onto a node where victims terminate already, a more important
one comes first, and a new leader knows nothing of all that. So freed resources are not followed
from pod to pod. Each node is checked once, when it is certain which pods use what the victims had.

An eviction was wasted when the victim's resources are free, or used by pods that are not ours or
could not have evicted it. That is computed from requests and host ports, for the node as it will be
when all terminating pods are removed and all nominated pods are bound. A victim whose devices such
a pod has was not wasted.
"""

from collections.abc import Callable, Iterable, Iterator

from scheduler.core.eviction.plan import Placement, PreemptionPlan
from scheduler.core.eviction.state import PreemptionsState
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.pod_footprints import PodFootprint, WantedPorts

__all__ = ["FreedResources"]


class FreedResources:
    """Finds out which pods use the resources of victims. It keeps nothing.

    A plan whose preemptor does not come has one placement.
    """

    def __init__(
        self, cluster: Cluster, state: PreemptionsState, is_ours: Callable[[Pod], bool]
    ) -> None:
        self._cluster = cluster
        self._state = state
        self._is_ours = is_ours

    def are_awaited(self, plan: PreemptionPlan) -> bool:
        """Return whether a pod that could have evicted victims is nominated to their node."""
        return any(True for _ in self._nominated_pods(plan, plan.placements[0]))

    def certainly_wasted(self, plan: PreemptionPlan) -> frozenset[str] | None:
        """Return the wasted victims, by uid, of a preemptor that did not get their resources.

        That is certain at once where pods have come to the node that could not have evicted the
        victims; `None` where it is not.
        """
        (placement,) = plan.placements
        arrivals = self._arrivals(plan, placement)
        taken = any(not self._could_evict(pod, plan, placement) for pod in arrivals)
        return self.wasted_victims(plan) if taken else None

    def wasted_victims(self, plan: PreemptionPlan) -> frozenset[str]:
        """Return the victims, by uid, whose resources no pod uses that could have evicted them.

        These are all victims where no pod that could have evicted them has come to the node. When a
        victim was gone before this process started, a pod that has come since then counts as using
        its resources.
        """
        cluster, evicted, (placement,) = self._cluster, plan.progress.evicted, plan.placements
        row, arrivals = cluster.columns.row(placement.node), self._arrivals(plan, placement)
        nominated = [
            pod for pod in self._nominated_pods(plan, placement) if pod.uid not in plan.preemptors
        ]
        came = nominated or any(self._could_evict(pod, plan, placement) for pod in arrivals)
        if row is None or not came:
            return frozenset(evicted)
        ignored = (pod.uid for pod in arrivals if not self._could_evict(pod, plan, placement))
        # Free resources count for the victims of the other vacated plans as well.
        claimed = (
            pod
            for other in self._state.vacated_on(placement.node)
            if other.number != plan.number
            for there in other.on_node(placement.node)
            for uid, pod in there.victim_pods.items()
            if uid in other.progress.evicted
        )
        capacity = _RemainingCapacity(cluster, row, ignored, (*nominated, *claimed))
        coming = [*nominated, *(pod for pod in arrivals if self._could_evict(pod, plan, placement))]
        wasted, used = set(), self._used_for_devices(placement, coming)
        for victim in sorted(placement.victim_pods.values(), key=lambda pod: -pod.priority):
            if victim.uid in evicted and capacity.try_add(victim):
                wasted.add(victim.uid)
        return frozenset(wasted) - used

    def _used_for_devices(self, placement: Placement, pods: Iterable[Pod]) -> frozenset[str]:
        """Return the victims, by uid, whose devices some pods have, or wait for."""
        devices = self._cluster.devices
        expected = {
            result.id for each in placement.devices.values() for result in each.devices.results
        }
        for pod in pods if expected else ():
            nomination = devices.nominations.get(pod.uid)
            having = [*nomination.allocations] if nomination is not None else []
            for claim in map(devices.claims.get, devices.claims.consumers.of(pod.uid)):
                if claim is not None and claim.status.allocation is not None:
                    having.append(claim.status.allocation)
            if any(result.id in expected for each in having for result in each.devices.results):
                return frozenset[str]().union(*(each.consumers for each in placement.freed_claims))
        return frozenset()

    def _arrivals(self, plan: PreemptionPlan, placement: Placement) -> list[Pod]:
        """Return the pods that have come to a node since a plan was decided.

        For the plan of an earlier leader that is not known: these are all pods there that could
        have evicted the victims.
        """
        cluster = self._cluster
        row = cluster.columns.row(placement.node)
        pods = () if row is None else cluster.pods.pods_on(row)
        if plan.decided_here:
            return [pod for pod in pods if pod.uid not in placement.pods_at_decision]
        return [
            pod
            for pod in pods
            if pod.uid not in placement.victim_uids and self._could_evict(pod, plan, placement)
        ]

    def _nominated_pods(self, plan: PreemptionPlan, placement: Placement) -> Iterator[Pod]:
        """Yield the pods nominated to a node that could have evicted the victims there."""
        for nomination in self._cluster.nominations.on_node(placement.node):
            if self._could_evict(nomination.pod, plan, placement):
                yield nomination.pod

    def _could_evict(self, pod: Pod, plan: PreemptionPlan, placement: Placement) -> bool:
        """Return whether a pod is ours and more important than the least important victim."""
        evicted, pods = plan.progress.evicted, placement.victim_pods
        lowest = min((pods[uid].priority for uid in evicted if uid in pods), default=None)
        return self._is_ours(pod) and (lowest is None or pod.priority > lowest)


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
