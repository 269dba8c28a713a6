"""The flight recorder of a real process: it survives SIGKILL, and what it wrote decides again."""

import contextlib
import io
import json
import threading
from pathlib import Path

import pytest

from scheduler.cli.main import main
from scheduler.model.recording_lines import Decided
from scheduler.observe.recorder.reading import Entry, recording
from tests.integration.objects import pod
from tests.support.live import PATIENCE_SECONDS

pytestmark = pytest.mark.cluster

LOOK_SECONDS = 0.25


def replayed(*arguments: object) -> tuple[int, str, str]:
    """Run the command here; return its exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(["replay", *map(str, arguments)])
    return code, out.getvalue(), err.getvalue()


def wait_recorded(folder: Path, name: str) -> None:
    """Wait until a decision for a pod is in the files."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / LOOK_SECONDS)):
        lines = [part.line for part in recording(folder) if isinstance(part, Entry)]
        if any(isinstance(line, Decided) and line.pod.endswith(f"/{name}") for line in lines):
            return
        pause.wait(LOOK_SECONDS)
    raise TimeoutError(f"no decision for {name} was recorded")


def preempt(scene) -> str:
    """Let three pods be placed, and a fourth evict one of them; return their node."""
    (node,) = scene.nodes(1, cpu="3")
    scene.create(*(pod(name, "1", "low") for name in "abc"))
    scene.wait_running("a", "b", "c")
    scene.create(pod("high", "1", "high"))
    scene.wait_running("high")
    return str(node)


def test_after_sigkill_what_was_written_decides_the_same_again(scene, schedulers, tmp_path):
    folder, config = tmp_path / "recording", tmp_path / "scheduler-0.yaml"
    scheduler = schedulers.start("--recording-dir", str(folder))
    node = preempt(scene)
    scene.create(pod("waits", "64", "low"))
    wait_recorded(folder, "waits")

    scheduler.kill()
    restarted = schedulers.start("--recording-dir", str(folder))
    scene.create(pod("later", "64", "low"))
    wait_recorded(folder, "later")

    code, shown, said = replayed(folder, "--config", config)
    assert (code, said) == (0, "")
    assert shown.endswith(" decisions, 0 different\n")
    assert int(shown.split()[0]) >= 6
    assert restarted.metric("scheduler_recording_gaps_total") == 0

    code, shown, said = replayed(
        folder, "--config", config, "--explain", f"{scene.namespace}/waits", "-o", "json"
    )
    result = json.loads(shown)
    assert (code, result["decision"]) == (0, "Unschedulable")
    assert {each["name"]: each["rejection"] for each in result["nodes"]}[node] == (
        "NodeResourcesFit: Insufficient cpu"
    )


def test_the_page_returns_what_replay_reads(scene, schedulers, tmp_path):
    folder, config = tmp_path / "recording", tmp_path / "scheduler-0.yaml"
    scheduler = schedulers.start("--recording-dir", str(folder))
    preempt(scene)
    wait_recorded(folder, "high")

    status, body = scheduler.fetch("/api/v1/recording?last=15m")

    incident = tmp_path / "incident.rec"
    incident.write_bytes(body)
    assert status == 200
    assert replayed(incident, "--config", config)[0] == 0
    assert scheduler.get("/api/v1/recording?last=soon")[0] == 400
    assert scheduler.metric("scheduler_recording_bytes") > 1000
