"""Every decision equals that of the slow oracle, on random clusters."""

from hypothesis import event, given, settings

from scheduler.model.api.objects import Pod
from scheduler.model.decisions import Placed, Preempting, Unschedulable
from tests.properties.clusters import built, clusters
from tests.support import oracles
from tests.support.builders import PdbBuilder
from tests.support.oracles import View

#: Whether to look further than in an ordinary run: `pytest --hypothesis-profile=deep`.
DEEP = settings.default.max_examples > 100

SAID = "no new claims to deallocate, preemption: "


@settings(max_examples=5000 if DEEP else 200)
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
    """Assert that the victims free capacity, are less important, and that none could stay."""

    def fits(victims: tuple[Pod, ...]) -> bool:
        guests = oracles.Guests(view.pods[chosen.node])
        for victim in victims:
            guests.remove(victim)
        return oracles.with_claims(view, wanted, chosen.node, guests) is None

    assert all(victim.priority < wanted.priority for victim in chosen.victims)
    assert fits(chosen.victims)
    for spared in chosen.victims:
        assert not fits(tuple(victim for victim in chosen.victims if victim is not spared))
