"""Pods that fit nowhere preempt: for the right reasons, at the right place, and no more of it."""

import pytest

from tests.integration.objects import (
    HANGS,
    condition,
    is_bound,
    is_nominated,
    is_running,
    is_terminating,
    pod,
    preempts,
)

pytestmark = pytest.mark.cluster

WAITS = "preemption: not eligible due to a terminating pod on the nominated node."
FAILED_HERE = "1 node(s) where preemption has failed for pods of its owner"


def wake_all(scene, node):
    """Let something happen that may help every waiting pod: a tiny pod is deleted from a node."""
    scene.run(pod("tiny", cpu="1m", on=node))
    scene.remove("tiny")


def test_a_more_important_pod_gets_the_capacity_of_a_less_important_one(scene, schedulers):
    node = scene.node(cpu="4")
    scene.run(pod("low", cpu="2", priority="low", on=node), pod("mid", "2", "middle", on=node))
    scheduler = schedulers.start()

    scene.create(pod("high", cpu="2", priority="high"))

    assert scene.wait_running("high") == {"high": node}
    assert scene.wait("mid", is_running)
    history = scene.history()
    assert history.evicted() == ["low"]
    assert history.nominations("high") == ["", node]
    planned = scheduler.wait_log("preemption_planned")
    assert (planned["node"], planned["victim_count"]) == (node, 1)


def test_a_preemptor_waits_for_victims_that_hang_and_evicts_no_others(scene, schedulers):
    first, second = scene.nodes(2, cpu="3")
    # It does not wait for capacity alone: any deleted pod has it tried again.
    scene.node(taints=({"key": "example.com/only", "value": "batch", "effect": "NoSchedule"},))
    scene.run(
        pod("a", "2", "low", on=first, annotations=HANGS),
        pod("b", "2", "middle", on=second, annotations=HANGS),
    )
    scheduler = schedulers.start()
    scene.create(pod("high", "2", "high"))
    scene.wait("a", is_terminating)
    scene.wait("high", is_nominated(first))

    wake_all(scene, second)
    scheduler.wait_log("pod_unschedulable", message=lambda said: said.endswith(WAITS))
    scene.wait_rejected("high", WAITS)
    assert scene.history().doomed() == ["a"]
    scene.let_go("a")

    assert scene.wait_running("high") == {"high": first}
    assert scene.history().evicted() == ["a"]


def test_capacity_nominated_by_another_scheduler_is_respected(scene, schedulers):
    first, second = scene.nodes(2, cpu="2")
    scene.create(pod("theirs", "2", "middle", by="someone-else"))
    scene.nominate("theirs", first)
    schedulers.start()

    scene.create(pod("a", "2", "middle"))
    assert scene.wait_bound("a") == second
    scene.create(pod("b", "2", "middle"))
    scene.wait_rejected("b", "0/2 nodes are available: 2 Insufficient cpu.")
    assert not is_bound(scene.pod("b"))
    scene.create(pod("more-important", "2", "high"))
    assert scene.wait_bound("more-important") == first
    scene.remove("more-important")
    scene.remove("theirs")

    assert scene.wait_bound("b") == first
    assert scene.history().evicted() == []


def test_a_victim_that_cannot_be_deleted_clears_the_nomination_and_the_pod_is_tried_again(
    scene, schedulers, proxy
):
    node = scene.node(cpu="2")
    scene.run(pod("a", "2", "low", on=node))
    schedulers.start(kubeconfig=proxy.kubeconfig)
    proxy.refuse("DELETE", "/pods/a$", 403, times=1)

    scene.create(pod("high", "2", "high"))

    said = [event["note"] for event in scene.events("high", "FailedScheduling", count=2)]
    assert preempts("0/1 nodes are available: 1 Insufficient cpu.", node) in said
    (why,) = (note for note in said if note.startswith("preemption: "))
    assert why.startswith(f"preemption: evicting pod {scene.namespace}/a: cannot delete pods: ")
    assert scene.wait_running("high") == {"high": node}
    history = scene.history()
    assert history.nominations("high") == ["", node, "", node]
    assert history.bindings()["high"] == 1


def test_a_plan_that_fails_in_part_takes_only_the_rest_the_next_time(scene, schedulers, proxy):
    node = scene.node(cpu="2")
    scene.run(pod("a", "1", "low", on=node), pod("b", "1", "low", on=node))
    schedulers.start(kubeconfig=proxy.kubeconfig)
    proxy.refuse("DELETE", "/pods/b$", 403, times=1)

    scene.create(pod("high", "2", "high"))

    scene.wait_rejected("high", FAILED_HERE)
    assert scene.wait_running("high") == {"high": node}
    history = scene.history()
    assert history.evicted() == history.doomed() == ["a", "b"]
    assert history.nominations("high") == ["", node, "", node]
    assert len(proxy.passed("DELETE", "/pods/")) == 2


def test_no_victim_is_evicted_before_the_nomination_is_written(scene, schedulers, proxy):
    node = scene.node(cpu="2")
    scene.run(pod("a", "2", "low", on=node))
    scheduler = schedulers.start(kubeconfig=proxy.kubeconfig)
    refusal = proxy.refuse("PATCH", "/pods/high/status", 422, times=1)

    scene.create(pod("high", "2", "high"))

    refusal.wait(1)
    scene.wait_rejected("high", FAILED_HERE)
    assert scene.wait_running("high") == {"high": node}
    writes = [
        (each.method, each.path.rsplit("/pods/")[-1])
        for each in proxy.passed("POST|PATCH|DELETE", "/pods/")
    ]
    assert writes == [
        ("PATCH", "high/status"),  # why it waits until its node is tried again
        ("PATCH", "high/status"),
        ("PATCH", "a/status"),
        ("DELETE", "a"),
        ("POST", "high/binding"),
    ]
    scheduler.wait_log("effect_failed", effect="Nominate", cause="refused")


def test_a_victim_that_its_controller_replaces_is_not_preempted_again(scene, schedulers):
    nodes = scene.nodes(2, cpu="2")
    scheduler = schedulers.start()
    scene.deploy("low", 4, pod("", "1", "low", labels={"app": "low"}))
    assert scene.wait_bound_count(4) == set()

    scene.create(pod("high", "1", "high"))

    assert scene.wait_running("high")["high"] in nodes
    pods = scene.wait_pods(lambda found: len(found) == 5 and sum(map(is_bound, found)) == 4)
    (waiting,) = (each["metadata"]["name"] for each in pods if not is_bound(each))
    scene.wait_rejected(waiting, "0/2 nodes are available: 2 Insufficient cpu.")
    scheduler.wait_log("pod_unschedulable", pod=f"{scene.namespace}/{waiting}")
    assert len(scheduler.logged("preemption_planned")) == 1
    assert len(scene.history().doomed()) == 1


def test_victims_get_a_condition_and_their_own_grace_period(scene, schedulers):
    node = scene.node(cpu="2")
    graceful = {"pod-delete.stage.kwok.x-k8s.io/delay": "never"}
    low = pod("low", "2", "low", on=node, annotations=graceful, terminationGracePeriodSeconds=77)
    scene.run(low)
    scheduler = schedulers.start()

    scene.create(pod("high", "2", "high"))

    victim = scene.wait("low", is_terminating)
    assert victim["metadata"]["deletionGracePeriodSeconds"] == 77
    said = condition(victim, "DisruptionTarget")
    assert (said["status"], said["reason"]) == ("True", "PreemptionByScheduler")
    assert said["message"] == (f"{scheduler.name}: preempting to accommodate a higher priority pod")
