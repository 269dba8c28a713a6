"""What the cluster, the queue and the other plans say about a plan. Nothing is changed here.

Between the decision and the evictions the cluster may change, and after a crash that time may be
long. No victim is added to a plan here. A plan whose nodes and preemptors have not changed since
the decision, and on whose nodes no pod is evicted for others, is carried out as it was decided.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from itertools import islice
from typing import Final

from msgspec.structs import replace

from scheduler.core.attempt.fit_checks import FitChecks
from scheduler.core.binding import BindingCycle
from scheduler.core.eviction.facts import Needed
from scheduler.core.eviction.freed_devices import gone_pods, undeallocated
from scheduler.core.eviction.phases import AWAITING_VICTIMS, EVICTS, PreemptionPhase
from scheduler.core.eviction.plan import Placement, PolicyInputs, PreemptionPlan
from scheduler.core.eviction.state import PreemptionsState
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.core.preemption.policy.engine import PolicyEngine
from scheduler.framework.profile import CLAIMS, PREEMPTION, Profile
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.model.times import Seconds
from scheduler.queue.scheduling_queue import QueuedPod, SchedulingQueue
from scheduler.state.cluster import Cluster
from scheduler.state.columns.change_log import RowChanges
from scheduler.state.pods.pod_table import NOWHERE
from scheduler.state.views.node_view import NOBODY

__all__ = ["ClusterFacts"]

#: How many nodes with terminating victims are checked before other pods are evicted.
MAX_NODES_CHECKED: Final = 16
#: How many of the change logs are about devices.
_OF_DEVICES: Final = 2


class ClusterFacts:
    """The facts of plans, from the state of the machine as it is."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        cluster: Cluster,
        queue: SchedulingQueue,
        policies: PolicyEngine,
        binding: BindingCycle,
        fit_checker: FitChecks,
        state: PreemptionsState,
    ) -> None:
        self._profiles = profiles
        self._cluster = cluster
        self._queue = queue
        self._policies = policies
        self._binding = binding
        self._fit_checker = fit_checker
        self._state = state

    # What transitions read ------------------------------------------------------------------------

    def remaining(self, placement: Placement) -> list[Pod]:
        """Return the victims that are still on the node, most important first."""
        # This is called for all plans of the node whenever a victim is gone: one look-up a victim.
        pods, names, found = self._cluster.pods, self._cluster.columns.names, []
        for victim in placement.victims:
            slot = pods.slot(victim.ref.uid)
            row = NOWHERE if slot is None else pods.row(slot)
            if slot is not None and row != NOWHERE and names[row] == placement.node:
                found.append(pods.pod(slot))
        return found

    def not_terminating(self, placement: Placement) -> list[Pod]:
        """Return the victims that do not terminate yet, most important first."""
        is_being_deleted = self._cluster.is_being_deleted
        return [pod for pod in self.remaining(placement) if not is_being_deleted(pod)]

    def to_evict(self, placement: Placement) -> list[Pod]:
        """Return the victims that have yet to be evicted, most important first.

        A pod that was terminating for another reason is only waited for, even if it runs on after
        all: the preemptor may not have been allowed to evict it.
        """
        awaited = {victim.uid for victim in placement.victims if victim.wait_only}
        return [pod for pod in self.not_terminating(placement) if pod.uid not in awaited]

    def needed(
        self, placement: Placement, to_evict: list[Pod], spared: Set[str], now: Seconds
    ) -> Needed | None:
        """Return which victims have to be evicted now; `None` where all are not enough.

        A victim that has the DisruptionTarget condition already is always evicted, so that no pod
        keeps the condition and is not deleted. The plan waits for pods that other plans evict in
        place of the victims that it spares.

        Args:
            placement: A preemptor and its victims.
            to_evict: Its victims that do not terminate yet.
            spared: Victims, by uid, on whose evictions for its plan it does not rely.
            now: The time.
        """
        queued = self._queue.get(placement.preemptor_uid)
        if queued is None:
            return None
        terminating = self._terminating_for_others(placement) - spared
        # A decision does not know which pods other plans evict, such as those of an earlier leader.
        if not terminating and not self._has_changed(placement, queued):
            return Needed(to_evict)
        needed = self._needed_victims(placement, queued, terminating, now)
        if needed is None:
            return None
        kept = [pod for pod in to_evict if pod.uid in needed or _has_disruption_target(pod)]
        # With no pod to wait for, the preemptor fits already.
        if not kept and not terminating and len(self.remaining(placement)) <= len(to_evict):
            return None
        awaited = filter(None, map(self._cluster.find_pod, sorted(terminating)))
        return Needed(kept, tuple(awaited))

    def is_outdated(self, plan: PreemptionPlan) -> bool:
        """Return whether the charge of a plan was computed under other policies."""
        before, now = plan.charged_under, self.policy_inputs(plan)
        return (
            before is None
            or (before.policies_version, before.namespaces)
            != (now.policies_version, now.namespaces)
            or not now.selected.items() <= before.selected.items()
        )

    def may_begin(self, plan: PreemptionPlan) -> bool:
        """Return whether nothing has to be written before the first victim is evicted.

        What a plan has counted must be in the ledger, and each earlier nomination to its nodes must
        have an answer. It may be refused. And the next leader does not know of it, and may find
        another node for that pod. In both cases, the pods that were evicted for both of them are
        too many.
        """
        return plan.ledger_revision <= self._state.ledger_writer.written and not any(
            other.progress.phase is PreemptionPhase.NOMINATING
            and other.decided_at <= plan.taken_up_at
            and any(
                each.preemptor.priority >= placement.preemptor.priority
                and each.preemptor_uid not in other.progress.nominated
                for each in other.on_node(placement.node)
            )
            for placement in plan.placements
            for other in self._state.on_node(placement.node)
        )

    def is_bound(self, uid: str) -> bool:
        """Return whether a victim is bound, so that the API server has to evict it."""
        return not self._binding.is_pre_binding(uid)

    def is_stuck(self, plan: PreemptionPlan) -> bool:
        """Return whether a victim runs on that no plan evicts any more."""
        for placement in plan.placements:
            if running := self.not_terminating(placement):
                plans = self._state.on_node(placement.node)
                planned = self._victims_of_others(placement, plans)
                if any(pod.uid not in planned for pod in running):
                    return True
        return False

    def undeallocated(self, placement: Placement) -> list[ResourceClaim]:
        """Return the claims of victims that are allocated although their pods are gone."""
        return undeallocated(placement, self._cluster) if placement.freed_claims else []

    def is_placed(self, plan: PreemptionPlan) -> bool:
        """Return whether every preemptor is assumed on a node."""
        return all(map(self._cluster.is_assumed, plan.preemptors))

    def nodes_exist(self, plan: PreemptionPlan) -> bool:
        """Return whether the cluster has all nodes of a plan."""
        node = self._cluster.columns.node
        return all(node(each.node) is not None for each in plan.placements)

    # What decisions and wake-ups read -------------------------------------------------------------

    def awaits_victims(self, preemptor: str) -> bool:
        """Return whether victims of a preemptor, by uid, terminate and are not gone yet."""
        plan = self._state.plan_of(preemptor)
        return (
            plan is not None
            and plan.progress.phase in AWAITING_VICTIMS
            and any(map(self._waits, plan.placements))
        )

    def _waits(self, placement: Placement) -> bool:
        """Return whether victims of a placement, or their devices, are not gone yet."""
        waits_for_claims = placement.freed_claims and self.undeallocated(placement)
        return bool(waits_for_claims or self.remaining(placement))

    def done_waiting(self, node: str, now: Seconds) -> list[str]:
        """Return the preemptors, by uid, that need not wait for victims on a node any more."""
        return [
            placement.preemptor_uid
            for plan in self._state.on_node(node)
            for placement in plan.on_node(node)
            if not self._waits(placement) or self.preemptor_fits(placement, now)
        ]

    def has_victims_gone(self, preemptor: str) -> bool:
        """Return whether neither victims nor their claims keep devices of a preemptor, by uid."""
        plan = self._state.plan_of(preemptor)
        return plan is not None and not self._waits(plan.placement(preemptor))

    def nodes_with_unneeded_victims(self) -> Iterator[str]:
        """Yield nodes with victims that are still there although their preemptor does not come."""
        state = self._state
        for node in state.vacated_by_node:
            plans = (*state.vacated_on(node), *state.on_node(node))
            there = (placement for plan in plans for placement in plan.on_node(node))
            if any(map(self.remaining, there)):
                yield node

    def prefer_terminating(self, queued: QueuedPod, chosen: Candidate, now: Seconds) -> Candidate:
        """Return a node where victims terminate that no preemptor needs, else the chosen one."""
        if all(map(self._cluster.is_being_deleted, chosen.victims)):
            return chosen
        nodes = islice(self.nodes_with_unneeded_victims(), MAX_NODES_CHECKED)
        vacated = (self._candidate_without_evictions(queued, node, now) for node in nodes)
        return next(filter(None, vacated), chosen)

    def policy_inputs(self, plan: PreemptionPlan) -> PolicyInputs:
        """Return what decides now which policies apply to a plan, for the victims still there.

        Other namespaces are left out: a tenant who creates one after the other must not make every
        plan of the cluster start again.
        """
        labels = self._cluster.namespaces
        names: set[str] = set()
        selected: dict[str, frozenset[str]] = {}
        for placement in plan.placements:
            preemptor, queued = placement.preemptor, self._queue.get(placement.preemptor_uid)
            names.add(preemptor.metadata.namespace)
            names |= {victim.ref.namespace for victim in placement.victims}
            selected |= self._policies.selections(
                preemptor if queued is None else queued.pod, self.remaining(placement)
            )
        return PolicyInputs(
            self._cluster.policies.version, {name: labels.get(name) for name in names}, selected
        )

    def at_decision(self, plan: PreemptionPlan) -> PreemptionPlan:
        """Return a new plan with the state of its nodes and preemptors, to be compared later."""
        positions = tuple(log.position for log in self.change_logs())
        placements = []
        for placement in plan.placements:
            queued = self._queue.get(placement.preemptor_uid)
            key = b"" if queued is None else queued.key
            placements.append(replace(placement, log_positions=positions, class_key=key))
        return replace(plan, placements=tuple(placements), charged_under=self.policy_inputs(plan))

    def nominating_since(self, plan: PreemptionPlan) -> list[Seconds]:
        """Return when the nominations were decided that have no answer, on the nodes of a plan."""
        return [
            other.decided_at
            for placement in plan.placements
            for other in self._state.on_node(placement.node)
            if other.progress.phase is PreemptionPhase.NOMINATING
        ]

    def may_resume(
        self, plan: PreemptionPlan, placement: Placement, to_evict: tuple[Pod, ...], now: Seconds
    ) -> bool:
        """Return whether a new decision would let a preemptor evict the remaining victims.

        Without the nomination the plan is not on the preemptor any more, or will not be for long.
        """
        queued = self._queue.get(placement.preemptor_uid)
        if queued is None:
            return False
        pod = queued.pod
        return (
            now < plan.deadline
            and self._may_preempt(pod)
            and self._cluster.nominations.node(pod.uid) == placement.node
            and all(victim.priority < pod.priority for victim in to_evict)
            and self._policies_allow(plan, pod, to_evict, now)
            and self._needed_victims(placement, queued, frozenset(), now) is not None
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
        counted = all(victim.uid in plan.progress.in_ledger for victim in to_evict)
        node = plan.placement(pod.uid).node
        return self._policies.may_resume(pod, node, to_evict, now, counted=counted)

    def _candidate_without_evictions(
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

    def may_come(self, placement: Placement, now: Seconds) -> bool:
        """Return whether a preemptor fits, or may fit, when what it waits for is gone.

        A write of its claims that had no answer may have given it the devices already.
        """
        return (
            bool(self.remaining(placement))
            or any(map(self._cluster.devices.claims.is_in_flight, placement.devices))
            or self.preemptor_fits(placement, now, deallocated=True)
        )

    def preemptor_fits(
        self, placement: Placement, now: Seconds, *, deallocated: bool = False
    ) -> bool:
        """Return whether a preemptor fits on its node now, nominated pods ignored.

        Args:
            placement: The preemptor and its victims.
            now: The time.
            deallocated: Whether the claims of victims that are gone count as deallocated.
        """
        queued, none = self._queue.get(placement.preemptor_uid), frozenset[str]()
        gone = gone_pods(placement, self._cluster) if deallocated else NOBODY
        return queued is not None and self._fit_checker.fits_without(
            queued.classified, placement.node, none, now, gone
        )

    def equivalents_fit(self, pods: Mapping[str, QueuedPod], node: str, now: Seconds) -> bool:
        """Return whether pods of one set, which only lack resources or devices, fit on a node.

        Nominated pods count. Pods that are nominated to the node themselves are left to
        `done_waiting`. Most sets are answered by arithmetic: whenever a victim is
        gone, this is called for every set that waits.

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
        for name in other.rejectors - {CLAIMS}:
            if not filters[name].may_fit(footprint, row, pod.priority, cluster):
                return False
        return self._fit_checker.fits(other.classified, node, now)

    def fit_where_freed(
        self, pods: Mapping[str, QueuedPod], freed: ResourceClaim, now: Seconds
    ) -> bool:
        """Return whether pods of one set, which lack devices, may fit where some were freed.

        Args:
            pods: By uid.
            freed: The claim that had the devices.
            now: The time.
        """
        allocation = freed.status.allocation
        node = None if allocation is None else allocation.only_node
        return node is None or self.equivalents_fit(pods, node, now)

    def change_logs(self) -> tuple[RowChanges, ...]:
        """Return the logs of changes whose positions plans record; those of devices come last."""
        cluster = self._cluster
        columns, devices = cluster.columns, cluster.devices
        nominations = cluster.nominations.changes
        logs = (columns.node_changes, columns.pod_changes, nominations)
        return (*logs, devices.changes, devices.changes_of_all_rows)

    # Helpers --------------------------------------------------------------------------------------

    def _needed_victims(
        self, placement: Placement, queued: QueuedPod, terminating: frozenset[str], now: Seconds
    ) -> frozenset[str] | None:
        """Return which victims must go; `None` when all of them are not enough.

        A plan is not given up for nominated pods, since each of them preempts for itself. But where
        it is not enough beside them, no victim is spared.
        """
        classified, node, uids = queued.classified, placement.node, placement.victim_uids
        checker = self._fit_checker
        gone = gone_pods(placement, self._cluster)
        needed = checker.still_needed(classified, node, uids, now, terminating, gone)
        if needed is None and checker.fits_without(classified, node, uids | terminating, now, gone):
            return uids
        return needed

    def _terminating_for_others(self, placement: Placement) -> frozenset[str]:
        """Return other pods of the node that terminate for preemptors, or soon will.

        The latter are victims of plans that go on, and whose preemptor is at least as important. A
        plan of an earlier leader that is not checked yet does not count. Each plan was made with
        the nominations of its time, and a new leader may choose other victims than the one before:
        with these pods gone, fewer of the plan's victims may have to go. Pods that hang are left
        out, since no plan may rely on them.
        """
        cluster = self._cluster
        row = cluster.columns.row(placement.node)
        if row is None:
            return frozenset()
        evicting = (
            other
            for other in self._state.on_node(placement.node)
            if other.progress.phase in EVICTS and other.priority >= placement.preemptor.priority
        )
        planned = self._victims_of_others(placement, evicting)
        return frozenset(
            pod.uid
            for pod in cluster.pods.pods_on(row)
            if (pod.uid in planned or cluster.is_being_preempted(pod))
            and pod.uid not in placement.victim_uids
            and pod.uid not in cluster.overdue
        )

    def _victims_of_others(
        self, placement: Placement, plans: Iterable[PreemptionPlan]
    ) -> frozenset[str]:
        """Return the pods of a node, by uid, that terminate for others, or soon will.

        Args:
            placement: On the node; its own victims do not count.
            plans: The plans that do.
        """
        return frozenset[str]().union(
            *(
                self._terminating(there)
                for plan in plans
                for there in plan.on_node(placement.node)
                if there.preemptor_uid != placement.preemptor_uid
            )
        )

    def _terminating(self, placement: Placement) -> frozenset[str]:
        """Return the uids of the victims that terminate, or soon will because of their plan."""
        running = {pod.uid for pod in self.not_terminating(placement)}
        return frozenset(
            [
                victim.uid
                for victim in placement.victims
                if not victim.wait_only or victim.uid not in running
            ]
        )

    def _preempted_pods_on(self, row: int) -> tuple[Pod, ...]:
        """Return the pods of a row that terminate because of preemption, most important first.

        Pods that hang are left out.
        """
        cluster = self._cluster
        preempted = filter(cluster.is_being_preempted, cluster.pods.pods_on(row))
        ending = (pod for pod in preempted if pod.uid not in cluster.overdue)
        return tuple(sorted(ending, key=lambda pod: -pod.priority))

    def _has_changed(self, placement: Placement, queued: QueuedPod) -> bool:
        """Return whether a node or preemptor may have changed since the decision."""
        row = self._cluster.columns.row(placement.node)
        if row is None or not placement.log_positions or placement.class_key != queued.key:
            return True
        logs = [*zip(self.change_logs(), placement.log_positions, strict=True)]
        relevant = logs if placement.devices else logs[:-_OF_DEVICES]
        return any(log.has_changed(row, position) for log, position in relevant)


def _has_disruption_target(pod: Pod) -> bool:
    """Return whether a scheduler has set the DisruptionTarget condition of a pod."""
    target = pod.condition("DisruptionTarget")
    return target is not None and target.reason == "PreemptionByScheduler"
