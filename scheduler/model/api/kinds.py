"""The API version and kind of each type of object that the scheduler reads.

One table for all who name a type as the API does: informers, manifests, snapshots.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from scheduler.model.api.devices import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from scheduler.model.api.objects import (
    LocalObject,
    Node,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ReplicationController,
    Service,
    StatefulSet,
)
from scheduler.model.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

__all__ = ["KINDS", "Kind"]


class Kind(NamedTuple):
    """What `apiVersion` and `kind` of an object say."""

    api_version: str
    name: str


#: By the type that objects of the kind are decoded into.
KINDS: Final[Mapping[type[Any], Kind]] = {
    Pod: Kind("v1", "Pod"),
    Node: Kind("v1", "Node"),
    LocalObject: Kind("v1", "Namespace"),
    PodDisruptionBudget: Kind("policy/v1", "PodDisruptionBudget"),
    Service: Kind("v1", "Service"),
    ReplicationController: Kind("v1", "ReplicationController"),
    ReplicaSet: Kind("apps/v1", "ReplicaSet"),
    StatefulSet: Kind("apps/v1", "StatefulSet"),
    PersistentVolume: Kind("v1", "PersistentVolume"),
    PersistentVolumeClaim: Kind("v1", "PersistentVolumeClaim"),
    DeviceClass: Kind("resource.k8s.io/v1", "DeviceClass"),
    DeviceTaintRule: Kind("resource.k8s.io/v1", "DeviceTaintRule"),
    ResourceClaim: Kind("resource.k8s.io/v1", "ResourceClaim"),
    ResourceSlice: Kind("resource.k8s.io/v1", "ResourceSlice"),
    StorageClass: Kind("storage.k8s.io/v1", "StorageClass"),
    CSINode: Kind("storage.k8s.io/v1", "CSINode"),
    CSIDriver: Kind("storage.k8s.io/v1", "CSIDriver"),
    CSIStorageCapacity: Kind("storage.k8s.io/v1", "CSIStorageCapacity"),
    VolumeAttachment: Kind("storage.k8s.io/v1", "VolumeAttachment"),
}
