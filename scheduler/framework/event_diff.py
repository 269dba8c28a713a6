"""Compares two states of an object, and returns the cluster events for waiting pods.

Source: kube-scheduler v1.36.3 framework/events.go.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.framework.cluster_events import Action, ClusterEvent, Resource
from scheduler.model.api import resources
from scheduler.model.api.devices import DeviceClass, DeviceTaintRule
from scheduler.model.api.objects import Node, Pod
from scheduler.model.api.storage import Storage
from scheduler.model.releases import OLDEST, Reference

__all__ = [
    "NODE_ADDED",
    "NODE_DELETED",
    "POD_ADDED",
    "POD_DELETED",
    "device_class_changed",
    "devices_changed",
    "node_changes",
    "pod_changes",
    "storage_change",
    "storage_deleted",
]

NODE_ADDED = ClusterEvent(Resource.NODE, Action.ADD)
NODE_DELETED = ClusterEvent(Resource.NODE, Action.DELETE)
POD_ADDED = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
POD_DELETED = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)

_STORAGE: Final[Mapping[str, Resource]] = {
    "PersistentVolume": Resource.PERSISTENT_VOLUME,
    "PersistentVolumeClaim": Resource.PERSISTENT_VOLUME_CLAIM,
    "StorageClass": Resource.STORAGE_CLASS,
    "CSINode": Resource.CSI_NODE,
    "CSIDriver": Resource.CSI_DRIVER,
    "CSIStorageCapacity": Resource.CSI_STORAGE_CAPACITY,
    "VolumeAttachment": Resource.VOLUME_ATTACHMENT,
}

_DEVICES: Final[Mapping[str, Resource]] = {
    "ResourceClaim": Resource.RESOURCE_CLAIM,
    "ResourceSlice": Resource.RESOURCE_SLICE,
}


def storage_change(old: Storage | None, new: Storage) -> ClusterEvent:
    """Return the event of a new state of a storage object; hints compare the two states."""
    action = Action.ADD if old is None else Action.UPDATE_OTHER
    return ClusterEvent(_STORAGE[type(new).__name__], action)


def storage_deleted(kind: str) -> ClusterEvent:
    """Return the event of a deleted storage object."""
    return ClusterEvent(_STORAGE[kind], Action.DELETE)


def device_class_changed(old: DeviceClass | None, new: DeviceClass | None) -> ClusterEvent:
    """Return the event of a new state of a device class, or of its deletion."""
    action = Action.DELETE if new is None else Action.ADD if old is None else Action.UPDATE_OTHER
    return ClusterEvent(Resource.DEVICE_CLASS, action)


def devices_changed(kind: str, *, added: bool, gone: bool) -> ClusterEvent:
    """Return the event of a new state of a claim or a slice, or of its deletion.

    The taints of rules show as changes of slices.
    """
    if kind == DeviceTaintRule.__name__:
        return ClusterEvent(Resource.RESOURCE_SLICE, Action.UPDATE_OTHER)
    action = Action.DELETE if gone else Action.ADD if added else Action.UPDATE_OTHER
    return ClusterEvent(_DEVICES[kind], action)


def node_changes(old: Node, new: Node) -> list[ClusterEvent]:
    """Return the events of a node update, in upstream's order; none for a heartbeat."""
    return [ClusterEvent(Resource.NODE, action) for action in _node_actions(old, new)]


def _node_actions(old: Node, new: Node) -> Iterator[Action]:
    if old.spec.unschedulable and not new.spec.unschedulable:
        yield Action.UPDATE_NODE_TAINT
    if old.status.allocatable != new.status.allocatable:
        yield Action.UPDATE_NODE_ALLOCATABLE
    if old.metadata.labels != new.metadata.labels:
        yield Action.UPDATE_NODE_LABEL
    if old.spec.taints != new.spec.taints:
        yield Action.UPDATE_NODE_TAINT
    if _conditions(old) != _conditions(new):
        yield Action.UPDATE_NODE_CONDITION
    if old.metadata.annotations != new.metadata.annotations:
        yield Action.UPDATE_NODE_ANNOTATION
    if old.status.declared_features != new.status.declared_features:
        yield Action.UPDATE_NODE_DECLARED_FEATURE


def _conditions(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def pod_changes(old: Pod, new: Pod, reference: Reference = OLDEST) -> list[ClusterEvent]:
    """Return the events of a pod update, in upstream's order; if none, `UPDATE_OTHER`."""
    resource = Resource.ASSIGNED_POD
    if not new.spec.node_name:
        resource = Resource(reference.changed_waiting_pod)
    actions = list(_pod_actions(old, new, reference)) or [Action.UPDATE_OTHER]
    return [ClusterEvent(resource, action) for action in actions]


def _pod_actions(old: Pod, new: Pod, reference: Reference) -> Iterator[Action]:
    if old.metadata.labels != new.metadata.labels:
        yield Action.UPDATE_POD_LABEL
    yield from _resizes(old, new, reference)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        yield Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        yield Action.UPDATE_POD_TOLERATION
    if (
        old.status.resource_claim_statuses != new.status.resource_claim_statuses
        or old.status.extended_resource_claim_status != new.status.extended_resource_claim_status
    ):
        yield Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM


def _resizes(old: Pod, new: Pod, reference: Reference) -> Iterator[Action]:
    if not _resized(old, new):
        return
    before = resources.pod_requests(old, status_aware=True, reference=reference)
    after = resources.pod_requests(new, status_aware=True, reference=reference)
    if any(after.get(name, 0) < amount for name, amount in before.items()):
        yield Action.UPDATE_POD_SCALE_DOWN
    if reference.has_scale_up_events and any(
        before.get(name, 0) < amount for name, amount in after.items()
    ):
        yield Action.UPDATE_POD_SCALE_UP


def _resized(old: Pod, new: Pod) -> bool:
    """Return, by a cheap test, whether the inputs of the pod's requests changed."""
    return (
        old.spec.containers != new.spec.containers
        or old.spec.init_containers != new.spec.init_containers
        or old.spec.resources != new.spec.resources
        or old.status.container_statuses != new.status.container_statuses
        or old.status.init_container_statuses != new.status.init_container_statuses
        or old.status.resources != new.status.resources
        or old.status.allocated_resources != new.status.allocated_resources
        or old.condition("PodResizePending") != new.condition("PodResizePending")
    )
