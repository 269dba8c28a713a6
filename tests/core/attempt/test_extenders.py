"""Extenders take part in decisions: their nodes, their scores, their victims, their errors."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from scheduler.model.decisions import Decision, Failed, Placed, Unschedulable, Waiting
from scheduler.model.effects import Ask, Bind, Question, SetCondition
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


def asked(cluster: Cluster) -> list[str]:
    """Return what extenders were asked: the number of one, the verb, and the nodes."""
    questions = [each for effect in cluster.asked(Ask) for each in effect.questions]
    return [" ".join((str(each.extender), each.verb.value, *each.nodes)) for each in questions]


def decisions(cluster: Cluster, name: str) -> list[Decision]:
    return [each.decision for each in cluster.attempts if each.pod.name == name]


TWO, THREE = (node("n1"), node("n2")), (node("n1"), node("n2"), node("n3"))
OF_GPUS = FILTER.replace("}]", ", managedResources: [{name: example.com/gpu}]}]")
TWO_FILTERS = FILTER.replace("}]", "}, {urlPrefix: http://f, filterVerb: filter}]")
P = pod("p")
#: A configuration, nodes, a pod, what extenders say, the decision, and what they were asked.
ATTEMPTS: dict[str, tuple[Any, ...]] = {
    "only nodes that the extender takes are used": (
        FILTER, THREE, P, only("n2"), Placed("n2"), ["0 filter n1 n2 n3"],
    ),
    "a node that does not fit is not asked about": (
        FILTER, (node("small").cpu("1"), node("n2").cpu("2")), P.cpu("2"), only("n2"),
        Placed("n2"), ["0 filter n2"],
    ),
    "each filters what the one before accepted": (
        TWO_FILTERS, THREE, P,
        lambda asked: only("n1", "n2" if asked.extender else "n3")(asked),
        Placed("n1"), ["0 filter n1 n2 n3", "1 filter n1 n3"],
    ),
    "one that manages resources is not asked about other pods": (
        OF_GPUS, TWO[:1], P, only(), Placed("n1"), [],
    ),
    "one that manages resources is asked about pods that request them": (
        OF_GPUS, (node("n1").has({"example.com/gpu": "1"}),),
        P.requests({"example.com/gpu": "1"}), only("n1"), Placed("n1"), ["0 filter n1"],
    ),
    "only the nominated node is sent first": (
        FILTER, TWO, P.nominated("n2"), only("n1", "n2"), Placed("n2"), ["0 filter n2"],
    ),
    "all nodes are sent where the nominated one is refused": (
        FILTER, TWO, P.nominated("n2"), only("n1"), Placed("n1"),
        ["0 filter n2", "0 filter n1 n2"],
    ),
    "all nodes are sent where the nominated one is an error": (
        FILTER, TWO, P.nominated("n2"),
        lambda asked: only("n1")(asked) if len(asked.nodes) > 1 else ERROR,
        Placed("n1"), ["0 filter n2", "0 filter n1 n2"],
    ),
    "one that fails fails the attempt": (
        FILTER, TWO[:1], P, lambda _: ERROR, Failed("it is broken"), ["0 filter n1"],
    ),
    "an ignorable one that fails has no say": (
        ignorable(FILTER), TWO[:1], P, lambda _: ERROR, Placed("n1"), ["0 filter n1"],
    ),
    "nothing is scored where there is no choice": (
        SCORE, TWO[:1], P, lambda _: ERROR, Placed("n1"), [],
    ),
    "one that cannot score is ignored": (
        SCORE, (node("n1").cpu("2"), node("n2").cpu("64")), P.cpu("1"), lambda _: ERROR,
        Placed("n2"), ["0 prioritize n1 n2"],
    ),
    "several score at once": (
        SCORE.replace("}]", "}, {urlPrefix: http://f, prioritizeVerb: p, weight: 1}]"), TWO, P,
        lambda asked: Scored((("n1", 1), ("n2", 5 * asked.extender))), Placed("n2"),
        ["0 prioritize n1 n2", "1 prioritize n1 n2"],
    ),
    "a node that only an extender rejected has no victims": (
        FILTER, (node("n1").cpu("4"), pod("low").on("n1").cpu("1").priority(1)),
        P.cpu("1").priority(10), only(failed={"n1": "no"}),
        Unschedulable(
            "0/1 nodes are available: 1 no. preemption: expected at least one victim pod on node "
            '"n1"'
        ),
        ["0 filter n1"],
    ),
    "its reasons are in the message": (
        FILTER, (*THREE, node("n4")), P,
        only(failed={"n1": "no license", "n2": "no license", "n3": "soon"},
             unresolvable={"n3": "broken"}),
        Unschedulable(
            "0/4 nodes are available: 1 broken, 2 no license. no new claims to deallocate, "
            "preemption: 0/4 nodes are available: "
            "2 No preemption victims found for incoming pod, "
            "2 Preemption is not helpful for scheduling."
        ),
        ["0 filter n1 n2 n3 n4"],
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "objects", "wanted", "says", "want", "questions"), ATTEMPTS.values(), ids=ATTEMPTS
)
def test_an_attempt_with_extenders(config, objects, wanted, says, want, questions):
    cluster = Cluster(*objects, config=config)
    cluster.extender = says

    assert cluster.schedule(wanted) == want
    assert cluster.evicted() == []
    assert asked(cluster) == questions


def test_the_plugin_of_a_rejection_is_the_extender():
    cluster = Cluster(*TWO, config=FILTER)
    cluster.extender = only()

    cluster.schedule(P)

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


def test_an_attempt_fails_when_extenders_cannot_be_asked_even_if_they_are_ignorable():
    cluster = Cluster(node("n1"), config=ignorable(FILTER))
    cluster.hold(Ask)
    cluster.add(pod("p"))
    cluster.step()

    cluster.fail()
    cluster.step()

    assert decisions(cluster, "p") == [Waiting((0,)), Failed("asking extenders: no")]
    assert cluster.phase("p") is QueuePhase.BACKOFF


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
