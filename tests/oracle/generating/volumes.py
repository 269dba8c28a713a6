"""Random volumes, claims and what they hang on."""

import copy
from dataclasses import dataclass, field

from tests.oracle.generating.dice import Dice, Object
from tests.oracle.generating.labels import HOSTNAME, ZONE
from tests.oracle.generating.traits import Traits

__all__ = ["storage"]

DRIVER = "csi.example.com"
_DELAYED, _STATIC, _AT_ONCE, _ZONAL = "delayed", "static", "at-once", "zonal"
_CLASSES = (_DELAYED, _DELAYED, _STATIC, _STATIC, _AT_ONCE, _ZONAL)
_ZONES = ("z1", "z2", "z3")


@dataclass
class _Storage:
    """The storage objects of one cluster."""

    objects: list[Object] = field(default_factory=list)
    claims: list[str] = field(default_factory=list)


def storage(dice: Dice, traits: Traits, nodes: list[str], pods: list[Object]) -> list[Object]:
    """Return classes, volumes, claims, and what drivers say; some of the pods use them."""
    made = _Storage([_class(dice, name) for name in sorted(set(_CLASSES))])
    _claims_and_volumes(dice, made, nodes)
    for node in nodes:
        if dice.chance(0.7):
            made.objects.append(_csi_node(dice, node))
    if dice.chance(0.4):
        made.objects += _capacities(dice)
    for pod in pods:
        if dice.chance(traits.volumes):
            _mount(dice, pod, made)
    return made.objects


def _claims_and_volumes(dice: Dice, made: _Storage, nodes: list[str]) -> None:
    # Distinct sizes: which of several equally small volumes is taken is left to chance.
    sizes = dice.shuffled(range(1, 12))
    for number in range(dice.number(1, 5)):
        claim = f"c{number}"
        made.claims.append(claim)
        _claim(dice, made, claim, nodes, sizes)
        if dice.chance(0.15):
            # Some rules look at the name of a claim only.
            other = copy.deepcopy(made.objects[-1])
            other["metadata"] |= {"namespace": "blue", "uid": f"uid-blue-{claim}"}
            made.objects.append(other)
    for number in range(dice.number(0, 4)):
        made.objects.append(_volume(dice, f"pv{number}", nodes, sizes.pop(), dice.pick(_CLASSES)))


def _mount(dice: Dice, pod: Object, made: _Storage) -> None:
    volumes = []
    for number in range(dice.pick((1, 1, 2))):
        volume = {"name": f"v{number}", **_mounted(dice, pod, made, f"v{number}")}
        # A claim that a pod names twice gets two volumes, and which of them it has in the end is
        # left to the controller.
        claim = volume.get("persistentVolumeClaim")
        if claim is None or all(claim != each.get("persistentVolumeClaim") for each in volumes):
            volumes.append(volume)
    pod["spec"]["volumes"] = volumes


def _mounted(dice: Dice, pod: Object, made: _Storage, name: str) -> Object:
    form = dice.number(0, 19)
    if form < 4:
        return _disk(dice)
    if form == 4:
        return {"emptyDir": {}}
    if form == 5:
        return _ephemeral(dice, pod, made, name)
    claim = dice.pick(made.claims) if dice.chance(0.97) else "absent"
    if dice.chance(0.9):
        pod["metadata"]["namespace"] = "default"
    return {"persistentVolumeClaim": {"claimName": claim}}


def _disk(dice: Dice) -> Object:
    """Return an inline network disk."""
    read_only = {"readOnly": dice.chance(0.3)}
    disk = dice.pick(("d1", "d2"))
    monitors = dice.some(("m1", "m2", "m3"), 1, 2)
    return dice.pick(
        (
            {"gcePersistentDisk": {"pdName": disk, **read_only}},
            {"awsElasticBlockStore": {"volumeID": disk}},
            {"iscsi": {"iqn": f"iqn.2026-01.com.example:{disk}", "targetPortal": "t", "lun": 0}},
            {"rbd": {"monitors": monitors, "image": "i", "pool": disk, **read_only}},
        )
    )


def _ephemeral(dice: Dice, pod: Object, made: _Storage, name: str) -> Object:
    spec: Object = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": _DELAYED,
        "volumeMode": "Filesystem",
    }
    placed = "nodeName" in pod["spec"]
    if placed or dice.chance(0.8):
        meta = pod["metadata"]
        owner = {
            "apiVersion": "v1", "kind": "Pod", "name": meta["name"],
            "uid": meta["uid"] if placed or dice.chance(0.8) else "another", "controller": True,
        }  # fmt: skip
        claim = _claim_object(f"{meta['name']}-{name}", spec, {"phase": "Pending"})
        claim["metadata"] |= {"namespace": meta["namespace"], "ownerReferences": [owner]}
        made.objects.append(claim)
    return {"ephemeral": {"volumeClaimTemplate": {"spec": spec}}}


def _class(dice: Dice, name: str) -> Object:
    at_once = name == _AT_ONCE
    made: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": "kubernetes.io/no-provisioner" if name == _STATIC else DRIVER,
        "volumeBindingMode": "Immediate" if at_once else "WaitForFirstConsumer",
        "reclaimPolicy": "Delete",
    }
    if name == _ZONAL:
        zones = dice.some(_ZONES, 1, 2)
        made["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]
    return made


def _claim(dice: Dice, made: _Storage, name: str, nodes: list[str], sizes: list[int]) -> None:
    kind = dice.pick(_CLASSES)
    spec: Object = {
        "accessModes": [dice.pick(("ReadWriteOnce", "ReadWriteOnce", "ReadWriteOncePod"))],
        "resources": {"requests": {"storage": f"{dice.pick((1, 3, 6))}Gi"}},
        "storageClassName": kind,
        "volumeMode": "Filesystem",
    }
    claim = _claim_object(name, spec, {"phase": "Pending"})
    form = dice.number(0, 19)
    if form < 9:
        volume = _volume(dice, f"pv-{name}", nodes, sizes.pop(), kind)
        volume["spec"]["claimRef"] = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
        volume["spec"]["accessModes"] = spec["accessModes"]
        volume["status"]["phase"] = "Bound"
        spec["volumeName"] = volume["metadata"]["name"]
        claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
        claim["status"]["phase"] = "Bound"
        if dice.chance(0.95):
            made.objects.append(volume)
    elif form == 9:
        claim["status"]["phase"] = "Lost"
        spec["volumeName"] = "gone"
    elif form == 10:
        claim["metadata"] |= {
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "deletionGracePeriodSeconds": 0,
            "finalizers": ["kubernetes.io/pvc-protection"],
        }
    elif form == 11:
        selected = {"volume.kubernetes.io/selected-node": dice.pick(nodes)}
        claim["metadata"]["annotations"] = selected
    made.objects.append(claim)


def _claim_object(name: str, spec: Object, status: Object) -> Object:
    metadata: Object = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def _volume(dice: Dice, name: str, nodes: list[str], size: int, kind: str) -> Object:
    metadata: Object = {"name": name, "uid": f"uid-{name}"}
    if dice.chance(0.3):
        metadata["labels"] = {ZONE: dice.pick((*_ZONES, "z1__z2"))}
    spec: Object = {
        "accessModes": dice.pick(
            (["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"], ["ReadWriteOncePod"])
        ),
        "capacity": {"storage": f"{size}Gi"},
        "persistentVolumeReclaimPolicy": "Delete",
        "storageClassName": kind,
        "volumeMode": "Filesystem",
    }
    if kind == _STATIC:
        spec["local"] = {"path": "/mnt"}
    else:
        spec["csi"] = {"driver": DRIVER, "volumeHandle": f"handle-{name}"}
    if kind == _STATIC or dice.chance(0.4):
        key, values = dice.pick(((ZONE, _ZONES), (HOSTNAME, nodes)))
        expression = {"key": key, "operator": "In", "values": dice.some(values, 1, 2)}
        terms = [{"matchExpressions": [expression]}]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": metadata,
        "spec": spec,
        "status": {"phase": "Available"},
    }


def _csi_node(dice: Dice, node: str) -> Object:
    driver: Object = {"name": DRIVER, "nodeID": node, "topologyKeys": [ZONE]}
    if dice.chance(0.7):
        driver["allocatable"] = {"count": dice.pick((0, 1, 1, 2))}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": node},
        "spec": {"drivers": [driver]},
    }


def _capacities(dice: Dice) -> list[Object]:
    driver = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver",
        "metadata": {"name": DRIVER},
        "spec": {
            "storageCapacity": dice.chance(0.9),
            "attachRequired": True,
            "preventPodSchedulingIfMissing": dice.chance(0.3),
        },
    }
    return [driver, *(_capacity(dice, f"cap{number}") for number in range(dice.number(0, 4)))]


def _capacity(dice: Dice, name: str) -> Object:
    made: Object = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": name, "namespace": "default"},
        "storageClassName": dice.pick((_DELAYED, _DELAYED, _ZONAL)),
    }
    if dice.chance(0.9):
        made["capacity"] = f"{dice.pick((0, 2, 8))}Gi"
    if dice.chance(0.3):
        made["maximumVolumeSize"] = f"{dice.pick((0, 2, 8))}Gi"
    if dice.chance(0.9):
        labels = dice.pick(({}, {ZONE: dice.pick(_ZONES)}))
        made["nodeTopology"] = {"matchLabels": labels} if labels else {}
    return made
