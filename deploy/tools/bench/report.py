"""Writes the page from the records: tables and plots of the runs that count, a list of others."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from deploy.tools.bench import cases, plots, summary, targets
from deploy.tools.bench.contenders import CONTENDERS, ROOT
from deploy.tools.bench.plots import Group, Row
from deploy.tools.bench.results import Result
from deploy.tools.bench.summary import COMPONENTS, Figures

__all__ = ["PAGE", "page", "tables", "write"]

PAGE: Final = ROOT / "docs" / "performance.md"
IMAGES: Final = ROOT / "docs" / "img"
_TEMPLATE: Final = Path(__file__).with_name("page.md")

#: Figures of the runs that count, by workload and contender.
Found: TypeAlias = Mapping[str, Mapping[str, Sequence[Figures]]]

_COMPARED: Final = ("kube-scheduler", "preemptive-scheduler")
_OURS, _THEIRS, _CEILING = "preemptive-scheduler", "kube-scheduler", "ceiling"
_NOTHING: Final = "-"


def write(results: Sequence[Result], page_path: Path = PAGE, images: Path = IMAGES) -> None:
    """Write the page and its plots."""
    images.mkdir(parents=True, exist_ok=True)
    found = collected(results)
    (images / "throughput.svg").write_text(throughput_plot(found))
    (images / "cpu.svg").write_text(cpu_plot(found))
    page_path.write_text(page(results))


def page(results: Sequence[Result]) -> str:
    """Return the page; there must be a result."""
    parts = {"answers": answers(results), "machine": machine(results), "tables": tables(results)}
    text = _TEMPLATE.read_text()
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def answers(results: Sequence[Result]) -> str:
    """Return the table of what evaluators ask first, of the questions that both can answer."""
    found = collected(results)
    rows = []
    for question, workload, read, form in _QUESTIONS:
        values = [_median(found.get(workload, {}).get(name, ()), read) for name in _COMPARED]
        if None not in values:
            rows.append([question, *(form.format(value) for value in reversed(values))])
    return _lines([["medians", _OURS, _THEIRS], *rows])


def machine(results: Sequence[Result]) -> str:
    """Return machine and versions of the runs that count, or of all if none counts."""
    results = [result for result in results if result.counts()] or results
    places = sorted(
        {
            f"{at.cores} cores ({at.cpu}), Linux {at.kernel}, Python {at.python},"
            f" Kubernetes {at.kubernetes}, kube-scheduler {at.kube_scheduler}, etcd {at.etcd}"
            for at in (result.environment for result in results)
        }
    )
    loads = [result.load_average for result in results]
    speeds = [summary.speed(result) / 1e6 for result in results]
    others = [summary.disturbance(result) for result in results]
    cut = sum(result.cuts for result in results)
    versions = {result.version() for result in results if result.contender == _OURS}
    mixed = f" **The runs of this scheduler are of {len(versions)} versions of the code.**"
    return (
        f"{'; '.join(places)}. The load average before a run was {min(loads):.1f} to"
        f" {max(loads):.1f}; other processes used {min(others):.2f} to {max(others):.2f} cores"
        f" during a run. A processor did {min(speeds):.0f} to {max(speeds):.0f} million iterations"
        f" of the reference loop per second (median of a run). The benchmark's watch was"
        f" interrupted {cut} times.{mixed if len(versions) > 1 else ''}"
    )


def tables(results: Sequence[Result]) -> str:
    """Return all tables."""
    found = collected(results)
    parts = [
        _section("Targets", targets.table(found, results)),
        _section("Throughput", _throughput(found)),
        _section("Throughput by the second, and latency", _sampled(found)),
        _section("CPU", _cpu(found)),
        _section("Start, memory, writes", _others(found)),
        _section("Idle", _idle(results)),
        _section("Runs that do not count", _void(results)),
    ]
    return "\n".join(part for part in parts if part)


def collected(results: Iterable[Result]) -> Found:
    """Group the figures of the runs that count, in the order of workloads and contenders."""
    found: dict[str, dict[str, list[Figures]]] = defaultdict(lambda: defaultdict(list))
    order = {name: place for place, name in enumerate((*cases.CASES, *CONTENDERS))}
    for result in sorted(results, key=lambda each: (order[each.workload], order[each.contender])):
        if result.counts() and result.pods:
            found[result.workload][result.contender].append(summary.figures(result))
    return found


# Tables


def _throughput(found: Found) -> list[list[str]]:
    rows = []
    for workload, by_name in found.items():
        rows += [
            [
                workload,
                CONTENDERS[name].title,
                str(len(runs)),
                *_beside_others(name, by_name, _rate),
                *_beside_others(name, by_name, _with_events),
                _spread(runs, lambda each: each.rate_by_iterations, 2),
            ]
            for name, runs in by_name.items()
        ]
    ratios = ["of the ceiling", "times kube-scheduler"]
    head = [
        "workload", "scheduler", "runs", "pods/s to the last binding", *ratios,
        "pods/s to the last event", *ratios, "the same per million iterations",
    ]  # fmt: skip
    return _with_head(head, rows)


def _beside_others(
    name: str, by_name: Mapping[str, Sequence[Figures]], read: Callable[[Figures], float | None]
) -> list[str]:
    """Return a rate of a contender, and its ratio to those of the others."""
    rate = {each: _median(runs, read) for each, runs in by_name.items()}
    return [
        _spread(by_name[name], read),
        _share(rate[name], rate.get(_CEILING)) if name != _CEILING else "",
        _times(rate[name], rate.get(_THEIRS)) if name == _OURS else "",
    ]


def _sampled(found: Found) -> list[list[str]]:
    rows = [
        [
            workload,
            CONTENDERS[name].title,
            *(_spread(runs, _of("sampled", key)) for key in ("mean", "p50", "p90", "p99")),
            *(_spread(runs, _of("latency", key), 2) for key in ("p50", "p99", "max")),
        ]
        for workload, by_name in found.items()
        for name, runs in by_name.items()
    ]
    head = [
        "workload", "scheduler", "mean pods/s", "p50", "p90", "p99",
        "bound after: p50 s", "p99 s", "max s",
    ]  # fmt: skip
    return _with_head(head, rows)


def _cpu(found: Found) -> list[list[str]]:
    rows = [
        [
            workload,
            CONTENDERS[name].title,
            *(_spread(runs, _of("cpu", component), 2) for component in COMPONENTS),
            _spread(runs, lambda each: each.cpu_iterations / 1e3, 1),
        ]
        for workload, by_name in found.items()
        for name, runs in by_name.items()
    ]
    units = [f"{component}, ms/pod" for component in COMPONENTS]
    head = ["workload", "scheduler", *units, "scheduler, thousand iterations/pod"]
    return _with_head(head, rows)


def _others(found: Found) -> list[list[str]]:
    rows = [
        [
            workload,
            CONTENDERS[name].title,
            _spread(runs, lambda each: each.start, 2),
            _spread(runs, lambda each: each.start_cpu, 2),
            _spread(runs, lambda each: each.peak_rss_mib),
            _spread(runs, lambda each: each.writes_per_pod, 2),
            _spread(runs, lambda each: each.events_per_pod, 2),
            _spread(runs, lambda each: each.deleted_per_pod, 2),
        ]
        for workload, by_name in found.items()
        for name, runs in by_name.items()
    ]
    head = [
        "workload", "scheduler", "first write after s", "CPU until then, s", "peak RSS, MiB",
        "writes/pod", "events/pod", "deleted/pod",
    ]  # fmt: skip
    return _with_head(head, rows)


def _idle(results: Iterable[Result]) -> list[list[str]]:
    by_name: dict[tuple[str, str], list[Result]] = defaultdict(list)
    for result in results:
        if result.counts() and not result.pods:
            by_name[result.workload, result.contender].append(result)
    rows = [
        [
            workload,
            CONTENDERS[name].title,
            str(len(runs)),
            f"{summary.spread(summary.busy(run) for run in runs).median:.1%}",
            f"{summary.spread(run.peak_rss_bytes / 2**20 for run in runs).median:.0f}",
        ]
        for (workload, name), runs in by_name.items()
    ]
    return _with_head(["workload", "scheduler", "runs", "of a core", "peak RSS, MiB"], rows)


def _void(results: Iterable[Result]) -> list[list[str]]:
    rows = [
        [
            result.workload,
            CONTENDERS[result.contender].title,
            str(result.run),
            "; ".join(result.problems).replace("|", "\\|").replace("\n", " ")[:300],
        ]
        for result in results
        if not result.counts()
    ]
    return _with_head(["workload", "scheduler", "run", "why"], rows)


# Plots


def throughput_plot(found: Found) -> str:
    """Return the plot of throughput, as shares of the ceiling."""
    groups = []
    for workload, by_name in found.items():
        ceiling = _median(by_name.get(_CEILING, ()), _with_events)
        if ceiling is None:
            continue
        rates = {name: _median(by_name.get(name, ()), _with_events) for name in _COMPARED}
        rows = tuple(
            Row(CONTENDERS[name].title, (rate,), f"{rate:.0f} pods/s, {rate / ceiling:.0%}")
            for name, rate in rates.items()
            if rate is not None
        )
        groups.append(Group(f"{workload} (ceiling {ceiling:.0f} pods/s)", ceiling, rows))
    note = "Pods per second until the last Event; the dashed line is the ceiling."
    return plots.bars("Throughput", note, groups)


def cpu_plot(found: Found) -> str:
    """Return the plot of CPU time, each workload on its own scale."""
    groups = []
    for workload, by_name in found.items():
        rows = []
        for name in _COMPARED:
            if name in by_name:
                parts = [_median(by_name[name], _of("cpu", part)) or 0.0 for part in COMPONENTS]
                text = " + ".join(f"{part:.2f}" for part in parts)
                rows.append(Row(CONTENDERS[name].title, tuple(parts), f"{text} ms"))
        full = max((sum(row.segments) for row in rows), default=0.0)
        groups.append(Group(workload, full, tuple(rows)))
    note = "CPU milliseconds per pod; the longest bar of each workload has full width."
    return plots.bars("CPU per pod", note, groups, COMPONENTS)


# Cells


def _rate(figures: Figures) -> float | None:
    return figures.rate


def _with_events(figures: Figures) -> float | None:
    return figures.rate_with_events


def _of(name: str, key: str) -> Callable[[Figures], float | None]:
    """Return a function that reads one entry of a figure with several."""

    def read(figures: Figures) -> float | None:
        entries: Mapping[str, float] = getattr(figures, name)
        return entries.get(key)

    return read


def _values(runs: Iterable[Figures], read: Callable[[Figures], float | None]) -> list[float]:
    return [value for value in map(read, runs) if value is not None]


def _median(runs: Iterable[Figures], read: Callable[[Figures], float | None]) -> float | None:
    values = _values(runs, read)
    return summary.spread(values).median if values else None


def _spread(
    runs: Iterable[Figures], read: Callable[[Figures], float | None], digits: int = 0
) -> str:
    """Return the median, and the range where there are several runs."""
    values = _values(runs, read)
    if not values:
        return _NOTHING
    of = summary.spread(values)
    median = f"{of.median:.{digits}f}"
    return median if len(values) == 1 else f"{median} ({of.low:.{digits}f} to {of.high:.{digits}f})"


def _share(part: float | None, whole: float | None) -> str:
    return f"{part / whole:.0%}" if part is not None and whole else _NOTHING


def _times(part: float | None, whole: float | None) -> str:
    return f"{part / whole:.1f}" if part is not None and whole else _NOTHING


def _with_head(head: list[str], rows: list[list[str]]) -> list[list[str]]:
    return [head, *rows] if rows else []


def _section(title: str, rows: Sequence[Sequence[str]]) -> str:
    """Return a section with a table, empty without rows."""
    if not rows:
        return ""
    return f"## {title}\n\n{_lines(rows)}\n"


def _lines(rows: Sequence[Sequence[str]]) -> str:
    """Return a table; the first row is its head."""
    head, *body = rows
    return "\n".join(f"| {' | '.join(each)} |" for each in (head, ["---"] * len(head), *body))


#: What evaluators ask first, the workload that answers, its figure, and the form of that. Rates are
#: to the last Event, which is the lower one.
_QUESTIONS: Final = (
    ("plain pods on 5,000 nodes (*Basic*)", "Basic", _with_events, "{:.0f} pods/s"),
    ("pods with required affinity (*PodAffinity*)", "PodAffinity", _with_events, "{:.0f} pods/s"),
    ("preemptors with three victims each (*PreemptionBasic*)", "PreemptionBasic", _with_events,
     "{:.0f} pods/s"),
    ("CPU of the scheduler for a plain pod (*Basic*)", "Basic", _of("cpu", "scheduler"),
     "{:.2f} ms"),
    ("most memory, with 15,000 nodes and 150,000 pods (*ColdStart*)", "ColdStart",
     lambda each: each.peak_rss_mib, "{:.0f} MiB"),
)  # fmt: skip
