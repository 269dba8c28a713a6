"""Which devices a claim gets, and on which node: decisions of the whole core."""

import pytest

from scheduler.model.decisions import Failed, Placed, Unschedulable
from tests.support.builders import node
from tests.support.cluster import Cluster
from tests.support.devices import (
    DRIVER,
    allocated,
    claim,
    claiming,
    consuming,
    counters,
    device,
    device_class,
    devices_of,
    different,
    gpus,
    wants,
)

CANNOT = "cannot allocate all claims"


def decided(*objects, asked):
    """Return the decision on a pod with one claim, and the devices of the claim."""
    cluster = Cluster(node("n1"), device_class(), *objects, asked)
    decision = cluster.schedule(claiming("p", asked.metadata.name))
    return decision, devices_of(cluster.claim(asked.metadata.name))


def test_what_is_taken_is_free_again_when_its_claim_loses_it():
    cluster = Cluster(node("n1"), device_class(), gpus("n1", "a"), claim("c", wants()))
    cluster.add(allocated("used", "n1/a", on="n1", by=("other",)))

    before = cluster.schedule(claiming("p", "c"))
    cluster.add(claim("used", wants()))
    cluster.wait(60)
    after = cluster.drain()[-1].decision

    assert isinstance(before, Unschedulable)
    assert after == Placed("n1")


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
