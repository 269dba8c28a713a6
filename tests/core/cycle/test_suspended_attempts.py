"""The cluster changes during calls of extenders; an attempt never acts on outdated state."""

from types import NoneType

import pytest

from scheduler.core.attempt.scheduling_attempt import MAX_ROUNDS
from scheduler.model.decisions import Decision, Failed, Placed, Preempting, Unschedulable, Waiting
from scheduler.model.effects import Ask, Verb
from scheduler.model.extender_answers import ExtenderVictims, Filtered, Scored, VictimUids
from scheduler.queue.phases import QueuePhase
from tests.support.builders import node, pod
from tests.support.cluster import Cluster

FILTER = "extenders: [{urlPrefix: http://e, filterVerb: filter}]\n"
SCORE = "extenders: [{urlPrefix: http://e, prioritizeVerb: prioritize, weight: 3}]\n"
PREEMPT = "extenders: [{urlPrefix: http://e, preemptVerb: preempt}]\n"
GPU = {"example.com/gpu": "1"}
OF_SOME = """
    extenders:
    - {urlPrefix: http://e, filterVerb: f, managedResources: [{name: example.com/gpu}]}
"""


def asking(*objects: object, config: str = FILTER) -> Cluster:
    """Return a cluster in which extenders are being asked about the pod `p`."""
    cluster = Cluster(*objects, config=config)
    cluster.hold(Ask)
    cluster.step()
    assert cluster.phase("p") is QueuePhase.WAITING_FOR_EXTENDERS
    return cluster


def asked(cluster: Cluster) -> Ask:
    """Return the latest question."""
    effect = cluster.asked(Ask)[-1]
    assert isinstance(effect, Ask)
    return effect


def final(cluster: Cluster, name: str) -> Decision | None:
    """Go on until there is a decision about a pod, or another question."""
    for attempt in cluster.drain():
        if attempt.pod.name == name and not isinstance(attempt.decision, Waiting):
            return attempt.decision
    return None


def test_other_pods_are_decided_meanwhile():
    cluster = Cluster(node("n1").has(GPU).cpu("4"), config=OF_SOME)
    cluster.hold(Ask)
    cluster.add(pod("slow").requests(GPU).priority(10), pod("quick").cpu("1"))

    decisions = {each.pod.name: each.decision for each in cluster.drain()}

    assert decisions == {"slow": Waiting((0,)), "quick": Placed("n1")}
    cluster.answer(Filtered(("n1",)))
    assert final(cluster, "slow") == Placed("n1")


def test_suspended_attempts_resume_in_the_order_of_their_answers():
    cluster = Cluster(node("n1").cpu("4"), config=FILTER)
    cluster.hold(Ask)
    cluster.add(pod("a"), pod("b"))
    cluster.drain()
    first, second = cluster.held

    for each in (second, first):
        assert isinstance(each, Ask)
        cluster.answer(Filtered(("n1",)), ask=each)

    assert [attempt.pod.name for attempt in cluster.drain()] == ["b", "a"]


def test_an_attempt_reports_how_long_it_waited():
    cluster = asking(node("n1"), pod("p"))

    cluster.now += 2.5
    cluster.answer(Filtered(("n1",)))
    attempt = cluster.step()

    assert attempt is not None
    assert (attempt.decision, attempt.waited, attempt.number) == (Placed("n1"), 2.5, 1)


ONE = (node("n1").cpu("1"), pod("p").cpu("1"))
TWO = (node("n1"), node("n2"), pod("p"))
#: What changes while the extender is asked about all nodes, which it accepts, and the decision.
CHANGES = {
    "nothing": (ONE, lambda cluster: None, Placed("n1")),
    "the pod is deleted": (ONE, lambda cluster: cluster.delete("p"), None),
    "the pod terminates": (
        ONE, lambda cluster: cluster.change("p", lambda own: own.terminating()), None,
    ),
    "another scheduler binds the pod": (
        TWO, lambda cluster: cluster.change("p", lambda own: own.on("n2")), None,
    ),
    "a node is deleted": (TWO, lambda cluster: cluster.delete_node("n1"), Placed("n2")),
    "all nodes are deleted": (
        ONE, lambda cluster: cluster.delete_node("n1"),
        Unschedulable("no nodes available to schedule pods"),
    ),
    "another pod takes the only node": (
        ONE, lambda cluster: cluster.add(pod("other").on("n1").cpu("1").priority(100)),
        Unschedulable(
            "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
            "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
        ),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("objects", "change", "want"), CHANGES.values(), ids=CHANGES)
def test_a_change_during_the_call_counts(objects, change, want):
    cluster = asking(*objects)

    change(cluster)
    cluster.answer(Filtered(asked(cluster).questions[0].nodes))

    assert final(cluster, "p") == want
    assert cluster.machine.cluster.assumed == 0


def test_a_pod_deleted_after_the_answer_is_not_placed():
    cluster = asking(*ONE)

    cluster.answer(Filtered(("n1",)))
    cluster.delete("p")

    assert cluster.step() is None


def test_an_answer_for_a_pod_that_was_deleted_and_recreated_is_dropped():
    cluster = asking(node("n1"), pod("p"))
    old = asked(cluster)
    cluster.delete("p")
    cluster.add(pod("p"))
    cluster.step()

    cluster.answer(Filtered(()), ask=old)

    assert cluster.step() is None
    cluster.answer(Filtered(("n1",)))
    assert final(cluster, "p") == Placed("n1")


def test_a_second_answer_is_dropped():
    cluster = asking(node("n1"), pod("p"))
    effect = asked(cluster)
    cluster.answer(Filtered(("n1",)))
    cluster.held.append(effect)

    cluster.answer(Filtered(()), ask=effect)

    assert final(cluster, "p") == Placed("n1")
    assert cluster.step() is None


def test_a_pod_that_changes_is_asked_about_again():
    cluster = asking(node("n1").label("zone", "a"), node("n2"), pod("p"))

    cluster.change("p", lambda builder: builder.selects(zone="a"))
    cluster.answer(Filtered(("n2",)))
    cluster.step()

    assert asked(cluster).questions[0].nodes == ("n1",)
    cluster.answer(Filtered(("n1",)))
    assert final(cluster, "p") == Placed("n1")


def test_capacity_that_another_pod_took_is_not_assigned_twice():
    cluster = asking(
        node("n1").cpu("1").has(GPU),
        node("n2").cpu("1").has(GPU),
        pod("p").cpu("1").requests({**GPU, "cpu": "1"}),
        config=OF_SOME,
    )
    cluster.add(pod("quick").cpu("1").selects())
    quick = final(cluster, "quick")
    assert isinstance(quick, Placed)

    cluster.answer(Filtered(("n1", "n2")))

    assert final(cluster, "p") == Placed("n2" if quick.node == "n1" else "n1")


def test_when_all_accepted_nodes_are_lost_new_ones_are_asked_about():
    cluster = asking(node("n1").cpu("1"), pod("p").cpu("1"))

    cluster.delete_node("n1")
    cluster.add(node("n2").cpu("1"))
    cluster.answer(Filtered(("n1",)))
    cluster.step()

    assert asked(cluster).questions[0].nodes == ("n2",)
    cluster.answer(Filtered(("n2",)))
    assert final(cluster, "p") == Placed("n2")


def test_an_attempt_whose_accepted_nodes_are_lost_time_and_again_fails():
    cluster = asking(node("n0").cpu("1"), pod("p").cpu("1"))

    for number in range(MAX_ROUNDS):
        assert asked(cluster).questions[0].nodes == (f"n{number}",)
        cluster.delete_node(f"n{number}")
        cluster.add(node(f"n{number + 1}").cpu("1"))
        cluster.answer(Filtered((f"n{number}",)))
        decision = final(cluster, "p")

    assert decision == Failed("extender results were outdated by cluster changes 5 times in a row")
    assert len(cluster.asked(Ask)) == MAX_ROUNDS
    assert cluster.phase("p") is QueuePhase.BACKOFF
    cluster.hold()
    cluster.extender = lambda question: Filtered(question.nodes)
    cluster.wait(15)
    assert final(cluster, "p") == Placed(f"n{MAX_ROUNDS}")


def test_a_node_that_an_extender_rejected_is_not_chosen_even_if_it_is_scored():
    cluster = asking(
        node("n1"),
        node("n2"),
        node("n3"),
        pod("p"),
        config=FILTER.replace("filterVerb", "prioritizeVerb: p, weight: 1, filterVerb"),
    )
    cluster.answer(Filtered(("n1", "n2")))
    cluster.step()

    assert [each.verb for each in asked(cluster).questions] == [Verb.PRIORITIZE]
    assert asked(cluster).questions[0].nodes == ("n1", "n2")
    cluster.delete_node("n2")
    cluster.answer(Scored((("n2", 10), ("n3", 10))))

    assert final(cluster, "p") == Placed("n1")


def test_a_node_added_during_scoring_is_chosen_only_if_all_others_are_lost():
    cluster = asking(node("n1"), node("n2"), pod("p"), config=SCORE)

    cluster.add(node("n3").cpu("1000"))
    cluster.answer(Scored((("n2", 1),)))
    assert final(cluster, "p") == Placed("n2")

    cluster.add(pod("q"))
    cluster.step()
    for name in ("n1", "n2", "n3"):
        cluster.delete_node(name)
    cluster.add(node("n4"))
    cluster.answer(Scored(()))
    assert final(cluster, "q") == Placed("n4")


def preempting() -> Cluster:
    """Return a cluster in which an extender is asked whether `low` may be evicted from `n1`."""
    return asking(
        node("n1").cpu("2"),
        pod("low").on("n1").cpu("2").priority(1),
        pod("p").cpu("2").priority(10),
        config=PREEMPT,
    )


def consent(cluster: Cluster, *names: str) -> ExtenderVictims:
    return ExtenderVictims((VictimUids("n1", tuple(cluster.ref(name).uid for name in names)),))


#: What changes while the extender is asked whether `low` may be evicted, and what comes of it.
BEFORE_CONSENT = {
    "nothing": (lambda cluster: None, Preempting, ["low"]),
    "the preemptor fits": (lambda cluster: cluster.add(node("n2").cpu("2")), Placed, []),
    "the preemptor is deleted": (lambda cluster: cluster.delete("p"), NoneType, []),
}


@pytest.mark.parametrize(("change", "want", "gone"), BEFORE_CONSENT.values(), ids=BEFORE_CONSENT)
def test_a_change_before_the_consent_counts(change, want, gone):
    cluster = preempting()
    consented = consent(cluster, "low")

    change(cluster)
    cluster.answer(consented)

    assert isinstance(final(cluster, "p"), want)
    assert cluster.evicted() == gone


def test_other_victims_than_asked_about_are_asked_about_again():
    cluster = preempting()

    cluster.delete("low")
    cluster.add(pod("next").on("n1").cpu("2").priority(2))
    cluster.answer(consent(cluster, "next"))
    cluster.step()

    assert cluster.evicted() == []
    (victims,) = asked(cluster).questions[0].victims
    assert victims.pods == cluster.refs("next")
