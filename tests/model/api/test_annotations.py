"""Objects keep the annotations that some rule reads, and a digest of the others."""

import msgspec
import pytest
from msgspec.structs import replace

from scheduler.model.api import storage
from scheduler.model.api.objects import Node, NodeMeta, Pod
from scheduler.model.api.storage import (
    CSINode,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageMeta,
)
from scheduler.model.base import REST

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
SECRET = "a long and secret text"


def decoded(kind, **annotations):
    """Return what is read of an object of the API."""
    named = {"a": "b", APPLIED: SECRET} | annotations
    return msgspec.json.decode(
        msgspec.json.encode({"metadata": {"name": "o", "annotations": named}}), type=kind
    )


@pytest.mark.parametrize("kind", [Pod, Node, PersistentVolume, PersistentVolumeClaim, CSINode])
def test_what_was_applied_is_not_kept(kind):
    found = decoded(kind)

    assert SECRET.encode() not in msgspec.json.encode(found)


def test_a_node_has_all_other_annotations():
    found = decoded(Node).metadata.annotations

    assert found.pop(REST)
    assert found == {"a": "b"}


def test_a_node_of_which_nothing_was_applied_has_its_annotations_as_they_are():
    assert NodeMeta(annotations={"a": "b"}).annotations == {"a": "b"}


@pytest.mark.parametrize(
    "name",
    [
        storage.BIND_COMPLETED,
        storage.BOUND_BY_CONTROLLER,
        storage.MIGRATED_PLUGINS,
        storage.SELECTED_NODE,
        "volume.beta.kubernetes.io/storage-class",
    ],
)
def test_storage_has_the_annotations_that_rules_read(name):
    found = decoded(PersistentVolumeClaim, **{name: "x"}).metadata.annotations

    assert found.pop(REST)
    assert found == {name: "x"}


@pytest.mark.parametrize("kind", [NodeMeta, StorageMeta])
def test_a_change_of_the_others_is_seen(kind):
    one, other = (kind(annotations={"a": "b", APPLIED: text}) for text in "xy")

    assert one != other
    assert one == kind(annotations={APPLIED: "x", "a": "b"})


@pytest.mark.parametrize("kind", [NodeMeta, StorageMeta])
def test_annotations_that_were_left_out_stay_unchanged(kind):
    once = kind(annotations={"a": "b", APPLIED: SECRET})

    assert kind(annotations=once.annotations) == once
    assert replace(once, name="n").annotations == once.annotations
    assert msgspec.json.decode(msgspec.json.encode(once), type=kind) == once


def test_the_given_annotations_are_not_changed():
    given = {"a": "b", APPLIED: SECRET}

    StorageMeta(annotations=given)
    NodeMeta(annotations=given)

    assert given == {"a": "b", APPLIED: SECRET}


def test_a_claim_keeps_the_rest_when_a_node_is_selected():
    before = StorageMeta(annotations={"a": "b"})

    after = storage.annotated(before, {storage.SELECTED_NODE: "n1"})

    assert after.annotations == {**before.annotations, storage.SELECTED_NODE: "n1"}
