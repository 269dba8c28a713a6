"""Sentences about what would help are true, and none is made where nothing can be derived."""

import pytest

from tests.support.api_documents import Documents
from tests.support.builders import node, pod


async def helps(*objects, wanted) -> list[str]:
    docs = Documents(*objects)
    docs.cluster.schedule(wanted)
    name = wanted.build().metadata.name
    found = await docs.get("pods/{namespace}/{name}", namespace="default", name=name)
    return found.get("helps", [])


def on(name: str, where: str, cpu: str = "3"):
    return pod(name).on(where).cpu(cpu).priority(9)


async def test_the_node_that_lacks_least_is_named():
    nodes = (node("n1").cpu("4"), node("n2").cpu("4"))

    found = await helps(*nodes, on("a", "n1"), on("b", "n2", "2500m"), wanted=pod("p").cpu("2"))

    assert found == ["Node n2 lacks only 500m cpu, the least of 2 nodes."]


async def test_amounts_are_as_in_manifests():
    taken = pod("a").on("n1").memory("3Gi").priority(9)

    found = await helps(node("n1").memory("4Gi"), taken, wanted=pod("p").memory("1536Mi"))

    assert found == ["Node n1 lacks only 512Mi memory."]


async def test_where_no_node_is_large_enough_that_is_said():
    found = await helps(node("n1").cpu("4"), node("n2").cpu("2"), wanted=pod("p").cpu("8"))

    assert found == [
        "None of the 2 nodes that lack resources is large enough: the pod requests 8 cpu, and the "
        "largest of them has 4."
    ]


async def test_a_resource_that_no_node_offers():
    wanted = pod("p").requests({"example.com/gpu": "1"})

    assert await helps(node("n1").cpu("4"), wanted=wanted) == ["No node offers example.com/gpu."]


async def test_a_node_that_lacks_several_resources_is_not_named():
    taken = pod("a").on("n1").cpu("3").memory("3Gi").priority(9)
    wanted = pod("p").cpu("2").memory("2Gi")

    assert await helps(node("n1").cpu("4").memory("4Gi"), taken, wanted=wanted) == []


async def test_the_number_of_pods_counts_as_a_resource():
    found = await helps(node("n1").cpu("4").pods(1), on("a", "n1", "1"), wanted=pod("p").cpu("1"))

    assert found == ["Node n1 lacks only 1 pods."]


async def test_resources_of_nominated_pods_count():
    docs = Documents(node("n1").cpu("4"), pod("other").cpu("3").priority(9).nominated("n1"))
    docs.cluster.add(pod("p").cpu("2").priority(1))
    queued = next(each for each in docs.cluster.machine.queue if each.pod.metadata.name == "p")

    found = await docs.get("pods/{namespace}/{name}", namespace="default", name="p")

    assert queued.pod.priority == 1
    assert found["helps"] == ["Node n1 lacks only 1 cpu."]


@pytest.mark.parametrize(
    ("tainted", "expected"),
    [
        (
            node("n1").taint("gpu", "yes"),
            [
                "Add a toleration for the taint gpu=yes:NoSchedule: it is the only untolerated"
                " taint on 1 node."
            ],
        ),
        (
            node("n1").taint("gone", effect="NoExecute"),
            [
                "Add a toleration for the taint gone:NoExecute: it is the only untolerated"
                " taint on 1 node."
            ],
        ),
        (node("n1").taint("a").taint("b"), []),
        (
            node("n1").taint("a").taint("b", effect="PreferNoSchedule"),
            [
                "Add a toleration for the taint a:NoSchedule: it is the only untolerated"
                " taint on 1 node."
            ],
        ),
    ],
)
async def test_a_taint_that_alone_rejects_nodes_is_named(tainted, expected):
    assert await helps(tainted.cpu("4"), wanted=pod("p").cpu("1")) == expected


async def test_a_label_that_no_node_has_is_named():
    wanted = pod("p").cpu("1").selects(disk="ssd", zone="a")

    found = await helps(node("n1").cpu("4").label("zone", "a").label("disk", "hdd"), wanted=wanted)

    assert found == ["No node has the label disk=ssd, which the pod's nodeSelector requires."]


async def test_cordoned_nodes_are_counted():
    found = await helps(
        node("n1").cpu("4").cordoned(), node("n2").cpu("4").cordoned(), wanted=pod("p").cpu("1")
    )

    assert found == ["2 nodes are cordoned, as n1."]


async def test_nothing_is_said_about_a_pod_that_fits():
    docs = Documents(node("n1").cpu("1"))
    docs.cluster.schedule(pod("p").cpu("2"))
    docs.cluster.add(node("n2").cpu("4"))

    found = await docs.get("pods/{namespace}/{name}", namespace="default", name="p")

    assert found["node"] == "n2"
    assert "helps" not in found
