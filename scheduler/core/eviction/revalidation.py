"""Looks at a plan again before victims are evicted: is it still enough, and which are needed.

Between the decision and the moment at which victims are evicted the cluster goes on changing, and
after a crash that may have been long. No victim is added to a plan here. A plan whose node and
preemptor have not changed since the decision is carried out as it was decided.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from scheduler.core.eviction.plan import PreemptionPlan
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.core.requeue.context import Context
from scheduler.model.api.objects import DISRUPTION_TARGET, PREEMPTION_BY_SCHEDULER, Pod
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.queue.scheduling_queue import QueuedPod
from scheduler.state.columns.change_log import ChangeLog

__all__ = ["FitChecker", "PlanValidator"]


class FitChecker(Protocol):
    """Judges whether a pod fits on a node without some others, given by uid."""

    def still_needed(
        self,
        classified: ClassifiedPod,
        node: str,
        victims: frozenset[str],
        gone: frozenset[str] = frozenset(),
    ) -> frozenset[str] | None:
        """Return which of them must go if others do anyway; `None` if that is not enough."""

    def has_room(self, classified: ClassifiedPod, node: str, victims: frozenset[str]) -> bool:
        """Tell whether that is enough, ignoring what nominated pods claim there."""

    def fits(self, classified: ClassifiedPod, node: str) -> bool:
        """Tell whether it fits there as it is, claims included."""

    def asks_filters(self, classified: ClassifiedPod) -> bool:
        """Tell whether extenders decide which nodes the pod fits on."""


class PlanValidator:
    """Checks plans against the cluster as it is."""

    def __init__(self, context: Context, judge: FitChecker) -> None:
        self._context = context
        self._judge = judge

    def begin(
        self, plan: PreemptionPlan, queued: QueuedPod, others: Iterable[PreemptionPlan]
    ) -> None:
        """Note what node and preemptor are like when a plan is decided."""
        plan.seen = tuple(log.position for log in self._logs())
        plan.key = queued.key
        plan.policies = self._context.policies_version
        plan.leaving_then = self._leaving_for_others(plan, others)

    def to_evict(
        self, plan: PreemptionPlan, staying: list[Pod], others: Iterable[PreemptionPlan]
    ) -> list[Pod] | None:
        """Return which victims have to be evicted now; `None` where the plan is not enough.

        A victim that has the DisruptionTarget condition already is always evicted: no pod may stay
        marked that is not deleted. The plan waits for pods that other plans evict in place of the
        victims that it spares.

        Args:
            plan: The plan.
            staying: Its victims that do not leave yet.
            others: Plans for the same node.
        """
        queued = self._context.queue.get(plan.uid)
        if queued is None:
            return None
        leaving = self._leaving_for_others(plan, others)
        if leaving == plan.leaving_then and not self._has_changed(plan, queued):
            return staying
        needed = self.needed(plan, queued, leaving)
        if needed is None:
            return None
        kept = [each for each in staying if each.uid in needed or _is_marked(each)]
        cluster = self._context.cluster
        # With no pod to wait for, the preemptor fits already.
        if not kept and not leaving and len(plan.there(cluster)) <= len(staying):
            return None
        spared = {each.uid for each in staying} - {each.uid for each in kept}
        if spared:
            plan.rely_on(filter(None, map(cluster.placed, sorted(leaving))), spared)
        return kept

    def being_vacated(self, queued: QueuedPod, node: str) -> Candidate | None:
        """Return a node as a candidate when a pod fits there once its leaving pods are gone.

        Differs from kube-scheduler, which evicts others while room that no pod needs any more is
        still being vacated elsewhere.

        Returns:
            The node, and its pods that leave by preemption; no other pod has to.
        """
        row = self._context.cluster.columns.row(node)
        there = () if row is None else self._leaving_from(row)
        uids = frozenset(each.uid for each in there)
        if row is None or not uids or self._judge.asks_filters(queued.classified):
            return None
        needed = self._judge.still_needed(queued.classified, node, uids)
        return Candidate(row, there, 0) if needed is not None and not needed else None

    def needed(
        self, plan: PreemptionPlan, queued: QueuedPod, leaving: frozenset[str] = frozenset()
    ) -> frozenset[str] | None:
        """Return which victims must go when others leave; `None` when that would not be enough.

        Nominated pods are no reason to give up, since they make room for themselves; but as long as
        they are there, no victim can be spared.
        """
        node, uids = plan.node, plan.uids
        needed = self._judge.still_needed(queued.classified, node, uids, leaving)
        if needed is None and self._judge.has_room(queued.classified, node, uids | leaving):
            return uids
        return needed

    def has_room(self, plan: PreemptionPlan) -> bool:
        """Tell whether the room that a plan has made is there, whichever pods claim it."""
        queued = self._context.queue.get(plan.uid)
        if queued is None:
            return False
        return self._judge.has_room(queued.classified, plan.node, frozenset())

    def fits(self, queued: QueuedPod, node: str) -> bool:
        """Tell whether a pod fits on a node as it is, claims included."""
        return self._judge.fits(queued.classified, node)

    def fit_beside(self, pods: Mapping[str, QueuedPod], node: str) -> bool:
        """Tell whether pods of one class, which lack room alone, fit on a node they do not claim.

        Claims count, and a pod that has one on the node is left to `VictimTracker.served`. Most
        groups are answered by arithmetic: each end of a victim asks this of every group that waits.

        Args:
            pods: By uid.
            node: The node's name.
        """
        cluster = self._context.cluster
        claims, row = cluster.nominations, cluster.columns.row(node)
        other = next((each for each in pods.values() if claims.node(each.uid) != node), None)
        if other is None or row is None:
            return False
        claim, pod = claims.get(other.uid), other.pod
        shape = cluster.shapes.of(pod) if claim is None else cluster.pods.shape(claim.slot)
        filters = self._context.profiles[pod.spec.scheduler_name].capacity_filters
        for name in other.rejectors:
            if not filters[name].may_fit(shape, row, pod.priority, cluster):
                return False
        return self.fits(other, node)

    def _leaving_for_others(
        self, plan: PreemptionPlan, others: Iterable[PreemptionPlan]
    ) -> frozenset[str]:
        """Return pods of the node that leave for others, or soon will for no less important ones.

        Each plan was made for all that claimed room then, and a new leader may choose other victims
        than the one before: with these gone, fewer of the plan's victims may have to go.
        """
        cluster = self._context.cluster
        row = cluster.columns.row(plan.node)
        if row is None:
            return frozenset()
        priority = plan.preemptor.priority
        planned = frozenset().union(
            *(
                each.leaving(cluster)
                for each in others
                if each is not plan and each.preemptor.priority >= priority
            )
        )
        return frozenset(
            each.uid
            for each in cluster.pods.pods_on(row)
            if (each.uid in planned or cluster.leaves_by_preemption(each))
            and each.uid not in plan.uids
        )

    def _leaving_from(self, row: int) -> tuple[Pod, ...]:
        """Return the pods of a row that leave by preemption, most important first."""
        cluster = self._context.cluster
        leaving = filter(cluster.leaves_by_preemption, cluster.pods.pods_on(row))
        return tuple(sorted(leaving, key=lambda each: -each.priority))

    def _logs(self) -> tuple[ChangeLog, ...]:
        cluster = self._context.cluster
        columns = cluster.columns
        return columns.node_changes, columns.pod_changes, cluster.nominations.changes

    def _has_changed(self, plan: PreemptionPlan, queued: QueuedPod) -> bool:
        """Tell whether a plan's node or preemptor may have changed since it was decided."""
        row = self._context.cluster.columns.row(plan.node)
        if row is None or not plan.seen or plan.key != queued.key:
            return True
        logs = zip(self._logs(), plan.seen, strict=True)
        return any(log.has_changed(row, position) for log, position in logs)


def _is_marked(pod: Pod) -> bool:
    """Tell whether a scheduler has set the DisruptionTarget condition of a pod."""
    target = pod.condition(DISRUPTION_TARGET)
    return target is not None and target.reason == PREEMPTION_BY_SCHEDULER
