"""The shape of a pod: its requests and host ports."""

import numpy as np
import pytest
from msgspec.structs import replace

from scheduler.model.api.objects import ContainerStatus, ResourceRequirements
from scheduler.model.api.quantity import QuantityError
from scheduler.state.columns import pod_shapes as module
from scheduler.state.columns.pod_shapes import HostPort, Shape, Shapes
from scheduler.state.columns.resource_axis import ResourceAxis
from tests.support.builders import PodBuilder, container, pod

MI = 1024 * 1024


GPU = "example.com/gpu"


@pytest.fixture
def axis() -> ResourceAxis:
    return ResourceAxis()


@pytest.fixture
def shapes(axis: ResourceAxis) -> Shapes:
    return Shapes(axis)


def shape_of(shapes: Shapes, builder: PodBuilder) -> Shape:
    return shapes.of(builder.build())


def test_a_shape_holds_requests_scores_and_ports(axis, shapes):
    axis.offer(GPU)
    builder = pod("p").requests({"cpu": "1", GPU: "2"}).port(80)

    assert shape_of(shapes, builder) == Shape(
        requests=((0, 1000), (3, 2)),
        non_zero=(1000, 200 * MI),
        ports=(HostPort("0.0.0.0", "TCP", 80),),
    )


def test_amounts_of_zero_are_left_out(shapes):
    assert shape_of(shapes, pod("p").requests(cpu="0", memory="0")).requests == ()


def test_pods_of_equal_containers_share_a_shape(shapes):
    one = pod("a").cpu("1").priority(5).label("app", "a").build()
    other = pod("b").cpu("1").on("n1").build()

    assert shapes.acquire(one) == shapes.acquire(other)


def test_spellings_of_one_amount_share_a_shape(shapes):
    assert shapes.acquire(pod("a").cpu("500m").build()) == shapes.acquire(
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
def test_pods_with_other_requests_or_ports_have_another_shape(shapes, other):
    assert shapes.acquire(pod("p").cpu("1").build()) != shapes.acquire(other.build())


def test_an_infeasible_resize_has_another_shape_than_a_pending_one(shapes):
    pending = pod("p").cpu("4").granted(cpu="1")

    infeasible = pending.condition("PodResizePending", "True", "Infeasible")

    assert shape_of(shapes, pending).requests == ((0, 4000),)
    assert shape_of(shapes, infeasible).requests == ((0, 1000),)


def test_amounts_are_given_by_shape_and_are_0_for_no_pod(shapes):
    small, large = (
        shapes.acquire(pod("a").cpu("1").build()),
        shapes.acquire(pod("b").cpu("2").build()),
    )

    amounts = shapes.amounts(0)

    assert (amounts[small], amounts[large], amounts[-1]) == (1000, 2000, 0)
    assert not shapes.amounts(17).any()


def test_shapes_with_ports_are_known(shapes):
    plain, listening = shapes.acquire(pod("a").build()), shapes.acquire(pod("b").port(80).build())

    have = shapes.have_ports()

    assert (bool(have[plain]), bool(have[listening]), bool(have[-1])) == (False, True, False)


def test_a_request_that_is_no_quantity_is_an_error(shapes):
    with pytest.raises(QuantityError):
        shapes.acquire(pod("p").cpu("lots").build())


def test_a_resource_that_no_node_offers_has_no_code(shapes):
    assert shape_of(shapes, pod("p").requests({"cpu": "1", GPU: "2"})) == Shape(
        requests=((0, 1000),), non_zero=(1000, 200 * MI), ports=(), beyond=True
    )


def test_shapes_follow_what_nodes_offer(axis, shapes):
    code = shapes.acquire(pod("p").requests({"cpu": "1", GPU: "2"}).build())
    other = shapes.acquire(pod("q").requests({"cpu": "1", f"{GPU}s": "2"}).build())

    resource = axis.offer(GPU)
    shapes.offer(resource)

    assert (shapes[code].requests, shapes[code].beyond) == (((0, 1000), (resource, 2)), False)
    assert (shapes[other].requests, shapes[other].beyond) == (((0, 1000),), True)
    assert (shapes.amounts(resource)[code], shapes.amounts(resource)[other]) == (2, 0)

    axis.withdraw(GPU)
    axis.settle()
    shapes.withdraw(resource)

    assert (shapes[code].requests, shapes[code].beyond) == (((0, 1000),), True)
    assert not shapes.amounts(resource).any()


def test_the_code_of_a_shape_without_pods_is_reused(shapes):
    for number in range(10_000):
        code = shapes.acquire(pod("p").cpu(str(number + 1)).port(number + 1).build())
        shapes.release(code)

    assert len(shapes) == 0
    assert shapes.amounts(0).shape[0] < 2100
    assert np.count_nonzero(shapes.amounts(0)) == np.count_nonzero(shapes.have_ports())


def test_codes_stay_when_the_cache_of_specs_is_emptied(shapes):
    first = shapes.acquire(pod("p").cpu("1").build())

    for number in range(module._MEMORY_BYTES // 50):
        shapes.of(pod("p").cpu("1").spec(overhead={f"odd-{number}": "1"}).build())

    assert shapes.acquire(pod("p").cpu("1").build()) == first
