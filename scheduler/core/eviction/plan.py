"""A preemption as a value: what was decided, and how far it is carried out.

A plan never changes. Each move of `transitions` makes a new one, which `preemptions` keeps in place
of the former one. A plan has one placement for each of its preemptors; it goes on only as long as
every placement holds. When one does not, or its preemptor is placed, the plan is divided: so a plan
that is withdrawn or vacated has one placement.

Times are those of this process. Time stamps of an earlier leader, the API server or a kubelet are
never compared with them: a victim hangs only after this process saw it terminate for long enough.
"""

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Final

from msgspec import field
from msgspec.structs import replace

from scheduler.core.eviction.phases import (
    PreemptionOutcome,
    PreemptionPhase,
    WasteReason,
)
from scheduler.core.preemption.policy.charge import Charge
from scheduler.model.api.devices import Allocation
from scheduler.model.api.objects import Pod
from scheduler.model.api.owners import owner
from scheduler.model.base import Record
from scheduler.model.effects import Evict, PodRef
from scheduler.model.plan_record import CONDITION, VERSION, PlanRecord, decode, encode, fingerprint
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster

__all__ = [
    "EVICT_WITHIN",
    "FreedClaim",
    "Placement",
    "PolicyInputs",
    "PreemptionPlan",
    "Progress",
    "Victim",
]

#: How long it may take to evict every victim. Longer than the writer's patience for one request,
#: short compared with the time for which a node should be reserved.
EVICT_WITHIN: Final[Seconds] = 120.0


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
    #: Labels of the namespaces of the preemptors and of the victims, by name.
    namespaces: Mapping[str, Mapping[str, str] | None]
    #: Names of the policies that select each victim and preemptor, by uid: pods may get other
    #: labels, but labels that no policy selects by change nothing.
    selected: Mapping[str, frozenset[str]]


class FreedClaim(Record, frozen=True):
    """A claim that no pod uses any more once victims are gone."""

    key: str
    uid: str
    #: The victims that it is reserved for, by uid.
    consumers: frozenset[str]


class Placement(Record, frozen=True):
    """A preemptor, the node that it is nominated to, and the pods that must be gone before."""

    #: As it was when the preemption was decided.
    preemptor: Pod
    node: str
    #: Most important first.
    victims: tuple[Victim, ...]
    #: Last known state of the victims before they terminated, by uid, as far as it is known.
    victim_pods: dict[str, Pod]
    #: The pods on the node when it was decided, by uid; empty for the plan of an earlier leader.
    pods_at_decision: frozenset[str] = frozenset()
    #: Positions of the change logs, and the preemptor's class key, at the decision; empty where
    #: unknown.
    log_positions: tuple[int, ...] = ()
    class_key: bytes = b""
    #: What is written to the preemptor together with its nomination.
    record: str = ""
    #: The devices that the preemptor waits for, by uid of its claim, and the claims of victims that
    #: have to be deallocated; empty where evictions free no devices for it.
    devices: dict[str, Allocation] = field(default_factory=dict)
    freed_claims: tuple[FreedClaim, ...] = ()

    @classmethod
    def of(
        cls, preemptor: Pod, node: str, victims: tuple[Pod, ...], cluster: Cluster
    ) -> "Placement":
        """Return a placement that is decided now."""
        row = cluster.columns.row(node)
        pods = () if row is None else cluster.pods.pods_on(row)
        chosen = (Victim.of(pod, wait_only=cluster.is_being_deleted(pod)) for pod in victims)
        known = {pod.uid: pod for pod in victims}
        return cls(preemptor, node, tuple(chosen), known, frozenset(pod.uid for pod in pods))

    @property
    def preemptor_uid(self) -> str:
        """The uid of the preemptor."""
        return self.preemptor.uid

    @property
    def victim_uids(self) -> frozenset[str]:
        """The uids of the victims."""
        return frozenset(victim.uid for victim in self.victims)

    @property
    def device_count(self) -> int:
        """How many devices the preemptor waits for."""
        return sum(each.device_count for each in self.devices.values())

    def with_victims(self, more: Iterable[Victim]) -> "Placement":
        """Return the placement with more victims."""
        return replace(self, victims=(*self.victims, *more))

    def wait_instead(self, others: Iterable[Pod], spared: Set[str]) -> "Placement":
        """Spare some victims, given by uid, and wait for pods that terminate for other plans.

        The spared victims are removed, so that no other plan relies on them: two plans that spare
        their victims because of each other's would wait without end.
        """
        kept = replace(self, victims=tuple(each for each in self.victims if each.uid not in spared))
        return kept.with_victims(Victim.of(pod, wait_only=True) for pod in others)

    def with_record(self, decided_at: Seconds) -> "Placement":
        """Return the placement with the record that the next leader reads."""
        marks = {
            wait_only: tuple(
                fingerprint(self.preemptor_uid, victim.uid)
                for victim in self.victims
                if victim.wait_only is wait_only
            )
            for wait_only in (False, True)
        }
        record = PlanRecord(VERSION, self.node, decided_at, marks[False], marks[True])
        return replace(self, record=encode(record))


class Progress(Record, frozen=True):
    """How far a plan is carried out. Pods are given by uid."""

    phase: PreemptionPhase
    #: Preemptors whose nomination the API server has accepted, and has not accepted.
    nominated: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    #: When an eviction that has no answer yet was requested, by victim.
    outstanding: dict[str, Seconds] = field(default_factory=dict)
    #: Whether an eviction was requested.
    began: bool = False
    #: When this process knew that a victim was evicted for the plan; or when it asked for that
    #: without an answer, so that it is uncertain.
    evicted: dict[str, Seconds] = field(default_factory=dict)
    #: When a victim that the plan did not evict was first seen to terminate.
    seen_terminating: dict[str, Seconds] = field(default_factory=dict)
    #: When the last victim of a plan that waits for devices was seen to be gone.
    victims_gone_at: Seconds | None = None
    #: Whether people were told that claims are not deallocated yet.
    told_of_claims: bool = False
    #: Victims that the ledger counts for the plan.
    in_ledger: frozenset[str] = frozenset()
    #: Why the plan failed, empty where it did not; and whether another try would fail too.
    problem: str = ""
    will_fail_again: bool = False
    #: How it has ended, and when; `None` while it has not.
    outcome: PreemptionOutcome | None = None
    ended_at: Seconds | None = None
    #: Why the preemptors do not come; `None` while the plan is not vacated.
    vacated_for: WasteReason | None = None
    #: The last moves, oldest first.
    history: tuple[tuple[Seconds, PreemptionPhase], ...] = ()

    def without(self, uid: str) -> "Progress":
        """Return the progress when an eviction has an answer."""
        outstanding = {each: at for each, at in self.outstanding.items() if each != uid}
        return replace(self, outstanding=outstanding)


class PreemptionPlan(Record, frozen=True):
    """One preemption: its placements, what it counts for, and its progress."""

    #: Counts the plans of this process.
    number: int
    #: Its first number, which it shares with all plans that it was divided into.
    decision: int
    placements: tuple[Placement, ...]
    #: When it was decided; with the uid of a preemptor it names the preemption in the ledger.
    decided_at: Seconds
    #: When every victim must have been evicted.
    deadline: Seconds
    #: When this process decided or resumed it.
    taken_up_at: Seconds
    progress: Progress
    #: Whether this process has decided it, so that the pods of the nodes then are known.
    decided_here: bool = True
    charge: Charge = Charge()
    #: What its charge was computed from; `None` before it was charged.
    charged_under: PolicyInputs | None = None
    #: Revision of the ledger that must be written before the first victim is evicted.
    ledger_revision: int = 0

    def __str__(self) -> str:
        where = ", ".join(f"{each.preemptor.key} on {each.node}" for each in self.placements)
        return f"{where} {list(self.progress.history)}"

    @classmethod
    def decided(
        cls, number: int, placements: tuple[Placement, ...], charge: Charge, now: Seconds
    ) -> "PreemptionPlan":
        """Return a new plan.

        Raises:
            ValueError: A victim would be evicted for two of its placements.
        """
        if len(placements) > 1:
            evicts = [each.uid for p in placements for each in p.victims if not each.wait_only]
            if len(evicts) > len({*evicts}):
                raise ValueError(f"one victim for two preemptors: {evicts}")
        # Rounded, since it is written to the ledger and to the preemptors.
        at = round(now, 3)
        progress = Progress(PreemptionPhase.NOMINATING)
        return cls(number, number, placements, at, at + EVICT_WITHIN, at, progress, charge=charge)

    @classmethod
    def inherited(
        cls, number: int, preemptor: Pod, cluster: Cluster, now: Seconds
    ) -> "PreemptionPlan | None":
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
        victims = tuple(victim for _, victim in chosen)
        evicted = (
            pod.uid
            for pod, victim in chosen
            if cluster.is_being_deleted(pod) and not victim.wait_only
        )
        # Of victims that are gone only the fingerprints are known; they count as evicted as well.
        known = dict.fromkeys((*evicted, *sorted(gone)), now)
        return cls(
            number,
            number,
            (Placement(preemptor, record.node, victims, {pod.uid: pod for pod, _ in chosen}),),
            # Another leader's clock may be ahead: nothing was decided later than now.
            decided_at=min(record.begun, round(now, 3)),
            deadline=now + EVICT_WITHIN,
            taken_up_at=0.0,
            progress=Progress(PreemptionPhase.INHERITED, evicted=known),
            decided_here=False,
        )

    def absorbing(
        self, before: "PreemptionPlan", preemptor: str, terminating: Set[str]
    ) -> "PreemptionPlan":
        """Return a new plan that also waits for what the preemptor's former plan has evicted.

        Args:
            before: The former plan of one of the preemptors alone.
            preemptor: The uid of that preemptor.
            terminating: The victims of the former plan that terminate, by uid.
        """
        old, new = before.placement(preemptor), self.placement(preemptor)
        more = (v for v in old.victims if v.uid not in new.victim_uids and v.uid in terminating)
        # A victim that another placement evicts now is no longer one of this preemptor.
        others = {
            victim.uid
            for placement in self.placements
            if placement is not new
            for victim in placement.victims
            if not victim.wait_only
        }
        known = {uid: pod for uid, pod in old.victim_pods.items() if uid not in others}
        claims = {each.uid: each for each in (*old.freed_claims, *new.freed_claims)}
        joined = replace(
            new.with_victims(more),
            victim_pods=known | new.victim_pods,
            freed_claims=tuple(claims.values()) if new.devices else (),
        )
        mine, former = self.progress, before.progress
        progress = replace(
            mine,
            evicted=mine.evicted | former.evicted,
            seen_terminating=mine.seen_terminating | former.seen_terminating,
        )
        placements = tuple(joined if each is new else each for each in self.placements)
        return replace(self, placements=placements, progress=progress)

    def divided(
        self, preemptors: Set[str], number: int
    ) -> tuple["PreemptionPlan", "PreemptionPlan"]:
        """Return the part for some preemptors, which gets a new number, and that for the others."""
        own = tuple(each for each in self.placements if each.preemptor_uid in preemptors)
        others = tuple(each for each in self.placements if each not in own)
        return replace(self._part(own), number=number), self._part(others)

    def _part(self, placements: tuple[Placement, ...]) -> "PreemptionPlan":
        """Return a plan with some of the placements, and with the progress of these."""
        progress, preemptors = self.progress, {each.preemptor_uid for each in placements}
        known = {*progress.outstanding, *progress.evicted, *progress.in_ledger}
        victims = frozenset[str]().union(
            *(own for each, own in self.by_placement(known) if each in placements)
        )
        progress = replace(
            progress,
            nominated=progress.nominated & preemptors,
            refused=progress.refused & preemptors,
            outstanding={uid: at for uid, at in progress.outstanding.items() if uid in victims},
            evicted={uid: at for uid, at in progress.evicted.items() if uid in victims},
            in_ledger=progress.in_ledger & victims,
        )
        return replace(self, placements=placements, progress=progress)

    def at(self, progress: Progress) -> "PreemptionPlan":
        """Return the plan with another progress in the same phase."""
        return replace(self, progress=progress)

    def with_records(self) -> "PreemptionPlan":
        """Return a new plan with what is written to its preemptors."""
        placements = tuple(each.with_record(self.decided_at) for each in self.placements)
        return replace(self, placements=placements)

    @property
    def phase(self) -> PreemptionPhase:
        """The phase of the preemption."""
        return self.progress.phase

    @property
    def priority(self) -> int:
        """The lowest priority of its preemptors."""
        return min(each.preemptor.priority for each in self.placements)

    @property
    def preemptors(self) -> tuple[str, ...]:
        """The uids of all preemptors."""
        return tuple(each.preemptor_uid for each in self.placements)

    @property
    def victim_uids(self) -> frozenset[str]:
        """The uids of all victims."""
        return frozenset(victim.uid for each in self.placements for victim in each.victims)

    @property
    def devices_expected(self) -> bool:
        """Whether preemptors wait for devices."""
        for each in self.placements:  # noqa: SIM110 - asked at each move: a generator is a call
            if each.devices:
                return True
        return False

    @property
    def nominations_answered(self) -> bool:
        """Whether the API server has answered every nomination."""
        answered = self.progress.nominated | self.progress.refused
        return len(answered) == len(self.placements)

    def eviction(self, placement: Placement, victim: Pod) -> Evict:
        """Return the effect that evicts a victim of a placement."""
        preemptor = placement.preemptor
        return Evict(
            victim=victim.ref,
            node=placement.node,
            preemptor=preemptor.ref,
            scheduler_name=preemptor.spec.scheduler_name,
            generation=victim.metadata.generation,
            strict=victim.uid in self.charge.strict,
        )

    def placement(self, preemptor: str) -> Placement:
        """Return the placement of a preemptor, by uid."""
        return next(each for each in self.placements if each.preemptor_uid == preemptor)

    def on_node(self, node: str) -> Iterator[Placement]:
        """Yield the placements on a node."""
        return (each for each in self.placements if each.node == node)

    def by_placement(self, uids: Set[str]) -> list[tuple[Placement, frozenset[str]]]:
        """Return each placement with those of some victims that are evicted for it.

        Victims of an earlier leader's plan of which only the fingerprint is known are those of the
        first placement.
        """
        rest, divided = frozenset(uids), []
        for each in reversed(self.placements[1:]):
            own = rest & each.victim_pods.keys()
            rest -= own
            divided.append((each, own))
        return [(self.placements[0], rest), *reversed(divided)]


def owners(placement: Placement, uids: Set[str]) -> list[str]:
    """Return the owners of some victims of a placement, each once, sorted."""
    known = {victim.owner for victim in placement.victims if victim.uid in uids}
    return sorted(known | {owner(pod) for uid, pod in placement.victim_pods.items() if uid in uids})
