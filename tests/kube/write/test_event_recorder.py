"""Which Events are written, and which are only counted."""

import pytest

from scheduler.kube.write.event_recorder import APART_SECONDS, REFRESH_SECONDS, EventRecorder
from scheduler.model.effects import PodRef, RecordEvent

NOTE = "0/5 nodes are available: 3 Insufficient cpu, 2 node(s) had taints."


class Told:
    """A recorder whose requests all succeed; records which were sent, and when."""

    def __init__(self) -> None:
        self._recorder = EventRecorder("host")
        self.requests: list[tuple[float, str]] = []
        self.names: set[str] = set()

    def note(self, now: float, note: str = NOTE, version: str = "1") -> None:
        pod = PodRef("default", "a", "uid-a")
        effect = RecordEvent(
            pod, "Warning", "FailedScheduling", "Scheduling", note, "ours", version
        )
        series = self._recorder.record(effect, now)
        if series is not None:
            self.requests.append((now, self._recorder.request(effect, series, now).verb))
            self.names.add(series.name)
            self._recorder.written(series, now)


@pytest.fixture
def told() -> Told:
    return Told()


def test_what_repeats_within_a_minute_is_written_once(told):
    for second in range(60):
        told.note(float(second))

    assert told.requests == [(0.0, "create")]


def test_the_count_is_written_when_it_has_doubled_and_a_minute_has_passed(told):
    for second in range(0, 300, 20):
        told.note(float(second))

    # 1 at first, 4 after a minute, 8 when the fourth more has come.
    assert told.requests == [(0.0, "create"), (60.0, "patch"), (140.0, "patch")]
    assert APART_SECONDS == 60


def test_after_half_an_hour_a_repeat_is_written_however_few_there_were(told):
    for minute in range(0, 70, 5):
        told.note(minute * 60.0)

    assert [at / 60 for at, _ in told.requests] == [0, 5, 15, 35, 65]
    assert REFRESH_SECONDS == 30 * 60


@pytest.mark.parametrize(
    ("note", "version"),
    [
        pytest.param(NOTE, "2", id="the condition was written"),
        pytest.param(NOTE.replace("3", "12"), "1", id="other numbers"),
    ],
)
def test_it_is_a_repeat_although(told, note, version):
    told.note(0)
    told.note(1, note, version)

    assert [verb for _, verb in told.requests] == ["create"]
