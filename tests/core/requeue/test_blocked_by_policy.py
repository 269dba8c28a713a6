"""Pods that a rule blocks: what wakes them, and that no state of deleted ones is kept."""

from typing import Any

import pytest

from scheduler.core.preemption.policy.engine import PolicyEngine
from scheduler.core.preemption.policy.vetoes import CandidateVetoes, Veto
from scheduler.model.api.objects import Pod
from scheduler.model.decisions import Preempting
from scheduler.model.effects import Nominate
from scheduler.model.policies import Budget, DisruptionBudgets, ForeignVictims
from scheduler.model.policy_vetoes import EVICT_ONLY
from scheduler.queue.phases import QueuePhase
from tests.support.builders import PdbBuilder, PodBuilder, node, pdb
from tests.support.cluster import Cluster
from tests.support.policies import HOUR, nodes, policy, refused, running, victims, wants

STRICT = policy(disruption_budgets=DisruptionBudgets.STRICT)


def ready(name: str, where: str = "n1", space: str = "default") -> PodBuilder:
    return (
        running(name, where, "4").label("app", "web").condition("Ready", "True").meta(
            namespace=space, uid=f"uid:{space}/{name}"
        )
    )  # fmt: skip


def protects(allows: int = 0, space: str = "default") -> PdbBuilder:
    return pdb("b").selects(app="web").allows(allows).namespace(space)


def held(cluster: Cluster) -> int:
    return len(cluster.machine._wakeups.blocked)


def preempting(cluster: Cluster) -> list[str]:
    """Return the pods that preempt now, by name."""
    return [each.pod.name for each in cluster.drain() if isinstance(each.decision, Preempting)]


def phase(cluster: Cluster, name: str) -> Any:
    queued = cluster.machine.queue.get(cluster.ref(name).uid)
    return None if queued is None else queued.phase


def test_a_disruption_budget_wakes_the_pods_that_it_blocks_and_no_others():
    cluster = Cluster(STRICT, *nodes("n1"), ready("web"), protects(), protects(9, "other"))
    assert "disruption budgets" in refused(cluster.schedule(wants()))

    cluster.add(protects(8, "other"))
    cluster.add(pdb("new").selects(app="db").allows(3))
    cluster.delete_budget("other/b")

    assert phase(cluster, "high") is QueuePhase.UNSCHEDULABLE
    cluster.add(protects(1))
    cluster.wait(2)
    assert [victims(each.decision) for each in cluster.drain()] == [["web"]]


@pytest.mark.parametrize("many", [1, 8])
def test_every_disruption_budget_that_blocks_a_pod_wakes_it(many):
    """With many nodes candidates are evaluated together, with few one by one."""
    names = [f"n{number}" for number in range(many)]
    cluster = Cluster(
        STRICT, *nodes(*names), ready("first", "n0"),
        *(ready(f"web{number}", name, "other") for number, name in enumerate(names[1:])),
        protects(), protects(0, "other"),
    )  # fmt: skip
    assert "disruption budgets" in refused(cluster.schedule(wants()))

    if many > 1:
        cluster.add(protects(1, "other"))
    else:
        cluster.delete_budget("default/b")
    cluster.wait(2)

    assert preempting(cluster) == ["high"]


@pytest.mark.parametrize("end", ["deleted", "bound", "finished"])
def test_no_state_is_kept_for_a_pod_that_is_removed_from_the_queue(end):
    cluster = Cluster(
        policy(foreign_victims=ForeignVictims.NEVER), *nodes("n1"),
        running("low", "n1", "4").scheduler("other"),
    )  # fmt: skip
    cluster.schedule(wants())
    assert held(cluster) == 1

    if end == "deleted":
        cluster.delete("high")
    else:
        cluster.change("high", lambda each: each.on("n9") if end == "bound" else each.finished())

    assert held(cluster) == 0


def two_that_share_a_budget() -> Cluster:
    """Return two nodes, and a pod whose nomination to the first is not answered yet."""
    cluster = Cluster(
        STRICT, protects(1),
        node("n1").cpu("4").label("zone", "a"), ready("web1", "n1"),
        node("n2").cpu("4").label("zone", "b"), ready("web2", "n2"),
    )  # fmt: skip
    cluster.hold(Nominate)
    cluster.add(wants("a", priority=10).selects(zone="a"))
    cluster.drain()
    cluster.hold()
    return cluster


def test_an_eviction_in_flight_ends_with_its_plan_and_frees_its_budget():
    cluster = two_that_share_a_budget()
    assert "disruption budgets" in refused(
        cluster.schedule(wants("b", priority=20).selects(zone="b"))
    )
    policies = cluster.machine.policies
    assert policies.relieved_pdbs(cluster.now) == frozenset()

    policies.plan_ended("uid:default/a")

    assert len(policies.in_flight) == 0
    freed = policies.relieved_pdbs(cluster.now)
    assert freed == {"default/b"}
    cluster.machine._wakeups.blocked.wake_for_pdbs(cluster.now, freed)
    cluster.wait(2)
    assert preempting(cluster) == ["b"]


def test_an_eviction_in_flight_that_was_sent_does_not_end_with_the_plan():
    cluster = Cluster(STRICT, *nodes("n1"), ready("web"), protects(1))
    assert victims(cluster.schedule(wants())) == ["web"]

    cluster.machine.policies.plan_ended("uid:default/high")
    cluster.machine.policies.victims_spared(["uid:default/web"])

    assert len(cluster.machine.policies.in_flight) == 1


def test_a_cached_refusal_is_not_used_after_an_eviction_in_flight_has_ended():
    """The cached refusal of the class depends on an eviction in flight that has ended."""
    cluster = two_that_share_a_budget()
    refused(cluster.schedule(wants("b", priority=20).selects(zone="b")))

    cluster.fail()
    cluster.delete("a")
    cluster.wait(400)

    assert preempting(cluster) == ["b"]


def test_ends_that_are_not_meant_any_more_are_not_kept():
    cluster = Cluster(policy(victim_min_runtime=HOUR), *nodes("n1"), running("low", "n1", "4"))
    for number in range(200):
        cluster.schedule(wants(f"high{number}"))
        cluster.delete(f"high{number}")

    assert len(cluster.machine._wakeups.blocked._ends) <= 100


# Evictions only


def against(vetoes: CandidateVetoes | None, victim: Pod) -> tuple[Veto, ...]:
    """Return the vetoes against evicting a pod from the first node."""
    assert vetoes is not None
    return vetoes.table_of({0: [victim]}).reader()(0)


def evict_only(cluster: Cluster) -> PolicyEngine:
    machine = cluster.machine
    return PolicyEngine(machine.cluster, machine.ledger, lambda _: True, evict_only=True)


def test_where_only_evictions_are_allowed_every_preemptor_is_strict():
    cluster = Cluster(*nodes("n1"), ready("web"), evict_only=True)
    policies = cluster.machine.policies
    cluster.add(protects())
    high, web = wants().build(), cluster.machine.cluster.find_pod("uid:default/web")

    (said,) = against(policies.vetoes(high, cluster.now, cluster.now), web)

    assert said.text == "evictOnly refuses: disruption budgets do not allow it"
    assert said.pdbs == {"default/b"}
    charge = policies.charge(high, "n1", [web], cluster.now)
    assert (charge.strict, charge.counts, charge.generations) == ({web.uid}, False, {})
    policies.count_vetoes([said])
    assert policies.refusal_counts == {(EVICT_ONLY, "podDisruptionBudgets", "Enforce"): 1}
    assert policies.figures(cluster.now) == {}


def test_where_only_evictions_are_allowed_policies_bind_as_well():
    cluster = Cluster(policy(max_victims_per_preemption=0), *nodes("n1"), ready("web"))
    policies = evict_only(cluster)
    web = cluster.machine.cluster.find_pod("uid:default/web")

    said = against(policies.vetoes(wants().build(), cluster.now, cluster.now), web)

    assert [each.text for each in said] == [
        'PreemptionPolicy "p" refuses: at most 0 victims per preemption'
    ]


# Wasted evictions


def test_a_pod_with_too_many_wasted_evictions_is_stopped_and_tried_after_an_hour():
    cluster = Cluster(*nodes("n1"), running("low", "n1", "4"))
    for number in range(3):
        cluster.machine.ledger.record_waste(
            "uid:default/high", "Pod/default/high", f"n{number + 5}", 1, cluster.now
        )

    said = refused(cluster.schedule(wants()))

    assert said.startswith(
        "PreemptionStopped: 3 evictions for this pod were wasted within the last hour (until "
    )
    cluster.wait(HOUR - 1)
    assert not [each for each in cluster.drain() if each.vetoes]
    cluster.wait(2)
    assert [victims(each.decision) for each in cluster.drain()] == [["low"]]


def test_a_node_on_which_preemption_failed_is_skipped_for_a_while():
    cluster = Cluster(*nodes("n1", "n2"), running("a", "n1", "4"), running("b", "n2", "4", 5))
    cluster.machine.ledger.record_waste(
        "uid:default/high", "Pod/default/high", "n1", 0, cluster.now
    )

    assert victims(cluster.schedule(wants())) == ["b"]


def test_a_victim_counted_by_an_earlier_process_can_be_uncounted():
    cluster = Cluster(policy(budgets=(Budget(1, HOUR),)), *nodes("n1"), running("low", "n1", "4"))
    cluster.schedule(wants())
    ledger = cluster.machine.ledger
    assert ledger.find_victim("uid:default/high") is None
    counted = ledger.find_victim("uid:default/low")
    assert counted is not None
    assert (counted.node, counted.policies) == ("n1", {"p"})

    ledger.take_back("uid:default/low")

    assert ledger.find_victim("uid:default/low") is None
