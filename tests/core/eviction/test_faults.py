"""Preemptions under faults: clocks differ, the API server refuses, the preemptor is deleted."""

from dataclasses import replace

import pytest

from scheduler.core.eviction.transitions import TERMINATION_MARGIN
from scheduler.model.decisions import Failed, Placed
from scheduler.model.effects import Evict, Nominate, RecordEvent
from scheduler.model.events import FailureKind
from scheduler.model.extender_answers import Filtered
from scheduler.model.policies import (
    Budget,
    PreemptionLimit,
    PreemptionPolicy,
)
from scheduler.queue.phases import QueuePhase
from tests.support.builders import OURS, PodBuilder, node, pod
from tests.support.cluster import Cluster, profiles
from tests.support.refusing import GRACE, STRICT, Refusing
from tests.support.stories import play

HIGH = pod("high").cpu("4").priority(100)


def low(name: str, on: str = "n1", cpu: str = "4", priority: int = 0) -> PodBuilder:
    return pod(name).on(on).cpu(cpu).priority(priority)


def full(count: int) -> Refusing:
    """Return nodes that one pod each fills."""
    names = [f"n{each}" for each in range(count)]
    return Refusing(
        *(node(each).cpu("4") for each in names), *(low(f"low-{each}", each) for each in names)
    )


HANGS = GRACE + TERMINATION_MARGIN
#: (id, how many nodes are full, how far the clock is ahead, the story)
CLOCKS = [
    *(
        (
            f"a clock that differs causes no further eviction: {ahead}", 6, ahead,
            "pod high; drain;" + "wait 1; drain;" * (GRACE - 1) + "evictions 1",
        )
        for ahead in (0, 45, 90, 3600, -3600)
    ),
    (
        "a victim hangs when it was seen terminating for longer than its grace period",
        2, 3600,
        f"pod high; drain; wait {HANGS - 1}; drain; evictions 1; wait 2; drain; evictions 2",
    ),
    (
        "after a change of leader the time of a victim begins again", 2, 0,
        f"""pod high; drain; later 3600; restart; drain
        wait {HANGS - 1}; drain; evictions 1; wait 2; drain; evictions 2""",
    ),
    (
        "the grace of another client's victim begins when it is seen terminating", 1, 0,
        f"""hold Nominate; pod high; drain; wait {HANGS - 10}; evict-elsewhere low-n0; done; evicted
        wait {HANGS - 1}; drain; nominated high=n0; wait 2; nominated""",
    ),
    (
        "freed resources are not waited for again once a victim hangs", 2, 0,
        f"""schedule gone cpu=4 priority=100; nominated gone=n1; delete gone; pod high; drain
        nominated high=n1; wait {HANGS + 1}; drain; evictions 2; nominated high=n0""",
    ),
    (
        "a hanging victim does not replace another victim", 0, 0,
        f"""node n1 cpu=5; pod hangs@n1 cpu=2 priority=50 port=80; pod low@n1 cpu=2 priority=0
        schedule gone cpu=1 priority=100 port=80; wait {HANGS + 1}; delete gone; hold Nominate
        schedule late cpu=2 priority=10; evicted hangs
        pod new@n1 cpu=1m priority=0; done; evicted hangs low""",
    ),
]  # fmt: skip


def evict_elsewhere(cluster: Cluster, name: str) -> None:
    leaving = {"deletion_grace_period_seconds": GRACE}
    cluster.change(name, lambda own: own.preempted().terminating().meta(**leaving))


def evictions(cluster: Cluster, count: str) -> None:
    assert len(cluster.evicted()) == int(count)


@pytest.mark.parametrize(
    ("nodes", "ahead", "story"), [each[1:] for each in CLOCKS], ids=[each[0] for each in CLOCKS]
)
def test_clocks_and_grace_periods(nodes, ahead, story):
    cluster = full(nodes)
    cluster.ahead = ahead

    play(story, cluster, evictions=evictions, **{"evict-elsewhere": evict_elsewhere})


# Refusals


def test_pauses_grow_while_the_api_server_refuses_an_eviction():
    cluster = Refusing(node("n1").cpu("4"), low("guarded"))
    cluster.refuses = lambda each: FailureKind.FORBIDDEN if isinstance(each, Evict) else None
    cluster.add(HIGH)

    for _ in range(3600):
        cluster.drain()
        cluster.wait(1)

    assert len(cluster.evicted()) < 30


def guarded_and_web() -> Refusing:
    """Return a node with two victims; a disruption budget may protect the first."""
    victims = low("guarded", cpu="2"), low("web", cpu="2", priority=1)
    return Refusing(node("n1").cpu("4"), *victims, STRICT)


def test_a_victim_that_a_disruption_budget_may_protect_is_evicted_first():
    cluster = guarded_and_web()
    cluster.refuses = lambda each: FailureKind.REFUSED if isinstance(each, Evict) else None

    cluster.schedule(HIGH)

    assert cluster.evicted() == ["guarded"]


def test_the_other_victims_are_evicted_when_the_api_server_has_evicted_those():
    cluster = guarded_and_web()

    cluster.schedule(HIGH)

    assert cluster.evicted() == ["guarded", "web"]
    cluster.finish_terminating()
    cluster.wait(15)
    assert [each.decision for each in cluster.drain()] == [Placed("n1")]


# The preemptor is deleted


def test_evictions_that_wait_to_be_sent_are_cancelled_when_the_preemptor_is_deleted():
    cluster = Cluster(node("n1").cpu("4"), low("a", cpu="2"), low("b", cpu="2"))
    cluster.hold(Evict)
    cluster.schedule(HIGH)
    first, second = cluster.held
    assert isinstance(first, Evict)
    assert isinstance(second, Evict)
    assert cluster.machine.preemptions.state.is_still_planned(second)
    cluster.done(first)
    assert not cluster.machine.preemptions.state.is_still_planned(first)

    cluster.delete("high")

    assert not cluster.machine.preemptions.state.is_still_planned(second)
    cluster.fail(second, FailureKind.ABANDONED)
    assert cluster.machine.cluster.evicting == 1


@pytest.mark.parametrize(
    ("config", "evicted"),
    [
        pytest.param("", ["v"], id="no extender"),
        pytest.param(
            "extenders: [{urlPrefix: http://e, filterVerb: filter}]\n", ["v", "u"], id="an extender"
        ),
    ],
)
def test_freed_capacity_is_not_offered_where_extenders_decide_on_nodes(config, evicted):
    cluster = Cluster(node("n1").cpu("4"), low("v", priority=5), config=config)
    cluster.extender = lambda asked: Filtered(asked.nodes)
    cluster.schedule(pod("x").cpu("4").priority(100))
    cluster.delete("x")
    cluster.add(node("n2").cpu("4"), low("u", "n2"))

    cluster.schedule(pod("b").cpu("4").priority(100))

    assert cluster.evicted() == evicted


# Waking


def test_a_preemptor_whose_victims_have_terminated_is_tried_whatever_the_hints_say():
    victim = low("low", cpu="1").apart("h", app="web").apart("h", app="db")
    cluster = Cluster(node("n1").cpu("4").label("h", "n1"), victim)
    cluster.schedule(pod("high").cpu("1").priority(10).label("app", "web"))

    cluster.finish_terminating()
    cluster.wait(3)

    assert [each.decision for each in cluster.drain()] == [Placed("n1")]


@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(
            PreemptionPolicy("p", generation=1, budgets=(Budget(1, 3600.0),)), id="a budget"
        ),
        pytest.param(
            PreemptionPolicy(
                "p", generation=1, max_preemptions_per_owner=PreemptionLimit(1, 3600.0)
            ),
            id="a limit for the owner",
        ),
    ],
)
def test_a_preemptor_is_requeued_when_the_count_that_blocked_it_is_released(policy):
    cluster = Cluster(node("n1").cpu("4"), node("n2").cpu("4"), low("l1"), low("l2", "n2"), policy)
    cluster.hold(Nominate)
    cluster.schedule(pod("a").cpu("4").priority(10).owner("Job", "j"))
    cluster.schedule(pod("b").cpu("4").priority(20).owner("Job", "j"))
    assert cluster.phase("b") is QueuePhase.UNSCHEDULABLE

    cluster.hold()
    cluster.fail(cluster.held[0])
    cluster.delete("a")
    cluster.wait(3)
    cluster.drain()

    assert "b" in cluster.nominations()


# Plugins of others


class OutOfOrder:
    """A plugin of another package, as the guard around it lets it through."""

    name = "OutOfOrder"

    def compile_filter(self, *_: object) -> None:
        return None

    def reserve(self, *_: object) -> None:
        raise RuntimeError("out of order")


def test_a_plugin_that_cannot_reserve_takes_the_pod_off_its_node():
    ours = profiles()[OURS]
    using = {OURS: replace(ours, filters=(*ours.filters, OutOfOrder()))}
    cluster = Cluster(node("n1").cpu("4"), using=using)

    decision = cluster.schedule(pod("p").cpu("1"))

    assert decision == Failed('running Reserve plugin "OutOfOrder": out of order')
    assert cluster.machine.sizes().assumed == 0
    assert cluster.phase("p") is QueuePhase.BACKOFF
    (event,) = cluster.asked(RecordEvent)
    assert isinstance(event, RecordEvent)
    assert event.note == decision.message
