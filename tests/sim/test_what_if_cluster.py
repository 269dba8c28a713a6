"""Attempts and settling: the machine against a cluster that exists only in memory."""

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
from scheduler.model.decisions import Attempt, Gated, Placed, Preempting, Unschedulable
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim.manifests import Manifests
from scheduler.sim.what_if_cluster import WhatIfCluster, WhatIfOptions
from tests.support.builders import OURS, node, pdb, pod
from tests.support.cluster import profiles


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


def decisions(attempts: list[Attempt]) -> list[tuple[str, str]]:
    """Return names and kinds of decisions."""
    return [(each.pod.name, type(each.decision).__name__) for each in attempts]


# Once


def test_each_pending_pod_is_decided_for_once():
    plan = planner(node("n1").cpu("1"), pod("a").cpu("1"), pod("b").cpu("1"))

    assert decisions(list(plan.attempts())) == [("a", "Placed"), ("b", "Unschedulable")]


def test_the_order_is_priority_then_age_then_place_in_the_files():
    plan = planner(
        node("n1"),
        pod("young").created(50),
        pod("first"),
        pod("second"),
        pod("old").created(-5),
        pod("high").priority(9).created(99),
    )

    assert [each.pod.name for each in plan.attempts()] == [
        "high", "first", "second", "old", "young",
    ]  # fmt: skip


def test_ages_are_compared_as_times_and_not_as_texts():
    older = pod("older").meta(creation_timestamp="2026-01-01T10:00:00+02:00")
    younger = pod("younger").meta(creation_timestamp="2026-01-01T09:00:00Z")

    assert [each.pod.name for each in planner(node("n1"), younger, older).attempts()] == [
        "older", "younger",
    ]  # fmt: skip


def test_a_decision_counts_for_the_next_one():
    plan = planner(
        node("n1").cpu("2"),
        pod("low").on("n1").cpu("2"),
        pod("high").cpu("2").priority(9),
        pod("mid").cpu("1").priority(5),
    )

    first, second = plan.attempts()

    assert isinstance(first.decision, Preempting)
    assert isinstance(second.decision, Unschedulable)


def test_gated_pods_are_listed_last_with_the_message_of_the_api():
    plan = planner(node("n1"), pod("gated").gated("a").priority(9), pod("p"))

    *_, last = plan.attempts()

    assert last.pod.name == "gated"
    assert last.decision == Gated("Scheduling is blocked due to non-empty scheduling gates")
    assert (last.number, last.effects) == (0, ())


def test_finished_and_terminating_pods_are_not_tried():
    plan = planner(
        node("n1"), pod("terminating").terminating(), pod("failed").finished("Failed"), pod("p")
    )

    assert [each.pod.name for each in plan.attempts()] == ["p"]
    assert plan.final() == {"default/p": "n1"}


def test_running_pods_that_are_done_take_no_capacity():
    plan = planner(node("n1").cpu("1"), pod("done").on("n1").cpu("1").finished(), pod("p").cpu("1"))

    assert decisions(list(plan.attempts())) == [("p", "Placed")]


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


# Whose pods


def test_with_one_profile_the_scheduler_name_of_a_pod_does_not_matter():
    plan = planner(node("n1"), pod("a").scheduler("another"), pod("b").scheduler(""))

    attempts = list(plan.attempts())

    assert decisions(attempts) == [("a", "Placed"), ("b", "Placed")]
    assert {each.scheduler_name for each in attempts} == {OURS}


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


# Until nothing changes


def settled(plan: WhatIfCluster) -> list[Attempt]:
    return [*plan.attempts(), *plan.settle()]


def test_the_preemptor_gets_the_capacity_of_its_victims():
    plan = planner(
        node("n1").cpu("2"),
        pod("a").on("n1").cpu("1"),
        pod("b").on("n1").cpu("1"),
        pod("p").cpu("2").priority(9),
    )

    assert decisions(settled(plan)) == [("p", "Preempting"), ("p", "Placed")]
    assert plan.final() == {"default/p": "n1"}


def test_an_unchanged_decision_is_not_reported_again():
    plan = planner(
        node("n1").cpu("1"),
        pod("low").on("n1").cpu("1"),
        pod("high").cpu("1").priority(9),
        pod("never").cpu("7"),
        pod("mid").cpu("1").priority(5),
    )

    attempts = settled(plan)

    assert decisions(attempts) == [
        ("high", "Preempting"),
        ("mid", "Unschedulable"),
        ("never", "Unschedulable"),
        ("high", "Placed"),
        ("mid", "Unschedulable"),
    ]
    messages = [each.decision.message for each in attempts if each.pod.name == "mid"]
    assert messages[0] != messages[1]


def test_a_cluster_in_which_nothing_changes_is_settled_at_once():
    plan = planner(node("n1").cpu("1"), pod("p").cpu("2"))

    assert decisions(settled(plan)) == [("p", "Unschedulable")]
    assert plan.final() == {"default/p": None}


def test_terminating_pods_make_capacity():
    plan = planner(
        node("n1").cpu("1"), pod("terminating").on("n1").cpu("1").terminating(), pod("p").cpu("1")
    )

    assert decisions(settled(plan)) == [("p", "Unschedulable"), ("p", "Placed")]


def test_gated_pods_stay_where_they_are():
    plan = planner(node("n1"), pod("gated").gated("a"))

    assert decisions(settled(plan)) == [("gated", "Gated")]
    assert plan.final() == {"default/gated": None}


def test_a_chain_of_preemptions_ends():
    plan = planner(
        node("n1").cpu("1"),
        *(pod(f"p{number}").cpu("1").priority(number) for number in range(5)),
        pod("base").on("n1").cpu("1").priority(-1),
    )

    attempts = settled(plan)

    assert plan.final()["default/p4"] == "n1"
    assert sum(isinstance(each.decision, Preempting) for each in attempts) == 1
    assert [type(each.decision) for each in attempts if each.pod.name == "p4"] == [
        Preempting,
        Placed,
    ]


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
