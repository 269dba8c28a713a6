"""Rows of the table in docs/preemption-policy.md: selection, rules for preemptors and victims."""

from typing import Any

from msgspec.structs import replace

from scheduler.model.base import OwnerReference
from scheduler.model.policies import (
    ForeignVictims,
    PodSelection,
    PolicyMode,
    PreemptionLimit,
    VictimsFrom,
)
from tests.support.builders import PodBuilder, namespace
from tests.support.cluster import Cluster, without_plan
from tests.support.policies import (
    HOUR,
    app,
    at_most,
    crowd,
    labelled,
    nodes,
    none,
    policy,
    refused,
    row,
    running,
    told,
    until,
    victims,
    wants,
)

# Which pods a policy selects


@row("binds")
def test_a_policy_binds_whose_preemptor_it_selects():
    wanted = PodSelection(
        namespaces=labelled(team="a"),
        pods=labelled(app="web"),
        min_priority=50,
        max_priority=100,
        priority_classes=frozenset({"high", "higher"}),
    )
    bound = wants().namespace("team-a").label("app", "web").spec(priority_class_name="high")
    others = (
        bound.namespace("team-b"),
        bound.label("app", "db"),
        bound.priority(49),
        bound.priority(101),
        bound.spec(priority_class_name="low"),
        wants().priority(60),
    )

    def decide(preemptor: PodBuilder) -> Any:
        cluster = Cluster(
            namespace("team-a", team="a"),
            namespace("team-b", team="b"),
            policy(preemptors=wanted, max_victims_per_preemption=0),
            *crowd(1),
        )
        return cluster.schedule(preemptor)

    assert refused(decide(bound)) == none(1, f"1 {told('at most 0 victims per preemption')}")
    for other in others:
        assert victims(decide(other)) == ["low-n1"]


@row("protects")
def test_rules_count_the_victims_that_the_policy_selects():
    cluster = Cluster(
        policy(victims=app("web"), max_victims_per_preemption=1),
        *nodes("n1", "n2"),
        running("db", "n1").label("app", "db"),
        running("web", "n1").label("app", "web"),
        running("web-1", "n2", priority=-1).label("app", "web"),
        running("web-2", "n2", priority=-1).label("app", "web"),
    )

    assert victims(cluster.schedule(wants())) == ["db", "web"]


@row("no-rule")
def test_a_policy_without_a_rule_changes_nothing():
    without, bound = Cluster(*crowd(3)), Cluster(policy(), *crowd(3))

    assert bound.schedule(wants()) == without.schedule(wants())
    assert [*map(without_plan, bound.effects[1:])] == [*map(without_plan, without.effects[1:])]


@row("all-allow")
def test_all_policies_must_allow_a_preemption_and_those_that_refuse_are_named():
    cluster = Cluster(
        policy("a", max_victims_per_preemption=1),
        policy("b", max_victims_per_preemption=2),
        policy("c", budgets=at_most(1)),
        *nodes("n1"), running("x"), running("y"),
    )  # fmt: skip

    assert refused(cluster.schedule(wants())) == none(
        1,
        f"1 {told('at most 1 victim per preemption', 'a')}",
        f"1 {told('at most 1 victim within 1h', 'c')}",
    )


@row("leaving")
def test_a_pod_that_terminates_anyway_is_not_counted():
    cluster = Cluster(
        policy(max_victims_per_preemption=1, victim_min_runtime=HOUR, victims=app("web")),
        *nodes("n1"),
        running("leaves").label("app", "web").terminating(),
        running("stays"),
    )

    assert victims(cluster.schedule(wants())) == ["leaves", "stays"]
    assert cluster.evicted() == ["stays"]


@row("another-node")
def test_a_refused_node_is_skipped_and_the_next_best_is_chosen():
    cluster = Cluster(
        policy(max_victims_per_preemption=1),
        *nodes("n1", "n2"), running("a1", "n1"), running("a2", "n1"),
        running("b", "n2", "4", priority=50),
    )  # fmt: skip

    assert victims(cluster.schedule(wants())) == ["b"]


@row("audit")
def test_an_audit_refuses_nothing_and_counts_what_it_would_refuse():
    cluster = Cluster(policy(mode=PolicyMode.AUDIT, max_victims_per_preemption=0), *crowd(1))

    assert victims(cluster.schedule(wants())) == ["low-n1"]
    (veto,) = cluster.attempts[-1].vetoes
    assert veto.text == told("at most 0 victims per preemption")
    refused_so_far = cluster.machine.policies.refusal_counts
    assert refused_so_far == {("p", "maxVictimsPerPreemption", "Audit"): 1}


# Per preemptor


@row("stop")
def test_neither_the_mode_nor_the_selections_of_a_policy_limit_its_stop():
    limited = {"mode": PolicyMode.AUDIT, "preemptors": app("x"), "victims": app("x")}
    cluster = Cluster(policy(stop="incident", **limited), *crowd(1))

    assert refused(cluster.schedule(wants())) == f"{told('all preemption is stopped: incident')}."


@row("delay")
def test_a_preemptor_waits_before_it_preempts():
    cluster = Cluster(policy(preemptor_delay=30), *crowd(1))

    said = refused(cluster.schedule(wants()))
    cluster.wait(29)
    early = cluster.drain()
    cluster.wait(1)
    (attempt,) = cluster.drain()

    assert said == f"{told('preemptors must have waited for at least 30s')}{until(30)}."
    assert early == []
    assert victims(attempt.decision) == ["low-n1"]


@row("preemptions")
def test_the_pods_of_one_owner_preempt_only_so_often():
    cluster = Cluster(policy(max_preemptions_per_owner=PreemptionLimit(1, HOUR)), *crowd(4))

    def of(name: str, owner: str) -> PodBuilder:
        return wants(name).owner("ReplicaSet", owner)

    assert victims(cluster.schedule(of("w1", "web")))
    cluster.finish_terminating()
    cluster.wait(600)
    cluster.drain()
    said = refused(cluster.schedule(of("w2", "web")))
    assert said == f"{told('at most 1 preemption within 1h per owner')}{until(HOUR)}."
    assert victims(cluster.schedule(of("d1", "db")))

    cluster.wait(HOUR - 600)
    (attempt,) = (each for each in cluster.drain() if each.pod.name == "w2")
    assert victims(attempt.decision)


# Per victim


@row("runtime")
def test_a_pod_that_has_not_run_long_enough_is_not_evicted():
    def decide(*pods: PodBuilder) -> Any:
        cluster = Cluster(policy(victim_min_runtime=600), *nodes("n1", "n2"), *pods)
        return cluster.schedule(wants())

    young, old = running("young", "n1", "4").started(401), running("old", "n2", "4").started(400)
    new = running("new", "n2", "4").not_started()

    assert victims(decide(young, old.priority(9))) == ["old"]
    rule = told("victims have run for less than 10m")
    assert refused(decide(young, new)) == none(2, f"2 {rule}{until(1)}")


@row("foreign-never")
def test_pods_of_other_schedulers_are_not_evicted():
    cluster = Cluster(
        policy(foreign_victims=ForeignVictims.NEVER),
        *nodes("n1", "n2"),
        running("theirs", "n1", "4").scheduler("default-scheduler"),
        running("ours", "n2", "4", priority=9),
    )

    assert victims(cluster.schedule(wants())) == ["ours"]


@row("foreign-looping")
def test_pods_of_other_schedulers_are_not_evicted_when_preempting_such_pods_failed_before():
    theirs = running("theirs", "n1", "4").scheduler("default-scheduler").owner("Job", "j")
    cluster = Cluster(policy(foreign_victims=ForeignVictims.NON_LOOPING), *nodes("n1"), theirs)
    web = wants().owner("ReplicaSet", "web")
    cluster.machine.ledger.record_failure(
        "ReplicaSet/default/web", "n9", ["Job/default/j"], cluster.now, lost=True
    )

    said = refused(cluster.schedule(web))

    rule = (
        "victims belong to other schedulers, and a recent preemption between the same owners was"
        " wasted"
    )
    assert said == none(1, f"1 {told(rule)}")
    assert victims(cluster.schedule(wants("other"))) == ["theirs"]


@row("foreign-always")
def test_the_scheduler_of_a_victim_does_not_matter():
    cluster = Cluster(
        policy(max_victims_per_preemption=1),
        *nodes("n1"), running("theirs", "n1", "4").scheduler("default-scheduler"),
    )  # fmt: skip

    assert victims(cluster.schedule(wants())) == ["theirs"]


@row("from-any")
def test_it_does_not_matter_how_victims_are_related_to_the_preemptor():
    cluster = Cluster(
        policy(max_victims_per_preemption=1),
        *nodes("n1"), running("theirs", "n1", "4").namespace("theirs").owner("Job", "j"),
    )  # fmt: skip

    assert victims(cluster.schedule(wants())) == ["theirs"]


@row("from-namespace")
def test_only_pods_of_the_preemptors_namespace_are_evicted():
    def decide(*pods: PodBuilder, **rules: Any) -> Any:
        cluster = Cluster(
            policy(victims_from=VictimsFrom.SAME_NAMESPACE, **rules), *nodes("n1", "n2"), *pods
        )
        return cluster.schedule(wants())

    theirs = running("theirs", "n1", "4").namespace("theirs").label("app", "web")
    also = running("also", "n2", "4", priority=9).namespace("others")
    own = running("own", "n2", "4", priority=9)

    assert victims(decide(theirs, own)) == ["own"]
    assert refused(decide(theirs, also)) == none(2, f"2 {told('victims are in other namespaces')}")
    # The relation is asked of the pods that the policy protects; who leaves anyway may leave.
    assert victims(decide(theirs, also, victims=app("db"))) == ["theirs"]
    assert victims(decide(theirs.terminating(), also)) == ["theirs"]
    assert victims(decide(theirs, also, mode=PolicyMode.AUDIT)) == ["theirs"]


@row("from-owner")
def test_only_pods_of_the_preemptors_controller_are_evicted():
    def decide(preemptor: PodBuilder, *pods: PodBuilder) -> Any:
        names = [f"n{number}" for number in range(len(pods))]
        placed = [pod.on(name) for name, pod in zip(names, pods, strict=True)]
        cluster = Cluster(policy(victims_from=VictimsFrom.SAME_OWNER), *nodes(*names), *placed)
        return cluster.schedule(preemptor)

    def named(*references: OwnerReference) -> PodBuilder:
        return running("named", cpu="4").meta(owner_references=list(references))

    bare, own = running("bare", cpu="4"), running("own", cpu="4", priority=9).owner("Job", "j")
    high, reference = wants().owner("Job", "j"), own.object.metadata.owner_references[0]
    unrelated = [
        bare,
        running("other", cpu="4").owner("Job", "k"),
        own.namespace("theirs"),  # the same uid, in a namespace whose users wrote it down
        named(replace(reference, uid="again")),  # it was deleted, and created again by this name
        named(replace(reference, controller=False)),
    ]
    reason = told("victims have other owners")

    assert victims(decide(high, bare, own)) == ["own"]
    for pod in unrelated:
        assert refused(decide(high, pod)) == none(1, f"1 {reason}")
    # Without a controller a pod has the owner of no other pod.
    assert refused(decide(wants(), bare, own)) == none(2, f"2 {reason}")
    unnamed = [replace(reference, uid="")]
    preemptor = wants().meta(owner_references=unnamed)
    assert refused(decide(preemptor, named(*unnamed))) == none(1, f"1 {reason}")
