"""The benchmark on a real control plane: a cluster of six nodes, measured once."""

import dataclasses

import pytest

from deploy.tools.bench import cases, snapshots, summary
from deploy.tools.bench.contenders import CONTENDERS, ROOT
from deploy.tools.bench.run import Plan, play

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

NODES, PREEMPTORS = 6, 3


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A workload of preemption, and the cluster that it begins with."""
    build = cases.CASES["PreemptionBasic"].build
    workload = build(NODES, 4 * NODES, PREEMPTORS)
    workload = dataclasses.replace(workload, name="PreemptionBasic", limit_seconds=40.0)
    snapshot = tmp_path_factory.mktemp("bench") / "etcd"
    snapshots.create(workload, snapshot)
    return workload, snapshot


@pytest.fixture
def played(tiny, request):
    workload, snapshot = tiny
    return play(Plan(workload, "small", CONTENDERS[request.param], 1, ROOT), snapshot)


@pytest.mark.parametrize("played", ["ceiling", "preemptive-scheduler"], indirect=True)
def test_a_run_is_measured_from_outside(played):
    assert played.problems == []
    assert len(played.bound) == played.pods == PREEMPTORS
    assert played.deleted == 3 * PREEMPTORS
    assert played.calls["POST pods/binding 201"] == PREEMPTORS
    assert played.calls["DELETE pods 200"] == 3 * PREEMPTORS
    assert played.writes >= 13 * PREEMPTORS
    assert played.events >= 5 * PREEMPTORS
    assert 0 < played.first_write <= played.bound[0] <= played.bound[-1] <= played.finished
    assert played.peak_rss_bytes > 10 * 2**20
    assert all(window.start >= 0 and window.work >= 0 for window in played.cpu.values())
    assert sum(summary.figures(played).cpu.values()) > 0
