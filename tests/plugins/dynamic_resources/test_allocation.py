"""Which devices a claim gets, and on which node: decisions of the whole core."""

import pytest
from msgspec.structs import replace

from scheduler.model.api.device_claims import ConfigOfClaim, OpaqueConfig
from scheduler.model.api.devices import Capacity, CapacityRange, ConfigOfClass, RequestPolicy
from scheduler.model.api.objects import NodeSelector
from scheduler.model.decisions import Failed, Placed, Unschedulable
from scheduler.model.releases import V1_36, V1_37
from scheduler.plugins.dynamic_resources.allocation_cache import AllocationCache, ClaimToAllocate
from scheduler.plugins.dynamic_resources.structured.allocation_results import allocation_results
from tests.support.builders import node, requirement, term
from tests.support.cluster import Cluster
from tests.support.devices import (
    DRIVER,
    allocated,
    choice,
    claim,
    claiming,
    consuming,
    counters,
    device,
    device_class,
    devices_of,
    different,
    gpus,
    one_of,
    same,
    tainted,
    tolerating,
    wants,
)

NUMA = f"{DRIVER}/numa"
CANNOT = "cannot allocate all claims"


def decided(*objects, asked):
    """Return the decision on a pod with one claim, and the devices of the claim."""
    cluster = Cluster(node("n1"), device_class(), *objects, asked)
    decision = cluster.schedule(claiming("p", asked.metadata.name))
    return decision, devices_of(cluster.claim(asked.metadata.name))


@pytest.mark.parametrize(
    ("slices", "requests", "want"),
    [
        pytest.param([gpus("n1", "d0", "d1")], [wants()], ["r=n1/d0"], id="the first one"),
        pytest.param(
            [gpus("n1", "d0", name="b", pool="z"), gpus("n1", "d0", name="a", pool="y")],
            [wants(count=2)],
            ["r=y/d0", "r=z/d0"],
            id="pools by name",
        ),
        pytest.param(
            [gpus("n1", "late", name="b", count=2), gpus("n1", "soon", name="a", count=2)],
            [wants(count=2)],
            ["r=n1/soon", "r=n1/late"],
            id="slices by name",
        ),
        pytest.param(
            [gpus("n1", "old"), gpus("n1", "new", name="x", generation=2)],
            [wants()],
            ["r=n1/new"],
            id="the newest generation",
        ),
        pytest.param(
            [gpus("n1", device("a", size=2), device("b", size=1))],
            [wants("any"), wants("big", "gpu", f'device.attributes["{DRIVER}"].size == 2')],
            ["any=n1/b", "big=n1/a"],
            id="an earlier request gives way",
        ),
        pytest.param(
            [gpus("n1", tainted("a"), tainted("b", "None"), "c")],
            [wants(count=2)],
            ["r=n1/b", "r=n1/c"],
            id="taints",
        ),
        pytest.param(
            [gpus("n1", tainted("a"))],
            [wants(tolerations=tolerating())],
            ["r=n1/a"],
            id="a tolerated taint",
        ),
        pytest.param(
            [gpus("n1", "a", "b", "c")], [wants(mode="All")], ["r=n1/a", "r=n1/b", "r=n1/c"],
            id="all",
        ),
        pytest.param(
            [gpus("n1", "a")],
            [one_of("r", choice("two", count=2), choice("one"))],
            ["r/one=n1/a"],
            id="the second choice",
        ),
        pytest.param(
            [gpus("n1", "a")],
            [one_of("r", choice("many", count=500), choice("one"))],
            ["r/one=n1/a"],
            id="a choice beyond the limit",
        ),
        pytest.param(
            [counters("n1", memory="4"),
             gpus("n1", consuming("a", memory="3"), consuming("b", memory="3"),
                  consuming("c", memory="1"), count=2)],
            [wants(count=2)],
            ["r=n1/a", "r=n1/c"],
            id="counters",
        ),
    ],
)  # fmt: skip
def test_the_devices_of_a_claim(slices, requests, want):
    decision, devices = decided(*slices, asked=claim("c", *requests))

    assert decision == Placed("n1")
    assert devices == want


@pytest.mark.parametrize(
    ("devices", "constraint", "want"),
    [
        (["01", "11"], same(NUMA), None),
        (["0", "1", "1"], same(NUMA), ["1", "2"]),
        (["0", "0", "1"], different(NUMA), ["0", "2"]),
        (["0", "0"], different(NUMA), None),
    ],
    ids=["none agree", "the first two that agree", "the first two that differ", "none differ"],
)
def test_constraints_hold_between_the_devices_of_a_claim(devices, constraint, want):
    made = [device(str(number), numa=numa) for number, numa in enumerate(devices)]
    asked = claim("c", wants(count=2), constraints=[constraint])

    decision, found = decided(gpus("n1", *made), asked=asked)

    assert found == ([] if want is None else [f"r=n1/{each}" for each in want])
    assert isinstance(decision, Unschedulable if want is None else Placed)


def test_distinct_attribute_compares_all_devices_of_a_request():
    slots = [device(str(number), numa=numa) for number, numa in enumerate(["a", "b", "a"])]
    asked = claim("c", wants(count=3), constraints=[different(NUMA)])

    assert isinstance(decided(gpus("n1", *slots), asked=asked)[0], Unschedulable)


@pytest.mark.parametrize(
    ("slices", "asked", "want"),
    [
        pytest.param(
            [gpus("n1", "a", count=2)], claim("c", wants(mode="All")),
            "claim default/c, request r: asks for all devices, but resource pool "
            f"{DRIVER}/n1 is currently being updated", id="all of an incomplete pool",
        ),
        pytest.param(
            [gpus("n1", "a", "a")], claim("c", wants(mode="All")),
            "claim default/c, request r: asks for all devices, but resource pool "
            f"{DRIVER}/n1 is currently invalid", id="all of an invalid pool",
        ),
        pytest.param(
            [gpus("n1", "a")], claim("c", wants(count=33)),
            "claim default/c: number of requested devices 33 exceeds the claim limit of 32",
            id="too many",
        ),
        pytest.param(
            [gpus("n1", device("a", numa=0), device("b", numa=1))],
            claim("c", wants(mode="All"), constraints=[same(NUMA)]),
            f"claim default/c, request r: cannot add device {DRIVER}/n1/b because a claim "
            "constraint would not be satisfied", id="all against a constraint",
        ),
        pytest.param(
            [gpus("n1", "a")], claim("c", wants("r", "gpu", "device.nothing")),
            "claim default/c: selector #0: CEL compile error: ", id="a selector",
        ),
    ],
)  # fmt: skip
def test_an_error_on_one_node_ends_the_attempt_even_if_another_node_fits(slices, asked, want):
    decision, devices = decided(node("n2"), gpus("n2", "good"), *slices, asked=asked)

    assert isinstance(decision, Failed)
    assert decision.message.startswith(f'running "DynamicResources" filter plugin: {want}')
    assert devices == []


def test_a_selector_is_not_evaluated_for_devices_after_the_allocated_one():
    slices = gpus("n1", device("good", model="a"), "broken")
    asked = claim("c", wants("r", "gpu", f'device.attributes["{DRIVER}"].model == "a"'))

    assert decided(slices, asked=asked) == (Placed("n1"), ["r=n1/good"])


def test_an_invalid_pool_is_the_reason_if_no_other_pool_has_devices():
    decision, _ = decided(gpus("n1", "a", "a"), asked=claim("c", wants()))

    assert isinstance(decision, Unschedulable)
    assert "1 invalid resource pools were encountered." in decision.message


def test_admin_access_shares_a_device_that_is_in_use_but_not_within_one_claim():
    used = allocated("used", "n1/a", on="n1", by=("other",))
    twice = claim("c", wants("x", admin=True), wants("y", admin=True))

    assert decided(gpus("n1", "a"), used, asked=claim("c", wants(admin=True)))[0] == Placed("n1")
    assert isinstance(decided(gpus("n1", "a"), used, asked=twice)[0], Unschedulable)


def test_a_device_is_free_when_its_claim_is_deallocated():
    cluster = Cluster(node("n1"), device_class(), gpus("n1", "a"), claim("c", wants()))
    cluster.add(allocated("used", "n1/a", on="n1", by=("other",)))

    before = cluster.schedule(claiming("p", "c"))
    cluster.add(claim("used", wants()))
    cluster.wait(60)
    after = cluster.drain()[-1].decision

    assert isinstance(before, Unschedulable)
    assert after == Placed("n1")


@pytest.mark.parametrize(
    ("asked", "want"),
    [("1Gi", "2Gi"), ("5Gi", "6Gi"), (None, "2Gi"), ("21Gi", None), ("20Gi", "20Gi")],
)
def test_a_share_of_a_device_consumes_capacity_by_its_request_policy(asked, want):
    limits = RequestPolicy("2Gi", [], CapacityRange("2Gi", "20Gi", "2Gi"))
    shared = device(
        "d", capacity={"memory": Capacity("40Gi", limits)}, allow_multiple_allocations=True
    )
    request = wants(capacity=None if asked is None else {"memory": asked})
    cluster = Cluster(node("n1"), device_class(), gpus("n1", shared), claim("c", request))

    cluster.schedule(claiming("p", "c"))

    allocation = cluster.claim("c").status.allocation
    results = [] if allocation is None else allocation.devices.results
    assert [each.consumed_capacity for each in results] == ([{"memory": want}] if want else [])
    assert all(each.share_id for each in results)


def test_shares_are_allocated_while_capacity_is_left():
    shared = device("d", capacity={"bw": "10G"}, allow_multiple_allocations=True)
    cluster = Cluster(node("n1"), device_class(), gpus("n1", shared))
    decisions = []
    for name, amount in (("a", "6G"), ("b", "5G"), ("c", "4G")):
        cluster.add(claim(name, wants(capacity={"bw": amount})))
        decisions.append(isinstance(cluster.schedule(claiming(f"p{name}", name)), Placed))

    assert decisions == [True, False, True]


def test_claims_of_one_pod_never_share_a_device():
    cluster = Cluster(node("n1"), device_class(), gpus("n1", "a", "b"))
    cluster.add(claim("x", wants()), claim("y", wants()))

    assert cluster.schedule(claiming("p", "x", "y")) == Placed("n1")
    assert devices_of(cluster.claim("x")) == ["r=n1/a"]
    assert devices_of(cluster.claim("y")) == ["r=n1/b"]


def test_the_allocation_of_a_device_of_several_nodes_selects_these_nodes():
    where = node("n1").label("rack", "a"), node("n2").label("rack", "b")

    rack = NodeSelector([term(requirement("rack", "In", "b"))])
    cluster = Cluster(*where, device_class(), gpus("", "d", name="net", node_selector=rack))
    cluster.add(claim("c", wants()))

    assert cluster.schedule(claiming("p", "c")) == Placed("n2")
    allocation = cluster.claim("c").status.allocation
    assert allocation is not None
    assert allocation.node_selector == rack


def tangled():
    """Return a cluster where a search on n1 takes longer than it may."""
    config = """
    profiles:
    - schedulerName: preemptive-scheduler
      pluginConfig:
      - {name: DynamicResources, args: {filterTimeout: 1ms}}
    """
    # Five devices consume too much of both counters together, which shows in neither of them.
    parts = [
        consuming(f"d{size}", memory=str(100 + size), cores=str(112 - size)) for size in range(12)
    ]
    slices = counters("n1", memory="525", cores="525"), gpus("n1", *parts, count=2)
    asked = claim("c", wants(count=5))
    return Cluster(node("n1"), node("n2"), device_class(), *slices, asked, config=config)


@pytest.mark.parametrize("fits_elsewhere", [False, True])
def test_an_allocation_timeout_ends_the_attempt_only_if_no_other_node_fits(fits_elsewhere):
    cluster = tangled()
    if fits_elsewhere:
        cluster.add(unlike(5, "n2"))

    decision = cluster.schedule(claiming("p", "c"))

    assert isinstance(decision, Placed if fits_elsewhere else Failed)
    if isinstance(decision, Failed):
        assert decision.message.endswith("node n1: timed out trying to allocate devices")


def test_a_node_with_an_allocation_timeout_is_evaluated_again_when_its_devices_change():
    cluster = tangled()

    before = cluster.schedule(claiming("p", "c"))
    cluster.add(counters("n1", memory="550", cores="550"))
    cluster.wait(60)

    assert isinstance(before, Failed)
    assert cluster.drain()[-1].decision == Placed("n1")


def unlike(count, node="n1"):
    """Return the slice of a node whose devices differ in what no claim asks for."""
    return gpus(node, *(device(f"d{each}", uuid=f"{node}-{each}") for each in range(count)))


@pytest.mark.parametrize("count", [8, 12, 16, 24, 32])
@pytest.mark.parametrize("parts", [1, 2, 3, 4])
@pytest.mark.parametrize("unique", [None, "uuid"])
def test_a_node_that_lacks_one_device_causes_no_allocation_timeout(count, parts, unique):
    constraints = [] if unique is None else [different(f"{DRIVER}/{unique}")]
    numbers = [count // parts] * (parts - 1)
    numbers.append(count - sum(numbers))
    requests = [wants(f"r{at}", count=number) for at, number in enumerate(numbers)]
    used = allocated("used", "n1/d0", on="n1", by=("other",))
    cluster = Cluster(node("n1"), node("n2"), device_class(), unlike(count), unlike(count, "n2"))
    cluster.add(used, claim("c", *requests, constraints=constraints))

    assert cluster.schedule(claiming("p", "c")) == Placed("n2")
    assert len(devices_of(cluster.claim("c"))) == count


@pytest.mark.parametrize(
    ("odd", "requests", "expected"),
    [
        # A list can only be the value of the first one that is taken.
        ({"uuid": ["a"]}, [wants("r0"), wants("r1", count=11)], "n1"),
        # This is met where the first request has two of the last devices.
        ({}, [wants("r0", count=2), wants("r1", mode="All")], "cannot add device"),
    ],
)
def test_a_device_with_an_odd_value_is_equivalent_to_no_other(odd, requests, expected):
    unique = [device(f"d{each}", uuid=str(each)) for each in range(11)]
    slice_of_n1 = gpus("n1", *unique[:7], device("odd", **odd), *unique[7:])
    asked = claim("c", *requests, constraints=[different(f"{DRIVER}/uuid")])
    cluster = Cluster(node("n1"), device_class(), slice_of_n1, asked)

    assert expected in str(cluster.schedule(claiming("p", "c")))


def test_a_request_for_more_equal_devices_than_there_are_fails_without_a_timeout():
    equal = [f"d{number}" for number in range(31)]

    decision, _ = decided(gpus("n1", *equal), asked=claim("c", wants(count=32)))

    assert isinstance(decision, Unschedulable)
    assert CANNOT in decision.message


def test_a_pod_that_requests_more_devices_than_the_allocator_handles_fails():
    names = [f"c{number}" for number in range(12)]
    cluster = Cluster(node("n1"), device_class(), gpus("n1", *(f"d{n}" for n in range(400))))
    cluster.add(*(claim(name, wants(count=32)) for name in names))

    decision = cluster.schedule(claiming("p", *names))

    assert isinstance(decision, Failed)
    assert "more devices than preemptive-scheduler searches for" in decision.message


@pytest.mark.parametrize(("rules", "named"), [(V1_36, ["r", "s"]), (V1_37, [])], ids=["36", "37"])
def test_each_configuration_of_class_and_claim_is_added_once(rules, named):
    of_class = [ConfigOfClass(OpaqueConfig("d", {"from": "class"}))]
    made = device_class()
    made = replace(made, spec=replace(made.spec, config=of_class))
    asked = claim("c", wants("r"), wants("s"))
    config = [
        ConfigOfClaim(["r", "s"], OpaqueConfig("d", {"from": "claim"})),
        ConfigOfClaim(["s"], OpaqueConfig("d", {"from": "s"})),
        ConfigOfClaim(["nobody"], OpaqueConfig("d", {"from": "none"})),
    ]
    wanted = replace(asked.spec.devices, config=config)
    cluster = Cluster(node("n1"), made, gpus("n1", "a", "b"))
    devices = cluster.machine.cluster.devices
    (n1,) = cluster.nodes.values()
    claims = [ClaimToAllocate.in_memory("default/c", "u", wanted)]
    compiled, result = AllocationCache(devices, 10).allocate(claims, n1)

    (allocation,) = allocation_results(compiled, result, ["u"], "n1", rules)

    assert [(each.source, each.requests) for each in allocation.devices.config] == [
        ("FromClass", named), ("FromClaim", named), ("FromClaim", ["s"]),
    ]  # fmt: skip
