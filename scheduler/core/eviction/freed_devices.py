"""Devices of preemptions: what a preemptor waits for, and which claims of victims keep it.

A device is free once the claim of the evicted pod is deallocated, which its controller does some
time after the pod is gone. From the decision until then, and until the preemptor is bound, the
devices that it expects are kept for it; see `state/devices/device_nominations`.

Differs from kube-scheduler, whose preemption frees no devices.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Set
from typing import Final

from msgspec.structs import replace

from scheduler.core.attempt.fit_checks import FitChecks
from scheduler.core.eviction.phases import (
    CLOSED,
    KEEPS_DEVICES,
    PreemptionOutcome,
    PreemptionPhase,
)
from scheduler.core.eviction.plan import FreedClaim, Placement, PreemptionPlan
from scheduler.core.eviction.transition import Transition
from scheduler.core.outbox import Outbox
from scheduler.core.pod_status import StatusReporter
from scheduler.core.requeue.wakeups import Wakeups
from scheduler.model.api.devices import Allocation, ResourceClaim
from scheduler.model.plan_record import fingerprint
from scheduler.model.times import Seconds
from scheduler.queue.scheduling_queue import SchedulingQueue
from scheduler.state.cluster import Cluster
from scheduler.state.devices.allocated_state import DeviceId
from scheduler.state.devices.device_nominations import DeviceNomination
from scheduler.state.views.node_view import NOBODY, GonePods

__all__ = ["KeptDevices", "freed_claims", "gone_pods", "undeallocated"]

#: How many durations are kept; nobody reads them outside the live scheduler.
_MOST_WAITS: Final = 1000


def freed_claims(placement: Placement, gone: Set[str], cluster: Cluster) -> tuple[FreedClaim, ...]:
    """Return the allocated claims that no pod uses once the victims of a placement are gone.

    Claims that the preemptor names itself are left out.

    Args:
        placement: A preemptor and its victims.
        gone: More victims, by uid, which are gone already.
        cluster: The cluster.
    """
    victims, devices = placement.victim_uids | gone, cluster.devices
    keys = {key for uid in victims for key in devices.claims.consumers.of(uid)}
    found = []
    for key in sorted(keys):
        claim = devices.claims.get(key)
        if claim is None or placement.preemptor_uid in devices.users.of(key):
            continue
        consumers = frozenset([each.uid for each in claim.status.reserved_for if each.is_pod])
        others = len(claim.status.reserved_for) - len(consumers)
        if claim.status.allocation is not None and consumers <= victims and not others:
            found.append(FreedClaim(key, claim.uid, consumers))
    return tuple(found)


def _allocated(
    placement: Placement, cluster: Cluster
) -> Iterator[tuple[FreedClaim, ResourceClaim]]:
    """Yield the claims that are still allocated for nobody but victims of a placement."""
    for freed in placement.freed_claims:
        claim = cluster.devices.claims.get(freed.key)
        if (
            claim is not None
            and claim.uid == freed.uid
            and claim.status.allocation is not None
            and all(each.uid in freed.consumers for each in claim.status.reserved_for)
        ):
            yield freed, claim


def undeallocated(placement: Placement, cluster: Cluster) -> list[ResourceClaim]:
    """Return the claims of a placement that are allocated although their pods are gone."""
    return [
        claim
        for freed, claim in _allocated(placement, cluster)
        if all(cluster.node_of(uid) is None for uid in freed.consumers)
    ]


def gone_pods(placement: Placement, cluster: Cluster) -> GonePods:
    """Return the victims of a placement that are gone and whose claims are allocated."""
    if not placement.freed_claims:
        return NOBODY
    allocated = [freed for freed, _ in _allocated(placement, cluster)]
    uids = frozenset[str]().union(*(freed.consumers for freed in allocated))
    gone = frozenset([uid for uid in uids if cluster.node_of(uid) is None])
    keys = [freed.key for freed in allocated if not gone.isdisjoint(freed.consumers)]
    return GonePods(gone, frozenset(keys)) if keys else NOBODY


class KeptDevices:
    """Keeps the devices that preemptors expect, by the moves of preemptions."""

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        fit_checker: FitChecks,
        wakeups: Wakeups,
        outbox: Outbox,
        status: StatusReporter,
    ) -> None:
        self._cluster = cluster
        self._queue = queue
        self._fit_checker = fit_checker
        self._wakeups = wakeups
        self._outbox = outbox
        self._status = status
        #: For metrics: what became of devices that evictions have freed, how many deallocations
        #: were requested, and how long the claims of victims that were gone kept devices. Metrics
        #: remove the last.
        self.outcomes: Final = Counter(taken=0, lost=0)
        self.deallocations = 0
        self.waits: Final[deque[Seconds]] = deque(maxlen=_MOST_WAITS)

    def expected(
        self, placement: Placement, now: Seconds, marks: Set[str] = frozenset()
    ) -> Placement:
        """Return a placement with the devices that its preemptor waits for.

        Args:
            placement: The preemptor and its victims.
            now: The time.
            marks: Fingerprints of more victims, which are gone already.
        """
        cluster, queued = self._cluster, self._queue.get(placement.preemptor_uid)
        if queued is None or not cluster.held_devices.is_used:
            return placement
        gone = frozenset(self._with_marks(placement.preemptor_uid, marks)) if marks else marks
        freed = replace(placement, freed_claims=freed_claims(placement, gone, cluster))
        devices = self._fit_checker.expected_devices(
            queued.classified,
            placement.node,
            placement.victim_uids,
            now,
            gone_pods(freed, cluster),
        )
        return replace(freed, devices=dict(devices)) if devices else placement

    def _with_marks(self, preemptor: str, marks: Set[str]) -> Iterator[str]:
        """Yield the pods, by uid, that claims are reserved for, that are gone and have a mark."""
        for uid in self._cluster.devices.claims.consumers:
            if self._cluster.node_of(uid) is None and fingerprint(preemptor, uid) in marks:
                yield uid

    def moved(self, before: PreemptionPlan, transition: Transition, now: Seconds) -> Transition:
        """Keep devices while a plan needs them, then let other pods have them.

        Claims that nobody uses are deallocated.

        Returns:
            The transition; its preemptors expect other devices where victims are spared.
        """
        if transition.spared:
            transition = self._without_spared(transition, now)
        plan = transition.plan
        self._outbox.emit_all(transition.deallocations)
        self._report_claims(transition)
        if plan.devices_expected:
            self._count(before, transition)
        if plan.phase in KEEPS_DEVICES:
            self.keep(plan)
        elif before.phase not in CLOSED:
            taken = plan.progress.outcome is PreemptionOutcome.BOUND
            for placement in plan.placements:
                self._release(placement, now, taken=taken)
        return transition

    def _count(self, before: PreemptionPlan, transition: Transition) -> None:
        """Count what metrics tell. A plan that goes on as another one is not counted."""
        plan, progress = transition.plan, transition.plan.progress
        self.deallocations += len(transition.deallocations)
        are_gone = before.progress.victims_gone_at is None and progress.victims_gone_at is not None
        if are_gone and plan.phase is PreemptionPhase.AWAITING:
            self.waits.append(0.0)  # nothing is left to be deallocated
        if plan.phase in CLOSED and before.phase not in CLOSED and progress.evicted:
            devices = sum(each.device_count for each in plan.placements)
            if progress.outcome is PreemptionOutcome.BOUND:
                self.outcomes["taken"] += devices
            elif transition.reason is not None:
                self.outcomes["lost"] += devices

    def deallocated(self, plans: Iterable[PreemptionPlan | None], now: Seconds) -> None:
        """Note that no claim keeps devices any more for which plans have waited."""
        for plan in plans:
            if plan is not None and plan.progress.victims_gone_at is not None:
                self.waits.append(now - plan.progress.victims_gone_at)

    def _report_claims(self, transition: Transition) -> None:
        """Report to preemptors the claims that keep devices for which they wait, or have waited."""
        for each in transition.plan.placements if transition.undeallocated else ():
            claims = [claim for of, claim in transition.undeallocated if of is each]
            if claims:
                ended = transition.reason is not None
                self._status.report_claims(each.preemptor, each.node, claims, given_up=ended)

    def _release(self, placement: Placement, now: Seconds, *, taken: bool) -> None:
        """Let other pods have the devices of a placement; the preemptor may have taken them."""
        devices = self._cluster.devices
        former = devices.nominations.remove(placement.preemptor_uid)
        for uid, allocation in {} if former is None else former.devices.items():
            claim = devices.claims.with_uid(uid)
            got = None if claim is None else claim.status.allocation
            has_expected = taken and got is not None and _ids(got) == _ids(allocation)
            if not has_expected or (former is not None and former.claims):
                self._wakeups.wake_by_devices(allocation, now)
                return

    def _without_spared(self, transition: Transition, now: Seconds) -> Transition:
        """Return a transition whose preemptors expect devices without those of spared victims."""
        plan = transition.plan
        placements = tuple(
            self.expected(replace(each, devices={}, freed_claims=()), now)
            for each in plan.placements
        )
        return replace(transition, plan=replace(plan, placements=placements))

    def keep_all(self, plans: Iterable[PreemptionPlan]) -> None:
        """Keep the devices of all plans, which a snapshot of a machine does not have."""
        for plan in plans:
            self.keep(plan)

    def keep(self, plan: PreemptionPlan) -> None:
        """Keep the devices of a plan from now on."""
        for placement in plan.placements if plan.phase in KEEPS_DEVICES else ():
            self.keep_for(placement)

    def keep_for(self, placement: Placement) -> None:
        """Keep the devices of a placement, and note which claims have to be deallocated."""
        if placement.devices:
            node, priority = placement.node, placement.preemptor.priority
            claims = frozenset([freed.key for freed, _ in _allocated(placement, self._cluster)])
            nomination = DeviceNomination(node, priority, placement.devices, claims)
            self._cluster.devices.nominations.put(placement.preemptor_uid, nomination)
        else:
            self._cluster.devices.nominations.remove(placement.preemptor_uid)


def _ids(allocation: Allocation) -> list[DeviceId]:
    return [result.id for result in allocation.devices.results]
