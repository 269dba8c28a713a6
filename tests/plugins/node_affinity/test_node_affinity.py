"""NodeAffinity: selectors and affinity, required and preferred, vectors and single nodes alike."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.framework.cluster_events import Action, Resource
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api import selectors
from scheduler.model.api.objects import NodeAffinity as Affinity
from scheduler.model.api.objects import NodeSelector, WeightedNodeTerm
from scheduler.plugins.node_affinity.node_affinity import NodeAffinity
from tests.support.builders import NodeBuilder, PodBuilder, node, pod, requirement, term
from tests.support.plugin_checks import (
    hint,
    rejected_as_a_whole,
    rejections,
    scored,
    state_of,
    verdicts_of,
)

PLUGIN = NodeAffinity()
REASON = "node(s) didn't match Pod's node affinity/selector"
ENFORCED = "node(s) didn't match scheduler-enforced node affinity"


def test_a_pod_without_affinity_is_skipped():
    state = state_of(node("n1"))

    assert PLUGIN.compile_filter(pod("p").build(), state, Verdicts()) is None
    assert PLUGIN.compile_score(pod("p").build(), state) is None


def test_an_empty_selector_rejects_no_node():
    assert rejections(PLUGIN, pod("p").selects(), state_of(node("n1"))) == {}


def test_a_rejection_cannot_be_resolved_by_preemption():
    state = state_of(node("n1").label("disk", "hdd"), node("n2").label("disk", "ssd"))

    assert verdicts_of(PLUGIN, pod("p").selects(disk="ssd"), state) == {
        "n1": Verdict("NodeAffinity", (REASON,), resolvable=False),
        "n2": None,
    }


# Names


def named(*terms: tuple[str, ...]) -> PodBuilder:
    """Return a pod with terms, each of which names nodes field by field."""
    return pod("p").needs(
        *(
            term(fields=tuple(requirement("metadata.name", "In", name) for name in names))
            for names in terms
        )
    )


def only(wanted: PodBuilder) -> frozenset[str] | None:
    compiled_filter = PLUGIN.compile_filter(wanted.build(), state_of(node("n1")), Verdicts())
    assert compiled_filter is not None
    return compiled_filter.node_names


def test_terms_that_all_name_nodes_allow_their_union():
    assert only(named(("n1",), ("n2",))) == {"n1", "n2"}


def test_fields_of_one_term_are_intersected():
    assert only(named(("n1", "n1"))) == {"n1"}
    assert only(named(("n1", "n2"))) == frozenset()


def test_a_term_that_names_no_node_allows_all():
    plain = term(requirement("disk", "Exists"))
    assert only(named(("n1",)).needs(plain)) is None
    other = term(fields=(requirement("metadata.name", "NotIn", "n1"),))
    assert only(pod("p").needs(other)) is None
    odd = term(fields=(requirement("metadata.uid", "In", "n1"),))
    assert only(pod("p").needs(odd)) is None


def test_names_that_exclude_each_other_reject_the_pod_as_a_whole():
    state = state_of(node("n1"), node("n2"))

    assert rejected_as_a_whole(PLUGIN, named(("n1", "n2")), state) == Verdict(
        "NodeAffinity", ("pod affinity terms conflict",), resolvable=False
    )
    assert rejected_as_a_whole(PLUGIN, named(("n1",)), state) is None


# Affinity that the configuration adds


def added(**facts: object) -> NodeAffinity:
    return NodeAffinity(replace(Affinity(), **facts))


BATCH = NodeSelector([term(requirement("pool", "In", "batch"))])


def test_an_added_affinity_has_a_separate_reason_and_is_checked_first():
    state = state_of(node("n1"), node("n2").label("pool", "batch"))

    assert rejections(added(required=BATCH), pod("p").selects(disk="ssd"), state) == {
        "n1": ENFORCED,
        "n2": REASON,
    }
    assert rejections(added(required=BATCH), pod("p"), state) == {"n1": ENFORCED}


def test_added_preferences_are_summed_with_those_of_the_pod():
    batch = WeightedNodeTerm(30, term(requirement("pool", "In", "batch")))
    state = state_of(node("n1").label("pool", "batch"), node("n2").label("disk"))

    liking = pod("p").likes(60, term(requirement("disk", "Exists")))

    assert scored(added(preferred=[batch]), liking, state) == {"n1": 50, "n2": 100}
    assert scored(added(preferred=[batch]), pod("p"), state) == {"n1": 100, "n2": 0}


# Preferences


def test_weights_of_matching_terms_add_up_and_the_best_gets_100():
    wanted = (
        pod("p")
        .likes(20, term(requirement("disk", "Exists")))
        .likes(80, term(requirement("disk", "In", "ssd")))
        .likes(0, term(requirement("zone", "Exists")))
    )
    state = state_of(
        node("hdd").label("disk", "hdd"), node("ssd").label("disk", "ssd"), node("no").label("zone")
    )

    assert scored(PLUGIN, wanted, state) == {"hdd": 20, "ssd": 100, "no": 0}


def test_a_preference_that_no_node_matches_adds_no_points():
    wanted = pod("p").likes(20, term(requirement("disk", "Exists"))).likes(5, term())

    assert scored(PLUGIN, wanted, state_of(node("n1"), node("n2"))) == {"n1": 0, "n2": 0}


# The vectors agree with the plain reading of one node

keys = st.sampled_from(["disk", "zone", "generation"])
values = st.sampled_from(["", "ssd", "a", "9", "10", "-1", "x"])
operators = st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Odd"])
expressions = st.builds(
    lambda key, operator, found: requirement(key, operator, *found),
    keys,
    operators,
    st.lists(values, max_size=2),
)
fields = st.builds(
    lambda operator, names: requirement("metadata.name", operator, *names),
    st.sampled_from(["In", "NotIn", "Exists"]),
    st.lists(st.sampled_from(["n0", "n1", "n9"]), max_size=2),
)
terms = st.builds(
    lambda found, named: term(*found, fields=tuple(named)),
    st.lists(expressions, max_size=3),
    st.lists(fields, max_size=1),
)
labels = st.dictionaries(keys, values)


def labelled(number: int, found: dict[str, str]) -> NodeBuilder:
    built = node(f"n{number}")
    for key, value in found.items():
        built = built.label(key, value)
    return built


@settings(max_examples=150)
@given(st.lists(labels, min_size=1, max_size=4), st.lists(terms, max_size=3), labels)
def test_vectors_agree_with_the_plain_reading(nodes, wanted_terms, selector):
    built = [labelled(number, found) for number, found in enumerate(nodes)]
    wanted = pod("p").selects(**selector).needs(*wanted_terms)

    want = {
        each.object.metadata.name
        for each in built
        if not selectors.matches_node_selection(wanted.object.spec, each.object)
    }

    assert set(rejections(PLUGIN, wanted, state_of(*built))) == want


# Hints

NODE_ADD = (Resource.NODE, Action.ADD)
LABELS = (Resource.NODE, Action.UPDATE_NODE_LABEL)
SSD = node("n").label("disk", "ssd")


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        (None, SSD, True),
        (None, node("n"), False),
        (node("n"), SSD, True),
        (SSD, SSD, False),
        (SSD, node("n"), False),
    ],
    ids=["added", "added without", "labelled", "as before", "label gone"],
)
def test_the_hint_queues_for_nodes_that_match_now(old, new, want):
    event = NODE_ADD if old is None else LABELS

    assert hint(PLUGIN, event, pod("p").selects(disk="ssd"), old, new) is want


def test_the_hint_skips_a_node_that_the_added_affinity_excludes():
    plugin = added(required=BATCH)
    wanted = pod("p").selects(disk="ssd")

    assert not hint(plugin, NODE_ADD, wanted, None, SSD)
    assert hint(plugin, NODE_ADD, wanted, None, SSD.label("pool", "batch"))
