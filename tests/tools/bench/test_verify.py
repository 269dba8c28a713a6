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


def test_pods_that_all_have_a_node_with_room_are_right():
    assert problems(node("n"), pod("a", "n"), pod("b", "n"), measured=("a", "b")) == []


def test_a_measured_pod_must_have_a_node_and_be_there():
    found = problems(node("n"), pod("a", ""), measured=("a", "b"))

    assert found == ["sched-0/a has no node", "sched-0/b is gone"]


def test_of_many_problems_of_a_kind_the_first_are_told():
    found = problems(node("n"), measured="abcdefg")

    assert found[3:] == ["... and 4 more like that"]


@pytest.mark.parametrize(
    ("room", "want"),
    [
        ({"cpu": "199m"}, "n is over-allocated: cpu 0.2 of 0.199"),
        ({"memory": "999Mi"}, "n is over-allocated: memory 1048576000.0 of 1047527424.0"),
        ({"pods": "1"}, "n is over-allocated: pods 2.0 of 1.0"),
    ],
    ids=["cpu", "memory", "number of pods"],
)
def test_a_node_must_not_be_over_allocated(room, want):
    assert problems(node("n", **room), pod("a", "n"), pod("b", "n")) == [want]


def test_a_node_may_be_full():
    full = {"cpu": "200m", "memory": "1000Mi", "pods": "2"}

    assert problems(node("n", **full), pod("a", "n"), pod("b", "n")) == []


def test_a_host_port_is_given_once_on_a_node():
    def port(index):
        return templates.with_port(templates.pod("10m")(index), 8000 + index % 2)

    assert problems(node("n"), pod("a", "n", port, index=0), pod("b", "n", port, index=1)) == []
    assert problems(node("n"), pod("a", "n", port, index=0), pod("b", "n", port, index=2)) == [
        "sched-0/b: port 8000 of n was taken"
    ]


def test_a_pod_must_be_on_a_node_that_it_wants():
    wants = templates.node_affinity_pod()

    assert problems(node("n", "zone2"), pod("a", "n", wants)) == []
    assert problems(node("n", "zone3"), pod("a", "n", wants)) == ["sched-0/a must not be on n"]


def test_a_pinned_pod_must_be_on_its_node():
    pinned = templates.pinned_pod()

    assert problems(node(templates.NAMED_NODE), pod("a", templates.NAMED_NODE, pinned)) == []
    assert problems(node("n"), pod("a", "n", pinned)) == ["sched-0/a must not be on n"]


def test_pods_that_stay_apart_must_not_share_a_domain():
    apart = pod_affinity_pod("podAntiAffinity", "green", HOSTNAME, required=True)

    assert problems(node("n"), node("m"), pod("a", "n", apart), pod("b", "m", apart)) == []
    assert problems(node("n"), pod("a", "n", apart), pod("b", "n", apart)) == [
        "sched-0/a is beside 1 pods that it must not be beside",
        "sched-0/b is beside 1 pods that it must not be beside",
    ]


def test_a_pod_may_share_a_domain_with_pods_of_which_its_rule_does_not_speak():
    apart = pod_affinity_pod("podAntiAffinity", "green", HOSTNAME, required=True)
    elsewhere = pod("b", "n", apart, namespace="elsewhere")
    del elsewhere["spec"]["affinity"]

    assert problems(node("n"), pod("a", "n", apart), pod("c", "n"), elsewhere) == []


def test_namespaces_are_found_by_their_labels():
    apart = pod_affinity_pod("podAntiAffinity", "green", HOSTNAME, required=True, team=True)
    pods = [pod("a", "n", apart, namespace="one"), pod("b", "n", apart, namespace="two")]

    def spaces(labels):
        return [
            {"metadata": {"name": "one", "labels": TEAM}},
            {"metadata": {"name": "two", **labels}},
        ]

    assert len(problems(node("n"), *pods, namespaces=spaces({"labels": TEAM}))) == 2

    del pods[1]["spec"]["affinity"]
    assert len(problems(node("n"), *pods, namespaces=spaces({"labels": TEAM}))) == 1
    assert problems(node("n"), *pods, namespaces=spaces({})) == []


def test_a_pod_must_be_beside_its_company_unless_it_has_none():
    near = pod_affinity_pod("podAffinity", "blue", ZONE, required=True)
    nodes = [node("n", "zone1"), node("m", "zone2")]

    assert problems(*nodes, pod("a", "n", near)) == []
    assert problems(*nodes, pod("a", "n", near), pod("b", "n", near)) == []
    assert problems(*nodes, pod("a", "n", near), pod("b", "m", near)) == [
        "sched-0/a is not beside any pod that it must be beside",
        "sched-0/b is not beside any pod that it must be beside",
    ]


@pytest.mark.parametrize(
    ("count", "when", "want"),
    [
        (5, "DoNotSchedule", 0),
        (6, "DoNotSchedule", 1),
        (6, "ScheduleAnyway", 0),
    ],
    ids=["at most 5 apart", "6 apart", "6 apart where that is only a wish"],
)
def test_pods_must_be_spread_over_all_zones(count, when, want):
    spread = templates.spread_pod(when)
    pods = [pod(f"p{index}", "n", spread) for index in range(count)]

    assert len(problems(node("n", "moon-1"), node("m", "moon-2"), *pods)) == want


def test_a_node_takes_no_more_volumes_than_its_driver_says():
    def with_volume(index):
        made = pod(f"p{index}", "n")
        claim = {"persistentVolumeClaim": {"claimName": f"c{index}"}}
        made["spec"]["volumes"] = [{"name": "vol", **claim}]
        return made

    limit = templates.CSI_LIMIT
    driver = [templates.csi_node("n", limit)]
    pods = [with_volume(index) for index in range(limit + 1)]

    assert problems(node("n"), *pods[:limit], csi_nodes=driver) == []
    assert problems(node("n"), *pods, csi_nodes=driver) == ["n has 40 volumes of at most 39"]


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
