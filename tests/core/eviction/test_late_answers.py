"""Answers that come when the preemption has ended, that are lost, or that say no after all."""

import pytest

from scheduler.core.eviction.state import USE_WITHIN
from scheduler.model.effects import SaveLedger
from scheduler.model.events import EffectDone, FailureKind
from scheduler.model.policies import Budget, BudgetScope, PreemptionPolicy
from scheduler.state.preemption.ledger import UNCERTAIN_FOR
from scheduler.state.preemption.wasted_evictions import MAX_PREEMPTIONS
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster
from tests.support.refusing import STRICT, Refusing
from tests.support.stories import play

COUNTING = PreemptionPolicy("p", generation=1, budgets=(Budget(1000, 3600.0),))
LATER = f"wait {USE_WITHIN}"
FULL = "node n1 cpu=4; pod v@n1 cpu=4;"
#: An eviction gets no answer, so that it is requested again.
UNCERTAIN = f"""
    {FULL} count; hold Evict; schedule high; wait 1.5; fail UNAVAILABLE; evicted v v;"""
ENDS = {
    "nothing": "",
    "it is deleted": "delete high;",
    "bound": "change high on=n2;",
    "the node is gone": "delete-node n1;",
    "another plan": "schedule top;",
}
STORIES = {
    "an eviction confirmed after its preemptor was deleted counts": f"""
        {FULL} count; hold Evict; schedule high; delete high
        done; finish; {LATER}; {LATER}; counted 1; wasted preemptor_gone=1""",
    **{
        f"an eviction without an answer counts whatever ends its plan: {kind}, {name}": f"""
        {UNCERTAIN} {end} fail v {kind}; counted 1; wait {UNCERTAIN_FOR + USE_WITHIN}
        recorded 1; evicting 0"""
        for name, end in ENDS.items()
        for kind in ("ABANDONED", "REFUSED", "FORBIDDEN")
    },
    "an uncertain victim no longer counts when it is seen to run on": f"""
        {UNCERTAIN} delete high; fail ABANDONED; wait {UNCERTAIN_FOR - 1}
        change v label=seen,early; counted 1; wait 2; counted 1; change v label=seen,late
        counted 0""",
    **{
        f"an uncertain victim counts from the moment at which it is seen to end: {end}": f"""
        {UNCERTAIN} delete high; fail ABANDONED; wait 5; {end}; counted-now"""
        for end in ("delete v", "change v terminating")
    },
    "a preemptor that waits for a pod which stays is tried again": f"""
        {FULL} hold Evict; schedule x cpu=4 priority=100; delete x
        schedule y cpu=4 priority=100; preempts y n1 v
        fail v ABANDONED; hold; wait 3; drain; finish; wait 15; drain; placed y=n1""",
    "a ledger that could not be written is written later": f"""
        {FULL} schedule high; delete high; finish; hold SaveLedger; {LATER}
        fail UNAVAILABLE; hold; wait 0.5; written no; wait 0.5; written yes""",
    "a nomination of a deleted pod backs no node off": f"""
        {FULL} hold Nominate; schedule high owner=Job,j; fail GONE; delete high; hold
        schedule next cpu=4 priority=100 owner=Job,j; preempts next n1 v""",
}  # fmt: skip


def counts(cluster: Cluster) -> list[float]:
    """Return when each victim counts from."""
    return cluster.machine.ledger.victims("p", BudgetScope.CLUSTER, "", 0.0)


def counted(cluster: Cluster, want: str) -> None:
    assert len(counts(cluster)) == int(want)


def counted_now(cluster: Cluster) -> None:
    assert counts(cluster) == [cluster.now]


def recorded(cluster: Cluster, victims: str) -> None:
    waste, _ = cluster.machine.ledger.wasted_evictions.written()
    assert [each.victims for each in waste] == [int(victims)]


def evicting(cluster: Cluster, count: str) -> None:
    assert cluster.machine.cluster.evicting == int(count)


def written(cluster: Cluster, want: str) -> None:
    assert ('"wasted":[[' in cluster.ledger, bool(cluster.ledger)) == ((want == "yes",) * 2)


MORE = {
    "count": lambda cluster: cluster.add(COUNTING),
    "counted": counted,
    "counted-now": counted_now,
    "recorded": recorded,
    "evicting": evicting,
    "written": written,
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_late_answers(story):
    play(story, **MORE)


def low(name: str, cpu: str = "4", priority: int = 0) -> PodBuilder:
    return pod(name).on("n1").cpu(cpu).priority(priority)


def test_an_eviction_whose_answer_is_lost_counts():
    cluster = play(f"{FULL} count; hold Evict; schedule high", Refusing(), **MORE)

    for _ in range(200):  # until its time is over
        cluster.wait(1)
        for each in [*cluster.held]:
            cluster.fail(each, FailureKind.UNAVAILABLE)

    play("counted 1; recorded 1", cluster, **MORE)


def test_pods_that_live_on_after_uncertain_evictions_are_forgotten_with_their_window():
    cluster = play("node n1 cpu=4; count; hold Evict", **MORE)
    for number in range(20):
        play(
            f"""pod v{number}@n1 cpu=4; schedule h{number} cpu=4 priority=100; fail UNAVAILABLE
            delete h{number}; delete-node n1; node n1 cpu=4; change v{number} cpu=0""",
            cluster,
        )
    assert len(counts(cluster)) == 20

    cluster.wait(UNCERTAIN_FOR + 3601.0)
    cluster.machine.ledger.prune(cluster.now)

    assert counts(cluster) == []
    cluster.machine.check()


def test_writes_of_the_ledger_that_fail_become_rare():
    cluster = Refusing()
    cluster.refuses = lambda each: FailureKind.FORBIDDEN if isinstance(each, SaveLedger) else None
    play(f"{FULL} schedule high; delete high; finish", cluster)

    for _ in range(3600):
        cluster.wait(1)

    assert 5 < len(cluster.asked(SaveLedger)) < 70


def test_victims_of_plans_that_are_stopped_again_and_again_are_counted_each_time():
    cluster = Refusing(node("n1").cpu("4"), low("g0", "2"), low("w", "2", 1), STRICT)
    play("hold Evict; pod high", cluster)
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
