"""Pods that are tried again: when, and in which order; scenarios/waking says what wakes whom."""

import pytest
from numpy.random import default_rng

from scheduler.model.decisions import Placed
from scheduler.model.effects import SetCondition
from scheduler.queue.phases import QueuePhase
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster
from tests.support.stories import play


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


STORIES = {
    "a pod that found no node in the cluster is tried again without an event": """
        schedule p; node n1; wait 2; drain p=n1""",
    "a pod that nothing wakes is tried again after a while": """
        node n1 cpu=1; schedule p cpu=2; is unschedulable p; wait 301; wait 30; is active p
        drain; is unschedulable p""",
    "freed capacity goes to the most important pod that waits for it": """
        node n1 cpu=1; pod q@n1 cpu=1 priority=200
        schedule low cpu=1 priority=1; schedule high cpu=1; delete q; wait 3; drain
        placed high=n1; is unschedulable low""",
    "a pod blocked by a nomination is placed when a higher pod cleared it": """
        node n1 cpu=32; pod first@n1 cpu=20 priority=100
        schedule mid cpu=25 priority=200; preempts mid n1 first; finish
        schedule low cpu=20 priority=100; is unschedulable low
        schedule most cpu=10 priority=300; placed most=n1
        wait 60; drain; wait 60; drain; wait 60; drain; wait 60; drain
        is unschedulable mid; nominated; placed low=n1""",
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_a_pod_is_tried_again(story):
    play(story)


def test_higher_pods_that_fit_nowhere_do_not_block_lower_ones():
    cluster = Cluster(node("n1").cpu("1"))
    cluster.add(*(pod(f"large-{number}").cpu("2").priority(100) for number in range(50)))
    cluster.add(pod("small").cpu("1").priority(1))

    assert cluster.drain()[-1].decision == Placed("n1")


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
