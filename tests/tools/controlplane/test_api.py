"""The client, and what the fake kubelets do, on the shared control plane."""

from datetime import datetime

import pytest

from scheduler.service.clock import Clock

pytestmark = pytest.mark.cluster

DELETE_DELAY = "pod-delete.stage.kwok.x-k8s.io/delay"


@pytest.fixture
def api(control_plane):
    return control_plane.api


@pytest.fixture
def node(control_plane, namespace):
    (name,) = control_plane.create_nodes(1, prefix=namespace)
    yield name
    control_plane.api.delete(f"/api/v1/nodes/{name}")


@pytest.fixture
def pods(namespace):
    return f"/api/v1/namespaces/{namespace}/pods"


def pod(name, node=None, *, annotations=None, grace=30):
    spec = {
        "containers": [{"name": "main", "image": "none"}],
        "terminationGracePeriodSeconds": grace,
    }
    if node is not None:
        spec["nodeName"] = node
    return {"metadata": {"name": name, "annotations": annotations or {}}, "spec": spec}


def is_running(found):
    return found is not None and found["status"].get("phase") == "Running"


def is_gone(found):
    return found is None


def test_many_objects_are_created_in_parallel_and_answered_in_order(api, pods):
    answers = api.post_all(pods, [pod(f"p{i}") for i in range(50)])

    assert [answer["metadata"]["name"] for answer in answers] == [f"p{i}" for i in range(50)]
    assert len(api.items(pods)) == 50


def test_waiting_in_vain_ends_with_the_last_state(api, pods):
    api.post(pods, pod("pending"))

    with pytest.raises(TimeoutError, match=r'waited 0.5 s for .*"phase": "Pending"'):
        api.wait_for(f"{pods}/pending", is_running, timeout=0.5)


def test_a_pod_may_use_up_its_grace_period(api, pods, node):
    api.post(pods, pod("a", node, annotations={DELETE_DELAY: "grace"}, grace=2))
    api.wait_for(f"{pods}/a", is_running)
    deleted = api.delete(f"{pods}/a")
    api.wait_for(f"{pods}/a", is_gone, timeout=15)

    end = datetime.fromisoformat(deleted["metadata"]["deletionTimestamp"])
    assert Clock().wall() >= end.timestamp()


def test_a_pod_may_hang_in_termination_until_it_is_released(api, pods, node):
    api.post(pods, pod("a", node, annotations={DELETE_DELAY: "never"}, grace=1))
    api.wait_for(f"{pods}/a", is_running)
    api.delete(f"{pods}/a")

    with pytest.raises(TimeoutError):
        api.wait_for(f"{pods}/a", is_gone, timeout=2)
    api.patch(f"{pods}/a", {"metadata": {"annotations": {DELETE_DELAY: None}}})
    api.wait_for(f"{pods}/a", is_gone, timeout=5)
