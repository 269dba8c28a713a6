import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.config import durations


@pytest.mark.parametrize(
    ("text", "want_seconds"),
    [
        pytest.param("15s", 15.0, id="seconds"),
        pytest.param("1m30s", 90.0, id="several units add up"),
        pytest.param("1.5h", 5400.0, id="a fraction of a unit"),
        pytest.param(".5m", 30.0, id="a fraction without a leading digit"),
        pytest.param("1.s", 1.0, id="a point without a fraction"),
        pytest.param("100ms", 0.1, id="milliseconds"),
        pytest.param("5us", 5e-6, id="microseconds in ASCII"),
        pytest.param("5\N{MICRO SIGN}s", 5e-6, id="microseconds with the micro sign"),
        pytest.param("5\N{GREEK SMALL LETTER MU}s", 5e-6, id="microseconds with the greek letter"),
        pytest.param("7ns", 7e-9, id="nanoseconds"),
        pytest.param("-2s", -2.0, id="a negative duration"),
        pytest.param("+2s", 2.0, id="an explicit plus"),
        pytest.param("0", 0.0, id="zero needs no unit"),
        pytest.param("-0", 0.0, id="nor does minus zero"),
        pytest.param("0s", 0.0, id="zero with a unit"),
        pytest.param("0.1ns", 0.0, id="less than a nanosecond is cut off"),
        pytest.param("9223372036s", 9223372036.0, id="the longest duration"),
    ],
)
def test_reads_durations_as_go_does(text, want_seconds):
    assert durations.parse(text) == want_seconds


@pytest.mark.parametrize(
    ("text", "want_message"),
    [
        pytest.param("", 'invalid duration ""', id="nothing"),
        pytest.param("-", 'invalid duration "-"', id="a sign only"),
        pytest.param("s", 'invalid duration "s"', id="a unit only"),
        pytest.param(".s", 'invalid duration ".s"', id="a point only"),
        pytest.param(" 1s", 'invalid duration " 1s"', id="a leading space"),
        pytest.param("15", 'missing unit in duration "15"', id="no unit"),
        pytest.param("1h5", 'missing unit in duration "1h5"', id="no unit at the end"),
        pytest.param("1d", 'unknown unit "d" in duration "1d"', id="days"),
        pytest.param("9223372037s", 'invalid duration "9223372037s"', id="beyond 292 years"),
    ],
)
def test_refuses_what_is_no_duration(text, want_message):
    with pytest.raises(durations.DurationError, match=f"^{want_message}$"):
        durations.parse(text)


@pytest.mark.parametrize(
    ("seconds", "want_text"),
    [
        pytest.param(15.0, "15s", id="seconds"),
        pytest.param(600.0, "10m0s", id="minutes show their seconds"),
        pytest.param(7200.0, "2h0m0s", id="hours show their minutes"),
        pytest.param(1.5, "1.5s", id="a fraction"),
        pytest.param(0.1, "100ms", id="milliseconds"),
        pytest.param(1e-6, "1\N{MICRO SIGN}s", id="microseconds"),
        pytest.param(7e-9, "7ns", id="nanoseconds"),
        pytest.param(0.0, "0s", id="zero"),
        pytest.param(-90.0, "-1m30s", id="a negative duration"),
    ],
)
def test_writes_durations_as_go_does(seconds, want_text):
    assert durations.text(seconds) == want_text


@given(st.integers(min_value=-(2**50), max_value=2**50))
def test_a_written_duration_reads_back_to_the_nanosecond(nanoseconds):
    text = durations.text(nanoseconds / 10**9)

    assert durations.nanoseconds(durations.parse(text)) == nanoseconds
