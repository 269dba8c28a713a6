"""What is observed: pods, nodes and nominations; repeats, late states, re-created pods."""

import pytest

from scheduler.model.decisions import Placed, Unschedulable
from scheduler.model.effects import ClearNomination, Evict, Nominate, SetCondition
from scheduler.model.events import NamespaceGone, NodeGone, PodGone, PodObserved
from tests.support.builders import OURS, PodBuilder, node, pod
from tests.support.cluster import Cluster


def one_node(*objects) -> Cluster:
    return Cluster(node("n1").cpu("4"), *objects)


def fits(cluster: Cluster, cpu: str) -> bool:
    probe = pod(f"probe-{len(cluster.attempts)}").cpu(cpu)
    return cluster.schedule(probe) == Placed("n1")


def restored(scheduler: str) -> PodBuilder:
    """Return a pod without its node. etcd may have been restored with higher versions."""
    return pod("a").scheduler(scheduler).cpu("4").version(2000)


def recreated(cluster: Cluster) -> None:
    cluster.delete_node("n1")
    cluster.add(node("n1").cpu("4"))


def ends_of_unknown(cluster: Cluster) -> None:
    cluster.observe(PodGone("default/p", "never-seen"))
    cluster.observe(NodeGone("never-seen"))
    cluster.observe(NamespaceGone("never-seen"))


A = pod("a").on("n1").cpu("3")
#: What is there, what happens, how much cpu is free on the node then, and how much is not.
FREE = {
    "a pod whose binding never was takes nothing": (
        [restored("other").on("n1").version(1000)],
        lambda cluster: cluster.add(restored("other")), "4", "5",
    ),
    "a finished pod takes nothing": ([A.finished()], None, "4", "5"),
    "a pod that fails takes nothing": (
        [A], lambda cluster: cluster.add(A.finished("Failed")), "4", "5",
    ),
    "a terminating pod takes what it has": ([A.terminating()], None, "1", "2"),
    "pods of a node that is created again count": ([A], recreated, "1", "2"),
    "a pod that another scheduler binds takes what it has": (
        [pod("p").cpu("3")], lambda cluster: cluster.change("p", lambda own: own.on("n1")),
        "1", "2",
    ),
    "the ends of unknown objects change nothing": ([], ends_of_unknown, "4", "5"),
}  # fmt: skip


@pytest.mark.parametrize(("objects", "happens", "free", "more"), FREE.values(), ids=FREE)
def test_what_is_free(objects, happens, free, more):
    cluster = one_node(*objects)
    if happens is not None:
        happens(cluster)

    assert not fits(cluster, more)
    assert fits(cluster, free)


P = pod("p")
#: What is there, what happens to it, and how often the pod is decided for.
DECIDED = {
    "a pod whose binding never was": (
        [restored(OURS).on("n1").version(1000)], lambda cluster: cluster.add(restored(OURS)), 1,
    ),
    "a pod that is seen twice": ([P], lambda cluster: cluster.add(P.version(1)), 1),
    "one that is being deleted": ([P.terminating()], None, 0),
    "one that is deleted": ([P], lambda cluster: cluster.delete("p"), 0),
    "one that terminates while it waits": (
        [P], lambda cluster: cluster.change("p", lambda own: own.terminating()), 0,
    ),
    "one that another scheduler binds": (
        [P], lambda cluster: cluster.change("p", lambda own: own.on("n1")), 0,
    ),
    "one that finishes without a node": (
        [P], lambda cluster: cluster.change("p", lambda own: own.finished("Failed")), 0,
    ),
    "its last observed state counts": (
        [P.cpu("9")], lambda cluster: cluster.change("p", lambda own: own.cpu("1")), 1,
    ),
    "an earlier pod of its name ends": (
        [P.uid("new")], lambda cluster: cluster.observe(PodGone("default/p", "old")), 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("objects", "happens", "times"), DECIDED.values(), ids=DECIDED)
def test_how_often_a_pod_is_decided_for(objects, happens, times):
    cluster = one_node(*objects)
    if happens is not None:
        happens(cluster)

    assert [each.decision for each in cluster.drain()] == [Placed("n1")] * times


def test_a_pod_that_was_created_again_under_its_name_is_another_pod():
    cluster = one_node(pod("p").uid("old").cpu("9"))
    cluster.drain()
    cluster.observe(PodGone("default/p", "old"))

    cluster.add(pod("p").uid("new").cpu("1"))

    (attempt,) = cluster.drain()
    assert (attempt.decision, attempt.pod.uid, attempt.number) == (Placed("n1"), "new", 1)


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


OTHER = pod("p").scheduler("other").nominated("n1")
#: What is there, what happens to it, and what is nominated then.
NOMINATED = {
    "a pod of another scheduler": ([OTHER], None, {"p": "n1"}),
    "one that moves": ([OTHER], lambda cluster: cluster.add(OTHER.nominated("n2")), {"p": "n2"}),
    "one that loses its nomination": (
        [OTHER], lambda cluster: cluster.add(pod("p").scheduler("other")), {},
    ),
    "one that terminates": ([OTHER], lambda cluster: cluster.add(OTHER.terminating()), {}),
    "one that is deleted": ([OTHER], lambda cluster: cluster.delete("p"), {}),
    "one of ours that is deleted": (
        [pod("p").nominated("n1")], lambda cluster: cluster.delete("p"), {},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("objects", "happens", "want"), NOMINATED.values(), ids=NOMINATED)
def test_what_is_nominated(objects, happens, want):
    cluster = one_node(*objects)
    if happens is not None:
        happens(cluster)

    assert cluster.nominations() == want


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
