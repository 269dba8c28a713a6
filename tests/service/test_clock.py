"""The clock: its readings, steps of the system's clock, and a host that sleeps."""

import time
from itertools import pairwise

from scheduler.model import times
from scheduler.service.clock import Clock


class Host:
    """A machine with clocks that a test moves."""

    def __init__(self) -> None:
        self.epoch = 1_000_000.0
        self.uptime = 50.0

    def clock(self) -> Clock:
        return Clock(wall=lambda: self.epoch, elapsed=lambda: self.uptime)

    def passes(self, seconds: float) -> None:
        self.epoch += seconds
        self.uptime += seconds


def live(host: Host, clock: Clock, seconds: float) -> list[float]:
    """Let time pass, looking at the system clock four times a second; return all readings."""
    readings = []
    for _ in range(int(seconds * 4)):
        readings.append(clock.now())
        clock.adjust()
        readings.append(clock.now())
        host.passes(0.25)
    return [*readings, clock.now()]


def test_a_step_of_the_system_clock_is_no_step_of_decisions():
    host = Host()
    clock = host.clock()

    for step in (3600.0, -7200.0):
        host.epoch += step
        before = clock.now()
        clock.adjust()
        assert clock.now() == before


def test_decisions_approach_the_system_clock_by_a_twentieth_of_the_time():
    host = Host()
    clock = host.clock()
    host.epoch += 3600

    begun = clock.now()
    live(host, clock, 100)

    assert abs(clock.now() - begun - 105) < 0.1


def test_a_process_started_before_its_clock_was_set_is_corrected():
    host = Host()
    clock = host.clock()
    host.epoch += 70

    live(host, clock, 1800)

    assert abs(clock.now() - clock.wall()) < 0.5


def test_a_late_adjustment_overshoots_by_at_most_a_twentieth():
    host = Host()
    clock = host.clock()
    host.epoch += 3600
    clock.adjust()

    begun = clock.now()
    host.passes(1000)

    assert abs(clock.now() - begun - 1050) < 0.001


def test_the_clock_runs_while_the_host_is_suspended():
    clock = Clock()

    assert abs(clock.elapsed() - time.clock_gettime(time.CLOCK_BOOTTIME)) < 1
    assert abs(clock.now() - clock.wall()) < 1


def test_now_never_runs_backwards():
    clock = Clock()

    readings = [clock.now() for _ in range(1_000)]

    assert all(earlier <= later for earlier, later in pairwise(readings))


def test_now_is_on_the_line_of_the_stamps_of_pods():
    now = Clock().now()

    assert times.parse(times.stamp(now)) == int(now)
