"""What this process remembers of preemptions."""

from collections import Counter, deque
from collections.abc import Iterator, Set
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from scheduler.core.eviction.phases import (
    AWAITING_VICTIMS,
    CLOSED,
    HOLDING,
    IN_PROGRESS,
    PreemptionPhase,
    WasteReason,
)
from scheduler.core.eviction.plan import Placement, PreemptionPlan
from scheduler.model.base import Record
from scheduler.model.effects import Evict, Nominate, SaveLedger
from scheduler.model.times import Seconds
from scheduler.queue.deadlines import Deadlines
from scheduler.state.preemption.wasted_evictions import WasteEntry

__all__ = [
    "USE_WITHIN",
    "WRITE_INTERVAL",
    "LedgerWriterState",
    "PreemptionsState",
    "WasteState",
    "WastedVictims",
]

#: How long another preemptor of ours may take to use the freed resources.
USE_WITHIN: Final[Seconds] = 60.0
#: Changes that no plan waits for are written once in this time, since each write has all of it.
WRITE_INTERVAL: Final[Seconds] = 1.0


@dataclass(slots=True)
class LedgerWriterState:
    """What is written, and what waits for that."""

    #: The revision that must be written, by number of the plan that waits for it.
    waiting: dict[int, int] = field(default_factory=dict)
    #: The state of the ledger that is being written.
    writing: SaveLedger | None = None
    #: Whether to write as soon as possible, even if no plan waits.
    wanted: bool = False
    #: The earliest time of the next such write, and the time between two.
    next_write: Seconds = 0.0
    interval: Seconds = WRITE_INTERVAL
    #: The revision of the ledger that was written last.
    written: int = 0


class WastedVictims(Record, frozen=True):
    """What was counted for one placement, by uid of the victim."""

    #: Counted as wasted, and counted against the preemptor alone while that is not certain.
    certain: frozenset[str] = frozenset()
    possible: frozenset[str] = frozenset()
    #: What the ledger has for the latter.
    entries: tuple[WasteEntry, ...] = ()
    #: Whose freed resources the preemptor did not use in the end.
    in_vain: frozenset[str] = frozenset()


@dataclass(slots=True)
class WasteState:
    """What was counted."""

    #: By number of the decision and uid of the preemptor.
    placements: dict[tuple[int, str], WastedVictims] = field(default_factory=dict)
    #: Victims whose preemptor did not use the freed resources, by reason.
    wasted_evictions: Counter[WasteReason] = field(default_factory=Counter)
    #: Failed preemptions that the ledger remembers, by reason.
    failed_preemptions: Counter[WasteReason] = field(default_factory=Counter)
    #: How often preemption was stopped, for a pair of owners or for a pod.
    stops: int = 0

    def of(self, plan: PreemptionPlan, placement: Placement) -> WastedVictims:
        """Return what was counted for a placement of a plan."""
        return self.placements.get((plan.decision, placement.preemptor_uid), WastedVictims())

    def put(self, plan: PreemptionPlan, placement: Placement, counted: WastedVictims) -> None:
        """Keep what was counted for a placement of a plan."""
        self.placements[plan.decision, placement.preemptor_uid] = counted

    def inherit(self, before: PreemptionPlan, plan: PreemptionPlan, preemptor: str) -> None:
        """Let a plan take over what was counted for the former plan of a preemptor, by uid."""
        counted = self.of(before, before.placement(preemptor))
        self.put(plan, plan.placement(preemptor), replace(counted, in_vain=frozenset()))

    def in_vain(self, plan: PreemptionPlan) -> frozenset[str]:
        """Return the victims of a plan, by uid, whose freed resources were not used in the end."""
        return frozenset[str]().union(*(self.of(plan, each).in_vain for each in plan.placements))

    def forget(self, plan: PreemptionPlan) -> None:
        """Forget a plan that is over."""
        for preemptor in plan.preemptors:
            self.placements.pop((plan.decision, preemptor), None)


@dataclass(slots=True)
class PreemptionsState:
    """All plans that something still depends on, and when they are looked at again.

    A plan is open until its preemptors are bound, or do not come. After that it is kept while
    evictions have no answer, or while other preemptors may use the freed resources.
    """

    #: By number of the plan.
    plans: dict[int, PreemptionPlan] = field(default_factory=dict)
    #: Numbers of the open plans by preemptor, and by node in the order in which they came there.
    by_preemptor: dict[str, int] = field(default_factory=dict)
    by_node: dict[str, dict[int, None]] = field(default_factory=dict)
    #: Numbers of the plans whose preemptors do not come: until when other pods may come, in time
    #: order; and by node.
    vacated: deque[tuple[Seconds, int]] = field(default_factory=deque)
    vacated_by_node: dict[str, dict[int, None]] = field(default_factory=dict)
    #: Numbers of the closed plans by victim whose eviction has no answer.
    late_answers: dict[str, int] = field(default_factory=dict)
    #: When to check next whether a victim of a plan hangs, by number of the plan.
    due: Deadlines[int] = field(init=False)
    #: The number of the last plan, and when the last one was decided.
    last_number: int = 0
    last_decision: Seconds = 0.0
    ledger_writer: LedgerWriterState = field(default_factory=LedgerWriterState)
    waste: WasteState = field(default_factory=WasteState)

    def __post_init__(self) -> None:
        self.due = Deadlines(self._is_watched)

    def __iter__(self) -> Iterator[PreemptionPlan]:
        """Yield the open plans."""
        return (plan for plan in self.plans.values() if plan.phase not in CLOSED)

    def phases(self) -> Counter[PreemptionPhase]:
        """Return how many open plans are in each phase."""
        return Counter(plan.phase for plan in self)

    def plan_of(self, preemptor: str) -> PreemptionPlan | None:
        """Return the open plan of a preemptor, by uid."""
        number = self.by_preemptor.get(preemptor)
        return None if number is None else self.plans[number]

    def in_progress(self, preemptor: str) -> PreemptionPlan | None:
        """Return the plan of a preemptor, by uid, while it is being carried out."""
        plan = self.plan_of(preemptor)
        return plan if plan is not None and plan.progress.phase in IN_PROGRESS else None

    def unchecked(self, preemptor: str) -> PreemptionPlan | None:
        """Return the plan of an earlier leader that was not checked yet, by preemptor."""
        plan = self.plan_of(preemptor)
        return plan if plan is not None and plan.phase is PreemptionPhase.INHERITED else None

    def is_still_planned(self, effect: Evict) -> bool:
        """Return whether an eviction that was not sent yet is still part of a plan."""
        plan = self.plan_of(effect.preemptor.uid)
        return (
            plan is not None
            and plan.phase is PreemptionPhase.EVICTING
            and effect.victim.uid in plan.progress.outstanding
        )

    def nominating(self, effect: Nominate) -> PreemptionPlan | None:
        """Return the plan that waits for an answer; `None` for the answer to an earlier plan."""
        uid = effect.pod.uid
        plan = self.in_progress(uid)
        if plan is None or uid in plan.progress.nominated | plan.progress.refused:
            return None
        return plan if plan.placement(uid).record == effect.plan else None

    def evicting(self, effect: Evict) -> PreemptionPlan | None:
        """Return the plan that waits for an answer, also if it is closed."""
        uid = effect.victim.uid
        plan = self.plan_of(effect.preemptor.uid)
        if plan is not None and uid in plan.progress.outstanding:
            return plan
        number = self.late_answers.pop(uid, None)
        return None if number is None else self.plans[number]

    def outstanding(self) -> Iterator[Evict | Nominate | SaveLedger]:
        """Yield the effects that have no outcome yet; nominations lack their messages."""
        for plan in self.plans.values():
            for placement, uids in plan.by_placement(plan.progress.outstanding.keys()):
                known = (placement.victim_pods.get(uid) for uid in sorted(uids))
                yield from (plan.eviction(placement, pod) for pod in known if pod is not None)
            answered = plan.progress.nominated | plan.progress.refused
            for placement in plan.placements if plan.phase in IN_PROGRESS else ():
                if placement.preemptor_uid not in answered:
                    pod, node = placement.preemptor, placement.node
                    yield Nominate(pod.ref, node, "", pod.metadata.generation, placement.record)
        if self.ledger_writer.writing is not None:
            yield self.ledger_writer.writing

    def on_node(self, node: str) -> list[PreemptionPlan]:
        """Return the open plans with a placement on a node."""
        return [self.plans[number] for number in self.by_node.get(node, ())]

    def vacated_on(self, node: str) -> list[PreemptionPlan]:
        """Return the vacated plans with a placement on a node."""
        return [self.plans[number] for number in self.vacated_by_node.get(node, ())]

    def in_ledger(self) -> dict[str, set[str]]:
        """Return the victims that the ledger counts for plans, by uid of the preemptor."""
        held: dict[str, set[str]] = {}
        for plan in self.plans.values():
            if in_ledger := plan.progress.in_ledger:
                assert plan.progress.outstanding or plan.phase in HOLDING, plan
                for placement, own in plan.by_placement(in_ledger):
                    if own:
                        held.setdefault(placement.preemptor_uid, set()).update(own)
        return held

    def next_number(self) -> int:
        """Return the number of a new plan."""
        self.last_number += 1
        return self.last_number

    def add(self, plan: PreemptionPlan) -> None:
        """Add an open plan; its preemptors must have no other."""
        assert self.by_preemptor.keys().isdisjoint(plan.preemptors), plan
        self._keep(plan)

    def divide(
        self, plan: PreemptionPlan, preemptors: Set[str]
    ) -> tuple[PreemptionPlan, PreemptionPlan]:
        """Keep the part of an open plan for some preemptors, and that for the others; return both.

        The latter keeps the number, and what waits for the plan.
        """
        parts = plan.divided(preemptors, self.next_number())
        _drop(self.by_node, plan)
        for part in parts:
            self._keep(part)
        return parts

    def _keep(self, plan: PreemptionPlan) -> None:
        self.plans[plan.number] = plan
        self.by_preemptor.update(dict.fromkeys(plan.preemptors, plan.number))
        _index(self.by_node, plan)

    def replace(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Keep a plan in place of the former one with its number, unless it is over."""
        number, phase = plan.number, plan.progress.phase
        former, self.plans[number] = self.plans[number].progress.phase, plan
        if phase in CLOSED and former not in CLOSED:
            for preemptor in plan.preemptors:
                del self.by_preemptor[preemptor]
            _drop(self.by_node, plan)
            self.late_answers.update(dict.fromkeys(plan.progress.outstanding, number))
            if phase is PreemptionPhase.VACATED:
                self.await_others(plan, now)
        elif phase is not former and former is PreemptionPhase.VACATED:
            _drop(self.vacated_by_node, plan)
        if phase is PreemptionPhase.DONE and not plan.progress.outstanding:
            del self.plans[number]

    def await_others(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Keep a vacated plan until other preemptors have had time to come."""
        _drop(self.vacated_by_node, plan)
        _index(self.vacated_by_node, plan)
        self.vacated.append((now + USE_WITHIN, plan.number))

    def _is_watched(self, number: int, _moment: Seconds) -> bool:
        plan = self.plans.get(number)
        return plan is not None and plan.phase in AWAITING_VICTIMS


def _index(by_node: dict[str, dict[int, None]], plan: PreemptionPlan) -> None:
    for placement in plan.placements:
        by_node.setdefault(placement.node, {})[plan.number] = None


def _drop(by_node: dict[str, dict[int, None]], plan: PreemptionPlan) -> None:
    for placement in plan.placements:
        numbers = by_node.get(placement.node, {})
        if numbers.pop(plan.number, 0) is None and not numbers:
            del by_node[placement.node]
