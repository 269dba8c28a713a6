"""What budgets and the loop breaker count is written down before the next victim is evicted."""

import pytest

from scheduler.core.eviction.state import USE_WITHIN
from scheduler.model.effects import Evict, Nominate, SaveLedger
from scheduler.model.events import FailureKind, LedgerLoaded
from scheduler.model.policies import Budget, BudgetScope, PreemptionLimit, PreemptionPolicy
from scheduler.state.preemption.ledger import UNCERTAIN_FOR, Ledger
from scheduler.state.preemption.preemption_backoff import STOP_AFTER
from scheduler.state.preemption.wasted_evictions import MAX_PREEMPTIONS
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster
from tests.support.evictions import HIGH
from tests.support.stories import play

GOLD = PreemptionPolicy(
    "gold",
    generation=3,
    budgets=(Budget(100, 3600.0, BudgetScope.CLUSTER),),
    max_preemptions_per_owner=PreemptionLimit(100, 3600.0),
)
POLICIES = {
    "gold": GOLD,
    "none": PreemptionPolicy("gold", generation=4),
    "one-victim": PreemptionPolicy("gold", max_victims_per_preemption=1),
}
WEB = "StatefulSet/default/web"
#: Two victims of one owner, without and with a policy that counts them.
PLAIN = """
    node n1 cpu=4; pod a@n1 cpu=2 priority=2 owner=StatefulSet,web
    pod b@n1 cpu=2 priority=1 owner=StatefulSet,web;"""
BOUNDED = f"{PLAIN} policy gold;"
#: Another scheduler puts the victims straight back; the node is backed off for ten seconds.
FAILED = """
    delete a; pod new-a@n1 cpu=2 owner=StatefulSet,web scheduler=other
    delete b; pod new-b@n1 cpu=2 owner=StatefulSet,web scheduler=other
    forget; wait 8; drain; wait 8; drain; wait 8; drain"""
STORIES = {
    # The order
    "what a policy counts is written down between nomination and eviction": f"""
        {BOUNDED} schedule high; effects Nominate SaveLedger Evict Evict; counted 2 1
        written-victims 2""",
    "plans that wait share the next write": f"""
        {BOUNDED} node n2 cpu=2; node n3 cpu=2; pod v2@n2 cpu=2 priority=50
        pod v3@n3 cpu=2 priority=50; hold SaveLedger; schedule high
        schedule p2 cpu=2 priority=60; schedule p3 cpu=2 priority=60; done; done; held
        effects Nominate SaveLedger Nominate Nominate Evict Evict SaveLedger Evict Evict""",
    "without a policy that counts nothing is written down": f"""
        {BOUNDED} policy none; schedule high; effects Nominate Evict Evict""",
    # When it cannot be written down
    **{
        f"no victim is evicted when the ledger cannot be written: {kind.name}": f"""
        {BOUNDED} hold SaveLedger; schedule high; fail {kind.name}
        evicted; cleared high; is backoff high; counted 0 0"""
        for kind in FailureKind
    },
    "a preemption that no policy counts goes on when the ledger cannot be written": f"""
        {PLAIN} failed-before; hold SaveLedger; schedule high; fail FORBIDDEN
        evicted a b""",
    # What counts
    "a victim whose eviction failed does not count": f"""
        {BOUNDED} hold Evict; schedule high; counted 2 1; done; fail; counted 1 1""",
    "a preemption without evictions does not count": f"""
        {BOUNDED} hold Nominate; schedule high; counted 2 1; fail; counted 0 0""",
    "a preemptor that is deleted before its evictions does not count": f"""
        {BOUNDED} hold SaveLedger; schedule high; delete high; counted 0 0""",
    "a victim that another plan names too still counts": f"""
        {BOUNDED} hold SaveLedger; schedule high cpu=2; schedule top; counted 2 1
        delete high; counted 2 0""",
    "a victim counts from the moment at which its eviction was requested": f"""
        {BOUNDED} hold Evict; schedule high; later 30; done; counted 2 1; counted-now 1""",
    # After a crash
    "a plan that goes on counts once": f"""
        {BOUNDED} hold Evict; schedule high; restart; policy gold; counted 2 1
        drain; evicted a b a b; counted 2 1""",
    "a plan that was not written down counts before it goes on": f"""
        {BOUNDED} hold SaveLedger; schedule high; restart; policy gold; counted 0 0; forget
        drain; effects SaveLedger Evict Evict; counted 2 1""",
    "a plan that policies refuse now is cancelled": f"""
        {BOUNDED} hold SaveLedger; schedule high; restart; policy one-victim; forget
        drain; evicted; nominee high=""",
    # Failed preemptions
    "a failed preemption is written down at once": f"""
        {PLAIN} schedule high; effects Nominate Evict Evict; {FAILED}
        effects SaveLedger SetCondition Nominate Evict Evict; remembered""",
    "a success removes the recorded failures": f"""
        {PLAIN} failed-before; schedule high; failures 1; finish; wait 3; drain
        placed high=n1; failures 0""",
    "no eviction overtakes what is written down": f"""
        {PLAIN} schedule high; hold SaveLedger; {FAILED}
        effects SaveLedger SetCondition Nominate
        done; effects SaveLedger SetCondition Nominate Evict Evict""",
}  # fmt: skip


def victim(name: str, priority: int = 0, on: str = "n1") -> PodBuilder:
    return pod(name).on(on).cpu("2").priority(priority).owner("StatefulSet", "web")


def bounded() -> Cluster:
    return play(BOUNDED, **MORE)


def counted(cluster: Cluster) -> tuple[int, int]:
    """Return how many victims and preemptions count."""
    ledger = cluster.machine.ledger
    since = cluster.now - 3600
    victims = ledger.victims("gold", BudgetScope.CLUSTER, "", since)
    return len(victims), len(ledger.preemptions("gold", "Pod/default/high", since))


def written(cluster: Cluster) -> Ledger:
    ledger = Ledger()
    ledger.merge(cluster.ledger)
    return ledger


def remembered(cluster: Cluster) -> None:
    (memory,) = written(cluster).backoff
    assert (memory.key, memory.times) == (("Pod/default/high", "n1", WEB), 1)


def failed_before(cluster: Cluster) -> None:
    ledger = cluster.machine.ledger
    ledger.record_failure("Pod/default/high", "n9", [WEB], cluster.now, lost=True)


def counts(cluster: Cluster, victims: str, preemptions: str) -> None:
    assert counted(cluster) == (int(victims), int(preemptions))


def counted_now(cluster: Cluster, victims: str) -> None:
    moments = cluster.machine.ledger.victims("gold", BudgetScope.CLUSTER, "", 0.0)
    assert moments.count(cluster.now) == int(victims)


def written_victims(cluster: Cluster, count: str) -> None:
    since = cluster.now - 3600
    assert len(written(cluster).victims("gold", BudgetScope.CLUSTER, "", since)) == int(count)


def failures(cluster: Cluster, count: str) -> None:
    assert len(cluster.machine.ledger.backoff) == int(count)


MORE = {
    "policy": lambda cluster, name: cluster.add(POLICIES[name]),
    "counted": counts,
    "counted-now": counted_now,
    "written-victims": written_victims,
    "failed-before": failed_before,
    "failures": failures,
    "remembered": remembered,
}


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_the_ledger_is_written(story):
    play(story, **MORE)


def each_on_its_node(*policies: PreemptionPolicy, count: int = 4) -> Cluster:
    """Return a cluster with victims that fill a node each."""
    nodes = [node(f"n{i}").cpu("2") for i in range(count)]
    return Cluster(*policies, *nodes, *(victim(f"v{i}", 1, f"n{i}") for i in range(count)))


def preemptor(number: int) -> PodBuilder:
    return pod(f"high{number}").cpu("2").priority(10).owner("Job", "j")


LIMITS = [
    pytest.param({"budgets": (Budget(1, 1.0), Budget(9, 3600.0))}, id="a budget of 1 s"),
    pytest.param({"budgets": (Budget(1, 60.0, BudgetScope.OWNER),)}, id="a budget of a minute"),
    pytest.param({"max_preemptions_per_owner": PreemptionLimit(1, 30.0)}, id="preemptions"),
]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("step", [Nominate, SaveLedger, Evict])
def test_what_a_plan_counts_is_not_too_old_while_it_is_carried_out(step, limit):
    policy = PreemptionPolicy("p", generation=1, **limit)
    window = min([*(each.window for each in policy.budgets), 30.0])
    cluster = each_on_its_node(policy)
    cluster.hold(step)

    for number in range(4):
        cluster.schedule(preemptor(number))
        cluster.wait(61)
        cluster.drain()
    cluster.hold()
    cluster.done()
    cluster.drain()

    assert len(cluster.asked(Evict)) == 1
    cluster.wait(window / 2)
    cluster.drain()
    assert len(cluster.asked(Evict)) == 1
    for _ in range(8):
        cluster.wait(window)
        cluster.drain()
    assert len(cluster.asked(Evict)) == 4


@pytest.mark.parametrize("kind", [None, FailureKind.UNAVAILABLE])
def test_after_a_crash_a_plan_that_is_carried_out_is_not_too_old(kind):
    policy = PreemptionPolicy("p", generation=1, budgets=(Budget(1, 30.0),))
    cluster = each_on_its_node(policy, count=2)
    cluster.hold(Evict)
    cluster.schedule(preemptor(0))
    cluster.wait(31)
    if kind is not None:
        cluster.fail(kind=kind)
    cluster.restart()
    cluster.add(policy)
    cluster.hold(Evict)
    cluster.drain()

    cluster.add(preemptor(1))
    for _ in range(4):
        cluster.drain()
        cluster.wait(31)

    assert len({each.victim.uid for each in cluster.asked(Evict)}) == 1


def test_after_a_crash_what_was_about_to_be_evicted_counts_although_its_plan_is_gone():
    policy = PreemptionPolicy("p", generation=1, budgets=(Budget(1, 30.0),))
    cluster = each_on_its_node(policy, count=2)
    cluster.hold(Evict)
    cluster.schedule(preemptor(0))
    cluster.delete("high0")
    cluster.restart()
    cluster.add(policy)
    cluster.forget_effects()

    cluster.add(preemptor(1))
    for _ in range(4):  # the earlier leader's request may still be carried out
        cluster.drain()
        cluster.wait(31)
    assert cluster.asked(Evict) == []
    cluster.wait(UNCERTAIN_FOR)
    cluster.drain()

    assert len(cluster.asked(Evict)) == 1


def test_what_is_no_ledger_is_refused_and_changes_nothing():
    cluster = bounded()

    cluster.observe(LedgerLoaded("{}"))

    assert cluster.refused.startswith("Object missing required field")
    cluster.schedule(HIGH)
    assert counted(cluster) == (2, 1)


# The loop breaker


def looping(cluster: Cluster, rounds: int, seconds: float = 10.0) -> list[float]:
    """Let another scheduler put the victims straight back; return when evictions were asked for."""
    moments: list[float] = []
    for number in range(rounds):
        fresh = cluster.asked(Evict)
        moments += [cluster.now] * len(fresh)
        cluster.forget_effects()
        for each in fresh:
            assert isinstance(each, Evict)
            cluster.delete(each.victim.key)
            back = victim(f"{each.victim.name[:1]}-{cluster.now}-{number}", on=each.node)
            cluster.add(back.scheduler("other"))
        cluster.wait(seconds)
        cluster.drain()
    return moments


def test_evictions_of_a_loop_are_few_and_become_rare():
    cluster = Cluster(node("n1").cpu("4"), victim("a"), victim("b"))

    cluster.schedule(HIGH)

    moments = looping(cluster, 24 * 60, 60.0)

    begun = moments[0]
    assert sum(each < begun + 3600 for each in moments) == 2 * MAX_PREEMPTIONS
    assert len(moments) == 2 * (STOP_AFTER + 4)
    assert cluster.machine.preemptions.state.waste.stops >= 1


def message(cluster: Cluster) -> str:
    said = cluster.pod("high").condition("PodScheduled")
    assert said is not None
    return said.message


def test_a_preemption_loop_is_reported():
    cluster = Cluster(node("n1").cpu("4"), victim("a"), victim("b"))
    cluster.schedule(HIGH)
    looping(cluster, 4)
    assert cluster.machine.preemptions.state.waste.stops == 0
    assert (
        "PreemptionLoop: node(s) where preempting pods of StatefulSet default/web failed 2 "
        "times, paused until "
    ) in message(cluster)
    for _ in range(STOP_AFTER):
        ledger = cluster.machine.ledger
        ledger.record_failure("Pod/default/high", "n9", [WEB], cluster.now, lost=True)

    looping(cluster, 4)

    assert (
        "1 PreemptionLoop: preempting pods of StatefulSet default/web failed 6 times, "
        "stopped until 2026-01-0"
    ) in message(cluster)


def test_too_many_wasted_evictions_are_reported():
    cluster = Cluster(node("n1").cpu("4"), victim("a"), victim("b"))
    cluster.schedule(HIGH)

    looping(cluster, 40)

    assert (
        "PreemptionStopped: 6 evictions for this pod were wasted within the last hour"
    ) in message(cluster)
    assert cluster.machine.preemptions.state.waste.stops == 1


def test_after_a_restart_a_loop_is_still_stopped():
    cluster = Cluster(node("n1").cpu("4"), victim("a"), victim("b"))
    cluster.schedule(HIGH)
    looping(cluster, 40)
    before = message(cluster)
    assert "PreemptionStopped" in before
    cluster.restart()
    cluster.forget_effects()

    cluster.drain()

    assert cluster.asked(Evict) == []
    assert message(cluster).partition(" (until")[0] == before.partition(" (until")[0]


def test_the_end_of_a_plan_does_not_give_back_what_counts_for_the_next_one_of_its_preemptor():
    limits = PreemptionLimit(2, 600.0)
    limit = PreemptionPolicy("limit", generation=1, max_preemptions_per_owner=limits)
    # A more important pod takes the room: whether the eviction was wasted is certain only later.
    cluster = play(
        """node n1 cpu=4; pod a@n1 cpu=4 owner=StatefulSet,web
        schedule high owner=Job,j; delete a; pod top owner=Job,other; drain
        node n2 cpu=4; pod b@n2 cpu=4 owner=StatefulSet,web; hold Nominate; wait 11; drain
        nominated high=n2""",
        Cluster(limit),
    )
    counted = cluster.machine.ledger.preemptions("limit", "Job/default/j", 0.0)

    cluster.wait(USE_WITHIN + 1)
    assert cluster.machine.ledger.preemptions("limit", "Job/default/j", 0.0) == counted

    cluster.fail()
    assert len(cluster.machine.ledger.preemptions("limit", "Job/default/j", 0.0)) < len(counted)
