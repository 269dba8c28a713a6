"""A control plane of its own, because these tests break it and end it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.tools.controlplane.api import ApiClient, ApiError
from deploy.tools.controlplane.cluster import ControlPlane, ControlPlaneError
from deploy.tools.controlplane.components import Settings

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[3]
PODS = "/api/v1/namespaces/default/pods"
CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kwok")


def bound_pod(name, node):
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "none"}]}
    return {"metadata": {"name": name}, "spec": spec}


def is_running(pod):
    return pod is not None and pod["status"].get("phase") == "Running"


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_control_plane_lives_survives_faults_and_leaves_nothing():
    with ControlPlane() as cluster:
        api = cluster.api
        (node,) = cluster.create_nodes(1)
        api.post(PODS, bound_pod("first", node))
        running = api.wait_for(PODS + "/first", is_running)
        assert running["status"]["startTime"]

        before = api.get(CONFIGMAPS)["metadata"]["resourceVersion"]
        page = api.get("/api/v1/configmaps", limit="1")["metadata"]["continue"]
        api.post(CONFIGMAPS, {"metadata": {"name": "later"}})
        assert cluster.compact_etcd() > int(before)
        cluster.restart_apiserver()
        with pytest.raises(ApiError) as too_old:
            next(api.watch(CONFIGMAPS, before))
        assert too_old.value.status == 410
        with pytest.raises(ApiError) as expired:
            api.get("/api/v1/configmaps", **{"limit": "1", "continue": page})
        assert expired.value.status == 410

        before = cluster.pid("kube-controller-manager")
        cluster.restart_controllers()
        assert cluster.pid("kube-controller-manager") != before
        cluster.create_namespace("later")  # a controller creates its ServiceAccount

        api.post(PODS, bound_pod("second", node))
        api.wait_for(PODS + "/second", is_running)
        pids = [cluster.pid(name) for name in COMPONENTS]
        assert all(map(is_alive, pids))

    assert not any(map(is_alive, pids))
    assert not cluster.folder.exists()


def test_a_component_that_does_not_start_is_named_with_its_log_and_all_is_cleaned_up():
    cluster = ControlPlane(Settings(flags={"kube-apiserver": {"nonsense": "1"}}))

    with pytest.raises(ControlPlaneError) as failed:
        cluster.start()

    assert str(failed.value).startswith("kube-apiserver ended with 1:\n")
    assert str(failed.value).endswith("unknown flag: --nonsense")
    assert not cluster.folder.exists()


def test_up_runs_until_it_is_interrupted_and_removes_its_kubeconfig(tmp_path):
    target = tmp_path / "kubeconfig"
    command = [
        sys.executable,
        "-m",
        "deploy.tools.controlplane",
        "up",
        "--nodes",
        "2",
        "--kubeconfig",
        target,
    ]

    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as up:
        assert up.stdout.readline().startswith("ready in ")
        assert up.stdout.readline() == f"export KUBECONFIG={target}\n"
        with ApiClient.from_kubeconfig(target) as api:
            assert len(api.items("/api/v1/nodes")) == 2
        up.terminate()

    assert up.returncode == 130
    assert not target.exists()
