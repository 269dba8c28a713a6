"""Generates the page `docs/metrics.md` from the catalogue of metrics.

    python -m deploy.tools.pages.metrics > docs/metrics.md

A test fails if the page is out of date.
"""

import sys
from collections.abc import Iterable

from scheduler.observe.metrics.absent import ABSENT
from scheduler.observe.metrics.catalogue import CATALOGUE, MetricType, Origin, Row

__all__ = ["page"]

_INTRODUCTION = """\
# Metrics

For those who build dashboards and alerts: every metric, and those of kube-scheduler that are
missing. The chart has a dashboard (`grafanaDashboard`) and alerts (`prometheusRule`).

Served as Prometheus text on `/metrics`, or as OpenMetrics to clients that request it. All values
are those of this process alone. Every HELP text begins with the stability level of the metric:
`STABLE` metrics keep their name, type and labels; `BETA` and `ALPHA` metrics may change between
releases.

This page is generated (`python -m deploy.tools.pages.metrics > docs/metrics.md`).
"""

_PROCESS = """\
## The process

`process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_virtual_memory_bytes`,
`process_start_time_seconds`, `process_open_fds` and `process_max_fds`, as every Prometheus client
exposes them.
"""

_NOTES = """\
## Good to know

* Only health paths are readable without permission; `/metrics` needs authorization.
* Labels never hold names of pods, nodes or namespaces.
* A metric with labels has no series before its first event: a missing series means zero.
* Gauges are computed at each scrape, so they are exact at that moment.
"""


def page() -> str:
    """Return the whole page."""
    parts = [
        _INTRODUCTION,
        _section("Metrics of kube-scheduler", Origin.KUBERNETES),
        _section("Metrics of our own", Origin.OURS),
        _PROCESS,
        _absent(),
        _NOTES,
    ]
    return "\n".join(parts)


def _section(title: str, origin: Origin) -> str:
    head = [
        f"## {title}",
        "",
        "| metric | type | labels | level | meaning |",
        "|---|---|---|---|---|",
    ]
    rows = (_line(row) for row in CATALOGUE if row.origin is origin)
    return "\n".join([*head, *rows]) + "\n"


def _line(row: Row) -> str:
    labels = _quoted(row.labels) or "none"
    kind = row.kind.value
    if row.kind is MetricType.HISTOGRAM:
        kind += f", {len(row.buckets)} buckets {row.buckets[0]:g} to {row.buckets[-1]:g}"
    meaning = " ".join(filter(None, (row.help, row.note)))
    return f"| `{row.name}` | {kind} | {labels} | {row.stability} | {meaning} |"


def _absent() -> str:
    head = [
        "## Metrics of kube-scheduler that are not exposed",
        "",
        "| metrics | why |",
        "|---|---|",
    ]
    rows = (f"| {_quoted(each.names)} | {each.why} |" for each in ABSENT)
    return "\n".join([*head, *rows]) + "\n"


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    sys.stdout.write(page())
