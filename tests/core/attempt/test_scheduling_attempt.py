"""One attempt: which nodes fit, what is said about the others, and which node is taken."""

from dataclasses import replace

from scheduler.core.attempt.scheduling_attempt import NO_NODES
from scheduler.framework.plugin import SKIP
from scheduler.framework.profile import PREEMPTION
from scheduler.framework.verdicts import Verdict
from scheduler.model.decisions import Attempt, Failed, NodeTrace, Placed, Preempting, Unschedulable
from scheduler.model.effects import SetCondition
from scheduler.queue.phases import QueuePhase
from tests.support.builders import OURS, node, pod
from tests.support.cluster import Cluster
from tests.support.custom_plugins import (
    Breaks,
    Likes,
    OnePodPerNode,
    Only,
    Prepares,
    Refuses,
    Says,
    with_filters,
    with_post_filters,
    with_scores,
)

NOT_HELPFUL = "Preemption is not helpful for scheduling"


def attempt_of(cluster: Cluster, wanted, *, explain: bool = False) -> Attempt:
    cluster.add(wanted)
    attempt = cluster.step(explain=explain)
    assert attempt is not None
    return attempt


# Nodes


def test_without_nodes_there_is_an_error_and_no_plugin_to_blame():
    cluster = Cluster()

    attempt = attempt_of(cluster, pod("p").nominated("n1"))

    assert attempt.decision == Unschedulable(NO_NODES)
    assert (attempt.plugins, attempt.preemption_tried) == ((), False)
    assert cluster.phase("p") is QueuePhase.BACKOFF
    (told,) = cluster.asked(SetCondition)
    assert (told.message, told.clear_nomination) == (NO_NODES, True)


def test_a_filter_that_looks_further_is_asked_about_survivors_only():
    cluster = Cluster(
        node("n1").taint("a"), node("n2"), pod("q").on("n1"), pod("r").on("n2"),
        using=with_filters(OnePodPerNode()),
    )  # fmt: skip

    attempt = attempt_of(cluster, pod("p"))

    assert attempt.plugins == ("OnePodPerNode", "TaintToleration")
    assert isinstance(attempt.decision, Unschedulable)
    assert attempt.decision.message.startswith(
        "0/2 nodes are available: 1 node(s) had a pod, 1 node(s) had untolerated taint(s)."
    )


def test_filters_keep_their_order_when_a_cluster_wide_one_is_first():
    own = with_filters()[OURS]
    using = {OURS: replace(own, filters=(OnePodPerNode(), *own.filters))}
    cluster = Cluster(node("n1").taint("a"), pod("q").on("n1"), using=using)

    assert attempt_of(cluster, pod("p")).plugins == ("OnePodPerNode",)


# The pod as a whole


def test_a_pod_that_is_rejected_as_a_whole_is_not_looked_at_further():
    verdict = Verdict("Prepares", ("it has no claim",), resolvable=False)
    cluster = Cluster(node("n1"), node("n2"), using=with_filters(Prepares(verdict)))

    attempt = attempt_of(cluster, pod("p"), explain=True)

    assert attempt.decision == Unschedulable("0/2 nodes are available: it has no claim. not found")
    assert (attempt.plugins, attempt.preemption_tried) == (("Prepares",), False)
    assert [trace.rejection for trace in attempt.trace] == ["Prepares: it has no claim"] * 2


def test_a_resolvable_pre_filter_rejection_lets_preemption_try_all_nodes():
    verdict = Verdict("Prepares", ("in use",), resolvable=True)
    cluster = Cluster(node("n1"), using=with_filters(Prepares(verdict)))

    attempt = attempt_of(cluster, pod("p"))

    assert attempt.preemption_tried
    assert attempt.decision == Unschedulable(
        "0/1 nodes are available: in use. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_of_resolvable_pre_filter_rejections_the_last_is_reported_and_all_plugins_are_blamed():
    one = Prepares(Verdict("A", ("first",), resolvable=True), name="A")
    two = Prepares(Verdict("B", ("second",), resolvable=True), name="B")
    cluster = Cluster(node("n1"), using=with_filters(one, two))

    attempt = attempt_of(cluster, pod("p"))

    assert attempt.plugins == ("A", "B")
    assert isinstance(attempt.decision, Unschedulable)
    assert attempt.decision.message.startswith("0/1 nodes are available: second.")


def test_an_unresolvable_pre_filter_rejection_ends_the_attempt_and_only_its_plugin_is_blamed():
    one = Prepares(Verdict("A", ("first",), resolvable=True), name="A")
    two = Prepares(Verdict("B", ("second",), resolvable=False), name="B")
    cluster = Cluster(node("n1"), using=with_filters(one, two))

    assert attempt_of(cluster, pod("p")).plugins == ("B",)


def test_a_rule_that_skips_is_not_asked_about_nodes():
    cluster = Cluster(node("n1"), using=with_filters(Prepares(SKIP)))

    assert cluster.schedule(pod("p")) == Placed("n1")


# Only some nodes


def test_names_of_several_plugins_are_intersected():
    cluster = Cluster(
        node("n1"), node("n2"), node("n3"),
        using=with_filters(Only("n1", "n2", name="A"), Only("n2", "n3", name="B")),
    )  # fmt: skip

    assert cluster.schedule(pod("p")) == Placed("n2")


def test_names_that_exclude_each_other_reject_the_pod_as_a_whole():
    cluster = Cluster(node("n1"), using=with_filters(Only("n1", name="A"), Only("n2", name="B")))

    attempt = attempt_of(cluster, pod("p"))

    assert attempt.plugins == ("A", "B")
    assert isinstance(attempt.decision, Unschedulable)
    assert attempt.decision.message.startswith(
        "0/1 nodes are available: node(s) didn't satisfy plugin(s) [A B] simultaneously."
    )


def test_a_plugin_that_names_no_node_at_all_rejects_the_pod_as_a_whole():
    cluster = Cluster(node("n1"), using=with_filters(Only(name="A")))

    decision = cluster.schedule(pod("p"))

    assert isinstance(decision, Unschedulable)
    assert decision.message.startswith("0/1 nodes are available: node(s) didn't satisfy plugin A.")


# Scores


def test_weights_multiply_scores():
    using = with_scores((Likes({"n1": 60}, name="A"), 1), (Likes({"n2": 25}, name="B"), 3))
    cluster = Cluster(node("n1"), node("n2"), using=using)

    attempt = attempt_of(cluster, pod("p"), explain=True)

    assert attempt.decision == Placed("n2")
    assert attempt.trace == (
        NodeTrace("n1", None, {"A": 60, "B": 0}),
        NodeTrace("n2", None, {"A": 0, "B": 75}),
    )


# Cures


def test_messages_of_post_filters_are_joined_and_that_of_preemption_has_its_name_in_front():
    cluster = Cluster(
        node("n1").cpu("1"), using=with_post_filters(Says("one"), Says("two"), PREEMPTION)
    )

    decision = cluster.schedule(pod("p").cpu("2"))

    assert decision == Unschedulable(
        "0/1 nodes are available: 1 Insufficient cpu. one, two, "
        f"preemption: 0/1 nodes are available: 1 {NOT_HELPFUL}."
    )


def test_a_post_filter_can_end_the_phase():
    cluster = Cluster(
        node("n1").cpu("1"),
        pod("low").on("n1").cpu("1").priority(-1),
        using=with_post_filters(Says("stop", ends=True), PREEMPTION),
    )

    attempt = attempt_of(cluster, pod("p").cpu("1"))

    assert attempt.decision == Unschedulable("0/1 nodes are available: 1 Insufficient cpu. stop")
    assert not attempt.preemption_tried


def nomination_after(cluster: Cluster) -> str | None:
    cluster.schedule(pod("p").cpu("2").nominated("n1"))
    return cluster.nominations().get("p")


def test_a_nomination_is_cleared_without_post_filters():
    assert nomination_after(Cluster(node("n1").cpu("1"), using=with_post_filters())) is None


def test_post_filters_that_do_not_mention_a_nomination_keep_it():
    assert (
        nomination_after(Cluster(node("n1").cpu("1"), using=with_post_filters(Says("no")))) == "n1"
    )


# Errors and the attempt itself


def test_a_rule_that_breaks_fails_the_attempt_and_no_other_pod():
    using = with_filters(Breaks(lambda each: each.metadata.name == "odd"))
    cluster = Cluster(node("n1"), using=using)

    assert cluster.schedule(pod("odd").priority(9)) == Failed("RuntimeError: the rule broke")
    assert cluster.phase("odd") is QueuePhase.BACKOFF
    assert cluster.schedule(pod("p")) == Placed("n1")


def test_an_attempt_names_the_pod_the_number_of_nodes_and_its_own_number():
    cluster = Cluster(node("n1"), node("n2").cordoned(), node("n3"))

    attempt = attempt_of(cluster, pod("p").priority(5))

    assert (attempt.pod, attempt.priority, attempt.scheduler_name) == (cluster.ref("p"), 5, OURS)
    assert (attempt.nodes, attempt.feasible, attempt.number) == (3, 2, 1)


# Rules that preemption cannot, or can, cure


def test_no_pod_is_evicted_for_a_rejection_that_preemption_cannot_resolve():
    cluster = Cluster(
        node("n1").cpu("1"), pod("low").on("n1").priority(-1), using=with_filters(Refuses("n1"))
    )

    decision = cluster.schedule(pod("p"))

    assert isinstance(decision, Unschedulable)
    assert decision.message.endswith(f"1 {NOT_HELPFUL}.")


def test_no_pod_is_evicted_for_a_rule_that_rejects_the_node_with_any_pods():
    refuses = Refuses("n1", resolvable=True)
    cluster = Cluster(node("n1"), pod("low").on("n1").priority(-1), using=with_filters(refuses))

    decision = cluster.schedule(pod("p"))

    assert isinstance(decision, Unschedulable)
    assert decision.message.endswith(
        "preemption: 0/1 nodes are available: 1 node(s) did not please Refuses."
    )


def test_a_pod_that_makes_a_node_filter_reject_is_a_victim():
    cluster = Cluster(
        node("n1").cpu("4"), pod("low").on("n1").cpu("1"), using=with_filters(OnePodPerNode())
    )

    assert cluster.schedule(pod("p").cpu("1").priority(9)) == Preempting(
        "n1", cluster.refs("low"), 0, "0/1 nodes are available: 1 node(s) had a pod."
    )
