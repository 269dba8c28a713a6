"""Compares two states of an object, and returns the cluster events for waiting pods.

Source: kube-scheduler v1.36.3 framework/events.go.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.framework.cluster_events import Action, ClusterEvent, Resource
from scheduler.model.api import resources
from scheduler.model.api.objects import DeviceClass, Node, Pod
from scheduler.model.api.storage import Storage

__all__ = [
    "NODE_ADDED",
    "NODE_DELETED",
    "POD_ADDED",
    "POD_DELETED",
    "device_class_changed",
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


def pod_changes(old: Pod, new: Pod) -> list[ClusterEvent]:
    """Return the events of a pod update, in upstream's order; if none, `UPDATE_OTHER`."""
    resource = Resource.ASSIGNED_POD if new.spec.node_name else Resource.UNSCHEDULABLE_POD
    actions = list(_pod_actions(old, new)) or [Action.UPDATE_OTHER]
    return [ClusterEvent(resource, action) for action in actions]


def _pod_actions(old: Pod, new: Pod) -> Iterator[Action]:
    if old.metadata.labels != new.metadata.labels:
        yield Action.UPDATE_POD_LABEL
    if _scaled_down(old, new):
        yield Action.UPDATE_POD_SCALE_DOWN
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        yield Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        yield Action.UPDATE_POD_TOLERATION
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        yield Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM


def _scaled_down(old: Pod, new: Pod) -> bool:
    if not _resized(old, new):
        return False
    before = resources.pod_requests(old, status_aware=True)
    after = resources.pod_requests(new, status_aware=True)
    return any(after.get(name, 0) < amount for name, amount in before.items())


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
