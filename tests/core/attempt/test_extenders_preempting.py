"""Extenders take part in preemption: they choose nodes and victims."""

from collections.abc import Callable

import pytest

from scheduler.model.decisions import (
    Decision,
    Failed,
    Placed,
    Preempting,
    Unschedulable,
    Waiting,
)
from scheduler.model.effects import Ask, NodeVictims, Question, Verb
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


def test_extenders_are_asked_about_all_candidates():
    cluster = preemption()
    cluster.hold(Ask)
    cluster.add(pod("p").cpu("1").priority(10))
    cluster.step()

    assert ask(cluster).questions == (
        Question(
            0,
            Verb.PREEMPT,
            victims=(
                NodeVictims("n1", cluster.refs("a2"), 0),
                NodeVictims("n2", cluster.refs("b"), 0),
            ),
        ),
    )


def test_an_extender_chooses_nodes_and_victims():
    cluster = preemption()
    cluster.extender = lambda _: ExtenderVictims(
        (VictimUids("n1", uids(cluster, "a1", "a2"), 1),),
    )

    decision = cluster.schedule(pod("p").cpu("1").priority(10))

    assert isinstance(decision, Preempting)
    assert decision.node == "n1"
    assert decision.victims == cluster.refs("a1", "a2")
    assert decision.violations == 1
    assert cluster.evicted() == ["a1", "a2"]


def test_the_first_victim_decides_between_candidates_of_an_extender():
    cluster = preemption()
    cluster.extender = lambda _: ExtenderVictims(
        (VictimUids("n2", uids(cluster, "b")), VictimUids("n1", uids(cluster, "a1", "a2"))),
    )

    decision = cluster.schedule(pod("p").cpu("1").priority(10))

    assert isinstance(decision, Preempting)
    assert decision.node == "n1"


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


def test_an_ignorable_extender_that_fails_changes_no_preemption():
    cluster = preemption(ignorable(PREEMPT))
    cluster.extender = lambda _: ERROR

    cluster.schedule(pod("p").cpu("1").priority(10))

    assert cluster.evicted() == ["a2"]


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


@pytest.mark.parametrize("config", [PREEMPT, FILTER], ids=["preempt", "filter"])
def test_a_node_with_a_veto_does_not_outdate_the_answer_of_an_extender(config: str):
    cluster = preemption(config)
    low = PodSelection(max_priority=1)
    cluster.add(PreemptionPolicy("spare", victims=low, max_victims_per_preemption=0))
    cluster.extender = agrees

    assert_preempts(cluster.schedule(pod("p").cpu("1").priority(10)), "n2")


# Extenders that only filter


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


def questions(cluster: Cluster) -> list[Question]:
    return [each for asked in cluster.asked(Ask) for each in asked.questions]


def assert_preempts(decision: Decision, on: str) -> None:
    assert isinstance(decision, Preempting)
    assert decision.node == on


def test_an_extender_that_filters_is_asked_about_the_chosen_node_before_a_victim_is_evicted():
    cluster = preemption(FILTER)
    cluster.hold(Ask)
    cluster.add(pod("p").cpu("1").priority(10))
    cluster.step()

    assert ask(cluster).questions == (Question(0, Verb.FILTER, ("n1",)),)
    assert cluster.nominations() == {}

    cluster.answer(Filtered(("n1",)))
    cluster.drain()

    assert cluster.evicted() == ["a2"]


def test_where_the_chosen_node_is_refused_the_best_of_the_others_is_taken():
    cluster = preemption(FILTER)
    cluster.add(node("n3").cpu("1"))
    cluster.add(pod("c").on("n3").cpu("1").priority(3))
    cluster.extender = refuses("n1")

    assert_preempts(cluster.schedule(pod("p").cpu("1").priority(10)), "n3")
    assert [each.nodes for each in questions(cluster)] == [("n1",), ("n2", "n3")]
    assert cluster.evicted() == ["c"]


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


def test_an_extender_that_fails_to_filter_candidates_ends_the_attempt_unless_it_is_ignorable():
    cluster = preemption(FILTER)
    cluster.extender = lambda _: ERROR
    assert cluster.schedule(pod("p").cpu("1").priority(10)) == Failed("it is broken")
    assert cluster.evicted() == []

    cluster = preemption(ignorable(FILTER))
    cluster.extender = lambda _: ERROR
    assert_preempts(cluster.schedule(pod("p").cpu("1").priority(10)), "n1")


def test_an_extender_without_interest_in_the_preemptor_is_not_asked_about_candidates():
    managed = ", managedResources: [{name: example.com/gpu}]}]\n"
    cluster = preemption(FILTER.replace("}]\n", managed))

    assert_preempts(cluster.schedule(pod("p").cpu("1").priority(10)), "n1")
    assert questions(cluster) == []


def test_an_extender_that_filters_and_preempts_is_only_asked_for_its_victims():
    cluster = preemption(PREEMPT.replace("}]", ", filterVerb: filter}]"))
    cluster.extender = agrees

    assert_preempts(cluster.schedule(pod("p").cpu("1").priority(10)), "n1")
    assert [each.verb for each in questions(cluster)] == [Verb.PREEMPT]


def test_a_preemption_needs_the_extenders_that_preempt_and_those_that_filter():
    both = PREEMPT.replace("}]", "}, {urlPrefix: http://f, filterVerb: filter}]")
    cluster = preemption(both)
    cluster.extender = lambda each: (refuses("n1") if each.extender else agrees)(each)

    assert_preempts(cluster.schedule(pod("p").cpu("1").priority(10)), "n2")


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
