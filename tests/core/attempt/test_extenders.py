"""Extenders take part in decisions: their nodes, their scores, their victims, their errors."""

from collections.abc import Callable, Mapping

import pytest

from scheduler.model.decisions import Decision, Failed, Placed, Unschedulable, Waiting
from scheduler.model.effects import Ask, Bind, Question, SetCondition, Verb
from scheduler.model.extender_answers import ExtenderAnswer, Filtered, NoAnswer, Scored
from scheduler.queue.phases import QueuePhase
from tests.support.builders import node, pod
from tests.support.cluster import Cluster

FILTER = "extenders: [{urlPrefix: http://e, filterVerb: filter}]\n"
SCORE = "extenders: [{urlPrefix: http://e, prioritizeVerb: prioritize, weight: 3}]\n"
IGNORABLE = ", ignorable: true}]\n"
ERROR = NoAnswer("it is broken")


def ignorable(config: str) -> str:
    return config.replace("}]\n", IGNORABLE)


def only(*names: str, **reasons: Mapping[str, str]) -> Callable[[Question], ExtenderAnswer]:
    """Return an extender that takes some nodes."""

    def answer(question: Question) -> ExtenderAnswer:
        return Filtered(tuple(each for each in question.nodes if each in names), **reasons)

    return answer


def questions(cluster: Cluster) -> list[Question]:
    return [each for asked in cluster.asked(Ask) for each in asked.questions]


def decisions(cluster: Cluster, name: str) -> list[Decision]:
    return [each.decision for each in cluster.attempts if each.pod.name == name]


# Filter


def test_only_nodes_that_the_extender_takes_are_used():
    cluster = Cluster(node("n1"), node("n2"), node("n3"), config=FILTER)
    cluster.extender = only("n2")

    assert cluster.schedule(pod("p")) == Placed("n2")
    assert questions(cluster) == [Question(0, Verb.FILTER, ("n1", "n2", "n3"))]


def test_a_node_that_does_not_fit_is_not_asked_about():
    cluster = Cluster(node("small").cpu("1"), node("n2").cpu("2"), config=FILTER)
    cluster.extender = only("n2")

    assert cluster.schedule(pod("p").cpu("2")) == Placed("n2")
    assert questions(cluster) == [Question(0, Verb.FILTER, ("n2",))]


def test_each_extender_filters_the_nodes_that_the_previous_one_accepted():
    cluster = Cluster(
        node("n1"),
        node("n2"),
        node("n3"),
        config=FILTER.replace("}]", "}, {urlPrefix: http://f, filterVerb: filter}]"),
    )
    cluster.extender = lambda question: only("n1", "n2" if question.extender else "n3")(question)

    assert cluster.schedule(pod("p")) == Placed("n1")
    assert questions(cluster) == [
        Question(0, Verb.FILTER, ("n1", "n2", "n3")),
        Question(1, Verb.FILTER, ("n1", "n3")),
    ]


def test_an_extender_with_managed_resources_is_only_asked_about_pods_that_request_them():
    cluster = Cluster(
        node("n1").has({"example.com/gpu": "1"}),
        config="""
            extenders:
            - {urlPrefix: http://e, filterVerb: f, managedResources: [{name: example.com/gpu}]}
        """,
    )
    cluster.extender = only()

    assert cluster.schedule(pod("plain")) == Placed("n1")
    assert not cluster.asked(Ask)
    decision = cluster.schedule(pod("gpu").requests({"example.com/gpu": "1"}))
    assert isinstance(decision, Unschedulable)
    assert len(cluster.asked(Ask)) == 1


def test_the_reasons_of_an_extender_are_in_the_message():
    cluster = Cluster(node("n1"), node("n2"), node("n3"), node("n4"), config=FILTER)
    cluster.extender = only(
        failed={"n1": "no license", "n2": "no license", "n3": "soon"},
        unresolvable={"n3": "broken"},
    )

    decision = cluster.schedule(pod("p"))

    assert decision == Unschedulable(
        "0/4 nodes are available: 1 broken, 2 no license. no new claims to deallocate, "
        "preemption: 0/4 nodes are available: "
        "2 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )
    assert cluster.attempts[-1].plugins == ("Extender",)


def test_any_event_wakes_a_pod_that_an_extender_rejected():
    cluster = Cluster(node("n1"), config=FILTER)
    cluster.extender = only(failed={"n1": "no"})
    cluster.hold(SetCondition)
    cluster.schedule(pod("p"))
    assert cluster.phase("p") is QueuePhase.UNSCHEDULABLE

    woken = cluster.woken_by(pod("elsewhere").on("n1").label("of", "no interest"))

    assert woken == ["p"]


def test_a_pod_is_tried_again_after_an_event_during_a_call_that_refuses_it():
    cluster = Cluster(node("n1"), config=FILTER)
    # Its own condition would wake it, too.
    cluster.hold(Ask, SetCondition)
    cluster.add(pod("p"), pod("q"))
    cluster.drain()

    cluster.answer(Filtered(()))
    cluster.step()
    assert cluster.phase("p") is QueuePhase.UNSCHEDULABLE
    cluster.add(pod("elsewhere").on("n1"))
    cluster.answer(Filtered(()))
    cluster.step()

    assert cluster.phase("q") is QueuePhase.BACKOFF


def test_only_the_nominated_node_is_sent_to_the_extender_first():
    cluster = Cluster(node("n1"), node("n2"), config=FILTER)
    cluster.extender = only("n1", "n2")

    assert cluster.schedule(pod("p").nominated("n2")) == Placed("n2")
    assert questions(cluster) == [Question(0, Verb.FILTER, ("n2",))]


@pytest.mark.parametrize("says", [Filtered(()), ERROR], ids=["refused", "an error"])
def test_all_nodes_are_sent_when_the_extender_refuses_the_nominated_one(says: ExtenderAnswer):
    cluster = Cluster(node("n1"), node("n2"), config=FILTER)
    cluster.extender = lambda question: only("n1")(question) if len(question.nodes) > 1 else says

    assert cluster.schedule(pod("p").nominated("n2")) == Placed("n1")
    assert [each.nodes for each in questions(cluster)] == [("n2",), ("n1", "n2")]


def test_an_extender_that_fails_fails_the_attempt():
    cluster = Cluster(node("n1"), config=FILTER)
    cluster.extender = lambda _: ERROR

    assert cluster.schedule(pod("p")) == Failed("it is broken")
    assert cluster.phase("p") is QueuePhase.BACKOFF
    (told,) = cluster.asked(SetCondition)
    assert isinstance(told, SetCondition)
    assert (told.reason, told.message) == ("SchedulerError", "it is broken")


def test_an_ignorable_extender_that_fails_has_no_say():
    cluster = Cluster(node("n1"), config=ignorable(FILTER))
    cluster.extender = lambda _: ERROR

    assert cluster.schedule(pod("p")) == Placed("n1")


def test_an_attempt_fails_when_extenders_cannot_be_asked_even_if_they_are_ignorable():
    cluster = Cluster(node("n1"), config=ignorable(FILTER))
    cluster.hold(Ask)
    cluster.add(pod("p"))
    cluster.step()

    cluster.fail()
    cluster.step()

    assert decisions(cluster, "p") == [Waiting((0,)), Failed("asking extenders: no")]
    assert cluster.phase("p") is QueuePhase.BACKOFF


# Prioritize


def test_scores_of_extenders_count_with_their_weight():
    cluster = Cluster(node("n1"), node("n2"), config=SCORE)
    cluster.extender = lambda _: Scored((("n1", 1), ("n2", 4), ("n2", 3), ("unknown", 10)))
    cluster.add(pod("p"))
    cluster.step(explain=True)

    attempt = cluster.step(explain=True)

    assert attempt is not None
    assert attempt.decision == Placed("n2")
    assert {each.name: each.scores["http://e"] for each in attempt.trace} == {
        "n1": 1 * 3 * 10,
        "n2": 7 * 3 * 10,
    }


def test_several_extenders_score_at_once():
    cluster = Cluster(
        node("n1"),
        node("n2"),
        config=SCORE.replace("}]", "}, {urlPrefix: http://f, prioritizeVerb: p, weight: 1}]"),
    )
    cluster.extender = lambda question: Scored((("n1", 1), ("n2", 5 * question.extender)))

    assert cluster.schedule(pod("p")) == Placed("n2")
    assert [len(asked.questions) for asked in cluster.asked(Ask) if isinstance(asked, Ask)] == [2]


def test_nothing_is_scored_where_there_is_no_choice():
    cluster = Cluster(node("n1"), config=SCORE)

    assert cluster.schedule(pod("p")) == Placed("n1")
    assert not cluster.asked(Ask)


def test_an_extender_that_cannot_score_is_ignored():
    cluster = Cluster(node("n1"), node("n2").cpu("64"), config=SCORE)
    cluster.extender = lambda _: ERROR

    assert cluster.schedule(pod("p").cpu("1")) == Placed("n2")


def test_a_node_that_only_an_extender_rejected_has_no_victims():
    cluster = Cluster(node("n1").cpu("4"), pod("low").on("n1").cpu("1").priority(1), config=FILTER)
    cluster.extender = only(failed={"n1": "no"})

    decision = cluster.schedule(pod("p").cpu("1").priority(10))

    assert decision == Unschedulable(
        '0/1 nodes are available: 1 no. preemption: expected at least one victim pod on node "n1"'
    )
    assert cluster.evicted() == []


# Bind


def test_the_extender_that_binds_is_named_in_the_binding():
    cluster = Cluster(
        node("n1").has({"example.com/gpu": "1"}),
        config="""
            extenders:
            - {urlPrefix: http://e, filterVerb: f}
            - {urlPrefix: http://f, bindVerb: b, managedResources: [{name: example.com/gpu}]}
        """,
    )
    cluster.extender = only("n1")

    cluster.schedule(pod("plain"))
    cluster.schedule(pod("gpu").requests({"example.com/gpu": "1"}))

    binds = [each for each in cluster.asked(Bind) if isinstance(each, Bind)]
    assert {each.pod.name: each.extender for each in binds} == {"plain": None, "gpu": 1}


def test_a_binding_that_an_extender_refuses_is_reported_with_its_message():
    cluster = Cluster(node("n1"), config="extenders: [{urlPrefix: http://e, bindVerb: bind}]\n")
    cluster.hold(Bind)
    cluster.schedule(pod("p"))

    cluster.fail()

    (told,) = cluster.asked(SetCondition)
    assert isinstance(told, SetCondition)
    assert (told.reason, told.message) == ("SchedulerError", "no")
    assert cluster.phase("p") is QueuePhase.BACKOFF
