"""Answers that come when the preemption has ended, that are lost, or that say no after all."""

from scheduler.core.eviction.freed_resources import USE_WITHIN
from scheduler.model.decisions import Preempting
from scheduler.model.effects import Evict, Nominate, SaveLedger
from scheduler.model.events import EffectDone, FailureKind
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    PreemptionPolicy,
)
from scheduler.state.preemption.wasted_evictions import MAX_PREEMPTIONS
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster
from tests.support.refusing import STRICT, Refusing

HIGH = pod("high").cpu("4").priority(100)
COUNTING = PreemptionPolicy("p", generation=1, budgets=(Budget(1000, 3600.0),))


def low(name: str, cpu: str = "4", priority: int = 0) -> PodBuilder:
    return pod(name).on("n1").cpu(cpu).priority(priority)


def counted(cluster: Cluster) -> int:
    return len(cluster.machine.ledger.victims("p", BudgetScope.CLUSTER, "", 0.0))


def test_an_eviction_confirmed_after_its_preemptor_was_deleted_counts():
    cluster = Cluster(node("n1").cpu("4"), low("v"), COUNTING)
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.delete("high")

    cluster.done()
    cluster.finish_terminating()
    cluster.wait(2 * USE_WITHIN)

    assert counted(cluster) == 1
    assert cluster.machine.tracking.wasted_evictions == {"preemptor_gone": 1}


def test_an_eviction_whose_answer_is_lost_counts():
    cluster = Refusing(node("n1").cpu("4"), low("v"), COUNTING)
    cluster.hold(Evict)
    cluster.schedule(HIGH)

    for _ in range(200):  # until its time is over
        cluster.wait(1)
        for each in [*cluster.held]:
            cluster.fail(each, FailureKind.UNAVAILABLE)

    assert counted(cluster) == 1
    (waste,) = cluster.machine.ledger.wasted_evictions.written()[0]
    assert waste.victims == 1


def test_a_preemptor_that_waits_for_a_pod_which_stays_is_tried_again():
    cluster = Cluster(node("n1").cpu("4"), low("v"))
    cluster.hold(Evict)
    cluster.schedule(pod("x").cpu("4").priority(100))
    (eviction,) = cluster.held
    cluster.delete("x")
    assert isinstance(cluster.schedule(pod("y").cpu("4").priority(100)), Preempting)

    cluster.fail(eviction, FailureKind.ABANDONED)
    cluster.hold()
    cluster.wait(3)
    cluster.drain()
    cluster.finish_terminating()
    cluster.wait(15)
    cluster.drain()

    assert cluster.pod("y").spec.node_name == "n1"


def test_a_ledger_that_could_not_be_written_is_written_later():
    cluster = Cluster(node("n1").cpu("4"), low("v"))
    cluster.schedule(HIGH)
    cluster.delete("high")
    cluster.finish_terminating()
    cluster.hold(SaveLedger)
    cluster.wait(USE_WITHIN)

    cluster.fail(kind=FailureKind.UNAVAILABLE)
    cluster.hold()
    cluster.wait(0.5)
    assert cluster.ledger == ""
    cluster.wait(0.5)

    assert '"wasted":[[' in cluster.ledger


def test_writes_of_the_ledger_that_fail_become_rare():
    cluster = Refusing(node("n1").cpu("4"), low("v"))
    cluster.refuses = lambda each: FailureKind.FORBIDDEN if isinstance(each, SaveLedger) else None
    cluster.schedule(HIGH)
    cluster.delete("high")
    cluster.finish_terminating()

    for _ in range(3600):
        cluster.wait(1)

    assert 5 < len(cluster.asked(SaveLedger)) < 70


def test_a_nomination_of_a_deleted_pod_backs_no_node_off():
    cluster = Cluster(node("n1").cpu("4"), low("v"))
    cluster.hold(Nominate)
    cluster.schedule(HIGH.owner("Job", "j"))

    cluster.fail(kind=FailureKind.GONE)
    cluster.delete("high")
    cluster.hold()

    assert isinstance(
        cluster.schedule(pod("next").cpu("4").priority(100).owner("Job", "j")), Preempting
    )


def test_victims_of_plans_that_are_stopped_again_and_again_are_counted_each_time():
    cluster = Refusing(node("n1").cpu("4"), low("g0", "2"), low("w", "2", 1), STRICT)
    cluster.hold(Evict)
    cluster.add(HIGH)
    evicted = 0

    for number in range(1, 3600):
        cluster.drain()
        for effect in [*cluster.held]:
            # The first victim has terminated; before the second is evicted, its capacity is taken.
            evicted += 1
            cluster.held.remove(effect)
            cluster.delete(effect.victim.name)
            cluster.add(low(f"x{number}", "2", 1000))
            cluster.observe(EffectDone(effect))
            cluster.delete(f"x{number}")
            cluster.add(low(f"g{number}", "2"))
        cluster.wait(1)

    assert evicted == MAX_PREEMPTIONS
