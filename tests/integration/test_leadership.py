"""Of several instances only the holder of the lease schedules; another one takes over."""

import contextlib

import pytest

from deploy.local.api import ApiError
from tests.integration.objects import is_bound, pod

pytestmark = pytest.mark.cluster

LEASE = "/apis/coordination.k8s.io/v1/namespaces/preemptive-scheduler/leases/preemptive-scheduler"

#: Short, but long enough for a machine that is busy with other things.
ELECTION = {
    "leaderElection": {
        "leaderElect": True,
        "leaseDuration": "4s",
        "renewDeadline": "3s",
        "retryPeriod": "500ms",
        "resourceName": "preemptive-scheduler",
        "resourceNamespace": "preemptive-scheduler",
    }
}


@pytest.fixture
def leader(plane, schedulers):
    """The first of two instances; it leads."""
    with contextlib.suppress(ApiError):  # there is none
        plane.api.delete(LEASE)  # somebody who has ended may hold it
    started = schedulers.start(config=ELECTION)
    started.wait_log("became_leader")
    return started


@pytest.fixture
def standby(leader, schedulers):
    """The second instance."""
    return schedulers.start(config=ELECTION)


def holder(scene):
    return scene.api.get(LEASE)["spec"]["holderIdentity"]


def test_only_the_leader_schedules_and_the_standby_takes_over_when_it_is_killed(
    scene, leader, standby
):
    scene.nodes(2)
    scene.create(*(pod(f"first-{i}") for i in range(4)))
    scene.wait_running(*(f"first-{i}" for i in range(4)))
    first = holder(scene)
    assert leader.metric("leader_election_master_status") == 1
    assert standby.metric("leader_election_master_status") == 0
    assert standby.get("/readyz") == (200, "ok")

    leader.kill()
    scene.create(*(pod(f"second-{i}") for i in range(4)))

    standby.wait_log("became_leader")
    scene.wait_running(*(f"second-{i}" for i in range(4)))
    assert holder(scene) != first
    for i in range(4):
        standby.wait_log("pod_bound", pod=f"{scene.namespace}/second-{i}")
    assert len(standby.logged("pod_bound")) == 4
    assert set(scene.history().bindings().values()) == {1}


def test_a_leader_that_is_asked_to_stop_hands_the_lease_over(scene, leader, standby):
    node = scene.node()
    first = holder(scene)

    assert leader.terminate() == 0
    released = scene.api.get(LEASE)["spec"]

    assert released["holderIdentity"] != first
    standby.wait_log("became_leader")
    scene.create(pod("a"))
    assert scene.wait_running("a") == {"a": node}


def test_a_leader_that_stood_still_for_too_long_writes_nothing_and_ends(scene, leader, standby):
    scene.nodes(2, cpu="2")
    leader.pause()
    standby.wait_log("became_leader")
    scene.create(*(pod(f"p{i}") for i in range(4)))
    scene.wait_running(*(f"p{i}" for i in range(4)))
    scene.create(pod("waits"))
    scene.wait_rejected("waits")

    leader.resume()

    assert leader.wait_end() == 1
    assert leader.logged("lease_lost")
    assert leader.logged("pod_bound") == []
    history = scene.history()
    assert history.bindings() == {f"p{i}": 1 for i in range(4)}
    assert not is_bound(scene.pod("waits"))
