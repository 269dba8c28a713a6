"""An interrupted benchmark goes on where it stopped."""

import shutil
from pathlib import Path

import pytest

from deploy.tools.bench import campaign, cases
from deploy.tools.bench.contenders import (
    CONTENDERS,
    ROOT,
    kube_scheduler_version,
)
from deploy.tools.bench.results import Store
from deploy.tools.bench.run import Plan
from deploy.tools.controlplane.building import BuildError
from tests.support.bench_results import result


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store("small", tmp_path)


def missing(store: Store, runs: int = 2, code: Path = ROOT) -> list[tuple[str, int]]:
    workload = cases.workload("PodAntiAffinity", "small")
    plans = campaign.missing(workload, store, runs, code)
    return [(plan.contender.name, plan.number) for plan in plans]


def record(store: Store, contender: str, run: int, **changed: object) -> None:
    workload = cases.workload("PodAntiAffinity", "small")
    fingerprint = Plan(workload, "small", CONTENDERS[contender], run, ROOT).fingerprint()
    made = {"fingerprint": fingerprint, **changed}
    store.keep(result("PodAntiAffinity", contender, run, **made))


def test_the_contenders_take_turns(store):
    names = ["ceiling", "kube-scheduler", "preemptive-scheduler"]

    assert missing(store) == [(name, run) for run in (1, 2) for name in names]


def test_recorded_runs_are_not_repeated(store):
    record(store, "ceiling", 1)
    record(store, "kube-scheduler", 2)

    assert missing(store) == [
        ("kube-scheduler", 1),
        ("preemptive-scheduler", 1),
        ("ceiling", 2),
        ("preemptive-scheduler", 2),
    ]


@pytest.mark.parametrize(
    "changed",
    [{"problems": ["ns/a has no node"]}, {"fingerprint": "other"}],
    ids=["an invalid run", "a run of other code or sizes"],
)
def test_some_recorded_runs_are_repeated(store, changed):
    record(store, "ceiling", 1, **changed)

    assert ("ceiling", 1) in missing(store)


def test_our_records_are_stale_when_our_code_has_changed(store, tmp_path):
    for name in ("ceiling", "kube-scheduler", "preemptive-scheduler"):
        record(store, name, 1)
    # The ceiling uses the HTTP client of the scheduler, and nothing else of it.
    http = Path("scheduler", "kube", "http")
    shutil.copytree(ROOT / http, tmp_path / http)
    (tmp_path / "scheduler" / "other.py").write_text("")

    assert missing(store, runs=1) == []
    assert missing(store, runs=1, code=tmp_path) == [("preemptive-scheduler", 1)]

    (tmp_path / http / "http1.py").write_text("")
    changed = ("ceiling", "preemptive-scheduler")
    assert missing(store, runs=1, code=tmp_path) == [(name, 1) for name in changed]


def test_a_truncated_record_is_skipped(store):
    record(store, "ceiling", 1)
    kept = list(store.all())
    (path,) = store.folder.rglob("*.json")
    path.write_bytes(path.read_bytes()[:100])

    assert len(kept) == 1
    assert ("ceiling", 1) in missing(store)
    assert list(store.all()) == []


@pytest.mark.parametrize(("environ", "release"), [({}, "v1.37"), ({"REFERENCE": "v1.36"}, "v1.36")])
def test_a_release_of_kube_scheduler_can_be_chosen(environ, release):
    assert kube_scheduler_version(environ).startswith(f"{release}.")


def test_a_release_of_kube_scheduler_that_cannot_be_built_is_refused():
    with pytest.raises(BuildError, match=r"no kube-scheduler v1\.3; there are v1\.37"):
        kube_scheduler_version({"REFERENCE": "v1.3"})
