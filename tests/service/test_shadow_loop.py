"""The loop of shadow mode: bindings of a burst are compared in the order of the queue."""

import asyncio

import pytest

from scheduler.model.events import NodeObserved, PodGone, PodObserved
from scheduler.observe.api.history import History
from scheduler.observe.shadow.shadow import Shadow
from scheduler.service.shadow_loop import WAITS, ShadowLoop
from tests.service.test_loop import Deaf, Host
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster

FIRST, SECOND = pod("first").cpu("3"), pod("second").cpu("1")


def bound(which: PodBuilder, on: str) -> PodObserved:
    return PodObserved(which.version(9).on(on).build())


@pytest.fixture
async def running():
    host, machine = Host(), Cluster().machine
    shadow = Shadow(machine)
    loop = ShadowLoop(machine, shadow, host.clock, Deaf(), History(machine, 0.0))
    loop.observe(
        [NodeObserved(each.build()) for each in (node("n4").cpu("4"), node("n8").cpu("8"))]
    )
    loop.observe([PodObserved(each.version(1).build()) for each in (FIRST, SECOND)])
    loop.start_deciding()
    task = asyncio.create_task(loop.run())

    async def settle() -> None:
        host.uptime += WAITS
        loop._news.set()
        async with asyncio.timeout(10):
            while loop._waiting:
                await asyncio.sleep(0.001)

    yield loop, shadow, settle
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    machine.check()


@pytest.mark.parametrize("between", [(), (PodObserved(FIRST.version(5).label("a", "b").build()),)])
async def test_bindings_that_come_in_another_order_are_compared_in_that_of_the_queue(
    running, between
):
    loop, shadow, settle = running

    # Alone, `second` would be best on n8; after `first` it is best on n4.
    loop.observe([bound(SECOND, "n4"), *between, bound(FIRST, "n8")])
    await settle()

    assert +shadow.outcomes == {"same_node": 2}
    assert loop._bindings == loop._early == {}


async def test_a_pod_that_is_gone_at_once_leaves_nothing_behind(running):
    loop, shadow, settle = running
    gone = [PodGone(each.build().key, each.build().uid) for each in (FIRST, SECOND)]

    loop.observe([bound(SECOND, "n4"), bound(FIRST, "n8"), *gone])
    await settle()

    assert +shadow.outcomes == {"same_node": 2}
    assert loop._bindings == loop._early == {}
    assert len(loop._machine.cluster.pods) == 0
