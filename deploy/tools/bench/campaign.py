"""All runs of a benchmark, one after the other; those that are on record are left out."""

import compileall
import dataclasses
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from deploy.tools.bench import cases, population, summary
from deploy.tools.bench.cases import Size
from deploy.tools.bench.contenders import CONTENDERS, ROOT, contenders_for
from deploy.tools.bench.results import Result, Store
from deploy.tools.bench.run import Plan, play
from deploy.tools.bench.workloads import Workload
from deploy.tools.controlplane.bootstrap import new_folder
from deploy.tools.controlplane.processes import Processes

__all__ = ["carry_out", "missing", "profile"]


def carry_out(names: Sequence[str], runs: int, store: Store, report: Callable[[str], None]) -> int:
    """Run what is missing; return how many runs do not count.

    Args:
        names: of the workloads.
        runs: of each contender on each workload.
        store: where records of a size are kept.
        report: takes the lines of progress.
    """
    bad = 0
    with _workshop() as folder:
        code = _copied(folder)
        for name in names:
            workload = cases.workload(name, store.size)
            plans = missing(workload, store, runs, code)
            if not plans:
                report(f"{name}: on record")
                continue
            snapshot = folder / name
            report(f"{name}: creating {summary.size_of(workload)}")
            population.create(workload, snapshot)
            for plan in plans:
                bad += not _carry_out(plan, snapshot, store, report)
            shutil.rmtree(snapshot)
    return bad


def profile(name: str, size: Size, target: Path) -> Result:
    """Run us once on a workload, sampled; write a flame graph to a file. Nothing is recorded."""
    workload = cases.workload(name, size)
    target.parent.mkdir(parents=True, exist_ok=True)
    sampled = dataclasses.replace(CONTENDERS["preemptive-scheduler"], profile=target.absolute())
    with _workshop() as folder:
        population.create(workload, folder / name)
        return play(Plan(workload, size, sampled, 0, _copied(folder)), folder / name)


def missing(workload: Workload, store: Store, runs: int, code: Path) -> list[Plan]:
    """Return the runs that are not on record: the contenders in turn, round after round."""
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


def _carry_out(plan: Plan, snapshot: Path, store: Store, report: Callable[[str], None]) -> bool:
    """Run one; return whether it counts."""
    log = store.log_path(plan.workload.name, plan.contender.name, plan.number)
    try:
        result = play(plan, snapshot, log)
    except Exception:  # noqa: BLE001 - hours of other runs must not be lost with it
        report(f"  {plan.contender.name} {plan.number} failed:\n{traceback.format_exc()}")
        return False
    store.keep(result)
    report(f"  {summary.line(result)}")
    for problem in result.problems:
        report(f"    VOID: {problem} (log: {log})")
    return result.counts()


def _copied(folder: Path) -> Path:
    """Copy our code and compile it, so that all runs measure the same while somebody works on it.

    Raises:
        RuntimeError: it cannot be compiled.
    """
    code = folder / "code"
    without_compiled = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "scheduler", code / "scheduler", ignore=without_compiled)
    if not compileall.compile_dir(code, quiet=1):
        raise RuntimeError("our code cannot be compiled")
    return code


@contextmanager
def _workshop() -> Iterator[Path]:
    """Give a folder that goes with this process, in whatever way it ends."""
    keeper = Processes(folder := new_folder())
    try:
        yield folder
    finally:
        keeper.close()
