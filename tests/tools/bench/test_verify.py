"""What makes a run void."""

import pytest

from deploy.tools.bench import templates, verify
from deploy.tools.bench.templates import HOSTNAME, TEAM, ZONE, pod_affinity_pod
from deploy.tools.bench.verify import Cluster
from deploy.tools.bench.workloads import Batch

PLAIN = templates.pod()


def node(name, zone="", **allocatable):
    made = templates.node(name, {ZONE: zone} if zone else {})
    made["status"]["allocatable"] = {**made["status"]["capacity"], **allocatable}
    return made


def pod(name, on, template=PLAIN, namespace="sched-0", index=0):
    made = Batch(name=name, namespace=namespace, count=1, template=template).pod(index)
    made["metadata"]["name"] = name
    if on:
        made["spec"]["nodeName"] = on
    return made


def problems(*objects, measured=(), **others):
    """Return what is wrong with nodes and pods."""
    nodes = [each for each in objects if each.get("kind") == "Node"]
    pods = [each for each in objects if each.get("kind") != "Node"]
    keys = {("sched-0", name) for name in measured}
    return verify.problems(Cluster(nodes=nodes, pods=pods, **others), keys)


def port(number):
    return lambda index: templates.with_port(templates.pod("10m")(index), number)


def with_volumes(count):
    pods = [pod(f"p{index}", "n") for index in range(count)]
    for index, each in enumerate(pods):
        claim = {"persistentVolumeClaim": {"claimName": f"c{index}"}}
        each["spec"]["volumes"] = [{"name": "vol", **claim}]
    return pods


TWO = (pod("a", "n"), pod("b", "n"))
WANTS, PINNED = templates.node_affinity_pod(), templates.pinned_pod()
APART = pod_affinity_pod("podAntiAffinity", "green", HOSTNAME, required=True)
NEAR = pod_affinity_pod("podAffinity", "blue", ZONE, required=True)
ZONES = (node("n", "zone1"), node("m", "zone2"))
FULL = {"cpu": "200m", "memory": "1000Mi", "pods": "2"}


def without_rule(made):
    del made["spec"]["affinity"]
    return made


def spread(count, when):
    return [pod(f"p{index}", "n", templates.spread_pod(when)) for index in range(count)]


#: Nodes and pods, and the problems of a cluster of them.
CASES = {
    "a node with room": ([node("n"), *TWO], []),
    "a full node": ([node("n", **FULL), *TWO], []),
    "too little cpu": ([node("n", cpu="199m"), *TWO], ["n is over-allocated: cpu 0.2 of 0.199"]),
    "too little memory": (
        [node("n", memory="999Mi"), *TWO],
        ["n is over-allocated: memory 1048576000.0 of 1047527424.0"],
    ),
    "too many pods": ([node("n", pods="1"), *TWO], ["n is over-allocated: pods 2.0 of 1.0"]),
    "two host ports": ([node("n"), pod("a", "n", port(8000)), pod("b", "n", port(8001))], []),
    "one host port twice": (
        [node("n"), pod("a", "n", port(8000)), pod("b", "n", port(8000))],
        ["sched-0/b: port 8000 of n was taken"],
    ),
    "a node of the affinity": ([node("n", "zone2"), pod("a", "n", WANTS)], []),
    "a node outside of the affinity": (
        [node("n", "zone3"), pod("a", "n", WANTS)],
        ["sched-0/a must not be on n"],
    ),
    "the named node": (
        [node(templates.NAMED_NODE), pod("a", templates.NAMED_NODE, PINNED)],
        [],
    ),
    "another than the named node": (
        [node("n"), pod("a", "n", PINNED)],
        ["sched-0/a must not be on n"],
    ),
    "apart": ([node("n"), node("m"), pod("a", "n", APART), pod("b", "m", APART)], []),
    "not apart": (
        [node("n"), pod("a", "n", APART), pod("b", "n", APART)],
        [f"sched-0/{name} is beside 1 pods that it must not be beside" for name in "ab"],
    ),
    "beside pods that the rule does not select": (
        [
            node("n"),
            pod("a", "n", APART),
            pod("c", "n"),
            without_rule(pod("b", "n", APART, namespace="elsewhere")),
        ],
        [],
    ),
    "the first of its company": ([*ZONES, pod("a", "n", NEAR)], []),
    "beside its company": ([*ZONES, pod("a", "n", NEAR), pod("b", "n", NEAR)], []),
    "away from its company": (
        [*ZONES, pod("a", "n", NEAR), pod("b", "m", NEAR)],
        [f"sched-0/{name} is not beside any pod that it must be beside" for name in "ab"],
    ),
}


@pytest.mark.parametrize(("objects", "want"), CASES.values(), ids=CASES)
def test_a_placement_that_breaks_a_rule_is_a_problem(objects, want):
    assert problems(*objects) == want


def test_a_measured_pod_must_exist_and_have_a_node():
    assert problems(node("n"), pod("a", ""), measured=("a", "b")) == [
        "sched-0/a has no node",
        "sched-0/b is gone",
    ]
    assert problems(node("n"), measured="abcdefg")[3:] == ["... and 4 more like that"]


def test_namespaces_are_selected_by_their_labels():
    apart = pod_affinity_pod("podAntiAffinity", "green", HOSTNAME, required=True, team=True)
    pods = [pod("a", "n", apart, namespace="one"), pod("b", "n", apart, namespace="two")]

    def found(**labels):
        one = {"metadata": {"name": "one", "labels": TEAM}}
        return len(
            problems(node("n"), *pods, namespaces=[one, {"metadata": {"name": "two", **labels}}])
        )

    assert found(labels=TEAM) == 2
    without_rule(pods[1])
    assert (found(labels=TEAM), found()) == (1, 0)


@pytest.mark.parametrize(
    ("count", "when", "want"),
    [(5, "DoNotSchedule", 0), (6, "DoNotSchedule", 1), (6, "ScheduleAnyway", 0)],
)
def test_pods_must_be_spread_over_all_zones(count, when, want):
    nodes = node("n", "moon-1"), node("m", "moon-2")

    assert len(problems(*nodes, *spread(count, when))) == want


def test_a_node_has_no_more_volumes_than_its_driver_allows():
    limit = templates.CSI_LIMIT
    driver = [templates.csi_node("n", limit)]

    assert problems(node("n"), *with_volumes(limit), csi_nodes=driver) == []
    assert problems(node("n"), *with_volumes(limit + 1), csi_nodes=driver) == [
        "n has 40 volumes of at most 39"
    ]


def claim(name, *devices, pool="n", uid="u-p"):
    """Return a claim with devices that is reserved for a pod."""
    results = [
        {"request": "r", "driver": "d.example", "pool": pool, "device": each} for each in devices
    ]
    return {
        "metadata": {"namespace": "sched-0", "name": name},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": uid}],
        },
    }


def claiming(**status):
    made = pod("p", "n")
    made["metadata"]["uid"] = "u-p"
    return {**made, "status": status}


def with_claim():
    return claiming(resourceClaimStatuses=[{"name": "x", "resourceClaimName": "c"}])


def with_extended_resource(amount):
    """Return a pod whose claim `c` has the devices for its extended resource."""
    container = pod("p", "n")["spec"]["containers"][0]["name"]
    mapping = {"containerName": container, "resourceName": "gpu", "requestName": "r"}
    made = claiming(
        extendedResourceClaimStatus={"resourceClaimName": "c", "requestMappings": [mapping]}
    )
    made["spec"]["containers"][0]["resources"]["requests"]["gpu"] = amount
    return made


@pytest.mark.parametrize(
    ("claims", "want"),
    [
        ([claim("c", "d0")], []),
        ([], ["sched-0/p has a node, and its claim c is not reserved for it"]),
        (
            [claim("c", "d0", uid="u-q")],
            ["sched-0/p has a node, and its claim c is not reserved for it"],
        ),
        (
            [claim("c", "d0", pool="m")],
            ["sched-0/p is on another node than the devices of its claim c"],
        ),
        (
            [claim("c", "d0"), claim("other", "d0")],
            ["device d.example/n/d0 is allocated to 2 claims"],
        ),
    ],
    ids=["right", "gone", "of another pod", "of another node", "used twice"],
)
def test_a_pod_has_the_devices_of_its_claim(claims, want):
    assert problems(node("n"), with_claim(), claims=claims) == want


def test_devices_of_a_class_provide_an_extended_resource():
    two = [claim("c", "d0", "d1")]

    assert problems(node("n"), with_extended_resource("2"), claims=two) == []
    assert problems(node("n"), with_extended_resource("3"), claims=two) == [
        "sched-0/p has 2 devices for 3 gpu"
    ]
    assert problems(node("n"), with_extended_resource("1"), claims=[]) == [
        "sched-0/p has a node, and its claim c is not reserved for it",
        "sched-0/p has 0 devices for 1 gpu",
    ]


def test_an_extended_resource_without_a_claim_is_the_nodes():
    plugged = with_extended_resource("2")
    del plugged["status"]

    assert problems(node("n", gpu="2"), plugged) == []
    assert problems(node("n", gpu="1"), plugged) == ["n is over-allocated: gpu 2.0 of 1.0"]


@pytest.mark.parametrize(
    ("text", "want"),
    [("100m", 0.1), ("4", 4), ("0.5", 0.5), ("2Ki", 2048), ("1M", 1e6), ("32Gi", 32 * 2**30)],
)
def test_quantities_are_read(text, want):
    assert verify.quantity(text) == pytest.approx(want)
