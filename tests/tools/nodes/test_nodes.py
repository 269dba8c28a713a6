"""What is removed from a machine, and what is not, as far as that needs no root."""

import os
import signal
import subprocess
import sys

import pytest

from deploy.tools.nodes import cgroups, images, leftovers, machine
from deploy.tools.nodes.cluster import ClusterError, NodeCluster


def test_a_process_is_known_by_its_number_and_start():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        identity = leftovers.identity(process.pid)
        assert identity is not None
        assert identity.startswith(f"{process.pid}-")
        process.kill()
        process.wait()
        assert leftovers.identity(process.pid) != identity
    assert leftovers.identity(os.getpid()) != identity


def test_runs_of_processes_that_are_gone_are_found_and_others_are_not(tmp_path, monkeypatch):
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


def test_a_site_is_gone_when_the_process_that_began_it_is(tmp_path, monkeypatch):
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


def test_an_image_goes_when_another_takes_its_name(tmp_path, monkeypatch):
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


def test_a_machine_without_what_nodes_need_says_what(monkeypatch):
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
