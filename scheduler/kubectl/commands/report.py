"""`report`: what preemption cost in a span of time, for a terminal, a page, a table or a message.

Names in it were chosen by users of the cluster. So each format escapes them in its own way.
"""

import csv
import html
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.kubectl import span, text
from scheduler.kubectl.session import Session
from scheduler.model.messages import spent
from scheduler.model.rest.report import NamespaceReport, ReportDocument

__all__ = ["run"]

_STYLES: Final = {"none": "green", "evictions": "yellow", "budgets": "red"}
#: What Markdown gives a meaning to.
_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>|~&])")
#: With what a spreadsheet begins a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
#: Seconds of an hour, and the units of an amount.
_HOURS: Final[Mapping[str, float]] = {
    "cpu": 3_600_000.0, "memory": 3_600.0 * 2**30, "pods": 3_600.0,
}  # fmt: skip
_CSV: Final = (
    "row", "namespace", "owner", "policy", "mode", "preemptors", "evicted_for_them", "victims",
    "wasted_victims", "lost_core_hours", "lost_gib_hours", "lost_pod_hours", "wasted_core_hours",
    "caused_core_hours", "refused_attempts",
)  # fmt: skip
_STYLE: Final = """\
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.3rem;border-left:.4rem solid;padding-left:.7rem}
h1.none{border-color:#2a7}h1.evictions{border-color:#da0}h1.budgets{border-color:#d33}
table{border-collapse:collapse;margin:1rem 0 2rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.3rem 0}
th,td{text-align:left;padding:.25rem 1.2rem .25rem 0;border-bottom:1px solid #8885}
"""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"


@dataclass(frozen=True, slots=True)
class _Table:
    """One table of the report."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


async def run(session: Session) -> int:
    """Print the report; return the exit code."""
    arguments, now = session.arguments, session.now()
    since, until = span.of(arguments.since, arguments.until, now)
    answer = await session.client.get("/report", ReportDocument, since=since, until=until)
    if session.printed(answer):
        return 0
    report, form = answer.document, arguments.output
    if form in _FORMS:
        session.out.stream.write(_FORMS[form](report))
        return 0
    out = session.out
    out.line(text.paragraph(report.verdict, out.width), _STYLES.get(report.impact, ""))
    for note in report.notes:
        out.paragraph(note)
    for table in _tables(report):
        out.line()
        out.line(table.title, "bold")
        out.table(table.head, table.rows)
    return 0


def _tables(report: ReportDocument) -> Iterator[_Table]:
    """Yield the tables that have rows."""
    if report.namespaces:
        yield _Table(
            "By namespace",
            ("NAMESPACE", "EVICTED", "WASTED", "LOST", "FOR IT", "LOST FOR IT"),
            [
                (
                    _namespace(each),
                    str(each.victims),
                    _share(each),
                    _work(each.cost),
                    str(each.evicted),
                    _work(each.caused_cost),
                )
                for each in report.namespaces
            ],
        )
    if report.top_preemptors:
        yield _Table(
            "For whom most was lost",
            ("PREEMPTOR", "PODS", "EVICTED", "WASTED", "LOST"),
            [
                (
                    f"{each.namespace}/{each.owner.kind}/{each.owner.name}",
                    str(each.preemptors),
                    str(each.victims),
                    str(each.wasted_victims),
                    _work(each.cost),
                )
                for each in report.top_preemptors
            ],
        )
    if report.policies:
        yield _Table(
            f"What policies refused, known since {report.known_refusals_since}",
            ("POLICY", "MODE", "ATTEMPTS"),
            [(each.policy, each.mode, str(each.attempts)) for each in report.policies],
        )


def _namespace(each: NamespaceReport) -> str:
    return each.namespace or text.HIDDEN


def _work(cost: Mapping[str, float]) -> str:
    """Return in one unit what was lost; in pod-hours if no CPU was requested."""
    unit = "cpu" if "cpu" in cost else "pods"
    return spent({unit: cost.get(unit, 0.0)}) or "-"


def _share(each: NamespaceReport) -> str:
    """Return how many evictions were wasted."""
    if not each.wasted_victims:
        return "0"
    return f"{each.wasted_victims} ({each.wasted_victims / each.victims:.0%})"


# Formats ------------------------------------------------------------------------------------------


def _markdown(report: ReportDocument) -> str:
    lines = [f"**{_plain(report.verdict)}**", ""]
    for note in report.notes:
        lines += [_plain(note), ""]
    for table in _tables(report):
        lines += [f"### {_plain(table.title)}", "", _line(table.head)]
        lines.append(_line(["---"] * len(table.head), escaped=False))
        lines += [_line(row) for row in table.rows]
        lines.append("")
    return "\n".join(lines)


def _line(cells: Iterable[str], *, escaped: bool = True) -> str:
    return f"| {' | '.join(map(_plain, cells) if escaped else cells)} |"


def _plain(content: str) -> str:
    """Return a text in which Markdown has no meaning."""
    return _MARKDOWN.sub(r"\\\1", text.clean(content))


def _page(report: ReportDocument) -> str:
    """Return a page of its own, without scripts, that loads nothing."""
    title = f"Preemption from {report.since} to {report.until}"
    parts = [
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{_escaped(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>",
        f'<h1 class="{_escaped(report.impact)}">{_escaped(report.verdict)}</h1>',
        *(f"<p>{_escaped(note)}</p>" for note in report.notes),
    ]
    for table in _tables(report):
        parts.append(f"<table>\n<caption>{_escaped(table.title)}</caption>")
        parts.append(_row("th", (name.capitalize() for name in table.head)))
        parts += (_row("td", row) for row in table.rows)
        parts.append("</table>")
    made = f"{report.since} to {report.until}, made at {report.now}"
    parts.append(f"<p><small>{_escaped(made)}</small></p>\n</body>\n</html>\n")
    return "\n".join(parts)


def _row(tag: str, cells: Iterable[str]) -> str:
    return f"<tr>{''.join(f'<{tag}>{_escaped(cell)}</{tag}>' for cell in cells)}</tr>"


def _escaped(content: str) -> str:
    return html.escape(text.clean(content))


def _spreadsheet(report: ReportDocument) -> str:
    """Return the rows as comma-separated values, with a total first."""
    file = io.StringIO()
    writer = csv.DictWriter(file, _CSV, lineterminator="\n")
    writer.writeheader()
    for row in _records(report):
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return file.getvalue()


def _records(report: ReportDocument) -> Iterator[dict[str, str | float]]:
    yield {
        "row": "total",
        "preemptors": report.preemptors,
        "evicted_for_them": report.victims,
        "victims": report.victims,
        "wasted_victims": report.wasted_victims,
        **_lost(report.cost, report.wasted_cost),
    }
    for each in report.namespaces:
        yield {
            "row": "namespace",
            "namespace": _namespace(each),
            "preemptors": each.preemptors,
            "evicted_for_them": each.evicted,
            "victims": each.victims,
            "wasted_victims": each.wasted_victims,
            **_lost(each.cost, each.wasted_cost),
            "caused_core_hours": _hours(each.caused_cost, "cpu"),
        }
    for one in report.top_preemptors:
        yield {
            "row": "preemptor",
            "namespace": one.namespace,
            "owner": f"{one.owner.kind}/{one.owner.name}",
            "preemptors": one.preemptors,
            "evicted_for_them": one.victims,
            "wasted_victims": one.wasted_victims,
            "caused_core_hours": _hours(one.cost, "cpu"),
        }
    for policy in report.policies:
        yield {
            "row": "policy",
            "policy": policy.policy,
            "mode": policy.mode,
            "refused_attempts": policy.attempts,
        }


def _lost(cost: Mapping[str, float], wasted: Mapping[str, float]) -> dict[str, float]:
    return {
        "lost_core_hours": _hours(cost, "cpu"),
        "lost_gib_hours": _hours(cost, "memory"),
        "lost_pod_hours": _hours(cost, "pods"),
        "wasted_core_hours": _hours(wasted, "cpu"),
    }


def _hours(cost: Mapping[str, float], resource: str) -> float:
    return round(cost.get(resource, 0.0) / _HOURS[resource], 6)


def _cell(value: str | float) -> str | float:
    """Return a value that no spreadsheet takes for a formula."""
    if not isinstance(value, str):
        return value
    safe = text.clean(value)
    return f"'{safe}" if safe.startswith(_FORMULA) else safe


_FORMS: Final = {"md": _markdown, "csv": _spreadsheet, "html": _page}
