"""The loop of shadow mode: bindings of a burst are compared in the order of the queue."""

import asyncio
import cProfile
import itertools
import pstats

import numpy as np
import pytest

from scheduler.model.events import NodeObserved, PodGone, PodObserved
from scheduler.observe.api.history import History
from scheduler.observe.shadow.shadow import Shadow
from scheduler.service import shadow_loop
from scheduler.service.clock import Clock
from scheduler.service.loop import SLICE_SECONDS
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


def rejected(which: PodBuilder) -> PodObserved:
    changed = which.version(5).condition("PodScheduled", "False", "Unschedulable")
    return PodObserved(changed.build())


@pytest.mark.parametrize("long_ago", [True, False])
async def test_a_pod_that_was_rejected_before_keeps_its_turn(running, long_ago):
    loop, shadow, settle = running

    loop.observe([rejected(FIRST)] if long_ago else [])
    await settle()
    shadow.outcomes.clear()
    # After `second`, `first` is best on n8; before it, `second` would be best on n4.
    loop.observe([bound(SECOND, "n8"), *([] if long_ago else [rejected(FIRST)])])
    loop.observe([bound(FIRST, "n8")])
    await settle()

    assert (shadow.outcomes["same_node"], shadow.outcomes["other_node"]) == (2, 0)
    assert loop._turned_down == {}


async def test_a_pod_on_a_node_that_is_newer_than_another_binding_keeps_its_turn(running):
    loop, shadow, settle = running

    new = NodeObserved(node("n16").cpu("16").build())
    loop.observe([bound(SECOND, "n8"), new, bound(FIRST, "n16")])
    await settle()

    assert +shadow.outcomes == {"same_node": 2}


RUNS = FIRST.version(10).on("n8")


@pytest.mark.parametrize(
    ("after", "passed_on"),
    [
        pytest.param([RUNS.started(1), RUNS.started(1).version(11)], 1, id="its kubelet starts it"),
        pytest.param([RUNS.finished("Failed")], 2, id="it ends"),
        pytest.param([RUNS.terminating()], 2, id="it is deleted"),
        pytest.param([RUNS.label("a", "b")], 2, id="its labels change"),
        pytest.param([RUNS.cpu("2")], 2, id="it is resized"),
        pytest.param(
            [RUNS.condition("DisruptionTarget", "True", "PreemptionByScheduler"), RUNS.started(1)],
            3,
            id="it is evicted",
        ),
    ],
)
async def test_the_machine_gets_the_last_of_states_that_say_how_far_a_kubelet_is(
    running, after, passed_on
):
    loop, shadow, settle = running
    states = [PodObserved(each.build()) for each in after]

    loop.observe([bound(FIRST, "n8"), *states])
    assert len(loop._waiting) == passed_on
    await settle()

    assert +shadow.outcomes == {"same_node": 1}
    last = states[-1].pod
    assert loop._machine.cluster.find_pod(last.uid) == (None if last.terminal else last)
    assert loop._last == loop._bindings == {}


def burst(number: int, step: int = -1) -> tuple[ShadowLoop, list[PodBuilder], Host]:
    """Return a loop with pods whose bindings wait, by default in the reverse order."""
    host, machine = Host(), Cluster().machine
    loop = ShadowLoop(machine, Shadow(machine), host.clock, Deaf(), History(machine, 0.0))
    pods = [pod(f"p-{i:05}").cpu("1m") for i in range(number)]
    loop.observe([NodeObserved(node("n").cpu("4").pods(9999).build())])
    loop.observe([PodObserved(each.version(1).build()) for each in pods])
    loop.start_deciding()
    loop.observe([bound(each, "n") for each in pods[::step]])
    host.uptime += WAITS
    return loop, pods, host


def test_a_slice_ends_amid_a_burst_that_comes_in_another_order(monkeypatch):
    loop, pods, _ = burst(50)
    moments = itertools.count(0.0, SLICE_SECONDS / 4)
    monkeypatch.setattr(Clock, "perf", staticmethod(lambda: next(moments)))

    loop._slice()

    placed = [loop._machine.cluster.find_pod(each.build().uid) is not None for each in pods]
    assert 1 <= sum(placed) <= 4
    assert placed == sorted(placed, reverse=True)


@pytest.mark.parametrize("step", [-1, 1])
def test_the_order_of_a_large_burst_costs_as_much_for_each_pod_as_that_of_a_small_one(step):
    calls = {}
    for number in (100, 400):
        loop, *_ = burst(number, step)
        loop._shadow.before = lambda *_args, **_more: None
        profile = cProfile.Profile()
        with profile:
            while loop._has_work():
                loop._slice()
        calls[number] = pstats.Stats(profile).total_calls / number  # type: ignore[attr-defined]

    assert calls[400] < 1.3 * calls[100]
    assert loop._bindings == loop._early == {}


def test_places_of_pods_that_no_longer_wait_are_forgotten(monkeypatch):
    monkeypatch.setattr(shadow_loop, "_VOID", 5)
    host, machine = Host(), Cluster().machine
    loop = ShadowLoop(machine, Shadow(machine), host.clock, Deaf(), History(machine, 0.0))
    loop.start_deciding()
    for i in range(50):
        each = pod(f"p-{i}").priority(i)
        loop.observe([PodObserved(each.version(1).build()), bound(each, "n"),
                      PodGone(each.build().key, each.build().uid)])  # fmt: skip
        host.uptime += WAITS
        while loop._has_work():
            loop._slice()

    assert len(loop._places) <= 8
    assert loop._bindings == loop._early == loop._last == loop._turned_down == {}


@pytest.mark.parametrize("seed", range(10))
def test_the_state_ends_as_if_no_event_had_waited(seed):
    choose = np.random.default_rng(seed)
    lives = []
    for i in range(12):
        each = pod(f"p-{i}").cpu("100m").priority(int(choose.integers(3)))
        on = each.on(("n4", "n8")[choose.integers(2)])
        states = [each, each.condition("PodScheduled", "False", "Unschedulable"), on,
                  on.started(1), on.started(1).label("a", "b"), on.terminating()]  # fmt: skip
        kept = [state for state in states if choose.random() < 0.7] or [each]
        events = [PodObserved(s.version(10 + n).build()) for n, s in enumerate(kept)]
        gone = [PodGone(each.build().key, each.build().uid)] if choose.random() < 0.3 else []
        lives.append([*events, *gone])
    nodes = [NodeObserved(node(name).cpu("4").build()) for name in ("n4", "n8")]
    host, machine, direct = Host(), Cluster().machine, Cluster().machine
    loop = ShadowLoop(machine, Shadow(machine), host.clock, Deaf(), History(machine, 0.0))
    loop.start_deciding()
    for event in nodes:
        direct.observe(event, 0.0)
    loop.observe(nodes)
    while lives := [life for life in lives if life]:
        event = lives[choose.integers(len(lives))].pop(0)
        loop.observe([event])
        direct.observe(event, 0.0)
        host.uptime += (0.0, 0.3, 1.0)[choose.integers(3)]
        if loop._has_work():
            loop._slice()
    host.uptime += WAITS
    while loop._has_work():
        loop._slice()

    machine.check()
    assert {each.uid: each.pod for each in machine.queue} == {
        each.uid: each.pod for each in direct.queue
    }
    for one, other in ((machine, direct), (direct, machine)):
        for found in one.cluster.pods:
            assert other.cluster.find_pod(found.uid) == found
    assert loop._bindings == loop._early == loop._last == loop._turned_down == {}
