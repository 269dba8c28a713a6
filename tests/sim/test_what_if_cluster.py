"""Attempts and settling: the machine against a cluster that exists only in memory."""

import pytest
from msgspec.structs import replace

from scheduler.config import load
from scheduler.model.api.devices import DeviceClass, DeviceClassSpec
from scheduler.model.api.objects import (
    LocalObject,
    Node,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
)
from scheduler.model.decisions import Attempt, Gated, Preempting, Unschedulable
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim.manifests import Manifests
from scheduler.sim.what_if_cluster import WhatIfCluster, WhatIfOptions
from tests.support.builders import OURS, node, pdb, pod
from tests.support.cluster import profiles
from tests.support.stories import objects_of, steps_of


def planner(*objects, options: WhatIfOptions | None = None, config: str = "") -> WhatIfCluster:
    """Return a planner for a cluster of these objects."""
    found = Manifests()
    lists = {
        Pod: found.pods,
        Node: found.nodes,
        PodDisruptionBudget: found.pdbs,
        LocalObject: found.namespaces,
        DeviceClass: found.device_classes,
    }
    for each in objects:
        built = each.build() if hasattr(each, "build") else each
        lists[type(built)].append(built)
    return WhatIfCluster(found, profiles(config), PodBackoff(), options or WhatIfOptions())


def decisions(attempts: list[Attempt]) -> list[str]:
    """Return names and kinds of decisions."""
    return [f"{each.pod.name} {type(each.decision).__name__}" for each in attempts]


def settled(plan: WhatIfCluster) -> list[Attempt]:
    return [*plan.attempts(), *plan.settle()]


ONCE = {
    "each pending pod is decided for once": (
        "node n1 cpu=1; pod a cpu=1; pod b cpu=1", "a Placed; b Unschedulable",
    ),
    "the order is priority then age then place in the files": (
        """node n1; pod young created=50; pod first; pod second; pod old created=-5
        pod most priority=9 created=99""",
        "most Placed; first Placed; second Placed; old Placed; young Placed",
    ),
    "a decision counts for the next one": (
        "node n1 cpu=2; pod low@n1 cpu=2; pod x cpu=2 priority=9; pod mid cpu=1 priority=5",
        "x Preempting; mid Unschedulable",
    ),
    "gated pods are listed last": (
        "node n1; pod gated gated=a priority=9; pod p", "p Placed; gated Gated",
    ),
    "finished and terminating pods are not tried": (
        "node n1; pod terminating terminating; pod failed finished=Failed; pod p", "p Placed",
    ),
    "running pods that are done take no capacity": (
        "node n1 cpu=1; pod done@n1 cpu=1 finished; pod p cpu=1", "p Placed",
    ),
    "with one profile the scheduler name of a pod does not matter": (
        "node n1; pod a scheduler=another; pod b scheduler=", "a Placed; b Placed",
    ),
}  # fmt: skip
SETTLED = {
    "the preemptor gets the capacity of its victims": (
        "node n1 cpu=2; pod a@n1 cpu=1; pod b@n1 cpu=1; pod p cpu=2 priority=9",
        "p Preempting; p Placed", {"p": "n1"},
    ),
    "a cluster in which nothing changes is settled at once": (
        "node n1 cpu=1; pod p cpu=2", "p Unschedulable", {"p": None},
    ),
    "terminating pods make capacity": (
        "node n1 cpu=1; pod terminating@n1 cpu=1 terminating; pod p cpu=1",
        "p Unschedulable; p Placed", {"p": "n1"},
    ),
    "gated pods stay where they are": (
        "node n1; pod gated gated=a", "gated Gated", {"gated": None},
    ),
    "a chain of preemptions ends": (
        """node n1 cpu=1; pod p0 cpu=1 priority=0; pod p1 cpu=1 priority=1; pod p2 cpu=1 priority=2
        pod base@n1 cpu=1 priority=-1""",
        """p2 Preempting; p1 Unschedulable; p0 Unschedulable; p2 Placed; p1 Unschedulable
        p0 Unschedulable""",
        {"p2": "n1", "p1": None, "p0": None},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("objects", "want"), ONCE.values(), ids=ONCE)
def test_each_pod_is_decided_for_once(objects, want):
    attempts = list(planner(*objects_of(objects)).attempts())

    assert decisions(attempts) == steps_of(want)
    assert {each.scheduler_name for each in attempts} == {OURS}


@pytest.mark.parametrize(("objects", "want", "final"), SETTLED.values(), ids=SETTLED)
def test_a_plan_settles(objects, want, final):
    plan = planner(*objects_of(objects))

    assert decisions(settled(plan)) == steps_of(want)
    assert plan.final() == {f"default/{name}": where for name, where in final.items()}


def test_a_gated_pod_gets_the_message_of_the_api():
    (only,) = planner(*objects_of("node n1; pod gated gated=a")).attempts()

    assert only.decision == Gated("Scheduling is blocked due to non-empty scheduling gates")
    assert (only.number, only.effects) == (0, ())


def test_ages_are_compared_as_times_and_not_as_texts():
    older = pod("older").meta(creation_timestamp="2026-01-01T10:00:00+02:00")
    younger = pod("younger").meta(creation_timestamp="2026-01-01T09:00:00Z")

    assert [each.pod.name for each in planner(node("n1"), younger, older).attempts()] == [
        "older", "younger",
    ]  # fmt: skip


def test_budgets_and_namespaces_are_known():
    plan = planner(
        pdb("b").selects(app="web"),
        node("n1").cpu("1"),
        pod("low").on("n1").cpu("1").label("app", "web"),
        pod("p").cpu("1").priority(9),
    )

    (attempt,) = plan.attempts()

    assert isinstance(attempt.decision, Preempting)
    assert attempt.decision.violations == 1


def test_pods_are_decided_by_the_profile_of_their_scheduler_name():
    config = "profiles: [{schedulerName: one}, {schedulerName: two}]"
    plan = planner(
        node("n1"), pod("a").scheduler("two"), pod("b").scheduler("three"), config=config
    )

    attempts = list(plan.attempts())

    assert [(each.pod.name, each.scheduler_name) for each in attempts] == [("a", "two")]
    assert plan.final() == {"default/a": "n1"}


def test_a_scheduler_name_narrows_the_pods():
    plan = planner(
        node("n1"),
        pod("mine").scheduler("x"),
        pod("yours"),
        options=WhatIfOptions(scheduler_name="x"),
    )

    assert [each.pod.name for each in plan.attempts()] == ["mine"]


def test_device_classes_count():
    named = DeviceClass(ObjectMeta(name="gpus"), DeviceClassSpec("example.com/gpu"))

    (attempt,) = planner(node("n1"), named, pod("p").requests({"example.com/gpu": "1"})).attempts()

    assert attempt.plugins == ("DynamicResources",)


def test_an_explanation_is_included_when_requested():
    objects = node("n1").cpu("1"), node("n2").cordoned(), pod("p").cpu("1")

    (explained,) = planner(*objects, options=WhatIfOptions(explain=True)).attempts()
    (plain,) = planner(*objects).attempts()

    assert [trace.name for trace in explained.trace] == ["n1", "n2"]
    assert plain.trace == ()
    assert plain == replace(explained, trace=(), details=None)


def test_an_unchanged_decision_is_not_reported_again():
    objects = """node n1 cpu=1; pod low@n1 cpu=1; pod x cpu=1 priority=9; pod never cpu=7
        pod mid cpu=1 priority=5"""

    attempts = settled(planner(*objects_of(objects)))

    assert decisions(attempts) == steps_of(
        "x Preempting; mid Unschedulable; never Unschedulable; x Placed; mid Unschedulable"
    )
    messages = [each.decision.message for each in attempts if each.pod.name == "mid"]
    assert messages[0] != messages[1]


def test_the_same_cluster_gives_the_same_answer():
    objects = [node(f"n{number}").cpu("2") for number in range(4)]
    objects += [pod(f"p{number}").cpu("1").priority(number % 3) for number in range(12)]

    assert settled(planner(*objects)) == settled(planner(*objects))


def test_without_nodes_every_pod_says_so():
    plan = WhatIfCluster(
        Manifests(pods=[pod("p").build()]),
        registry.profiles(load.defaults()),
        PodBackoff(),
        WhatIfOptions(),
    )

    (attempt,) = settled(plan)

    assert attempt.decision == Unschedulable("no nodes available to schedule pods")
