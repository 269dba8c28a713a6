"""Which pods affinity terms select."""

import pytest

from scheduler.model.api.objects import PodAffinityTerm, Requirement
from scheduler.model.api.selectors import Selector
from scheduler.model.releases import V1_36, V1_37
from scheduler.state.pods import affinity_terms
from scheduler.state.pods.affinity_terms import compiled, spelled
from tests.support.affinities import away, labels, near, term
from tests.support.builders import pod, requirement

TEAMS = {"blue": {"team": "blue"}, "red": {"team": "red"}, "bare": {}}
NONSENSE = PodAffinityTerm(labels(requirement("app", "Nonsense")), topology_key="zone")


def only_term(given: PodAffinityTerm, owner: str = "default") -> affinity_terms.AffinityTerm:
    (found,) = compiled(near(pod("owner").namespace(owner), given).build()).affinity
    return found


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(Requirement("team", "NotIn", ["blue"]), id="other values"),
        pytest.param(Requirement("team", "DoesNotExist", []), id="no such label"),
    ],
)
def test_a_namespace_selector_without_a_required_label(expression: Requirement) -> None:
    found = only_term(term("zone", among=labels(expression)), owner="mine")
    selected = {name for name, each in TEAMS.items() if each.get("team") != "blue"}
    if expression.operator == "DoesNotExist":
        selected = {name for name, each in TEAMS.items() if "team" not in each}

    assert found.of_incoming(V1_36).scope(TEAMS) is None
    assert found.of_incoming(V1_37).scope(TEAMS) == selected


def test_all_invalid_lists_are_named() -> None:
    found = compiled(away(near(pod("p"), NONSENSE, weight=1), NONSENSE).build())

    assert found.error.startswith("[requiredAntiAffinityTerms: ")
    assert ", preferredAffinityTerms: " in found.error


def test_only_equal_selectors_have_equal_bytes() -> None:
    by_map = Selector.of(labels(b="2", a="1"))
    by_expression = Selector.of(labels(requirement("a", "In", "1"), requirement("b", "In", "2")))

    assert spelled(by_map) == spelled(by_expression)
    assert len({spelled(by_map), spelled(Selector(())), spelled(None)}) == 3
