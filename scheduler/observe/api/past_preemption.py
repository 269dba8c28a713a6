"""One preemption as the history keeps it: who, where, why there, and what came of it."""

from collections.abc import Iterator, Set
from typing import Final

from msgspec.structs import replace

from scheduler.core.eviction.phases import CLOSED, PreemptionPhase
from scheduler.core.eviction.plan import Placement, PreemptionPlan
from scheduler.model.api.objects import Pod
from scheduler.model.api.start_time import runs_since
from scheduler.model.comparisons import Comparison
from scheduler.model.decisions import Attempt
from scheduler.model.policies import PolicyMode
from scheduler.model.rest.common import PodView
from scheduler.model.rest.preemptions import DeviceView, PolicyVeto, PreemptionDevices
from scheduler.model.times import Seconds
from scheduler.observe.api.costs import Cost, lost
from scheduler.observe.api.preempted_devices import devices_of, with_claims
from scheduler.observe.api.views import FORMER, former, pending_view, stamp, violated_budgets
from scheduler.state.cluster import Cluster

__all__ = ["INTERRUPTED", "PastPreemption", "PastVictim"]

#: The outcome of a preemption whose process has ended before it did.
INTERRUPTED: Final = "unknown"

#: After so long a preemption that has ended counts as settled, whatever its victims do.
_SETTLED_AFTER: Final[Seconds] = 900.0


class PastVictim:
    """A victim of a preemption, as far as it is known."""

    __slots__ = (
        "_pod",
        "_source",
        "budgets",
        "controller",
        "decided_at",
        "evicted_at",
        "in_vain",
        "replacement",
        "since",
        "state",
        "uid",
        "violates_pdb",
        "waste_is_told",
    )

    def __init__(self, pod: PodView, source: Pod | None = None, *, violates_pdb: bool) -> None:
        self.uid = pod.uid
        self._pod = pod
        #: What the view is made from, until it is.
        self._source = source
        references = () if source is None else source.metadata.owner_references
        self.controller = next((each.uid for each in references if each.controller), "")
        self.since: Seconds | None = None
        self.violates_pdb = violates_pdb
        #: The disruption budgets that its eviction violates.
        self.budgets: tuple[str, ...] = ()
        self.decided_at: Seconds = 0.0
        self.evicted_at: Seconds | None = None
        #: planned, or spared if it will not be evicted for this or ended otherwise; evicting,
        #: terminating or gone if it was, or is just being.
        self.state = "planned"
        self.in_vain = False
        #: Whether `newly_wasted` has returned it.
        self.waste_is_told = False
        self.replacement: PodView | None = None

    def make_view(self, cluster: Cluster) -> None:
        """Make the view of the pod, unless that is done."""
        if self._source is not None:
            self._pod = pending_view(self._source, cluster)
            self.since = runs_since(self._source)
            self._source = None

    @property
    def pod(self) -> PodView:
        """The view of the pod; without requests and owner before `make_view`."""
        return self._pod

    def leave_namespace(self) -> None:
        """Note that its namespace was deleted; its view must be made."""
        self._pod = former(self._pod)
        self.budgets = tuple(each.replace("/", f"{FORMER}/", 1) for each in self.budgets)
        if self.replacement is not None:
            self.replacement = former(self.replacement)

    def left(self, cluster: Cluster) -> bool:
        """Return whether it terminates or is gone."""
        pod = cluster.find_pod(self.uid)
        return pod is None or cluster.is_being_deleted(pod)

    def replaced_by(self, pod: Pod, cluster: Cluster) -> None:
        """Record the pod that its owner has made instead."""
        self.replacement = pending_view(pod, cluster)

    def ran_seconds(self, now: Seconds) -> float:
        """Return for how long it has run, or had run when it was evicted."""
        if self.since is None:
            return 0.0
        return max(0.0, (now if self.evicted_at is None else self.evicted_at) - self.since)

    @property
    def lost(self) -> bool:
        """Whether it was evicted for the preemption."""
        return self.evicted_at is not None

    @property
    def is_spared(self) -> bool:
        """Whether it was to be evicted, and will not be."""
        return self.state == "spared"

    @property
    def cost(self) -> Cost:
        """What its eviction cost; nothing if it was not evicted."""
        return lost(self.pod.requests, self.ran_seconds(0.0)) if self.lost else Cost()


class PastPreemption:
    """A preemption that was decided for one pod.

    Args:
        number: Orders the preemptions that this process knows. Those that it has decided are
            counted from 1 on, those that it has read have negative numbers.
        name: Identifies it among the preemptions of all processes.
        node: Where the victims are.
        decided_at: When it was decided.
    """

    def __init__(self, number: int, name: str, node: str, decided_at: Seconds) -> None:
        self.number: Final = number
        self.name = name
        self.node: Final = node
        self.decided_at: Final = decided_at
        #: As it is now; `None` when it is over.
        self.plan: PreemptionPlan | None = None
        #: Victims, by uid, whose freed resources were not used in the end.
        self._in_vain = frozenset[str]()
        self._preemptor: PodView | None = None
        #: What the view is made from, until it is.
        self._source: Pod | None = None
        self.comparison: Comparison | None = None
        self._violating = frozenset[str]()
        #: What policies in mode Audit would have refused.
        self.would_refuse: tuple[PolicyVeto, ...] = ()
        self.phase = PreemptionPhase.DONE
        self.outcome = ""
        self.ended_at: Seconds | None = None
        self.problem = ""
        #: Whether an earlier leader has decided it, and this process carries it out.
        self.is_inherited = False
        self.victims: list[PastVictim] = []
        #: The devices that it is for, and the claims that keep them now.
        self.devices: PreemptionDevices | None = None
        self.revision = 0
        #: Whether nothing of it can change any more.
        self.settled = False
        self._state: object = None

    @classmethod
    def of_plan(
        cls,
        number: int,
        name: str,
        plan: PreemptionPlan,
        placement: Placement,
        attempt: Attempt | None,
        cluster: Cluster,
    ) -> "PastPreemption":
        """Return one that is carried out.

        Args:
            number: Counts the preemptions of this process.
            name: Identifies it.
            plan: Its plan.
            placement: The part of the plan that is for the pod.
            attempt: The attempt that decided it; `None` for that of an earlier leader.
            cluster: The cluster as it is.
        """
        past = cls(number, name, placement.node, plan.decided_at)
        past.plan, past.phase, past._source = plan, plan.phase, placement.preemptor
        past.is_inherited = not plan.decided_here
        # The attempt that goes on with the plan of an earlier leader has not chosen its node.
        if attempt is not None and plan.decided_here:
            past.comparison, past._violating = attempt.comparison, attempt.violating
            past.would_refuse = tuple(
                PolicyVeto(veto.policy, veto.rule.value, veto.reason)
                for veto in attempt.vetoes
                if veto.mode is PolicyMode.AUDIT
            )
        # All else is made later: a preemption must not take longer because of it.
        past._add_victims(placement, cluster)
        past.devices = devices_of(placement, cluster)
        return past

    @classmethod
    def read(
        cls,
        number: int,
        name: str,
        preemptor: PodView,
        node: str,
        decided_at: Seconds,
    ) -> "PastPreemption":
        """Return one that an earlier leader has written down, without its victims."""
        past = cls(number, name, node, decided_at)
        past._preemptor = preemptor
        return past

    def follow(self, plan: PreemptionPlan, in_vain: frozenset[str]) -> None:
        """Take the plan as it is now.

        Args:
            plan: The plan.
            in_vain: Its victims, by uid, whose freed resources were not used in the end.
        """
        self.plan, self._in_vain = plan, in_vain

    def update(self, cluster: Cluster, now: Seconds) -> bool:
        """Read the plan and the cluster; return whether anything has changed."""
        if self._source is not None and self._preemptor is None:
            self._preemptor = pending_view(self._source, cluster)
        plan = self.plan
        if plan is not None:
            self._read(plan, cluster)
        for victim in self.victims:
            victim.make_view(cluster)
            victim.state = self._state_of(victim, cluster)
        if plan is not None and plan.phase is PreemptionPhase.DONE:
            # A pod is much larger than its view.
            self.plan = self._source = None
        ended = self.ended_at
        gone = all(victim.state in ("gone", "spared") for victim in self.victims)
        self.settled = ended is not None and self.plan is None and (
            ended + _SETTLED_AFTER < now or (gone and ended + 60.0 < now)
        )  # fmt: skip
        state = self._fingerprint(cluster)
        changed, self._state = state != self._state, state
        return changed

    def _read(self, plan: PreemptionPlan, cluster: Cluster) -> None:
        progress = plan.progress
        self.phase, self.problem = plan.phase, progress.problem
        if progress.ended_at is not None:
            self.ended_at, self.outcome = progress.ended_at, progress.outcome or ""
        placement = plan.placement(self.preemptor_uid)
        self._add_victims(placement, cluster)
        if self.devices is not None:
            waits = placement if plan.phase is PreemptionPhase.DEALLOCATING else None
            since = stamp(None if plan.phase in CLOSED else progress.victims_gone_at)
            self.devices = with_claims(self.devices, waits, since, cluster)
        for victim in self.victims:
            if victim.evicted_at is None:
                victim.evicted_at = progress.evicted.get(victim.uid)
            victim.in_vain = victim.in_vain or victim.uid in self._in_vain

    def _add_victims(self, placement: Placement, cluster: Cluster) -> None:
        known = {victim.uid for victim in self.victims}
        # Before any is evicted: then the budgets allow less.
        budgets = (
            violated_budgets(placement.victim_pods.values(), self._violating, cluster)
            if self._violating and not known
            else {}
        )
        for planned in placement.victims:
            if planned.uid not in known:
                violates, ref = planned.uid in self._violating, planned.ref
                pod = placement.victim_pods.get(planned.uid) or cluster.find_pod(planned.uid)
                view = PodView(namespace=ref.namespace, name=ref.name, uid=ref.uid)
                victim = PastVictim(view, pod, violates_pdb=violates)
                victim.decided_at = self.decided_at
                victim.budgets = budgets.get(planned.uid, ())
                self.victims.append(victim)

    def take_over(self, earlier: "PastPreemption") -> None:
        """Take what is known of the same preemption from the process that has decided it."""
        self.name, self.comparison = earlier.name, earlier.comparison
        self.would_refuse = earlier.would_refuse
        # It was decided while the victims had their devices.
        self.devices = earlier.devices or self.devices
        known = {victim.uid: victim for victim in earlier.victims}
        for victim in self.victims:
            before = known.pop(victim.uid, None)
            if before is not None:
                victim.evicted_at = before.evicted_at
                victim.violates_pdb, victim.budgets = before.violates_pdb, before.budgets
        self.victims += known.values()

    def leave_namespaces(self, names: Set[str]) -> bool:
        """Note that namespaces were deleted; return whether anything is of them.

        To be called after the first `update`.
        """
        is_of_them = self.preemptor.namespace in names
        if is_of_them:
            self._preemptor = former(self.preemptor)
        for victim in self.victims:
            if victim.pod.namespace in names:
                victim.leave_namespace()
                is_of_them = True
        devices = self.devices
        if devices is not None and not names.isdisjoint(each.namespace for each in devices.items):
            items = (_left(each, names) for each in devices.items)
            self.devices, is_of_them = replace(devices, items=tuple(items)), True
        return is_of_them

    def newly_wasted(self) -> Iterator[PastVictim]:
        """Yield the victims whose eviction turned out to be wasted, each once."""
        for victim in self.victims:
            if victim.in_vain and not victim.waste_is_told:
                victim.waste_is_told = True
                yield victim

    def _state_of(self, victim: PastVictim, cluster: Cluster) -> str:
        pod, plan = cluster.find_pod(victim.uid), self.plan
        is_planned = plan is not None and victim.uid in plan.victim_uids
        is_asked = is_planned and pod is not None and cluster.is_being_preempted(pod)
        # One that its user deletes, or that ends by itself, was not evicted.
        if victim.lost or is_asked:
            if pod is None:
                return "gone"
            if pod.terminating:
                return "terminating"
            if cluster.is_being_deleted(pod):
                return "evicting"
        is_wanted = is_planned and pod is not None and not pod.terminating
        return "planned" if is_wanted and self.ended_at is None else "spared"

    def _fingerprint(self, cluster: Cluster) -> object:
        """Return what differs if anything that is shown differs."""
        victims = tuple(
            (
                victim.uid,
                victim.state,
                victim.evicted_at,
                victim.in_vain,
                victim.replacement and cluster.node_of(victim.replacement.uid),
                victim.replacement is None,
            )
            for victim in self.victims
        )
        return self.phase, self.outcome, self.ended_at, self.problem, victims, self.devices

    @property
    def is_new(self) -> bool:
        """Whether it was never brought up to date."""
        return self._preemptor is None

    @property
    def is_interrupted(self) -> bool:
        """Whether the process that carried it out has ended before it did."""
        return self.outcome == INTERRUPTED

    @property
    def preemptor_uid(self) -> str:
        """The uid of the preemptor."""
        return self.preemptor.uid if self._source is None else self._source.uid

    @property
    def preemptor(self) -> PodView:
        """The view of the preemptor; valid after the first `update`."""
        assert self._preemptor is not None
        return self._preemptor

    @property
    def namespaces(self) -> frozenset[str]:
        """The namespaces of the preemptor, of the victims and of their claims."""
        found = {self.preemptor.namespace, *(each.pod.namespace for each in self.victims)}
        if self.devices is not None:
            found.update(each.namespace for each in self.devices.items if each.namespace)
            found.update(each.namespace for each in self.devices.claims)
        return frozenset(found)


def _left(device: DeviceView, names: Set[str]) -> DeviceView:
    """Return a device without claim and pod if their namespace was deleted."""
    is_left = device.namespace in names
    return DeviceView(device.driver, device.pool, device.device) if is_left else device
