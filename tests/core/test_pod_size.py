"""A pod with more parts than any that people write is refused before any rule looks at it."""

import pytest

from scheduler.core.attempt.scheduling_attempt import TOO_LARGE
from scheduler.model.api.objects import InlineCSI, Volume
from scheduler.model.api.pod_size import MAX_PARTS
from scheduler.model.api.pod_spec import Container, ContainerPort
from scheduler.model.decisions import Placed, Unschedulable
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster


def with_containers(count: int) -> PodBuilder:
    return pod("p").spec(containers=[Container(name=f"c{each}") for each in range(count)])


def with_ports(count: int) -> PodBuilder:
    ports = [ContainerPort(host_port=1 + each) for each in range(count)]
    return pod("p").spec(containers=[Container(name="c", ports=ports)])


def with_volumes(count: int) -> PodBuilder:
    volumes = [Volume(name=f"v{each}", csi=InlineCSI("csi.example")) for each in range(count)]
    return with_containers(1).spec(volumes=volumes)


@pytest.mark.parametrize(
    "large",
    [
        pytest.param(with_containers(MAX_PARTS + 1), id="containers"),
        pytest.param(with_ports(MAX_PARTS), id="ports"),
        pytest.param(with_volumes(MAX_PARTS), id="volumes"),
    ],
)
def test_a_pod_that_is_too_large_is_refused_with_a_reason(large):
    cluster = Cluster(node("n1").cpu("4"), pod("low").on("n1").cpu("4").priority(0))

    decision = cluster.schedule(large.priority(10))

    assert decision == Unschedulable(f"0/1 nodes are available: {TOO_LARGE}.")
    assert cluster.evicted() == []
    said = cluster.pod("p").condition("PodScheduled")
    assert said is not None
    assert said.message == decision.message


def test_a_pod_of_just_that_size_is_placed():
    cluster = Cluster(node("n1").cpu("4"))

    assert cluster.schedule(with_volumes(MAX_PARTS - 1)) == Placed("n1")


def test_its_quantities_are_not_even_read():
    odd = [Container(name=f"c{each}") for each in range(MAX_PARTS + 1)]
    cluster = Cluster(node("n1").cpu("4"))

    cluster.add(
        pod("p")
        .cpu("no quantity")
        .spec(containers=[*pod("x").cpu("no").object.spec.containers, *odd])
    )

    assert cluster.refused == ""
