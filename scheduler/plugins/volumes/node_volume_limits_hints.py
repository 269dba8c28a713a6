"""The queueing hints of NodeVolumeLimits.

Source: kube-scheduler v1.36.3 plugins/nodevolumelimits/csi.go, isSchedulableAfter…
"""

from scheduler.model.api.objects import Pod
from scheduler.model.api.storage import CSINode, PersistentVolumeClaim, VolumeAttachment
from scheduler.plugins.volumes import claims
from scheduler.state.storage.csi_translation import TranslationError, inline_plugin, of_inline

__all__ = ["after_attachment", "after_claim", "after_node", "after_pod", "may_attach"]


def may_attach(pod: Pod) -> bool:
    """Return whether a pod has volumes that could be attached by a CSI driver."""
    return any(
        volume.persistent_volume_claim or volume.ephemeral or inline_plugin(volume)
        for volume in pod.spec.volumes
    )


def after_node(_pod: Pod, old: CSINode | None, new: CSINode | None) -> bool:
    """Return whether a limit was raised; a driver without a limit counts as limited to 0."""
    if old is None or new is None:
        return True
    before = old.limits
    return any(limit > before.get(driver, 0) for driver, limit in new.limits.items())


def after_pod(_pod: Pod, old: Pod | None, _new: Pod | None) -> bool:
    """Return whether a pod with a node or a nomination had volumes that could be attached."""
    if old is None or not (old.spec.node_name or old.status.nominated_node_name):
        return False
    return may_attach(old)


def after_claim(
    pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim | None
) -> bool:
    """Return whether the added claim is one that the pod uses."""
    return claims.is_claim_of(new, pod)


def after_attachment(pod: Pod, old: VolumeAttachment | None, _new: VolumeAttachment | None) -> bool:
    """Return whether the detached volume may be of a CSI driver that the pod uses."""
    for volume in pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            return True
        try:
            csi_volume = of_inline(volume)
        except TranslationError:
            return True
        if csi_volume is not None and old is not None and old.spec.attacher == csi_volume.driver:
            return True
    return False
