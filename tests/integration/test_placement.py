"""Pods are placed: in the order of their priority, and by each rule."""

import pytest

from tests.integration.objects import (
    NO_CLAIMS,
    condition,
    is_bound,
    pod,
    preferred_affinity,
    required_affinity,
)

pytestmark = pytest.mark.cluster

NO_HELP = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"


def fit_error(nodes, *reasons, preemption):
    """Return what kube-scheduler says of a pod that fits on none of so many nodes."""
    said = ", ".join(reasons)
    cure = f"preemption: 0/{nodes} nodes are available: {nodes} {preemption}."
    return f"0/{nodes} nodes are available: {said}. {NO_CLAIMS}{cure}"


def test_pods_run_on_nodes_with_capacity(scene, scheduler):
    nodes = scene.nodes(3, cpu="2")

    scene.create(*(pod(f"p{i}", cpu="1") for i in range(6)))
    placed = scene.wait_running(*(f"p{i}" for i in range(6)))

    assert sorted(placed.values()) == sorted(nodes * 2)
    assert scene.history().bindings() == {f"p{i}": 1 for i in range(6)}


def test_pods_of_other_schedulers_are_not_scheduled(scene, scheduler):
    scene.node()

    scene.create(pod("theirs", by="someone-else"), pod("ours"))

    scene.wait_running("ours")
    assert not is_bound(scene.pod("theirs"))
    assert condition(scene.pod("theirs"), "PodScheduled") == {}


def test_waiting_pods_are_placed_by_priority(scene, schedulers):
    scene.node(cpu="2")
    scene.create(pod("a", priority="low"))
    scene.create(pod("b", priority="middle"))
    scene.create(pod("c", priority="low"))
    scene.create(pod("d", priority="high"))

    schedulers.start()

    scene.wait_running("b", "d")
    scene.wait_rejected("a")
    scene.wait_rejected("c")
    assert scene.history().evicted() == []


def test_a_new_pod_is_not_blocked_by_waiting_pods(scene, scheduler):
    scene.node(cpu="2")
    scene.create(pod("huge", cpu="64", priority="high"))
    scene.wait_rejected("huge")

    scene.create(pod("small", cpu="1", priority="low"))

    scene.wait_running("small")


def test_a_pod_is_placed_on_a_node_added_later(scene, scheduler):
    scene.create(pod("a"))
    scene.wait_rejected("a", "no nodes available to schedule pods")

    node = scene.node()

    assert scene.wait_running("a") == {"a": node}


def test_cpu_in_use_is_not_assigned_twice(scene, scheduler):
    scene.node(cpu="2")
    scene.run(pod("there", cpu="1500m", on=scene.node(cpu="2")))

    scene.create(*(pod(name, cpu="1500m") for name in "ab"))
    (waiting,) = scene.wait_bound_count(2)

    scene.wait_rejected(waiting, fit_error(2, "2 Insufficient cpu", preemption=NO_VICTIMS))


def test_extended_resources_are_counted(scene, scheduler):
    gpu = "example.com/gpu"
    scene.node()
    with_gpus = scene.node(resources={gpu: "2"})

    scene.create(pod("two", requests={gpu: "2"}))
    assert scene.wait_bound("two") == with_gpus
    scene.create(pod("one", requests={gpu: "1"}))

    scene.wait_rejected(
        "one",
        f"0/2 nodes are available: 2 Insufficient example.com/gpu. {NO_CLAIMS}"
        "preemption: 0/2 nodes are available: 1 No preemption victims found for incoming pod, "
        "1 Preemption is not helpful for scheduling.",
    )


def test_capacity_that_becomes_free_is_used(scene, scheduler):
    node = scene.node(cpu="1")
    scene.create(pod("first"))
    scene.wait_running("first")
    scene.create(pod("second"))
    scene.wait_rejected("second")

    scene.api.delete(scene.path("first"))

    assert scene.wait_running("second") == {"second": node}


def test_tainted_nodes_accept_only_pods_that_tolerate_the_taint(scene, schedulers):
    taint = {"key": "example.com/only", "value": "batch", "effect": "NoSchedule"}
    tolerated = {"key": "example.com/only", "operator": "Equal", "value": "batch"}
    node = scene.node(taints=(taint,))
    schedulers.start()

    scene.create(pod("a"), pod("b", tolerations=[tolerated]))

    assert scene.wait_bound("b") == node
    scene.wait_rejected("a", fit_error(1, "1 node(s) had untolerated taint(s)", preemption=NO_HELP))
    scene.patch_node(node, {"spec": {"taints": None}})
    assert scene.wait_bound("a") == node


def test_cordoned_nodes_accept_no_pod_until_they_are_uncordoned(scene, schedulers):
    node = scene.node()
    scene.patch_node(node, {"spec": {"unschedulable": True}})
    schedulers.start()

    scene.create(pod("a"))

    scene.wait_rejected("a", fit_error(1, "1 node(s) were unschedulable", preemption=NO_HELP))
    scene.patch_node(node, {"spec": {"unschedulable": None}})
    assert scene.wait_bound("a") == node


def test_node_selectors_and_required_affinity_choose_nodes_by_label(scene, schedulers):
    ssd, hdd = (scene.node(labels={"disk": kind}) for kind in ("ssd", "hdd"))
    schedulers.start()

    scene.create(
        pod("selects", nodeSelector={"disk": "ssd"}),
        pod("requires", affinity=required_affinity("disk", "hdd", "tape")),
        pod("nowhere", nodeSelector={"disk": "nvme"}),
    )

    assert scene.wait_bound("selects") == ssd
    assert scene.wait_bound("requires") == hdd
    reason = "2 node(s) didn't match Pod's node affinity/selector"
    scene.wait_rejected("nowhere", fit_error(2, reason, preemption=NO_HELP))
    scene.patch_node(hdd, {"metadata": {"labels": {"disk": "nvme"}}})
    assert scene.wait_bound("nowhere") == hdd


def test_preferred_affinity_decides_between_nodes_that_fit(scene, schedulers):
    scene.nodes(2)
    wanted = scene.node(labels={"zone": "b"})
    scene.nodes(1)
    schedulers.start()

    scene.create(pod("a", affinity=preferred_affinity("zone", "b")))

    assert scene.wait_bound("a") == wanted


def test_host_ports_are_assigned_once_per_node(scene, schedulers):
    nodes = scene.nodes(2)
    schedulers.start()

    scene.create(pod("a", ports=(8080,)), pod("b", ports=(8080,)))
    assert sorted(scene.wait_bound(name) for name in "ab") == nodes
    scene.create(pod("c", ports=(8080,)), pod("d", ports=(8081,)))

    assert scene.wait_bound("d") in nodes
    reason = "2 node(s) didn't have free ports for the requested pod ports"
    scene.wait_rejected("c", fit_error(2, reason, preemption=NO_VICTIMS))
    scene.api.delete(scene.path("a"))
    assert scene.wait_bound("c") in nodes


def test_nodes_that_have_the_image_are_preferred(scene, schedulers):
    scene.nodes(2)
    wanted = scene.node()
    images = [{"names": ["registry.example/big:1"], "sizeBytes": 900 << 20}]
    scene.api.patch(f"/api/v1/nodes/{wanted}/status", {"status": {"images": images}})
    schedulers.start()

    scene.create(pod("a", image="registry.example/big:1"))

    assert scene.wait_bound("a") == wanted


def test_gated_pods_wait_until_the_last_gate_is_removed(scene, scheduler):
    node = scene.node()
    gates = [{"name": "example.com/one"}, {"name": "example.com/two"}]
    scene.create(pod("gated", schedulingGates=gates), pod("open"))
    scene.wait_bound("open")
    scene.api.patch(scene.path("gated"), {"spec": {"schedulingGates": gates[1:]}})
    scene.create(pod("later"))
    scene.wait_bound("later")
    assert not is_bound(scene.pod("gated"))
    assert condition(scene.pod("gated"), "PodScheduled")["reason"] == "SchedulingGated"
    assert scheduler.metric("scheduler_pending_pods", queue="gated") == 1

    scene.api.patch(scene.path("gated"), {"spec": {"schedulingGates": []}})

    assert scene.wait_bound("gated") == node


def test_a_pod_that_is_created_again_under_the_same_name_is_another_pod(scene, scheduler):
    first, second = scene.nodes(2, cpu="1")
    scene.create(pod("a", nodeSelector={"kubernetes.io/hostname": first}))
    assert scene.wait_running("a") == {"a": first}

    scene.remove("a")
    scene.create(pod("a", nodeSelector={"kubernetes.io/hostname": second}))
    scene.create(pod("b", nodeSelector={"kubernetes.io/hostname": first}))

    assert scene.wait_running("a", "b") == {"a": second, "b": first}
