"""A preemption survives whatever happens to its scheduler: as it was planned, or not at all."""

import pytest

from scheduler.core.eviction.transitions import TERMINATION_MARGIN
from scheduler.model.plan_record import CONDITION, decode, fingerprint
from tests.integration.objects import (
    HANGS,
    budget,
    is_gone,
    is_nominated,
    is_terminating,
    pod,
)

pytestmark = pytest.mark.cluster

WASTED = "scheduler_preemption_victims_wasted_total"

#: Where a scheduler is killed: what it is about to send, and how many of these requests.
BOUNDARIES = [
    pytest.param(("PATCH", "/pods/high/status"), 1, id="before the nomination"),
    pytest.param(("PATCH", "/pods/[ab]/status"), 2, id="before any victim is marked"),
    pytest.param(("DELETE", "/pods/[ab]$"), 2, id="before any victim is deleted"),
    pytest.param(("DELETE", "/pods/b$"), 1, id="before the second victim is deleted"),
    pytest.param(("POST", "/pods/high/binding"), 1, id="before the binding"),
]


def two_nodes_of_two_victims(scene):
    """Fill two nodes with low pods; those on the first are cheaper."""
    first, second = scene.nodes(2, cpu="2")
    scene.run(
        pod("a", "1", "low", on=first),
        pod("b", "1", "low", on=first),
        pod("c", "1", "low", on=second),
        pod("d", "1", "middle", on=second),
    )
    return first, second


def why(found):
    conditions = (found or {}).get("status", {}).get("conditions", [])
    return " ".join(each.get("message", "") for each in conditions)


def plan_of(found):
    conditions = (found or {}).get("status", {}).get("conditions", [])
    return next((decode(each["message"]) for each in conditions if each["type"] == CONDITION), None)


def test_the_api_server_keeps_the_plan_that_is_written_with_the_status(scene, schedulers, proxy):
    first, _ = two_nodes_of_two_victims(scene)
    uids = {name: scene.pod(name)["metadata"]["uid"] for name in "ab"}
    schedulers.start(kubeconfig=proxy.kubeconfig)
    held = proxy.hold("PATCH", "/pods/[ab]/status")

    scene.create(pod("high", "2", "high"))
    held.wait(2)

    found = scene.wait("high", is_nominated(first))
    plan = plan_of(found)
    assert plan is not None
    assert plan.node == first
    own = found["metadata"]["uid"]
    assert set(plan.victims) == {fingerprint(own, each) for each in uids.values()}
    assert len(proxy.passed("PATCH", "/pods/high/status")) == 1


def test_a_cancelled_plan_is_removed_with_the_nomination(scene, schedulers, proxy):
    first, _ = two_nodes_of_two_victims(scene)
    schedulers.start(kubeconfig=proxy.kubeconfig)
    held = proxy.hold("PATCH", "/pods/[ab]/status")
    scene.create(pod("high", "2", "high"))
    held.wait(2)
    assert plan_of(scene.wait("high", is_nominated(first))) is not None

    proxy.refuse("DELETE", "/pods/", 403)
    held.release()

    scene.wait("high", is_nominated(""))
    assert plan_of(scene.pod("high")) is None
    assert scene.history().evicted() == []


@pytest.mark.parametrize(("stopped_at", "held_requests"), BOUNDARIES)
def test_killed_at_any_boundary_it_does_what_was_planned(
    scene, schedulers, proxy, stopped_at, held_requests
):
    first, _ = two_nodes_of_two_victims(scene)
    scheduler = schedulers.start(kubeconfig=proxy.kubeconfig)
    held = proxy.hold(*stopped_at)
    scene.create(pod("high", "2", "high"))
    held.wait(held_requests)

    scheduler.kill()
    held.drop()
    restarted = schedulers.start(kubeconfig=proxy.kubeconfig)

    assert scene.wait_running("high") == {"high": first}
    history = scene.history()
    assert history.evicted() == history.doomed() == ["a", "b"]
    assert history.nominations("high") == ["", first]
    assert history.bindings()["high"] == 1
    assert restarted.metric(WASTED) == 0


def test_a_victim_that_hangs_after_its_grace_period_releases_the_node(scene, schedulers):
    first, second = scene.nodes(2, cpu="2")
    scene.run(
        pod("a", "2", "low", on=first, annotations=HANGS, terminationGracePeriodSeconds=1),
        pod("b", "2", "middle", on=second),
    )
    scheduler = schedulers.start()
    scene.create(pod("high", "2", "high"))
    scene.wait("a", is_terminating)
    scene.wait("high", is_nominated(first))

    released = scene.api.wait_for(
        scene.path("high"), is_nominated(second), timeout=TERMINATION_MARGIN + 15
    )

    plan = plan_of(released)
    assert plan is not None
    assert plan.node == second
    assert scene.wait_running("high") == {"high": second}
    assert scheduler.metric(WASTED, reason="victim_hangs") == 1
    assert scene.history().evicted() == ["a", "b"]
    scene.let_go("a")


def test_without_the_right_to_delete_victims_are_evicted(scene, schedulers, proxy):
    node = scene.node(cpu="2")
    scene.run(pod("a", "2", "low", on=node))
    proxy.refuse("DELETE", "/pods/", 403)
    scheduler = schedulers.start("--evict-only", kubeconfig=proxy.kubeconfig)

    scene.create(pod("high", "2", "high"))

    assert scene.wait_running("high") == {"high": node}
    assert scene.history().evicted() == ["a"]
    assert len(proxy.passed("POST", "/pods/a/eviction")) == 1
    assert scheduler.metric(WASTED) == 0


def test_what_a_disruption_budget_protects_is_not_evicted(scene, schedulers):
    node = scene.node(cpu="2")
    scene.run(pod("a", "2", "low", on=node, labels={"app": "a"}))
    path = f"/apis/policy/v1/namespaces/{scene.namespace}/poddisruptionbudgets"
    scene.api.post(path, budget("a", 1, app="a"))
    scene.api.wait_for(f"{path}/a", lambda found: found["status"].get("currentHealthy") == 1)
    scheduler = schedulers.start("--evict-only")

    scene.create(pod("high", "2", "high"))

    # The budget is known here, too, so the API server is not even asked.
    scene.wait("high", lambda found: "disruption budgets do not allow it" in why(found))
    assert scheduler.logged("effect_failed", effect="Evict") == []
    assert scene.history().doomed() == []
    scene.api.delete(f"{path}/a")
    assert scene.wait_running("high") == {"high": node}
    scene.wait("a", is_gone)
