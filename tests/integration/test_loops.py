"""Two schedulers on one API server: kube-scheduler puts victims of ours straight back.

The victims of each node belong to two Deployments. Those of one terminate at once, those of the
other take a while. kube-scheduler does not know the nomination to it, so the replacement of the
first has the capacity before the second has terminated, and the preemptor never gets both.
"""

import contextlib
from collections.abc import Iterator

import pytest

from scheduler.state.preemption.preemption_backoff import STOP_AFTER
from scheduler.state.preemption.wasted_evictions import MAX_PREEMPTIONS
from tests.integration.objects import pod
from tests.integration.peers import COMMON, KubeScheduler

pytestmark = pytest.mark.cluster

THEIRS = "loop-peer"
SLOWLY = {"pod-delete.stage.kwok.x-k8s.io/delay": "4000ms"}
#: The nodes that kube-scheduler may use: both at once may put a pod on a node that is free.
TOGETHER = {"used-by": "both"}
PERIOD = {"podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 1}


@pytest.fixture
def peer(plane, tmp_path) -> Iterator[KubeScheduler]:
    """kube-scheduler, for pods that name it."""
    config = {**COMMON, "profiles": [{"schedulerName": THEIRS}]}
    with contextlib.closing(KubeScheduler(plane, tmp_path, config)) as running:
        yield running


def fill(scene, count):
    """Let two Deployments of kube-scheduler's fill nodes: a pod of each on every node."""
    scene.nodes(count, cpu="2", labels=TOGETHER)
    for name, annotations in (("fast", None), ("slow", SLOWLY)):
        apart = {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": {"app": name}},
        }
        template = pod(
            name,
            "1",
            "low",
            by=THEIRS,
            labels={"app": name},
            annotations=annotations,
            affinity={
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}
            },
            nodeSelector=TOGETHER,
            terminationGracePeriodSeconds=5,
        )
        scene.deploy(name, count, template)
    assert scene.wait_bound_count(2 * count) == set()


def wait_for_preemptor(scene, gone=""):
    """Wait for the pod of the Deployment `high`, another one than the deleted one."""

    def pods_of(found):
        return [
            each["metadata"]["name"]
            for each in found
            if each["metadata"].get("labels", {}).get("app") == "high"
            and each["metadata"]["name"] != gone
        ]

    (name,) = pods_of(scene.api.wait_for_list(scene.path("").rstrip("/"), pods_of))
    return name


def test_preemption_stops_when_kube_scheduler_takes_the_capacity_each_time(scene, schedulers, peer):
    fill(scene, 3)
    ours = schedulers.start(config=PERIOD)

    # One pod is stopped after three failed preemptions, its owner after four.
    scene.deploy("high", 1, pod("", "2", "high", labels={"app": "high"}))
    first = wait_for_preemptor(scene)
    (event,) = scene.events(first, "PreemptionStopped")
    assert "for this pod were wasted within the last hour" in event["note"]
    assert event["type"] == "Warning"
    assert len(scene.history().evicted()) <= 2 * MAX_PREEMPTIONS
    scene.remove(first)
    second = wait_for_preemptor(scene, first)

    (event,) = scene.events(second, "PreemptionLoop")
    assert event["note"].startswith("Preempting pods of ReplicaSet ")
    assert event["type"] == "Warning"
    said = scene.wait_rejected(second, "PreemptionLoop: preempting pods of ReplicaSet ")
    assert "failed 4 times, stopped until 20" in said
    evicted = scene.history().evicted()
    assert len(evicted) <= 2 * STOP_AFTER
    assert ours.metric("scheduler_preemption_loops_total") >= 1
    assert ours.metric("scheduler_preemption_fruitless_total") == STOP_AFTER
    wasted = ours.metric("scheduler_preemption_victims_wasted_total", reason="room_lost")
    assert wasted == len(evicted)

    ours.kill()
    restarted = schedulers.start(config=PERIOD)
    restarted.wait_log("pod_unschedulable", message=lambda text: "PreemptionLoop" in text)
    free = scene.node(cpu="2")
    assert scene.wait_bound(second) == free
    assert scene.history().evicted() == evicted


def test_on_one_node_it_pauses_and_takes_the_next_free_one(scene, schedulers, peer):
    fill(scene, 1)
    schedulers.start(config=PERIOD)

    scene.create(pod("high", "2", "high"))

    said = scene.wait_rejected("high", "PreemptionLoop: node(s) where preempting pods of ")
    assert "failed 2 times, paused until 20" in said
    assert len(scene.history().evicted()) == 4
    free = scene.node(cpu="2")
    assert scene.wait_bound("high") == free
    assert len(scene.history().evicted()) == 4
