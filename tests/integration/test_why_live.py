"""`kubectl preemptive why` and `preemptions` against a real scheduler and API server."""

import asyncio

import pytest

from tests.integration.objects import pod
from tests.kubectl.conftest import run  # noqa: F401 - a fixture

pytestmark = pytest.mark.cluster


def is_preemption(event):
    return event["reason"] == "Preempted"


def test_who_evicted_a_pod_and_why_its_replacement_waits_is_one_command(
    scene,
    scheduler,
    run,  # noqa: F811 - a fixture
):
    node, name = scene.node("2"), scene.namespace
    scene.deploy("batch", 2, pod("batch", "1", "low", labels={"app": "batch"}))
    scene.wait_bound_count(2)
    scene.create(pod("urgent", "1", "high"))
    scene.wait_running("urgent")
    path = f"/apis/events.k8s.io/v1/namespaces/{name}/events"
    events = scene.api.wait_for_list(path, lambda found: any(map(is_preemption, found)))
    event = next(filter(is_preemption, events))
    victim = event["regarding"]["name"]

    def say(*argv: str) -> str:
        server = f"https://127.0.0.1:{scheduler.port}"
        return asyncio.run(run(*argv, "--server", server, "-n", name, width=None)).text

    told = say("why", victim)
    assert told.startswith(f"{name}/{victim} was evicted from {node} at ")
    assert f"for {name}/urgent (priority 1000 > 100)" in told
    answer = told.partition("\n")[0]
    for more in ([], ["--nodes"]):
        assert say("why", event["regarding"]["uid"], *more).startswith(answer)
    assert "batch-" in told.partition("; ")[2].partition(" replaces it and waits")[0]
    waiting = say("why", "deploy/batch")
    assert "1 on nodes and 1 evicted" in waiting
    assert "no: nothing there has a lower priority" in waiting
    assert "a priority above 100 would preempt" in waiting
    for asked in (victim, f"{name}/{victim}", event["related"]["uid"], "urgent"):
        shown = say("preemptions", asked)
        assert shown.startswith(f"{name}/urgent evicted 1 pod on {node} and was bound there ")
