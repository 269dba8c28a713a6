"""What is observed: pods, nodes and nominations; repeats, late states, re-created pods."""

import pytest

from scheduler.model.decisions import Placed, Unschedulable
from scheduler.model.effects import ClearNomination, Evict, Nominate, SetCondition
from scheduler.model.events import (
    NamespaceGone,
    NodeGone,
    PodGone,
    PodObserved,
)
from tests.support.builders import node, pod
from tests.support.cluster import Cluster


def one_node(*objects) -> Cluster:
    return Cluster(node("n1").cpu("4"), *objects)


def fits(cluster: Cluster, cpu: str) -> bool:
    probe = pod(f"probe-{len(cluster.attempts)}").cpu(cpu)
    return cluster.schedule(probe) == Placed("n1")


# A restored etcd


@pytest.mark.parametrize("scheduler", ["preemptive-scheduler", "other"])
def test_a_pod_whose_binding_never_was_takes_no_capacity_and_is_decided_for(scheduler: str):
    """Its version says nothing: etcd may have been restored with higher ones."""
    bound = pod("a").scheduler(scheduler).on("n1").cpu("4").version(1000)
    cluster = one_node(bound)

    cluster.add(pod("a").scheduler(scheduler).cpu("4").version(2000))

    if scheduler == "other":
        assert fits(cluster, "4")
    else:
        assert [each.decision for each in cluster.drain()] == [Placed("n1")]


# Pods of others


def test_a_pod_that_finished_takes_no_capacity():
    cluster = one_node(pod("a").on("n1").cpu("4").finished())
    assert fits(cluster, "1")

    cluster.add(pod("b").on("n1").cpu("3"))
    cluster.add(pod("b").on("n1").cpu("3").finished("Failed"))
    assert fits(cluster, "3")


def test_a_terminating_pod_still_takes_capacity():
    assert not fits(one_node(pod("a").on("n1").cpu("4").terminating()), "1")


def test_pods_of_a_node_that_was_deleted_and_created_again_still_count():
    cluster = one_node(pod("a").on("n1").cpu("3"))

    cluster.delete_node("n1")
    cluster.add(node("n1").cpu("4"))

    assert not fits(cluster, "2")
    assert fits(cluster, "1")


# Our pods


def test_a_pending_pod_of_this_scheduler_is_decided_once():
    cluster = one_node(pod("p"))
    cluster.add(pod("p").version(1))

    assert [attempt.decision for attempt in cluster.drain()] == [Placed("n1")]


def test_a_pending_pod_that_is_being_deleted_is_not_decided_for():
    cluster = one_node(pod("p").terminating())

    assert cluster.step() is None


def test_a_pod_that_is_deleted_while_it_waits_is_not_decided_for():
    cluster = one_node(pod("p"))
    cluster.delete("p")
    assert cluster.step() is None

    cluster.add(pod("q"))
    cluster.change("q", lambda own: own.terminating())
    assert cluster.step() is None


def test_a_pod_that_another_scheduler_binds_is_not_decided():
    cluster = one_node(pod("p").cpu("3"))

    cluster.change("p", lambda own: own.on("n1"))

    assert cluster.step() is None
    assert not fits(cluster, "2")


def test_a_pod_that_finishes_without_a_node_is_not_decided_for():
    cluster = one_node(pod("p"))

    cluster.change("p", lambda own: own.finished("Failed"))

    assert cluster.step() is None


def test_a_pod_is_decided_with_its_last_observed_state():
    cluster = one_node(pod("p").cpu("9"))

    cluster.change("p", lambda own: own.cpu("1"))

    assert cluster.step().decision == Placed("n1")


def test_a_pod_that_was_created_again_under_its_name_is_another_pod():
    cluster = one_node(pod("p").uid("old").cpu("9"))
    cluster.drain()
    cluster.observe(PodGone("default/p", "old"))

    cluster.add(pod("p").uid("new").cpu("1"))

    (attempt,) = cluster.drain()
    assert (attempt.decision, attempt.pod.uid, attempt.number) == (Placed("n1"), "new", 1)


def test_the_end_of_an_earlier_pod_of_the_name_does_not_end_the_present_one():
    cluster = one_node(pod("p").uid("new"))

    cluster.observe(PodGone("default/p", "old"))

    assert cluster.step().decision == Placed("n1")


def test_the_end_of_an_unknown_pod_changes_nothing():
    cluster = one_node()

    cluster.observe(PodGone("default/p", "never-seen"))
    cluster.observe(NodeGone("never-seen"))
    cluster.observe(NamespaceGone("never-seen"))

    assert fits(cluster, "4")


# Odd objects


def test_a_pod_with_an_invalid_request_is_refused_and_does_not_block_others():
    cluster = one_node()

    cluster.add(pod("odd").cpu("lots"))
    assert cluster.refused == "'lots' is not a quantity"

    cluster.add(pod("fine"))
    assert [attempt.pod.name for attempt in cluster.drain()] == ["fine"]


@pytest.mark.parametrize("where", [pod("p").scheduler("other").nominated("n1"), pod("p").on("n1")])
def test_an_invalid_pod_of_another_scheduler_is_refused(where):
    cluster = one_node(where.cpu("lots"))

    assert cluster.refused
    assert fits(cluster, "4")


def test_a_pod_that_becomes_invalid_keeps_its_last_valid_state():
    cluster = one_node(pod("p").cpu("3"))

    cluster.change("p", lambda own: own.cpu("lots"))

    assert cluster.refused
    assert cluster.step().decision == Placed("n1")
    assert not fits(cluster, "2")


def test_a_node_with_an_invalid_amount_is_refused():
    cluster = Cluster(node("n1").cpu("lots"))

    assert cluster.refused
    assert isinstance(cluster.schedule(pod("p")), Unschedulable)


# Nominations by status


def test_the_status_of_a_pod_of_another_scheduler_is_read_as_a_nomination():
    cluster = one_node(pod("p").scheduler("other").nominated("n1"))
    assert cluster.nominations() == {"p": "n1"}

    cluster.add(pod("p").scheduler("other").nominated("n2"))
    assert cluster.nominations() == {"p": "n2"}

    cluster.add(pod("p").scheduler("other"))
    assert cluster.nominations() == {}


def test_a_terminating_pod_of_another_scheduler_has_no_nomination():
    cluster = one_node(pod("p").scheduler("other").nominated("n1"))

    cluster.add(pod("p").scheduler("other").nominated("n1").terminating())

    assert cluster.nominations() == {}


def test_a_repeated_nomination_of_another_schedulers_pod_changes_nothing():
    nominee = pod("p").scheduler("other").nominated("n1")
    cluster = one_node(nominee)
    claim = cluster.machine.cluster.nominations.get("uid:default/p")

    cluster.add(nominee.meta(resource_version="2"))

    assert cluster.machine.cluster.nominations.get("uid:default/p") is claim


def test_a_nomination_of_another_scheduler_follows_a_resize_of_its_pod():
    cluster = one_node(pod("a").scheduler("other").cpu("4").priority(1).nominated("n1"))
    assert not fits(cluster, "1")

    cluster.add(pod("a").scheduler("other").cpu("3").priority(1).nominated("n1"))

    assert fits(cluster, "1")


def test_a_nomination_of_this_scheduler_follows_a_resize_of_its_pod():
    cluster = one_node(pod("p").cpu("4").priority(9).nominated("n1"))

    cluster.change("p", lambda own: own.cpu("2"))

    claim = cluster.machine.cluster.nominations.get("uid:default/p")
    assert claim is not None
    assert claim.pod.spec.containers[0].resources.requests == {"cpu": "2"}


def test_a_nomination_ends_with_its_pod():
    cluster = one_node(pod("a").nominated("n1"), pod("b").scheduler("other").nominated("n1"))

    cluster.delete("a")
    cluster.delete("b")

    assert cluster.nominations() == {}


def test_a_nomination_of_this_scheduler_is_cleared_when_its_node_is_deleted():
    cluster = one_node(
        pod("p").nominated("n1").cpu("1"), pod("f").scheduler("other").nominated("n1")
    )
    cluster.delete_node("n1")

    assert cluster.nominations() == {"f": "n1"}
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("p"))]
    assert cluster.pod("p").status.nominated_node_name == ""


def nominated_by_us() -> Cluster:
    """Give a preemptor that waits for its victim; the watch lags."""
    cluster = one_node(pod("low").on("n1").cpu("4").priority(0))
    cluster.add(pod("high").cpu("4").priority(9))
    cluster.lag()
    cluster.step()
    assert cluster.nominations() == {"high": "n1"}
    return cluster


def test_a_stale_state_without_the_nomination_does_not_clear_it():
    cluster = nominated_by_us()

    cluster.observe(PodObserved(pod("high").cpu("4").priority(9).label("a").version(7).build()))

    assert cluster.nominations() == {"high": "n1"}


def test_a_stale_state_with_an_earlier_nomination_does_not_move_it():
    cluster = Cluster(
        node("n1").cpu("4").taint("a"),
        node("n2").cpu("4"),
        pod("low").on("n2").cpu("4").priority(0),
    )
    cluster.add(pod("high").cpu("4").priority(9).nominated("n1"))
    cluster.lag()
    cluster.step()
    assert cluster.nominations() == {"high": "n2"}

    late = pod("high").cpu("4").priority(9).nominated("n1").label("a")
    cluster.observe(PodObserved(late.version(7).build()))

    assert cluster.nominations() == {"high": "n2"}


def test_a_nomination_that_another_client_clears_ends():
    cluster = nominated_by_us()
    cluster.catch_up()

    cluster.change("high", lambda own: own.nominated(""))

    assert cluster.nominations() == {}


# Budgets and namespaces reach the rules


def test_the_machine_knows_when_it_has_something_to_do():
    cluster = one_node()
    assert not cluster.machine.ready()
    assert cluster.machine.next_wakeup() is None

    cluster.add(pod("p").cpu("9"))
    assert cluster.machine.ready()

    cluster.drain()
    assert not cluster.machine.ready()
    assert cluster.machine.next_wakeup() == cluster.now + 30


def test_the_machine_knows_its_sizes():
    cluster = one_node(pod("low").on("n1").cpu("4").priority(0))
    cluster.hold(Evict)
    cluster.schedule(pod("high").cpu("4").priority(9))

    numbers = cluster.machine.sizes()

    assert (numbers.nodes, numbers.pods, numbers.assumed) == (1, 1, 0)
    assert (numbers.nominations, numbers.preempting) == (1, 1)
    assert numbers.queue == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    assert [type(effect) for effect in cluster.asked(Nominate, SetCondition)] == [Nominate]
