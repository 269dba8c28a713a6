"""A snapshot is a file for `plan -f`, in which the next decision is the one that was to come."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scheduler.core.machine import Machine
from scheduler.model.api import storage
from scheduler.model.api.kinds import KINDS
from scheduler.model.api.objects import Pod, ReplicaSet, ReplicationController, Service, StatefulSet
from scheduler.model.decisions import Attempt, Preempting
from scheduler.model.effects import Evict, Nominate
from scheduler.model.events import NodeObserved, PodObserved, StorageObserved
from scheduler.observe.pages.snapshot import snapshot
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.sim import manifests
from scheduler.sim.manifests import Manifests
from scheduler.sim.what_if_cluster import WhatIfCluster, WhatIfOptions
from tests.support.builders import node, pdb, pod
from tests.support.cluster import Cluster, profiles
from tests.support.random_clusters import clusters
from tests.support.recordings import line_of
from tests.support.storage import (
    StorageCluster,
    attachment,
    capacity,
    claim,
    csi_driver,
    csi_node,
    storage_class,
    using,
    volume,
)
from tests.support.typed import typed

NOW = 1_767_226_600.0
#: The whole object, as kubectl wrote it.
APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
#: Decisions of a random cluster that are compared.
STEPS = 6


async def text(machine: Machine) -> str:
    return b"".join([part async for part in snapshot(machine, NOW)]).decode()


async def objects(machine: Machine) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = json.loads(await text(machine))["items"]
    return items


async def told_of(cluster: Cluster, name: str) -> dict[str, Any]:
    """Return what a snapshot says of one pod."""
    (found,) = (
        each
        for each in await objects(cluster.machine)
        if each["kind"] == "Pod" and each["metadata"]["name"] == name
    )
    return found


async def read(machine: Machine, folder: Path) -> Manifests:
    """Take a snapshot and read it as `plan -f` does."""
    path = folder / "snapshot.json"
    path.write_text(await text(machine))
    return manifests.read([str(path)])


def planner(found: Manifests) -> WhatIfCluster:
    return WhatIfCluster(found, profiles(), PodBackoff(), WhatIfOptions())


def alone(found: Manifests, uid: str) -> Manifests:
    """Leave out all waiting pods but one and the nominated ones."""
    found.pods = [
        each
        for each in found.pods
        if each.spec.node_name or each.status.nominated_node_name or each.uid == uid
    ]
    return found


def first_of(found: WhatIfCluster, uid: str) -> Attempt:
    return next(each for each in found.attempts() if each.pod.uid == uid)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "family", ["everything", "volumes", "budgets", "pod-affinity", "spread", "preemption"]
)
async def test_a_restored_snapshot_makes_the_same_next_decision(family, seed, tmp_path):
    (original,) = clusters(family, [seed])
    live = planner(original)
    deciding: Iterator[Attempt] = live.attempts()
    compared = 0
    before = await read(live.machine, tmp_path)

    for want, _ in zip(deciding, range(STEPS), strict=False):
        if want.number == 1:
            assert first_of(planner(alone(before, want.pod.uid)), want.pod.uid).decision == (
                want.decision
            )
            compared += 1
        before = await read(live.machine, tmp_path)

    assert compared > 0


async def test_every_kind_of_object_is_restored_unchanged(tmp_path):
    things = [
        storage_class("fast").made_by("csi.example.com").build(),
        csi_driver("csi.example.com", tells_capacity=True),
        csi_node("n1").driver("csi.example.com", 3).build(),
        capacity("c", "fast").room("3Gi").build(),
        volume("v").size("1Gi").csi("csi.example.com").build(),
        claim("data").size("1Gi").bound_to("v").build(),
        attachment("a", "v", "n1", "csi.example.com"),
    ]
    cluster = StorageCluster(
        node("n1").cpu("4").label("zone", "a"),
        pdb("b").selects(app="web").allows(1),
        using(pod("p").cpu("1"), "data"),
        *things,
    )

    found = await read(cluster.machine, tmp_path)

    assert [each.metadata.name for each in found.nodes] == ["n1"]
    assert found.nodes[0].metadata.labels == {"zone": "a"}
    assert found.pods == list(cluster.pods.values())
    assert [each.status.disruptions_allowed for each in found.pdbs] == [1]
    by_kind = {type(each): each for each in found.storage}
    assert by_kind == {type(each): each for each in cluster.machine.cluster.volumes}
    assert len(by_kind) == len(things)


async def test_what_was_applied_is_neither_in_snapshots_nor_in_recordings():
    written = {"env": [{"name": "PASSWORD", "value": "hunter2"}]}
    meta = {"annotations": {APPLIED: json.dumps(written), "team": "shop"}}
    kinds = {"Node": "n1", "Pod": "p", "PersistentVolumeClaim": "c"}
    found = typed(
        {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **meta}}
        for kind, name in kinds.items()
    )
    seen = [NodeObserved(found.nodes[0]), PodObserved(found.pods[0])]
    seen += [StorageObserved(found.storage[0])]

    content = await text(planner(found).machine)
    captured = b"".join(line_of(each, 0.0) for each in seen).decode()

    assert '"n1"' in content
    assert "hunter2" not in content + captured
    assert APPLIED not in content + captured


async def test_a_snapshot_with_all_annotations_is_read(tmp_path):
    path = tmp_path / "snapshot.json"
    annotations = {APPLIED: "{}", storage.SELECTED_NODE: "n1", "team": "shop"}
    metadata = {"name": "x", "namespace": "default", "annotations": annotations}
    kinds = ["Node", "Pod", "PersistentVolumeClaim"]
    items = [{"apiVersion": "v1", "kind": kind, "metadata": metadata} for kind in kinds]
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    found = manifests.read([str(path)])
    again = await read(planner(found).machine, tmp_path)

    assert (again.nodes, again.storage) == (found.nodes, found.storage)
    assert [each.uid for each in again.pods] == [each.uid for each in found.pods]
    assert found.nodes[0].metadata.annotations["team"] == "shop"
    assert found.storage[0].selected_node == "n1"


@pytest.mark.parametrize("kind", [Service, ReplicationController, ReplicaSet, StatefulSet])
async def test_workloads_keep_their_selectors(kind, tmp_path):
    version, name = KINDS[kind]
    plain = kind in (Service, ReplicationController)
    selector = {"app": "web"} if plain else {"matchLabels": {"app": "web"}}
    document = {
        "apiVersion": version,
        "kind": name,
        "metadata": {"name": "w", "namespace": "shop"},
        "spec": {"selector": selector},
    }
    live = planner(typed([document]))

    (found,) = (await read(live.machine, tmp_path)).workloads

    assert type(found) is kind
    assert (found.metadata.namespace, found.metadata.name) == ("shop", "w")
    assert found.spec == typed([document]).workloads[0].spec


async def test_a_preemptor_is_nominated_and_its_victim_is_terminating():
    cluster = Cluster(
        node("n1").cpu("4"),
        pod("low").on("n1").cpu("4").priority(1),
        pod("high").cpu("4").priority(9),
    )
    cluster.hold(Nominate, Evict)
    attempt = cluster.step()
    cluster.done()
    cluster.lag()
    cluster.done()

    high, low = await told_of(cluster, "high"), await told_of(cluster, "low")

    assert attempt is not None
    assert isinstance(attempt.decision, Preempting)
    assert high["status"]["nominatedNodeName"] == "n1"
    assert low["metadata"]["deletionTimestamp"] == "2026-01-01T00:16:40Z"
    assert [each["reason"] for each in low["status"]["conditions"]] == ["PreemptionByScheduler"]


async def test_a_nomination_that_is_not_written_yet_is_included():
    low = pod("low").on("n1").cpu("4").priority(1)
    cluster = Cluster(node("n1").cpu("4"), low, pod("high").cpu("4").priority(9))
    cluster.hold(Nominate)
    cluster.step()

    found = [each for each in await objects(cluster.machine) if each["kind"] == "Pod"]

    assert [each["metadata"]["name"] for each in found] == ["high", "low"]
    assert found[0]["status"]["nominatedNodeName"] == "n1"
    assert cluster.pod("high").status.nominated_node_name == ""


async def test_changes_while_it_is_written_are_not_included():
    cluster = Cluster(node("n1").cpu("4"), *(pod(f"p{i}").cpu("1m") for i in range(250)))
    parts = snapshot(cluster.machine, NOW)
    content = await anext(parts)

    cluster.drain()
    content += b"".join([part async for part in parts])

    pods: list[Pod] = typed(json.loads(content)["items"]).pods
    assert len(pods) == 250
    assert {each.spec.node_name for each in pods} == {""}
