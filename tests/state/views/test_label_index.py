"""Selectors over many objects at once agree with selectors over single objects."""

import itertools

import numpy as np
import pytest

from scheduler.model.api import selectors
from scheduler.model.api.selectors import Selector
from scheduler.state.columns import bitsets
from scheduler.state.pods.selector_index import SelectorIndex
from scheduler.state.views import label_index
from tests.support.builders import requirement, term

VALUES = [None, "", "a", "b", "9", "10", "-3", "x1", str(2**63), "ключ", "\U0001f600"]
THINGS = [
    {key: value for key, value in zip("kl", pair, strict=True) if value is not None}
    for pair in itertools.product(VALUES, ["a", None])
]
EXPRESSIONS = [
    requirement("k", "In", "a", "9", "nowhere"),
    requirement("k", "NotIn", "a", "b"),
    requirement("k", "Exists"),
    requirement("k", "DoesNotExist"),
    requirement("l", "In", "a"),
    requirement("l", "DoesNotExist"),
    requirement("nowhere", "Exists"),
    requirement("nowhere", "NotIn", "a"),
    requirement("nowhere", "In", "a"),
    requirement("nowhere", "DoesNotExist"),
]
COMPARISONS = [requirement("k", op, bound) for op in ("Gt", "Lt") for bound in ("9", "-4", "0")]
PAIRS = list(itertools.combinations_with_replacement(EXPRESSIONS, 2))


def spelt(each):
    return " and ".join(f"{part.key} {part.operator} {part.values}" for part in each)


@pytest.mark.parametrize("pair", PAIRS, ids=spelt)
def test_a_label_selector_finds_the_objects_that_it_selects(pair):
    index = label_index.of_labels(((each, (p,)) for p, each in enumerate(THINGS)), len(THINGS))
    want = [all(selectors.matches_term(term(e), "n", each) for e in pair) for each in THINGS]

    found = bitsets.unpacked(index.matching(Selector(pair)), len(THINGS)).tolist()

    assert found == want
    assert [Selector(pair).matches(each) for each in THINGS] == want


@pytest.mark.parametrize("each", COMPARISONS, ids=lambda each: spelt([each]))
def test_numbers_are_compared_as_on_one_node(each):
    index = label_index.of_labels(((labels, (p,)) for p, labels in enumerate(THINGS)), len(THINGS))

    found = bitsets.unpacked(index.holding(each), len(THINGS)).tolist()

    assert found == [selectors.matches_term(term(each), "n", labels) for labels in THINGS]


@pytest.mark.parametrize("labels", THINGS, ids=str)
def test_an_object_finds_the_selectors_that_select_it(labels):
    held = [*map(Selector, PAIRS), None, Selector(())]

    found = SelectorIndex(held).matching(labels)

    assert found == {
        place for place, each in enumerate(held) if each is not None and each.matches(labels)
    }


def test_weights_of_sets_are_added_up_exactly():
    rng = np.random.default_rng(7)
    sets = rng.random((300, 70)) < 0.5
    weights = rng.integers(-100, 101, 300)

    pairs = [(bitsets.packed(each), int(w)) for each, w in zip(sets, weights, strict=True)]

    assert bitsets.weighted_sum(pairs, 70).tolist() == (weights @ sets).tolist()
    assert bitsets.weighted_sum([], 3).tolist() == [0, 0, 0]
