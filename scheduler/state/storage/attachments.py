"""Volume attachments: volumes that are attached, or about to be, independent of pods.

An attachment is counted for the volume that it names, if that is known and has a CSI driver.
"""

from collections.abc import Iterator
from typing import Final

from scheduler.model.api.storage import PersistentVolume, VolumeAttachment
from scheduler.state.storage.assumed_storage import AssumeCache
from scheduler.state.storage.csi_counts import VolumeCounts
from scheduler.state.storage.csi_translation import CsiVolume

__all__ = ["Attachments"]


class Attachments:
    """All attachments, by name."""

    def __init__(self, volumes: AssumeCache[PersistentVolume], counts: VolumeCounts) -> None:
        self._volumes: Final = volumes
        self._counts: Final = counts
        self._all: dict[str, VolumeAttachment] = {}
        #: The counted volume by attachment, and the attachments by name of their volume.
        self._counted: dict[str, CsiVolume] = {}
        self._of_volume: dict[str, set[str]] = {}

    def __iter__(self) -> Iterator[VolumeAttachment]:
        return iter(self._all.values())

    def write(self, item: VolumeAttachment) -> VolumeAttachment | None:
        """Store the state of an attachment; return its previous state."""
        before = self.erase(item.metadata.name)
        self._all[item.metadata.name] = item
        volume = item.spec.source.persistent_volume_name
        if volume is not None:
            self._of_volume.setdefault(volume, set()).add(item.metadata.name)
        self._attach(item)
        return before

    def erase(self, name: str) -> VolumeAttachment | None:
        """Remove an attachment; return its last state."""
        before = self._all.pop(name, None)
        if before is None:
            return None
        self._detach(before)
        volume = before.spec.source.persistent_volume_name
        if volume is not None:
            self._of_volume[volume].discard(name)
            if not self._of_volume[volume]:
                del self._of_volume[volume]
        return before

    def volume_changed(self, name: str) -> None:
        """Update the counts of the attachments of a volume."""
        for attachment in self._of_volume.get(name, ()):
            self._detach(self._all[attachment])
            self._attach(self._all[attachment])

    def _attach(self, item: VolumeAttachment) -> None:
        """Count an attachment.

        Source: kube-scheduler v1.36.3 nodevolumelimits.getNodeVolumeAttachmentInfo.
        """
        spec = item.spec
        volume = self._volumes.observed(spec.source.persistent_volume_name or "")
        if volume is None or volume.spec.csi is None or not spec.attacher:
            return
        counted = CsiVolume(spec.attacher, volume.spec.csi.volume_handle)
        self._counted[item.metadata.name] = counted
        self._counts.attach(spec.node_name, counted)

    def _detach(self, item: VolumeAttachment) -> None:
        counted = self._counted.pop(item.metadata.name, None)
        if counted is not None:
            self._counts.detach(item.spec.node_name, counted)
