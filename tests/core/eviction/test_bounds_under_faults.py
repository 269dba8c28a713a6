"""Wasted evictions stay bounded, and legitimate preemption goes on, under any fault."""

import pytest

from scheduler.core.eviction.state import USE_WITHIN
from scheduler.model.decisions import Preempting
from scheduler.model.effects import Evict, Nominate
from scheduler.model.events import (
    EffectDone,
    EffectFailed,
    Failure,
    FailureKind,
    PodGone,
    PodObserved,
)
from scheduler.model.plan_record import PlanRecord, encode, fingerprint
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    PodSelection,
    PreemptionPolicy,
)
from tests.core.eviction.test_faults import HIGH, full, low
from tests.support.builders import namespace, node, pod
from tests.support.cluster import Cluster
from tests.support.policies import labelled
from tests.support.refusing import Refusing

#: What one pod may waste in an hour: the largest preemption and `MAX_VICTIMS[WasteScope.POD]` more.
MAX_WASTED = 12
LOST = Failure(FailureKind.UNAVAILABLE, "no answer")


def of_job(name: str):
    return pod(name).cpu("4").priority(100).owner("Job", "j")


def counted(cluster: Cluster) -> int:
    """Return how many victims the budget of the policy `gold` counts."""
    return len(cluster.machine.ledger.victims("gold", BudgetScope.CLUSTER, "", 0.0))


# Every wasted victim counts


def evictions_while_the_node_comes_and_goes(cluster, seconds):
    """Evict for a pod while `n1` is replaced before each answer; return how many pods left."""
    cluster.hold(Evict)
    cluster.add(HIGH)
    evicted = 0
    for _ in range(seconds):
        cluster.drain()
        if cluster.held:
            cluster.delete_node("n1")
            cluster.add(node("n1").cpu("4"))
        for each in list(cluster.held):
            cluster.held.remove(each)
            evicted += 1
            cluster.delete(each.victim.name)
            cluster.add(low(f"replica{evicted}", cpu="2"))
            cluster.observe(EffectDone(each))
        cluster.wait(1)
    return evicted


def test_evictions_from_a_node_that_is_deleted_and_created_repeatedly_count():
    cluster = Refusing(node("n1").cpu("4"), low("v", cpu="2"), low("w", cpu="2"))

    evicted = evictions_while_the_node_comes_and_goes(cluster, 600)

    assert 0 < evicted <= MAX_WASTED


def test_evictions_whose_answers_are_lost_count():
    cluster = Refusing(node("n1").cpu("4"), low("v"))
    cluster.hold(Evict)
    cluster.add(HIGH)
    evicted, late = 0, []
    for second in range(3600):
        cluster.drain()
        for each in list(cluster.held):
            cluster.held.remove(each)
            if each.victim.uid in cluster.pods:
                evicted += 1
                cluster.delete(each.victim.name)
                cluster.add(low(f"replica{evicted}"))
            late.append((second + 30, each))
        while late and late[0][0] <= second:
            cluster.observe(EffectFailed(late.pop(0)[1], LOST))
        cluster.wait(1)

    assert 0 < evicted <= MAX_WASTED


def test_an_eviction_that_a_second_request_finds_done_counts():
    """The answer to the first is lost, and the pod is deleted when the writer tries again."""
    gold = PreemptionPolicy("gold", generation=1, budgets=(Budget(3, 3600.0),))
    cluster = Refusing(node("n1").cpu("4"), low("v"), gold)
    cluster.hold(Evict)
    cluster.add(HIGH)
    evicted = 0
    for _ in range(120):
        cluster.drain()
        for each in list(cluster.held):
            cluster.held.remove(each)
            evicted += 1
            cluster.delete(each.victim.name)
            cluster.add(low(f"replica{evicted}"))
            cluster.observe(EffectDone(each, changed=False))
        cluster.wait(1)

    assert 0 < evicted <= 3


def test_leaders_whose_clocks_differ_by_an_hour_share_one_bound():
    nodes = [f"n{each}" for each in range(30)]
    cluster = Refusing(
        *(node(each).cpu("4") for each in nodes), *(low(f"low-{each}", each) for each in nodes)
    )
    cluster.add(HIGH)
    evicted, ahead = 0, 0
    for term in range(12):
        # Another failed preemption, so that each leader writes once.
        cluster.machine.ledger.record_waste(f"other-{term}", "Job/other/j", "away", 1, cluster.now)
        cluster.ledger = cluster.machine.ledger.text(cluster.now)
        for _ in range(120):
            cluster.drain()
            for victim in [each for each in cluster.pods.values() if each.terminating]:
                evicted += 1
                cluster.delete(victim.metadata.name)
                cluster.add(low(f"replica{evicted}", victim.spec.node_name))
            cluster.wait(1)
        cluster.now += -3600 if ahead else 3600
        ahead = not ahead
        cluster.restart()

    assert 0 < evicted <= 6


# What did not happen does not count


@pytest.mark.parametrize("count", [1, 70])
def test_evictions_that_were_never_sent_are_not_wasted(count):
    gold = PreemptionPolicy("gold", generation=1, budgets=(Budget(1000, 3600.0),))
    cluster = full(count)
    cluster.add(gold)
    cluster.hold(Evict)
    cluster.add(*(of_job(f"high-{each}") for each in range(count)))
    cluster.drain()
    for each in range(count):
        cluster.delete(f"high-{each}")
    assert counted(cluster) == count
    for each in list(cluster.held):
        cluster.fail(each, FailureKind.ABANDONED)
    cluster.wait(USE_WITHIN + 1)
    cluster.hold()

    assert counted(cluster) == 0
    assert cluster.machine.preemptions.state.waste.wasted_evictions == {}
    assert len(cluster.machine.ledger.wasted_evictions) == 0
    assert isinstance(cluster.schedule(of_job("next")), Preempting)


# The order of steps


def test_the_answer_about_an_earlier_plan_starts_no_eviction():
    cluster = Cluster(node("n1").cpu("4"), low("v"))
    cluster.hold(Nominate, Evict)
    cluster.schedule(HIGH)
    high = cluster.pod("high")
    cluster.observe(PodGone(high.key, high.uid))
    cluster.observe(PodObserved(high))
    cluster.drain()
    first, second = (each for each in cluster.held if isinstance(each, Nominate))

    cluster.done(first)
    assert cluster.evicted() == []
    cluster.done(second)

    assert cluster.evicted() == ["v"]


@pytest.mark.parametrize("begun", [-1e300, 0.0])
def test_a_record_with_a_forged_old_time_does_not_escape_a_budget(begun):
    gold = PreemptionPolicy("gold", generation=1, budgets=(Budget(1, 3600.0),))
    cluster = Cluster(
        node("n1").cpu("4"), node("n2").cpu("4"), low("a", "n1"), low("b", "n2"), gold
    )
    high = HIGH.build()
    marks = (fingerprint(high.uid, cluster.ref("a").uid),)
    cluster.add(HIGH.nominated("n1").planned(encode(PlanRecord(2, "n1", begun, marks))))
    cluster.drain()
    assert cluster.evicted() == ["a"]

    cluster.schedule(pod("other").cpu("4").priority(100))

    assert cluster.evicted() == ["a"]


def test_a_policy_created_after_the_decision_is_applied_before_the_first_eviction():
    cluster = Cluster(node("n1").cpu("4"), low("v"))
    cluster.hold(Nominate)
    cluster.schedule(HIGH)
    cluster.add(PreemptionPolicy("none", generation=1, budgets=(Budget(0, 3600.0),)))
    cluster.hold()
    cluster.done(cluster.held[0])

    assert cluster.evicted() == []


def preempt_while_objects_change(cluster, *changes):
    """Change objects between the decision and the nomination; return the nominations sent."""
    cluster.hold(Nominate)
    cluster.schedule(HIGH)
    cluster.add(*changes)
    cluster.hold()
    cluster.done(cluster.held[0])
    return [each for each in cluster.asked(Nominate) if isinstance(each, Nominate)]


def test_namespaces_that_are_created_and_deleted_do_not_delay_other_preemptions():
    cluster = Cluster(node("n1").cpu("4"), low("v"), namespace("default"))

    nominations = preempt_while_objects_change(cluster, namespace("other", team="x"))

    assert cluster.evicted() == ["v"]
    assert len(nominations) == 1


def test_a_namespace_that_a_policy_protects_since_the_decision_keeps_its_pods():
    protected = PodSelection(namespaces=labelled(protected="yes"))
    none = PreemptionPolicy("none", generation=1, victims=protected, max_victims_per_preemption=0)
    cluster = Cluster(node("n1").cpu("4"), low("v"), namespace("default"), none)

    preempt_while_objects_change(cluster, namespace("default", protected="yes"))

    assert cluster.evicted() == []


@pytest.mark.parametrize(("value", "evicted"), [("yes", []), ("no policy selects it", ["v"])])
@pytest.mark.parametrize("of", ["victims", "preemptors"])
def test_a_pod_that_gets_a_label_after_the_decision_is_checked_again(of, value, evicted):
    selection = {of: PodSelection(pods=labelled(protected="yes"))}
    none = PreemptionPolicy("none", generation=1, max_victims_per_preemption=0, **selection)
    cluster = Cluster(node("n1").cpu("4"), low("v"), none)
    changed = low("v") if of == "victims" else HIGH

    nominations = preempt_while_objects_change(cluster, changed.label("protected", value))

    assert len(nominations) == 1
    assert cluster.evicted() == evicted


def test_a_victim_counts_though_the_first_plan_that_counted_it_is_cancelled():
    gold = PreemptionPolicy("gold", generation=1, budgets=(Budget(2, 3600.0),))
    cluster = Cluster(node("n1").cpu("4"), low("v"), gold)
    cluster.hold(Nominate, Evict)
    cluster.schedule(pod("a").cpu("4").priority(10))
    cluster.schedule(pod("b").cpu("4").priority(100))
    first, second = cluster.held
    cluster.done(second)
    cluster.done(next(each for each in cluster.held if isinstance(each, Evict)))

    cluster.done(first)

    assert cluster.evicted() == ["v"]
    assert counted(cluster) == 1


def test_the_record_of_a_plan_does_not_grow_with_each_try():
    cluster = Refusing(node("n1").cpu("4"), low("v", cpu="2"), low("w", cpu="2"))

    evictions_while_the_node_comes_and_goes(cluster, 120)

    lengths = [len(each.plan) for each in cluster.asked(Nominate) if isinstance(each, Nominate)]
    assert max(lengths) <= 2 * lengths[0]
