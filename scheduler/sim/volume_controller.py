"""The controller of volumes, as far as `plan` has to imagine it: at once and without failure.

A volume that was reserved for a claim is bound to it, where several are, the one that the scheduler
chose. No volume is created: a claim that needs one
keeps the node that was selected for it, and other pods with the claim have to go there.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from scheduler.model.api import storage
from scheduler.model.api.objects import Pod
from scheduler.model.api.storage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ClaimReference,
    ObjectPhase,
    PersistentVolume,
    PersistentVolumeClaim,
    Storage,
    StorageMeta,
)
from scheduler.model.effects import BindVolumes
from scheduler.state.storage.mounts import claims_of

__all__ = ["ImaginedStorage"]

_BOUND = ObjectPhase("Bound")


class ImaginedStorage:
    """The volumes and claims of an imagined cluster."""

    def __init__(self, items: Iterable[Storage]) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        self._claims: dict[str, PersistentVolumeClaim] = {}
        self._changes = 0
        for item in items:
            if isinstance(item, PersistentVolume):
                self._volumes[item.metadata.name] = item
            elif isinstance(item, PersistentVolumeClaim):
                self._claims[item.key] = item

    def bind(
        self, effect: BindVolumes, pod: Pod
    ) -> Iterator[PersistentVolume | PersistentVolumeClaim]:
        """Bind the claims of a pod, as far as there are volumes; yield all new states."""
        chosen: dict[str, str] = {}
        for part in effect.volumes:
            chosen[part.claim_uid] = part.volume
            volume = self._volumes[part.volume]
            claim = ClaimReference(part.claim_namespace, part.claim_name, part.claim_uid)
            reserved = replace(volume, spec=replace(volume.spec, claim_ref=claim))
            self._volumes[part.volume] = reserved
        for each in effect.claims:
            key = f"{each.claim_namespace}/{each.claim_name}"
            yield self._annotate(key, {SELECTED_NODE: effect.node})
        for name in claims_of(pod):
            wanted = self._claims.get(f"{pod.metadata.namespace}/{name}")
            if wanted is not None and not wanted.bound:
                uid = wanted.metadata.uid
                volume_name = chosen.get(uid) or self._reserved_for(uid)
                if volume_name is not None:
                    yield from self._bind(wanted, volume_name)

    def _reserved_for(self, claim_uid: str) -> str | None:
        """Return the first volume that was reserved for a claim before."""
        references = ((name, each.spec.claim_ref) for name, each in self._volumes.items())
        found = (name for name, each in references if each is not None and each.uid == claim_uid)
        return next(found, None)

    def _bind(
        self, claim: PersistentVolumeClaim, volume_name: str
    ) -> Iterator[PersistentVolume | PersistentVolumeClaim]:
        """Bind a claim to a volume; yield the new states of both."""
        volume = self._volumes[volume_name]
        metadata = self._changed(volume.metadata)
        self._volumes[volume_name] = replace(volume, metadata=metadata, status=_BOUND)
        yield self._volumes[volume_name]
        marked = self._annotate(claim.key, {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"})
        spec = replace(marked.spec, volume_name=volume_name)
        self._claims[claim.key] = replace(marked, spec=spec, status=_BOUND)
        yield self._claims[claim.key]

    def _annotate(self, key: str, more: dict[str, str]) -> PersistentVolumeClaim:
        claim = self._claims[key]
        metadata = self._changed(storage.annotated(claim.metadata, more))
        self._claims[key] = replace(claim, metadata=metadata)
        return self._claims[key]

    def _changed(self, metadata: StorageMeta) -> StorageMeta:
        """Return metadata under a version that no object had before."""
        self._changes += 1
        return replace(metadata, resource_version=f"imagined-{self._changes}")
