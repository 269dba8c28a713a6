"""A capture, replayed, comes to the same decisions; and says so where it does not."""

from pathlib import Path

import pytest

from scheduler.cli.main import main
from scheduler.config import load
from scheduler.core.machine import Machine
from scheduler.model import wire
from scheduler.model.effects import Bind, Evict, PodRef
from scheduler.model.events import (
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
    NodeObserved,
    PodGone,
    PodObserved,
)
from scheduler.model.objects import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from scheduler.observe.capture import Capture
from scheduler.plugins import registry
from scheduler.state.backoff import Backoff


def node(name: str) -> Node:
    return Node(ObjectMeta(name=name), status=NodeStatus({"cpu": "2", "pods": "5"}))


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


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Write the capture of a run with a placement, a preemption and a failed eviction."""
    path = tmp_path / "capture"
    machine = Machine(registry.profiles(load.defaults()), Backoff())
    with path.open("wb") as file:
        kept = Capture(file)

        def observe(event: Event, now: float) -> None:
            kept.event(event, now)
            for effect in machine.observe(event, now).effects:
                observe(EffectDone(effect), now)

        def step(now: float) -> None:
            attempt = machine.step(now)
            assert attempt is not None
            kept.decision(attempt, now)
            for effect in attempt.effects:
                observe(EffectDone(effect), now)

        observe(NodeObserved(node("n1")), 1.0)
        observe(PodObserved(pod("low", on="n1")), 1.0)
        observe(PodObserved(pod("high", priority=9)), 2.0)
        step(2.5)
        observe(PodGone("default/low", "low"), 3.0)
        observe(NodeObserved(node("n2")), 4.0)
        step(9.0)
    return path


def test_a_capture_replays_to_the_same_decisions(capture: Path, capsys: pytest.CaptureFixture[str]):
    code = main(["replay", str(capture)])

    assert (code, capsys.readouterr().out) == (0, "2 decisions, 0 different\n")


def test_a_decision_that_differs_is_shown(capture: Path, capsys: pytest.CaptureFixture[str]):
    capture.write_bytes(capture.read_bytes().replace(b'"decision":"Placed"', b'"decision":"Gone"'))

    code = main(["replay", str(capture)])

    shown = capsys.readouterr().out
    assert code == 1
    assert "then Decided" in shown
    assert shown.endswith("2 decisions, 1 different\n")


def test_a_line_that_is_no_event_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "capture"
    path.write_text('{"at": 1, "kind": "Nonsense", "value": {}}\n')

    code = main(["replay", str(path)])

    assert code == 2
    assert "line 1: not an event" in capsys.readouterr().err


@pytest.mark.parametrize(
    "event",
    [
        PodObserved(pod("a")),
        PodGone("default/a", "a"),
        EffectDone(Bind(PodRef("default", "a", "a"), "n1", "ours"), changed=False),
        EffectFailed(
            Evict(PodRef("d", "v", "v"), "n1", PodRef("d", "p", "p"), "ours", 3),
            Failure(FailureKind.FORBIDDEN, "no"),
        ),
    ],
    ids=lambda event: type(event).__name__,
)
def test_events_survive_the_way_to_a_line_and_back(event: Event):
    assert wire.decode(wire.encode(event, 1.25)) == (event, 1.25)
