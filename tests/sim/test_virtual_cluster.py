"""A cluster in memory: what the API server does with effects, and what its clock ends."""

from scheduler.core.machine import Machine
from scheduler.model.decisions import Placed, Preempting
from scheduler.model.effects import Evict, Nominate, SetCondition
from scheduler.model.events import NodeObserved
from scheduler.model.plan_record import CONDITION
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim.virtual_clock import VirtualClock
from scheduler.sim.virtual_cluster import VirtualCluster
from tests.support.builders import EPOCH, node, pod
from tests.support.cluster import profiles

LOW = pod("low").on("n1").cpu("1").build()
HIGH = pod("high").cpu("1").priority(9).build()


def full_cluster() -> VirtualCluster:
    """Return a cluster whose victims take 30 s to terminate, with one node that is full."""
    cluster = VirtualCluster(Machine(profiles(), PodBackoff()), EPOCH, ends_after=30.0)
    cluster.observe(NodeObserved(node("n1").cpu("1").build()))
    cluster.put(LOW)
    return cluster


def test_a_preemptor_is_placed_when_its_victim_has_terminated():
    cluster = full_cluster()
    cluster.put(HIGH)

    assert isinstance(cluster.step().decision, Preempting)
    assert cluster.pods[LOW.uid].terminating
    assert cluster.pods[HIGH.uid].condition(CONDITION) is not None
    cluster.advance(EPOCH + 29.0)
    assert LOW.uid in cluster.pods
    cluster.advance(EPOCH + 30.0)

    assert LOW.uid not in cluster.pods
    assert isinstance(cluster.step().decision, Placed)
    assert cluster.pods[HIGH.uid].spec.node_name == "n1"


def test_effects_on_pods_that_are_gone_change_nothing():
    cluster = full_cluster()

    assert not cluster.change_objects(Evict(HIGH.ref, "n1", LOW.ref, "ours", 1))
    assert not cluster.change_objects(Nominate(HIGH.ref, "n1", "why", 1))
    assert not cluster.change_objects(SetCondition(HIGH.ref, "Unschedulable", "why", 1))
    assert list(cluster.pods) == [LOW.uid]


def test_a_victim_that_is_removed_before_its_end_ends_once():
    cluster = full_cluster()
    cluster.put(HIGH)
    cluster.step()

    cluster.remove(LOW.uid)
    cluster.advance(EPOCH + 60.0)

    assert list(cluster.pods) == [HIGH.uid]


def test_calls_come_in_the_order_of_their_moments_and_see_them():
    clock, seen = VirtualClock(10.0), []

    def call(name: str) -> None:
        seen.append((name, clock.now))

    clock.call_at(12.0, lambda: call("second"))
    clock.call_at(11.0, lambda: (call("first"), clock.call_at(12.0, lambda: call("third"))))
    clock.call_at(99.0, lambda: call("never"))
    clock.advance(20.0)
    clock.advance(15.0)

    assert seen == [("first", 11.0), ("second", 12.0), ("third", 12.0)]
    assert clock.now == 20.0
