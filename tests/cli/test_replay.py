"""A capture, replayed, comes to the same decisions; and says so where it does not."""

from pathlib import Path

import pytest

from scheduler.cli.main import main
from scheduler.config import load
from scheduler.core.machine import Machine
from scheduler.model import capture_codec
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
from scheduler.model.decisions import Attempt, Failed, Placed
from scheduler.model.effects import Ask, Bind, Effect, Evict, PodRef, Question, Verb
from scheduler.model.events import (
    Answered,
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
    NodeObserved,
    PodGone,
    PodObserved,
)
from scheduler.model.extender_answers import ExtenderVictims, Filtered, NoAnswer, Scored, VictimUids
from scheduler.observe.capture import Capture
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff

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


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    """Write the capture of a run with a placement, a preemption and a failed eviction."""
    path = tmp_path / "capture"
    machine = Machine(registry.profiles(load.defaults()), PodBackoff())
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


def test_a_capture_is_decided_again_as_the_release_that_it_names(
    capture: Path, capsys: pytest.CaptureFixture[str]
):
    recorded = capture.read_bytes()

    capture.write_bytes(b'{"kind":"Followed","reference":"v1.37"}\n' + recorded)
    assert main(["replay", str(capture)]) == 0
    capture.write_bytes(b'{"kind":"Followed","reference":"v1.99"}\n' + recorded)
    assert main(["replay", str(capture)]) == 2

    assert capsys.readouterr().err == f"{capture}: line 1: no known release: 'v1.99'\n"


def test_a_decision_that_differs_is_shown(capture: Path, capsys: pytest.CaptureFixture[str]):
    capture.write_bytes(capture.read_bytes().replace(b'"decision":"Placed"', b'"decision":"Gone"'))

    code = main(["replay", str(capture)])

    shown = capsys.readouterr().out
    assert code == 1
    assert "recorded Decided" in shown
    assert shown.endswith("2 decisions, 1 different\n")


def test_answers_of_extenders_are_part_of_a_capture(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    config, path = tmp_path / "config.yaml", tmp_path / "capture"
    config.write_text(EXTENDER)
    machine = Machine(registry.profiles(load.read(config)), PodBackoff())
    with path.open("wb") as file:
        kept = Capture(file)

        def observe(event: Event, now: float) -> tuple[Effect, ...]:
            kept.event(event, now)
            return machine.observe(event, now).effects

        def step(now: float) -> Attempt:
            attempt = machine.step(now)
            assert attempt is not None
            kept.decision(attempt, now)
            return attempt

        observe(NodeObserved(node("n1")), 1.0)
        observe(NodeObserved(node("n2")), 1.0)
        observe(PodObserved(pod("slow")), 2.0)
        observe(PodObserved(pod("late")), 2.0)
        asked = [effect for _ in range(2) for effect in step(3.0).effects]
        answers = [Filtered(("n2",), {"n1": "no"}), NoAnswer("broken")]
        for effect, answer in zip(asked, answers, strict=True):
            assert isinstance(effect, Ask)
            observe(Answered(effect.pod, effect.number, (answer,)), 4.0)
        decisions = [step(5.0).decision for _ in range(2)]

    code = main(["replay", str(path), "--config", str(config)])

    assert decisions == [Placed("n2"), Failed("broken")]
    assert (code, capsys.readouterr().out) == (0, "4 decisions, 0 different\n")


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
        EffectFailed(
            Ask(PodRef("d", "p", "p"), 3, "7", (Question(0, Verb.FILTER, ("n1",)),)),
            Failure(FailureKind.GONE, "no"),
        ),
        Answered(
            PodRef("d", "p", "p"),
            3,
            (
                Filtered(("n1",), {"n2": "no"}, {"n3": "never"}),
                Scored((("n1", 3),)),
                ExtenderVictims((VictimUids("n1", ("v",), 1),)),
                NoAnswer("broken"),
            ),
        ),
    ],
    ids=lambda event: type(event).__name__,
)
def test_events_are_written_to_a_line_and_read_back_unchanged(event: Event):
    assert capture_codec.decode(capture_codec.encode(event, 1.25)) == (event, 1.25)
