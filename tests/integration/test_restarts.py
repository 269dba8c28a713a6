"""Answers get lost, processes die at the worst moment, and are started again: nothing is lost."""

import json
import signal

import pytest

from tests.integration.objects import (
    HANGS,
    is_terminating,
    pod,
)

pytestmark = pytest.mark.cluster

WAITS = "preemption: not eligible due to a terminating pod on the nominated node."


def two_nodes_of_two_victims(scene):
    """Fill two nodes with low pods that hang in termination; those on the first are cheaper."""
    first, second = scene.nodes(2, cpu="2")
    scene.run(
        pod("a", "1", "low", on=first, annotations=HANGS),
        pod("b", "1", "low", on=first, annotations=HANGS),
        pod("c", "1", "low", on=second, annotations=HANGS),
        pod("d", "1", "middle", on=second, annotations=HANGS),
    )
    return first, second


def test_killed_while_victims_terminate_it_waits_for_them_and_takes_no_others(scene, schedulers):
    first, _ = two_nodes_of_two_victims(scene)
    scheduler = schedulers.start()
    scene.create(pod("high", "2", "high"))
    for name in "ab":
        scene.wait(name, is_terminating)

    scheduler.kill()
    restarted = schedulers.start()

    restarted.wait_log("pod_unschedulable", message=lambda said: said.endswith(WAITS))
    scene.let_go("a", "b")
    assert scene.wait_running("high") == {"high": first}
    history = scene.history()
    assert history.evicted() == history.doomed() == ["a", "b"]


def test_pods_that_were_placed_before_a_restart_keep_their_capacity(scene, schedulers):
    scene.nodes(2, cpu="2")
    first = schedulers.start()
    scene.create(*(pod(f"p{i}") for i in range(3)))
    before = scene.wait_running("p0", "p1", "p2")

    first.kill()
    scene.create(pod("p3"), pod("p4"))
    schedulers.start()

    (waiting,) = scene.wait_bound_count(4)
    scene.wait_rejected(waiting)
    assert scene.wait_running("p0", "p1", "p2") == before


def test_a_binding_whose_answer_is_lost_counts_once(scene, schedulers, proxy):
    node = scene.node(cpu="2")
    scheduler = schedulers.start(kubeconfig=proxy.kubeconfig)
    lost = proxy.lose_reply("POST", "/pods/a/binding")

    scene.create(pod("a"))

    lost.wait(1)
    assert scene.wait_running("a") == {"a": node}
    scheduler.wait_log("pod_bound", pod=f"{scene.namespace}/a")
    scene.create(pod("b"), pod("c"))
    (waiting,) = scene.wait_bound_count(2)
    scene.wait_rejected(waiting)
    assert len(proxy.passed("POST", "/pods/a/binding")) == 1
    assert scheduler.metric("scheduler_schedule_attempts_total", result="error") == 0


def test_a_pod_that_another_scheduler_binds_meanwhile_is_counted_on_its_node(
    scene, schedulers, proxy
):
    first, second = scene.nodes(2, cpu="2")
    scheduler = schedulers.start(kubeconfig=proxy.kubeconfig)
    held = proxy.hold("POST", "/pods/a/binding")
    scene.create(pod("a", "2"))
    held.wait(1)
    chosen = json.loads(held.bodies[0])["target"]["name"]
    other = second if chosen == first else first

    scene.bind("a", other)
    held.release()

    scheduler.wait_log("bind_failed", cause="conflict")
    scene.create(pod("b", "2"))
    assert scene.wait_running("a", "b") == {"a": other, "b": chosen}


def test_a_pod_that_cannot_be_bound_is_tried_again_and_says_so(scene, schedulers, proxy):
    node = scene.node()
    scheduler = schedulers.start(kubeconfig=proxy.kubeconfig)
    refusal = proxy.refuse("POST", "/pods/a/binding", 422, times=1)

    scene.create(pod("a"))

    refusal.wait(1)
    (event,) = scene.events("a", "FailedScheduling")
    assert event["note"].startswith('running Bind plugin "DefaultBinder": cannot create pods/bind')
    assert scene.wait_running("a") == {"a": node}
    assert scheduler.wait_log("bind_failed")["cause"] == "refused"
    scheduler.wait_log("pod_bound", attempts=2)


def test_a_preemption_of_many_survives_kills_and_lost_answers(scene, schedulers, proxy):
    scene.nodes(4, cpu="4")
    scheduler = schedulers.start(kubeconfig=proxy.kubeconfig)
    scene.create(*(pod(f"low-{i}", "1", "low") for i in range(16)))
    assert scene.wait_bound_count(16) == set()

    proxy.lose_reply("POST", "/pods/mid-[0-3]/binding", times=4)
    proxy.lose_request("DELETE", "/pods/low-", times=2)
    proxy.lose_reply("DELETE", "/pods/low-", times=2)
    proxy.refuse("PATCH", "/pods/low-.*/status", 503, times=3)
    proxy.lose_reply("PATCH", "/pods/mid-.*/status", times=3)
    proxy.refuse("POST", "/pods/mid-[4-7]/binding", 500, times=2)
    held = proxy.hold("POST|PATCH|DELETE", "/pods/", after=2)
    # All equally important: no pod may take the capacity that others are nominated to.
    important = [f"mid-{i}" for i in range(12)]
    scene.create(*(pod(name, "1", "middle") for name in important))
    for writes in (7, 14, None):
        held.wait(1)
        scheduler.kill()
        held.drop()
        if writes is not None:
            held = proxy.hold("POST|PATCH|DELETE", "/pods/", after=writes)
        scheduler = schedulers.start(kubeconfig=proxy.kubeconfig)

    scene.wait_running(*important)
    history = scene.history()
    assert len(history.evicted()) == 12
    assert history.doomed() == history.evicted()
    assert len({name for name in history.doomed() if name.startswith("low-")}) == 12


def test_a_stopped_scheduler_finishes_its_requests_and_exits_0(scene, schedulers, proxy):
    node = scene.node(cpu="2")
    scene.run(pod("low", "1", "low", on=node))
    scheduler = schedulers.start(kubeconfig=proxy.kubeconfig)
    binding = proxy.hold("POST", "/pods/mid/binding")
    scene.create(pod("mid", "1", "middle"))
    binding.wait(1)
    deleting = proxy.hold("DELETE", "/pods/low$")
    scene.create(pod("high", "1", "high"))
    deleting.wait(1)

    scheduler.signal(signal.SIGTERM)
    scheduler.wait_log("stopping")
    deleting.release()
    binding.release()

    assert scheduler.wait_end() == 0
    history = scene.history()
    assert history.evicted() == ["low"]
    assert history.bindings() == {"mid": 1}
    said = [record["event"] for record in scheduler.records]
    assert sorted(said[said.index("stopping") :]) == [
        "pod_bound",
        "stopped",
        "stopping",
        "victim_evicted",
    ]
