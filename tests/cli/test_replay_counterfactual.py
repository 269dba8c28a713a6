"""`replay` with other policies or another configuration says what would have been different."""

from pathlib import Path

import pytest

from scheduler.model.events import (
    NodeObserved,
    PodObserved,
    PolicyObserved,
)
from scheduler.model.policies import PreemptionPolicy
from scheduler.sim import manifests
from tests.cli.recorded import EXTENDER, T, node, pod, replayed, without_first
from tests.support.recordings import RecordedMachine

POLICY = """\
apiVersion: preemptive-scheduler.io/v1alpha1
kind: PreemptionPolicy
metadata: {name: protect}
spec: {budgets: [{maxVictims: 0, window: 1h}]}
"""


def read_policies(path: Path) -> list[PreemptionPolicy]:
    return manifests.read([str(path)]).policies


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    """Return a file with a policy that allows no victim at all."""
    path = tmp_path / "policy.yaml"
    path.write_text(POLICY)
    return path


@pytest.mark.parametrize("left_out", [0, 1])
def test_another_policy_shows_what_would_have_been_different(longer, policy, capsys, left_out):
    without_first(longer, left_out)

    code, shown, said = replayed(capsys, longer, "--policy", policy)

    lines = shown.splitlines()
    assert (code, said) == (1, "")
    assert lines[0].startswith(
        "2026-01-01T00:00:02Z default/high: recorded Preempting on n1 evicting default/low ("
    )
    assert "; with the change Unschedulable (" in lines[0]
    assert lines[1] == "2026-01-01T00:00:02Z the histories diverge here; the rest is simulated"
    # The victim stays on n1; n2 comes and has room for one pod.
    assert "default/low: recorded as a victim; not evicted (own simulation)" in lines
    assert lines[-2] == (
        "0 decisions are the same; then 1 pods are placed (recorded 2), 0 evicted (recorded 1), "
        "2 wait (recorded 1) (own simulation)"
    )
    # Only one pod that waits has a possible victim.
    assert lines[-1] == "attempts in which policy protect refuses evictions: 1"


@pytest.mark.parametrize("left_out", [0, 1, 2])
def test_another_configuration_decides_as_after_a_restart(longer, tmp_path, capsys, left_out):
    without_first(longer, left_out)
    config = tmp_path / "other.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: preemptive-scheduler, "
        "plugins: {multiPoint: {disabled: [{name: DefaultPreemption}]}}}]\n"
    )

    code, shown, said = replayed(capsys, longer, "--config", config)

    assert (code, said) == (int(left_out < 2), "")
    if left_out < 2:
        assert "with the change Unschedulable" in shown
        assert "default/low: recorded as a victim; not evicted (own simulation)" in shown


def test_a_configuration_without_the_profile_of_waiting_pods_leaves_them_alone(
    longer, tmp_path, capsys
):
    without_first(longer, 1)
    config = tmp_path / "other.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: other}]\n"
    )

    code, shown, said = replayed(capsys, longer, "--config", config)

    assert (code, said) == (1, "")
    assert "default/high: recorded" in shown


def test_the_own_simulation_evicts_and_goes_on(tmp_path, policy, capsys):
    policy.write_text(POLICY)
    recorded = RecordedMachine(tmp_path / "x.rec")
    recorded.observe_all(PolicyObserved(read_policies(policy)[0]), T)
    recorded.observe_all(NodeObserved(node("n1")), T)
    recorded.observe_all(PodObserved(pod("low", on="n1")), T)
    recorded.observe_all(PodObserved(pod("high", priority=9)), T + 1)
    recorded.step_all(T + 1)
    recorded.flush(T + 10)
    recorded.flush(T + 20)
    policy.write_text(POLICY.replace("maxVictims: 0", "maxVictims: 1"))

    code, shown, _ = replayed(capsys, recorded.path, "--policy", policy)

    lines = shown.splitlines()
    assert code == 1
    assert "with the change Preempting on n1 evicting default/low" in lines[0]
    assert lines[2] == (
        "2026-01-01T00:00:10Z default/high: with the change Scheduled on n1; recorded "
        f"{lines[0].partition('recorded ')[2].partition('; with the change')[0]} "
        "at 2026-01-01T00:00:01Z (own simulation)"
    )
    assert lines[-1] == (
        "0 decisions are the same; then 1 pods are placed (recorded 0), 1 evicted (recorded 0), "
        "0 wait (recorded 1) (own simulation)"
    )


def test_with_extenders_nothing_can_be_decided_otherwise(longer, tmp_path, capsys):
    config = tmp_path / "config.yaml"
    config.write_text(EXTENDER)

    code, shown, said = replayed(capsys, longer, "--config", config)

    assert (code, shown) == (2, "")
    assert said.endswith("only the responses that the extenders returned\n")


def test_a_file_without_a_policy_is_refused(longer, tmp_path, capsys):
    path = tmp_path / "none.yaml"
    path.write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")

    assert replayed(capsys, longer, "--policy", path) == (2, "", f"{path}: no PreemptionPolicy\n")
