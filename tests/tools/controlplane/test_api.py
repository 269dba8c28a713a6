"""The client, and what the fake kubelets do, on the shared control plane."""

import threading
from datetime import datetime

import pytest

from deploy.tools.controlplane.api import ApiClient, ApiError
from deploy.tools.controlplane.nodes import NodeShape
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


def test_a_refusal_carries_status_and_reason(api, pods):
    with pytest.raises(ApiError) as refused:
        api.get(f"{pods}/none")

    assert (refused.value.status, refused.value.reason) == (404, "NotFound")
    assert refused.value.message == 'pods "none" not found'


def test_many_objects_are_created_in_parallel_and_answered_in_order(api, pods):
    answers = api.post_all(pods, [pod(f"p{i}") for i in range(50)])

    assert [answer["metadata"]["name"] for answer in answers] == [f"p{i}" for i in range(50)]
    assert len(api.items(pods)) == 50


def test_apply_creates_changes_and_takes_over(api, namespace, tmp_path):
    manifest = tmp_path / "manifest.yaml"
    text = """
        {apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NS}, data: {key: WORD}}
        ---
        apiVersion: v1
        kind: List
        items:
        - {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: NS}}
    """.replace("NS", namespace).replace("\n        ", "\n")
    manifest.write_text(text.replace("WORD", "old"))
    api.apply(manifest, manager="somebody-else")
    manifest.write_text(text.replace("WORD", "new"))

    a, b = api.apply(manifest)

    assert a["data"] == {"key": "new"}
    assert b["metadata"]["name"] == "b"


def test_apply_waits_until_a_new_kind_can_be_used(api):
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget"}
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": names,
            "scope": "Cluster",
            "versions": [version],
        },
    }
    widget = {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "size": 3,
    }

    _, applied = api.apply([crd, widget])

    assert applied["size"] == 3


def test_a_kind_that_does_not_exist_cannot_be_applied(api):
    with pytest.raises(LookupError, match="the API server has no Gadget in /api/v1"):
        api.apply({"apiVersion": "v1", "kind": "Gadget", "metadata": {"name": "g"}})


def test_waiting_sees_an_object_come_and_go(api, pods):
    creation = threading.Timer(0.2, lambda: api.post(pods, pod("late")))
    creation.start()
    assert api.wait_for(f"{pods}/late", timeout=10)["metadata"]["name"] == "late"
    creation.join()

    deletion = threading.Timer(0.2, lambda: api.delete(f"{pods}/late"))
    deletion.start()
    assert api.wait_for(f"{pods}/late", is_gone, timeout=10) is None
    deletion.join()


def test_waiting_in_vain_ends_with_the_last_state(api, pods):
    api.post(pods, pod("pending"))

    with pytest.raises(TimeoutError, match=r'waited 0.5 s for .*"phase": "Pending"'):
        api.wait_for(f"{pods}/pending", is_running, timeout=0.5)


def test_waiting_rides_out_a_restart_of_the_api_server(control_plane, api, pods):
    control_plane.stop_apiserver()
    found = []
    waiter = threading.Thread(
        target=lambda: found.append(api.wait_for(f"{pods}/after", timeout=60))
    )
    waiter.start()

    control_plane.start_apiserver()
    api.post(pods, pod("after"))

    waiter.join()
    assert found[0]["metadata"]["name"] == "after"


def test_a_paused_api_server_answers_nothing(control_plane, api, pods):
    control_plane.pause("kube-apiserver")
    try:
        with pytest.raises(TimeoutError):
            api.request("GET", pods, timeout=0.3)
    finally:
        control_plane.resume("kube-apiserver")

    assert api.items(pods) == []


def test_a_watch_without_a_version_begins_with_what_exists(api, pods):
    api.post(pods, pod("a"))

    kind, found = next(api.watch(pods))

    assert (kind, found["metadata"]["name"]) == ("ADDED", "a")


def test_a_user_has_the_rights_of_its_group(control_plane, api):
    nobody = control_plane.kubeconfig_for("jane", "nobodies")
    admin = control_plane.kubeconfig_for("jane", "system:masters")

    with ApiClient.from_kubeconfig(admin) as client:
        assert client.get("/api/v1/nodes")["kind"] == "NodeList"
    with ApiClient.from_kubeconfig(nobody) as client, pytest.raises(ApiError) as refused:
        client.get("/api/v1/nodes")
    assert refused.value.status == 403
    assert 'User "jane" cannot list resource "nodes"' in refused.value.message


def test_a_service_account_has_its_own_rights(control_plane, api, namespace):
    kubeconfig = control_plane.service_account_kubeconfig(namespace, "default")

    with ApiClient.from_kubeconfig(kubeconfig) as client, pytest.raises(ApiError) as refused:
        client.get("/api/v1/nodes")

    assert f'User "system:serviceaccount:{namespace}:default" cannot' in refused.value.message


def test_nodes_have_the_shape_asked_for(control_plane, api, namespace):
    shape = NodeShape(
        cpu="3",
        resources={"example.com/gpu": "2"},
        labels={"pool": "a"},
        taints=({"key": "only", "value": "us", "effect": "NoSchedule"},),
        zones=("z1", "z2"),
    )
    names = control_plane.create_nodes(3, shape, prefix=namespace)
    nodes = [api.get(f"/api/v1/nodes/{name}") for name in names]
    for name in names:
        api.delete(f"/api/v1/nodes/{name}")

    labels = [node["metadata"]["labels"] for node in nodes]
    assert [each["topology.kubernetes.io/zone"] for each in labels] == ["z1", "z2", "z1"]
    assert {each["pool"] for each in labels} == {"a"}
    assert nodes[0]["status"]["allocatable"]["example.com/gpu"] == "2"
    assert nodes[0]["status"]["allocatable"]["cpu"] == "3"
    assert nodes[0]["spec"]["taints"] == list(shape.taints)


def test_a_node_that_is_reported_unready_is_tainted_until_it_is_released(api, node):
    path = f"/api/v1/nodes/{node}"
    hold = "node-ready.stage.kwok.x-k8s.io/hold"

    def tainted(found):
        return any(
            t["key"] == "node.kubernetes.io/not-ready" for t in found["spec"].get("taints", ())
        )

    api.patch(path, {"metadata": {"annotations": {hold: "true"}}})
    condition = {"type": "Ready", "status": "False", "reason": "Test"}
    api.patch(f"{path}/status", {"status": {"conditions": [condition]}}, "strategic")
    api.wait_for(path, tainted)

    api.patch(path, {"metadata": {"annotations": {hold: None}}})
    api.wait_for(path, lambda found: not tainted(found))


def test_a_bound_pod_runs_and_ends_at_once_when_deleted(api, pods, node):
    api.post(pods, pod("a", node))
    running = api.wait_for(f"{pods}/a", is_running)

    api.delete(f"{pods}/a")
    api.wait_for(f"{pods}/a", is_gone, timeout=5)

    assert running["status"]["startTime"]


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


def test_a_pod_may_complete(api, pods, node):
    done = {"pod-complete.stage.kwok.x-k8s.io/delay": "100ms"}
    api.post(pods, pod("a", node, annotations=done))

    completed = api.wait_for(f"{pods}/a", lambda found: found["status"]["phase"] == "Succeeded")

    ready = [c["status"] for c in completed["status"]["conditions"] if c["type"] == "Ready"]
    assert ready == ["False"]


def test_controllers_make_pods_of_a_deployment(api, namespace, pods, node):
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod("x", node)["spec"]}
    template["spec"].pop("nodeName")
    api.apply(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": namespace},
            "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": template},
        }
    )

    assert len(api.wait_for_list(f"{pods}?labelSelector=app=web", lambda f: len(f) == 3)) == 3
