"""Answers that come when the preemption has ended, that are lost, or that say no after all."""

import pytest

from scheduler.core.eviction.state import USE_WITHIN
from scheduler.model.decisions import Preempting
from scheduler.model.effects import Evict, Nominate, SaveLedger
from scheduler.model.events import EffectDone, FailureKind
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    PreemptionPolicy,
)
from scheduler.state.preemption.ledger import UNCERTAIN_FOR
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
    assert cluster.machine.preemptions.state.waste.wasted_evictions == {"preemptor_gone": 1}


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


def uncertain() -> Cluster:
    """Return a cluster in which an eviction got no answer, so that it is asked for again."""
    cluster = Cluster(node("n1").cpu("4"), low("v"), COUNTING)
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.wait(1.5)
    cluster.fail(kind=FailureKind.UNAVAILABLE)
    assert len(cluster.held) == 1
    return cluster


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda cluster: None, id="nothing"),
        pytest.param(lambda cluster: cluster.delete("high"), id="it is deleted"),
        pytest.param(lambda cluster: cluster.change("high", lambda own: own.on("n2")), id="bound"),
        pytest.param(lambda cluster: cluster.delete_node("n1"), id="the node is gone"),
        pytest.param(
            lambda cluster: cluster.schedule(pod("top").cpu("4").priority(200)), id="another plan"
        ),
    ],
)
@pytest.mark.parametrize(
    "kind", [FailureKind.ABANDONED, FailureKind.REFUSED, FailureKind.FORBIDDEN]
)
def test_an_eviction_without_an_answer_counts_whatever_ends_its_plan(kind, end):
    cluster = uncertain()

    end(cluster)
    cluster.fail(kind=kind)

    assert counted(cluster) == 1
    cluster.wait(UNCERTAIN_FOR + USE_WITHIN)
    wasted, _ = cluster.machine.ledger.wasted_evictions.written()
    assert [waste.victims for waste in wasted] == [1]
    assert cluster.machine.cluster.evicting == 0


def test_an_uncertain_victim_no_longer_counts_when_it_is_seen_to_run_on():
    cluster = uncertain()
    cluster.delete("high")
    cluster.fail(kind=FailureKind.ABANDONED)

    cluster.wait(UNCERTAIN_FOR - 1)
    cluster.change("v", lambda own: own.label("seen", "early"))
    assert counted(cluster) == 1
    cluster.wait(2)
    assert counted(cluster) == 1
    cluster.change("v", lambda own: own.label("seen", "late"))

    assert counted(cluster) == 0


@pytest.mark.parametrize("gone", [False, True])
def test_an_uncertain_victim_counts_from_the_moment_at_which_it_is_seen_to_end(gone):
    cluster = uncertain()
    cluster.delete("high")
    cluster.fail(kind=FailureKind.ABANDONED)
    cluster.wait(5)

    if gone:
        cluster.delete("v")
    else:
        cluster.change("v", lambda own: own.terminating())

    moments = cluster.machine.ledger.victims("p", BudgetScope.CLUSTER, "", 0.0)
    assert moments == [cluster.now]


def test_pods_that_live_on_after_uncertain_evictions_are_forgotten_with_their_window():
    cluster = Cluster(node("n1").cpu("4"), COUNTING)
    cluster.hold(Evict)
    for number in range(20):
        cluster.add(low(f"v{number}"))
        cluster.schedule(pod(f"h{number}").cpu("4").priority(100))
        cluster.fail(kind=FailureKind.UNAVAILABLE)
        cluster.delete(f"h{number}")
        cluster.delete_node("n1")
        cluster.add(node("n1").cpu("4"))
        cluster.change(f"v{number}", lambda own: own.cpu("0"))
    assert counted(cluster) == 20

    cluster.wait(UNCERTAIN_FOR + 3601.0)
    cluster.machine.ledger.prune(cluster.now)

    assert counted(cluster) == 0
    cluster.machine.check()


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
