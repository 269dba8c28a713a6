"""Time stamps of the API as seconds."""

import pytest

from scheduler.model import times

READ = [
    ("1970-01-01T00:00:00Z", 0.0),
    ("2026-01-01T00:00:00Z", 1_767_225_600.0),
    ("2026-01-01T00:00:00.25Z", 1_767_225_600.25),
    ("2026-01-01T00:00:00.123456789Z", 1_767_225_600.123456),
    ("2026-01-01T01:00:00+01:00", 1_767_225_600.0),
    ("2026-01-01T00:00:00", 1_767_225_600.0),
    ("9999-12-31T23:59:59Z", 253_402_300_799.0),
    ("0001-01-01T00:00:00Z", -62_135_596_800.0),
    ("0001-01-01T00:00:00+23:59", -62_135_596_800.0 - 86_340),
]


@pytest.mark.parametrize(("text", "seconds"), READ, ids=[text for text, _ in READ])
def test_a_time_stamp_is_seconds_since_the_epoch(text, seconds):
    assert times.parse(text) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("text", [None, "", "soon", "2026-13-01T00:00:00Z", "1767225600"])
def test_a_stamp_that_cannot_be_read_counts_as_absent(text):
    assert times.parse(text) is None


def test_a_time_is_written_in_whole_seconds():
    assert times.stamp(1_767_225_600.9) == "2026-01-01T00:00:00Z"


def test_a_written_time_is_read_back_unchanged():
    assert times.parse(times.stamp(1_767_225_601)) == 1_767_225_601
