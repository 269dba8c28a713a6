"""Whether the scheduler's loop still runs."""

import asyncio

from scheduler.observe.server.heartbeat import STUCK_SECONDS, Heartbeat


class Time:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_loop_that_does_not_run_for_minutes_is_stuck():
    time = Time()
    pulse = Heartbeat(time)

    time.now += STUCK_SECONDS
    before = pulse.stuck()
    time.now += 12.0
    after = pulse.stuck()
    pulse.beat()

    assert before is None
    assert after == "the scheduling loop has not run for 312 s"
    assert pulse.stuck() is None


async def test_the_loop_that_keeps_it_says_so_while_it_runs():
    time = Time()
    pulse = Heartbeat(time)
    keeping = asyncio.create_task(pulse.keep())

    time.now += 50.0
    await asyncio.sleep(0)

    assert pulse.age == 0.0
    time.now += 7.0
    assert pulse.age == 7.0
    keeping.cancel()
