"""Wasted victims are counted by reason, and no others."""

from scheduler.core.eviction.state import USE_WITHIN
from scheduler.model.effects import Evict
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.evictions import HIGH, asked, two_victims, victim, wasted


def test_victims_of_a_preemptor_that_gets_the_capacity_are_not_wasted():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.finish_terminating()
    cluster.wait(3)
    cluster.drain()

    assert cluster.pod("high").spec.node_name == "n1"
    assert wasted(cluster) == {}
    assert cluster.machine.preemptions.state.phases() == {}


def test_victims_of_a_deleted_preemptor_are_wasted():
    cluster = two_victims()
    cluster.schedule(HIGH)

    cluster.delete("high")
    cluster.finish_terminating()
    cluster.wait(USE_WITHIN)

    assert wasted(cluster) == {"preemptor_gone": 2}


def test_victims_on_a_deleted_node_are_wasted():
    cluster = two_victims()
    cluster.schedule(HIGH)

    cluster.delete_node("n1")

    assert wasted(cluster) == {"node_gone": 2}


def test_victims_on_a_node_that_is_deleted_during_the_evictions_are_wasted():
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

    cluster.wait(USE_WITHIN)
    assert wasted(cluster) == {"placed_elsewhere": 2}


def test_victims_whose_capacity_others_take_are_wasted():
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


def test_capacity_that_a_more_important_pod_takes_over_is_not_wasted():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.finish_terminating()

    cluster.schedule(pod("top").cpu("4").priority(200))
    cluster.wait(15)
    cluster.drain()

    assert cluster.pod("top").spec.node_name == "n1"
    assert wasted(cluster) == {}
    assert asked(cluster) == ["a", "b"]


def test_a_preemptor_whose_capacity_is_taken_waits_for_other_freed_capacity():
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
    assert cluster.nominations() == {"top": "n1", "high": "n2"}

    cluster.delete("b")
    cluster.wait(3)
    cluster.drain()

    assert cluster.pod("top").spec.node_name == "n2"
    assert cluster.nominations() == {"high": "n1"}
    assert asked(cluster) == ["a", "b"]
    cluster.delete("a")
    cluster.wait(15)
    cluster.drain()
    cluster.wait(USE_WITHIN)
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


def test_capacity_freed_by_a_partly_failed_plan_is_used_by_the_next_one():
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


def test_unused_capacity_freed_by_a_partly_failed_plan_is_wasted():
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

    cluster.wait(USE_WITHIN)
    assert wasted(cluster) == {"plan_failed": 1}


def test_a_victim_that_was_terminating_already_is_not_counted_as_wasted():
    cluster = two_victims()
    cluster.change("a", lambda own: own.terminating())
    cluster.schedule(HIGH)

    cluster.delete("high")
    cluster.finish_terminating()
    cluster.wait(USE_WITHIN)

    assert wasted(cluster) == {"preemptor_gone": 1}


def test_after_a_crash_what_an_earlier_leader_has_asked_for_counts():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.finish_terminating()
    cluster.restart()
    cluster.add(node("n1").cpu("3"), node("n2").cpu("4"))

    cluster.drain()
    cluster.wait(USE_WITHIN)

    assert cluster.pod("high").spec.node_name == "n2"
    assert wasted(cluster) == {"room_lost": 2}
