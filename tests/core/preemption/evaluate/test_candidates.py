"""Which candidate node is picked: each criterion in order, where all earlier ones are equal."""

import pytest

from scheduler.core.preemption.evaluate.objective import KUBE_SCHEDULER
from scheduler.model.decisions import Preempting
from tests.support.builders import PodBuilder, node, pod
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


@pytest.mark.parametrize("swapped", [False, True])
def test_a_tie_in_everything_is_broken_by_the_names_and_not_by_the_order(swapped):
    names = ["n2", "n1"] if swapped else ["n1", "n2"]
    cluster = Cluster(*(node(name).cpu("2") for name in names))
    for name in names:
        cluster.add(on(f"on-{name}", name, "2"))

    decision = cluster.schedule(pod("p").cpu("2").priority(100))

    assert isinstance(decision, Preempting)
    assert decision.node == chosen(on("a", "n1", "2"), on("b", "n2", "2"))


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
