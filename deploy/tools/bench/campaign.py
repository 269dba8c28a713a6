"""Runs all workloads, one run after the other; runs that have a record are skipped."""

import compileall
import dataclasses
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.tools.bench import cases, snapshots, statistics, summary
from deploy.tools.bench.cases import Size
from deploy.tools.bench.contenders import CONTENDERS, ROOT, contenders_for
from deploy.tools.bench.results import Result, Store
from deploy.tools.bench.run import Plan, play
from deploy.tools.bench.workloads import Workload
from deploy.tools.controlplane.bootstrap import new_folder
from deploy.tools.controlplane.processes import Processes

__all__ = ["missing", "profile", "recorder", "run_missing"]


def run_missing(
    names: Sequence[str], runs: int, store: Store, report: Callable[[str], None]
) -> int:
    """Do the runs that have no record; return how many do not count.

    Args:
        names: names of the workloads.
        runs: number of runs of each contender on each workload.
        store: the records of a size.
        report: is called with lines of progress.
    """
    bad = 0
    with _workspace() as folder:
        code = _copied(folder)
        for name in names:
            workload = cases.workload(name, store.size)
            plans = missing(workload, store, runs, code)
            if not plans:
                report(f"{name}: has records")
                continue
            snapshot = folder / name
            report(f"{name}: creating {summary.size_of(workload)}")
            snapshots.create(workload, snapshot)
            for plan in plans:
                bad += not _run(plan, snapshot, store, report)
            shutil.rmtree(snapshot)
    return bad


def profile(name: str, size: Size, target: Path) -> Result:
    """Run the scheduler once on a workload and write a flame graph; no record is kept."""
    workload = cases.workload(name, size)
    target.parent.mkdir(parents=True, exist_ok=True)
    sampled = dataclasses.replace(CONTENDERS["preemptive-scheduler"], profile=target.absolute())
    with _workspace() as folder:
        snapshots.create(workload, folder / name)
        return play(Plan(workload, size, sampled, 0, _copied(folder)), folder / name)


def recorder(name: str, size: Size, rounds: int, report: Callable[[str], None]) -> None:
    """Run the scheduler on a workload without and with its recorder, in turns; keep no records.

    Args:
        name: name of the workload.
        size: its size.
        rounds: number of runs of each.
        report: is called with the figures of each round, then with the middle of their ratios.
    """
    workload = cases.workload(name, size)
    ratios: list[tuple[float, float]] = []
    ours = CONTENDERS["preemptive-scheduler"]
    with _workspace() as folder:
        code = _copied(folder)
        snapshots.create(workload, folder / name)
        for number in range(1, rounds + 1):
            # The one that runs first changes, because the speed of the machine may.
            pair: dict[bool, summary.Figures] = {}
            for records in (False, True) if number % 2 else (True, False):
                contender = dataclasses.replace(ours, records=records)
                result = play(Plan(workload, size, contender, number, code), folder / name)
                for problem in result.problems:
                    report(f"  DOES NOT COUNT: {problem}")
                pair[records] = summary.figures(result)
                report(f"{'recorder' if records else 'without':<9}{summary.line(result)}")
            # By the speed of the processor, which other work changes.
            cpu = pair[True].cpu_iterations / pair[False].cpu_iterations
            rate = pair[True].binding_by_iterations / pair[False].binding_by_iterations
            report(f"round {number}: CPU {cpu - 1:+.1%}, rate {rate - 1:+.1%}")
            ratios.append((cpu, rate))
    cpu, rate = (statistics.middle(sorted(each)) for each in zip(*ratios, strict=True))
    report(f"the recorder changes CPU per pod by {cpu - 1:+.1%}, the rate by {rate - 1:+.1%}")


def missing(workload: Workload, store: Store, runs: int, code: Path) -> list[Plan]:
    """Return the runs that have no record; in each round every contender runs once."""
    plans = [
        Plan(workload, store.size, contender, number, code)
        for number in range(1, runs + 1)
        for contender in contenders_for(workload.name)
    ]
    return [
        plan
        for plan in plans
        if store.find(workload.name, plan.contender.name, plan.number, plan.fingerprint()) is None
    ]


def _run(plan: Plan, snapshot: Path, store: Store, report: Callable[[str], None]) -> bool:
    """Do one run; return whether it counts."""
    log = store.log_path(plan.workload.name, plan.contender.name, plan.number)
    try:
        result = play(plan, snapshot, log)
    except Exception:  # noqa: BLE001 - the other runs take hours and must not be lost
        report(f"  {plan.contender.name} {plan.number} failed:\n{traceback.format_exc()}")
        return False
    store.keep(result)
    report(f"  {summary.line(result)}")
    for problem in result.problems:
        report(f"    DOES NOT COUNT: {problem} (log: {log})")
    return result.counts()


def _copied(folder: Path) -> Path:
    """Copy the code and compile it, so that all runs measure the same code while it is edited.

    Raises:
        RuntimeError: the code cannot be compiled.
    """
    code = folder / "code"
    without_compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "scheduler", code / "scheduler", ignore=without_compiled)
    if not compileall.compile_dir(code, quiet=1):
        raise RuntimeError("the code cannot be compiled")
    return code


@contextmanager
def _workspace() -> Iterator[Path]:
    """Provide a folder that is removed when this process ends for any reason."""
    processes = Processes(folder := new_folder())
    try:
        yield folder
    finally:
        processes.close()
