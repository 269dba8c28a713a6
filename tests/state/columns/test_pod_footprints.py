"""The footprint of a pod: its requests and host ports."""

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.model.api.objects import ContainerStatus, ResourceRequirements
from scheduler.state.columns import pod_footprints as module
from scheduler.state.columns.pod_footprints import PodFootprints
from scheduler.state.columns.resource_axis import ResourceAxis
from tests.support.builders import container, pod

GPU = "example.com/gpu"


@pytest.fixture
def axis() -> ResourceAxis:
    return ResourceAxis()


@pytest.fixture
def footprints(axis: ResourceAxis) -> PodFootprints:
    return PodFootprints(axis)


def test_pods_of_equal_containers_share_a_shape(footprints):
    one = pod("a").cpu("1").priority(5).label("app", "a").build()
    other = pod("b").cpu("1").on("n1").build()

    assert footprints.acquire(one) == footprints.acquire(other)


def test_spellings_of_one_amount_share_a_shape(footprints):
    assert footprints.acquire(pod("a").cpu("500m").build()) == footprints.acquire(
        pod("b").cpu("0.5").build()
    )


DIFFERENT = {
    "another request": pod("p").cpu("2"),
    "another port": pod("p").cpu("1").port(80),
    "a second container": pod("p").containers(container(cpu="1"), container()),
    "a sidecar": pod("p").cpu("1").init(replace(container(cpu="1"), restart_policy="Always")),
    "a larger init container": pod("p").cpu("1").init(container(cpu="2")),
    "overhead": pod("p").cpu("1").spec(overhead={"cpu": "1"}),
    "pod level": pod("p").cpu("1").spec(resources=ResourceRequirements({"cpu": "3"})),
    "a resize": pod("p").cpu("1").granted(cpu="4"),
    "an allocation": pod("p")
    .cpu("1")
    .status(container_statuses=[ContainerStatus("main", ResourceRequirements(), {"cpu": "2"})]),
}


@pytest.mark.parametrize("other", DIFFERENT.values(), ids=DIFFERENT)
def test_pods_with_other_requests_or_ports_have_another_shape(footprints, other):
    assert footprints.acquire(pod("p").cpu("1").build()) != footprints.acquire(other.build())


def test_shapes_follow_what_nodes_offer(axis, footprints):
    code = footprints.acquire(pod("p").requests({"cpu": "1", GPU: "2"}).build())
    other = footprints.acquire(pod("q").requests({"cpu": "1", f"{GPU}s": "2"}).build())

    resource = axis.offer(GPU)
    footprints.offer(resource)

    assert (footprints[code].requests, footprints[code].beyond) == (
        ((0, 1000), (resource, 2)),
        False,
    )
    assert (footprints[other].requests, footprints[other].beyond) == (((0, 1000),), True)
    assert (footprints.amounts(resource)[code], footprints.amounts(resource)[other]) == (2, 0)

    axis.withdraw(GPU)
    axis.take_changes()
    footprints.withdraw(resource)

    assert (footprints[code].requests, footprints[code].beyond) == (((0, 1000),), True)
    assert not footprints.amounts(resource).any()


def test_the_code_of_a_shape_without_pods_is_reused(footprints):
    for number in range(10_000):
        code = footprints.acquire(pod("p").cpu(str(number + 1)).port(number + 1).build())
        footprints.release(code)

    assert len(footprints) == 0
    assert footprints.amounts(0).shape[0] < 2100
    assert np.count_nonzero(footprints.amounts(0)) == np.count_nonzero(footprints.have_ports())


def test_codes_stay_when_the_cache_of_specs_is_emptied(footprints):
    first = footprints.acquire(pod("p").cpu("1").build())

    for number in range(module._MEMORY_BYTES // 50):
        footprints.of(pod("p").cpu("1").spec(overhead={f"odd-{number}": "1"}).build())

    assert footprints.acquire(pod("p").cpu("1").build()) == first
