"""etcd is restored from a snapshot while the scheduler runs: what came later never happened."""

import pytest

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.components import Settings
from tests.integration.objects import is_terminating, pod, prepare
from tests.integration.scene import Scene
from tests.integration.test_leadership import ELECTION, holder
from tests.support.control_plane import VERSION

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group(__name__)]


@pytest.fixture(scope="module")
def control_plane():
    """A control plane whose etcd may be put back. No controller or kubelet hides what happens."""
    with ControlPlane(Settings(version=VERSION, controllers=False, kwok=False)) as own:
        yield own


@pytest.fixture(scope="module")
def plane(control_plane):
    prepare(control_plane.api)
    return control_plane


@pytest.fixture
def scene(plane, namespace, schedulers):
    """A scene without an audit: its history is taken back."""
    made = Scene(plane, namespace, schedulers.name)
    yield made
    schedulers.close()


def test_what_the_scheduler_did_after_the_snapshot_is_decided_again(scene, schedulers):
    first, second = scene.nodes(2, cpu="2")
    scene.create(pod("victim", "2", "low", on=first), pod("stays", "2", "high", on=second))
    scene.create(pod("waits", "2", "low"))
    scheduler = schedulers.start()  # without a lease, which an outage would cost it
    scene.wait_rejected("waits")
    snapshot = scene.plane.snapshot_etcd()
    scheduler.wait_ready()

    # After the snapshot: a preemption, a binding on a node that is created meanwhile, other pods.
    scene.create(pod("high", "2", "high"))
    scene.wait("victim", is_terminating)
    scene.remove("victim")
    assert scene.wait_bound("high") == first
    (third,) = scene.nodes(1, cpu="2")
    assert scene.wait_bound("waits") == third
    scene.plane.restore_etcd(snapshot)

    scheduler.wait_log("watch_interrupted", problem=lambda said: "went backwards" in said)
    # `high`, its preemption and the third node never were; `waits` has no node again.
    scene.wait_rejected("waits", "0/2 nodes are available: 2 Insufficient cpu.")
    scene.create(pod("again", "2", "high"))
    scene.wait("victim", is_terminating)
    scene.remove("victim")
    assert scene.wait_bound("again") == first
    (fourth,) = scene.nodes(1, cpu="2")
    assert scene.wait_bound("waits") == fourth
    assert scene.requested() == {first: 2000, second: 2000, fourth: 2000}
    scheduler.wait_ready()


def test_a_leader_that_the_restored_lease_does_not_name_ends_and_the_next_one_waits(
    scene, schedulers
):
    former = schedulers.start(config=ELECTION)
    former.wait_log("became_leader")
    snapshot = scene.plane.snapshot_etcd()
    former.kill()
    leader = schedulers.start(config=ELECTION)
    leader.wait_log("became_leader")

    scene.plane.restore_etcd(snapshot)

    assert leader.wait_end() == 1
    assert leader.logged("lease_lost")
    following = schedulers.start(config=ELECTION)
    following.wait_log("became_leader")
    scene.nodes(1, cpu="2")
    scene.create(pod("a"))
    scene.wait_bound("a")
    assert holder(scene)
