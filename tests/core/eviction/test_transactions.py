"""A preemption is one transaction: what was planned is carried out after a crash, or given up."""

import pytest

from scheduler.core.eviction.freed_room import VACANT_FOR
from scheduler.core.eviction.plan import EVICT_WITHIN
from scheduler.core.eviction.tracking import MARGIN
from scheduler.model.decisions import Placed, Preempting
from scheduler.model.effects import ClearNomination, Evict, Nominate
from scheduler.model.events import FailureKind
from scheduler.model.plan_record import (
    CONDITION,
    VERSION,
    PlanRecord,
    decode,
    encode,
    fingerprint,
)
from scheduler.queue.phases import QueuePhase
from tests.support.builders import EPOCH, PodBuilder, node, pod
from tests.support.cluster import Cluster

HIGH = pod("high").cpu("4").priority(100)


def victim(name: str, priority: int = 0, cpu: str = "2", on: str = "n1") -> PodBuilder:
    return pod(name).on(on).cpu(cpu).priority(priority)


def two_victims() -> Cluster:
    return Cluster(node("n1").cpu("4"), victim("a", 2), victim("b", 1))


def asked(cluster: Cluster) -> list[str]:
    """Return whom the scheduler asked to leave, in order."""
    return [each.victim.name for each in cluster.asked(Evict) if isinstance(each, Evict)]


def _about(effect: Evict | ClearNomination | Nominate) -> str:
    return effect.victim.name if isinstance(effect, Evict) else effect.pod.name


def wasted(cluster: Cluster) -> dict[str, int]:
    return dict(cluster.machine.tracking.wasted)


# When it goes on


def test_a_preemptor_is_tried_again_only_when_enough_of_its_victims_are_gone():
    cluster = two_victims()
    assert isinstance(cluster.schedule(HIGH), Preempting)

    cluster.delete("a")
    assert cluster.step() is None
    cluster.delete("b")

    attempt = cluster.step()
    assert attempt is not None
    assert attempt.decision == Placed("n1")


def test_a_preemptor_that_fits_before_all_of_its_victims_are_gone_waits_for_no_more():
    cluster = two_victims()
    assert isinstance(cluster.schedule(HIGH), Preempting)
    cluster.add(node("n1").cpu("6"))
    cluster.drain()

    cluster.delete("a")

    attempt = cluster.step()
    assert attempt is not None
    assert attempt.decision == Placed("n1")


# What is written


def test_the_plan_is_written_together_with_the_nomination():
    cluster = two_victims()
    cluster.change("a", lambda own: own.owner("StatefulSet", "db").terminating())
    cluster.hold(Nominate)

    cluster.schedule(HIGH)

    (nominate,) = cluster.held
    assert isinstance(nominate, Nominate)
    own = cluster.ref("high").uid
    assert decode(nominate.plan) == PlanRecord(
        VERSION,
        "n1",
        cluster.now,
        (fingerprint(own, "uid:default/b"),),
        (fingerprint(own, "uid:default/a"),),
    )


def test_what_is_written_names_no_other_pod():
    cluster = two_victims()
    cluster.hold(Nominate)

    cluster.schedule(HIGH)

    (nominate,) = cluster.held
    assert isinstance(nominate, Nominate)
    for each in (cluster.ref("a"), cluster.ref("b")):
        assert each.uid not in nominate.plan
        assert f'"{each.name}"' not in nominate.plan


def test_a_preemption_that_nothing_counts_writes_nothing_down():
    cluster = two_victims()

    cluster.schedule(HIGH)

    kinds = [type(effect).__name__ for effect in cluster.effects]
    assert kinds == ["RecordEvent", "Nominate", "Evict", "Evict", "RecordEvent", "RecordEvent"]


def test_the_plan_goes_with_the_nomination():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    assert cluster.pod("high").condition(CONDITION) is not None

    cluster.fail()
    cluster.fail()

    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]
    assert cluster.pod("high").condition(CONDITION) is None


# After a crash


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


def test_a_plan_that_goes_on_is_told_as_it_was():
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
    assert cluster.claims() == {"high": "n1"}


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
    assert cluster.claims() == {}


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


def test_a_preemptor_that_fits_now_evicts_nobody():
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


def test_a_plan_is_not_taken_up_once_a_more_important_preemptor_has_ended_it():
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


def test_a_plan_whose_node_is_gone_is_cancelled():
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


# Right before victims are asked


def test_victims_that_need_not_go_any_more_are_spared():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)
    cluster.add(node("n1").cpu("6"))

    cluster.done()

    assert asked(cluster) == ["b"]


def test_nobody_is_asked_when_the_preemptor_fits_meanwhile():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)
    cluster.add(node("n1").cpu("8"))

    cluster.done()

    assert asked(cluster) == []
    assert [each.decision for each in cluster.drain()] == [Placed("n1")]


def planned(name: str, *victims: str) -> PodBuilder:
    """Return a preemptor of one cpu, to which an earlier leader has written its plan."""
    own = f"uid:default/{name}"
    marks = tuple(fingerprint(own, f"uid:default/{each}") for each in victims)
    plan = PlanRecord(VERSION, "n1", EPOCH, marks)
    return pod(name).cpu("1").priority(100).nominated("n1").planned(encode(plan))


def two_planned(first: int = 0, second: int = 0) -> Cluster:
    """Return two preemptors with a victim each, one of which is enough: one room is free already.

    Args:
        first: The priority of one's victim, a.
        second: The priority of the other's, b.
    """
    return Cluster(
        node("n1").cpu("3"), victim("a", first, "1"), victim("b", second, "1"),
        planned("one", "a"), planned("other", "b"),
    )  # fmt: skip


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 1), (1, 0)])
def test_preemptors_do_not_spare_their_victims_for_each_others(first, second):
    cluster = two_planned(first, second)
    cluster.drain()
    cluster.finish_terminating()
    cluster.drain()

    assert len(asked(cluster)) == 1
    assert {cluster.pod(name).spec.node_name for name in ("one", "other")} == {"n1"}


def test_who_was_spared_is_no_victim_of_the_next_plan_either():
    cluster = two_planned()
    cluster.hold(Evict)
    cluster.drain()
    assert asked(cluster) == ["b"]
    # Nobody who was spared may be asked because another one is planned.
    cluster.add(victim("c", cpu="1"))
    cluster.done()
    cluster.hold()
    cluster.finish_terminating()
    cluster.drain()
    cluster.finish_terminating()
    cluster.drain()

    assert len(asked(cluster)) == 2
    assert {cluster.pod(name).spec.node_name for name in ("one", "other")} == {"n1"}


def test_nobody_is_asked_when_a_more_important_pod_has_taken_the_room():
    cluster = Cluster(node("n1").cpu("4"), victim("a", 1, "1"))
    cluster.hold(Nominate)
    cluster.schedule(HIGH)
    cluster.schedule(pod("top").cpu("2").priority(200))
    cluster.hold()

    cluster.done()

    assert cluster.pod("top").spec.node_name == "n1"
    assert asked(cluster) == []
    assert cluster.claims() == {}


# Deadlines


def test_a_victim_that_hangs_releases_the_node_and_the_preemptor_goes_elsewhere():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.add(node("n2").cpu("4"), victim("c", 50, "4", "n2"))
    cluster.delete("a")
    cluster.wait(MARGIN - 1)
    cluster.drain()
    assert asked(cluster) == ["a", "b"]
    assert cluster.claims() == {"high": "n1"}

    cluster.wait(1)
    decisions = [each.decision for each in cluster.drain()]

    assert isinstance(decisions[-1], Preempting)
    assert decisions[-1].node == "n2"
    assert asked(cluster) == ["a", "b", "c"]
    assert cluster.claims() == {"high": "n2"}
    assert wasted(cluster) == {"victim_hangs": 2}


def test_a_node_where_a_victim_hangs_is_no_candidate_until_it_is_gone():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.delete("a")

    cluster.wait(MARGIN)
    cluster.drain()

    assert cluster.claims() == {}
    assert cluster.pod("high").status.nominated_node_name == ""
    condition = cluster.pod("high").condition("PodScheduled")
    assert condition is not None
    assert "1 node(s) where a victim hangs in termination" in condition.message
    cluster.finish_terminating()
    cluster.wait(15)
    assert [each.decision for each in cluster.drain()] == [Placed("n1")]


def test_the_end_of_the_grace_period_counts_not_its_begin():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    held = list(cluster.held)
    cluster.now += 60
    for each in held:
        cluster.done(each)

    cluster.now -= 60
    cluster.wait(MARGIN + 59)
    assert cluster.claims() == {"high": "n1"}
    cluster.wait(1)
    assert cluster.claims() == {}


def test_an_eviction_without_an_answer_is_asked_for_again_until_the_deadline():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH.cpu("2"))
    begun = cluster.now

    while cluster.held:
        cluster.now += 30
        cluster.fail(kind=FailureKind.UNAVAILABLE)

    assert asked(cluster) == ["b"] * 4
    assert cluster.now == begun + EVICT_WITHIN
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]
    assert cluster.phase("high") is QueuePhase.BACKOFF


def test_an_eviction_that_fails_at_once_is_not_asked_for_again():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH.cpu("2"))

    cluster.fail(kind=FailureKind.UNAVAILABLE)

    assert asked(cluster) == ["b"]
    assert cluster.phase("high") is QueuePhase.BACKOFF


# What was in vain


def test_victims_of_a_preemptor_that_gets_the_room_are_not_wasted():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.finish_terminating()
    cluster.wait(3)
    cluster.drain()

    assert cluster.pod("high").spec.node_name == "n1"
    assert wasted(cluster) == {}
    assert cluster.machine.preemptions == {}


def test_victims_of_a_preemptor_that_is_gone_are_wasted():
    cluster = two_victims()
    cluster.schedule(HIGH)

    cluster.delete("high")
    cluster.finish_terminating()
    cluster.wait(VACANT_FOR)

    assert wasted(cluster) == {"preemptor_gone": 2}


def test_victims_on_a_node_that_is_gone_are_wasted():
    cluster = two_victims()
    cluster.schedule(HIGH)

    cluster.delete_node("n1")

    assert wasted(cluster) == {"node_gone": 2}


def test_victims_on_a_node_that_goes_while_they_are_asked_are_wasted():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.delete_node("n1")

    cluster.done()
    cluster.done(changed=False)

    # Perhaps an earlier request, whose answer was lost, has evicted the second.
    assert wasted(cluster) == {"node_gone": 2}


def test_victims_of_a_preemptor_that_is_placed_elsewhere_are_wasted():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.add(node("n2").cpu("4"))

    cluster.wait(3)
    cluster.drain()
    assert cluster.pod("high").spec.node_name == "n2"
    assert wasted(cluster) == {}

    cluster.wait(VACANT_FOR)
    assert wasted(cluster) == {"placed_elsewhere": 2}


def test_victims_whose_room_others_take_are_wasted():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.delete("a")
    cluster.add(victim("foreign", 0).scheduler("other"))
    cluster.delete("b")
    cluster.wait(3)
    cluster.drain()
    cluster.wait(12)
    cluster.drain()

    assert asked(cluster) == ["a", "b", "foreign"]
    assert wasted(cluster) == {"room_lost": 2}


def test_room_that_a_more_important_pod_takes_over_is_not_wasted():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.finish_terminating()

    cluster.schedule(pod("top").cpu("4").priority(200))
    cluster.wait(15)
    cluster.drain()

    assert cluster.pod("top").spec.node_name == "n1"
    assert wasted(cluster) == {}
    assert asked(cluster) == ["a", "b"]


def test_a_preemptor_whose_room_is_taken_waits_for_the_room_that_is_left_for_it():
    cluster = Cluster(
        node("n1").cpu("2"),
        node("n2").cpu("2"),
        node("n3").cpu("2"),
        victim("a", 0, on="n1"),
        victim("b", 1, on="n2"),
        victim("c", 2, on="n3"),
    )
    cluster.schedule(pod("top").cpu("2").priority(200))
    cluster.schedule(HIGH.cpu("2"))
    assert cluster.claims() == {"top": "n1", "high": "n2"}

    cluster.delete("b")
    cluster.wait(3)
    cluster.drain()

    assert cluster.pod("top").spec.node_name == "n2"
    assert cluster.claims() == {"high": "n1"}
    assert asked(cluster) == ["a", "b"]
    cluster.delete("a")
    cluster.wait(15)
    cluster.drain()
    cluster.wait(VACANT_FOR)
    assert cluster.pod("high").spec.node_name == "n1"
    assert wasted(cluster) == {}


def test_victims_that_the_more_important_preemptor_needs_too_are_not_wasted():
    cluster = two_victims()
    cluster.schedule(HIGH.cpu("2"))
    cluster.schedule(pod("top").cpu("4").priority(200))
    cluster.finish_terminating()
    cluster.wait(15)
    cluster.drain()

    assert cluster.pod("top").spec.node_name == "n1"
    assert wasted(cluster) == {}


def test_what_a_partly_failed_plan_has_vacated_is_used_by_the_next_one():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.done(cluster.held[0])
    cluster.fail()
    cluster.hold()
    cluster.finish_terminating()
    cluster.wait(15)
    cluster.drain()
    cluster.finish_terminating()
    cluster.wait(15)
    cluster.drain()

    assert cluster.pod("high").spec.node_name == "n1"
    assert wasted(cluster) == {}


def test_what_a_partly_failed_plan_has_vacated_for_nothing_is_wasted():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.done(cluster.held[0])
    cluster.fail()
    cluster.add(node("n2").cpu("4"))

    cluster.wait(15)
    cluster.drain()

    assert cluster.pod("high").spec.node_name == "n2"
    assert wasted(cluster) == {}

    cluster.wait(VACANT_FOR)
    assert wasted(cluster) == {"plan_failed": 1}


def test_a_victim_that_was_leaving_already_is_not_wasted_by_us():
    cluster = two_victims()
    cluster.change("a", lambda own: own.terminating())
    cluster.schedule(HIGH)

    cluster.delete("high")
    cluster.finish_terminating()
    cluster.wait(VACANT_FOR)

    assert wasted(cluster) == {"preemptor_gone": 1}


def test_after_a_crash_what_an_earlier_leader_has_asked_for_counts():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.finish_terminating()
    cluster.restart()
    cluster.add(node("n1").cpu("3"), node("n2").cpu("4"))

    cluster.drain()
    cluster.wait(VACANT_FOR)

    assert cluster.pod("high").spec.node_name == "n2"
    assert wasted(cluster) == {"room_lost": 2}
