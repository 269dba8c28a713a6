"""Every decision equals that of the slow oracle, on random clusters."""

import pytest
from hypothesis import event, given, settings

from scheduler.model.decisions import Placed, Preempting, Unschedulable
from tests.properties.clusters import built, clusters
from tests.support import oracles
from tests.support.builders import PdbBuilder
from tests.support.oracles import View
from tests.support.seeds import share

pytestmark = pytest.mark.seeded

#: Whether to look further than in an ordinary run: `pytest --hypothesis-profile=deep`.
DEEP = settings.default.max_examples > 100

SAID = "no new claims to deallocate, preemption: "


@settings(max_examples=5000 if DEEP else share(200))
@given(clusters())
def test_a_decision_is_the_one_of_the_oracle(drawn):
    objects, incoming = drawn
    cluster = built(objects)
    cluster.add(incoming)
    told = [each.build() for each in objects if isinstance(each, PdbBuilder)]
    view = View.of(cluster.machine, told)
    wanted = cluster.pod("p")

    decision = cluster.step().decision

    event(type(decision).__name__)
    check(view, wanted, decision)


def check(view: View, wanted, decision) -> None:
    """Compare a decision with what the oracle says of the same cluster."""
    fits = oracles.feasible(view, wanted)
    if fits:
        assert isinstance(decision, Placed)
        assert decision.node in fits
        return
    message = oracles.unschedulable(view, wanted)
    found = oracles.preemption(view, wanted)
    if isinstance(found, str):
        assert decision == Unschedulable(f"{message} {SAID}{found}")
        return
    assert isinstance(decision, Preempting), found
    (chosen,) = [each for each in found if each.node == decision.node]
    assert [ref.uid for ref in decision.victims] == [victim.uid for victim in chosen.victims]
    assert (decision.violations, decision.message) == (chosen.violations, message)
    needed(view, wanted, chosen)


def needed(view: View, wanted, chosen: oracles.Candidate) -> None:
    """Assert that the victims free capacity, are less important, and that none could stay.

    Where two pods have one host port, removing one of them frees the port for kube-scheduler. So
    the node_pods with a pod that stays are counted from the start.
    """
    here = view.pods[chosen.node]

    def fits(node_pods: oracles.NodePods) -> bool:
        return oracles.judge_with_nominated(view, wanted, chosen.node, node_pods) is None

    assert all(victim.priority < wanted.priority for victim in chosen.victims)
    freed = oracles.NodePods(here)
    for victim in chosen.victims:
        freed.remove(victim)
    assert fits(freed)
    for spared in chosen.victims:
        gone = {victim.uid for victim in chosen.victims if victim is not spared}
        assert not fits(oracles.NodePods([each for each in here if each.uid not in gone]))
