"""The queueing hints of VolumeBinding.

Source: kube-scheduler v1.36.3 plugins/volumebinding/volume_binding.go, isSchedulableAfter…
"""

from scheduler.model.api import quantity
from scheduler.model.api.objects import Pod
from scheduler.model.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.plugins.volumes import claims

__all__ = ["after_capacity", "after_claim", "after_class", "after_csi_node", "after_driver"]


def after_csi_node(_pod: Pod, old: CSINode | None, new: CSINode | None) -> bool:
    """Return whether the set of in-tree plugins that are migrated to CSI changed on a node."""
    return old is None or new is None or old.migrated_plugins != new.migrated_plugins


def after_claim(
    pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
) -> bool:
    """Return whether a claim of the pod is new, or changed in any way."""
    return claims.is_claim_of(new, pod)


def after_class(_pod: Pod, old: StorageClass | None, new: StorageClass | None) -> bool:
    """Return whether a storage class is new, or its allowed topologies changed."""
    return old is None or new is None or old.allowed_topologies != new.allowed_topologies


def after_driver(pod: Pod, old: CSIDriver | None, new: CSIDriver | None) -> bool:
    """Return whether a driver of the pod's inline volumes stopped checking capacity."""
    if old is None or new is None or not old.tells_capacity or new.tells_capacity:
        return False
    return any(volume.csi and volume.csi.driver == new.metadata.name for volume in pod.spec.volumes)


def after_capacity(
    _pod: Pod, old: CSIStorageCapacity | None, new: CSIStorageCapacity | None
) -> bool:
    """Return whether capacity grew, or was not known before."""
    if old is None or new is None:
        return True
    if new.largest is None:
        return False
    return old.largest is None or quantity.value(new.largest) > quantity.value(old.largest)
