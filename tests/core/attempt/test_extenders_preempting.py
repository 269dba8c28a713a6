"""Extenders take part in preemption: they choose nodes and victims."""

import pytest

from scheduler.model.decisions import Preempting, Unschedulable
from scheduler.model.effects import Ask, NodeVictims, Question, Verb
from scheduler.model.extender_answers import ExtenderAnswer, ExtenderVictims, NoAnswer, VictimUids
from tests.support.builders import node, pod
from tests.support.cluster import Cluster

PREEMPT = "extenders: [{urlPrefix: http://e, preemptVerb: preempt}]\n"
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
