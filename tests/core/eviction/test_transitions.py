"""Every move of a preemption: from a phase and what is known to the next phase and what it wants.

The plan of each case has two preemptors on two nodes, `h1` that waits for `a`, and `h2` for `b`.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any

import pytest
from msgspec.structs import fields, replace

from scheduler.core.eviction import transitions
from scheduler.core.eviction.facts import Needed
from scheduler.core.eviction.phases import PreemptionOutcome, PreemptionPhase, WasteReason
from scheduler.core.eviction.plan import (
    EVICT_WITHIN,
    Placement,
    PolicyInputs,
    PreemptionPlan,
    Progress,
    Victim,
)
from scheduler.core.eviction.transition import Then, Transition
from scheduler.core.eviction.transitions import TERMINATION_MARGIN
from scheduler.core.preemption.policy.charge import Charge
from scheduler.model.api.objects import Pod
from scheduler.model.effects import Evict, Nominate
from scheduler.model.events import Failure, FailureKind
from scheduler.model.phase_table import IllegalMoveError
from tests.support.builders import OURS, PodBuilder, pod

Phase = PreemptionPhase
NOW = 1000.0
PODS = {
    "h1": pod("h1").priority(9).build(),
    "h2": pod("h2").priority(8).build(),
    "a": pod("a").on("n1").build(),
    "b": pod("b").on("n2").build(),
}
TERMINATING = {
    name: PodBuilder(each).meta(deletion_timestamp="2026-01-01T00:00:00Z").build()
    for name, each in PODS.items()
}
UIDS = {name: each.uid for name, each in PODS.items()}
H1, H2, A, B = UIDS.values()
BOTH = frozenset({H1, H2})


@dataclass
class Known:
    """What a case knows; by default all victims run and are needed, and all is written."""

    remaining_: tuple[str, ...] = ("a", "b")
    to_evict_: tuple[str, ...] = ("a", "b")
    needed_: dict[str, Needed | None] = field(default_factory=dict)
    terminating: bool = False
    outdated: bool = False
    written: bool = True
    unbound: frozenset[str] = frozenset()
    stuck: bool = False
    nodes: bool = True
    allowed: bool = True

    def remaining(self, placement: Placement) -> list[Pod]:
        pods = TERMINATING if self.terminating else PODS
        return [pods[name] for name in self.remaining_ if UIDS[name] in placement.victim_uids]

    def to_evict(self, placement: Placement) -> list[Pod]:
        return [PODS[name] for name in self.to_evict_ if UIDS[name] in placement.victim_uids]

    def needed(
        self, placement: Placement, to_evict: list[Pod], spared: Set[str], now: float
    ) -> Needed | None:
        return self.needed_.get(placement.node, Needed(to_evict))

    def may_begin(self, plan: PreemptionPlan) -> bool:
        return self.written

    def may_resume(self, *_: object) -> bool:
        return self.allowed

    def nominating_since(self, plan: PreemptionPlan) -> list[float]:
        return [NOW + 3.0]

    def policy_inputs(self, plan: PreemptionPlan) -> PolicyInputs:
        return PolicyInputs(1, {}, {})

    def is_outdated(self, plan: PreemptionPlan) -> bool:
        return self.outdated

    def is_bound(self, uid: str) -> bool:
        return uid not in self.unbound

    def is_stuck(self, plan: PreemptionPlan) -> bool:
        return self.stuck

    def nodes_exist(self, plan: PreemptionPlan) -> bool:
        return self.nodes


def placement(preemptor: str, node: str, victim: str) -> Placement:
    chosen = PODS[victim]
    return Placement(
        PODS[preemptor], node, (Victim.of(chosen, wait_only=False),), {chosen.uid: chosen}
    )


def plan(phase: Phase, charge: Charge | None = None, **progress: Any) -> PreemptionPlan:
    """Return the plan in a phase; the nominations are accepted where that is over."""
    progress.setdefault("nominated", frozenset() if phase is Phase.NOMINATING else BOTH)
    return PreemptionPlan(
        number=1,
        decision=1,
        placements=(placement("h1", "n1", "a"), placement("h2", "n2", "b")),
        decided_at=NOW,
        deadline=NOW + EVICT_WITHIN,
        taken_up_at=NOW,
        progress=Progress(phase, **progress),
        charge=charge or Charge(),
        ledger_revision=7,
    )


def evict(victim: str) -> Evict:
    by, node = {"a": ("h1", "n1"), "b": ("h2", "n2")}[victim]
    return Evict(PODS[victim].ref, node, PODS[by].ref, OURS, 0)


def nominate(preemptor: str) -> Nominate:
    return Nominate(PODS[preemptor].ref, "n1", "", 0)


def wants(found: Transition) -> dict[str, Any]:
    """Return what a transition wants from others."""
    plain = {each.name: each.default for each in fields(Transition)}
    wanted = {
        name: getattr(found, name)
        for name in plain
        if name not in ("plan", "move") and getattr(found, name) != plain[name]
    }
    if "evictions" in wanted:
        wanted["evictions"] = [each.victim.name for each in wanted["evictions"]]
    return wanted


ALL_WITHDRAWN = {"withdrawn": (H1, H2)}
BATCH = {"claims_nodes": True, "evictions": ["a", "b"]}
EVICTED = {A: NOW, B: NOW}
#: (id, plan, what is known, next phase, what is wanted); `None`: the plan waits.
MOVES = [
    ("no nomination is answered", plan(Phase.NOMINATING), Known(), None, {}),
    (
        "one nomination is answered",
        plan(Phase.NOMINATING, nominated=frozenset({H1})), Known(), None, {},
    ),
    ("all are", plan(Phase.NOMINATING, nominated=BOTH), Known(), Phase.RECORDING, {}),
    ("something is not written", plan(Phase.RECORDING), Known(written=False), None, {}),
    ("all is written", plan(Phase.RECORDING), Known(), Phase.EVICTING, {}),
    ("victims run", plan(Phase.EVICTING), Known(), Phase.EVICTING, BATCH),
    ("an eviction has no answer", plan(Phase.EVICTING, outstanding={A: NOW}), Known(), None, {}),
    (
        "one victim runs", plan(Phase.EVICTING), Known(to_evict_=("b",)), Phase.EVICTING,
        BATCH | {"evictions": ["b"]},
    ),
    (
        "a budget may protect one", plan(Phase.EVICTING, Charge(strict=frozenset({B}))), Known(),
        Phase.EVICTING, BATCH | {"evictions": ["b"]},
    ),
    (
        "one victim is not needed", plan(Phase.EVICTING), Known(needed_={"n1": Needed([])}),
        Phase.EVICTING, BATCH | {"evictions": ["b"], "spared": frozenset({A})},
    ),
    (
        "one placement is not enough", plan(Phase.EVICTING), Known(needed_={"n2": None}),
        Phase.STOPPING, {},
    ),
    ("policies have changed", plan(Phase.EVICTING), Known(outdated=True), Phase.STOPPING, {}),
    (
        "they have since the first eviction", plan(Phase.EVICTING, began=True),
        Known(outdated=True), Phase.EVICTING, BATCH,
    ),
    (
        "no victim runs", plan(Phase.EVICTING), Known(to_evict_=()), Phase.AWAITING,
        {"then": Then.WAIT, "check_at": NOW + TERMINATION_MARGIN},
    ),
    (
        "all victims are gone", plan(Phase.EVICTING), Known((), ()), Phase.AWAITING,
        {"then": Then.WAIT},
    ),
    (
        "it stops before a nomination is answered",
        plan(Phase.STOPPING, nominated=frozenset({H2})), Known(), None, {},
    ),
    (
        "it stops before an eviction is answered",
        plan(Phase.STOPPING, outstanding={A: NOW}), Known(), None, {},
    ),
    (
        "it stops", plan(Phase.STOPPING), Known(), Phase.WITHDRAWN,
        ALL_WITHDRAWN | {"then": Then.RETRY},
    ),
    (
        "it fails",
        plan(Phase.FAILING, nominated=frozenset({H1}), refused=frozenset({H2})), Known(),
        Phase.WITHDRAWN, ALL_WITHDRAWN | {"then": Then.BACK_OFF},
    ),
    ("no pod was evicted", plan(Phase.WITHDRAWN), Known(), Phase.DONE, {}),
    ("pods were evicted", plan(Phase.WITHDRAWN, evicted=EVICTED), Known(), None, {}),
    (
        "a node is gone", plan(Phase.WITHDRAWN, evicted=EVICTED), Known(nodes=False), Phase.DONE,
        {"reason": WasteReason.NODE_GONE, "wasted": frozenset(EVICTED)},
    ),
    ("victims terminate", plan(Phase.AWAITING), Known(), None, {}),
    ("an earlier leader's plan", plan(Phase.INHERITED), Known(), None, {}),
    ("it is over", plan(Phase.DONE), Known(), None, {}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "known", "phase", "wanted"), [each[1:] for each in MOVES], ids=[m[0] for m in MOVES]
)
def test_a_plan_moves_by_itself(before, known, phase, wanted):
    found = transitions.next_move(before, known, NOW)

    if phase is None:
        assert found is None
    else:
        assert found is not None
        assert (found.plan.phase, wants(found)) == (phase, wanted)
        assert (found.move is None) == (phase is before.phase)


Event = Callable[[PreemptionPlan], Transition | None]
REFUSED = Failure(FailureKind.REFUSED, "no")
LOST = Failure(FailureKind.UNAVAILABLE, "no answer")
UNSENT = Failure(FailureKind.ABANDONED, "not sent")
COUNTED = Charge(limited_by=frozenset({"gold"}))
ALONE = {"then": Then.WAKE}
#: (id, plan, event, next phase, what is wanted, progress that has changed)
EVENTS: list[tuple[str, PreemptionPlan, Event, Phase, dict[str, Any], dict[str, Any]]] = [
    (
        "a nomination is accepted", plan(Phase.NOMINATING),
        lambda it: transitions.nomination_accepted(it, nominate("h1")),
        Phase.NOMINATING, {}, {"nominated": frozenset({H1})},
    ),
    (
        "a nomination is refused", plan(Phase.NOMINATING),
        lambda it: transitions.not_nominated(it, nominate("h2"), REFUSED, NOW),
        Phase.FAILING, {},
        {"refused": frozenset({H2}), "problem": "nominating node n1: no", "will_fail_again": True},
    ),
    (
        "a nomination was not sent, since it stops", plan(Phase.STOPPING, nominated=frozenset()),
        lambda it: transitions.not_nominated(it, nominate("h2"), UNSENT, NOW),
        Phase.STOPPING, {}, {"refused": frozenset({H2})},
    ),
    (
        "the ledger is not written that counts it", plan(Phase.RECORDING, COUNTED),
        lambda it: transitions.ledger_not_saved(it, LOST, NOW),
        Phase.FAILING, {}, {"problem": "saving the preemption ledger: no answer"},
    ),
    (
        "the ledger is not written", plan(Phase.RECORDING),
        lambda it: transitions.ledger_not_saved(it, LOST, NOW), Phase.RECORDING, {}, {},
    ),
    (
        "the ledger was not sent", plan(Phase.RECORDING),
        lambda it: transitions.ledger_not_saved(it, UNSENT, NOW),
        Phase.FAILING, {}, {"problem": "saving the preemption ledger: not sent"},
    ),
    (
        "a victim is evicted", plan(Phase.EVICTING, outstanding={A: 1.0, B: 1.0}, in_ledger={A, B}),
        lambda it: transitions.eviction_accepted(it, A, NOW),
        Phase.EVICTING, {}, {"outstanding": {B: 1.0}, "evicted": {A: NOW}, "in_ledger": {B}},
    ),
    (
        "a victim is evicted after the end",
        plan(Phase.VACATED, outstanding={A: 1.0, B: 1.0}, in_ledger=frozenset({A, B})),
        lambda it: transitions.eviction_accepted(it, A, NOW),
        Phase.VACATED, {}, {"outstanding": {B: 1.0}, "evicted": {A: NOW}, "in_ledger": {B}},
    ),
    (
        "no answer comes", plan(Phase.EVICTING, outstanding={A: NOW - 2}),
        lambda it: transitions.evict_again(it, evict("a"), NOW),
        Phase.EVICTING, {"evictions": ["a"]}, {"outstanding": {A: NOW}, "evicted": {A: NOW}},
    ),
    (
        "no answer came in time", plan(Phase.EVICTING, outstanding={A: 1.0}),
        lambda it: transitions.eviction_failed(it, evict("a"), LOST, NOW), Phase.FAILING, {},
        {"outstanding": {}, "evicted": {A: NOW}, "problem": "evicting pod default/a: no answer"},
    ),
    (
        "a victim is not evicted", plan(Phase.STOPPING, outstanding={A: 1.0}, evicted={A: 3.0}),
        lambda it: transitions.eviction_failed(it, evict("a"), REFUSED, NOW), Phase.FAILING, {},
        {"outstanding": {}, "problem": "evicting pod default/a: no", "will_fail_again": True},
    ),
    (
        "a second victim is not evicted", plan(Phase.FAILING, outstanding={B: 1.0}, problem="one"),
        lambda it: transitions.eviction_failed(it, evict("b"), REFUSED, NOW),
        Phase.FAILING, {}, {"outstanding": {}, "will_fail_again": True},
    ),
    (
        "a victim is not evicted after the end", plan(Phase.DONE, outstanding={A: 1.0}),
        lambda it: transitions.eviction_failed(it, evict("a"), REFUSED, NOW),
        Phase.DONE, {}, {"outstanding": {}},
    ),
    (
        "it is stopped", plan(Phase.EVICTING, outstanding={A: 1.0}),
        lambda it: transitions.stop(it, NOW), Phase.STOPPING, {}, {},
    ),
    (
        "it is stopped too late", plan(Phase.AWAITING),
        lambda it: transitions.stop(it, NOW), Phase.AWAITING, {}, {},
    ),
    (
        "a victim stays", plan(Phase.AWAITING, evicted=EVICTED),
        lambda it: transitions.victim_stays(it, NOW),
        Phase.WITHDRAWN, ALL_WITHDRAWN | ALONE, {},
    ),
    (
        "victims terminate", plan(Phase.AWAITING, evicted={A: NOW}),
        lambda it: transitions.check_victims(it, Known(terminating=True), NOW + 5),
        Phase.AWAITING, {"check_at": NOW + TERMINATION_MARGIN},
        {"seen_terminating": {B: NOW + 5}},
    ),
    (
        "a victim hangs", plan(Phase.AWAITING, evicted={A: NOW}, seen_terminating={B: NOW + 5}),
        lambda it: transitions.check_victims(
            it, Known(terminating=True), NOW + TERMINATION_MARGIN
        ),
        Phase.DONE,
        ALL_WITHDRAWN | ALONE
        | {"reason": WasteReason.VICTIM_HANGS, "wasted": {A}, "overdue": {A}},
        {"outcome": PreemptionOutcome.GIVEN_UP, "ended_at": NOW + TERMINATION_MARGIN},
    ),
    (
        "a victim runs on", plan(Phase.AWAITING, evicted={A: NOW}),
        lambda it: transitions.check_victims(it, Known(stuck=True), NOW),
        Phase.WITHDRAWN, ALL_WITHDRAWN | ALONE, {},
    ),
    (
        "the preemptor is bound", plan(Phase.AWAITING),
        lambda it: transitions.bound(it, NOW),
        Phase.DONE, {}, {"outcome": PreemptionOutcome.BOUND, "ended_at": NOW},
    ),
    (
        "another part of the plan has ended", plan(Phase.AWAITING, evicted=EVICTED),
        lambda it: transitions.give_up(it, NOW),
        Phase.WITHDRAWN, ALL_WITHDRAWN | ALONE, {},
    ),
    (
        "another part has ended while victims are evicted",
        plan(Phase.EVICTING, outstanding={A: 1.0}),
        lambda it: transitions.give_up(it, NOW), Phase.STOPPING, {}, {},
    ),
    (
        "a node is gone", plan(Phase.AWAITING, evicted=EVICTED),
        lambda it: transitions.node_gone(it, NOW), Phase.DONE,
        {"reason": WasteReason.NODE_GONE, "wasted": {A, B}},
        {"outcome": PreemptionOutcome.GIVEN_UP, "ended_at": NOW},
    ),
    (
        "other pods may use the room", plan(Phase.AWAITING, evicted=EVICTED),
        lambda it: transitions.lost(it, None, NOW), Phase.VACATED,
        {"reason": WasteReason.ROOM_LOST},
        {
            "outcome": PreemptionOutcome.GIVEN_UP, "ended_at": NOW,
            "vacated_for": WasteReason.ROOM_LOST,
        },
    ),
    (
        "other pods have taken the room", plan(Phase.AWAITING, evicted=EVICTED),
        lambda it: transitions.lost(it, frozenset({A}), NOW), Phase.DONE,
        {"reason": WasteReason.ROOM_LOST, "wasted": {A}},
        {"outcome": PreemptionOutcome.GIVEN_UP, "ended_at": NOW},
    ),
    (
        "they have after it was given up", plan(Phase.WITHDRAWN, evicted=EVICTED, problem="no"),
        lambda it: transitions.lost(it, frozenset({A}), NOW), Phase.VACATED,
        {"reason": WasteReason.PLAN_FAILED},
        {
            "outcome": PreemptionOutcome.FAILED, "ended_at": NOW,
            "vacated_for": WasteReason.PLAN_FAILED,
        },
    ),
    (
        "a preemptor is gone while victims are evicted",
        plan(Phase.EVICTING, outstanding={A: 1.0}, in_ledger=frozenset({A, B})),
        lambda it: transitions.vacate(it, WasteReason.PREEMPTOR_GONE, NOW), Phase.VACATED,
        {"reason": WasteReason.PREEMPTOR_GONE},
        {
            "outcome": PreemptionOutcome.GONE, "ended_at": NOW, "in_ledger": {A},
            "vacated_for": WasteReason.PREEMPTOR_GONE,
        },
    ),
    (
        "a preemptor is placed elsewhere, and no pod was evicted",
        plan(Phase.AWAITING),
        lambda it: transitions.vacate(it, WasteReason.PLACED_ELSEWHERE, NOW), Phase.DONE,
        {}, {"outcome": PreemptionOutcome.ELSEWHERE, "ended_at": NOW},
    ),
    (
        "what came of it is certain",
        plan(Phase.VACATED, evicted=EVICTED, ended_at=5.0, vacated_for=WasteReason.ROOM_LOST),
        lambda it: transitions.settle(it, frozenset({B}), NOW), Phase.DONE,
        {"reason": WasteReason.ROOM_LOST, "wasted": {B}}, {},
    ),
    (
        "all victims of an earlier leader terminate",
        plan(Phase.INHERITED, nominated=frozenset(), in_ledger=frozenset({A})),
        lambda it: transitions.check_inherited(it, Known(to_evict_=()), NOW),
        Phase.AWAITING, {}, {"in_ledger": frozenset()},
    ),
    (
        "a policy forbids the plan of an earlier leader", plan(Phase.INHERITED),
        lambda it: transitions.check_inherited(it, Known(allowed=False), NOW),
        Phase.WITHDRAWN, {}, {},
    ),
    (
        "the plan of an earlier leader goes on", plan(Phase.INHERITED, nominated=frozenset()),
        lambda it: transitions.check_inherited(it, Known(), NOW),
        Phase.RECORDING, {}, {"nominated": BOTH},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "event", "phase", "wanted", "changed"),
    [each[1:] for each in EVENTS],
    ids=[each[0] for each in EVENTS],
)
def test_an_answer_or_event_moves_a_plan(before, event, phase, wanted, changed):
    found = event(before)

    assert found is not None
    progress = found.plan.progress
    assert (progress.phase, wants(found)) == (phase, wanted)
    assert {
        each.name: getattr(progress, each.name)
        for each in fields(Progress)
        if each.name not in ("phase", "history")
        and getattr(progress, each.name) != getattr(before.progress, each.name)
    } == changed


def test_an_eviction_is_not_requested_again_at_once_nor_after_the_deadline():
    early = plan(Phase.EVICTING, outstanding={A: NOW - 0.5})
    late = replace(plan(Phase.EVICTING, outstanding={A: NOW - 2}), deadline=NOW)

    assert [transitions.evict_again(each, evict("a"), NOW) for each in (early, late)] == [None] * 2


def test_a_victim_that_is_not_bound_is_not_waited_for():
    found = transitions.next_move(plan(Phase.EVICTING), Known(unbound=frozenset({A})), NOW)

    assert found is not None
    assert [each.victim.name for each in found.evictions] == ["a", "b"]
    assert found.plan.progress.outstanding == {B: NOW}


def test_a_plan_that_goes_on_comes_after_all_that_this_process_has_decided():
    found = transitions.check_inherited(plan(Phase.INHERITED), Known(), NOW)

    assert found.plan.taken_up_at == NOW + 3.0


def test_an_illegal_move_raises_with_the_history_of_the_plan():
    done = plan(Phase.DONE, history=((NOW, Phase.AWAITING), (NOW, Phase.DONE)))

    with pytest.raises(IllegalMoveError, match=r"default/h1 on n1, default/h2 on n2 .*awaiting"):
        transitions.absorb(done, NOW)
