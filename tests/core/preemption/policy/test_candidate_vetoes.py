"""The vetoes against a candidate are the same alone as among others, in short and in detail."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.core.preemption.dry_run_result import DryRunResult
from scheduler.core.preemption.policy import policy_budgets
from scheduler.core.preemption.policy.veto_table import Veto
from scheduler.core.preemption.policy.vetoes import CandidateVetoes
from scheduler.model.api.objects import Requirement
from scheduler.model.decisions import Detail
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    DisruptionBudgets,
    PodSelection,
    PreemptionPolicy,
)
from scheduler.model.times import earliest
from scheduler.state.columns.arrays import Bool, Int, Rows
from scheduler.state.preemption.event_times import MAX_RETURNED
from scheduler.state.preemption.ledger import ANY, EvictionEntry
from tests.support.builders import PodBuilder, node, pdb, pod
from tests.support.cluster import Cluster
from tests.support.policies import labelled, refused, victims

APPS = ("web", "db", "")
OWNERS = ("Job", "ReplicaSet", "")
#: Selects pods without a label, as an empty selector does.
WITHOUT_APP = [Requirement("app", "DoesNotExist")]
BUDGETS = st.builds(
    Budget, st.integers(0, 3), st.sampled_from([50.0, 500.0]), st.sampled_from(BudgetScope)
)
POLICIES = st.lists(
    st.builds(
        PreemptionPolicy,
        st.just("p"),
        budgets=st.lists(BUDGETS, max_size=2).map(tuple),
        max_victims_per_preemption=st.sampled_from([None, 0, 1, 2]),
        disruption_budgets=st.sampled_from(
            [DisruptionBudgets.STRICT, DisruptionBudgets.BEST_EFFORT]
        ),
        victims=st.sampled_from(
            [
                PodSelection(),
                PodSelection(pods=labelled(app="web")),
                PodSelection(max_priority=1),
                PodSelection(priority_classes=frozenset({"low"})),
            ]
        ),
    ),
    max_size=3,
)
GUESTS = st.lists(
    st.tuples(
        st.integers(0, 3),  # node
        st.sampled_from(APPS),
        st.sampled_from(OWNERS),
        st.sampled_from(["a", "b"]),  # namespace
        st.integers(0, 2),  # priority
        st.sampled_from(["ready", "unready", "terminating", "asked", "pending"]),
        st.booleans(),  # in flight
    ),
    min_size=1,
    max_size=14,
)
PDBS = st.lists(
    st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(APPS), st.integers(0, 3), st.booleans()),
    max_size=4,
)
PAST = st.lists(
    st.tuples(
        st.sampled_from(["evicted", "lost", "wasted", "hangs"]),
        st.integers(0, 400),  # seconds ago
        st.integers(0, 3),  # node
        st.sampled_from([*OWNERS[:2], ANY]),
        st.integers(1, 6),
    ),
    max_size=8,
)


def running(number: int, drawn: tuple) -> PodBuilder:
    where, app, kind, space, priority, state, _ = drawn
    made = pod(f"g{number}").on(f"n{where}").cpu("1").priority(priority)
    made = made.meta(namespace=space, uid=f"uid:{number}")
    made = made.label("app", app) if app else made
    made = made.owner(kind, "o") if kind else made
    made = made.status(phase="Pending" if state == "pending" else "Running")
    if state != "unready":
        made = made.condition("Ready", "True")
    if number % 3 == 0:
        made = made.spec(priority_class_name="low")
    return made.terminating() if state == "terminating" else made


def past(cluster: Cluster, drawn: tuple, number: int) -> None:
    what, ago, where, kind, many = drawn
    ledger, now = cluster.machine.ledger, cluster.now
    whose = kind if kind == ANY else f"{kind}/a/o"
    place = f"n{where}"
    if what == "evicted":
        names = frozenset(f"p{each}" for each in range(3) if (number + each) % 3)
        ledger.count_victim(EvictionEntry(now - ago, f"e{number}", "a", whose, place, names, many))
    elif what == "lost":
        for _ in range(many):
            ledger.record_failure("Pod/default/high", place, [whose], now - ago, lost=many > 3)
    elif what == "wasted":
        ledger.record_waste("uid:default/high", "Pod/default/high", place, many, now - ago)
    else:
        cluster.machine.cluster.mark_overdue(f"uid:{many}")


def agree(vetoes: CandidateVetoes, slots: Int, chosen: Bool, monkeypatch) -> Iterator[bool]:
    """Yield for each row whether it has a veto; assert that it has the same alone and in detail."""
    vetoes.detail = Detail.PODS
    alone = []
    for row in range(slots.shape[1]):
        only = slice(row, row + 1)
        run = dry_run(np.array([row]), slots[:, only], chosen[:, only])
        alone.append(vetoes.table(run).detailed().get(row, ()))
    monkeypatch.setattr(policy_budgets, "_FEW", 0)
    table = vetoes.table(dry_run(np.arange(slots.shape[1]), slots, chosen))
    together, detailed = table.reader(), table.detailed()

    for row, found in enumerate(alone):
        assert detailed.get(row, ()) == found
        assert ends(together(row)) == ends(found)
        assert (row in table.vetoed) == bool(found)
        yield bool(found)


def dry_run(rows: Rows, slots: Int, chosen: Bool) -> DryRunResult:
    return DryRunResult(
        rows, np.zeros(rows.shape[0], dtype=np.uint16), slots, chosen, np.zeros_like(chosen)
    )


def ends(vetoes: tuple[Veto, ...]) -> dict[str, float | None]:
    """Return when each text ends."""
    by_text: dict[str, float | None] = {}
    for veto in vetoes:
        by_text[veto.text] = earliest((by_text.get(veto.text), veto.until))
    return by_text


@settings(max_examples=200, deadline=None)
@given(POLICIES, GUESTS, PDBS, PAST, st.data())
def test_all_at_once_have_the_same_vetoes_as_one_by_one(policies, placed, pdbs, before, data):
    cluster = Cluster(*(node(f"n{number}").cpu("9") for number in range(4)))
    for number, (space, app, allows, outdated) in enumerate(pdbs):
        made = pdb(f"b{number}").allows(allows)
        made = made.selects(app=app) if app else made.selects(*WITHOUT_APP[: number % 2])
        made = made.namespace(space)
        cluster.add(made.generation(2, observed=1) if outdated else made)
    for number, drawn in enumerate(placed):
        cluster.add(running(number, drawn))
    for number, each in enumerate(policies):
        cluster.add(replace(each, name=f"p{number}"))
    machine = cluster.machine
    known = [machine.cluster.find_pod(f"uid:{number}") for number in range(len(placed))]
    for number, drawn in enumerate(placed):
        if drawn[5] == "asked":
            machine.cluster.mark_evicting(f"uid:{number}")
    for number, drawn in enumerate(before):
        past(cluster, drawn, number)
    high = pod("high").priority(9).build()
    machine.policies.in_flight.add(
        high,
        [each for each, drawn in zip(known, placed, strict=True) if drawn[6]],
        cluster.now - 10,
    )
    machine.cluster.nominate(high, "n0")
    vetoes = machine.policies.vetoes(high, cluster.now, cluster.now)
    if vetoes is None:
        return
    rows = np.arange(4)
    ((_, slots),) = machine.cluster.pods.ranked(rows)
    chosen = slots >= 0
    for index in zip(*np.nonzero(chosen), strict=True):
        chosen[index] = data.draw(st.booleans())
    with pytest.MonkeyPatch.context() as patched:
        for _ in agree(vetoes, slots, chosen, patched):
            pass


def test_a_pod_with_wasted_evictions_is_stopped_where_more_would_be_too_many():
    nodes = [node(f"n{number}").cpu("2") for number in range(6)]
    placed = [pod(f"g{number}").on(f"n{number // 2}").cpu("1").priority(0) for number in range(12)]
    cluster = Cluster(*nodes, *placed)
    for many in (9, 7):
        cluster.machine.ledger.record_waste(
            "uid:default/high", "Pod/default/high", "gone", many, cluster.now - many
        )

    said = refused(cluster.schedule(pod("high").cpu("2").priority(9)))

    assert said.startswith(
        "0/6 nodes are available: 6 PreemptionStopped: 16 evictions for this pod were "
        "wasted within the last hour (until "
    )


def test_victims_in_flight_are_not_counted_twice():
    nodes = [node(f"n{number}").cpu("2") for number in range(6)]
    placed = [
        pod(f"g{number}").on(f"n{number}").cpu("2").priority(0).label("app", "web")
        .condition("Ready", "True")
        for number in range(6)
    ]  # fmt: skip
    policy = PreemptionPolicy("p", disruption_budgets=DisruptionBudgets.STRICT)
    cluster = Cluster(*nodes, *placed, pdb("b").selects(app="web").allows(1), policy)
    machine = cluster.machine
    other = pod("other").build()
    machine.cluster.nominate(other, "n3")
    machine.policies.in_flight.add(other, [machine.cluster.find_pod("uid:default/g3")], cluster.now)

    assert victims(cluster.schedule(pod("high").cpu("1").priority(9))) == ["g3"]


@pytest.mark.parametrize("owner", ["Job/default/o", ANY])
def test_of_more_victims_than_any_budget_allows_the_last_count(owner, monkeypatch):
    placed = [
        pod(f"g{number}").on(f"n{number}").cpu("1").priority(0).owner("Job", "o")
        for number in range(4)
    ]
    most = Budget(MAX_RETURNED, 1000.0, BudgetScope.OWNER)
    policy = PreemptionPolicy("p", budgets=(most, Budget(3, 1000.0, BudgetScope.NODE)))
    nodes = [node(f"n{number}").cpu("9") for number in range(4)]
    cluster = Cluster(*nodes, *placed, policy)
    machine = cluster.machine
    for ago, whose, many in (
        (300, owner, MAX_RETURNED),
        (200, "Job/default/o", 5),
        (100, owner, 7),
    ):
        names = frozenset({"p"})
        machine.ledger.count_victim(
            EvictionEntry(cluster.now - ago, f"e{ago}", "default", whose, "n1", names, many)
        )
    high = pod("high").priority(9).build()
    vetoes = machine.policies.vetoes(high, cluster.now, cluster.now)
    rows = np.arange(4)
    ((_, slots),) = machine.cluster.pods.ranked(rows)
    chosen = slots >= 0
    assert all(agree(vetoes, slots, chosen, monkeypatch))
