"""How candidates compared: the same order as kube-scheduler's, and what decided against each."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.attempt import scheduling_attempt
from scheduler.core.preemption.evaluate.candidates import Choice
from scheduler.core.preemption.evaluate.explain_comparison import explain_comparison
from scheduler.core.preemption.evaluate.objective import (
    EARLIEST_START,
    HASH,
    KUBE_SCHEDULER,
    NOMINATED_NODE,
)
from scheduler.model.comparisons import MAX_COMPARED
from tests.support.builders import node, pdb, pod
from tests.support.cluster import Cluster

KEYS = ("pdbViolations", "highestPriority", "prioritySum", "victims", "earliestStart")


def compare(keys: list[tuple[int, ...]], chosen: int):
    rows = np.arange(len(keys))
    choice = Choice(chosen, ((HASH, np.array([chosen])),))
    columns = np.array(keys, dtype=np.float64).T
    return explain_comparison(rows, columns, choice, [f"n{row}" for row in rows], KUBE_SCHEDULER)


small = st.integers(0, 2)
some_keys = st.lists(
    st.tuples(small, small, small, st.integers(1, 3), st.integers(-3, 0)), min_size=1, max_size=60
)


@given(some_keys)
def test_the_best_come_first_in_the_order_of_the_criteria(keys):
    chosen = min(range(len(keys)), key=lambda i: keys[i])

    found = compare(keys, chosen)

    shown = [int(each.node[1:]) for each in found.candidates]
    assert shown[0] == chosen
    assert [keys[i] for i in shown] == sorted(keys)[:MAX_COMPARED]
    assert len(shown) == len(set(shown))
    assert found.total == len(keys)


@given(some_keys)
def test_each_lost_by_the_first_criterion_that_differs(keys):
    chosen = min(range(len(keys)), key=lambda i: keys[i])

    for each in compare(keys, chosen).candidates[1:]:
        pairs = zip(KEYS, keys[int(each.node[1:])], keys[chosen], strict=True)
        differing = [name for name, value, best in pairs if value != best]
        assert each.lost_by.name == (differing[0] if differing else "hash")


def attempt(*objects, nominated: str = "", config: str = ""):
    cluster = Cluster(*objects, compares=True, config=config)
    wanted = pod("high").cpu("4").priority(9)
    cluster.schedule(wanted.nominated(nominated) if nominated else wanted)
    return cluster.attempts[-1]


def on(name: str, where: str):
    return pod(name).on(where).cpu("4").priority(1)


def test_an_attempt_says_how_its_candidates_compared():
    found = attempt(
        node("n1").cpu("4"), node("n2").cpu("4"), on("a", "n1").started(5), on("b", "n2")
    )

    first, second = found.comparison.candidates
    assert (first.node, second.node) == ("n1", "n2")
    assert found.comparison.criterion is EARLIEST_START.label
    values = [dict(zip(KEYS, each.values, strict=True)) for each in (first, second)]
    assert values[0]["earliestStart"] > values[1]["earliestStart"]
    assert values[0]["prioritySum"] == 1 + 2**31


def test_equal_candidates_are_told_apart_by_the_hash():
    found = attempt(node("n1").cpu("4"), node("n2").cpu("4"), on("a", "n1"), on("b", "n2"))

    assert found.comparison.criterion is HASH


def test_the_nominated_node_wins_a_tie():
    found = attempt(
        node("n1").cpu("4"), node("n2").cpu("4"), on("a", "n1"), on("b", "n2"), nominated="n2"
    )

    assert found.decision.node == "n2"
    assert found.comparison.criterion is NOMINATED_NODE


@pytest.mark.parametrize(("at_once", "want"), [(1, [True, False, True]), (2, [True] * 3)])
def test_a_hundred_comparisons_a_second_are_made_and_some_more_at_once(
    at_once: int, want: list[bool], monkeypatch
):
    monkeypatch.setattr(scheduling_attempt, "COMPARED_AT_ONCE", at_once)
    cluster = Cluster(
        *(node(f"n{i}").cpu("4") for i in range(3)),
        *(on(f"p{i}", f"n{i}") for i in range(3)),
        compares=True,
    )
    cluster.schedule(pod("first").cpu("4").priority(9))
    cluster.schedule(pod("at-once").cpu("4").priority(9))
    cluster.wait(0.02)
    cluster.schedule(pod("later").cpu("4").priority(9))

    known = [each.comparison is not None for each in cluster.attempts]

    assert known == want


def test_the_victims_against_a_disruption_budget_are_known():
    found = attempt(
        node("n1").cpu("4"), on("a", "n1").label("app", "web"), pdb("b").selects(app="web")
    )

    assert found.violating == {"uid:default/a"}
