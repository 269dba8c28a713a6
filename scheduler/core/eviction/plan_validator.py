"""Checks a plan again before victims are evicted: is it sufficient, and which are needed.

Between the decision and the evictions the cluster may change, and after a crash that time may be
long. No victim is added to a plan here. A plan whose node and preemptor have not changed since the
decision, and on whose node no pod is evicted for others, is carried out as it was decided.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from scheduler.core.eviction.phases import EVICTS
from scheduler.core.eviction.plan import PolicyInputs, PreemptionPlan, victims_of_others
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.core.preemption.policy.engine import PolicyEngine
from scheduler.framework.profile import PREEMPTION, Profile
from scheduler.model.api.objects import Pod
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.times import Seconds
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue
from scheduler.state.cluster import Cluster
from scheduler.state.columns.change_log import ChangeLog

__all__ = ["FitChecker", "PlanValidator"]


class FitChecker(Protocol):
    """Checks whether a pod fits on a node without some other pods, given by uid."""

    def still_needed(
        self,
        classified: ClassifiedPod,
        node: str,
        victims: frozenset[str],
        now: Seconds,
        gone: frozenset[str] = frozenset(),
    ) -> frozenset[str] | None:
        """Return which victims must go if `gone` do anyway; `None` if all are not enough."""

    def fits_without(
        self, classified: ClassifiedPod, node: str, victims: frozenset[str], now: Seconds
    ) -> bool:
        """Return whether a pod fits without the victims, nominated pods ignored."""

    def fits(self, classified: ClassifiedPod, node: str, now: Seconds) -> bool:
        """Return whether a pod fits on a node as it is, nominated pods included."""

    def has_filter_extender(self, classified: ClassifiedPod) -> bool:
        """Return whether extenders decide which nodes the pod fits on."""


class PlanValidator:
    """Checks plans against the cluster as it is."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        cluster: Cluster,
        queue: SchedulingQueue,
        policies: PolicyEngine,
        fit_checker: FitChecker,
    ) -> None:
        self._profiles = profiles
        self._cluster = cluster
        self._queue = queue
        self._policies = policies
        self._fit_checker = fit_checker

    def policy_inputs(self, plan: PreemptionPlan) -> PolicyInputs:
        """Return what decides now which policies apply to a plan, for the victims still there.

        Other namespaces are left out: a tenant who creates one after the other must not make every
        plan of the cluster start again.
        """
        names = {plan.preemptor.metadata.namespace, *(v.ref.namespace for v in plan.victims)}
        labels, queued = self._cluster.namespaces, self._queue.get(plan.uid)
        preemptor = plan.preemptor if queued is None else queued.pod
        return PolicyInputs(
            self._cluster.policies.version,
            {name: labels.get(name) for name in names},
            self._policies.selections(preemptor, plan.remaining(self._cluster)),
        )

    def is_outdated(self, plan: PreemptionPlan) -> bool:
        """Return whether the charge of a plan was computed under other policies."""
        before, now = plan.charged_under, self.policy_inputs(plan)
        return (
            before is None
            or (before.policies_version, before.namespaces)
            != (now.policies_version, now.namespaces)
            or not now.selected.items() <= before.selected.items()
        )

    def record_state(self, plan: PreemptionPlan, queued: QueuedPod) -> None:
        """Record the state of node and preemptor when a plan is decided."""
        plan.log_positions = tuple(log.position for log in self.change_logs())
        plan.class_key = queued.key
        plan.charged_under = self.policy_inputs(plan)

    def to_evict(
        self,
        plan: PreemptionPlan,
        victims: list[Pod],
        others: Iterable[PreemptionPlan],
        now: Seconds,
    ) -> list[Pod] | None:
        """Return which victims have to be evicted now; `None` where the plan is not enough.

        A victim that has the DisruptionTarget condition already is always evicted, so that no pod
        keeps the condition and is not deleted. The plan waits for pods that other plans evict in
        place of the victims that it spares.

        Args:
            plan: The plan.
            victims: Its victims that do not terminate yet.
            others: Plans for the same node.
            now: The time.
        """
        queued = self._queue.get(plan.uid)
        if queued is None:
            return None
        terminating = self._terminating_for_others(plan, others)
        # A decision does not know which pods other plans evict, such as those of an earlier leader.
        if not terminating and not self._has_changed(plan, queued):
            return victims
        needed = self.needed_victims(plan, queued, now, terminating)
        if needed is None:
            return None
        kept = [
            victim for victim in victims if victim.uid in needed or _has_disruption_target(victim)
        ]
        cluster = self._cluster
        # With no pod to wait for, the preemptor fits already.
        if not kept and not terminating and len(plan.remaining(cluster)) <= len(victims):
            return None
        spared = {victim.uid for victim in victims} - {victim.uid for victim in kept}
        if spared:
            plan.wait_instead(filter(None, map(cluster.find_pod, sorted(terminating))), spared)
        return kept

    def may_resume(
        self, plan: PreemptionPlan, queued: QueuedPod, to_evict: tuple[Pod, ...], now: Seconds
    ) -> bool:
        """Return whether a new decision would let a pod evict the remaining victims of a plan.

        Without the nomination the plan is not on the preemptor any more, or will not be for long.
        """
        pod = queued.pod
        return (
            now < plan.deadline
            and self._may_preempt(pod)
            and self._cluster.nominations.node(pod.uid) == plan.node
            and all(victim.priority < pod.priority for victim in to_evict)
            and self._policies_allow(plan, pod, to_evict, now)
            and self.needed_victims(plan, queued, now) is not None
        )

    def _may_preempt(self, pod: Pod) -> bool:
        """Return whether a pod of ours may evict others at all.

        Source: kube-scheduler v1.36.3 defaultpreemption.PodEligibleToPreemptOthers.
        """
        profile = self._profiles[pod.spec.scheduler_name]
        return PREEMPTION in profile.post_filters and pod.spec.preemption_policy != "Never"

    def _policies_allow(
        self, plan: PreemptionPlan, pod: Pod, to_evict: tuple[Pod, ...], now: Seconds
    ) -> bool:
        """Return whether policies allow to evict the pods now.

        Policies that count the victims for the plan already have allowed it. Victims that the
        ledger does not count for the plan are evaluated as in a new decision.
        """
        counted = all(victim.uid in plan.in_ledger for victim in to_evict)
        return self._policies.may_resume(pod, plan.node, to_evict, now, counted=counted)

    def candidate_without_evictions(
        self, queued: QueuedPod, node: str, now: Seconds
    ) -> Candidate | None:
        """Return a node as a candidate when a pod fits there once its terminating pods are gone.

        Differs from kube-scheduler, which evicts other pods while victims that no preemptor needs
        any more still terminate elsewhere.

        Returns:
            The node, and its pods that terminate because of preemption; no other pod has to go.
            `None` where the pod would have to wait for a victim that hangs.
        """
        row = self._cluster.columns.row(node)
        terminating = () if row is None else self._preempted_pods_on(row)
        uids = frozenset(pod.uid for pod in terminating)
        if row is None or not uids or self._fit_checker.has_filter_extender(queued.classified):
            return None
        needed = self._fit_checker.still_needed(queued.classified, node, uids, now)
        return Candidate(row, terminating, 0) if needed is not None and not needed else None

    def needed_victims(
        self,
        plan: PreemptionPlan,
        queued: QueuedPod,
        now: Seconds,
        gone: frozenset[str] = frozenset(),
    ) -> frozenset[str] | None:
        """Return which victims must go when `gone` pods terminate; `None` when that is not enough.

        A plan is not given up for nominated pods, since each of them preempts for itself. But where
        it is not enough beside them, no victim is spared.
        """
        checker, pod, node, uids = self._fit_checker, queued.classified, plan.node, plan.uids
        needed = checker.still_needed(pod, node, uids, now, gone)
        if needed is None and checker.fits_without(pod, node, uids | gone, now):
            return uids
        return needed

    def preemptor_fits(self, plan: PreemptionPlan, now: Seconds) -> bool:
        """Return whether the preemptor of a plan fits on its node now, nominated pods ignored."""
        queued = self._queue.get(plan.uid)
        if queued is None:
            return False
        return self._fit_checker.fits_without(queued.classified, plan.node, frozenset(), now)

    def group_fits(self, pods: Mapping[str, QueuedPod], node: str, now: Seconds) -> bool:
        """Return whether pods of one group, which only lack resources, fit on a node.

        Nominated pods count. Pods that are nominated to the node themselves are left to
        `VictimTracker.done_waiting`. Most groups are answered by arithmetic: whenever a victim is
        gone, this is called for every group that waits.

        Args:
            pods: By uid.
            node: The node's name.
            now: The time.
        """
        cluster = self._cluster
        nominations, row = cluster.nominations, cluster.columns.row(node)
        other = next((each for each in pods.values() if nominations.node(each.uid) != node), None)
        if other is None or row is None:
            return False
        nomination, pod = nominations.get(other.uid), other.pod
        if nomination is None:
            footprint = cluster.footprints.of(pod)
        else:
            footprint = cluster.pods.footprint(nomination.slot)
        filters = self._profiles[pod.spec.scheduler_name].capacity_filters
        for name in other.rejectors:
            if not filters[name].may_fit(footprint, row, pod.priority, cluster):
                return False
        return self._fit_checker.fits(other.classified, node, now)

    def _terminating_for_others(
        self, plan: PreemptionPlan, others: Iterable[PreemptionPlan]
    ) -> frozenset[str]:
        """Return other pods of the node that terminate for preemptors, or soon will.

        The latter are victims of plans that go on, and whose preemptor is at least as important. A
        plan of an earlier leader that is not checked yet does not count. Each plan was made with
        the nominations of its time, and a new leader may choose other victims than the one before:
        with these pods gone, fewer of the plan's victims may have to go. Pods that hang are left
        out, since no plan may rely on them.
        """
        cluster = self._cluster
        row = cluster.columns.row(plan.node)
        if row is None:
            return frozenset()
        priority = plan.preemptor.priority
        evicting = (
            other
            for other in others
            if other.phase in EVICTS and other.preemptor.priority >= priority
        )
        planned = victims_of_others(plan, evicting, cluster)
        return frozenset(
            pod.uid
            for pod in cluster.pods.pods_on(row)
            if (pod.uid in planned or cluster.is_being_preempted(pod))
            and pod.uid not in plan.uids
            and pod.uid not in cluster.overdue
        )

    def _preempted_pods_on(self, row: int) -> tuple[Pod, ...]:
        """Return the pods of a row that terminate because of preemption, most important first.

        Pods that hang are left out.
        """
        cluster = self._cluster
        preempted = filter(cluster.is_being_preempted, cluster.pods.pods_on(row))
        ending = (pod for pod in preempted if pod.uid not in cluster.overdue)
        return tuple(sorted(ending, key=lambda pod: -pod.priority))

    def change_logs(self) -> tuple[ChangeLog, ...]:
        """Return the logs of changes whose positions plans record."""
        cluster = self._cluster
        columns = cluster.columns
        return columns.node_changes, columns.pod_changes, cluster.nominations.changes

    def _has_changed(self, plan: PreemptionPlan, queued: QueuedPod) -> bool:
        """Return whether a plan's node or preemptor may have changed since it was decided."""
        row = self._cluster.columns.row(plan.node)
        if row is None or not plan.log_positions or plan.class_key != queued.key:
            return True
        logs = zip(self.change_logs(), plan.log_positions, strict=True)
        return any(log.has_changed(row, position) for log, position in logs)


def _has_disruption_target(pod: Pod) -> bool:
    """Return whether a scheduler has set the DisruptionTarget condition of a pod."""
    target = pod.condition("DisruptionTarget")
    return target is not None and target.reason == "PreemptionByScheduler"
