"""The owner of a pod."""

import re

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.api.owners import MAX_LENGTH, bounded, namespace_of, owner
from tests.support.builders import pod


def test_a_pod_without_a_controller_belongs_to_itself():
    assert owner(pod("a").build()) == "Pod/default/a"


def test_a_pod_belongs_to_its_controller():
    assert owner(pod("a").owner("StatefulSet", "db").build()) == "StatefulSet/default/db"


def test_the_replica_sets_of_a_deployment_are_one_owner():
    first = pod("a").owner("ReplicaSet", "web-6d4b9c").label("pod-template-hash", "6d4b9c")
    second = pod("b").owner("ReplicaSet", "web-77f5").label("pod-template-hash", "77f5")

    assert owner(first.build()) == owner(second.build()) == "ReplicaSet/default/web"


def test_a_replica_set_without_an_owner_keeps_its_name():
    assert owner(pod("a").owner("ReplicaSet", "web-6d4b9c").build()).endswith("/web-6d4b9c")


def test_an_owner_that_controls_nothing_does_not_count():
    made = pod("a").owner("Job", "j").build()
    (reference,) = made.metadata.owner_references
    other = pod("a").meta(owner_references=[type(reference)(kind="Job", name="j")]).build()

    assert (owner(made), owner(other)) == ("Job/default/j", "Pod/default/a")


ODD = [
    ("Job", "x" * 254),
    ("Job", "x" * 500_000),
    ("J" * 64, "x"),
    ("", "x"),
    ("Job", ""),
    ("Job", "a/b"),
    ("Job/other", "x"),
    ("Job", "two words"),
    ("Job", 'quo"te'),
    ("Job", "\ud800"),
    ("Job", "é"),
]


@pytest.mark.parametrize(("kind", "name"), ODD)
def test_names_that_no_object_can_have_become_a_digest(kind: str, name: str):
    found = owner(pod("a").owner(kind, name).build())

    assert re.fullmatch(r"Unknown/default/sha256:[0-9a-f]{32}", found)
    assert found == owner(pod("b").owner(kind, name).build())


def test_different_unusual_names_are_different_owners():
    assert len({owner(pod("a").owner(*each).build()) for each in ODD}) == len(ODD)


def test_the_longest_legal_owner_is_kept_as_it_is():
    kind, name, space = "K" * 63, "n" * 253, "s" * 63

    found = owner(pod("a").meta(namespace=space).owner(kind, name).build())

    assert found == f"{kind}/{space}/{name}"
    assert len(found) <= MAX_LENGTH


@given(st.text(), st.text(max_size=80), st.text())
def test_an_owner_is_a_short_text_with_its_namespace(kind: str, space: str, name: str):
    found = owner(pod("a").meta(namespace=space).owner(kind, name).build())

    assert len(found) <= MAX_LENGTH
    assert found.isascii()
    assert found == bounded(found)
    assert len(namespace_of(found)) <= 63


@pytest.mark.parametrize(("text", "want"), [("Job/a/j", "a"), ("Job", ""), ("", "")])
def test_the_namespace_of_an_owner(text: str, want: str):
    assert namespace_of(text) == want


@given(st.text(max_size=600))
def test_a_bounded_text_takes_one_byte_a_character(text: str):
    found = bounded(text)

    assert len(found) <= MAX_LENGTH
    assert len(msgspec.json.encode(found)) == len(found) + 2
