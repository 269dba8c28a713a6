"""Pods are placed: in the order of their priority, and by each rule."""

import pytest

from tests.integration.objects import (
    NO_CLAIMS,
    condition,
    is_bound,
    pod,
)

pytestmark = pytest.mark.cluster

NO_HELP = "Preemption is not helpful for scheduling"


def fit_error(nodes, *reasons, preemption):
    """Return what kube-scheduler says of a pod that fits on none of so many nodes."""
    said = ", ".join(reasons)
    cure = f"preemption: 0/{nodes} nodes are available: {nodes} {preemption}."
    return f"0/{nodes} nodes are available: {said}. {NO_CLAIMS}{cure}"


def test_pods_of_other_schedulers_are_not_scheduled(scene, scheduler):
    scene.node()

    scene.create(pod("theirs", by="someone-else"), pod("ours"))

    scene.wait_running("ours")
    assert not is_bound(scene.pod("theirs"))
    assert condition(scene.pod("theirs"), "PodScheduled") == {}


def test_capacity_that_becomes_free_is_used(scene, scheduler):
    node = scene.node(cpu="1")
    scene.create(pod("first"))
    scene.wait_running("first")
    scene.create(pod("second"))
    scene.wait_rejected("second")

    scene.api.delete(scene.path("first"))

    assert scene.wait_running("second") == {"second": node}


def test_cordoned_nodes_accept_no_pod_until_they_are_uncordoned(scene, schedulers):
    node = scene.node()
    scene.patch_node(node, {"spec": {"unschedulable": True}})
    schedulers.start()

    scene.create(pod("a"))

    scene.wait_rejected("a", fit_error(1, "1 node(s) were unschedulable", preemption=NO_HELP))
    scene.patch_node(node, {"spec": {"unschedulable": None}})
    assert scene.wait_bound("a") == node


def test_a_pod_that_is_created_again_under_the_same_name_is_another_pod(scene, scheduler):
    first, second = scene.nodes(2, cpu="1")
    scene.create(pod("a", nodeSelector={"kubernetes.io/hostname": first}))
    assert scene.wait_running("a") == {"a": first}

    scene.remove("a")
    scene.create(pod("a", nodeSelector={"kubernetes.io/hostname": second}))
    scene.create(pod("b", nodeSelector={"kubernetes.io/hostname": first}))

    assert scene.wait_running("a", "b") == {"a": second, "b": first}
