"""A plan with two preemptors on two nodes goes on only as long as both placements hold."""

import pytest

from scheduler.core.eviction.phases import PreemptionPhase
from scheduler.core.eviction.plan import Placement, PreemptionPlan
from scheduler.core.eviction.state import USE_WITHIN
from scheduler.core.eviction.transitions import TERMINATION_MARGIN
from scheduler.core.preemption.policy.charge import Charge
from scheduler.model.decisions import Placed
from scheduler.model.effects import ClearNomination, Evict, Nominate, SaveLedger
from scheduler.model.events import FailureKind
from scheduler.queue.phases import QueuePhase
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.evictions import asked, wasted

FREE = Charge()
COUNTED = Charge(victims={f"uid:default/{name}": frozenset({"gold"}) for name in "ab"})


def joint(*holding: type, charge: Charge = FREE) -> Cluster:
    """Return a cluster in which a plan for `h1` on n1 and `h2` on n2 has begun."""
    cluster = Cluster(
        *(node(name).cpu("4") for name in ("n1", "n2")),
        pod("a").on("n1").cpu("4"),
        pod("b").on("n2").cpu("4"),
        *(pod(name).cpu("4").priority(9) for name in ("h1", "h2")),
    )
    cluster.hold(*holding)
    machine, now = cluster.machine, cluster.now
    placements = []
    for where, name in (("n1", "a"), ("n2", "b")):
        queued = machine.queue.pop(now)
        assert queued is not None
        machine.queue.begin_preemption(queued, frozenset({"NodeResourcesFit"}), now)
        victim = machine.cluster.find_pod(cluster.ref(name).uid)
        assert victim is not None
        placements.append(Placement.of(queued.pod, where, (victim,), machine.cluster))
    number = machine.preemptions.state.next_number()
    plan = PreemptionPlan.decided(number, tuple(placements), charge, now)
    machine.preemptions.carry_out(plan, "no node fits", now)
    cluster.wait(0)
    return cluster


def phases(cluster: Cluster) -> list[PreemptionPhase]:
    return [plan.phase for plan in cluster.machine.preemptions.state]


def cleared(cluster: Cluster) -> list[str]:
    return sorted(effect.pod.name for effect in cluster.asked(ClearNomination))


def are_tried_again(cluster: Cluster, *names: str) -> bool:
    waiting = (QueuePhase.ACTIVE, QueuePhase.BACKOFF)
    return all(cluster.phase(name) in waiting for name in names)


def test_both_preemptors_are_bound_when_both_victims_are_gone():
    cluster = joint()
    assert asked(cluster) == ["a", "b"]
    assert phases(cluster) == [PreemptionPhase.AWAITING]

    cluster.delete("a")
    cluster.wait(3)
    assert [attempt.decision for attempt in cluster.drain()] == [Placed("n1")]
    assert phases(cluster) == [PreemptionPhase.AWAITING]
    cluster.delete("b")
    cluster.wait(3)

    assert [attempt.decision for attempt in cluster.drain()] == [Placed("n2")]
    assert phases(cluster) == []
    assert cluster.machine.preemptions.state.plans == {}
    cluster.wait(USE_WITHIN)
    assert wasted(cluster) == {}


def test_no_victim_is_evicted_before_both_nominations_are_accepted():
    cluster = joint(Nominate)

    cluster.done()
    assert asked(cluster) == []
    cluster.done()

    assert asked(cluster) == ["a", "b"]


@pytest.mark.parametrize("first_accepted", [True, False])
def test_no_victim_is_evicted_where_a_nomination_is_refused(first_accepted):
    cluster = joint(Nominate)

    if first_accepted:
        cluster.done()
        cluster.fail()
    else:
        cluster.fail()
        assert cluster.asked(ClearNomination) == []
        cluster.done()

    assert asked(cluster) == []
    assert cleared(cluster) == (["h1"] if first_accepted else ["h2"])
    assert cluster.nominations() == {}
    assert phases(cluster) == []
    assert are_tried_again(cluster, "h1", "h2")


def test_no_victim_is_evicted_where_the_ledger_is_not_written():
    cluster = joint(SaveLedger, charge=COUNTED)
    assert asked(cluster) == []

    cluster.fail()

    assert asked(cluster) == []
    assert cleared(cluster) == ["h1", "h2"]
    assert are_tried_again(cluster, "h1", "h2")


def test_the_victims_of_both_are_counted_before_the_first_is_evicted():
    cluster = joint(SaveLedger, charge=COUNTED)
    ledger = cluster.machine.ledger
    assert {uid: ledger.find_victim(uid) is not None for uid in COUNTED.victims} == dict.fromkeys(
        COUNTED.victims, True
    )

    cluster.done()

    assert asked(cluster) == ["a", "b"]


@pytest.mark.parametrize("refused", ["a", "b"])
def test_both_give_up_where_a_victim_is_not_evicted(refused):
    cluster = joint(Evict)
    by_name = {effect.victim.name: effect for effect in cluster.held}
    other = by_name[{"a": "b", "b": "a"}[refused]]

    cluster.fail(by_name[refused])
    assert phases(cluster) == [PreemptionPhase.FAILING]
    cluster.done(other)

    assert cleared(cluster) == ["h1", "h2"]
    assert cluster.nominations() == {}
    assert are_tried_again(cluster, "h1", "h2")
    assert phases(cluster) == [PreemptionPhase.WITHDRAWN]


def test_both_give_up_where_a_victim_that_was_evicted_runs_on():
    cluster = joint(Evict)
    first, second = cluster.held
    cluster.done(first)

    cluster.fail(second, FailureKind.GONE)

    assert cleared(cluster) == ["h1", "h2"]
    assert are_tried_again(cluster, "h1", "h2")


def test_a_stop_ends_the_plan_when_both_evictions_are_answered():
    cluster = joint(Evict)
    cluster.machine.preemptions.stop_all(cluster.now)

    cluster.done()
    assert phases(cluster) == [PreemptionPhase.STOPPING]
    cluster.done()

    assert cleared(cluster) == ["h1", "h2"]
    assert are_tried_again(cluster, "h1", "h2")


@pytest.mark.parametrize("holding", [(Nominate,), (Evict,), ()])
def test_without_one_preemptor_the_other_is_tried_again(holding):
    cluster = joint(*holding)

    cluster.delete("h1")

    assert phases(cluster) == []
    assert cluster.nominations() == {}
    assert cleared(cluster) == ["h2"]
    assert are_tried_again(cluster, "h2")
    while cluster.held:
        cluster.done()
    cluster.wait(USE_WITHIN + 1)
    assert wasted(cluster) == ({} if holding == (Nominate,) else {"preemptor_gone": 2})
    assert cluster.machine.preemptions.state.plans == {}


def test_without_one_node_both_are_tried_again():
    cluster = joint()

    cluster.delete_node("n1")

    assert phases(cluster) == []
    assert cleared(cluster) == ["h1", "h2"]
    assert cluster.nominations() == {}
    assert are_tried_again(cluster, "h1", "h2")
    assert wasted(cluster) == {"node_gone": 2}


def test_a_node_that_goes_while_victims_are_evicted_stops_the_plan():
    cluster = joint(Evict)

    cluster.delete_node("n2")
    assert phases(cluster) == [PreemptionPhase.STOPPING]
    cluster.done()
    cluster.done()

    assert cleared(cluster) == ["h1", "h2"]
    assert are_tried_again(cluster, "h1", "h2")


def test_both_nodes_are_given_up_where_one_victim_hangs():
    cluster = joint()
    cluster.delete("a")

    cluster.wait(TERMINATION_MARGIN + 1)

    assert cleared(cluster) == ["h1", "h2"]
    assert are_tried_again(cluster, "h1", "h2")
    assert wasted(cluster) == {"victim_hangs": 2}


def test_the_other_loses_its_nomination_where_pods_of_others_take_the_room_of_one():
    cluster = joint()
    cluster.delete("a")
    cluster.add(pod("foreign").on("n1").cpu("4").priority(99).scheduler("other"))
    before = next(iter(cluster.machine.preemptions.state))
    cluster.wait(3)

    cluster.step()

    assert before.number not in cluster.machine.preemptions.state.plans
    assert cleared(cluster) == ["h2"]
    assert wasted(cluster) == {"room_lost": 2}


def test_the_other_loses_its_nomination_where_one_is_bound_elsewhere():
    cluster = joint()
    cluster.add(node("n3").cpu("4"))

    cluster.change("h1", lambda own: own.on("n3"))

    assert phases(cluster) == []
    assert cleared(cluster) == ["h2"]
    assert are_tried_again(cluster, "h2")
