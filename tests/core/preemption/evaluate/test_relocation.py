"""Among equally good candidates and victims, where a profile enables it: those that lose least."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import event, given, settings

from scheduler.core.preemption.evaluate.objective import EARLIEST_START, RELOCATION
from scheduler.core.preemption.evaluate.relocation import MAX_CLASSES
from scheduler.model.decisions import Placed, Preempting
from scheduler.model.effects import Bind, Nominate
from scheduler.model.policies import BudgetScope, ForeignVictims
from tests.properties.clusters import clusters
from tests.support.builders import NodeBuilder, PodBuilder, node, pdb, pod
from tests.support.cluster import Cluster
from tests.support.policies import app, at_most, policy, victims

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


# Victims of one node


def evicted(*objects: Any, config: str = CONFIG, cpu: str = "2") -> list[str]:
    """Return the victims of a pod on a full node of 6 CPUs, next to one with 2 CPUs to spare."""
    there = (zoned("n1", "full", "6"), FREE)
    cluster = Cluster(*there, *objects, config=config)
    return victims(cluster.schedule(pod("p").cpu(cpu).priority(9).selects(zone="full")))


def pinned(name: str = "pinned", start: float = 10) -> PodBuilder:
    return running(name, "n1", start).selects(zone="full")


MOVABLE = running("movable", "n1", 5)
OTHER = pinned("other", 1)


@pytest.mark.parametrize("protected", [[], ["other"], ["pinned", "movable", "other"]])
def test_on_a_node_the_victim_that_fits_elsewhere_goes(protected: list[str]):
    placed = [each.label("app", each.object.metadata.name) for each in (pinned(), MOVABLE, OTHER)]
    budgets = [pdb(name).selects(app=name).allows(0) for name in protected]

    assert evicted(*budgets, *placed) == ["movable"]
    assert evicted(*budgets, *placed, config="") == ["pinned"]


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([pinned(), MOVABLE.priority(1)], id="of higher priority"),
        pytest.param(
            [pinned(), MOVABLE.cpu("1"), MOVABLE.meta(name="m2", uid="m2").cpu("1")],
            id="if two have to go",
        ),
        pytest.param(
            [pinned(), MOVABLE.label("app", "web"), pdb("b").selects(app="web").allows(0)],
            id="that a disruption budget protects",
        ),
        pytest.param(
            [pinned(), MOVABLE.scheduler("x"), policy(foreign_victims=ForeignVictims.NEVER)],
            id="that a policy protects",
        ),
        pytest.param(
            [
                pinned(), MOVABLE.label("app", "web"),
                policy(victims=app("web"), budgets=at_most(0, BudgetScope.NAMESPACE)),
            ],
            id="that a policy has no budget for",
        ),
        pytest.param([pinned(), MOVABLE.cpu("1"), pinned("small", 2).cpu("1")], id="too small"),
    ],
)  # fmt: skip
def test_no_victim_is_replaced_by_one(objects: list[Any]):
    assert evicted(*objects, OTHER) == ["pinned"]


def test_the_victims_that_stay_are_compared_with_those_that_go():
    there = (zoned("n1", "full", "4"), FREE)
    cluster = Cluster(*there, pinned(), MOVABLE, config=CONFIG, compares=True)
    cluster.schedule(pod("p").cpu("2").priority(9).selects(zone="full"))

    found = cluster.attempts[-1].comparison

    first, usual = found.candidates
    assert (first.node, usual.node, found.total) == ("n1", "n1", 2)
    assert first.values[-1] < usual.values[-1]
    assert found.criteria[-1] is EARLIEST_START.label
    assert (first.lost_by, usual.lost_by, found.criterion) == (None, RELOCATION, RELOCATION)


def test_a_pod_that_terminates_already_goes_first():
    leaves = pinned("leaves", 5).terminating()

    assert evicted(pinned(), leaves, OTHER) == ["leaves"]


def test_nodes_are_compared_by_the_victims_that_would_go():
    stuck = running("stuck", "n2", 10).selects(zone="full")
    two = (zoned("n1", "full", "4"), zoned("n2", "full"), FREE, pinned(), MOVABLE, stuck)

    assert chosen(*two) == {"n1"}


@pytest.mark.parametrize(("classes", "goes"), [(MAX_CLASSES, "movable"), (MAX_CLASSES + 1, "last")])
def test_what_fits_elsewhere_is_found_out_for_so_many_classes(classes: int, goes: str):
    of_node = [
        pinned(f"x{number}", number).cpu("0.01").label("class", str(number))
        for number in range(classes - 2)
    ]
    placed = [MOVABLE.started(500).cpu("0.01"), pinned("last", 600).cpu("0.01"), *of_node]
    full = zoned("n1", "full", f"{classes * 10}m").pods(200)
    cluster = Cluster(full, FREE, *placed, config=CONFIG)

    wanted = pod("p").cpu("0.01").priority(9).selects(zone="full")

    assert victims(cluster.schedule(wanted)) == [goes]


def some_pinned(built: Any) -> Any:
    """Return an object of a cluster in which every other pod can run on its node only."""
    if isinstance(built, NodeBuilder):
        return built.label("h", built.object.metadata.name)
    where = built.object.spec.node_name if isinstance(built, PodBuilder) else ""
    return built.selects(h=where) if where and int(built.object.metadata.name[-1]) % 2 else built


def held(objects: Sequence[Any], config: str = "") -> Cluster:
    """Return a cluster in which no pod is bound or nominated."""
    cluster = Cluster(config=config)
    cluster.hold(Bind, Nominate)
    cluster.add(*objects)
    return cluster


def cordoned_if(name: str) -> Callable[[Any], Any]:
    """Return what cordons the node of a name."""

    def changed(built: Any) -> Any:
        mine = isinstance(built, NodeBuilder) and built.object.metadata.name == name
        return built.cordoned() if mine else built

    return changed


def usual_cost(pods: Sequence[PodBuilder], violations: int) -> tuple[int, ...]:
    """Return what kube-scheduler compares nodes by, without the start; no priority is negative."""
    priorities = [pod.build().priority + 10 for pod in pods]
    return violations, max(priorities), sum(priorities), len(priorities)


@settings(max_examples=200)
@given(clusters())
def test_victims_are_as_few_and_as_unimportant_as_kube_schedulers_and_sufficient(drawn):
    objects, incoming = [*map(some_pinned, drawn[0])], drawn[1]
    decision = held(objects, CONFIG).schedule(incoming)
    if not isinstance(decision, Preempting):
        return
    usual = held(objects).schedule(incoming.selects(h=decision.node))
    assert isinstance(usual, Preempting)
    pods = {each.build().uid: each for each in objects if isinstance(each, PodBuilder)}
    going, before = ([pods[ref.uid] for ref in each.victims] for each in (decision, usual))

    def stranded(victims: Sequence[PodBuilder]) -> int:
        """Return how many victims fit on no other node."""
        others = [*map(cordoned_if(decision.node), objects)]
        found = 0
        for each in victims:
            if not each.build().terminating:
                left = [other for other in others if other is not each]
                unbound = each.spec(node_name="").status(phase="Pending").never_preempts()
                found += not isinstance(held(left).schedule(unbound), Placed)
        return found

    event("the same" if going == before else "others")
    assert usual_cost(going, decision.violations) <= usual_cost(before, usual.violations)
    assert stranded(going) <= stranded(before)
    staying = [each for each in objects if each not in going]
    assert held(staying).schedule(incoming.selects(h=decision.node)) == Placed(decision.node)
