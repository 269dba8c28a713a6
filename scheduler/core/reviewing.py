"""Looks at a plan again before it goes on: is it still enough, and who need not go any more.

Between the decision and the moment at which victims are asked to leave, the cluster goes on
changing, and after a crash that may have been long. Nobody is added to a plan here.
"""

from collections.abc import Iterable
from typing import Protocol

from scheduler.core.context import Context
from scheduler.core.plans import Plan
from scheduler.core.preemption.choose import Candidate
from scheduler.model.objects import Pod
from scheduler.state.changes import ChangeLog
from scheduler.state.queue import QueuedPod

__all__ = ["Judge", "Reviewing"]


class Judge(Protocol):
    """Judges whether a pod, of a class, fits on a node without some others, given by uid."""

    def still_needed(
        self,
        pod: Pod,
        key: bytes,
        node: str,
        victims: frozenset[str],
        gone: frozenset[str] = frozenset(),
    ) -> frozenset[str] | None:
        """Return which of them must go if others do anyway; `None` if that is not enough."""

    def has_room(self, pod: Pod, key: bytes, node: str, victims: frozenset[str]) -> bool:
        """Tell whether that is enough, whoever claims room there."""

    def fits(self, pod: Pod, key: bytes, node: str) -> bool:
        """Tell whether it fits there as it is, claims included."""


class Reviewing:
    """Reviews plans."""

    def __init__(self, context: Context, judge: Judge) -> None:
        self._context = context
        self._judge = judge

    def begin(self, plan: Plan) -> None:
        """Note what the cluster is like when a plan is decided."""
        plan.seen = tuple(log.position for log in self._logs())

    def to_ask(self, plan: Plan, staying: list[Pod], others: Iterable[Plan]) -> list[Pod] | None:
        """Return which victims have to be asked to leave now; `None` where nobody has a point.

        Who was marked as a victim already is asked in any case: nobody may stay marked who stays.
        Of whom others make leave the plan awaits the end, instead of that of those who are spared.

        Args:
            plan: The plan.
            staying: Its victims that do not leave yet.
            others: Plans for the same node.
        """
        leaving = self._others_that_leave(plan, others)
        if not leaving and not self._has_changed(plan):
            return staying
        queued = self._context.queue.get(plan.preemptor.uid)
        needed = None if queued is None else self.needed(plan, queued.key, leaving)
        if needed is None:
            return None
        kept = [each for each in staying if each.uid in needed or _is_marked(each)]
        cluster = self._context.cluster
        # With nobody to wait for, it fits already.
        if not kept and not leaving and len(plan.there(cluster)) <= len(staying):
            return None
        spared = {each.uid for each in staying} - {each.uid for each in kept}
        if spared:
            plan.rely_on(filter(None, map(cluster.placed, sorted(leaving))), spared)
        return kept

    def being_vacated(self, queued: QueuedPod, node: str) -> Candidate | None:
        """Return a node as a candidate when a pod fits there once those are gone who leave.

        Differs from kube-scheduler, which makes others leave while room that nobody needs any more
        is still being vacated elsewhere.

        Returns:
            The node, and its pods that leave by preemption; nobody else has to.
        """
        row = self._context.cluster.columns.row(node)
        there = () if row is None else self._leaving_from(row)
        uids = frozenset(each.uid for each in there)
        if row is None or not uids:
            return None
        needed = self._judge.still_needed(queued.pod, queued.key, node, uids)
        return Candidate(row, there, 0) if needed is not None and not needed else None

    def needed(
        self, plan: Plan, key: bytes, leaving: frozenset[str] = frozenset()
    ) -> frozenset[str] | None:
        """Return which victims must go when others leave; `None` when that would not be enough.

        Nominated pods are no reason to give up, since they make room for themselves; but as long as
        they are there, nobody can be spared.
        """
        pod, node, uids = plan.preemptor, plan.node, plan.uids
        needed = self._judge.still_needed(pod, key, node, uids, leaving)
        if needed is None and self._judge.has_room(pod, key, node, uids | leaving):
            return uids
        return needed

    def has_room(self, plan: Plan) -> bool:
        """Tell whether the room that a plan has made is there, whoever claims it."""
        queued = self._context.queue.get(plan.preemptor.uid)
        if queued is None:
            return False
        return self._judge.has_room(plan.preemptor, queued.key, plan.node, frozenset())

    def fits(self, queued: QueuedPod, node: str) -> bool:
        """Tell whether a pod fits on a node as it is, claims included."""
        return self._judge.fits(queued.pod, queued.key, node)

    def _others_that_leave(self, plan: Plan, others: Iterable[Plan]) -> frozenset[str]:
        """Return pods of the node that leave for others, or soon will for no less important ones.

        Each plan was made for all who claimed room then, and a new leader may choose other victims
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

    def _has_changed(self, plan: Plan) -> bool:
        """Tell whether a plan's node may have changed since it was decided."""
        row = self._context.cluster.columns.row(plan.node)
        if row is None or not plan.seen:
            return True
        logs = zip(self._logs(), plan.seen, strict=True)
        return any(log.has_changed(row, position) for log, position in logs)


def _is_marked(pod: Pod) -> bool:
    """Tell whether a pod was told that it has to go, by a scheduler."""
    target = pod.condition("DisruptionTarget")
    return target is not None and target.reason == "PreemptionByScheduler"
