"""What a user sees: events, conditions, health, metrics, and clear words about what is missing."""

import socket

import pytest
import yaml

from tests.integration.objects import BASE, condition, pod, preempts

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
    assert preempted["related"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": scene.namespace,
        "name": "high",
        "uid": preemptor["metadata"]["uid"],
    }


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
