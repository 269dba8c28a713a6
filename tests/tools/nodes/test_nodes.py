"""What nodes are made from, as far as it needs no root: files, archives, names, reasons."""

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from deploy.tools.kind import cluster as kind
from deploy.tools.nodes import cgroups, configs, images, leftovers, machine, networking
from deploy.tools.nodes.cluster import ClusterError, NodeCluster
from deploy.tools.nodes.configs import Node

NODE = Node("worker-2", 2, Path("/disk"), "run/worker-2", Path("/plugins"))


def test_every_node_has_addresses_of_its_own():
    bridge = json.loads(configs.network(NODE))["plugins"][0]
    kubelet = yaml.safe_load(configs.kubelet(NODE, Path("/ca.crt")))

    assert bridge["ipam"]["ranges"] == [[{"subnet": "10.98.130.0/24"}]]
    assert kubelet["address"] == networking.address(2) == "10.98.0.12"
    assert kubelet["cgroupRoot"] == "/run/worker-2"


def test_only_the_api_server_may_talk_to_a_kubelet():
    kubelet = yaml.safe_load(configs.kubelet(NODE, Path("/ca.crt")))

    assert kubelet["authentication"]["anonymous"] == {"enabled": False}
    assert kubelet["authentication"]["x509"] == {"clientCAFile": "/ca.crt"}
    assert kubelet["authorization"] == {"mode": "Webhook"}


def test_nodes_reach_the_pods_of_each_other():
    routes = [
        command[3:] for command in networking.inside(1, 3) if command[:3] == ("ip", "route", "add")
    ]

    assert ("10.98.130.0/24", "via", "10.98.0.12") in routes
    assert ("10.98.131.0/24", "via", "10.98.0.13") in routes
    assert ("10.98.129.0/24", "via", "10.98.0.11") not in routes


def test_the_image_of_workloads_is_one_that_can_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "busybox").write_bytes(b"program")
    (tmp_path / "busybox").chmod(0o755)
    monkeypatch.setattr(images, "FOLDER", tmp_path / "made")
    monkeypatch.setattr(machine, "search_path", lambda: str(tmp_path))

    with tarfile.open(images.workload_archive()) as archive:
        files = {each.name: archive.extractfile(each).read() for each in archive}

    (manifest,) = json.loads(files["manifest.json"])
    config = json.loads(files[manifest["Config"]])
    layer = files[manifest["Layers"][0]]
    assert manifest["RepoTags"] == [images.WORKLOAD]
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}"]
    assert config["config"]["User"] == "65532:65532"
    with tarfile.open(fileobj=io.BytesIO(layer)) as tree:
        assert tree.extractfile("bin/busybox").read() == b"program"


def test_a_process_is_known_by_its_number_and_start():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        identity = leftovers.identity(process.pid)
        assert identity is not None
        assert identity.startswith(f"{process.pid}-")
        process.kill()
        process.wait()
        assert leftovers.identity(process.pid) != identity
    assert leftovers.identity(os.getpid()) != identity


def test_runs_of_processes_that_are_gone_are_found_and_others_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(leftovers.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(cgroups, "hierarchies", list)
    reused = f"{leftovers.PREFIX}{os.getpid()}-1"
    for name in (reused, leftovers.run_name(), f"{leftovers.PREFIX}notes"):
        (tmp_path / name / "disk").mkdir(parents=True)

    assert leftovers.dead_runs() == [reused]
    leftovers.remove(reused)

    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [leftovers.run_name(), f"{leftovers.PREFIX}notes"]
    )


#: As `unshare` does, ends a moment after its child.
PARENT = """
import subprocess, sys, time
with subprocess.Popen([sys.executable, "-c", "input()"]):
    pass
time.sleep(0.5)
"""


def test_a_site_is_gone_when_the_process_that_began_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(leftovers.tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(cgroups, "hierarchies", list)
    run = f"{leftovers.PREFIX}1-1"
    leftovers.folder(run).mkdir()

    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE) as parent:
        leftovers.record_sandbox(run, parent.pid)
        first, last = (leftovers.folder(run) / leftovers.SITE).read_text().split()
        assert last == leftovers.identity(parent.pid)
        os.kill(int(first.partition("-")[0]), signal.SIGKILL)
        leftovers.remove(run)

        assert leftovers.identity(parent.pid) is None
    assert not leftovers.folder(run).exists()


#: An engine with one image, which every build replaces.
ENGINE = """#!/bin/sh
cd {folder}
case $1 in
images) cat built 2>/dev/null ;;
build) echo "sha256:$(cat built 2>/dev/null | wc -c)" > built ;;
rmi) echo "$2" >> removed ;;
esac
"""


def test_an_image_goes_when_another_takes_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    engine = tmp_path / "docker"
    engine.write_text(ENGINE.format(folder=tmp_path))
    engine.chmod(0o755)
    path = f"{tmp_path}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.setattr(images, "FOLDER", tmp_path)

    images.scheduler_archive({"PATH": path})
    assert not (tmp_path / "removed").exists()
    images.scheduler_archive({"PATH": path})
    images.scheduler_archive({"PATH": path})

    assert (tmp_path / "removed").read_text() == "sha256:0\n"


def test_a_machine_without_what_nodes_need_says_what(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(machine, "search_path", lambda: "/nowhere")
    monkeypatch.setattr(machine, "CNI_FOLDERS", ())
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    found = machine.problems()

    assert "nodes need root, for namespaces, mounts and cgroups" in found
    assert "runc is not on PATH (Debian: runc)" in found
    assert any(machine.CNI_PACKAGE in each for each in found)
    with pytest.raises(ClusterError, match="runc is not on PATH"):
        NodeCluster([])
    with pytest.raises(OSError, match=r"only root|no apt-get"):
        machine.install({})


def test_packages_are_installed_for_missing_programs_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked: list[list[str]] = []
    monkeypatch.setattr(machine, "search_path", lambda: str(tmp_path))
    monkeypatch.setattr(machine, "CNI_FOLDERS", (tmp_path,))
    monkeypatch.setattr(machine, "_apt", asked.append)
    for name in (*machine.PACKAGES, *machine.CNI_PLUGINS, "prometheus"):
        (tmp_path / name).touch(mode=0o755)

    machine.install({"prometheus": "prometheus"})
    (tmp_path / "runc").unlink()
    (tmp_path / machine.CNI_PLUGINS[0]).unlink()
    machine.install({"prometheus": "prometheus", "buildah": "buildah"})

    assert asked == [["buildah", machine.CNI_PACKAGE, "runc"]]


def test_a_cluster_of_kind_has_two_nodes_for_pods():
    config = yaml.safe_load(kind.CONFIG.read_text())

    assert config["apiVersion"] == "kind.x-k8s.io/v1alpha4"
    assert [node["role"] for node in config["nodes"]] == ["control-plane", "worker", "worker"]


def test_the_images_are_loaded_into_the_cluster_that_was_made():
    made, *loaded = kind.commands(Path("/k"), [Path("/a.tar"), Path("/b.tar")], "kindest/node:v1")

    assert made[:3] == ["kind", "create", "cluster"]
    assert {"--kubeconfig=/k", "--image=kindest/node:v1", f"--name={kind.NAME}"} <= set(made)
    assert loaded == [
        ["kind", "load", "image-archive", archive, f"--name={kind.NAME}"]
        for archive in ("/a.tar", "/b.tar")
    ]


def test_without_docker_it_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")

    assert kind.problems() == ["kind is not on PATH", "docker is not on PATH"]
    with pytest.raises(kind.KindError, match="docker is not on PATH"):
        kind.KindCluster([])
