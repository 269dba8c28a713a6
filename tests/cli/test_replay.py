"""A recording, replayed, comes to the same decisions; and says so where it does not."""

import json

import pytest

from scheduler.config import load
from scheduler.model.decisions import Failed, Placed
from scheduler.model.effects import Ask
from scheduler.model.events import (
    Answered,
    NodeObserved,
    PodObserved,
)
from scheduler.model.extender_answers import Filtered, NoAnswer
from scheduler.observe.recorder.frames import FrameWriter
from tests.cli.recorded import EXTENDER, T, lived, node, pod, replayed, without_first
from tests.support import builders
from tests.support.recordings import RecordedMachine


def test_a_recording_replays_to_the_same_decisions(incident, capsys):
    assert replayed(capsys, incident) == (0, "4 decisions, 0 different\n", "")


@pytest.mark.parametrize(("left_out", "decisions"), [(0, 4), (1, 4), (2, 3), (3, 2)])
def test_any_suffix_of_segments_replays_to_the_same_decisions(longer, capsys, left_out, decisions):
    without_first(longer, left_out)

    assert replayed(capsys, longer) == (0, f"{decisions} decisions, 0 different\n", "")


def test_a_recording_is_decided_again_as_the_release_that_it_names(tmp_path, capsys):
    recorded = RecordedMachine(tmp_path / "new.rec", load.defaults(reference="v1.37"))
    lived(recorded)

    assert replayed(capsys, recorded.path)[::2] == (0, "")
    # Given explicitly, another release is another configuration.
    assert replayed(capsys, recorded.path, "--reference", "v1.36")[::2] == (0, "")


def test_a_configuration_that_is_not_given_is_missed(tmp_path, capsys):
    config = tmp_path / "config.yaml"
    config.write_text(EXTENDER)
    recorded = RecordedMachine(tmp_path / "x.rec", load.read(config))

    code, _, warned = replayed(capsys, recorded.path)

    assert code == 0
    assert warned == "warning: recorded with another configuration: give it with --config\n"


def test_a_profile_of_waiting_pods_that_is_missing_is_named(tmp_path, capsys):
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: two}]\n"
    )
    recorded = RecordedMachine(tmp_path / "x.rec", load.read(config))
    recorded.observe_all(PodObserved(builders.pod("x").scheduler("two").build()), T)
    recorded.segment(T, continues=False)
    without_first(recorded.path, 1)
    recorded.step(T + 1.0)

    code, _, said = replayed(capsys, recorded.path)

    assert code == 2
    assert said.endswith(": the configuration has no profile 'two'\n")
    assert replayed(capsys, recorded.path, "--config", config)[0] == 0


def test_a_decision_that_differs_is_shown(tmp_path, capsys):
    recorded = RecordedMachine(tmp_path / "x.rec")
    recorded.observe_all(NodeObserved(node("n1")), T)
    recorded.observe_all(PodObserved(pod("a")), T)
    recorded.write(
        FrameWriter().frame(
            f'[{T + 1},"Decided",{{"pod":"default/a","decision":"Gone"}}]\n'.encode()
        )
    )

    code, shown, _ = replayed(capsys, recorded.path)

    assert code == 1
    assert shown.startswith(
        "2026-01-01T00:00:01Z default/a: recorded Gone; replayed Scheduled on n1 ("
    )
    assert shown.endswith("1 decisions, 1 different\n")


def test_decisions_after_an_incomplete_snapshot_are_marked(tmp_path, capsys):
    config = tmp_path / "config.yaml"
    config.write_text(EXTENDER)
    recorded = RecordedMachine(tmp_path / "x.rec", load.read(config))
    recorded.observe(NodeObserved(node("n1")), T)
    recorded.observe(PodObserved(pod("a")), T)
    (asked,) = recorded.step(T).effects
    recorded.segment(T + 1)
    assert isinstance(asked, Ask)
    recorded.observe(Answered(asked.pod, asked.number, (NoAnswer("broken"),)), T + 2)
    recorded.step(T + 2)
    without_first(recorded.path, 1)

    code, shown, _ = replayed(capsys, recorded.path, "--config", config)

    assert code == 1
    assert "not certain: the segment lacks attempts that wait for extenders: 1" in shown
    assert shown.endswith("1 decisions, 1 different, 1 of them not certain\n")


def test_answers_of_extenders_are_part_of_a_recording(tmp_path, capsys):
    config = tmp_path / "config.yaml"
    config.write_text(EXTENDER)
    recorded = RecordedMachine(tmp_path / "x.rec", load.read(config))
    recorded.observe(NodeObserved(node("n1")), 1.0)
    recorded.observe(NodeObserved(node("n2")), 1.0)
    recorded.observe(PodObserved(pod("slow")), 2.0)
    recorded.observe(PodObserved(pod("late")), 2.0)
    asked = [effect for _ in range(2) for effect in recorded.step(3.0).effects]
    answers = [Filtered(("n2",), {"n1": "no"}), NoAnswer("broken")]
    for effect, answer in zip(asked, answers, strict=True):
        assert isinstance(effect, Ask)
        recorded.observe(Answered(effect.pod, effect.number, (answer,)), 4.0)
    decisions = [recorded.step(5.0).decision for _ in range(2)]

    assert decisions == [Placed("n2"), Failed("broken")]
    assert replayed(capsys, recorded.path, "--config", config)[:2] == (
        0, "4 decisions, 0 different\n",
    )  # fmt: skip


# Explaining ---------------------------------------------------------------------------------------


def test_a_decision_is_explained_as_of_then(longer, capsys):
    code, shown, said = replayed(
        capsys, longer, "--explain", "default/high", "--at", "2026-01-01T00:00:05Z", "-o", "json"
    )

    result = json.loads(shown)
    assert (code, said) == (0, "decided at 2026-01-01T00:00:02Z\n")
    assert (result["decision"], result["victims"][0]["pod"]["name"]) == ("Preempting", "low")
    assert [each["rejection"] for each in result["nodes"]] == ["NodeResourcesFit: Insufficient cpu"]


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--explain", "default/none"], "no decision is recorded for default/none"),
        (
            ["--explain", "default/high", "--at", "2026-01-01T00:00:01Z"],
            "no decision is recorded for default/high until 2026-01-01T00:00:01Z",
        ),
    ],
)
def test_a_pod_that_was_not_decided_is_no_success(longer, capsys, arguments, problem):
    assert replayed(capsys, longer, *arguments) == (2, "", f"{longer}: {problem}\n")


def test_without_a_time_the_last_decision_is_explained(longer, capsys):
    code, shown, said = replayed(capsys, longer, "--explain", "default/high")

    assert (code, said) == (0, "decided at 2026-01-01T00:00:09Z\n")
    assert "Scheduled" in shown


def test_a_pod_without_its_namespace_is_asked_for(longer, capsys):
    problem = "--explain high: name the pod as NAMESPACE/NAME\n"
    assert replayed(capsys, longer, "--explain", "high") == (2, "", problem)
