"""Extenders on a real control plane: they filter, score and bind; dead and slow ones."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.objects import condition, is_bound, pod
from tests.support.extender import ExtenderServer

pytestmark = pytest.mark.cluster

LICENSE = "example.com/license"


@pytest.fixture
def extender() -> Iterator[ExtenderServer]:
    with ExtenderServer() as started:
        yield started


@pytest.fixture
def dead() -> str:
    """The URL of an extender that is not there any more."""
    with ExtenderServer() as started:
        return started.url


def configured(url: str, **settings: Any) -> dict[str, Any]:
    return {"extenders": [{"urlPrefix": url, **settings}]}


def named(body: dict[str, Any]) -> list[str]:
    return [each["metadata"]["name"] for each in body["Nodes"]["items"]]


def test_an_extender_filters_scores_and_binds(scene, schedulers, extender):
    first, second, third = scene.nodes(3)
    extender.answers = {
        "filter": lambda body: {
            "Nodes": {
                "items": [
                    each for each in body["Nodes"]["items"] if each["metadata"]["name"] != first
                ]
            },
            "FailedNodes": {first: "no license"},
        },
        "prioritize": [{"Host": third, "Score": 10}, {"Host": second, "Score": 1}],
        "bind": lambda body: scene.bind(body["PodName"], body["Node"]) or {},
    }
    schedulers.start(
        config=configured(
            extender.url,
            filterVerb="filter",
            prioritizeVerb="prioritize",
            weight=100,
            bindVerb="bind",
        )
    )

    scene.create(pod("a", image="registry.example/app"))

    assert scene.wait_running("a") == {"a": third}
    (asked,) = extender.asked("filter")
    assert sorted(named(asked)) == [first, second, third]
    assert asked["Pod"]["spec"]["containers"][0]["image"] == "registry.example/app"
    assert "managedFields" not in asked["Pod"]["metadata"]
    in_full = scene.api.get(f"/api/v1/nodes/{first}")
    sent = next(each for each in asked["Nodes"]["items"] if each["metadata"]["name"] == first)
    assert sent["status"]["nodeInfo"] == in_full["status"]["nodeInfo"]
    assert named(extender.asked("prioritize")[0]) == [
        name for name in named(asked) if name != first
    ]
    (bound,) = extender.asked("bind")
    assert (bound["PodName"], bound["Node"]) == ("a", third)
    assert bound["PodUID"] == scene.pod("a")["metadata"]["uid"]
    assert scene.history().bindings() == {"a": 1}


def test_a_dead_extender_keeps_pods_waiting_and_says_so(scene, schedulers, dead):
    scene.node()
    scheduler = schedulers.start(config=configured(dead, filterVerb="filter"))

    scene.create(pod("a"))

    scheduler.wait_log("extender_failed", extender=dead, verb="filter")

    def failed(found: Any) -> bool:
        return bool(condition(found or {}, "PodScheduled").get("reason") == "SchedulerError")

    told = condition(scene.wait("a", failed), "PodScheduled")
    assert told["message"].startswith(f'Post "{dead}/filter": ')
    assert not is_bound(scene.pod("a"))


def test_others_are_decided_while_an_extender_is_slow(scene, schedulers, extender):
    node = scene.node(resources={LICENSE: "8"})
    extender.answers["filter"] = lambda body: {"NodeNames": body["NodeNames"]}
    extender.hold()
    schedulers.start(
        config=configured(
            extender.url,
            filterVerb="filter",
            nodeCacheCapable=True,
            managedResources=[{"name": LICENSE}],
            httpTimeout="60s",
        )
    )
    scene.create(pod("slow", priority="high", requests={LICENSE: "1"}))
    scene.create(pod("gone", priority="high", requests={LICENSE: "1"}))
    extender.wait_asked("filter")

    scene.create(*(pod(f"quick{number}") for number in range(2)))
    scene.wait_running("quick0", "quick1")
    assert not is_bound(scene.pod("slow"))
    scene.remove("gone")
    extender.let_go()

    assert scene.wait_running("slow") == {"slow": node}
    assert set(scene.history().bindings()) == {"slow", "quick0", "quick1"}


def test_an_extender_chooses_the_victims_of_a_preemption(scene, schedulers, extender):
    node = scene.node(cpu="2")
    scene.run(*(pod(name, on=node, priority="low") for name in ("spared", "chosen")))
    victim = scene.pod("chosen")["metadata"]["uid"]
    extender.answers["preempt"] = {
        "NodeNameToMetaVictims": {node: {"Pods": [{"UID": victim}], "NumPDBViolations": 0}}
    }
    schedulers.start(config=configured(extender.url, preemptVerb="preempt"))

    scene.create(pod("urgent", priority="high"))

    assert scene.wait_running("urgent") == {"urgent": node}
    assert scene.history().evicted() == ["chosen"]
    (asked,) = extender.asked("preempt")
    (whole,) = asked["NodeNameToVictims"][node]["Pods"]
    assert whole["spec"]["nodeName"] == node
