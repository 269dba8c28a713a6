"""Equal parts are one object, whatever differs beside them, and nothing else changes."""

import msgspec
import pytest

from scheduler.model.api import shared_parts
from scheduler.model.api.objects import Node, Pod
from scheduler.model.api.shared_parts import SharedParts
from tests.support.memory_mixes import MIXES, node, ordinary


def decoded(number: int, **changes: object) -> Pod:
    return msgspec.convert(ordinary(number) | changes, Pod)


def test_two_pods_of_one_owner_differ_in_nothing_but_what_is_their_own():
    parts = SharedParts()
    one, other = parts.pod(decoded(0)), parts.pod(decoded(1))

    assert other.metadata.name != one.metadata.name
    assert other.metadata.labels is one.metadata.labels
    assert other.metadata.owner_references is one.metadata.owner_references
    assert other.metadata.namespace is one.metadata.namespace
    for name in ("containers", "init_containers", "affinity", "topology_spread_constraints"):
        assert getattr(other.spec, name) is getattr(one.spec, name)
    assert other.status.container_statuses is one.status.container_statuses
    ready = [pod.condition("Ready") for pod in (one, other)]
    assert ready[0] is ready[1]


@pytest.mark.parametrize("mix", MIXES)
def test_a_pod_is_equal_to_what_was_decoded(mix: str):
    parts = SharedParts()
    for number in (0, 1, 40, 41, 0):
        pod = msgspec.convert(MIXES[mix](number), Pod)
        assert parts.pod(pod) == pod


def test_labels_that_are_spelled_like_a_condition_are_labels():
    parts = SharedParts()
    condition = {"type": "Ready", "status": "True"}
    document = {
        "metadata": {"name": "a", "labels": condition, "ownerReferences": [{"name": "n"}]},
        "spec": {"volumes": [{"name": "n", "csi": {}}]},
        "status": {"conditions": [condition], "resourceClaimStatuses": [{"name": "n"}]},
    }
    pod = msgspec.convert(document, Pod)

    assert parts.pod(pod) == parts.pod(pod) == pod
    assert parts.pod(pod).metadata.labels == condition


def test_pods_that_are_all_different_fill_no_table(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared_parts, "_CROWDED", 5_000)
    monkeypatch.setattr(shared_parts, "_MANY_NAMES", 100)
    parts = SharedParts()
    alike = [parts.pod(decoded(number)) for number in range(3)]
    pods = [
        parts.pod(msgspec.convert(MIXES["all different"](number), Pod)) for number in range(1000)
    ]

    assert len(pods) == 1000
    assert len(parts) < 400
    assert parts.pod(decoded(3)).spec.containers is alike[0].spec.containers


def test_what_no_pod_has_any_more_is_dropped(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shared_parts, "_CROWDED", 5_000)
    monkeypatch.setattr(shared_parts, "_MANY_NAMES", 100)
    parts = SharedParts()
    for owner in range(300):
        [parts.pod(decoded(40 * owner + number)) for number in range(3)]

    assert len(parts) < 400


def test_an_image_of_several_nodes_is_one_object():
    parts = SharedParts()
    nodes = [msgspec.convert(node(number), Node) for number in range(2)]
    one, other = map(parts.node, nodes)

    assert [one, other] == nodes
    assert other.status.images[0] is one.status.images[1]


def test_volumes_that_no_rule_reads_are_not_kept():
    pod = decoded(0)

    assert [volume.name for volume in pod.spec.volumes] == ["data"]
