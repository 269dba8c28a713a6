"""NodeResourcesFit: a node needs enough free resources."""

import pytest
from msgspec.structs import replace

from scheduler.framework.cluster_events import Action, Resource
from scheduler.framework.verdicts import Verdict
from scheduler.plugins.node_resources.fit import NodeResourcesFit
from tests.support.builders import PodBuilder, container, node, pod
from tests.support.plugin_checks import hint, rejections, state_of, verdicts_of

PLUGIN = NodeResourcesFit()
GPU = "example.com/gpu"
DISK = "ephemeral-storage"
NODE = node("n1").has({"cpu": "4", "memory": "4Gi", "ephemeral-storage": "4Gi", GPU: "2"}).pods(3)
#: Half of the node is used.
USER = pod("q").on("n1").requests(
    {"cpu": "2", "memory": "2Gi", "ephemeral-storage": "2Gi", GPU: "1"}
)  # fmt: skip


def verdict(wanted: PodBuilder, *more: PodBuilder) -> Verdict | None:
    return verdicts_of(PLUGIN, wanted, state_of(NODE, USER, *more))["n1"]


def no(*reasons: str, resolvable: bool = True) -> Verdict:
    return Verdict("NodeResourcesFit", reasons, resolvable)


CASES = {
    "nothing": (pod("p"), None),
    "exactly what is left": (pod("p").requests({"cpu": "2", "memory": "2Gi", GPU: "1"}), None),
    "a little more cpu": (pod("p").cpu("2001m"), no("Insufficient cpu")),
    "a little more memory": (pod("p").memory("2147483649"), no("Insufficient memory")),
    "storage": (pod("p").requests({DISK: "3Gi"}), no(f"Insufficient {DISK}")),
    "a device": (pod("p").requests({GPU: "2"}), no(f"Insufficient {GPU}")),
    "none of a device": (pod("p").requests({"example.com/other": "0"}), None),
    "a device that the node lacks": (
        pod("p").requests({"example.com/other": "1"}),
        no("Insufficient example.com/other", resolvable=False),
    ),
    "more than there is": (pod("p").cpu("5"), no("Insufficient cpu", resolvable=False)),
    "all of it": (pod("p").cpu("4"), no("Insufficient cpu")),
    "much, in upstream's order and then by name": (
        pod("p").requests(
            {"hugepages-2Mi": "1", GPU: "2", "memory": "3Gi", "cpu": "3", DISK: "3Gi"}
        ),
        no(
            "Insufficient cpu", "Insufficient memory", "Insufficient ephemeral-storage",
            f"Insufficient {GPU}", "Insufficient hugepages-2Mi", resolvable=False,
        ),
    ),
    "a large init container": (pod("p").init(container(cpu="3")), no("Insufficient cpu")),
    "overhead": (pod("p").cpu("1").spec(overhead={"cpu": "2"}), no("Insufficient cpu")),
    "a sidecar": (
        pod("p").cpu("1").init(replace(container(cpu="2"), restart_policy="Always")),
        no("Insufficient cpu"),
    ),
    "a name that is not counted": (pod("p").requests({"odd": "9"}), None),
}  # fmt: skip


@pytest.mark.parametrize(("wanted", "want"), CASES.values(), ids=CASES)
def test_a_half_full_node_is_asked_for(wanted, want):
    assert verdict(wanted) == want


def test_pods_are_counted_and_named_first():
    others = [pod(name).on("n1") for name in ("r", "s")]

    assert verdict(pod("p"), *others) == no("Too many pods")
    assert verdict(pod("p").cpu("3"), *others) == no("Too many pods", "Insufficient cpu")


def test_too_many_pods_are_always_resolvable():
    state = state_of(node("n1").pods(0))

    assert verdicts_of(PLUGIN, pod("p"), state)["n1"] == no("Too many pods")


def test_a_pod_without_requests_fits_on_an_overcommitted_node():
    state = state_of(node("n1").cpu("1"), pod("q").on("n1").cpu("5"))

    assert rejections(PLUGIN, pod("p").cpu("0"), state) == {}
    assert rejections(PLUGIN, pod("p").cpu("1m"), state) == {"n1": "Insufficient cpu"}


def test_a_pod_that_is_being_resized_counts_with_the_larger_amount_on_its_node_only():
    state = state_of(node("n1").cpu("4"), pod("q").on("n1").cpu("1").granted(cpu="3"))

    assert rejections(PLUGIN, pod("p").cpu("2"), state) == {"n1": "Insufficient cpu"}
    assert rejections(PLUGIN, pod("p").cpu("1").granted(cpu="3"), state) == {}


def test_more_resources_than_bits_are_distinguished():
    names = [f"example.com/r{number:03}" for number in range(70)]
    state = state_of(node("n1").has(dict.fromkeys(names[:-1], "1")))

    wanted = pod("p").requests(dict.fromkeys(names, "1"))

    assert rejections(PLUGIN, wanted, state) == {"n1": f"Insufficient {names[-1]}"}


# What the configuration ignores


def test_ignored_resources_and_groups_are_not_looked_for():
    plugin = NodeResourcesFit(
        ignored=frozenset({GPU, "cpu"}), ignored_groups=frozenset({"other.org"})
    )
    state = state_of(node("n1"))

    assert rejections(plugin, pod("p").requests({GPU: "1", "other.org/x": "1"}), state) == {}
    assert rejections(plugin, pod("p").requests({"example.com/y": "1"}), state) == {
        "n1": "Insufficient example.com/y"
    }
    assert rejections(plugin, pod("p").cpu("1"), state) == {"n1": "Insufficient cpu"}


# Hints

ADD = (Resource.NODE, Action.ADD)
GREW = (Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE)
GONE = (Resource.ASSIGNED_POD, Action.DELETE)
SHRANK = (Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)
P = pod("p").cpu("2")


NODES = {
    "a new node with capacity": (ADD, None, node("n").cpu("2"), True),
    "a new node without": (ADD, None, node("n").cpu("1"), False),
    "a new node without pods": (ADD, None, node("n").cpu("4").pods(0), False),
    "more of what is asked for": (GREW, node("n").cpu("2"), node("n").cpu("3"), True),
    "more, but not enough": (GREW, node("n").cpu("0"), node("n").cpu("1"), False),
    "less": (GREW, node("n").cpu("4"), node("n").cpu("3"), False),
    "more of something else": (
        GREW, node("n").cpu("2").memory("1"), node("n").cpu("2").memory("2"), False,
    ),
    "more pods": (GREW, node("n").cpu("2").pods(1), node("n").cpu("2").pods(2), True),
}  # fmt: skip


@pytest.mark.parametrize(("event", "old", "new", "want"), NODES.values(), ids=NODES)
def test_the_hint_queues_for(event, old, new, want):
    assert hint(PLUGIN, event, P, old, new) is want


def test_the_hint_queues_for_a_node_that_lacks_only_ignored_resources():
    plugin = NodeResourcesFit(ignored=frozenset({GPU}))

    assert hint(plugin, ADD, pod("p").requests({GPU: "1"}), None, node("n"))
    assert not hint(PLUGIN, ADD, pod("p").requests({GPU: "1"}), None, node("n"))


def test_the_hint_queues_for_a_deleted_pod_that_was_placed():
    assert hint(PLUGIN, GONE, P, pod("q").on("n1"), None)
    assert hint(PLUGIN, GONE, P, pod("q").nominated("n1"), None)
    assert not hint(PLUGIN, GONE, P, pod("q"), None)


def test_the_hint_queues_for_a_scale_down_of_a_requested_resource():
    before, after = pod("q").on("n1").cpu("2").memory("2"), pod("q").on("n1").cpu("1").memory("2")

    assert hint(PLUGIN, SHRANK, P, before, after)
    assert not hint(PLUGIN, SHRANK, pod("p").memory("1"), before, after)
    assert not hint(PLUGIN, SHRANK, pod("p").cpu("0"), before, after)
    assert not hint(PLUGIN, SHRANK, P, pod("q").cpu("2"), pod("q").cpu("1"))


def test_the_hint_queues_for_a_scale_down_of_the_pod_itself():
    own = (Resource.UNSCHEDULABLE_POD, Action.UPDATE_POD_SCALE_DOWN)

    assert hint(PLUGIN, own, P, pod("p").cpu("4"), P)
    assert not hint(PLUGIN, own, P, None, None)
