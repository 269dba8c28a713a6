"""Cluster events, and the events that make plugins reconsider rejected pods.

Source: kube-scheduler v1.36.3 framework/events.go, framework/types.go MatchClusterEvents.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntFlag, StrEnum
from typing import Any

from scheduler.model.api.objects import Pod

__all__ = ["Action", "ClusterEvent", "ClusterEventWithHint", "Hint", "Resource", "always"]


class Resource(StrEnum):
    """The kind of object that changed."""

    ANY = "*"
    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULABLE_POD = "UnschedulablePod"
    #: The names of waiting pods from v1.37 on: one that is added, and one that changes itself.
    UNSCHEDULED_POD = "UnscheduledPod"
    TARGET_POD = "TargetPod"
    NODE = "Node"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"


class Action(IntFlag):
    """How it changed; an event matches an action if they have a bit in common."""

    ADD = 1 << 0
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    UPDATE_POD_LABEL = 1 << 8
    UPDATE_POD_SCALE_DOWN = 1 << 9
    UPDATE_POD_TOLERATION = 1 << 10
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 11
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 12
    #: Any other change; matches only plugins that register all updates.
    UPDATE_OTHER = 1 << 13
    UPDATE_POD_SCALE_UP = 1 << 14
    UPDATE = (1 << 15) - 4
    ALL = (1 << 15) - 1


_LABELS = {
    Action.ADD: "Add",
    Action.DELETE: "Delete",
    Action.UPDATE_NODE_ALLOCATABLE: "UpdateNodeAllocatable",
    Action.UPDATE_NODE_LABEL: "UpdateNodeLabel",
    Action.UPDATE_NODE_TAINT: "UpdateNodeTaint",
    Action.UPDATE_NODE_CONDITION: "UpdateNodeCondition",
    Action.UPDATE_NODE_ANNOTATION: "UpdateNodeAnnotation",
    Action.UPDATE_NODE_DECLARED_FEATURE: "UpdateNodeDeclaredFeature",
    Action.UPDATE_POD_LABEL: "UpdatePodLabel",
    Action.UPDATE_POD_SCALE_DOWN: "UpdatePodScaleDown",
    Action.UPDATE_POD_SCALE_UP: "UpdatePodScaleUp",
    Action.UPDATE_POD_TOLERATION: "UpdatePodToleration",
    Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: "UpdatePodSchedulingGatesEliminated",
    Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM: "UpdatePodGeneratedResourceClaim",
    Action.UPDATE_OTHER: "Update",
}


_PODS = frozenset(
    {
        Resource.ASSIGNED_POD,
        Resource.UNSCHEDULABLE_POD,
        Resource.UNSCHEDULED_POD,
        Resource.TARGET_POD,
    }
)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """One change of one kind of object."""

    resource: Resource
    action: Action

    @property
    def label(self) -> str:
        """The label value in metrics."""
        return f"{self.resource.value}{_LABELS[self.action]}"

    def matched_by(self, resource: Resource, action: Action) -> bool:
        """Return whether the event matches a registered resource and action."""
        same = resource in (self.resource, Resource.ANY) or (
            resource is Resource.POD and self.resource in _PODS
        )
        return same and bool(action & self.action)


#: `(waiting pod, old object, new object)` to whether the change may make the pod schedulable.
#: Source: kube-scheduler v1.36.3 framework.QueueingHintFn.
Hint = Callable[[Pod, Any, Any], bool]


def always(_pod: Pod, _old: object, _new: object) -> bool:
    """Answer True for every event."""
    return True


@dataclass(frozen=True, slots=True)
class ClusterEventWithHint:
    """Events that may make pods schedulable which a plugin rejected.

    Source: kube-scheduler v1.36.3 framework.ClusterEventWithHint.
    """

    resource: Resource
    action: Action
    hint: Hint = always
