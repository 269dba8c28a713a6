"""Which events wake which pods: the table in the files of this folder.

All pods of a base have been found unschedulable before the event of a case happens.
"""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from scheduler.model.events import StorageGone
from scheduler.model.releases import V1_36, V1_37, Reference
from scheduler.queue.phases import QueuePhase
from scheduler.sim.manifests import Manifests
from tests.scenarios.loading import config_of
from tests.scenarios.notation import OURS, objects_of, qualified
from tests.support.storage import StorageCluster
from tests.support.typed import typed

Case = dict[str, Any]

#: What kube-scheduler v1.37 wakes, where that differs.
OTHERWISE: Final = "woken_v1_37"
KINDS: Final = {"claim": "PersistentVolumeClaim", "volume": "PersistentVolume"}


def cases() -> list[Any]:
    """Return each event of the files with the base that it happens in."""
    return [
        pytest.param(base, case, id=f"{base['title']}: {title}")
        for path in sorted(Path(__file__).parent.glob("*.yaml"))
        for base in yaml.safe_load(path.read_text(encoding="utf-8"))
        for title, case in base["cases"].items()
    ]


def everything(manifests: Manifests) -> list[Any]:
    return [
        *manifests.namespaces, *manifests.nodes, *manifests.storage, *manifests.device_classes,
        *manifests.devices, *manifests.pods,
    ]  # fmt: skip


def gone(cluster: StorageCluster, what: str) -> None:
    """Delete an object, given as its kind and its name."""
    kind, _, name = what.partition(" ")
    match kind:
        case "pod":
            cluster.delete(name)
        case "node":
            cluster.delete_node(name)
        case _:
            key = name if kind == "volume" else qualified(name)
            cluster.observe(StorageGone(KINDS[kind], key))


def woken(base: Case, case: Case, reference: Reference) -> list[str]:
    """Return the pods that an event wakes, in name order."""
    before = {key: each for key, each in base.items() if key not in ("title", "cases")}
    config = config_of({"id": "", **before})
    waiting = set(map(qualified, before["incoming"]))
    objects = everything(typed(objects_of(before)))
    pods = [
        each for each in objects
        if getattr(each, "key", "") in waiting and each.spec.scheduler_name == OURS
    ]  # fmt: skip
    cluster = StorageCluster(
        *(each for each in objects if each not in pods),
        config="" if config is None else yaml.safe_dump({"profiles": config["profiles"]}),
        reference=reference,
    )
    cluster.sleep()
    for pod in pods:
        cluster.schedule(pod)
        assert cluster.phase(pod.key) is QueuePhase.UNSCHEDULABLE, pod.key
    for what in case.get("gone", ()):
        gone(cluster, what)
    now = {key: each for key, each in case.items() if key not in ("gone", "woken", OTHERWISE)}
    spaces = set(cluster.machine.cluster.namespaces)
    for each in everything(typed(objects_of(now))):
        if each.metadata.name not in spaces:
            cluster.add(each)
    return sorted(
        pod.key.removeprefix("default/")
        for pod in pods
        if cluster.phase(pod.key) is not QueuePhase.UNSCHEDULABLE
    )


@pytest.mark.parametrize(("base", "case"), cases())
def test_an_event_wakes(base: Case, case: Case):
    assert woken(base, case, V1_36) == case["woken"]
    assert woken(base, case, V1_37) == case.get(OTHERWISE, case["woken"])
