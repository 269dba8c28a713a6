"""Among equally good candidates, where a profile enables it: those whose victims lose least."""

from typing import Any

import pytest

from scheduler.model.decisions import Preempting
from tests.support.builders import PodBuilder, node, pdb, pod
from tests.support.cluster import Cluster
from tests.support.policies import policy

CONFIG = """\
profiles:
- pluginConfig:
  - name: PreemptiveScheduler
    args: {preferVictimsThatFitElsewhere: true}
"""
#: Enough preemptors that a hash would not send all of them to the same node.
NAMES = [f"p{number}" for number in range(6)]


def zoned(name: str, zone: str, cpu: str = "2") -> Any:
    return node(name).cpu(cpu).label("zone", zone)


def running(name: str, where: str, start: float = 0) -> PodBuilder:
    return pod(name).on(where).cpu("2").started(start)


def chosen(*objects: Any, config: str = CONFIG, **preemptor: Any) -> set[str]:
    """Return the nodes chosen for pods that differ only by name, each in a fresh cluster."""
    nodes = set()
    for name in NAMES:
        cluster = Cluster(*objects, config=config)
        wanted = pod(name).cpu("2").priority(9).selects(**(preemptor or {"zone": "full"}))
        decision = cluster.schedule(wanted)
        assert isinstance(decision, Preempting)
        nodes.add(decision.node)
    return nodes


FULL = (zoned("n1", "full"), zoned("n2", "full"))
FREE = zoned("free", "other")


def test_victims_that_fit_elsewhere_come_first():
    stuck, movable = running("stuck", "n1").selects(zone="full"), running("movable", "n2")

    assert chosen(*FULL, FREE, stuck, movable) == {"n2"}
    assert chosen(*FULL, FREE, stuck, movable, config="") == {"n1", "n2"}


@pytest.mark.parametrize(
    "elsewhere",
    [
        pytest.param(FREE.cpu("1"), id="has no capacity"),
        pytest.param(FREE.taint("t"), id="is tainted"),
        pytest.param(FREE.cordoned(), id="is cordoned"),
    ],
)
def test_a_victim_does_not_fit_on_a_node_that(elsewhere):
    stuck = running("stuck", "n1", start=5).selects(zone="full")

    assert chosen(*FULL, elsewhere, stuck, running("other", "n2")) == {"n1"}


def test_resources_of_a_nominated_pod_are_not_free():
    nominee = pod("nominee").cpu("2").priority(9).nominated("free").scheduler("other")
    stuck = running("stuck", "n1", start=5).selects(zone="full")

    assert chosen(*FULL, FREE, nominee, stuck, running("other", "n2")) == {"n1"}


def test_then_come_the_victims_that_started_last():
    objects = (
        *(zoned(name, "full", "4") for name in ("n1", "n2")),
        running("a1", "n1", 50).priority(1), running("a2", "n1", 10),
        running("b1", "n2", 50).priority(1), running("b2", "n2", 20),
    )  # fmt: skip
    nodes = set()
    for name in NAMES:
        cluster = Cluster(*objects, config=CONFIG)
        decision = cluster.schedule(pod(name).cpu("4").priority(9))
        assert isinstance(decision, Preempting)
        nodes.add(decision.node)

    assert nodes == {"n2"}


def test_the_criteria_of_kube_scheduler_come_before():
    stuck = running("stuck", "n1").selects(zone="full")
    protected = running("movable", "n2").label("app", "web")

    assert chosen(pdb("b").selects(app="web"), *FULL, FREE, stuck, protected) == {"n1"}


def test_the_nominated_node_stays_first():
    stuck, movable = running("stuck", "n1").selects(zone="full"), running("movable", "n2")
    cluster = Cluster(*FULL, FREE, stuck, movable, config=CONFIG)

    decision = cluster.schedule(pod("p").cpu("2").priority(9).selects(zone="full").nominated("n1"))

    assert decision.node == "n1"


def test_policies_and_cheaper_victims_go_together():
    stuck, movable = running("stuck", "n1").selects(zone="full"), running("movable", "n2")
    none = policy(max_victims_per_preemption=5)

    assert chosen(none, *FULL, FREE, stuck, movable) == {"n2"}


def test_of_many_tied_nodes_some_are_compared_and_the_same_each_time():
    many = [zoned(f"m{number}", "full") for number in range(30)]
    pods = [running(f"g{number}", f"m{number}") for number in range(30)]

    first = chosen(*many, FREE, *pods)

    assert chosen(*many, FREE, *pods) == first
    assert len(first) > 1
