"""Sentences about what would help are true, and none is made where nothing can be derived."""

import pytest

from tests.support.api_documents import Documents, Only
from tests.support.builders import node, pod


def on(name: str, where: str, cpu: str = "3"):
    return pod(name).on(where).cpu(cpu).priority(9)


HELD = (
    "%s of n1 are held by pods of priority 9 or higher: a priority above 9 would preempt, and evict"
    " default/a on n1."
)
MORE = "One more node like n1 would have room for %s while it is empty."
TOLERATION = "Add a toleration for the taint %s: it is the only untolerated taint on 1 node."
N1 = node("n1").cpu("4")

#: A cluster, a pod that does not fit, and what would help it.
CASES = {
    "the node that lacks least is named": (
        [N1, node("n2").cpu("4"), on("a", "n1"), on("b", "n2", "2500m")],
        pod("p").cpu("2"),
        [
            HELD % "3 of 4 cpu",
            "Node n2 lacks only 500m cpu, the least of 2 nodes.",
            MORE % "2 such pods",
        ],
    ),
    "amounts are as in manifests": (
        [node("n1").memory("4Gi"), pod("a").on("n1").memory("3Gi").priority(9)],
        pod("p").memory("1536Mi"),
        [
            HELD % "3Gi of 4Gi memory",
            "Node n1 lacks only 512Mi memory.",
            MORE % "2 such pods",
        ],
    ),
    "a higher priority does not help the pods that never preempt": (
        [N1, on("a", "n1")],
        pod("p").cpu("2").never_preempts(),
        ["Node n1 lacks only 1 cpu.", MORE % "2 such pods"],
    ),
    "no user can give a priority that is high enough": (
        [N1, on("a", "n1").priority(2_000_000_000)],
        pod("p").cpu("2"),
        ["Node n1 lacks only 1 cpu.", MORE % "2 such pods"],
    ),
    "no node is large enough": (
        [N1, node("n2").cpu("2")],
        pod("p").cpu("8"),
        [
            "None of the 2 nodes that lack resources is large enough: the pod requests 8 cpu, and "
            "the largest of them has 4."
        ],
    ),
    "no node offers the resource": (
        [N1],
        pod("p").requests({"example.com/gpu": "1"}),
        ["No node offers example.com/gpu."],
    ),
    "a node that lacks several resources is not named": (
        [N1.memory("4Gi"), pod("a").on("n1").cpu("3").memory("3Gi").priority(9)],
        pod("p").cpu("2").memory("2Gi"),
        [HELD % "3 of 4 cpu", MORE % "2 such pods"],
    ),
    "the number of pods is a resource": (
        [N1.pods(1), on("a", "n1", "1")],
        pod("p").cpu("1"),
        [HELD % "All 1 pods", "Node n1 lacks only 1 pods.", MORE % "1 such pod"],
    ),
    "one taint": (
        [N1.taint("gpu", "yes")],
        pod("p").cpu("1"),
        [TOLERATION % "gpu=yes:NoSchedule"],
    ),
    "a taint that evicts": (
        [N1.taint("gone", effect="NoExecute")],
        pod("p").cpu("1"),
        [TOLERATION % "gone:NoExecute"],
    ),
    "two taints": ([N1.taint("a").taint("b")], pod("p").cpu("1"), []),
    "a taint beside one that only scores": (
        [N1.taint("a").taint("b", effect="PreferNoSchedule")],
        pod("p").cpu("1"),
        [TOLERATION % "a:NoSchedule"],
    ),
    "a label that no node has": (
        [N1.label("zone", "a").label("disk", "hdd")],
        pod("p").cpu("1").selects(disk="ssd", zone="a"),
        ["No node has the label disk=ssd, which the pod's nodeSelector requires."],
    ),
    "cordoned nodes are counted": (
        [N1.cordoned(), node("n2").cpu("4").cordoned()],
        pod("p").cpu("1"),
        ["2 nodes are cordoned, as n1."],
    ),
}


@pytest.mark.parametrize(("objects", "wanted", "suggestions"), CASES.values(), ids=CASES)
async def test_helps_are_true(objects, wanted, suggestions):
    docs = Documents(*objects)
    docs.cluster.schedule(wanted)

    found = await docs.get("pods/{namespace}/{name}", namespace="default", name="p")

    assert found.get("suggestions", []) == suggestions


async def test_resources_of_nominated_pods_count():
    docs = Documents(node("n1").cpu("4"), pod("other").cpu("3").priority(9).nominated("n1"))
    docs.cluster.add(pod("p").cpu("2").priority(1))
    queued = next(each for each in docs.cluster.machine.queue if each.pod.metadata.name == "p")

    found = await docs.get("pods/{namespace}/{name}", namespace="default", name="p")

    assert queued.pod.priority == 1
    assert found["suggestions"] == ["Node n1 lacks only 1 cpu.", MORE % "2 such pods"]


@pytest.mark.parametrize(
    ("seen", "evicted"),
    [
        (("default", "theirs"), "default/a, theirs/b and theirs/c"),
        (("default",), "default/a and 2 more"),
    ],
)
async def test_victims_of_a_higher_priority_are_named_where_the_caller_may_see_them(seen, evicted):
    theirs = [on(name, "n1", "1").namespace("theirs") for name in "bc"]
    docs = Documents(N1, on("a", "n1", "1"), *theirs)
    docs.cluster.schedule(pod("p").cpu("4"))

    found = await docs.get("pods/{namespace}/{name}", Only(*seen), namespace="default", name="p")

    assert found["suggestions"][0].endswith(f" would preempt, and evict {evicted} on n1.")


async def test_who_holds_the_space_is_told_of_the_node_where_pods_would_be_evicted():
    docs = Documents(
        N1, node("n2").cpu("4"), on("a", "n1", "2"), on("b", "n1", "2"), on("c", "n2", "4")
    )
    docs.cluster.schedule(pod("p").cpu("4"))

    found = await docs.get("pods/{namespace}/{name}", namespace="default", name="p")

    assert found["suggestions"][0].startswith("All 4 cpu of n2 are held by pods of priority 9")
    assert found["suggestions"][0].endswith(" evict default/c on n2.")


async def test_nothing_is_said_about_a_pod_that_fits():
    docs = Documents(node("n1").cpu("1"))
    docs.cluster.schedule(pod("p").cpu("2"))
    docs.cluster.add(node("n2").cpu("4"))

    found = await docs.get("pods/{namespace}/{name}", namespace="default", name="p")

    assert found["node"] == "n2"
    assert "suggestions" not in found
