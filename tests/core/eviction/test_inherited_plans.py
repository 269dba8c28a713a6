"""A new leader checks the plan that it finds on a preemptor as if a stranger had written it."""

import pytest

from scheduler.model.decisions import Preempting
from scheduler.model.effects import Evict, Nominate
from scheduler.model.extender_answers import Filtered
from scheduler.model.plan_record import VERSION, PlanRecord, encode, fingerprint
from scheduler.model.policies import Budget, PreemptionPolicy
from scheduler.state.preemption.ledger import UNCERTAIN_FOR
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster

SYSTEM = 2_000_001_000


def system_pod(name: str, on: str = "n1") -> PodBuilder:
    return pod(name).namespace("kube-system").on(on).cpu("2").priority(SYSTEM)


def preemptor(*victims: PodBuilder, wait_only: bool = False, priority: int = 10) -> PodBuilder:
    """Return a pod on which a plan is found that names some victims."""
    marks = tuple(fingerprint("uid:default/mine", each.build().uid) for each in victims)
    named = PlanRecord(VERSION, "n1", 0.0, () if wait_only else marks, marks if wait_only else ())
    mine = pod("mine").cpu("2").priority(priority).nominated("n1")
    return mine.planned(encode(named))


def restarted(*objects: object, config: str = "") -> Cluster:
    cluster = Cluster(node("n1").cpu("4"), *objects, config=config)
    cluster.restart()
    cluster.drain()
    return cluster


@pytest.mark.parametrize(
    "wait_only", [pytest.param(False, id="a victim"), pytest.param(True, id="only waited for")]
)
def test_no_pod_of_higher_priority_is_evicted(wait_only):
    etcd, dns = system_pod("etcd"), system_pod("dns")

    cluster = restarted(etcd, dns, preemptor(etcd, wait_only=wait_only))

    assert cluster.evicted() == []


def test_no_pod_of_equal_priority_is_evicted():
    a, b = (pod(name).on("n1").cpu("2").priority(10) for name in "ab")

    cluster = restarted(a, b, preemptor(a, b))

    assert cluster.evicted() == []


def test_a_pod_of_higher_priority_is_left_out_and_the_plan_is_not_enough():
    etcd, low = system_pod("etcd"), pod("low").on("n1").cpu("1").priority(1)

    cluster = restarted(etcd, low, system_pod("dns").cpu("1"), preemptor(etcd, low))

    assert cluster.evicted() == []


def test_a_pod_that_must_not_preempt_evicts_no_pod():
    low = pod("low").on("n1").cpu("4").priority(1)

    cluster = restarted(low, preemptor(low).never_preempts())

    assert cluster.evicted() == []


def test_a_profile_without_preemption_evicts_no_pod():
    low = pod("low").on("n1").cpu("4").priority(1)
    config = "profiles: [{plugins: {postFilter: {disabled: [{name: DefaultPreemption}]}}}]\n"

    cluster = restarted(low, preemptor(low), config=config)

    assert cluster.evicted() == []


def test_a_plan_for_another_node_than_the_nomination_is_ignored():
    low = pod("low").on("n1").cpu("4").priority(1)
    cheaper = pod("cheaper").on("n2").cpu("2").priority(0)

    cluster = restarted(node("n2").cpu("2"), low, cheaper, preemptor(low).nominated("n2"))

    assert cluster.evicted() == ["cheaper"]


def test_a_policy_applies_if_the_ledger_has_not_counted_the_victims_for_it():
    low = pod("low").on("n1").cpu("4").priority(1)
    policy = PreemptionPolicy("none", generation=1, budgets=(Budget(0, 3600.0),))
    cluster = Cluster(node("n1").cpu("4"), low, preemptor(low))

    cluster.restart()
    cluster.add(policy)
    cluster.drain()

    assert cluster.evicted() == []


def test_a_victim_that_was_only_waited_for_is_not_evicted_after_a_crash():
    cluster = Cluster(
        node("n1").cpu("4"), node("n2").cpu("8"),
        pod("v").on("n1").cpu("4").priority(5), pod("w").on("n2").cpu("8").priority(50),
    )  # fmt: skip
    cluster.hold(Evict)
    assert isinstance(cluster.schedule(pod("x").cpu("4").priority(10)), Preempting)
    cluster.delete("w")
    cluster.change("x", lambda own: own.on("n2").nominated(""))
    cluster.add(pod("w2").on("n2").cpu("4").priority(50))
    cluster.schedule(pod("b").cpu("4").priority(3))
    cluster.restart()
    cluster.forget_effects()

    cluster.drain()

    assert cluster.evicted() == []


def test_a_plan_that_an_error_kept_from_being_checked_is_checked_later():
    config = "extenders: [{urlPrefix: http://e, filterVerb: filter}]\n"
    low = pod("low").on("n1").cpu("4").priority(1)
    cluster = Cluster(node("n1").cpu("4"), node("n2").cpu("2"), low, preemptor(low), config=config)
    cluster.restart()
    cluster.drain()  # no extender answers: the attempt fails
    assert cluster.evicted() == []

    cluster.extender = lambda question: Filtered((), dict.fromkeys(question.nodes, "no"), {})
    cluster.wait(15)
    cluster.drain()

    assert cluster.evicted() == ["low"]
    assert cluster.asked(Nominate) == []


def test_victims_that_an_earlier_leader_counted_count_until_they_are_seen_to_run_on():
    policy = PreemptionPolicy("one", generation=1, budgets=(Budget(1, 3600.0),))
    cluster = Cluster(node("n1").cpu("4"), pod("low").on("n1").cpu("4").priority(1), policy)
    cluster.hold(Evict)
    cluster.schedule(pod("high").cpu("4").priority(10))
    cluster.restart()
    cluster.add(policy, node("n2").cpu("4"))

    cluster.drain()

    assert cluster.pod("high").spec.node_name == "n2"
    cluster.forget_effects()
    # The earlier leader may have sent its request: what is known of the victim may be older.
    cluster.schedule(pod("next").cpu("4").priority(10))
    assert cluster.evicted() == []
    cluster.wait(UNCERTAIN_FOR)
    cluster.change("low", lambda own: own.label("seen", "later"))
    cluster.drain()
    assert cluster.evicted() == ["low"]
