"""Workloads with volumes, which the controller of volumes binds."""

from collections.abc import Callable
from typing import Any

from tests.integration.objects import Json
from tests.integration.stage import Stage
from tests.integration.workloads.affinity import ZONE

HOSTNAME = "kubernetes.io/hostname"
CLASSES, VOLUMES = "/apis/storage.k8s.io/v1/storageclasses", "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/{ns}/persistentvolumeclaims"


def local_volumes(stage: Stage) -> None:
    """Volumes decide that are on one node each and are bound when their pod is placed.

    The large ones are as many as the claims that need them, which come first; so the small ones are
    left to the others, and for the last claims there is none. Which volume each claim has got is
    compared.
    """
    for kind, count in (("large", 4), ("small", 4), ("diskless", 2)):
        stage.nodes(kind, count)
    name = storage_class(stage, "local", "WaitForFirstConsumer")
    for kind, size in (("large", "50Gi"), ("small", "5Gi")):
        for i, node in enumerate(stage.of(kind)):
            volume(stage, f"{kind}-{i}", size, name, affinity(HOSTNAME, node), local=True)

    users(stage, "wide", 4, "40Gi", name)
    users(stage, "little", 4, "2Gi", name)
    users(stage, "little-late", 2, "1Gi", name)
    stage.pods("orphan", 1, volumes=[uses("missing")])
    stage.pods("none", 12)


def zonal_volumes(stage: Stage) -> None:
    """Volumes decide that are bound already and can be reached from one zone only.

    The zones have capacity for the pods whose volumes are there, but for one; and a claim that only
    one pod may use is used by one.
    """
    for letter, count in (("a", 2), ("b", 3), ("c", 4)):
        stage.nodes(letter, count, "2", labels={ZONE: letter})
    name = storage_class(stage, "zonal", "Immediate")
    for letter, count in (("a", 5), ("b", 3), ("c", 2)):
        for i in range(count):
            bound(stage, f"{letter}-{i}", name, affinity(ZONE, letter))
        for i, draft in enumerate(stage.drafts(f"in-{letter}", count)):
            draft["spec"]["volumes"] = [uses(f"{letter}-{i}")]
            stage.scene.create(draft)
    bound(stage, "labelled", name, {}, labels={ZONE: "b"})
    stage.pods("labelled", 1, volumes=[uses("labelled")])
    stage.pods("elsewhere", 1, volumes=[uses("labelled")], nodeSelector={ZONE: "a"})
    bound(stage, "private", name, affinity(ZONE, "c"), mode="ReadWriteOncePod")
    stage.pods("private", 1, volumes=[uses("private")])
    stage.pods("private-late", 1, volumes=[uses("private")])


def storage_class(stage: Stage, name: str, mode: str) -> str:
    """Create a class without a provisioner; return its name."""
    name = f"{stage.scene.namespace}-{name}"
    item = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": mode}
    stage.make(CLASSES, {"metadata": {"name": name}, **item})
    return name


def volume(stage: Stage, name: str, size: str, class_name: str, where: Json, **fields: Any) -> str:
    """Create a volume; return the name that it really has."""
    real = f"{stage.scene.namespace}-{name}"
    source = {"local": {"path": "/mnt"}} if fields.pop("local", False) else of_driver(real)
    metadata = {"name": real, "labels": fields.pop("labels", {})}
    mode = fields.pop("mode", "ReadWriteOnce")
    spec = {
        "capacity": {"storage": size},
        "accessModes": [mode],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": class_name,
        **source,
        **({"nodeAffinity": {"required": where}} if where else {}),
        **fields,
    }
    stage.make(VOLUMES, {"metadata": metadata, "spec": spec})
    return real


def of_driver(handle: str) -> Json:
    """Return the source of a volume of some driver."""
    return {"csi": {"driver": "csi.example.com", "volumeHandle": handle}}


def claim(stage: Stage, name: str, size: str, class_name: str, **spec: Any) -> str:
    """Create a claim whose volume is compared; return its path."""
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    body = {"metadata": {"name": name}, "spec": {**asked, "storageClassName": class_name, **spec}}
    path = stage.make(CLAIMS, body)
    stage.facts.append(lambda: {name: got(stage, path)})
    return path


def got(stage: Stage, path: str) -> str:
    """Return the phase of a claim and the volume that it has got."""
    found = stage.api.get(path)
    real = found["spec"].get("volumeName", "")
    return f"{found['status']['phase']} {real.removeprefix(stage.scene.namespace)}"


def users(stage: Stage, kind: str, count: int, size: str, class_name: str) -> None:
    """Create pods, each with a claim of its own."""
    for i, draft in enumerate(stage.drafts(kind, count)):
        claim(stage, f"{kind}-{i}", size, class_name)
        draft["spec"]["volumes"] = [uses(f"{kind}-{i}")]
        stage.scene.create(draft)


def bound(stage: Stage, name: str, class_name: str, where: Json, **fields: Any) -> None:
    """Create a claim with a volume, and wait until they are bound."""
    mode = fields.get("mode", "ReadWriteOnce")
    reference = {"namespace": stage.scene.namespace, "name": name}
    real = volume(stage, name, "5Gi", class_name, where, claimRef=reference, **fields)
    # A claim whose volume the controller has not seen would be looked at again after 15 seconds.
    stage.api.wait_for(f"{VOLUMES}/{real}", is_in_phase("Available"))
    path = claim(stage, name, "1Gi", class_name, volumeName=real, accessModes=[mode])
    stage.api.wait_for(path, is_in_phase("Bound"))


def is_in_phase(phase: str) -> Callable[[Json | None], bool]:
    """Return whether a claim or a volume is in a phase."""
    return lambda found: found is not None and found.get("status", {}).get("phase") == phase


def affinity(key: str, value: str) -> Json:
    """Return where a volume can be reached from."""
    expression = {"key": key, "operator": "In", "values": [value]}
    return {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}


def uses(claim_name: str) -> Json:
    """Return a volume of a pod."""
    return {"name": "data", "persistentVolumeClaim": {"claimName": claim_name}}
