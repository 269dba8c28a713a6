"""The documents of `/api/v1` of a running scheduler: what they say, and to whom."""

import base64
import json
import threading
from pathlib import Path

import pytest
import yaml

from tests.integration.access import EVERYWHERE, RBAC, until_status
from tests.integration.objects import pod

pytestmark = pytest.mark.cluster

#: Every authenticated user has rights on `/api`; these are others.
API = ("/preemptive-scheduler/api/v1", "/preemptive-scheduler/api/v1/*")
#: Answers of the API server are not kept: the rights in these tests are new.
FRESH = (
    "--authorization-webhook-cache-authorized-ttl", "0s",
    "--authorization-webhook-cache-unauthorized-ttl", "0s",
)  # fmt: skip
PATHS = (
    "/api/v1", "/api/v1/summary", "/api/v1/nodes", "/api/v1/labels", "/api/v1/pods",
    "/api/v1/preemptions", "/api/v1/policies",
)  # fmt: skip


def certificate(kubeconfig: Path, folder: Path) -> str:
    """Write certificate and key of a kubeconfig into one file; return its path."""
    user = yaml.safe_load(kubeconfig.read_text())["users"][0]["user"]
    path = folder / f"{kubeconfig.stem}.pem"
    keys = ("client-key-data", "client-certificate-data")
    path.write_bytes(b"\n".join(base64.b64decode(user[key]) for key in keys))
    return str(path)


def read(scheduler, path: str, token: str = "", certificate: str = "") -> dict:
    status, text = scheduler.get(path, token, certificate)
    assert status == 200, (path, status, text)
    return json.loads(text)


def until(scheduler, path: str, condition, token: str = "") -> dict:
    """Read a document until a condition holds; return it."""
    pause = threading.Event()
    for _ in range(100):
        found = read(scheduler, path, token)
        if condition(found):
            return found
        pause.wait(0.1)
    raise TimeoutError(f"{path}: {found}")


@pytest.fixture
def may_get_pods(plane, namespace):
    """A function that lets a ServiceAccount get the pods of the test's namespace."""

    def give(name: str) -> None:
        group = "rbac.authorization.k8s.io"
        roles = f"{RBAC}/namespaces/{namespace}"
        rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
        plane.api.post(f"{roles}/roles", {"metadata": {"name": name}, "rules": rules})
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        binding = {
            "metadata": {"name": name},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [subject],
        }
        plane.api.post(f"{roles}/rolebindings", binding)

    return give


def test_a_preemption_is_told_from_the_decision_to_its_end(scene, scheduler, namespace):
    small, large = scene.node("2"), scene.node("4")
    scene.run(pod("low", "2", "low", on=small), pod("middle", "4", "middle", on=large))
    scene.create(pod("high", "2", "high"))
    scene.wait_bound("high")

    found = until(scheduler, "/api/v1/preemptions", lambda found: found["items"][0].get("outcome"))
    summary = read(scheduler, "/api/v1/summary")

    (only,) = found["items"]
    assert (only["preemptor"]["name"], only["node"]) == ("high", small)
    assert (only["outcome"], only["phase"]) == ("bound", "done")
    assert only["criterion"] == "highestPriority"
    assert [each["node"] for each in only["candidates"]] == [small, large]
    assert [each["pod"]["name"] for each in only["victims"]] == ["low"]
    assert only["victims"][0]["pod"]["namespace"] == namespace
    assert summary["leader"] is True
    assert (summary["preemptions"], summary["victims"]) == (1, 1)
    nodes = {each["name"]: each for each in read(scheduler, "/api/v1/nodes")["items"]}
    assert nodes[small]["resources"]["cpu"] == {"allocatable": 2000, "requested": 2000}


def test_a_user_of_one_namespace_sees_the_names_there_alone(
    scene, namespace, schedulers, token, grant, may_get_pods
):
    insider, outsider = token("insider"), token("outsider")
    grant("insider", *API)
    grant("outsider", *API)
    may_get_pods("insider")
    scheduler = schedulers.start(*EVERYWHERE, *FRESH)
    node = scene.node("2")
    scene.run(pod("low", "2", "low", on=node))
    scene.create(pod("high", "2", "high"))
    scene.wait_bound("high")
    scene.create(pod("waits", "2", "low"))
    scene.wait_rejected("waits")
    until_status(scheduler, "/api/v1", insider, 200)
    until_status(scheduler, "/api/v1", outsider, 200)
    path = f"/api/v1/pods/{namespace}/waits"
    until_status(scheduler, path, insider, 200)

    seen = read(scheduler, "/api/v1/preemptions", insider)
    hidden = read(scheduler, "/api/v1/preemptions", outsider)
    queue = read(scheduler, "/api/v1/pods", insider)
    nothing = read(scheduler, "/api/v1/pods", outsider)
    on_node = read(scheduler, f"/api/v1/nodes/{node}", outsider)

    assert seen["items"][0]["victims"][0]["pod"]["name"] == "low"
    assert (hidden["items"], hidden["hidden"]) == ([], 1)
    assert [each["pod"]["name"] for each in queue["items"]] == ["waits"]
    assert (nothing["items"], nothing["hidden"]) == ([], 1)
    assert on_node["hidden"] == 1
    assert "high" not in json.dumps(on_node["pods"])
    status, text = scheduler.get(path, outsider)
    assert (status, json.loads(text)["reason"]) == (403, "Forbidden")
    assert f'resource "pods", namespace "{namespace}"' in json.loads(text)["message"]


def test_a_client_certificate_of_the_cluster_is_enough(
    plane, schedulers, grant, tmp_path, namespace
):
    user = f"{namespace}-ada"
    known = certificate(plane.kubeconfig_for(user), tmp_path)
    stranger = certificate(plane.kubeconfig_for(f"{namespace}-bob"), tmp_path)
    grant("ada", *API, user=user)
    scheduler = schedulers.start(*EVERYWHERE, *FRESH)
    until_status(scheduler, "/api/v1", "", 200, known)

    for path in PATHS:
        assert scheduler.get(path, certificate=known)[0] == 200, path
    status, text = scheduler.get("/api/v1", certificate=stranger)
    assert status == 403
    assert f'User \\"{namespace}-bob\\" cannot get' in text
    assert scheduler.logged("client_ca_unavailable") == []
