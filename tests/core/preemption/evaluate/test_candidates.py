"""Which candidate node is picked: each criterion in order, where all earlier ones are equal."""

import pytest

from scheduler.core.preemption.evaluate.objective import KUBE_SCHEDULER
from scheduler.model.decisions import Preempting
from tests.support.builders import PodBuilder, node, pdb, pod
from tests.support.cluster import Cluster


def on(name: str, where: str, cpu: str = "1", priority: int = 10, start: float = 0) -> PodBuilder:
    return pod(name).on(where).cpu(cpu).priority(priority).started(start)


def chosen(*objects: object, cpu: str = "2", nodes: int = 2) -> str:
    cluster = Cluster(*(node(f"n{number + 1}").cpu("2") for number in range(nodes)), *objects)
    decision = cluster.schedule(pod("p").cpu(cpu).priority(100))
    assert isinstance(decision, Preempting)
    return decision.node


def test_the_order_of_the_criteria_is_its_documentation():
    assert [criterion.label.name for criterion in KUBE_SCHEDULER] == [
        "pdbViolations",
        "highestPriority",
        "prioritySum",
        "victims",
        "earliestStart",
    ]


def test_fewest_violations_come_first():
    assert chosen(
        pdb("b").selects(app="web"),
        on("a", "n1", "2", priority=1).label("app", "web"),
        on("b1", "n2", priority=90),
        on("b2", "n2", priority=90),
    ) == "n2"  # fmt: skip


def test_then_the_lowest_of_the_most_important_victims():
    assert chosen(
        on("a", "n1", "2", priority=10),
        on("b1", "n2", priority=9),
        on("b2", "n2", priority=9),
    ) == "n2"  # fmt: skip


def test_then_the_lowest_sum_of_priorities():
    assert chosen(
        on("a1", "n1", priority=10), on("a2", "n1", priority=10),
        on("b1", "n2", priority=10), on("b2", "n2", priority=0),
    ) == "n2"  # fmt: skip


def test_one_more_victim_always_weighs_more_than_its_negative_priority():
    assert chosen(
        on("a", "n1", "2", priority=10, start=0),
        on("b1", "n2", priority=10, start=50),
        on("b2", "n2", priority=-(2**31) + 1, start=50),
    ) == "n1"  # fmt: skip


def test_then_the_fewest_victims():
    assert chosen(
        on("a1", "n1", priority=10, start=50),
        on("a2", "n1", priority=-(2**31), start=50),
        on("b", "n2", "2", priority=10),
    ) == "n2"  # fmt: skip


def test_then_the_node_whose_most_important_victims_started_last():
    assert chosen(
        on("a", "n1", "2", start=100),
        on("b", "n2", "2", start=300),
        on("c", "n3", "2", start=200),
        nodes=3,
    ) == "n2"  # fmt: skip


def test_of_the_most_important_victims_of_a_node_the_earliest_start_counts():
    assert chosen(
        on("a1", "n1", start=100), on("a2", "n1", start=900),
        on("b1", "n2", start=300), on("b2", "n2", start=400),
    ) == "n2"  # fmt: skip


def test_the_start_of_less_important_victims_does_not_count():
    assert chosen(
        on("a1", "n1", priority=10, start=100), on("a2", "n1", priority=0, start=900),
        on("b1", "n2", priority=10, start=300), on("b2", "n2", priority=0, start=1),
    ) == "n2"  # fmt: skip


def test_a_victim_that_has_not_started_counts_as_the_one_that_started_last():
    assert chosen(
        on("a", "n1", "2", start=100),
        on("b", "n2", "2").not_started(),
    ) == "n2"  # fmt: skip


@pytest.mark.parametrize("swapped", [False, True])
def test_a_tie_in_everything_is_broken_by_the_names_and_not_by_the_order(swapped):
    names = ["n2", "n1"] if swapped else ["n1", "n2"]
    cluster = Cluster(*(node(name).cpu("2") for name in names))
    for name in names:
        cluster.add(on(f"on-{name}", name, "2"))

    decision = cluster.schedule(pod("p").cpu("2").priority(100))

    assert isinstance(decision, Preempting)
    assert decision.node == chosen(on("a", "n1", "2"), on("b", "n2", "2"))


@pytest.mark.parametrize("where", ["n1", "n2"])
def test_a_tie_goes_to_the_node_that_was_nominated_before(where):
    cluster = Cluster(
        node("n1").cpu("2"), node("n2").cpu("2"), on("a", "n1", "2"), on("b", "n2", "2")
    )

    decision = cluster.schedule(pod("p").cpu("2").priority(100).nominated(where))

    assert isinstance(decision, Preempting)
    assert decision.node == where


def test_a_tie_goes_either_way_for_different_pods():
    taken = set()
    for number in range(20):
        cluster = Cluster(
            node("n1").cpu("2"), node("n2").cpu("2"), on("a", "n1", "2"), on("b", "n2", "2")
        )
        decision = cluster.schedule(pod(f"p{number}").cpu("2").priority(100))
        assert isinstance(decision, Preempting)
        taken.add(decision.node)

    assert taken == {"n1", "n2"}


def test_the_score_of_a_node_does_not_matter():
    cluster = Cluster(
        node("n1").cpu("2"),
        node("n2").cpu("2").taint("a", effect="PreferNoSchedule"),
        on("a", "n1", "2", priority=11),
        on("b", "n2", "2", priority=10),
    )

    decision = cluster.schedule(pod("p").cpu("2").priority(100))

    assert isinstance(decision, Preempting)
    assert decision.node == "n2"
