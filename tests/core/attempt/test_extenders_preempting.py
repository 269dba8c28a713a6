"""Extenders take part in preemption: they choose nodes and victims."""

from collections.abc import Callable
from typing import Any

import pytest

from scheduler.model.decisions import (
    Failed,
    Placed,
    Preempting,
    Unschedulable,
    Waiting,
)
from scheduler.model.effects import Ask, Question, Verb
from scheduler.model.extender_answers import (
    ExtenderAnswer,
    ExtenderVictims,
    Filtered,
    NoAnswer,
    VictimUids,
)
from scheduler.model.policies import PodSelection, PreemptionPolicy
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.policies import at_most

PREEMPT = "extenders: [{urlPrefix: http://e, preemptVerb: preempt}]\n"
FILTER = "extenders: [{urlPrefix: http://e, filterVerb: filter}]\n"
ERROR = NoAnswer("it is broken")


def ignorable(config: str) -> str:
    return config.replace("}]\n", ", ignorable: true}]\n")


def ask(cluster: Cluster) -> Ask:
    """Return the question that waits for an answer."""
    (held,) = cluster.held
    assert isinstance(held, Ask)
    return held


def preemption(config: str = PREEMPT) -> Cluster:
    """Return two full nodes; what runs on the first is less important."""
    return Cluster(
        node("n1").cpu("2"),
        node("n2").cpu("2"),
        pod("a1").on("n1").cpu("1").priority(1),
        pod("a2").on("n1").cpu("1").priority(1),
        pod("b").on("n2").cpu("2").priority(5),
        config=config,
    )


def uids(cluster: Cluster, *names: str) -> tuple[str, ...]:
    return tuple(cluster.ref(name).uid for name in names)


def agrees(question: Question) -> ExtenderAnswer:
    """Accept everything."""
    if question.verb is Verb.FILTER:
        return Filtered(question.nodes)
    uids = [(each.node, tuple(victim.uid for victim in each.pods)) for each in question.victims]
    return ExtenderVictims(tuple(VictimUids(*each) for each in uids))


def refuses(*nodes: str) -> Callable[[Question], ExtenderAnswer]:
    """Return an extender that refuses some nodes."""

    def answer(question: Question) -> ExtenderAnswer:
        failed = {name: "no license" for name in question.nodes if name in nodes}
        return Filtered(tuple(name for name in question.nodes if name not in nodes), failed)

    return answer


def chooses(*victims: tuple[str, str], violations: int = 0) -> Callable[[Question], ExtenderAnswer]:
    """Return an extender that wants these pods of these nodes to go."""

    def answer(_: Question) -> ExtenderAnswer:
        return ExtenderVictims(
            tuple(
                VictimUids(name, tuple(f"uid:default/{each}" for each in pods.split()), violations)
                for name, pods in victims
            )
        )

    return answer


FILTERS_TOO = PREEMPT.replace("}]", ", filterVerb: filter}]")
BOTH = PREEMPT.replace("}]", "}, {urlPrefix: http://f, filterVerb: filter}]")
OF_GPUS = FILTER.replace("}]", ", managedResources: [{name: example.com/gpu}]}]")
SPARED = PreemptionPolicy(
    "spare", victims=PodSelection(max_priority=1), max_victims_per_preemption=0
)
C = (node("n3").cpu("1"), pod("c").on("n3").cpu("1").priority(3))
#: A configuration, what there is besides, what extenders say, where is preempted, which pods go,
#: and what extenders were asked about.
PREEMPTIONS: dict[str, tuple[Any, ...]] = {
    "it is asked about all candidates": (
        PREEMPT, (), agrees, "n1", "a2", ["n1 a2; n2 b"],
    ),
    "it chooses nodes and victims": (
        PREEMPT, (), chooses(("n1", "a1 a2")), "n1", "a1 a2", ["n1 a2; n2 b"],
    ),
    "the first victim decides between its candidates": (
        PREEMPT, (), chooses(("n2", "b"), ("n1", "a1 a2")), "n1", "a1 a2", ["n1 a2; n2 b"],
    ),
    "an ignorable one that fails changes nothing": (
        ignorable(PREEMPT), (), lambda _: ERROR, "n1", "a2", ["n1 a2; n2 b"],
    ),
    "a node with a veto does not outdate its answer": (
        PREEMPT, (SPARED,), agrees, "n2", "b", ["n2 b"],
    ),
    "one that filters is asked about the chosen node": (
        FILTER, (), agrees, "n1", "a2", ["n1"],
    ),
    "one that filters, and a node with a veto": (
        FILTER, (SPARED,), agrees, "n2", "b", ["n2"],
    ),
    "where the chosen node is refused the best of the others is taken": (
        FILTER, C, refuses("n1"), "n3", "c", ["n1", "n2 n3"],
    ),
    "an ignorable one that fails to filter": (
        ignorable(FILTER), (), lambda _: ERROR, "n1", "a2", ["n1"],
    ),
    "one without interest in the preemptor is not asked": (
        OF_GPUS, (), lambda _: ERROR, "n1", "a2", [],
    ),
    "one that filters and preempts is asked for its victims only": (
        FILTERS_TOO, (), agrees, "n1", "a2", ["n1 a2; n2 b"],
    ),
    "a preemption needs those that preempt and those that filter": (
        BOTH, (), lambda asked: (refuses("n1") if asked.extender else agrees)(asked), "n2", "b",
        ["n1 a2; n2 b", "n1", "n2 b", "n2", "n2 b"],
    ),
}  # fmt: skip


def said(question: Question) -> str:
    if question.verb is Verb.FILTER:
        return " ".join(question.nodes)
    return "; ".join(
        " ".join((each.node, *(victim.name for victim in each.pods))) for each in question.victims
    )


@pytest.mark.parametrize(
    ("config", "more", "says", "on", "gone", "questions"), PREEMPTIONS.values(), ids=PREEMPTIONS
)
def test_a_preemption_with_extenders(config, more, says, on, gone, questions):
    cluster = preemption(config)
    cluster.add(*more)
    cluster.extender = says

    decision = cluster.schedule(pod("p").cpu("1").priority(10))

    assert isinstance(decision, Preempting)
    assert (decision.node, decision.victims) == (on, cluster.refs(*gone.split()))
    assert cluster.evicted() == gone.split()
    assert [said(each) for asked in cluster.asked(Ask) for each in asked.questions] == questions


def test_violations_are_those_that_an_extender_names():
    cluster = preemption()
    cluster.extender = chooses(("n1", "a1 a2"), violations=1)

    assert cluster.schedule(pod("p").cpu("1").priority(10)).violations == 1


def test_no_victim_is_evicted_before_the_answer():
    cluster = preemption(FILTER)
    cluster.hold(Ask)
    cluster.add(pod("p").cpu("1").priority(10))
    cluster.step()

    assert (cluster.nominations(), cluster.evicted()) == ({}, [])


def no_preemption(message: str) -> Unschedulable:
    return Unschedulable(f"0/2 nodes are available: 2 Insufficient cpu. {message}")


NOTHING_LEFT = "no new claims to deallocate, preemption: no candidate node for preemption"


@pytest.mark.parametrize(
    ("config", "says", "want"),
    [
        pytest.param(PREEMPT, ERROR, "preemption: it is broken", id="it fails"),
        pytest.param(PREEMPT, ExtenderVictims(()), NOTHING_LEFT, id="none"),
        pytest.param(
            PREEMPT,
            ExtenderVictims((VictimUids("n1", ()),)),
            'preemption: expected at least one victim pod on node "n1"',
            id="a node without a victim",
        ),
        pytest.param(
            ignorable(PREEMPT),
            ExtenderVictims((VictimUids("n1", ()),)),
            NOTHING_LEFT,
            id="a node without a victim, from an ignorable one",
        ),
        pytest.param(
            PREEMPT,
            ExtenderVictims((VictimUids("n1", ("stranger",)),)),
            "preemption: extender: http://e claims to preempt pod (UID: &{stranger}) on node: n1, "
            "but the pod is not found on that node",
            id="a victim that is not there",
        ),
        pytest.param(
            PREEMPT,
            ExtenderVictims((VictimUids("n9", ("stranger",)),)),
            'preemption: nodeinfo not found for node name "n9"',
            id="a node that is not there",
        ),
    ],
)
def test_no_pod_is_evicted_without_consent_and_the_nomination_stays(
    config: str, says: ExtenderAnswer, want: str
):
    cluster = preemption(config)
    cluster.extender = lambda _: says

    decision = cluster.schedule(pod("p").cpu("1").priority(10).nominated("n2"))

    assert decision == no_preemption(want)
    assert cluster.evicted() == []
    assert cluster.nominations() == {"p": "n2"}


@pytest.mark.parametrize(("gone", "left"), [("a2", "n2"), ("b", "n1")])
def test_a_victim_deleted_during_a_call_is_not_sent_to_the_extender_again(gone: str, left: str):
    cluster = preemption()
    cluster.hold(Ask)
    cluster.add(pod("p").cpu("2").priority(10))
    cluster.step()
    about = [each.node for each in ask(cluster).questions[0].victims]
    answer = ExtenderVictims(
        tuple(
            VictimUids(each.node, tuple(victim.uid for victim in each.pods))
            for each in ask(cluster).questions[0].victims
        )
    )
    cluster.add(pod("other").on("n1" if gone == "a2" else "n2").cpu("1").priority(20))
    cluster.delete(gone)

    cluster.answer(answer)
    cluster.step()

    assert about == ["n1", "n2"]
    assert [each.node for each in ask(cluster).questions[0].victims] == [left]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Filtered((), dict.fromkeys(("n1", "n2"), "no license")), "2 no license."),
        (Filtered((), {}, dict.fromkeys(("n1", "n2"), "broken")), "2 broken."),
        (Filtered(()), "2 node(s) refused by an extender before the preemption."),
    ],
    ids=["failed", "unresolvable", "dropped"],
)
def test_no_pod_is_evicted_for_a_pod_that_an_extender_refuses_everywhere(
    answer: Filtered, reason: str
):
    cluster = preemption(FILTER)
    cluster.extender = lambda _: answer

    decision = cluster.schedule(pod("p").cpu("1").priority(10))

    assert decision == no_preemption(
        f"no new claims to deallocate, preemption: 0/2 nodes are available: {reason}"
    )
    assert cluster.evicted() == []


def test_an_extender_that_fails_to_filter_candidates_ends_the_attempt():
    cluster = preemption(FILTER)
    cluster.extender = lambda _: ERROR

    assert cluster.schedule(pod("p").cpu("1").priority(10)) == Failed("it is broken")
    assert cluster.evicted() == []


def test_a_pod_that_fits_when_the_extender_has_answered_evicts_no_other():
    cluster = preemption(FILTER)
    cluster.hold(Ask)
    cluster.add(pod("p").cpu("1").priority(10))
    cluster.step()
    cluster.delete("b")
    cluster.hold()
    cluster.extender = agrees

    cluster.answer(Filtered(("n1",)))
    decisions = [each.decision for each in cluster.drain()]

    assert [each for each in decisions if not isinstance(each, Waiting)] == [Placed("n2")]
    assert cluster.evicted() == []


@pytest.mark.parametrize("config", [PREEMPT, FILTER], ids=["preempt", "filter"])
def test_what_policies_refuse_by_the_time_of_the_answer_is_not_evicted(config: str):
    cluster = preemption(config)
    cluster.hold(Ask)
    cluster.add(pod("p").cpu("1").priority(10))
    cluster.step()
    cluster.add(PreemptionPolicy("new", max_victims_per_preemption=0))
    cluster.answer(agrees(*ask(cluster).questions))
    cluster.drain()

    assert cluster.evicted() == []


@pytest.mark.parametrize("config", [PREEMPT, FILTER], ids=["preempt", "filter"])
def test_pods_that_wait_for_extenders_share_one_budget(config: str):
    cluster = preemption(config)
    cluster.add(
        node("n1").cpu("2").label("zone", "a"),
        node("n2").cpu("2").label("zone", "b"),
        PreemptionPolicy("limit", budgets=at_most(1)),
    )
    cluster.extender = agrees
    cluster.hold(Ask)
    for zone in ("a", "b"):
        cluster.add(pod(f"p-{zone}").cpu("1").priority(10).selects(zone=zone))
    cluster.drain()
    assert len(cluster.held) == 2
    cluster.answer()
    cluster.answer()
    cluster.drain()

    assert cluster.evicted() == ["a2"]
