"""A policy that stops all preemption: nothing is evicted any more, and the rest goes on."""

import pytest

from scheduler.core.eviction.phases import PreemptionPhase
from scheduler.model.decisions import Preempting
from scheduler.model.effects import RecordEvent
from tests.support.evictions import HIGH, two_victims
from tests.support.policies import at_most, policy, refused, shown, told
from tests.support.stories import play

STOP = policy("emergency-stop", stop="incident 4711")
SAID = told("all preemption is stopped: incident 4711", "emergency-stop")
#: All that is due happens, back-offs included.
SETTLE = "drain; wait 20; drain; wait 20; drain; wait 20; drain; wait 20;"
#: The preemptor waits without a nomination, and the stop is why.
HELD = f"nominated; is unschedulable high; says high {SAID}"
STORIES = {
    "pods that fit are scheduled": """
        victims; stop; schedule high; node n2 cpu=1; schedule small cpu=1; placed small=n2""",
    "a plan whose nomination is being written evicts nothing": f"""
        victims; hold Nominate; schedule high; stop; done; {SETTLE}
        evicted; cleared high; {HELD}""",
    "a plan that waits for the ledger evicts nothing": f"""
        victims; budget; hold SaveLedger; schedule high; stop; done; {SETTLE} evicted; {HELD}""",
    "a preemptor whose victims all terminate keeps their room": f"""
        victims; schedule high; stop; nominated high=n1; finish; {SETTLE} placed high=n1""",
    "the plan of an earlier leader is not resumed": f"""
        victims; hold Evict; schedule high; restart; forget; stop; {SETTLE} evicted; {HELD}""",
    "evictions that were not sent are not sent and the plan did not fail": f"""
        victims; hold Evict; schedule high; stop; unplanned
        done a; fail b ABANDONED; {SETTLE} terminating a=yes b=no; cleared high; {HELD}""",
}  # fmt: skip


def unplanned(cluster):
    assert not any(map(cluster.machine.preemptions.state.is_still_planned, cluster.held))


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_while_preemption_is_stopped(story):
    cluster = play(
        story,
        stop=lambda cluster: cluster.add(STOP),
        budget=lambda cluster: cluster.add(policy("budget", budgets=at_most(9))),
        unplanned=unplanned,
    )

    notes = [each.note for each in cluster.effects if isinstance(each, RecordEvent)]
    assert not any("evicting pod" in note for note in notes)


def test_a_stop_refuses_every_preemption_and_says_why():
    cluster = two_victims()
    cluster.add(STOP)

    assert refused(cluster.schedule(HIGH)) == f"{SAID}."
    assert cluster.evicted() == []
    (event,) = [each for each in cluster.effects if isinstance(each, RecordEvent)]
    assert SAID in event.note
    outcome, _ = cluster.machine.explain(
        cluster.machine.queue.get(cluster.ref("high").uid), cluster.now
    )
    assert SAID in outcome.message
    assert shown(cluster) == {}


def test_a_stop_without_a_reason_names_the_policy_and_comes_before_what_others_say():
    cluster = two_victims()
    cluster.add(policy("a", max_victims_per_preemption=0), policy("z", stop=""))

    assert refused(cluster.schedule(HIGH)) == told("all preemption is stopped", "z") + "."


def test_held_pods_preempt_as_soon_as_the_stop_is_gone():
    cluster = two_victims()
    cluster.add(STOP)
    cluster.schedule(HIGH)

    cluster.delete_policy("emergency-stop")
    cluster.wait(20)
    (attempt,) = cluster.drain()

    assert isinstance(attempt.decision, Preempting)
    assert cluster.machine.preemptions.state.phases()[PreemptionPhase.AWAITING] == 1
