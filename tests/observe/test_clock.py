from itertools import pairwise

import pytest

from scheduler.model import times
from scheduler.service.clock import Clock


def test_now_and_wall_agree_at_the_start():
    clock = Clock()

    assert clock.now() == pytest.approx(clock.wall(), abs=0.5)


def test_now_never_runs_backwards():
    clock = Clock()

    readings = [clock.now() for _ in range(1_000)]

    assert all(earlier <= later for earlier, later in pairwise(readings))


def test_now_is_on_the_line_of_the_stamps_of_pods():
    now = Clock().now()

    assert times.parse(times.stamp(now)) == int(now)


def test_perf_measures_durations():
    clock = Clock()

    start = clock.perf()

    assert 0 <= clock.perf() - start < 1
