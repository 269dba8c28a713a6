"""Allocations that are being written, and reservations that are being taken back."""

import pytest
from msgspec.structs import replace

from scheduler.model.api.devices import DELETE_PROTECTION, ClaimStatus, ResourceClaim
from scheduler.model.decisions import Placed, Unschedulable
from scheduler.model.effects import Bind, BindClaims, DeallocateClaim, ReleaseClaims
from scheduler.model.events import ClaimAnswered, DevicesGone, DevicesObserved, FailureKind
from scheduler.queue.phases import QueuePhase
from tests.properties.taped import restored, snapshot_of
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.devices import (
    DRIVER,
    allocated,
    claim,
    claiming,
    device_class,
    gpus,
    wants,
)

GPU = "example.com/gpu"


def cluster_of(*objects) -> Cluster:
    return Cluster(node("n1"), device_class(), gpus("n1", "a", "b"), *objects)


def test_devices_of_an_allocation_in_flight_are_taken():
    cluster = cluster_of(claim("x", wants(count=2)), claim("y", wants()))
    cluster.hold(BindClaims)

    cluster.schedule(claiming("p", "x"))
    second = cluster.schedule(claiming("q", "y"))
    cluster.fail(kind=FailureKind.CONFLICT)
    cluster.wait(60)
    cluster.hold()

    assert isinstance(second, Unschedulable)
    assert (
        cluster.machine.cluster.devices.allocated_state.is_allocated((DRIVER, "n1", "a")) is False
    )
    assert [type(each) for each in cluster.asked(Bind)] == []


def test_a_pod_that_shares_a_claim_in_flight_waits_for_its_allocation():
    cluster = cluster_of(claim("c", wants()))
    cluster.hold(BindClaims)
    cluster.schedule(claiming("p", "c"))

    second = cluster.schedule(claiming("q", "c"))
    cluster.hold()
    cluster.done()
    cluster.wait(60)

    assert isinstance(second, Unschedulable)
    assert "resource claim default/c is in the process of being allocated." in second.message
    assert cluster.drain()[-1].decision == Placed("n1")
    assert len(cluster.claim("c").status.reserved_for) == 2


@pytest.mark.parametrize("kind", [None, FailureKind.REFUSED, FailureKind.UNAVAILABLE])
def test_a_pod_is_not_bound_while_its_claim_is_being_released(kind):
    cluster = cluster_of(claim("c", wants()))
    cluster.hold(Bind, ReleaseClaims)
    cluster.schedule(claiming("p", "c"))
    cluster.fail(kind=FailureKind.REFUSED)
    cluster.wait(3)
    placed = cluster.drain()[-1].decision
    before = [type(each) for each in cluster.held]

    cluster.hold()
    if kind is None:
        cluster.done()
    else:
        cluster.fail(kind=kind)

    assert placed == Placed("n1")
    assert before == [ReleaseClaims]
    assert cluster.pod("p").spec.node_name == "n1"
    assert cluster.claim("c").reserved_by("uid:default/p")


def test_a_claim_that_is_already_reserved_for_the_pod_is_reserved_again():
    # An earlier leader may have asked for its release.
    cluster = cluster_of(allocated("c", "n1/a", on="n1", by=("p",)))

    cluster.schedule(claiming("p", "c"))

    assert [type(each) for each in cluster.asked(BindClaims, Bind)] == [BindClaims, Bind]
    assert len(cluster.claim("c").status.reserved_for) == 1


def test_a_pod_deleted_while_its_claim_is_released_keeps_no_devices():
    cluster = cluster_of(claim("c", wants()), claim("d", wants(count=2)))
    cluster.hold(Bind, ReleaseClaims, DeallocateClaim)
    cluster.schedule(claiming("p", "c"))
    cluster.fail(kind=FailureKind.REFUSED)
    released, rest = cluster.claim("c"), ClaimStatus()
    cluster.add(replace(released, status=rest))
    cluster.wait(3)
    cluster.drain()
    lacking = cluster.schedule(claiming("q", "d"))

    cluster.delete("p")
    cluster.wait(30)

    assert isinstance(lacking, Unschedulable)
    assert [type(each) for each in cluster.asked(ReleaseClaims)] == [ReleaseClaims]
    assert cluster.drain()[-1].decision == Placed("n1")


def two_for_one_device() -> Cluster:
    """Return a cluster in which the device that `q` lacks is being allocated for `p`."""
    claims = [claim("c", wants()), claim("d", wants())]
    cluster = Cluster(node("n1"), device_class(), gpus("n1", "a"), *claims)
    cluster.hold(BindClaims)
    cluster.schedule(claiming("p", "c"))
    assert isinstance(cluster.schedule(claiming("q", "d")), Unschedulable)
    return cluster


def test_a_failed_allocation_requeues_the_pods_that_lack_its_devices():
    cluster = two_for_one_device()

    cluster.fail(kind=FailureKind.REFUSED)
    cluster.delete("p")
    cluster.hold()
    cluster.wait(30)

    assert cluster.drain()[-1].decision == Placed("n1")


def test_a_pod_that_is_deleted_leaves_its_allocation_in_flight_until_the_outcome():
    cluster = two_for_one_device()

    cluster.delete("p")
    cluster.wait(30)
    too_early = cluster.drain()
    cluster.fail(kind=FailureKind.GONE)
    cluster.hold()
    cluster.wait(30)

    assert too_early == []
    assert cluster.drain()[-1].decision == Placed("n1")


def numbered(known: ResourceClaim, version: int, *finalizers: str) -> ResourceClaim:
    metadata = replace(known.metadata, resource_version=str(version), finalizers=list(finalizers))
    return replace(known, metadata=metadata)


def with_devices(known: ResourceClaim) -> ResourceClaim:
    return replace(known, status=allocated(known.metadata.name, "n1/a", on="n1").status)


BARE = numbered(claim("c", wants()), 5)
GUARDED = numbered(BARE, 6, DELETE_PROTECTION)
GONE = DevicesGone("ResourceClaim", "default/c")
ANOTHER = replace(BARE, metadata=replace(BARE.metadata, uid="another", resource_version="9"))


@pytest.mark.parametrize(
    ("seen", "is_free"),
    [
        pytest.param([], False, id="nothing"),
        pytest.param([DevicesObserved(GUARDED)], False, id="the first of two writes"),
        pytest.param([DevicesObserved(BARE)], True, id="listed again and unchanged"),
        pytest.param([DevicesObserved(numbered(BARE, 4))], False, id="an older state"),
        pytest.param([DevicesObserved(numbered(BARE, 6))], True, id="a change by others"),
        pytest.param(
            [DevicesObserved(GUARDED), DevicesObserved(numbered(GUARDED, 7, DELETE_PROTECTION))],
            True,
            id="a change by others instead of the second write",
        ),
        pytest.param([DevicesObserved(with_devices(GUARDED))], False, id="the devices"),
        pytest.param([ClaimAnswered(BARE)], True, id="an answer without devices"),
        pytest.param([ClaimAnswered(with_devices(GUARDED))], False, id="an answer with devices"),
        pytest.param([GONE], True, id="the claim is gone"),
        pytest.param([DevicesObserved(ANOTHER)], True, id="another claim of this name"),
    ],
)
def test_an_allocation_in_doubt_ends_with_the_first_state_that_settles_it(seen, is_free):
    cluster = Cluster(node("n1"), device_class(), gpus("n1", "a"), claim("d", wants()))
    cluster.observe(DevicesObserved(BARE))
    cluster.hold(BindClaims, ReleaseClaims)
    cluster.schedule(claiming("p", "c"))
    cluster.schedule(claiming("q", "d"))
    cluster.fail(kind=FailureKind.UNAVAILABLE)
    cluster.delete("p")
    cluster.wait(400)
    before = [attempt.decision for attempt in cluster.drain()]

    for event in seen:
        cluster.observe(event)
    cluster.wait(30)

    assert all(isinstance(each, Unschedulable) for each in before)
    decisions = [attempt.decision for attempt in cluster.drain()]
    assert (decisions == [Placed("n1")]) is is_free


def test_a_watch_event_that_repeats_a_response_settles_no_allocation_in_flight():
    table = cluster_of().machine.cluster.devices.claims
    table.write(BARE)
    table.answer(GUARDED, created=False)
    devices = with_devices(BARE).status.allocation
    assert devices is not None
    table.begin(BARE.uid, devices)
    table.await_state(BARE.uid)

    table.write(GUARDED)
    after_the_echo = table.is_in_flight(BARE.uid)
    table.write(GUARDED)

    assert after_the_echo
    assert not table.is_in_flight(BARE.uid)
    table.check()


@pytest.mark.parametrize("kind", [FailureKind.UNAVAILABLE, FailureKind.REFUSED])
def test_a_claim_is_released_again_until_the_state_of_its_allocation_is_known(kind):
    cluster = two_for_one_device()
    cluster.hold(ReleaseClaims)
    cluster.fail(kind=FailureKind.UNAVAILABLE)
    cluster.delete("p")
    (effect,) = cluster.held

    cluster.fail(kind=kind)
    at_once = list(cluster.held)
    assert cluster.machine.next_wakeup() == cluster.now + 10
    cluster.wait(10)

    assert at_once == []
    assert cluster.held == [effect]


def test_a_copy_releases_later_what_the_machine_releases_later():
    cluster = two_for_one_device()
    cluster.hold(ReleaseClaims)
    cluster.fail(kind=FailureKind.UNAVAILABLE)
    cluster.delete("p")
    (effect,) = cluster.held
    cluster.fail(kind=FailureKind.UNAVAILABLE)
    cluster.observe(DevicesObserved(cluster.claim("c")))

    copy = restored(snapshot_of(cluster.machine))
    copy.flush(cluster.now + 10)

    assert cluster.machine.not_copied() == ()
    assert effect in copy.flushed_effects()


def test_a_claim_written_for_extended_resources_requeues_no_pod():
    cluster = Cluster(node("n1"), device_class(resource=GPU), gpus("n1", "a"))
    cluster.schedule(pod("big").requests({GPU: "2"}))

    cluster.schedule(pod("p").requests({GPU: "1"}))

    assert cluster.pod("p").spec.node_name == "n1"
    assert cluster.phase("big") is QueuePhase.UNSCHEDULABLE
