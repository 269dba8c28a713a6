"""API objects as they are decoded, and the references that effects carry."""

import msgspec

from scheduler.model.api.objects import Node, Pod, PodDisruptionBudget
from scheduler.model.effects import PodRef


def test_absent_parts_are_empty():
    assert msgspec.json.decode(b"{}", type=Pod) == Pod()
    assert msgspec.json.decode(b"{}", type=Node) == Node()
    assert msgspec.json.decode(b"{}", type=PodDisruptionBudget).spec.selector is None


def test_an_empty_selector_is_not_an_absent_one():
    found = msgspec.json.decode(b'{"spec": {"selector": {}}}', type=PodDisruptionBudget)

    assert found.spec.selector is not None


def test_references_are_equal_when_they_mean_the_same_pod():
    assert PodRef("a", "p", "1") == PodRef("b", "q", "1")
    assert PodRef("a", "p", "1") != PodRef("a", "p", "2")
    assert str(PodRef("a", "p", "1")) == "a/p"
