"""The footprint of a pod: its requests and host ports."""

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.model.api.objects import ContainerStatus, ResourceRequirements
from scheduler.model.api.quantity import QuantityError
from scheduler.state.columns import pod_footprints as module
from scheduler.state.columns.pod_footprints import HostPort, PodFootprint, PodFootprints
from scheduler.state.columns.resource_axis import ResourceAxis
from tests.support.builders import PodBuilder, container, pod

MI = 1024 * 1024


GPU = "example.com/gpu"


@pytest.fixture
def axis() -> ResourceAxis:
    return ResourceAxis()


@pytest.fixture
def footprints(axis: ResourceAxis) -> PodFootprints:
    return PodFootprints(axis)


def footprint_of(footprints: PodFootprints, builder: PodBuilder) -> PodFootprint:
    return footprints.of(builder.build())


def test_a_shape_contains_requests_scores_and_ports(axis, footprints):
    axis.offer(GPU)
    builder = pod("p").requests({"cpu": "1", GPU: "2"}).port(80)

    assert footprint_of(footprints, builder) == PodFootprint(
        requests=((0, 1000), (3, 2)),
        non_zero=(1000, 200 * MI),
        ports=(HostPort("0.0.0.0", "TCP", 80),),
    )


def test_amounts_of_zero_are_left_out(footprints):
    assert footprint_of(footprints, pod("p").requests(cpu="0", memory="0")).requests == ()


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


def test_an_infeasible_resize_has_another_shape_than_a_pending_one(footprints):
    pending = pod("p").cpu("4").granted(cpu="1")

    infeasible = pending.condition("PodResizePending", "True", "Infeasible")

    assert footprint_of(footprints, pending).requests == ((0, 4000),)
    assert footprint_of(footprints, infeasible).requests == ((0, 1000),)


def test_amounts_are_returned_by_shape_and_are_0_for_no_pod(footprints):
    small, large = (
        footprints.acquire(pod("a").cpu("1").build()),
        footprints.acquire(pod("b").cpu("2").build()),
    )

    amounts = footprints.amounts(0)

    assert (amounts[small], amounts[large], amounts[-1]) == (1000, 2000, 0)
    assert not footprints.amounts(17).any()


def test_shapes_with_ports_are_known(footprints):
    plain, listening = (
        footprints.acquire(pod("a").build()),
        footprints.acquire(pod("b").port(80).build()),
    )

    have = footprints.have_ports()

    assert (bool(have[plain]), bool(have[listening]), bool(have[-1])) == (False, True, False)


def test_a_request_that_is_no_quantity_is_an_error(footprints):
    with pytest.raises(QuantityError):
        footprints.acquire(pod("p").cpu("lots").build())


def test_a_resource_that_no_node_offers_has_no_code(footprints):
    assert footprint_of(footprints, pod("p").requests({"cpu": "1", GPU: "2"})) == PodFootprint(
        requests=((0, 1000),), non_zero=(1000, 200 * MI), ports=(), beyond=True
    )


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
