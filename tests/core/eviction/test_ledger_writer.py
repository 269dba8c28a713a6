"""What budgets and the loop breaker count is written down before the next victim is asked."""

import pytest

from scheduler.core.eviction.state import USE_WITHIN
from scheduler.model.effects import ClearNomination, Evict, Nominate, RecordEvent, SaveLedger
from scheduler.model.events import FailureKind, LedgerLoaded, PolicyObserved
from scheduler.model.policies import Budget, BudgetScope, PreemptionLimit, PreemptionPolicy
from scheduler.queue.phases import QueuePhase
from scheduler.state.preemption.ledger import UNCERTAIN_FOR, Ledger
from scheduler.state.preemption.preemption_backoff import STOP_AFTER
from scheduler.state.preemption.wasted_evictions import MAX_PREEMPTIONS
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster

GOLD = PreemptionPolicy(
    "gold",
    generation=3,
    budgets=(Budget(100, 3600.0, BudgetScope.CLUSTER),),
    max_preemptions_per_owner=PreemptionLimit(100, 3600.0),
)
HIGH = pod("high").cpu("4").priority(100)
WEB = "StatefulSet/default/web"


def victim(name: str, priority: int = 0, on: str = "n1") -> PodBuilder:
    return pod(name).on(on).cpu("2").priority(priority).owner("StatefulSet", "web")


def bounded(*objects: object) -> Cluster:
    cluster = Cluster(node("n1").cpu("4"), victim("a", 2), victim("b", 1), *objects)
    cluster.observe(PolicyObserved(GOLD))
    return cluster


def kinds(cluster: Cluster) -> list[str]:
    return [type(each).__name__ for each in cluster.effects if not isinstance(each, RecordEvent)]


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


# The order


def test_what_a_policy_counts_is_written_down_between_nomination_and_eviction():
    cluster = bounded()

    cluster.schedule(HIGH)

    assert kinds(cluster) == ["Nominate", "SaveLedger", "Evict", "Evict"]
    assert counted(cluster) == (2, 1)
    since = cluster.now - 3600
    assert len(written(cluster).victims("gold", BudgetScope.CLUSTER, "", since)) == 2


def test_plans_that_wait_share_the_next_write():
    cluster = bounded()
    cluster.add(*(node(f"n{i}").cpu("2") for i in (2, 3, 4)))
    cluster.add(*(victim(f"v{i}", 50, f"n{i}") for i in (2, 3, 4)))
    cluster.hold(SaveLedger)
    cluster.schedule(HIGH)
    for i in (2, 3, 4):
        cluster.schedule(pod(f"p{i}").cpu("2").priority(60))
    (first,) = cluster.held

    cluster.done(first)
    (second,) = cluster.held
    cluster.done(second)

    assert cluster.held == []
    assert len(cluster.asked(SaveLedger)) == 2
    assert len(cluster.asked(Evict)) == 2 + 3


def test_without_a_policy_that_counts_nothing_is_written_down():
    cluster = bounded()
    cluster.observe(PolicyObserved(PreemptionPolicy("gold", generation=4)))

    cluster.schedule(HIGH)

    assert kinds(cluster) == ["Nominate", "Evict", "Evict"]


# When it cannot be written down


@pytest.mark.parametrize("kind", list(FailureKind))
def test_no_victim_is_evicted_when_the_ledger_cannot_be_written(kind):
    cluster = bounded()
    cluster.hold(SaveLedger)
    cluster.schedule(HIGH)

    cluster.fail(kind=kind)

    assert cluster.asked(Evict) == []
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]
    assert cluster.phase("high") is QueuePhase.BACKOFF
    assert counted(cluster) == (0, 0)


def test_a_preemption_that_no_policy_counts_goes_on_when_the_ledger_cannot_be_written():
    cluster = Cluster(node("n1").cpu("4"), victim("a", 2), victim("b", 1))
    cluster.machine.ledger.record_failure("x", "n9", ["y"], cluster.now, lost=True)
    cluster.hold(SaveLedger)
    cluster.schedule(HIGH)

    cluster.fail(kind=FailureKind.FORBIDDEN)

    assert len(cluster.asked(Evict)) == 2


# What counts


def test_a_victim_whose_eviction_failed_does_not_count():
    cluster = bounded()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    assert counted(cluster) == (2, 1)

    cluster.done()
    cluster.fail()

    assert counted(cluster) == (1, 1)


def test_a_preemption_without_evictions_does_not_count():
    cluster = bounded()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)
    assert counted(cluster) == (2, 1)

    cluster.fail()

    assert counted(cluster) == (0, 0)


def test_a_preemptor_that_is_deleted_before_its_evictions_does_not_count():
    cluster = bounded()
    cluster.hold(SaveLedger)
    cluster.schedule(HIGH)

    cluster.delete("high")

    assert counted(cluster) == (0, 0)


def test_a_victim_that_another_plan_names_too_still_counts():
    cluster = bounded()
    cluster.hold(SaveLedger)
    cluster.schedule(HIGH.cpu("2"))
    cluster.schedule(pod("top").cpu("4").priority(200))
    assert counted(cluster) == (2, 1)

    cluster.delete("high")

    assert counted(cluster) == (2, 0)


def test_a_victim_counts_from_the_moment_at_which_it_was_asked():
    cluster = bounded()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.now += 30

    cluster.done()

    moments = cluster.machine.ledger.victims("gold", BudgetScope.CLUSTER, "", 0.0)
    assert moments == [cluster.now - 30, cluster.now]


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


def test_after_a_crash_a_plan_that_goes_on_counts_once():
    cluster = bounded()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.restart()
    cluster.observe(PolicyObserved(GOLD))
    assert counted(cluster) == (2, 1)

    cluster.drain()

    assert len(cluster.asked(Evict)) == 4
    assert counted(cluster) == (2, 1)


def test_after_a_crash_a_plan_that_was_not_written_down_counts_before_it_goes_on():
    cluster = bounded()
    cluster.hold(SaveLedger)
    cluster.schedule(HIGH)
    cluster.restart()
    cluster.observe(PolicyObserved(GOLD))
    assert counted(cluster) == (0, 0)
    cluster.forget_effects()

    cluster.drain()

    assert kinds(cluster) == ["SaveLedger", "Evict", "Evict"]
    assert counted(cluster) == (2, 1)


def test_after_a_crash_a_plan_that_policies_refuse_now_is_cancelled():
    cluster = bounded()
    cluster.hold(SaveLedger)
    cluster.schedule(HIGH)
    cluster.restart()
    strict = PreemptionPolicy("gold", max_victims_per_preemption=1)
    cluster.observe(PolicyObserved(strict))
    cluster.forget_effects()

    cluster.drain()

    assert cluster.asked(Evict) == []
    assert cluster.pod("high").status.nominated_node_name == ""


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


def test_a_failed_preemption_is_written_down_at_once():
    cluster = Cluster(node("n1").cpu("4"), victim("a"), victim("b"))
    cluster.schedule(HIGH)
    assert cluster.ledger == ""

    looping_once(cluster)

    assert kinds(cluster) == ["SaveLedger", "SetCondition", "Nominate", "Evict", "Evict"]
    (memory,) = written(cluster).backoff
    assert (memory.key, memory.times) == (("Pod/default/high", "n1", WEB), 1)


def test_a_success_removes_the_recorded_failures():
    cluster = Cluster(node("n1").cpu("4"), victim("a"), victim("b"))
    cluster.machine.ledger.record_failure("Pod/default/high", "n9", [WEB], cluster.now, lost=True)
    cluster.schedule(HIGH)
    assert len(cluster.machine.ledger.backoff) == 1

    cluster.finish_terminating()
    cluster.wait(3)
    cluster.drain()

    assert cluster.pod("high").spec.node_name == "n1"
    assert len(cluster.machine.ledger.backoff) == 0


def test_no_eviction_overtakes_what_is_written_down():
    cluster = Cluster(node("n1").cpu("4"), victim("a"), victim("b"))
    cluster.schedule(HIGH)
    cluster.hold(SaveLedger)

    looping_once(cluster)
    assert kinds(cluster) == ["SaveLedger", "SetCondition", "Nominate"]
    cluster.done()

    assert kinds(cluster) == ["SaveLedger", "SetCondition", "Nominate", "Evict", "Evict"]


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


def looping_once(cluster: Cluster) -> None:
    for name in "ab":
        cluster.delete(name)
        cluster.add(victim(f"new-{name}").scheduler("other"))
    cluster.forget_effects()
    for _ in range(3):  # the node is backed off for ten seconds
        cluster.wait(8)
        cluster.drain()


def test_the_end_of_a_plan_does_not_give_back_what_counts_for_the_next_one_of_its_preemptor():
    job = pod("high").cpu("4").priority(9).owner("Job", "j")
    limit = PreemptionPolicy(
        "limit", generation=1, max_preemptions_per_owner=PreemptionLimit(2, 600.0)
    )
    cluster = Cluster(limit, node("n1").cpu("4"), victim("a").cpu("4"))
    cluster.schedule(job)
    cluster.delete("a")
    # A more important pod takes the room: whether the eviction was wasted is certain only later.
    cluster.add(pod("top").cpu("4").priority(99).owner("Job", "other"))
    cluster.drain()
    cluster.add(node("n2").cpu("4"), victim("b", on="n2").cpu("4"))
    cluster.hold(Nominate)
    cluster.wait(11)
    cluster.drain()
    assert cluster.nominations() == {"high": "n2"}
    counted = cluster.machine.ledger.preemptions("limit", "Job/default/j", 0.0)

    cluster.wait(USE_WITHIN + 1)
    assert cluster.machine.ledger.preemptions("limit", "Job/default/j", 0.0) == counted

    cluster.fail()
    assert len(cluster.machine.ledger.preemptions("limit", "Job/default/j", 0.0)) < len(counted)
