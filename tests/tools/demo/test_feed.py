"""Where the demonstration's news come from."""

from pathlib import Path

from deploy.tools.demo import feed
from deploy.tools.demo.feed import Feed
from deploy.tools.demo.history import History


def test_complete_lines_are_records_and_the_rest_waits():
    text = b'{"event":"a","x":1}\n{"event":"b"}\n{"event":'

    assert feed.records(text) == ([{"event": "a", "x": 1}, {"event": "b"}], b'{"event":')


def test_lines_that_are_no_records_are_skipped():
    text = b'Traceback (most recent call last):\n\xff\n\n[1]\n{"x":1}\n{"event":"a"}\n'

    assert feed.records(text) == ([{"event": "a"}], b"")


def test_a_log_is_followed_while_it_grows(tmp_path: Path):
    log = tmp_path / "log"
    log.write_text("")
    source = Feed(began_at=0.0)
    history = History("preemptive-scheduler", {})

    source.follow(log)
    with log.open("a") as file:
        file.write('{"event":"became_')
        file.flush()
        file.write('leader"}\n')
    source.pass_on(history, timeout=10.0)

    assert history.leads
