"""What a user sees: events, conditions, health, metrics, and clear words about what is missing."""

import os
import socket

import pytest
import yaml

from tests.integration.objects import BASE, condition, is_nominated, is_terminating, pod, preempts

pytestmark = pytest.mark.cluster


def told(event):
    """Return the fields of an Event that say what it is about."""
    keys = ("type", "reason", "action", "note", "reportingController", "reportingInstance")
    return {key: event.get(key) for key in keys}


def test_events_say_what_kube_scheduler_would_say(scene, schedulers):
    node = scene.node(cpu="2")
    scene.run(pod("low", "2", "low", on=node))
    scheduler = schedulers.start()
    scene.create(pod("high", "2", "high"))
    scene.wait_running("high")
    preemptor, victim = scene.pod("high"), "low"

    def event(kind, reason, action, note):
        return {
            "type": kind,
            "reason": reason,
            "action": action,
            "note": note,
            "reportingController": scheduler.name,
            "reportingInstance": f"{scheduler.name}-{socket.gethostname()}",
        }

    (bound,) = scene.events("high", "Scheduled")
    assert told(bound) == event(
        "Normal",
        "Scheduled",
        "Binding",
        f"Successfully assigned {scene.namespace}/high to {node}",
    )
    assert bound["regarding"]["uid"] == preemptor["metadata"]["uid"]
    (failed,) = scene.events("high", "FailedScheduling")
    assert told(failed) == event(
        "Warning",
        "FailedScheduling",
        "Scheduling",
        preempts("0/1 nodes are available: 1 Insufficient cpu.", node),
    )
    (preempted,) = scene.events(victim, "Preempted")
    assert told(preempted) == event(
        "Normal",
        "Preempted",
        "Preempting",
        f"Preempted by pod {preemptor['metadata']['uid']} on node {node}",
    )


def test_conditions_say_why_a_pod_waits_and_since_when(scene, scheduler):
    scene.node(cpu="2")
    scene.create(pod("a", cpu="3"))
    scene.wait_rejected("a")
    first = condition(scene.pod("a"), "PodScheduled")
    # A node that is too small wakes no pod; the end of a pod does.
    scene.run(pod("tiny", cpu="1m", on=scene.node(cpu="1")))
    scene.remove("tiny")

    scene.wait_rejected("a", "0/2 nodes are available: 2 Insufficient cpu.")
    second = condition(scene.pod("a"), "PodScheduled")

    assert (second["status"], second["reason"]) == ("False", "Unschedulable")
    assert second["observedGeneration"] == scene.pod("a")["metadata"]["generation"]
    assert second["lastTransitionTime"] == first["lastTransitionTime"]


@pytest.mark.needs_server("1.35", "older API servers do not clear nominatedNodeName on binding")
def test_a_pod_that_was_nominated_and_bound_keeps_no_trace_of_the_nomination(scene, schedulers):
    node = scene.node(cpu="2")
    scene.run(pod("low", "2", "low", on=node))
    schedulers.start()

    scene.create(pod("high", "2", "high"))
    scene.wait_running("high")

    found = scene.pod("high")
    assert scene.history().nominations("high") == ["", node]
    assert "nominatedNodeName" not in found["status"]
    assert condition(found, "PodScheduled")["status"] == "True"


def test_a_nomination_that_outlives_the_binding_uses_no_capacity(scene, schedulers):
    first, second = scene.nodes(2, cpu="2")
    scene.create(pod("high", "2", "high", by="no-scheduler"))
    scene.nominate("high", second)
    scene.bind("high", first)
    scene.wait_running("high")
    schedulers.start()

    scene.create(pod("low", "2", "low"))

    assert scene.wait_running("low") == {"low": second}


#: What metrics say after one pod was placed, one was placed by preemption, two were rejected and
#: one was gated; without the prefix `scheduler_`.
COUNTS = {
    ("schedule_attempts_total", ("result", "scheduled")): 2,
    ("schedule_attempts_total", ("result", "unschedulable")): 3,
    ("schedule_attempts_total", ("result", "error")): 0,
    ("preemption_attempts_total",): 3,
    ("pod_scheduling_attempts_count",): 2,
    ("pod_scheduling_attempts_sum",): 3,
    ("pod_scheduling_sli_duration_seconds_count", ("attempts", "1")): 1,
    ("pod_scheduling_sli_duration_seconds_count", ("attempts", "2")): 1,
    ("scheduling_algorithm_duration_seconds_count",): 5,
    ("cache_size", ("type", "nodes")): 2,
    ("cache_size", ("type", "pods")): 2,
    ("cache_size", ("type", "assumed_pods")): 0,
    ("pending_pods", ("queue", "active")): 0,
    ("pending_pods", ("queue", "backoff")): 0,
    ("pending_pods", ("queue", "unschedulable")): 2,
    ("pending_pods", ("queue", "gated")): 1,
    ("unschedulable_pods", ("plugin", "NodeResourcesFit")): 2,
    ("nominations",): 0,
    ("preemption_victims_leaving",): 0,
    ("effects_total", ("effect", "Bind"), ("outcome", "done")): 2,
    ("effects_total", ("effect", "Evict"), ("outcome", "done")): 1,
    ("effects_total", ("effect", "Nominate"), ("outcome", "done")): 1,
    ("effects_total", ("effect", "ClearNomination")): 0,
    ("undecodable_objects_total",): 0,
    ("log_lines_lost_total",): 0,
}


def test_metrics_count_what_was_done(scene, schedulers):
    first, second = scene.nodes(2, cpu="2")
    scene.run(pod("low", "2", "low", on=first))
    scheduler = schedulers.start()
    scene.create(pod("mid", "2", "middle"))
    assert scene.wait_running("mid") == {"mid": second}
    scene.create(pod("high", "2", "high"))
    assert scene.wait_running("high") == {"high": first}
    scene.create(pod("gated", schedulingGates=[{"name": "example.com/gate"}]))
    for name in ("huge", "huger"):
        scene.create(pod(name, "64"))
        scene.wait_rejected(name)

    metrics = {
        (name, *labels): scheduler.metric(f"scheduler_{name}", **dict(labels))
        for name, *labels in COUNTS
    }

    assert metrics == COUNTS
    assert scheduler.metric("rest_client_requests_total", method="DELETE", code="200") == 1


def test_metrics_count_victims(scene, schedulers):
    node = scene.node(cpu="2")
    scene.run(pod("a", "1", "low", on=node), pod("b", "1", "low", on=node))
    scheduler = schedulers.start()

    scene.create(pod("high", "2", "high"))
    scene.wait_running("high")

    assert scheduler.metric("scheduler_preemption_victims_count") == 1
    assert scheduler.metric("scheduler_preemption_victims_sum") == 2


def test_health_pages_say_that_all_is_well(scheduler):
    for path in ("/healthz", "/livez", "/readyz", "/readyz/ping", "/readyz/informer-sync"):
        assert scheduler.get(path) == (200, "ok")
    status, said = scheduler.get("/readyz?verbose")
    assert (status, said.splitlines()[-1]) == (200, "readyz check passed")


def test_each_attempt_has_one_line_in_the_log(scene, schedulers):
    node = scene.node(cpu="2")
    scene.run(pod("low", "2", "low", on=node))
    scheduler = schedulers.start()

    scene.create(pod("high", "2", "high"))
    scene.wait_running("high")

    bound = scheduler.wait_log("pod_bound", pod=f"{scene.namespace}/high")
    assert (bound["node"], bound["attempts"], bound["nodes"]) == (node, 2, 1)
    (planned,) = scheduler.logged("preemption_planned")
    assert planned["attempts"] == 1
    assert planned["victims"] == [f"{scene.namespace}/low"]
    assert {record["level"] for record in scheduler.records} == {"info"}


def limited(plane, *, without):
    """Return a kubeconfig with our rights but one: a verb and a resource."""
    verb, resource = without
    name = f"without-{verb}-{resource}".replace("/", "-")
    (role,) = (
        each
        for each in yaml.safe_load_all((BASE / "rbac.yaml").read_text())
        if each["kind"] == "ClusterRole"
    )
    rules = [
        {**rule, "resources": [each], "verbs": [v for v in rule["verbs"] if (v, each) != without]}
        for rule in role["rules"]
        for each in rule["resources"]
    ]
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    version = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    plane.api.apply(
        [
            {
                **version,
                "kind": "ClusterRole",
                "metadata": {"name": name},
                "rules": [rule for rule in rules if rule["verbs"]],
            },
            {
                **version,
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": reference,
                "subjects": [subject],
            },
        ]
    )
    return plane.kubeconfig_for(name)


@pytest.mark.parametrize("without", [("list", "nodes"), ("list", "poddisruptionbudgets")])
def test_a_missing_right_to_read_is_named_by_the_log_and_by_readyz(plane, schedulers, without):
    verb, resource = without

    scheduler = schedulers.start(kubeconfig=limited(plane, without=without), ready=False)

    said = f'cannot {verb} resource "{resource}"'
    scheduler.wait_log("watch_interrupted", resource=resource, problem=lambda text: said in text)
    status, page = scheduler.get("/readyz")
    assert status == 500
    assert said in page
    assert scheduler.logged("caches_synced") == []


def test_a_missing_right_to_bind_is_named_by_log_event_and_condition(plane, scene, schedulers):
    scene.node()
    kubeconfig = limited(plane, without=("create", "pods/binding"))
    scheduler = schedulers.start(kubeconfig=kubeconfig)

    scene.create(pod("a"))

    said = 'cannot create resource "pods/binding"'
    failed = scheduler.wait_log("bind_failed", cause="forbidden")
    assert said in failed["message"]
    (event,) = scene.events("a", "FailedScheduling")
    assert said in event["note"]

    def is_told(found):
        why = condition(found, "PodScheduled")
        return why.get("reason") == "SchedulerError" and said in why["message"]

    scene.wait("a", is_told)


def test_a_missing_right_to_delete_victims_is_reported_and_no_nomination_stays(
    plane, scene, schedulers
):
    node = scene.node(cpu="2")
    scene.run(pod("low", "2", "low", on=node))
    scheduler = schedulers.start(kubeconfig=limited(plane, without=("delete", "pods")))

    scene.create(pod("high", "2", "high"))

    said = 'cannot delete resource "pods"'
    failed = scheduler.wait_log("effect_failed", effect="Evict", cause="forbidden")
    assert said in failed["message"]
    # There may be a third one already, of the next attempt.
    notes = [each["note"] for each in scene.events("high", "FailedScheduling", count=2)]
    assert sum(said in note for note in notes) == 1
    scene.wait("high", is_nominated(""))
    assert not is_terminating(scene.pod("low"))


def test_an_unreadable_kubeconfig_is_one_clear_line(schedulers, tmp_path):
    missing = tmp_path / "no-such-file"

    scheduler = schedulers.start(kubeconfig=missing, ready=False)

    assert scheduler.wait_end() == 2
    (line,) = scheduler.records
    assert line["event"] == "cannot_connect"
    assert line["problem"] == f"kubeconfig {missing}: {os.strerror(2)}"
