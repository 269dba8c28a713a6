"""Preemptions under faults: clocks differ, the API server refuses, the preemptor is deleted."""

from dataclasses import replace

import pytest

from scheduler.core.eviction.state import USE_WITHIN
from scheduler.core.eviction.transitions import TERMINATION_MARGIN
from scheduler.model.decisions import Failed, Placed, Preempting
from scheduler.model.effects import Evict, Nominate, RecordEvent
from scheduler.model.events import FailureKind
from scheduler.model.extender_answers import Filtered
from scheduler.model.policies import (
    Budget,
    PreemptionLimit,
    PreemptionPolicy,
)
from scheduler.queue.phases import QueuePhase
from tests.support.builders import OURS, PodBuilder, node, pod
from tests.support.cluster import Cluster, profiles
from tests.support.refusing import GRACE, STRICT, Refusing

HIGH = pod("high").cpu("4").priority(100)


def low(name: str, on: str = "n1", cpu: str = "4", priority: int = 0) -> PodBuilder:
    return pod(name).on(on).cpu(cpu).priority(priority)


def full(count: int) -> Refusing:
    """Return nodes that one pod each fills."""
    names = [f"n{each}" for each in range(count)]
    return Refusing(
        *(node(each).cpu("4") for each in names), *(low(f"low-{each}", each) for each in names)
    )


# Clocks


@pytest.mark.parametrize("ahead", [0, 45, 90, 3600, -3600])
def test_a_clock_that_differs_causes_no_further_eviction(ahead):
    cluster = full(6)
    cluster.ahead = ahead
    cluster.add(HIGH)
    cluster.drain()

    for _ in range(GRACE - 1):
        cluster.wait(1)
        cluster.drain()

    assert len(cluster.evicted()) == 1


def test_a_victim_hangs_when_it_was_seen_terminating_for_longer_than_its_grace_period():
    cluster = full(2)
    cluster.ahead = 3600
    cluster.add(HIGH)
    cluster.drain()

    cluster.wait(GRACE + TERMINATION_MARGIN - 1)
    cluster.drain()
    assert len(cluster.evicted()) == 1
    cluster.wait(2)
    cluster.drain()

    assert len(cluster.evicted()) == 2


def test_after_a_change_of_leader_the_time_of_a_victim_begins_again():
    cluster = full(2)
    cluster.add(HIGH)
    cluster.drain()
    cluster.now += 3600
    cluster.restart()
    cluster.drain()

    cluster.wait(GRACE + TERMINATION_MARGIN - 1)
    cluster.drain()
    assert len(cluster.evicted()) == 1
    cluster.wait(2)
    cluster.drain()

    assert len(cluster.evicted()) == 2


def test_the_grace_of_a_victim_that_another_client_evicts_begins_when_it_is_seen_terminating():
    cluster = full(1)
    cluster.hold(Nominate)
    cluster.add(HIGH)
    cluster.drain()
    cluster.wait(GRACE + TERMINATION_MARGIN - 10)
    cluster.change(
        "low-n0",
        lambda low: low.preempted().terminating().meta(deletion_grace_period_seconds=GRACE),
    )
    cluster.done()
    assert not cluster.asked(Evict)

    cluster.wait(GRACE + TERMINATION_MARGIN - 1)
    cluster.drain()
    assert cluster.nominations() == {"high": "n0"}
    cluster.wait(2)

    assert cluster.nominations() == {}


def test_freed_resources_are_not_waited_for_again_once_a_victim_hangs():
    cluster = full(2)
    cluster.schedule(pod("gone").cpu("4").priority(100))
    (first,) = cluster.nominations().values()
    cluster.delete("gone")
    cluster.add(HIGH)
    cluster.drain()
    assert cluster.nominations() == {"high": first}

    cluster.wait(GRACE + TERMINATION_MARGIN + 1)
    cluster.drain()

    assert len(cluster.evicted()) == 2
    assert cluster.nominations() == {"high": "n1" if first == "n0" else "n0"}


def test_a_hanging_victim_does_not_replace_another_victim():
    cluster = Refusing(
        node("n1").cpu("5"), low("hangs", cpu="2", priority=50).port(80), low("low", cpu="2")
    )
    cluster.schedule(pod("gone").cpu("1").priority(100).port(80))
    cluster.wait(GRACE + TERMINATION_MARGIN + 1)
    cluster.delete("gone")
    cluster.hold(Nominate)
    cluster.schedule(pod("high").cpu("2").priority(10))
    assert cluster.evicted() == ["hangs"]

    cluster.add(low("new", cpu="1m"))
    cluster.done()

    assert cluster.evicted() == ["hangs", "low"]


# Refusals


def test_pauses_grow_while_the_api_server_refuses_an_eviction():
    cluster = Refusing(node("n1").cpu("4"), low("guarded"))
    cluster.refuses = lambda each: FailureKind.FORBIDDEN if isinstance(each, Evict) else None
    cluster.add(HIGH)

    for _ in range(3600):
        cluster.drain()
        cluster.wait(1)

    assert len(cluster.evicted()) < 30


def guarded_and_web() -> Refusing:
    """Return a node with two victims; a disruption budget may protect the first."""
    victims = low("guarded", cpu="2"), low("web", cpu="2", priority=1)
    return Refusing(node("n1").cpu("4"), *victims, STRICT)


def test_a_victim_that_a_disruption_budget_may_protect_is_evicted_first():
    cluster = guarded_and_web()
    cluster.refuses = lambda each: FailureKind.REFUSED if isinstance(each, Evict) else None

    cluster.schedule(HIGH)

    assert cluster.evicted() == ["guarded"]


def test_the_other_victims_are_evicted_when_the_api_server_has_evicted_those():
    cluster = guarded_and_web()

    cluster.schedule(HIGH)

    assert cluster.evicted() == ["guarded", "web"]
    cluster.finish_terminating()
    cluster.wait(15)
    assert [each.decision for each in cluster.drain()] == [Placed("n1")]


# The preemptor is deleted


def test_evictions_that_wait_to_be_sent_are_cancelled_when_the_preemptor_is_deleted():
    cluster = Cluster(node("n1").cpu("4"), low("a", cpu="2"), low("b", cpu="2"))
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    first, second = cluster.held
    assert isinstance(first, Evict)
    assert isinstance(second, Evict)
    assert cluster.machine.preemptions.state.is_still_planned(second)
    cluster.done(first)
    assert not cluster.machine.preemptions.state.is_still_planned(first)

    cluster.delete("high")

    assert not cluster.machine.preemptions.state.is_still_planned(second)
    cluster.fail(second, FailureKind.ABANDONED)
    assert cluster.machine.cluster.evicting == 1


def test_the_capacity_of_a_preemptor_that_was_deleted_is_used():
    cluster = Cluster(
        node("n1").cpu("4"), node("n2").cpu("4"), low("v"), low("u", "n2", priority=5)
    )
    cluster.schedule(pod("x").cpu("4").priority(100))
    cluster.delete("x")

    decision = cluster.schedule(pod("b").cpu("4").priority(100))

    assert decision == Preempting("n1", cluster.refs("v"), 0, decision.message)
    assert cluster.evicted() == ["v"]
    cluster.finish_terminating()
    cluster.wait(15)
    cluster.drain()
    cluster.wait(USE_WITHIN)
    assert cluster.machine.preemptions.state.waste.wasted_evictions == {}


@pytest.mark.parametrize(
    ("config", "evicted"),
    [
        pytest.param("", ["v"], id="no extender"),
        pytest.param(
            "extenders: [{urlPrefix: http://e, filterVerb: filter}]\n", ["v", "u"], id="an extender"
        ),
    ],
)
def test_freed_capacity_is_not_offered_where_extenders_decide_on_nodes(config, evicted):
    cluster = Cluster(node("n1").cpu("4"), low("v", priority=5), config=config)
    cluster.extender = lambda asked: Filtered(asked.nodes)
    cluster.schedule(pod("x").cpu("4").priority(100))
    cluster.delete("x")
    cluster.add(node("n2").cpu("4"), low("u", "n2"))

    cluster.schedule(pod("b").cpu("4").priority(100))

    assert cluster.evicted() == evicted


# Waking


def test_a_preemptor_whose_victims_have_terminated_is_tried_whatever_the_hints_say():
    victim = low("low", cpu="1").apart("h", app="web").apart("h", app="db")
    cluster = Cluster(node("n1").cpu("4").label("h", "n1"), victim)
    cluster.schedule(pod("high").cpu("1").priority(10).label("app", "web"))

    cluster.finish_terminating()
    cluster.wait(3)

    assert [each.decision for each in cluster.drain()] == [Placed("n1")]


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(
            PreemptionPolicy("p", generation=1, budgets=(Budget(1, 3600.0),)), id="a budget"
        ),
        pytest.param(
            PreemptionPolicy(
                "p", generation=1, max_preemptions_per_owner=PreemptionLimit(1, 3600.0)
            ),
            id="a limit for the owner",
        ),
    ],
)
def test_a_preemptor_is_requeued_when_the_count_that_blocked_it_is_released(policy):
    cluster = Cluster(node("n1").cpu("4"), node("n2").cpu("4"), low("l1"), low("l2", "n2"), policy)
    cluster.hold(Nominate)
    cluster.schedule(pod("a").cpu("4").priority(10).owner("Job", "j"))
    cluster.schedule(pod("b").cpu("4").priority(20).owner("Job", "j"))
    assert cluster.phase("b") is QueuePhase.UNSCHEDULABLE

    cluster.hold()
    cluster.fail(cluster.held[0])
    cluster.delete("a")
    cluster.wait(3)
    cluster.drain()

    assert "b" in cluster.nominations()


# Plugins of others


class OutOfOrder:
    """A plugin of another package, as the guard around it lets it through."""

    name = "OutOfOrder"

    def compile_filter(self, *_: object) -> None:
        return None

    def reserve(self, *_: object) -> None:
        raise RuntimeError("out of order")


def test_a_plugin_that_cannot_reserve_takes_the_pod_off_its_node():
    ours = profiles()[OURS]
    using = {OURS: replace(ours, filters=(*ours.filters, OutOfOrder()))}
    cluster = Cluster(node("n1").cpu("4"), using=using)

    decision = cluster.schedule(pod("p").cpu("1"))

    assert decision == Failed('running Reserve plugin "OutOfOrder": out of order')
    assert cluster.machine.sizes().assumed == 0
    assert cluster.phase("p") is QueuePhase.BACKOFF
    (event,) = cluster.asked(RecordEvent)
    assert isinstance(event, RecordEvent)
    assert event.note == decision.message
