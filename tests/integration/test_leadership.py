"""Of several instances only the holder of the lease schedules; another one takes over."""

import contextlib
import signal
from datetime import datetime

import pytest

from deploy.tools.controlplane.api import ApiError
from scheduler.service.clock import Clock
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
LEASE_SECONDS, DEADLINE_SECONDS, RETRY_SECONDS = 4.0, 3.0, 0.5
#: For a request, and for a busy machine.
SLACK_SECONDS = 0.5

#: Those of an installation.
DEFAULT_ELECTION = {
    "leaderElection": {
        **ELECTION["leaderElection"],
        "leaseDuration": "15s",
        "renewDeadline": "10s",
        "retryPeriod": "2s",
    }
}


@pytest.fixture
def leader(plane, schedulers):
    """The first of two instances; it leads."""
    forget_lease(plane)
    started = schedulers.start(config=ELECTION)
    started.wait_log("became_leader")
    return started


@pytest.fixture
def standby(leader, schedulers):
    """The second instance."""
    return schedulers.start(config=ELECTION)


def moment(record):
    """Return when a line was logged, in seconds since the epoch."""
    return datetime.fromisoformat(record["ts"]).timestamp()


def forget_lease(plane):
    """Take the lease from its holder in an earlier test."""
    with contextlib.suppress(ApiError):  # there is none
        plane.api.delete(LEASE)


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


def test_a_leader_that_was_suspended_for_too_long_writes_nothing_and_exits(scene, leader, standby):
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


def test_a_standby_whose_watch_lags_decides_by_the_last_bindings_of_the_leader(
    scene, leader, schedulers, proxy
):
    scene.create(pod("waits", cpu="3"))
    scene.wait_rejected("waits")
    held = proxy.hold("GET", "/api/v1/pods.*[?&]resourceVersion=")
    standby = schedulers.start(config=ELECTION, kubeconfig=proxy.kubeconfig)
    standby.wait_log("caches_synced")
    held.wait(1)
    node = scene.node(cpu="4")
    assert scene.wait_running("waits") == {"waits": node}
    scene.create(pod("next", cpu="3"))
    scene.wait_rejected("next")

    leader.kill()

    standby.wait_log("became_leader")
    standby.wait_log("pod_unschedulable", pod=f"{scene.namespace}/next")
    assert standby.logged("pod_bound") == []
    assert scene.history().bindings() == {"waits": 1}


def test_a_released_lease_is_acquired_within_two_seconds(scene, plane, schedulers):
    forget_lease(plane)
    leader = schedulers.start(config=DEFAULT_ELECTION)
    leader.wait_log("became_leader")
    standby = schedulers.start(config=DEFAULT_ELECTION)
    clock = Clock()

    begun = clock.wall()
    leader.signal(signal.SIGTERM)
    taken = moment(standby.wait_log("became_leader"))

    assert leader.wait_end() == 0
    assert taken - begun <= 2.0
    assert set(scene.history().bindings().values()) <= {1}


def test_a_leader_that_cannot_renew_begins_no_write_after_its_deadline(
    scene, plane, schedulers, proxy
):
    forget_lease(plane)
    scene.nodes(2, cpu="100")
    leader = schedulers.start(config=ELECTION, kubeconfig=proxy.kubeconfig)
    leader.wait_log("became_leader")
    scene.create(pod("first", cpu="10m"))
    scene.wait_bound("first")

    held = proxy.hold("PUT", "/leases/")
    held.wait(1)
    for i in range(1000):
        scene.create(pod(f"p{i}", cpu="10m"))
        if leader.logged("lease_lost"):
            break
    code = leader.wait_end()
    held.drop()

    renewed = max(each.at for each in proxy.passed("(PUT|POST)", "/leases") if each.status < 300)
    written = [each.at for each in proxy.passed("(POST|PATCH|DELETE)", "^(?!.*/leases)")]
    assert code == 1
    assert len(written) > 2
    # The proxy sees a write after it began, and still before another leader may begin.
    assert max(written) <= renewed + DEADLINE_SECONDS + SLACK_SECONDS < renewed + LEASE_SECONDS
