"""`plan` asks real extenders about a simulated cluster.

Most of these cases restate tests of kube-scheduler v1.36.3; each names the one it comes from.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.cli.main import main
from tests.support.builders import OURS
from tests.support.extender import ExtenderServer

CONFIG = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
}
GPU = "example.com/gpu"


@pytest.fixture
def server() -> Iterator[ExtenderServer]:
    with ExtenderServer() as started:
        yield started


def node(name: str, **allocatable: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "annotations": {"only": "extenders read this"}},
        "status": {"allocatable": {"pods": "32", **allocatable}},
    }


def pod(name: str, on: str = "", priority: int = 0, **requests: str) -> dict[str, Any]:
    container = {"name": "c", "resources": {"requests": requests, "limits": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "nodeName": on,
            "priority": priority,
            "schedulerName": OURS,
            "containers": [container],
        },
        "status": {"startTime": "2026-01-01T00:00:00Z"} if on else {},
    }


@pytest.fixture
def plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run `plan` on objects with extenders; return its results."""

    def run(objects: list[dict[str, Any]], *extenders: dict[str, Any], settle: bool = False) -> Any:
        cluster, config = tmp_path / "cluster.json", tmp_path / "config.json"
        cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
        config.write_text(json.dumps({**CONFIG, "extenders": extenders}))
        files = ["-f", str(cluster), "--config", str(config)]
        options = ["--explain"] if settle else ["--explain", "--no-settle"]
        code = main(["plan", *files, "-o", "json", "--fail-on", "none", *options])
        assert code == 0
        items = json.loads(capsys.readouterr().out)["items"]
        return [{**each, "victims": victims(each), "node": each.get("node")} for each in items]

    return run


def victims(item: dict[str, Any]) -> list[str]:
    return [f"default/{each['pod']['name']}" for each in item.get("victims", ())]


def keeping(*names: str) -> Any:
    """Answer a filter call that came with whole nodes."""

    def answer(body: dict[str, Any]) -> dict[str, Any]:
        items = [each for each in body["Nodes"]["items"] if each["metadata"]["name"] in names]
        return {"Nodes": {"items": items}}

    return answer


def preferring(name: str, score: int) -> Any:
    return [{"Host": name, "Score": score}]


def test_three_extenders(plan: Any, server: ExtenderServer):
    """Source: test/integration/scheduler/extender/extender_test.go TestSchedulerExtender."""
    machines = [f"machine{number}" for number in range(1, 6)]
    with ExtenderServer() as second, ExtenderServer() as third:
        server.answers = {
            "filter": keeping("machine1", "machine2", "machine3", "machine5"),
            "prioritize": [*preferring("machine1", 0), *preferring("machine3", 0)],
        }
        second.answers = {
            "filter": keeping("machine2", "machine3", "machine5"),
            "prioritize": preferring("machine3", 10),
        }
        third.answers = {
            "filter": lambda body: {
                "NodeNames": [each for each in body["NodeNames"] if each != "machine5"]
            },
            "prioritize": preferring("machine2", 5),
        }
        verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize"}

        (result,) = plan(
            [*map(node, machines), pod("p")],
            {"urlPrefix": server.url, "weight": 3, **verbs},
            {"urlPrefix": second.url, "weight": 4, "bindVerb": "bind", **verbs},
            {"urlPrefix": third.url, "weight": 10, "nodeCacheCapable": True, **verbs},
        )

        assert (result["decision"], result["node"]) == ("Scheduled", "machine2")
        scores = {each["name"]: each.get("scores") for each in result["nodes"]}
        assert scores["machine2"][third.url] == 5 * 10 * 10
        assert scores["machine3"][second.url] == 10 * 4 * 10
        assert third.asked("filter")[0]["NodeNames"] == ["machine2", "machine3", "machine5"]
        assert second.asked("bind") == []


def test_an_extender_reads_all_that_the_files_say(plan: Any, server: ExtenderServer):
    server.answers["filter"] = keeping("n1")

    plan([node("n1"), pod("p")], {"urlPrefix": server.url, "filterVerb": "filter"})

    (body,) = server.asked("filter")
    assert body["Nodes"]["items"] == [node("n1")]
    assert body["Pod"]["metadata"] == pod("p")["metadata"]
    assert body["Pod"]["spec"]["containers"] == pod("p")["spec"]["containers"]


def test_a_resource_that_only_an_extender_checks(plan: Any, server: ExtenderServer):
    server.answers["filter"] = {"NodeNames": ["n1"]}
    managed = [{"name": GPU, "ignoredByScheduler": True}]

    (result,) = plan(
        [node("n1"), pod("p", **{GPU: "1"})],
        {
            "urlPrefix": server.url,
            "filterVerb": "filter",
            "managedResources": managed,
            "nodeCacheCapable": True,
        },
    )

    assert (result["decision"], result["node"]) == ("Scheduled", "n1")


@pytest.mark.parametrize("ignorable", [False, True])
def test_an_extender_that_is_dead(plan: Any, ignorable: bool):
    with ExtenderServer() as server:
        dead = {"urlPrefix": server.url, "filterVerb": "filter", "ignorable": ignorable}

    (result,) = plan([node("n1"), pod("p")], dead)

    assert result["decision"] == ("Scheduled" if ignorable else "Error")
    assert result.get("message", "").startswith(
        "" if ignorable else f'Post "{server.url}/filter": '
    )


def test_an_extender_allows_a_preemption_on_one_node_only(plan: Any, server: ExtenderServer):
    """Source: default_preemption_test.go TestPostFilter, result filtered out by extenders."""
    server.answers["preempt"] = lambda body: {
        "NodeNameToMetaVictims": {
            "node1": {
                "Pods": [
                    {"UID": each["metadata"]["uid"]}
                    for each in body["NodeNameToVictims"]["node1"]["Pods"]
                ]
            }
        }
    }
    full = {"pods": "1"}

    (result,) = plan(
        [
            node("node1", **full),
            node("node2", **full),
            pod("p1", "node1"),
            pod("p2", "node2"),
            pod("p", priority=1000),
        ],
        {"urlPrefix": server.url, "preemptVerb": "preempt"},
    )

    assert (result["decision"], result["node"]) == ("Preempting", "node1")
    assert result["victims"] == ["default/p1"]
    (body,) = server.asked("preempt")
    assert set(body["NodeNameToVictims"]) == {"node1", "node2"}
    assert body["NodeNameToMetaVictims"] is None


def test_an_extender_that_rejects_every_node_prevents_preemption(plan: Any, server: ExtenderServer):
    """Source: default_preemption_test.go TestPreempt, extenders do not allow any preemption."""
    server.answers = {
        "filter": lambda body: {"FailedNodes": dict.fromkeys(body["NodeNames"], "no")},
        "preempt": {"NodeNameToMetaVictims": {}},
    }
    capacity = {"cpu": "500m", "memory": "500"}

    (result,) = plan(
        [
            *(node(f"node{number}", **capacity) for number in (1, 2, 3)),
            pod("p1.1", "node1", 100, cpu="100m", memory="100"),
            pod("p1.2", "node1", 0, cpu="100m", memory="100"),
            pod("p2.1", "node2", 100, cpu="300m", memory="300"),
            pod("p", priority=1000, cpu="500m", memory="500"),
        ],
        {
            "urlPrefix": server.url,
            "filterVerb": "filter",
            "preemptVerb": "preempt",
            "nodeCacheCapable": True,
        },
    )

    assert (result["decision"], result["node"], result["victims"]) == ("Unschedulable", None, [])
    assert result["message"].endswith("preemption: no candidate node for preemption")


def with_victim(server: ExtenderServer, plan: Any, **settings: Any) -> dict[str, Any]:
    """Plan a preemption on `node-1` that an extender has a say in."""
    preemptor = pod("preemptor", priority=1000, **{GPU: "1"})
    preemptor["status"]["nominatedNodeName"] = "node-1"
    (result,) = plan(
        [
            node("node-1", cpu="8", memory="8Gi", **{GPU: "1"}),
            pod("victim", "node-1", 100, **{GPU: "1"}),
            preemptor,
        ],
        {
            "urlPrefix": server.url,
            "preemptVerb": "preempt",
            "managedResources": [{"name": GPU}],
            "nodeCacheCapable": True,
            **settings,
        },
    )
    assert isinstance(result, dict)
    return result


def test_preempt_fails_and_may_be_ignored(plan: Any, server: ExtenderServer):
    """Source: preemption_test.go TestCallExtenders, one extender returns error and is ignorable."""
    server.answers["preempt"] = 500

    result = with_victim(server, plan, ignorable=True)

    assert (result["node"], result["victims"]) == ("node-1", ["default/victim"])


def test_preempt_takes_too_long(plan: Any, server: ExtenderServer):
    """Source: extender.go ProcessPreemption, send."""
    server.hold()

    result = with_victim(server, plan, httpTimeout="100ms")

    assert (result["decision"], result["victims"]) == ("Unschedulable", [])
    assert result["message"].endswith(
        f'preemption: Post "{server.url}/preempt": no response within 0.1 s'
    )


@pytest.mark.parametrize(
    ("answer", "ignorable"),
    [
        pytest.param({"NodeNameToMetaVictims": {}}, False, id="the only node is dropped"),
        pytest.param(
            {"NodeNameToMetaVictims": {"node-1": {"Pods": []}}},
            True,
            id="one extender with no return victims and is ignorable",
        ),
    ],
)
def test_preempt_accepts_no_candidate(
    plan: Any, server: ExtenderServer, answer: dict[str, Any], ignorable: bool
):
    """Source: preemption.go callExtenders; preemption_test.go TestCallExtenders."""
    server.answers["preempt"] = answer

    result = with_victim(server, plan, ignorable=ignorable)

    assert (result["decision"], result["victims"]) == ("Unschedulable", [])
    assert "preemption: no candidate node for preemption" in result["message"]


def test_an_extender_sees_what_was_planned_before(plan: Any, server: ExtenderServer):
    server.answers = {
        "filter": lambda body: {"Nodes": body["Nodes"]},
        "preempt": lambda body: {
            "NodeNameToMetaVictims": {
                name: {"Pods": [{"UID": each["metadata"]["uid"]} for each in victims["Pods"]]}
                for name, victims in body["NodeNameToVictims"].items()
            }
        },
    }

    results = plan(
        [
            node("n1", cpu="1"),
            pod("low", priority=1, cpu="1"),
            pod("first", priority=5, cpu="1"),
            pod("running", "n1", cpu="1"),
        ],
        {"urlPrefix": server.url, "filterVerb": "filter", "preemptVerb": "preempt"},
        settle=True,
    )

    found = {each["pod"]["name"]: (each["decision"], each.get("finalNode")) for each in results}
    assert found == {"first": ("Preempting", "n1"), "low": ("Unschedulable", None)}
    assert server.asked("filter")[0]["Pod"]["status"]["nominatedNodeName"] == "n1"
