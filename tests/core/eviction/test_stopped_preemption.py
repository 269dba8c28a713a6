"""A policy that stops all preemption: nothing is evicted any more, and the rest goes on."""

from scheduler.core.eviction.phases import PreemptionPhase
from scheduler.model.decisions import Placed, Preempting
from scheduler.model.effects import ClearNomination, Evict, Nominate, RecordEvent, SaveLedger
from scheduler.model.events import FailureKind
from scheduler.queue.phases import QueuePhase
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.evictions import HIGH, two_victims
from tests.support.policies import at_most, policy, refused, shown, told

STOP = policy("emergency-stop", stop="incident 4711")
SAID = told("all preemption is stopped: incident 4711", "emergency-stop")


def is_held(cluster: Cluster) -> bool:
    """Return whether the preemptor waits without a nomination, and the stop is why."""
    status = cluster.pod("high").condition("PodScheduled")
    return (
        cluster.nominations() == {}
        and cluster.phase("high") is QueuePhase.UNSCHEDULABLE
        and status is not None
        and SAID in status.message
    )


def settle(cluster: Cluster) -> None:
    """Let all that is due happen, backoffs included."""
    for _ in range(4):
        cluster.drain()
        cluster.wait(20)


def test_a_stop_refuses_every_preemption_and_says_why():
    cluster = two_victims()
    cluster.add(STOP)

    assert refused(cluster.schedule(HIGH)) == f"{SAID}."
    assert cluster.evicted() == []
    (event,) = [each for each in cluster.effects if isinstance(each, RecordEvent)]
    assert SAID in event.note


def test_a_stop_without_a_reason_names_the_policy():
    cluster = two_victims()
    cluster.add(policy("s", stop=""))

    assert refused(cluster.schedule(HIGH)) == told("all preemption is stopped", "s") + "."


def test_a_stop_comes_before_what_other_policies_say():
    cluster = two_victims()
    cluster.add(policy("a", max_victims_per_preemption=0), policy("z", stop=""))

    assert refused(cluster.schedule(HIGH)) == told("all preemption is stopped", "z") + "."


def test_pods_that_fit_are_scheduled_while_preemption_is_stopped():
    cluster = two_victims()
    cluster.add(STOP)
    cluster.schedule(HIGH)
    cluster.add(node("n2").cpu("1"))

    assert cluster.schedule(pod("small").cpu("1")) == Placed("n2")


def test_a_plan_whose_nomination_is_being_written_evicts_nothing():
    cluster = two_victims()
    cluster.hold(Nominate)
    cluster.schedule(HIGH)
    cluster.add(STOP)

    cluster.done()
    settle(cluster)

    assert cluster.asked(Evict) == []
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]
    assert is_held(cluster)


def test_a_plan_that_waits_for_the_ledger_evicts_nothing():
    cluster = two_victims()
    cluster.add(policy("budget", budgets=at_most(9)))
    cluster.hold(SaveLedger)
    cluster.schedule(HIGH)
    cluster.add(STOP)

    cluster.done()
    settle(cluster)

    assert cluster.asked(Evict) == []
    assert is_held(cluster)


def test_evictions_that_were_not_sent_are_not_sent_and_the_plan_did_not_fail():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    sent, unsent = cluster.held
    cluster.add(STOP)
    assert not any(map(cluster.machine.preemptions.state.is_still_planned, (sent, unsent)))

    cluster.done(sent)
    cluster.fail(unsent, FailureKind.ABANDONED)
    settle(cluster)

    assert [cluster.pod(name).terminating for name in "ab"] == [True, False]
    assert cluster.asked(ClearNomination) == [ClearNomination(cluster.ref("high"))]
    assert is_held(cluster)
    notes = [each.note for each in cluster.effects if isinstance(each, RecordEvent)]
    assert not any("evicting pod" in note for note in notes)


def test_a_preemptor_whose_victims_all_terminate_keeps_their_room():
    cluster = two_victims()
    cluster.schedule(HIGH)
    cluster.add(STOP)

    assert cluster.nominations() == {"high": "n1"}
    cluster.finish_terminating()
    settle(cluster)

    assert cluster.pod("high").spec.node_name == "n1"


def test_the_plan_of_an_earlier_leader_is_not_resumed_while_preemption_is_stopped():
    cluster = two_victims()
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    cluster.restart()
    cluster.forget_effects()
    cluster.add(STOP)

    settle(cluster)

    assert cluster.asked(Evict) == []
    assert is_held(cluster)


def test_held_pods_preempt_as_soon_as_the_stop_is_gone():
    cluster = two_victims()
    cluster.add(STOP)
    cluster.schedule(HIGH)

    cluster.delete_policy("emergency-stop")
    cluster.wait(20)
    (attempt,) = cluster.drain()

    assert isinstance(attempt.decision, Preempting)
    assert cluster.machine.preemptions.state.phases()[PreemptionPhase.AWAITING] == 1


def test_an_explanation_shows_the_stop():
    cluster = two_victims()
    cluster.add(STOP)
    cluster.schedule(HIGH)

    outcome, _ = cluster.machine.explain(
        cluster.machine.queue.get(cluster.ref("high").uid), cluster.now
    )
    assert SAID in outcome.message
    assert shown(cluster) == {}
