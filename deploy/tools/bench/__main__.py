"""`python -m deploy.tools.bench`: compare the scheduler with kube-scheduler on this machine."""

import argparse
import signal
import sys
from collections.abc import Sequence

from deploy.tools.bench import campaign, cases, report, summary
from deploy.tools.bench import lists as lists_of_pods
from deploy.tools.bench.cases import UnknownWorkload
from deploy.tools.bench.results import FOLDER, Store
from deploy.tools.controlplane.building import BuildError
from deploy.tools.controlplane.cluster import ControlPlaneError

#: Default number of runs of each contender.
RUNS = {"small": 1, "full": 5}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return the exit code: 1 if a run does not count, 2 for other errors."""
    options = _parser().parse_args(argv)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return int(options.command(options))
    except (BuildError, ControlPlaneError, UnknownWorkload) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m deploy.tools.bench", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")

    run = commands.add_parser("run", help="do the runs that have no record")
    run.add_argument("--workloads", default="", help="names, core, targets or all")
    run.add_argument("--size", choices=("small", "full"), default="full")
    run.add_argument(
        "--runs", type=int, help="runs of each contender (default: 5, or 1 for --size small)"
    )
    run.set_defaults(command=_run)

    writer = commands.add_parser("report", help="write the page and its plots from the records")
    writer.add_argument("--size", choices=("small", "full"), default="full")
    writer.set_defaults(command=_report)

    profile = commands.add_parser(
        "profile", help="write a flame graph of the scheduler under a workload"
    )
    profile.add_argument("workload")
    profile.add_argument("--size", choices=("small", "full"), default="full")
    profile.set_defaults(command=_profile)

    recorder = commands.add_parser("recorder", help="compare runs with and without the recorder")
    recorder.add_argument("workload")
    recorder.add_argument("--size", choices=("small", "full"), default="full")
    recorder.add_argument("--rounds", type=int, default=5)
    recorder.set_defaults(command=_recorder)

    lists = commands.add_parser("lists", help="measure a start with many pods, while etcd compacts")
    lists.add_argument("--pods", type=int, default=150_000)
    lists.add_argument("--bytes", type=int, default=11_000, help="size of a pod as JSON")
    lists.add_argument("--way", choices=lists_of_pods.WAYS, default="pages")
    lists.add_argument("--no-compaction", action="store_true", help="leave the history alone")
    lists.set_defaults(command=_lists)

    listing = commands.add_parser("list", help="show the workloads")
    listing.set_defaults(command=_list)
    return parser


def _run(options: argparse.Namespace) -> int:
    names = cases.chosen(options.workloads, options.size)
    runs = options.runs or RUNS[options.size]
    bad = campaign.run_missing(names, runs, Store(options.size), _tell)
    return 1 if bad else 0


def _report(options: argparse.Namespace) -> int:
    """Write the page for the full size; figures of the small size are only printed."""
    store = Store(options.size)
    results = list(store.all())
    if not results:
        print(f"error: there are no records in {store.folder}", file=sys.stderr)
        return 2
    if options.size == "full":
        report.write(results)
        print(report.PAGE)
    else:
        report.write(results, store.folder / "performance.md", store.folder / "img")
        print(report.tables(results))
    return 0


def _profile(options: argparse.Namespace) -> int:
    (name,) = cases.chosen(options.workload, options.size)
    target = FOLDER / "profile" / f"{name}-{options.size}.svg"
    print(summary.line(campaign.profile(name, options.size, target)))
    print(target)
    return 0


def _recorder(options: argparse.Namespace) -> int:
    (name,) = cases.chosen(options.workload, options.size)
    campaign.recorder(name, options.size, options.rounds, _tell)
    return 0


def _lists(options: argparse.Namespace) -> int:
    lists_of_pods.measure(
        options.pods, options.bytes, options.way, _tell, compacts=not options.no_compaction
    )
    return 0


def _list(_: argparse.Namespace) -> int:
    for name in cases.CASES:
        full = cases.workload(name, "full")
        print(f"{name:40} {summary.size_of(full):48} {full.source}")
    return 0


def _tell(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
