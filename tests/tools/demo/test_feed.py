"""What the demonstration reads of the scheduler's log."""

from pathlib import Path

import pytest

from deploy.tools.demo.feed import Log, LogLine

START = '{"ts":"1970-01-01T00:00:01Z","event":'
WAITS = START + '"pod_unschedulable","pod":"demo/low-2","message":"no room"}\n'


def test_the_log_is_read_as_it_grows(tmp_path: Path):
    path = tmp_path / "log"
    path.write_text("Traceback (most recent call last):\n\n[1]\n" + START)
    log = Log(path)

    assert log.news() == []
    with path.open("a") as file:
        file.write('"pod_bound","pod":"demo/low","node":"n1"}\n')
        file.write(
            START + '"preemption_planned","pod":"demo/high","node":"n1","victims":["d/a"]}\n'
        )
        file.write(START + '"victim_evicted","pod":"demo/a","preemptor":"demo/high"}\n')
        file.write(START + '"bind_failed","pod":"demo/odd","message":"gone"}\n' + WAITS)
        file.write(START + '"became_leader"}\n')
    assert log.news() == [
        LogLine(1.0, "placed", "low on n1"),
        LogLine(1.0, "preempts", "high on n1, evicting a"),
        LogLine(1.0, "evicted", "a for high"),
        LogLine(1.0, "failed", "odd: gone"),
        LogLine(1.0, "waits", "low-2: no room"),
    ]
    assert log.news() == []


def test_what_a_pod_repeats_is_no_news(tmp_path: Path):
    path = tmp_path / "log"
    path.write_text(WAITS * 2)
    log = Log(path)

    assert len(log.news()) == 1
    with path.open("a") as file:
        file.write(WAITS + WAITS.replace("no room", "no port"))
    assert log.news() == [LogLine(1.0, "waits", "low-2: no port")]


@pytest.mark.parametrize(
    ("text", "last"),
    [
        (WAITS + START + '"lease_lost","problem":"late"}\n', ("lease_lost", "late")),
        ("Traceback\nOSError: no\n", ("", "OSError: no")),
        ("[1]\n", ("", "[1]")),
        ("", ("", "")),
    ],
)
def test_the_last_line_says_why_it_ended(tmp_path: Path, text: str, last: tuple[str, str]):
    path = tmp_path / "log"
    path.write_text(text)

    assert Log(path).last() == last
