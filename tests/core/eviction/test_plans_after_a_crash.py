"""The next leader continues the plan of a preemption, or cancels it."""

import pytest

from scheduler.core.eviction.plan import EVICT_WITHIN
from scheduler.model.decisions import Placed, Preempting
from scheduler.model.effects import ClearNomination, Evict, Nominate
from scheduler.model.plan_record import (
    CONDITION,
)
from tests.support.builders import node, pod
from tests.support.evictions import HIGH, asked, two_victims, victim, wasted


@pytest.mark.parametrize(
    ("answered", "want"),
    [
        pytest.param((), ["a", "b"], id="before any victim was asked"),
        pytest.param(("a",), ["b"], id="between the first and the second"),
        pytest.param(("b",), ["a"], id="between the second and the first"),
        pytest.param(("a", "b"), [], id="after all were asked"),
    ],
)
def test_after_a_crash_the_same_plan_goes_on(answered, want):
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    for each in list(cluster.held):
        if isinstance(each, Evict) and each.victim.name in answered:
            cluster.done(each)
    cluster.restart()
    cluster.forget_effects()

    cluster.drain()

    assert asked(cluster) == want
    assert cluster.asked(Nominate) == []
    cluster.finish_terminating()
    cluster.wait(15)
    assert [each.decision for each in cluster.drain()] == [Placed("n1")]
    assert wasted(cluster) == {}


def test_a_plan_that_goes_on_is_reported_unchanged():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.restart()

    (attempt,) = cluster.drain()

    assert attempt.decision == Preempting(
        "n1", cluster.refs("a", "b"), 0, "0/1 nodes are available: 1 Insufficient cpu."
    )


def test_after_a_crash_the_plan_goes_on_though_another_one_would_be_better_now():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH.cpu("2"))
    cluster.restart()
    cluster.add(victim("c", 0, "1"), node("n1").cpu("5"), node("n2").cpu("2"))
    cluster.add(victim("d", 0, "2", "n2"))
    cluster.forget_effects()

    cluster.drain()

    assert asked(cluster) == ["b"]
    assert cluster.nominations() == {"high": "n1"}


def test_a_plan_that_is_not_enough_any_more_is_cancelled():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.add(victim("top", 200, "1"))
    cluster.restart()
    cluster.forget_effects()

    cluster.drain()

    assert asked(cluster) == []
    assert cluster.pod("high").status.nominated_node_name == ""
    assert cluster.pod("high").condition(CONDITION) is None
    assert cluster.nominations() == {}


def test_a_plan_goes_on_however_long_the_fail_over_took():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.now += 10 * EVICT_WITHIN
    cluster.restart()
    cluster.forget_effects()

    cluster.drain()

    assert cluster.asked(Nominate) == []
    assert asked(cluster) == ["a", "b"]


def test_a_preemptor_that_fits_now_evicts_no_pod():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.restart()
    cluster.add(node("n2").cpu("4"))
    cluster.forget_effects()

    (attempt,) = cluster.drain()

    assert attempt.decision == Placed("n2")
    assert asked(cluster) == []
    assert wasted(cluster) == {}


def test_a_plan_that_the_nomination_does_not_belong_to_is_ignored():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.change("high", lambda own: own.nominated("n2"))
    cluster.restart()
    cluster.forget_effects()

    cluster.drain()

    assert len(cluster.asked(Nominate)) == 1


def test_a_plan_is_not_resumed_when_a_more_important_preemptor_has_ended_it():
    cluster = two_victims()
    cluster.hold(Nominate, Evict, ClearNomination)
    cluster.schedule(pod("top").cpu("2").priority(200))
    cluster.schedule(HIGH.cpu("2"))
    for each in list(cluster.held):
        cluster.done(each)
    assert cluster.pod("high").status.nominated_node_name == "n1"
    cluster.restart()
    cluster.forget_effects()

    cluster.drain()

    done = [
        each for each in cluster.effects if isinstance(each, Evict | ClearNomination | Nominate)
    ]
    assert [(type(each).__name__, _about(each)) for each in done] == [
        ("ClearNomination", "high"),
        ("Evict", "b"),
        ("Nominate", "high"),
        ("Evict", "a"),
    ]


def test_a_plan_whose_node_is_deleted_is_cancelled():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.done()
    del cluster.nodes["n1"]
    cluster.restart()
    cluster.add(node("n2").cpu("1"))
    cluster.forget_effects()

    cluster.drain()

    assert asked(cluster) == []


def test_a_standby_does_not_take_a_plan_up_twice():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.restart()
    cluster.drain()
    cluster.forget_effects()

    cluster.change("high", lambda own: own.label("x", "y"))
    cluster.wait(15)
    cluster.drain()

    assert asked(cluster) == []


def _about(effect: Evict | ClearNomination | Nominate) -> str:
    return effect.victim.name if isinstance(effect, Evict) else effect.pod.name


@pytest.mark.parametrize("back", [0.0, 0.0003, 5.0])
def test_a_plan_that_goes_on_waits_for_nominations_that_are_not_written(back):
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH.cpu("2"))
    cluster.restart()
    cluster.hold(Nominate)
    cluster.forget_effects()
    cluster.add(pod("first").cpu("2").priority(200))
    cluster.step()
    cluster.now -= back

    cluster.drain()
    assert asked(cluster) == []
    cluster.done()

    assert asked(cluster) != []
