"""Preemptors that compete for a node, and preemptors, pods and nodes that change meanwhile."""

from scheduler.model.decisions import Placed, Preempting
from scheduler.model.effects import (
    Bind,
    ClearNomination,
    Evict,
    Nominate,
)
from scheduler.queue.phases import QueuePhase
from tests.support.builders import OURS, node, pod
from tests.support.cluster import Cluster
from tests.support.evictions import HIGH, two_victims, victim

# Two preemptors


def test_the_second_preemptor_leaves_the_node_of_the_first_alone():
    cluster = Cluster(
        node("n1").cpu("2"), node("n2").cpu("2"),
        pod("cheap").on("n1").cpu("2").priority(1), pod("dear").on("n2").cpu("2").priority(2),
    )  # fmt: skip

    first = cluster.schedule(pod("first").cpu("2").priority(100))
    second = cluster.schedule(pod("second").cpu("2").priority(100))

    assert isinstance(first, Preempting)
    assert isinstance(second, Preempting)
    assert (first.node, second.node) == ("n1", "n2")
    assert cluster.claims() == {"first": "n1", "second": "n2"}


def test_a_higher_preemptor_unseats_a_lower_one():
    cluster = two_victims()
    cluster.schedule(HIGH.cpu("2"))
    assert cluster.claims() == {"high": "n1"}
    cluster.forget_effects()

    cluster.schedule(pod("top").cpu("4").priority(200))

    assert cluster.claims() == {"top": "n1"}
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]
    assert cluster.pod("high").status.nominated_node_name == ""
    assert cluster.phase("high") is QueuePhase.BACKOFF


def test_a_preemptor_does_not_unseat_an_equal_one():
    cluster = Cluster(node("n1").cpu("4"), victim("a"), victim("b"))
    cluster.schedule(pod("one").cpu("2").priority(100))

    cluster.schedule(pod("two").cpu("2").priority(100))

    assert cluster.claims() == {"one": "n1", "two": "n1"}
    assert cluster.asked(ClearNomination) == []


def test_a_preemptor_does_not_unseat_pods_of_other_schedulers():
    cluster = two_victims()
    cluster.add(pod("foreign").scheduler("other").priority(1).nominated("n1"))

    cluster.schedule(HIGH)

    assert cluster.claims() == {"foreign": "n1", "high": "n1"}


def test_a_preemptor_that_is_unseated_while_its_nomination_is_written_evicts_nobody():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH.cpu("2"))
    lower = cluster.held[0]
    cluster.schedule(pod("top").cpu("4").priority(200))
    cluster.done(cluster.held[1])
    cluster.forget_effects()

    cluster.done(lower)

    assert cluster.evicted() == []
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]
    assert cluster.claims() == {"top": "n1"}
    assert cluster.phase("high") is QueuePhase.ACTIVE


def test_a_preemptor_that_is_unseated_while_its_victims_leave_tries_again():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH.cpu("2"))
    cluster.schedule(pod("top").cpu("4").priority(200))
    assert cluster.claims() == {"top": "n1"}

    cluster.done()

    assert cluster.phase("high") is QueuePhase.ACTIVE
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]


def test_the_preemptor_of_higher_priority_gets_the_capacity_in_any_order():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.schedule(pod("top").cpu("4").priority(200))

    cluster.finish_terminating()
    cluster.wait(5)
    cluster.drain()

    assert cluster.pod("top").spec.node_name == "n1"
    assert cluster.pod("high").spec.node_name == ""


# Things that change meanwhile


def test_a_preemptor_that_is_gone_claims_nothing_and_evicts_nobody_more():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)

    cluster.delete("high")
    cluster.done()

    assert cluster.claims() == {}
    assert cluster.evicted() == []


def test_answers_for_a_preemptor_that_is_gone_are_taken_note_of():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.delete("high")

    cluster.done()
    cluster.fail()

    assert cluster.machine.sizes().preempting == 0
    assert cluster.claims() == {}


def test_a_preemptor_that_is_being_deleted_claims_nothing():
    cluster = two_victims()
    cluster.schedule(HIGH)

    cluster.change("high", lambda own: own.terminating())

    assert cluster.claims() == {}
    assert cluster.phase("high") is None


def test_a_preemptor_that_somebody_else_binds_keeps_no_plan():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)

    cluster.change("high", lambda own: own.on("n9"))
    cluster.done()

    assert cluster.evicted() == []
    assert cluster.claims() == {}


def test_a_node_that_goes_before_the_nomination_is_written_makes_no_victim():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)

    cluster.delete_node("n1")
    cluster.done()

    assert cluster.evicted() == []
    assert cluster.claims() == {}
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]
    assert cluster.phase("high") is QueuePhase.ACTIVE


def test_a_node_that_goes_while_its_victims_leave_lets_the_preemptor_try_again():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)

    cluster.delete_node("n1")
    cluster.done()
    assert cluster.phase("high") is QueuePhase.PREEMPTING

    cluster.done()
    assert cluster.phase("high") is QueuePhase.ACTIVE
    assert cluster.claims() == {}


def test_a_node_that_goes_after_its_victims_were_asked_frees_the_preemptor():
    cluster = two_victims()
    cluster.schedule(HIGH)

    cluster.delete_node("n1")

    assert cluster.claims() == {}
    assert cluster.phase("high") is QueuePhase.BACKOFF
    assert cluster.pod("high").status.nominated_node_name == ""


def test_a_preemptor_does_not_wait_when_another_node_becomes_free():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.add(node("n2").cpu("4"))
    cluster.wait(3)

    assert [attempt.decision for attempt in cluster.drain()] == [Placed("n2")]
    assert cluster.asked(Bind) == [Bind(cluster.ref("high"), "n2", OURS)]
