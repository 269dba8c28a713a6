"""The API server stops, restarts and has lost its history; on a separate control plane."""

import pytest

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.components import Settings
from tests.integration.objects import pod, prepare
from tests.integration.scene import Scene
from tests.support.control_plane import VERSION

pytestmark = [pytest.mark.cluster, pytest.mark.xdist_group(__name__)]


@pytest.fixture(scope="module")
def control_plane():
    """A control plane that may be broken."""
    with ControlPlane(Settings(version=VERSION)) as own:
        yield own


@pytest.fixture(scope="module")
def plane(control_plane):
    prepare(control_plane.api)
    return control_plane


@pytest.fixture
def scene(plane, namespace, schedulers):
    """A scene without an audit: the API server forgets what happened before its start."""
    made = Scene(plane, namespace, schedulers.name)
    yield made
    if plane.exit_code("kube-apiserver") is not None:
        plane.start_apiserver()
    schedulers.close()
    made.clear()


def test_an_api_server_that_restarts_loses_no_pod_and_no_capacity(scene, schedulers):
    nodes = scene.nodes(4, cpu="8")
    scheduler = schedulers.start()
    scene.create(*(pod(f"before-{i}") for i in range(4)))
    before = scene.wait_running(*(f"before-{i}" for i in range(4)))

    scene.create(*(pod(f"during-{i}") for i in range(24)))
    scene.plane.stop_apiserver()
    scheduler.wait_log("watch_interrupted", resource="pods")
    status, said = scheduler.get("/readyz")
    assert status == 500
    assert "[-]api-server failed: " in said
    assert scheduler.get("/livez") == (200, "ok")
    scene.plane.start_apiserver()
    scene.create(*(pod(f"after-{i}") for i in range(8)))

    waiting = scene.wait_bound_count(32)
    assert len(waiting) == 4
    for name in waiting:
        scene.wait_rejected(name, "0/4 nodes are available: 4 Insufficient cpu.")
    assert scene.wait_running(*before) == before
    assert scene.requested() == dict.fromkeys(nodes, 8000)
    scheduler.wait_ready()


def test_the_scheduler_waits_for_an_api_server_that_is_unavailable_at_the_start(scene, schedulers):
    node = scene.node()
    scene.create(pod("a"))
    scene.plane.stop_apiserver()

    scheduler = schedulers.start(ready=False)
    scheduler.wait_log("watch_interrupted", resource="nodes")
    status, said = scheduler.get("/readyz")
    assert status == 500
    assert "[-]informer-sync failed: not synced: nodes (cannot list nodes: " in said
    assert scheduler.get("/healthz") == (200, "ok")
    scene.plane.start_apiserver()

    scheduler.wait_log("caches_synced")
    assert scheduler.get("/readyz") == (200, "ok")
    assert scene.wait_running("a") == {"a": node}


def test_what_happened_while_history_was_compacted_is_noticed(scene, schedulers, proxy):
    first, second = scene.nodes(2, cpu="2")
    scene.run(pod("gone", "2", on=first), pod("stays", "2", on=second))
    scheduler = schedulers.start(kubeconfig=proxy.kubeconfig)
    scene.create(pod("waits", "2"), pod("waits-too", "2"))
    scene.wait_rejected("waits")
    scene.wait_rejected("waits-too")

    # After other failures than this one all is listed, without asking for the old history.
    blind = proxy.refuse("GET", "watch=true", 429)
    proxy.cut()
    blind.wait(1)
    scene.remove("gone")
    scene.remove_node(second)
    third = scene.node(cpu="2")
    scene.plane.compact_etcd()
    scene.plane.restart_apiserver()
    blind.release()

    # On a busy machine some watches fail so often meanwhile that they are listed for that reason.
    scheduler.wait_log("watch_interrupted", problem=lambda said: "too old" in said)
    placed = scene.wait_running("waits", "waits-too")
    assert sorted(placed.values()) == sorted([first, third])
    assert scheduler.metric("scheduler_cache_size", type="nodes") == 2
