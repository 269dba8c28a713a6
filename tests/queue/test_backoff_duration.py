"""The back-off after failed attempts."""

import pytest

from scheduler.queue.backoff_duration import PodBackoff

DEFAULTS = PodBackoff()


@pytest.mark.parametrize(("failures", "seconds"), [(1, 3), (2, 6), (3, 12), (4, 13), (5, 13)])
def test_the_longest_pause_need_not_be_a_multiple_of_the_first(failures, seconds):
    assert PodBackoff(initial_seconds=3, max_seconds=13).duration(failures) == seconds


def test_a_first_pause_longer_than_the_longest_is_cut():
    assert PodBackoff(initial_seconds=20, max_seconds=10).duration(1) == 10


def test_a_pause_ends_on_a_whole_second():
    assert DEFAULTS.expiry(100.9, 1) == 101


@pytest.mark.parametrize(("now", "waiting"), [(100.9, True), (101.99, True), (102.0, False)])
def test_a_pause_of_one_second_really_ends_between_one_and_two_seconds_later(now, waiting):
    assert DEFAULTS.is_waiting(DEFAULTS.expiry(100.9, 1), now) is waiting


def test_a_longest_pause_of_0_switches_the_back_off_off():
    backoff = PodBackoff(initial_seconds=1, max_seconds=0)

    assert not backoff.is_waiting(backoff.expiry(100.0, 3), 100.0)
