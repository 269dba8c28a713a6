"""However a preemption fails, only so many evictions are wasted within an hour."""

from collections.abc import Callable

import pytest

from scheduler.core.preemption.policy.loop_breaker import LoopVeto
from scheduler.model.decisions import Preempting
from scheduler.model.effects import Evict, Nominate, Question, RecordEvent
from scheduler.model.events import FailureKind
from scheduler.model.extender_answers import Filtered
from scheduler.state.preemption.wasted_evictions import MAX_PREEMPTIONS, MAX_VICTIMS, WasteScope
from tests.support.builders import PodBuilder, node, pdb, pod
from tests.support.refusing import Refusing

HOUR = 3600.0
HIGH = pod("high").cpu("4").priority(100).owner("Job", "j")


def low(name: str, on: str, cpu: str = "4", owner: str = "") -> PodBuilder:
    made = pod(name).on(on).cpu(cpu).priority(0)
    return made.owner("ReplicaSet", owner) if owner else made


def an_hour(cluster: Refusing, each_time: Callable[[], None], step: float = 5.0) -> None:
    """Let an hour pass; what else happens in the cluster happens each time."""
    end = cluster.now + HOUR
    while cluster.now < end:
        cluster.drain()
        each_time()
        cluster.wait(step)


def gone(cluster: Refusing) -> int:
    """Return how many pods were evicted: those that the API server let go."""
    return sum(1 for name in cluster.evicted() if not name.startswith("guarded"))


def test_a_victim_that_cannot_be_evicted_wastes_at_most_three_evictions_of_others():
    cluster = Refusing(node("n1").cpu("4"), low("guarded", "n1", "2", "guarded"))
    cluster.refuses = lambda each: (
        FailureKind.FORBIDDEN if isinstance(each, Evict) and each.victim.name == "guarded" else None
    )
    replicas = iter(range(10_000))
    cluster.add(HIGH)

    def replace_replica() -> None:
        cluster.finish_terminating()
        if not any(each.startswith("web") for each in names(cluster)):
            cluster.add(low(f"web-{next(replicas)}", "n1", "2", "web").scheduler("other"))

    an_hour(cluster, replace_replica)

    assert 1 <= gone(cluster) <= MAX_PREEMPTIONS


def test_an_explanation_says_in_words_why_a_node_is_backed_off():
    text = "node(s) where preemption has failed for pods of its owner"

    assert str(LoopVeto(text, 10.0, timed=True)) == f"{text} (until 1970-01-01T00:00:10Z)"
    assert str(LoopVeto(f"{text} until noon", 10.0)) == f"{text} until noon"


def test_with_evict_only_a_victim_protected_by_a_budget_wastes_no_other_eviction():
    cluster = Refusing(
        node("n1").cpu("4"),
        low("guarded", "n1", "2").label("app", "db").status(phase="Running"),
        low("web", "n1", "2"),
        pdb("db").selects(app="db").allows(0),
        evict_only=True,
    )
    cluster.add(HIGH)

    an_hour(cluster, lambda: None)

    assert cluster.evicted() == []


def test_a_scheduler_that_takes_freed_capacity_each_time_wastes_few_victims_of_any_owner():
    names_of_nodes = [f"n{each}" for each in range(30)]
    cluster = Refusing(
        *(node(each).cpu("4") for each in names_of_nodes),
        *(low(f"bare-{each}", each) for each in names_of_nodes),
    )
    cluster.add(HIGH)
    thieves = iter(range(10_000))

    def steal() -> None:
        for victim in [each for each in cluster.pods.values() if each.terminating]:
            cluster.delete(victim.metadata.name)
            thief = pod(f"thief-{next(thieves)}").on(victim.spec.node_name).cpu("4").priority(100)
            cluster.add(thief.scheduler("other"))

    an_hour(cluster, steal)

    assert 1 <= len(cluster.evicted()) <= MAX_PREEMPTIONS
    (told,) = [each for each in events(cluster) if each.reason == "PreemptionStopped"]
    assert told.note.startswith("3 evictions for this pod were wasted within the last hour.")


@pytest.mark.parametrize("owners", [1, 20])
def test_an_extender_that_refuses_each_node_once_it_is_free_wastes_few_victims(owners):
    names_of_nodes = [f"n{each}" for each in range(20)]
    cluster = Refusing(
        *(node(each).cpu("4") for each in names_of_nodes),
        *(low(f"low-{i}", each, owner=f"rs{i % owners}") for i, each in enumerate(names_of_nodes)),
        config="extenders: [{urlPrefix: http://e, filterVerb: filter}]\n",
    )

    def full_ones(asked: Question) -> Filtered:
        taken = {each.spec.node_name for each in cluster.pods.values()}
        full = tuple(name for name in asked.nodes if name in taken)
        return Filtered(full, dict.fromkeys(set(asked.nodes) - taken, "no topology"))

    cluster.extender = full_ones
    cluster.add(HIGH)

    an_hour(cluster, cluster.finish_terminating)

    assert 1 <= len(cluster.evicted()) <= MAX_PREEMPTIONS + 1


def test_the_pods_of_an_owner_share_a_bound():
    cluster = Refusing(node("n1").cpu("4"), low("bare", "n1"))
    for number in range(MAX_VICTIMS[WasteScope.OWNER] // 8):
        cluster.machine.ledger.record_waste(f"uid-{number}", "Job/default/j", "n9", 8, cluster.now)

    decision = cluster.schedule(HIGH)

    assert cluster.evicted() == []
    assert "PreemptionStopped: 64 evictions for pods of its owner were wasted" in decision.message
    assert isinstance(cluster.schedule(pod("other").cpu("4").priority(100)), Preempting)


@pytest.mark.parametrize(
    "refused", [pytest.param(Evict, id="eviction"), pytest.param(Nominate, id="nomination")]
)
def test_what_is_refused_on_one_node_is_tried_on_the_next(refused):
    cluster = Refusing(
        node("n1").cpu("4"), node("n2").cpu("4"), low("guarded", "n1"),
        low("plain", "n2").priority(1),
    )  # fmt: skip
    cluster.refuses = lambda each: (
        FailureKind.FORBIDDEN if isinstance(each, refused) and each.node == "n1" else None
    )
    cluster.add(HIGH)

    for _ in range(10):
        cluster.drain()
        cluster.finish_terminating()
        cluster.wait(5)

    assert cluster.pod("high").spec.node_name == "n2"


def test_an_owner_with_an_endless_name_stops_no_preemption():
    pill = pod("pill").on("n1").cpu("4").priority(0).owner("Foo", "x" * 262_144)
    cluster = Refusing(node("n1").cpu("4"), pill)
    cluster.refuses = lambda each: (
        FailureKind.REFUSED if isinstance(each, Nominate) and len(each.plan) > 32_768 else None
    )

    cluster.schedule(HIGH)

    assert cluster.evicted() == ["pill"]


def names(cluster: Refusing) -> list[str]:
    return [each.metadata.name for each in cluster.pods.values() if not each.terminating]


def events(cluster: Refusing) -> list[RecordEvent]:
    return [each for each in cluster.effects if isinstance(each, RecordEvent)]
