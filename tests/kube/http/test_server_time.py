"""By how much the host's clock is ahead, learnt from the dates of the API server's answers."""

import asyncio
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from scheduler.kube.http.http1 import Http1, Reply
from scheduler.kube.http.server_time import LARGEST, ServerTime

#: 2026-01-01T00:00:00Z by the API server.
NOW = 1_767_225_600.0
HOUR = 3600.0


class Life:
    """A host's clock, and the reported differences."""

    def __init__(self, ahead: float = 0.0) -> None:
        self.server = NOW
        self.ahead = ahead
        self.told: list[float] = []
        self.time = ServerTime(self.now)
        self.time.report_to(self.told.append)

    def now(self) -> float:
        return self.server + self.ahead

    def answer(self, *dates: bytes, status: int = 200, seconds: float = 2.0) -> None:
        """Let time pass, then receive an answer, by default with the server's time."""
        self.server += seconds
        for date in dates or (stamped(self.server),):
            self.time.observe(status, [(b"Content-Type", b"a/b"), (b"Date", date)])


def stamped(seconds: float) -> bytes:
    return format_datetime(datetime.fromtimestamp(int(seconds), UTC), usegmt=True).encode()


@pytest.mark.parametrize(
    ("ahead", "told"),
    [
        pytest.param(HOUR, [HOUR], id="ahead"),
        pytest.param(-HOUR, [], id="behind"),
        pytest.param(0.0, [], id="right"),
        pytest.param(0.9, [], id="within what a date can tell"),
        pytest.param(30 * LARGEST, [LARGEST], id="ahead by more than is believed"),
    ],
)
def test_reported_differences_of_a_clock(ahead, told):
    life = Life(ahead)

    for _ in range(40):
        life.answer()

    assert life.told == told


@pytest.mark.parametrize(
    "date",
    [
        pytest.param(b"", id="none"),
        pytest.param(b"yesterday", id="a word"),
        pytest.param(b"2026-01-01T00:00:00Z", id="another form"),
        pytest.param(b"Thu, 32 Jan 2026 00:00:00 GMT", id="no such day"),
        pytest.param(b"Thu, 01 Jan 2026 00:00:0\xff GMT", id="not ASCII"),
        pytest.param(b"\xe2" * 25 + b" GMT", id="bytes"),
        pytest.param(b"Fri, 31 Dec 9999 23:59:59 GMT", id="the end of time"),
        pytest.param(stamped(NOW + 2 * LARGEST), id="two days later"),
        pytest.param(b"a" * 100_000, id="without end"),
    ],
)
def test_an_invalid_date_is_ignored(date):
    life = Life(HOUR)
    for _ in range(3):
        life.answer()
    told = list(life.told)

    for _ in range(100):
        life.answer(date)

    assert life.told == told == [HOUR]


@pytest.mark.parametrize(
    "date", [b"Thu, 01 Jan 1970 00:00:00 GMT", b"Thu, 01 Jan 0000 00:00:00 GMT"]
)
def test_a_server_without_a_clock_makes_protection_longer_by_a_day_only(date):
    life = Life()

    for _ in range(5):
        life.answer(date)

    assert life.told == [LARGEST]


@pytest.mark.parametrize("off", [-6 * HOUR, 6 * HOUR], ids=["kept on the way", "another clock"])
def test_one_answer_among_others_changes_nothing(off):
    life = Life(HOUR)
    for _ in range(3):
        life.answer()

    life.answer(stamped(life.server + off))
    for _ in range(3):
        life.answer()

    assert life.told == [HOUR]


def test_a_clock_that_is_put_right_is_not_ahead_any_more():
    life = Life(HOUR)
    life.answer()

    # The time that decisions are made by never runs backwards: what changes is the other clock.
    life.server, life.ahead = life.server + HOUR, 0.0
    for _ in range(60):
        life.answer()

    assert life.told == [HOUR, 0.0]


def test_one_answer_a_second_is_looked_at():
    life = Life()
    life.answer()

    for _ in range(1000):
        life.answer(stamped(life.server - HOUR), seconds=0.0)

    assert life.told == []


async def test_the_date_of_each_kind_of_answer_is_read(server):
    life = Life(HOUR)
    dated = b"HTTP/1.1 200 OK\r\ndate: %s\r\nContent-Length: 2\r\n\r\n{}" % stamped(NOW)
    server.script = [[dated, dated, dated]]
    heard: list[int] = []

    class Counted(ServerTime):
        def observe(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
            heard.append(status)
            super().observe(status, headers)

    counted = Counted(life.now)
    counted.report_to(life.told.append)
    http = Http1(server.url, None, None, {}, counted)
    answered: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    await http.send("GET", "/", {}, None)
    assert http.dispatch("POST", "/", {}, b"{}", 5.0, answered.set_result)
    assert isinstance(await answered, Reply)
    stream = await http.stream("/", {}, 5.0)
    stream.close()
    await http.close()

    assert heard == [200, 200, 200]
    assert life.told == [HOUR]


def test_a_difference_that_is_known_already_is_reported_at_once():
    life = Life(ahead=HOUR)
    for _ in range(5):
        life.answer()
    later: list[float] = []

    life.time.report_to(later.append)

    assert later == life.told[-1:] != []
