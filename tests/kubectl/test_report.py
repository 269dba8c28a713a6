"""`report`: each format escapes what users have written; spans are what people write."""

import csv
import html
import io
import json
import re
import time
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from scheduler.kubectl import span
from scheduler.kubectl.commands import report
from scheduler.kubectl.errors import CommandError
from scheduler.model import times
from scheduler.model.rest.common import OwnerView
from scheduler.model.rest.report import PolicyReport, PreemptorReport
from tests.kubectl.test_commands import check
from tests.support.stand_in_report import REPORT

NOW = times.parse("2026-01-02T09:00:00Z")
#: Means something in each format.
HOSTILE = '=HYPERLINK("http://x")|<script>alert(1)</script>\x1b[2J\n**b**'


@pytest.fixture
def hostile(scheduler):
    """Have the scheduler name a user's object as the user likes it."""
    owner = PreemptorReport("prod", OwnerView("=Evil", HOSTILE), 1, 2)
    policy = PolicyReport(HOSTILE, "Enforce", 1)
    scheduler.report = replace(REPORT, top_preemptors=(owner,), policies=(policy,))


async def test_the_answer_comes_first(run, url):
    printed = await run("report", "--server", url)

    assert max(map(len, printed.text.splitlines())) <= 80
    check("report", printed.text)


async def test_only_harm_is_red(run, url):
    printed = await run("report", "--server", url, color=True)

    assert printed.text.startswith("\x1b[33mBetween")
    assert "\x1b[31m" not in printed.text


@pytest.mark.usefixtures("hostile")
@pytest.mark.parametrize("form", ["", "md", "csv", "html"])
async def test_no_format_lets_a_name_control_the_terminal(run, url, form):
    printed = await run("report", "--server", url, *(("-o", form) if form else ()))

    assert "\x1b" not in printed.text
    assert "HYPERLINK" in printed.text


@pytest.mark.usefixtures("hostile")
async def test_a_page_has_no_scripts_and_loads_nothing(run, url):
    printed = await run("report", "-o", "html", "--server", url)

    tags: list[tuple[str, str]] = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            tags.extend((tag, name) for name, _ in [*attrs, ("", "")])

    Reader().feed(printed.text)
    assert {tag for tag, _ in tags} <= {
        "html", "head", "meta", "title", "style", "body", "h1", "p", "table", "caption", "tr", "th",
        "td", "small",
    }  # fmt: skip
    assert not {name for _, name in tags} & {"src", "href", "onclick", "style"}
    assert html.escape(REPORT.verdict) in printed.text
    assert "default-src 'none'" in printed.text


@pytest.mark.usefixtures("hostile")
async def test_a_spreadsheet_runs_no_formula_and_can_be_summed(run, url):
    printed = await run("report", "-o", "csv", "--server", url)

    rows = [*csv.DictReader(io.StringIO(printed.text))]
    cells = [cell for row in rows for cell in row.values()]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    total, *others = rows
    for name in ("victims", "lost_core_hours", "wasted_core_hours"):
        sums = sum(float(row[name]) for row in others if row["row"] == "namespace")
        assert sums == float(total[name]), name


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_a_cell_that_would_be_a_formula_is_text(name):
    assert not str(report._cell(name)).startswith(report._FORMULA)


@pytest.mark.usefixtures("hostile")
async def test_markdown_has_the_tables_and_no_html(run, url):
    printed = await run("report", "-o", "md", "--server", url)

    assert printed.text.startswith("**Between 2026")
    assert re.search(r"(?<!\\)[<>]", printed.text) is None
    tables = [line for line in printed.text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in tables[:5]}) == 1


async def test_json_is_the_document(run, url):
    printed = await run("report", "-o", "json", "--server", url)

    assert json.loads(printed.text)["verdict"] == REPORT.verdict


@pytest.fixture
def berlin(monkeypatch):
    """A time zone that is one hour ahead."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("since", "until", "want"),
    [
        ("", "", ("", "")),
        ("20:00", "8:00", ("2026-01-01T19:00:00Z", "2026-01-02T07:00:00Z")),
        ("9:59", "", ("2026-01-02T08:59:00Z", "")),
        ("10:01", "", ("2026-01-01T09:01:00Z", "")),
        ("12h", "", ("2026-01-01T21:00:00Z", "")),
        ("-12h", "-1h", ("2026-01-01T21:00:00Z", "2026-01-02T08:00:00Z")),
        ("1w", "2d", ("2025-12-26T09:00:00Z", "2025-12-31T09:00:00Z")),
        ("2026-01-01", "", ("2025-12-31T23:00:00Z", "")),
        (
            "2026-01-01T01:00:00+05:00", "2026-01-01T00:00:00Z",
            ("2025-12-31T20:00:00Z", "2026-01-01T00:00:00Z"),
        ),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("berlin")
def test_a_span_is_what_people_write(since, until, want):
    assert span.of(since, until, NOW) == want


@pytest.mark.parametrize(
    ("since", "until"),
    [("yesterday", ""), ("25:00", ""), ("", "12"), ("1h", "2h"), ("9999999999w", ""), ("\x1b", "")],
)
def test_a_span_that_is_none_is_refused_with_examples(since, until):
    with pytest.raises(CommandError, match=r"not a time|is not before"):
        span.of(since, until, NOW)


async def test_a_time_ago_is_no_flag(run, url, scheduler):
    await run("report", "--since", "-12h", "--until", "-1h", "--server", url)

    assert "since=" in scheduler.requests[-1]
    assert "until=" in scheduler.requests[-1]
