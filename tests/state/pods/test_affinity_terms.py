"""Which pods affinity terms select."""

import pytest

from scheduler.model.api.objects import LabelSelector, PodAffinityTerm, Requirement
from scheduler.model.api.selectors import Selector
from scheduler.model.releases import REFERENCES, V1_36, V1_37, Reference
from scheduler.state.pods import affinity_terms
from scheduler.state.pods.affinity_terms import NO_TERMS, compiled, matches_all_terms, spelled
from tests.support.affinities import away, labels, near, term
from tests.support.builders import PodBuilder, pod, requirement

TEAMS = {"blue": {"team": "blue"}, "red": {"team": "red"}, "bare": {}}
NONSENSE = PodAffinityTerm(labels(requirement("app", "Nonsense")), topology_key="zone")


def only_term(given: PodAffinityTerm, owner: str = "default") -> affinity_terms.AffinityTerm:
    (found,) = compiled(near(pod("owner").namespace(owner), given).build()).affinity
    return found


@pytest.mark.parametrize(
    ("given", "namespace", "want"),
    [
        pytest.param(term("zone", app="x"), "mine", True, id="its own namespace by default"),
        pytest.param(term("zone", app="x"), "blue", False, id="no other one by default"),
        pytest.param(
            term("zone", namespaces=["blue"], app="x"), "mine", False, id="listed ones instead"
        ),
        pytest.param(term("zone", namespaces=["blue"], app="x"), "blue", True, id="listed ones"),
        pytest.param(
            term("zone", among=labels(team="blue"), app="x"), "mine", False, id="selected instead"
        ),
        pytest.param(term("zone", among=labels(team="blue"), app="x"), "blue", True, id="selected"),
        pytest.param(term("zone", among=labels(), app="x"), "unknown", True, id="all"),
        pytest.param(
            term("zone", among=labels(team="blue"), app="x"), "unknown", False,
            id="an unknown namespace has no labels",
        ),
        pytest.param(
            term("zone", namespaces=["red"], among=labels(team="blue"), app="x"), "red", True,
            id="listed ones besides selected ones",
        ),
    ],
)  # fmt: skip
def test_a_term_of_an_existing_pod_is_matched_with_the_namespace(
    given: PodAffinityTerm, namespace: str, want: bool
) -> None:
    found = only_term(given, owner="mine")

    assert found.matches(namespace, {"app": "x"}, TEAMS.get(namespace, {})) is want
    assert not found.matches(namespace, {"app": "y"}, TEAMS.get(namespace, {}))


def test_a_term_without_a_label_selector_selects_no_pod() -> None:
    found = only_term(PodAffinityTerm(None, ["blue"], "zone", LabelSelector()))

    assert not found.matches("blue", {}, {})


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(term("zone"), frozenset({"mine"}), id="its own"),
        pytest.param(term("zone", namespaces=["red"]), frozenset({"red"}), id="listed"),
        pytest.param(
            term("zone", namespaces=["gone"], among=labels(team="blue")),
            frozenset({"gone", "blue"}),
            id="listed and selected",
        ),
        pytest.param(term("zone", among=labels(team="grey")), frozenset(), id="none"),
        pytest.param(term("zone", among=labels()), None, id="all"),
    ],
)
@pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES)
def test_the_term_of_an_incoming_pod_has_a_scope(
    given: PodAffinityTerm, want: frozenset[str] | None, reference: Reference
) -> None:
    assert only_term(given, owner="mine").of_incoming(reference).scope(TEAMS) == want


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


def test_a_pod_without_affinity_has_no_terms() -> None:
    assert compiled(pod("plain").build()) is NO_TERMS


def test_all_four_lists_are_kept_apart_with_their_weights() -> None:
    made = near(away(pod("p"), term("a"), weight=7), term("b"), weight=3)
    made = near(away(made, term("c")), term("d"))

    found = compiled(made.build())

    assert [(each.topology_key, each.weight) for each in found.affinity] == [("d", 0)]
    assert [(each.topology_key, each.weight) for each in found.anti_affinity] == [("c", 0)]
    assert [(each.topology_key, each.weight) for each in found.preferred_affinity] == [("b", 3)]
    assert [(each.topology_key, each.weight) for each in found.preferred_anti_affinity] == [
        ("a", 7)
    ]
    assert not found.error


def test_an_invalid_term_empties_its_list_and_no_other() -> None:
    found = compiled(away(near(pod("p"), term("zone"), NONSENSE), term("zone")).build())

    assert found.affinity == ()
    assert len(found.anti_affinity) == 1
    assert found.error == (
        "requiredAffinityTerms: 'Nonsense' is not a valid label selector operator"
    )


def test_all_invalid_lists_are_named() -> None:
    found = compiled(away(near(pod("p"), NONSENSE, weight=1), NONSENSE).build())

    assert found.error.startswith("[requiredAntiAffinityTerms: ")
    assert ", preferredAffinityTerms: " in found.error


def test_an_invalid_namespace_selector_is_an_error_as_well() -> None:
    among = labels(requirement("team", "Nonsense"))

    assert compiled(near(pod("p"), term("zone", among=among)).build()).error


@pytest.mark.parametrize(
    ("given", "want"),
    [
        pytest.param(pod("p"), False, id="no terms match nothing"),
        pytest.param(near(pod("p"), term("a", app="x"), term("b", tier="t")), True, id="all"),
        pytest.param(near(pod("p"), term("a", app="x"), term("b", tier="u")), False, id="not all"),
        pytest.param(
            near(pod("p"), term("a", among=labels(team="blue"), app="x")), False,
            id="labels of namespaces are left aside",
        ),
    ],
)  # fmt: skip
def test_whether_all_terms_select_a_pod(given: PodBuilder, want: bool) -> None:
    other = pod("other").label("app", "x").label("tier", "t").build()

    assert matches_all_terms(compiled(given.build()).affinity, other) is want


def test_only_equal_selectors_have_equal_bytes() -> None:
    by_map = Selector.of(labels(b="2", a="1"))
    by_expression = Selector.of(labels(requirement("a", "In", "1"), requirement("b", "In", "2")))

    assert spelled(by_map) == spelled(by_expression)
    assert len({spelled(by_map), spelled(Selector(())), spelled(None)}) == 3
