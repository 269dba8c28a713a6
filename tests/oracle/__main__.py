"""Compare this scheduler with kube-scheduler's own code on random clusters.

    python -m tests.oracle --seeds 0:2000                       all families, in turns
    python -m tests.oracle --seeds 0:500 --families preemption  one of them
    python -m tests.oracle --seeds 0:500 --reference v1.37      one release only
    python -m tests.oracle --show preemption:17                 one cluster as YAML
    python -m tests.oracle --case cluster.yaml                  a cluster in a file

Each disagreement is made small and written to a folder as YAML. Each release ends
with a line `N passed, N failed`; the exit code is 1 when some failed.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from tests.oracle import batches, cases
from tests.oracle.check import Disagreement, check
from tests.oracle.upstream import REFERENCES, Upstream, program

#: Lines of a disagreement that are shown; the file has all of them.
_SHOWN = 4

_OUT = Console(highlight=False, markup=False, soft_wrap=True)


def main() -> int:
    """Run the command line; return the exit code."""
    options = _options()
    if options.show:
        family, _, seed = options.show.partition(":")
        _OUT.print(cases.text(batches.cluster(family, int(seed)), [options.show]))
        return 0
    failed = 0
    for reference in [options.reference] if options.reference else REFERENCES:
        # Built here, as several processes use it.
        program(reference)
        _OUT.print(f"kube-scheduler {reference}:")
        failed |= _case(reference, options.case) if options.case else _run(reference, options)
    return failed


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.oracle",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seeds", default="0:300", metavar="FROM:TO", help="which clusters (default: 0:300)"
    )
    parser.add_argument(
        "--families", default=",".join(batches.FAMILIES), metavar="A,B",
        help=f"what they are about (default: {', '.join(batches.FAMILIES)})",
    )  # fmt: skip
    parser.add_argument(
        "--reference", choices=REFERENCES, help="the release to compare with (default: all)"
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument(
        "--out", type=Path, default=Path("build/fidelity"), metavar="DIR",
        help="where disagreements are written (default: build/fidelity)",
    )  # fmt: skip
    parser.add_argument("--show", metavar="FAMILY:SEED", help="print one cluster and exit")
    parser.add_argument("--case", type=Path, metavar="FILE", help="compare one file and exit")
    return parser.parse_args()


def _case(reference: str, path: Path) -> int:
    with Upstream(reference) as upstream:
        found = check(cases.read(path), upstream)
    _OUT.print("\n".join(found.lines) if found else "the same")
    return 1 if found else 0


def _run(reference: str, options: argparse.Namespace) -> int:
    families = options.families.split(",")
    first, _, last = options.seeds.partition(":")
    names = [(families[seed % len(families)], seed) for seed in range(int(first), int(last))]
    failed: Counter[str] = Counter()
    given_up: Counter[str] = Counter()
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[failed]} failed"))
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(names), failed=0)
        for batch in batches.run(reference, names, options.jobs):
            for found in batch.found:
                failed[found.cluster.name.partition(":")[0]] += 1
                progress.console.print(_kept(found, options.out / reference))
            given_up += batch.given_up
            progress.update(task, advance=batch.done, failed=failed.total())
    for family, count in sorted(failed.items()):
        _OUT.print(f"{family}: {count}")
    for side, count in sorted(given_up.items()):
        _OUT.print(f"searches for devices are given up {side}: {count}")
    _OUT.print(f"{len(names) - failed.total()} passed, {failed.total()} failed")
    return 1 if failed else 0


def _kept(found: Disagreement, folder: Path) -> Text:
    """Write a disagreement to a file; return what to say about it."""
    name = found.cluster.name
    path = folder / f"{name.replace(':', '-')}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(cases.text(found.cluster, [name, *found.lines]), encoding="utf-8")
    shown = [f"    {line}" for line in found.lines[:_SHOWN]]
    return Text("\n".join([f"{name}: {path}", *shown]))


if __name__ == "__main__":
    sys.exit(main())
