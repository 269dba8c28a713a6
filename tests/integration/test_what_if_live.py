"""Plans of a running scheduler: what they say comes true, and asking changes nothing."""

import json
from typing import Any

import pytest

from scheduler.cli.main import main
from tests.integration.objects import is_running, pod
from tests.support.live import Scheduler, connect

pytestmark = pytest.mark.cluster

PATH = "/api/v1/plan"
CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
}  # fmt: skip
RIGHT = f"/preemptive-scheduler{PATH}"


def ask(scheduler: Scheduler, body: dict[str, Any], token: str = "") -> tuple[int, dict[str, Any]]:
    """Ask a scheduler for a plan."""
    connection = connect(scheduler.port, 60)
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    try:
        connection.request("POST", PATH, json.dumps(body), headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_a_preemption_happens_as_it_was_planned(scene, schedulers, namespace):
    node = scene.node(cpu="2")
    scheduler = schedulers.start()
    scene.deploy("low", 2, pod("low", "1", "low", labels={"app": "low"}))
    assert scene.wait_bound_count(2) == set()
    high = pod("high", "2", "high", by=schedulers.name)
    known = scene.api.get("/apis/scheduling.k8s.io/v1/priorityclasses/high")
    objects = [
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **known},
        {"apiVersion": "v1", "kind": "Pod", **high},
    ]
    request = {"objects": objects, "namespace": namespace}

    code, answer = ask(scheduler, request)
    before = [each["metadata"]["name"] for each in scene.api.get(scene._pods)["items"]]

    assert code == 200, answer
    (item,) = answer["items"]
    assert (item["decision"], item["node"], item["finalNode"]) == ("Preempting", node, node)
    assert {each["pod"]["name"] for each in item["victims"]} == set(before)
    assert len(answer["displaced"]) == 2
    assert all("node" not in each["replacement"] for each in answer["displaced"])

    scene.create(high)
    scene.wait("high", lambda each: bool(each and each["spec"].get("nodeName")))
    assert scene.pod("high")["spec"]["nodeName"] == node


def test_the_answer_is_that_of_plan_on_the_snapshot(scene, schedulers, tmp_path, capsys, namespace):
    nodes = scene.nodes(3, cpu="2")
    scheduler = schedulers.start()
    scene.deploy("low", 5, pod("low", "1", "low", labels={"app": "low"}))
    # Candidates are compared by the start times of victims.
    scene.wait_pods(lambda found: len(found) == 5 and all(map(is_running, found)))
    high = {"apiVersion": "v1", "kind": "Pod", **pod("high", "2", "high", by=schedulers.name)}
    high["metadata"] |= {"namespace": namespace, "uid": "11111111-0000-4000-8000-000000000000"}
    high["metadata"]["creationTimestamp"] = "2099-01-01T00:00:00Z"
    high["spec"]["priority"] = 1000

    _, snapshot = scheduler.get("/debug/snapshot")
    _, answer = ask(scheduler, {"objects": [high], "drain": [nodes[0]]})
    (tmp_path / "snapshot.json").write_text(snapshot)
    (tmp_path / "high.json").write_text(json.dumps(high))
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**CONFIG, "profiles": [{"schedulerName": schedulers.name}]}))
    files = ["-f", str(tmp_path / "snapshot.json"), "-f", str(tmp_path / "high.json")]
    capsys.readouterr()
    main(["plan", *files, "--drain", nodes[0], "-o", "json", "--config", str(config)])
    offline = json.loads(capsys.readouterr().out)

    (item,) = answer["items"]
    (expected,) = (each for each in offline["items"] if each["pod"]["name"] == "high")
    assert answer["verdict"] == offline["verdict"]
    assert (item["decision"], item["node"]) == (expected["decision"], expected["node"])
    assert [each["pod"]["name"] for each in item.get("victims", ())] == [
        each["pod"]["name"] for each in expected.get("victims", ())
    ]


def test_callers_need_the_right_to_post_the_path(plane, namespace, scene, schedulers):
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    scheduler = schedulers.start(
        "--bind-address", "0.0.0.0", "--authorization-webhook-cache-unauthorized-ttl", "0s"
    )  # fmt: skip
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    plane.api.post(accounts, {"metadata": {"name": "asker"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    token = plane.api.post(f"{accounts}/asker/token", request)["status"]["token"]

    code, status = ask(scheduler, {}, token)

    assert (code, status["reason"]) == (403, "Forbidden")
    assert f'cannot post path "{RIGHT}"' in status["message"]
    assert ask(scheduler, {})[0] == 401
    full = f"{namespace}-asker"
    rules = [{"nonResourceURLs": [RIGHT], "verbs": ["post"]}]
    plane.api.post(f"{rbac}/clusterroles", {"metadata": {"name": full}, "rules": rules})
    plane.api.post(
        f"{rbac}/clusterrolebindings",
        {
            "metadata": {"name": full},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": full,
            },
            "subjects": [{"kind": "ServiceAccount", "name": "asker", "namespace": namespace}],
        },
    )  # fmt: skip
    try:
        for _ in range(100):
            code, answer = ask(scheduler, {"objects": []}, token)
            if code == 200:
                break
        assert code == 200, answer
    finally:
        plane.api.delete(f"{rbac}/clusterrolebindings/{full}")
        plane.api.delete(f"{rbac}/clusterroles/{full}")
