"""Pods that are tried again: when, and in which order; scenarios/waking says what wakes whom."""

from numpy.random import default_rng

from scheduler.model.decisions import Placed, Preempting
from scheduler.model.effects import SetCondition
from scheduler.queue.phases import QueuePhase
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster


def waiting(*objects: object, pods: tuple[PodBuilder, ...]) -> Cluster:
    """Give a cluster in which some pods were found unschedulable."""
    cluster = Cluster(*objects)
    for each in pods:
        cluster.schedule(each)
        assert cluster.phase(each.object.metadata.name) is QueuePhase.UNSCHEDULABLE
    return cluster


def test_a_heartbeat_wakes_no_pod():
    cluster = waiting(node("n1").cpu("1"), pods=(pod("p").cpu("2"),))

    assert cluster.woken_by(node("n1").cpu("1").condition("Ready", "True")) == []
    assert cluster.woken_by(node("n1").cpu("1").annotation("a", "b")) == []


def test_an_observation_of_a_known_version_wakes_no_pod():
    cluster = Cluster(node("n1").cpu("2"), pod("p").cpu("4").version(5))
    cluster.hold(SetCondition)
    cluster.drain()

    assert cluster.woken_by(pod("p").cpu("2").version(5)) == []


def test_a_pod_that_found_no_node_in_the_cluster_is_tried_again_without_an_event():
    cluster = Cluster()
    cluster.schedule(pod("p"))

    cluster.add(node("n1"))
    cluster.wait(2)

    assert [attempt.decision for attempt in cluster.drain()] == [Placed("n1")]


def test_a_pod_that_nothing_wakes_is_tried_again_after_a_while():
    cluster = waiting(node("n1").cpu("1"), pods=(pod("p").cpu("2"),))

    cluster.wait(301)
    cluster.wait(30)

    assert [attempt.number for attempt in cluster.drain()] == [2]


def test_higher_pods_that_fit_nowhere_do_not_block_lower_ones():
    cluster = Cluster(node("n1").cpu("1"))
    cluster.add(*(pod(f"large-{number}").cpu("2").priority(100) for number in range(50)))
    cluster.add(pod("small").cpu("1").priority(1))

    assert cluster.drain()[-1].decision == Placed("n1")


def test_freed_capacity_goes_to_the_most_important_pod_that_waits_for_it():
    cluster = waiting(
        node("n1").cpu("1"),
        pod("q").on("n1").cpu("1").priority(200),
        pods=(pod("low").cpu("1").priority(1), pod("high").cpu("1").priority(100)),
    )

    cluster.delete("q")
    cluster.wait(3)
    cluster.drain()

    assert cluster.pod("high").spec.node_name == "n1"
    assert cluster.phase("low") is QueuePhase.UNSCHEDULABLE


def test_a_pod_blocked_by_a_nomination_is_placed_when_a_higher_pod_cleared_it():
    cluster = Cluster(node("n1").memory("32"), pod("first").on("n1").memory("20").priority(100))
    assert isinstance(cluster.schedule(pod("mid").memory("25").priority(200)), Preempting)
    cluster.finish_terminating()
    low = pod("low").memory("20").priority(100)
    cluster.schedule(low)
    assert cluster.phase("low") is QueuePhase.UNSCHEDULABLE

    assert cluster.schedule(pod("high").memory("10").priority(300)) == Placed("n1")
    for _ in range(4):
        cluster.wait(60)
        cluster.drain()

    assert cluster.phase("mid") is QueuePhase.UNSCHEDULABLE
    assert cluster.nominations() == {}
    assert cluster.pod("low").spec.node_name == "n1"


# Pods of one class


def test_an_event_causes_an_attempt_for_each_pod_that_it_helps_and_one_more():
    cluster = waiting(
        node("n1").cpu("4"),
        pod("q").on("n1").cpu("3"),
        pods=tuple(pod(f"p{number}").cpu("2") for number in range(8)),
    )

    cluster.wait(60.0)
    cluster.delete("q")
    attempts = cluster.drain()

    placed = [each.pod.name for each in attempts if isinstance(each.decision, Placed)]
    assert (placed, len(attempts)) == (["p0", "p1"], 3)


def test_pods_of_a_class_are_tried_one_by_one_where_one_is_nominated():
    cluster = waiting(
        node("n1").cpu("4"),
        pod("q").on("n1").cpu("4"),
        pods=tuple(pod(f"p{number}").cpu("2") for number in range(3)),
    )
    cluster.change("p2", lambda each: each.nominated("n1"))

    cluster.wait(60.0)
    cluster.update(node("n1").cpu("5"))

    assert {each.pod.name for each in cluster.drain()} == {"p0", "p1", "p2"}


def test_pods_of_a_class_are_tried_one_by_one_where_a_condition_is_not_written_yet():
    cluster = Cluster(node("n1").cpu("1"), pod("q").on("n1"))
    cluster.hold(SetCondition)
    cluster.add(*(pod(f"p{number}").cpu("2") for number in range(3)))
    cluster.drain()
    cluster.done()
    cluster.fail()

    cluster.wait(60.0)
    cluster.update(node("n1").cpu("1500m"), node("n2").cpu("2").cordoned())

    assert {each.pod.name for each in cluster.drain()} == {"p0", "p1", "p2"}


def test_no_pod_that_fits_waits_when_the_active_queue_is_empty():
    cluster, rng = Cluster(*(node(f"n{number}").cpu("4") for number in range(3))), default_rng(3)
    sizes = rng.integers(1, 4, 60).tolist()
    for number, size in enumerate(sizes):
        cluster.add(pod(f"p{number}").cpu(str(size)).port(8000 + number % 3))
    cluster.drain()
    for _ in range(50):
        running = [each.key for each in cluster.pods.values() if each.spec.node_name]
        cluster.delete(str(rng.choice(running)))
        cluster.wait(float(rng.choice([0.0, 0.5, 20.0])))
        cluster.drain()

        for queued in cluster.machine.queue:
            assert cluster.machine.explain(queued, cluster.now)[0].node is None
