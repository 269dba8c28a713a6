"""Preemptions that were decided, each with its victims and its progress, in one table.

Times are those of this process. Time stamps of an earlier leader, the API server or a kubelet are
never compared with them: a victim hangs only after this process saw it terminate for long enough.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Final

from scheduler.core.eviction.phases import (
    IN_PROGRESS,
    TABLE,
    PreemptionMove,
    PreemptionOutcome,
    PreemptionPhase,
)
from scheduler.core.preemption.policy.charge import Charge
from scheduler.model.api.objects import Pod
from scheduler.model.api.owners import owner
from scheduler.model.effects import PodRef
from scheduler.model.phase_table import next_phase
from scheduler.model.plan_record import CONDITION, VERSION, PlanRecord, decode, encode, fingerprint
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.pods.pod_table import NOWHERE
from scheduler.state.preemption.wasted_evictions import WasteEntry

__all__ = [
    "EVICT_WITHIN",
    "PlanTable",
    "PolicyInputs",
    "PreemptionPlan",
    "Victim",
    "victims_of_others",
]

#: How long it may take to evict every victim. Longer than the writer's patience for one request,
#: short compared with the time for which a node should be reserved.
EVICT_WITHIN: Final[Seconds] = 120.0
#: How many moves are remembered, for the message about an illegal move.
_HISTORY: Final = 16


@dataclass(frozen=True, slots=True)
class Victim:
    """A pod that must be gone before the preemptor fits."""

    ref: PodRef
    owner: str
    #: Whether it was terminating when the preemption was decided, so that it is only waited for.
    wait_only: bool = False

    @classmethod
    def of(cls, pod: Pod, *, wait_only: bool) -> "Victim":
        """Return a pod as a victim."""
        return cls(pod.ref, owner(pod), wait_only)

    @property
    def uid(self) -> str:
        """The uid of the pod."""
        return self.ref.uid


@dataclass(frozen=True, slots=True)
class PolicyInputs:
    """What decides which policies apply to a preemption."""

    #: Grows when any policy changes.
    policies_version: int
    #: Labels of the namespaces of the preemptor and of the victims, by name.
    namespaces: Mapping[str, Mapping[str, str] | None]
    #: Names of the policies that select each victim, and the preemptor, by uid: pods may get other
    #: labels, but labels that no policy selects by change nothing.
    selected: Mapping[str, frozenset[str]]


@dataclass(slots=True, eq=False)
class PreemptionPlan:
    """One preemption. Only the package `eviction` changes it; only `change_phase` its phase."""

    #: As it was when the preemption was decided.
    preemptor: Pod
    node: str
    #: Most important first.
    victims: tuple[Victim, ...]
    #: When it was decided; with the preemptor's uid it names the preemption in the ledger.
    decided_at: Seconds
    #: When every victim must have been evicted.
    deadline: Seconds
    phase: PreemptionPhase
    charge: Charge = field(default_factory=Charge)
    #: The pods on the node when it was decided, by uid; empty for the plan of an earlier leader.
    pods_at_decision: frozenset[str] = frozenset()
    #: What is written to the preemptor, and whether the API server has answered.
    written_record: str = ""
    nominated: bool = False
    #: What its charge was computed from; `None` before it was charged.
    charged_under: PolicyInputs | None = None
    #: Positions of the change logs, and the preemptor's class key, at the decision; empty where
    #: unknown.
    log_positions: tuple[int, ...] = ()
    class_key: bytes = b""
    #: Revision of the ledger that must be written before the first victim is evicted.
    ledger_revision: int = 0
    #: When an eviction that has no answer yet was requested, by uid of the victim.
    outstanding: dict[str, Seconds] = field(default_factory=dict)
    #: When this process decided or resumed it.
    taken_up_at: Seconds = 0.0
    #: Whether an eviction was requested.
    began: bool = False
    #: When this process knew that a victim was evicted for the plan, by uid; or when it asked for
    #: that without an answer, so that it is uncertain.
    evicted: dict[str, Seconds] = field(default_factory=dict)
    #: When a victim that the plan did not evict was first seen to terminate, by uid.
    seen_terminating: dict[str, Seconds] = field(default_factory=dict)
    #: Victims whose eviction was counted as wasted, and those where that is not certain, by uid.
    wasted: set[str] = field(default_factory=set)
    maybe_wasted: set[str] = field(default_factory=set)
    maybe_wasted_entries: list[WasteEntry] = field(default_factory=list)
    #: Victims that the ledger counts for the plan, by uid.
    in_ledger: set[str] = field(default_factory=set)
    #: Last known state of the victims before they terminated, by uid, as far as it is known.
    victim_pods: dict[str, Pod] = field(default_factory=dict)
    #: Why the plan failed, empty where it did not; and whether another try would fail too.
    problem: str = ""
    #: How it has ended, and when; `None` while it has not.
    outcome: PreemptionOutcome | None = None
    ended_at: Seconds | None = None
    #: Victims whose freed resources the preemptor did not use in the end, by uid.
    in_vain: set[str] = field(default_factory=set)
    will_fail_again: bool = False
    history: deque[tuple[Seconds, PreemptionPhase]] = field(
        default_factory=lambda: deque(maxlen=_HISTORY)
    )

    def __str__(self) -> str:
        return f"{self.preemptor.key} on {self.node} {list(self.history)}"

    @classmethod
    def decided(
        cls,
        preemptor: Pod,
        node: str,
        victims: tuple[Pod, ...],
        charge: Charge,
        cluster: Cluster,
        now: Seconds,
    ) -> "PreemptionPlan":
        """Return a new plan."""
        chosen = tuple(Victim.of(pod, wait_only=cluster.is_being_deleted(pod)) for pod in victims)
        # Rounded, since it is written to the ledger and to the preemptor.
        begun = round(now, 3)
        plan = cls(
            preemptor, node, chosen, begun, begun + EVICT_WITHIN, PreemptionPhase.NOMINATING,
            charge, _uids_on_node(cluster, node),
        )  # fmt: skip
        plan.taken_up_at = begun
        plan.victim_pods = {pod.uid: pod for pod in victims}
        return plan

    @classmethod
    def inherited(cls, preemptor: Pod, cluster: Cluster, now: Seconds) -> "PreemptionPlan | None":
        """Return the plan that an earlier leader has written to a waiting pod.

        The record only selects among the pods that the preemptor may evict anyway. Pods of equal or
        higher priority, and pods that were only waited for but do not terminate, are left out.

        Returns:
            `None` where there is no plan, or where the preemptor is not nominated to its node.
        """
        condition = preemptor.condition(CONDITION)
        record = None if condition is None else decode(condition.message)
        if record is None or cluster.nominations.node(preemptor.uid) != record.node:
            return None
        row = cluster.columns.row(record.node)
        pods = () if row is None else cluster.pods.pods_on(row)
        meant, awaited = frozenset(record.victims), frozenset(record.leaving)
        chosen: list[tuple[Pod, Victim]] = []
        gone = set(meant)
        for pod in sorted(pods, key=lambda pod: -pod.priority):
            mark, deleted = fingerprint(preemptor.uid, pod.uid), cluster.is_being_deleted(pod)
            gone.discard(mark)
            evictable = mark in meant and pod.priority < preemptor.priority
            if evictable or (deleted and (mark in meant or mark in awaited)):
                chosen.append((pod, Victim.of(pod, wait_only=not evictable)))
        # Another leader's clock may be ahead: nothing was decided later than now.
        begun = min(record.begun, round(now, 3))
        plan = cls(
            preemptor, record.node, tuple(victim for _, victim in chosen), begun,
            now + EVICT_WITHIN, PreemptionPhase.INHERITED,
        )  # fmt: skip
        plan.victim_pods = {pod.uid: pod for pod, _ in chosen}
        evicted = (
            pod.uid
            for pod, victim in chosen
            if cluster.is_being_deleted(pod) and not victim.wait_only
        )
        # Of victims that are gone only the fingerprints are known; they count as evicted as well.
        plan.evicted = dict.fromkeys((*evicted, *sorted(gone)), now)
        return plan

    def change_phase(self, move: PreemptionMove, now: Seconds) -> None:
        """Go to the phase that the table of `phases` has for a move.

        Raises:
            IllegalMoveError: The table of phases does not have the move.
        """
        self.phase = next_phase(TABLE, self.phase, move, self)
        self.history.append((now, self.phase))

    def builds_on_unwritten(self, others: Iterable["PreemptionPlan"]) -> bool:
        """Return whether a nomination that counted for this plan has no answer yet.

        It may be refused. And the next leader does not know of it, and may find another node for
        that pod. In both cases, the pods that were evicted for both of them are too many.
        """
        return any(
            other.phase is PreemptionPhase.NOMINATING
            and other.decided_at <= self.taken_up_at
            and other.preemptor.priority >= self.preemptor.priority
            for other in others
            if other is not self
        )

    def record(self) -> str:
        """Return what is written to the preemptor."""
        own = self.preemptor.uid
        return encode(
            PlanRecord(
                VERSION,
                self.node,
                self.decided_at,
                tuple(fingerprint(own, pod.uid) for pod in self.victims if not pod.wait_only),
                tuple(fingerprint(own, pod.uid) for pod in self.victims if pod.wait_only),
            )
        )

    def wait_instead(self, others: Iterable[Pod], spared: Set[str]) -> None:
        """Spare some victims, given by uid, and wait for pods that terminate for other plans.

        The spared victims are removed, so that no other plan relies on them: two plans that spare
        their victims because of each other's would wait without end.
        """
        kept = tuple(victim for victim in self.victims if victim.uid not in spared)
        self.victims = kept + tuple(Victim.of(pod, wait_only=True) for pod in others)

    @property
    def uid(self) -> str:
        """The uid of the preemptor."""
        return self.preemptor.uid

    @property
    def decided_here(self) -> bool:
        """Whether this process has decided it, so that the pods of the node then are known."""
        return bool(self.pods_at_decision)

    @property
    def uids(self) -> frozenset[str]:
        """The uids of all victims."""
        return frozenset(victim.uid for victim in self.victims)

    def terminating(self, cluster: Cluster) -> frozenset[str]:
        """Return the uids of the victims that terminate, or soon will because of this plan."""
        not_terminating = {pod.uid for pod in self.not_terminating(cluster)}
        return frozenset(
            victim.uid
            for victim in self.victims
            if not victim.wait_only or victim.uid not in not_terminating
        )

    def remaining(self, cluster: Cluster) -> list[Pod]:
        """Return the victims that are still on the node, most important first."""
        # This is called for all plans of the node whenever a victim is gone: one look-up a victim.
        pods, names, found = cluster.pods, cluster.columns.names, []
        for victim in self.victims:
            slot = pods.slot(victim.ref.uid)
            row = NOWHERE if slot is None else pods.row(slot)
            if slot is not None and row != NOWHERE and names[row] == self.node:
                found.append(pods.pod(slot))
        return found

    def not_terminating(self, cluster: Cluster) -> list[Pod]:
        """Return the victims that do not terminate yet, most important first."""
        return [pod for pod in self.remaining(cluster) if not cluster.is_being_deleted(pod)]

    def to_evict(self, cluster: Cluster) -> list[Pod]:
        """Return the victims that this plan has yet to evict, most important first.

        A pod that was terminating for another reason is only waited for, even if it runs on after
        all: the preemptor may not have been allowed to evict it.
        """
        awaited = {victim.uid for victim in self.victims if victim.wait_only}
        return [pod for pod in self.not_terminating(cluster) if pod.uid not in awaited]

    def owners(self, uids: Iterable[str]) -> list[str]:
        """Return the owners of some victims, each once, sorted."""
        wanted = frozenset(uids)
        owners = {victim.owner for victim in self.victims if victim.uid in wanted}
        return sorted(
            owners | {owner(pod) for uid, pod in self.victim_pods.items() if uid in wanted}
        )

    def refs(self) -> tuple[PodRef, ...]:
        """Return references to all victims."""
        return tuple(victim.ref for victim in self.victims)


class PlanTable:
    """All preemptions that are not over, by uid of the preemptor and by node."""

    def __init__(self) -> None:
        self._plans: dict[str, PreemptionPlan] = {}
        self._on_node: dict[str, dict[str, PreemptionPlan]] = {}

    def __len__(self) -> int:
        return len(self._plans)

    def __iter__(self) -> Iterator[PreemptionPlan]:
        return iter(self._plans.values())

    def get(self, uid: str) -> PreemptionPlan | None:
        """Return the plan of a preemptor."""
        return self._plans.get(uid)

    def in_progress(self, uid: str) -> PreemptionPlan | None:
        """Return the plan of a preemptor while it is being carried out."""
        plan = self._plans.get(uid)
        return plan if plan is not None and plan.phase in IN_PROGRESS else None

    def on_node(self, node: str) -> list[PreemptionPlan]:
        """Return the plans for a node."""
        return list(self._on_node.get(node, {}).values())

    def phases(self) -> Counter[PreemptionPhase]:
        """Return how many plans are in each phase."""
        return Counter(plan.phase for plan in self._plans.values())

    def add(self, plan: PreemptionPlan) -> None:
        """Add a plan; its preemptor must have no other."""
        assert plan.uid not in self._plans, plan
        self._plans[plan.uid] = plan
        self._on_node.setdefault(plan.node, {})[plan.uid] = plan

    def close(self, plan: PreemptionPlan, move: PreemptionMove, now: Seconds) -> None:
        """Remove a plan with the move that ends it."""
        plan.change_phase(move, now)
        if plan.outcome is None:
            failed = PreemptionOutcome.FAILED
            plan.outcome = failed if plan.problem else PreemptionOutcome.GIVEN_UP
        plan.ended_at = now
        del self._plans[plan.uid]
        here = self._on_node[plan.node]
        del here[plan.uid]
        if not here:
            del self._on_node[plan.node]


def victims_of_others(
    plan: PreemptionPlan, plans: Iterable[PreemptionPlan], cluster: Cluster
) -> frozenset[str]:
    """Return the uids of pods that other plans than this one evict, or have evicted."""
    others = (other for other in plans if other is not plan)
    return frozenset().union(*(other.terminating(cluster) for other in others))


def _uids_on_node(cluster: Cluster, node: str) -> frozenset[str]:
    row = cluster.columns.row(node)
    pods = () if row is None else cluster.pods.pods_on(row)
    return frozenset(pod.uid for pod in pods)
