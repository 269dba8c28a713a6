"""Which events wake which pods, with the rules of the default profile."""

from numpy.random import default_rng

from scheduler.model.decisions import Placed, Preempting
from scheduler.model.effects import SetCondition
from scheduler.queue.phases import QueuePhase
from tests.support.builders import NodeBuilder, PodBuilder, node, pod, requirement, term
from tests.support.cluster import Cluster

NOT_READY = "node.kubernetes.io/not-ready"
CORDON = "node.kubernetes.io/unschedulable"


def waiting(*objects: object, pods: tuple[PodBuilder, ...]) -> Cluster:
    """Give a cluster in which some pods were found unschedulable."""
    cluster = Cluster(*objects)
    for each in pods:
        cluster.schedule(each)
        assert cluster.phase(each.object.metadata.name) is QueuePhase.UNSCHEDULABLE
    return cluster


def in_group(name: str, group: str) -> PodBuilder:
    return pod(name).needs(term(requirement("group", "In", group)))


# NodeResourcesFit


def test_a_pod_that_a_taint_keeps_off_is_not_woken_by_capacity():
    fake = node("n1").cpu("2").taint(NOT_READY)
    cluster = waiting(
        fake,
        pods=(pod("kept-off").cpu("4"), pod("too-large").cpu("4").tolerates(operator="Exists")),
    )

    assert cluster.woken_by(fake.cpu("4")) == ["too-large"]


def test_a_node_that_grows_enough_wakes_the_pods_that_fit_it_empty():
    cluster = waiting(node("n1").cpu("2"), pods=(pod("four").cpu("4"), pod("five").cpu("5")))

    assert cluster.woken_by(node("n1").cpu("4")) == ["four"]


def test_a_new_node_wakes_the_pods_that_fit_it_empty():
    cluster = waiting(node("n1").cpu("2"), pods=(pod("four").cpu("4"), pod("five").cpu("5")))

    assert cluster.woken_by(node("n2").cpu("4")) == ["four"]


def test_a_node_that_grows_in_another_resource_wakes_no_pod():
    cluster = waiting(node("n1").cpu("4"), pod("q").on("n1").cpu("4"), pods=(pod("p").cpu("4"),))

    assert cluster.woken_by(node("n1").cpu("4").memory("4000")) == []


def test_a_node_that_shrinks_wakes_no_pod():
    cluster = waiting(node("n1").cpu("4"), pod("q").on("n1").cpu("4"), pods=(pod("p").cpu("1"),))

    assert cluster.woken_by(node("n1").cpu("2")) == []


def test_a_node_that_allows_more_pods_wakes_a_pod_that_waits_for_capacity():
    cluster = waiting(node("n1").pods(1), pod("q").on("n1"), pods=(pod("p"),))

    assert cluster.woken_by(node("n1").pods(2)) == ["p"]


def test_a_node_that_allows_no_pods_wakes_no_pod():
    cluster = waiting(node("n1").pods(1), pod("q").on("n1"), pods=(pod("p"),))

    assert cluster.woken_by(node("n2").pods(0)) == []


def test_a_waiting_pod_that_requests_less_is_woken():
    cluster = waiting(node("n1").cpu("2"), pods=(pod("p").cpu("4"), pod("q").cpu("4")))

    assert cluster.woken_by(pod("p").cpu("2")) == ["p"]


def test_a_waiting_pod_that_requests_more_is_not_woken():
    cluster = waiting(node("n1").cpu("2"), pods=(pod("p").cpu("4"),))

    assert cluster.woken_by(pod("p").cpu("5")) == []


def test_a_running_pod_that_shrinks_wakes_a_pod_that_waits_for_that_resource():
    running = pod("q").on("n1").requests(cpu="2", memory="2")
    cluster = waiting(
        node("n1").cpu("2").memory("2"),
        running,
        pods=(pod("cpu").cpu("1"), pod("memory").memory("1")),
    )

    assert cluster.woken_by(running.cpu("1")) == ["cpu"]


def test_a_running_pod_that_grows_wakes_no_pod():
    running = pod("q").on("n1").cpu("1")
    cluster = waiting(node("n1").cpu("1"), running, pods=(pod("p").cpu("1"),))

    assert cluster.woken_by(running.cpu("2"), running.cpu("2").label("a")) == []


def test_a_deleted_pod_wakes_a_pod_that_waits_for_capacity():
    cluster = waiting(node("n1").cpu("1"), pod("q").on("n1").cpu("1"), pods=(pod("p").cpu("1"),))

    cluster.delete("q")

    assert cluster.phase("p") is QueuePhase.BACKOFF


def test_a_finished_pod_wakes_a_pod_that_waits_for_capacity():
    running = pod("q").on("n1").cpu("1")
    cluster = waiting(node("n1").cpu("1"), running, pods=(pod("p").cpu("1"),))

    assert cluster.woken_by(running.finished()) == ["p"]


def test_a_deleted_waiting_pod_wakes_no_pod():
    cluster = waiting(node("n1").cpu("1"), pods=(pod("p").cpu("2"), pod("q").cpu("2")))

    cluster.delete("q")

    assert cluster.phase("p") is QueuePhase.UNSCHEDULABLE


# NodeAffinity


def test_a_node_that_gets_a_label_wakes_a_pod_that_requires_it():
    cluster = waiting(node("n1").label("group", "a"), pods=(in_group("b", "b"), in_group("c", "c")))

    assert cluster.woken_by(node("n1").label("group", "b")) == ["b"]


def test_a_new_node_with_a_label_wakes_a_pod_that_requires_it():
    cluster = waiting(node("n1").label("group", "a"), pods=(in_group("b", "b"), in_group("c", "c")))

    assert cluster.woken_by(node("n2").label("group", "b")) == ["b"]


def test_a_pod_rejected_by_two_rules_is_woken_by_either():
    named = term(fields=(requirement("metadata.name", "In", "n1"),))
    wanted = pod("p").cpu("4").needs(named)
    cluster = waiting(node("n1").cpu("2"), node("n2").cpu("2").label("zone", "a"), pods=(wanted,))
    assert cluster.attempts[-1].plugins == ("NodeAffinity", "NodeResourcesFit")

    assert cluster.woken_by(node("n1").cpu("4")) == ["p"]


# Taints and cordons


def test_a_changed_taint_wakes_a_pod_that_tolerates_the_new_one():
    tainted = node("n1").taint(NOT_READY)
    cluster = waiting(
        tainted,
        pods=(
            pod("one").tolerates("one", operator="Exists"),
            pod("two").tolerates("two", operator="Exists"),
            pod("none"),
        ),
    )

    assert cluster.woken_by(node("n1").taint("one")) == ["one"]


def test_a_new_toleration_wakes_its_pod():
    cluster = waiting(node("n1").taint("a"), pods=(pod("p"), pod("q")))

    assert cluster.woken_by(pod("p").tolerates("b", operator="Exists")) == ["p"]


def test_a_new_schedulable_node_wakes_a_pod_that_found_only_cordoned_ones():
    cluster = waiting(node("n1").cordoned(), pods=(pod("p"),))

    assert cluster.woken_by(node("n2").cordoned()) == []
    assert cluster.woken_by(node("n3")) == ["p"]


def test_an_uncordoned_node_wakes_a_waiting_pod():
    cluster = waiting(node("n1").cordoned(), pods=(pod("p"),))

    assert cluster.woken_by(node("n1")) == ["p"]


def test_a_toleration_of_the_cordon_wakes_its_pod():
    cluster = waiting(node("n1").cordoned(), pods=(pod("p"),))

    assert cluster.woken_by(pod("p").tolerates("a", operator="Exists")) == []
    cordon = (
        pod("p").tolerates("a").tolerates("node.kubernetes.io/unschedulable", operator="Exists")
    )
    assert cluster.woken_by(cordon) == ["p"]


def test_a_change_of_taints_also_wakes_a_pod_that_waits_for_new_nodes():
    # A node that was tainted when it was added was of no use then; it may be now.
    cluster = waiting(node("n1").pods(0), pods=(pod("p"),))

    assert cluster.woken_by(node("n1").pods(0).taint("a")) == ["p"]


# NodePorts


def port_taken(*more: NodeBuilder | PodBuilder) -> Cluster:
    return waiting(
        node("n1"),
        pod("holder").on("n1").port(80),
        pod("bystander").on("n1").port(81),
        *more,
        pods=(pod("p").port(80),),
    )


def test_a_new_node_wakes_a_pod_that_waits_for_a_port():
    assert port_taken().woken_by(node("n2")) == ["p"]


def test_the_deleted_holder_of_a_port_wakes_a_pod_that_waits_for_it():
    cluster = port_taken()

    cluster.delete("bystander")
    assert cluster.phase("p") is QueuePhase.UNSCHEDULABLE

    cluster.delete("holder")
    assert cluster.phase("p") is QueuePhase.BACKOFF


def test_a_deleted_nominated_pod_wakes_a_pod_that_waits_for_its_port():
    nominee = pod("nominee").scheduler("other").port(80).priority(9).nominated("n1")
    cluster = waiting(node("n1"), nominee, pods=(pod("p").port(80),))

    cluster.delete("nominee")

    assert cluster.phase("p") is QueuePhase.BACKOFF


# No pod, and all pods


def test_a_heartbeat_wakes_no_pod():
    cluster = waiting(node("n1").cpu("1"), pods=(pod("p").cpu("2"),))

    assert cluster.woken_by(node("n1").cpu("1").condition("Ready", "True")) == []
    assert cluster.woken_by(node("n1").cpu("1").annotation("a", "b")) == []


def test_a_label_wakes_no_pod_that_waits_for_capacity():
    cluster = waiting(node("n1").cpu("1"), pods=(pod("p").cpu("2"),))

    assert cluster.woken_by(node("n1").cpu("1").label("a", "b"), pod("p").cpu("2").label("c")) == []


def test_an_observation_of_a_known_version_wakes_no_pod():
    cluster = Cluster(node("n1").cpu("2"), pod("p").cpu("4").version(5))
    cluster.hold(SetCondition)
    cluster.drain()

    assert cluster.woken_by(pod("p").cpu("2").version(5)) == []


def test_a_deleted_node_wakes_no_pod_that_waits_for_capacity():
    cluster = waiting(node("n1").cpu("1"), node("n2").cpu("1"), pods=(pod("p").cpu("2"),))

    cluster.delete_node("n2")

    assert cluster.phase("p") is QueuePhase.UNSCHEDULABLE


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
