import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from scheduler.observe.logs.logs import Logs

#: 2026-08-01T12:00:00.25Z.
WALL = 1785585600.25


class Bench:
    """A log that writes into memory."""

    def __init__(self, **more) -> None:
        self.stream = io.BytesIO()
        self.logs = Logs(self.stream, lambda: WALL, **more)

    def lines(self) -> list[bytes]:
        self.logs.flush()
        return self.stream.getvalue().splitlines()

    def records(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.lines()]


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def installed() -> Iterator[Bench]:
    bench = Bench(verbosity=6)
    bench.logs.install()
    yield bench
    bench.logs.close()


def test_a_record_begins_with_time_level_and_event(bench):
    bench.logs.logger.info("pod_bound", pod="shop/web", attempts=3)

    assert bench.lines() == [
        b'{"ts":"2026-08-01T12:00:00.250000Z","level":"info","event":"pod_bound",'
        b'"pod":"shop/web","attempts":3}'
    ]


def test_an_exception_is_one_line(bench):
    try:
        int("why\nnot")
    except ValueError:
        bench.logs.logger.exception("attempt_failed", pod="shop/web")

    (record,) = bench.records()
    assert record["level"] == "error"
    assert "ValueError: invalid literal for int() with base 10: 'why\\nnot'" in str(
        record["exception"]
    )


@pytest.mark.parametrize(
    ("verbosity", "want"),
    [(0, ["info", "warning"]), (3, ["info", "warning"]), (4, ["debug", "info", "warning"])],
)
def test_details_are_logged_from_verbosity_4_on(verbosity, want):
    bench = Bench(verbosity=verbosity)

    bench.logs.logger.debug("detail")
    bench.logs.logger.info("news")
    bench.logs.logger.warning("trouble")

    assert [record["level"] for record in bench.records()] == want


def test_messages_of_libraries_are_logged_under_their_name(installed):
    logging.getLogger("aiohttp.client").info("retry %d", 3)
    logging.getLogger("aiohttp.client").debug("not this")

    (record,) = installed.records()
    assert (record["event"], record["logger"], record["level"]) == (
        "retry 3",
        "aiohttp.client",
        "info",
    )


def test_messages_with_unusual_levels_and_arguments_are_logged_too(installed):
    ours = next(each for each in logging.getLogger().handlers if "observe" in type(each).__module__)

    for level, message, args in (
        (25, "between", ()),
        (70, "beyond", ()),
        (30, "one %s", ("a", "b")),
    ):
        ours.handle(logging.LogRecord("odd", level, __file__, 1, message, args, None))

    assert [(each["level"], each["event"]) for each in installed.records()] == [
        ("info", "between"),
        ("critical", "beyond"),
        ("warning", "one %s ('a', 'b')"),
    ]


def test_closing_writes_the_rest_and_undoes_the_installation():
    bench = Bench()
    bench.logs.install()
    structlog.get_logger().info("last")

    bench.logs.close()
    logging.getLogger("other").error("not ours any more")

    assert [json.loads(line)["event"] for line in bench.stream.getvalue().splitlines()] == ["last"]
