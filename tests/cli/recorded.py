"""A recording of four decisions, and what `replay` says about a recording."""

from io import BytesIO
from pathlib import Path

import pytest

from scheduler.cli.main import main
from scheduler.model.api.objects import (
    Container,
    Node,
    NodeMeta,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from scheduler.model.events import (
    NodeObserved,
    PodGone,
    PodObserved,
)
from scheduler.observe.recorder.frames import frames
from tests.support.recordings import RecordedMachine

EXTENDER = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
extenders: [{urlPrefix: http://extender.example, filterVerb: filter}]
"""


def node(name: str) -> Node:
    return Node(NodeMeta(name=name), status=NodeStatus({"cpu": "2", "pods": "5"}))


def pod(name: str, *, priority: int = 0, on: str = "") -> Pod:
    container = Container(name="c", resources=ResourceRequirements({"cpu": "2"}))
    return Pod(
        ObjectMeta(name=name, namespace="default", uid=name),
        PodSpec(
            node_name=on,
            scheduler_name="preemptive-scheduler",
            priority=priority,
            containers=[container],
        ),
    )


#: A time as the epoch has it, so that stamps can be read.
T = 1_767_225_600.0


def lived(recorded: RecordedMachine, *, segments: bool = False) -> None:
    """Let a placement, a preemption and a wait happen."""
    recorded.observe_all(NodeObserved(node("n1")), T + 1.0)
    recorded.observe_all(PodObserved(pod("low", on="n1")), T + 1.0)
    recorded.observe_all(PodObserved(pod("high", priority=9)), T + 2.0)
    recorded.flush(T + 2.0)
    if segments:
        recorded.segment(T + 2.0)
    recorded.step_all(T + 2.5)
    if segments:
        recorded.segment(T + 2.6)
    recorded.observe_all(PodGone("default/low", "low"), T + 3.0)
    recorded.observe_all(NodeObserved(node("n2")), T + 4.0)
    recorded.step_all(T + 9.0)
    if segments:
        recorded.segment(T + 9.1)
    recorded.observe_all(PodObserved(pod("low2")), T + 10.0)
    recorded.observe_all(PodObserved(pod("low3")), T + 10.0)
    recorded.step_all(T + 10.0)
    recorded.step_all(T + 10.0)


def replayed(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main(["replay", *map(str, arguments)])
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def without_first(path: Path, segments: int) -> None:
    """Leave out the first segments of a recording."""
    data = path.read_bytes()
    begins = [frame.offset for frame in frames(BytesIO(data)) if frame.starts_segment]
    path.write_bytes(data[begins[segments] :])
