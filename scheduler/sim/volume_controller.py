"""Simulates the persistent volume controller for `plan`: it acts at once and never fails.

A volume that is reserved for a claim is bound to it; if several are, the one that the scheduler
chose. No volume is created: a claim that needs one keeps its selected node, and other pods with
that claim have to go there.
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

__all__ = ["SimulatedStorage"]

_BOUND = ObjectPhase("Bound")


class SimulatedStorage:
    """The volumes and claims of a simulated cluster."""

    def __init__(self, items: Iterable[Storage]) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        self._claims: dict[str, PersistentVolumeClaim] = {}
        self._changes = 0
        for item in items:
            self.add(item)

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        """Return a claim, `None` if there is none."""
        return self._claims.get(key)

    def add(self, item: Storage) -> None:
        """Add a volume or a claim; other objects are not looked at."""
        if isinstance(item, PersistentVolume):
            self._volumes[item.metadata.name] = item
        elif isinstance(item, PersistentVolumeClaim):
            self._claims[item.key] = item

    def bind(
        self, effect: BindVolumes, pod: Pod
    ) -> Iterator[PersistentVolume | PersistentVolumeClaim]:
        """Bind the claims of a pod for which there are volumes; yield all new states."""
        chosen: dict[str, str] = {}
        for part in effect.volumes:
            chosen[part.claim_uid] = part.volume
            volume = self._volumes[part.volume]
            claim = ClaimReference(part.claim_namespace, part.claim_name, part.claim_uid)
            reserved = replace(volume, spec=replace(volume.spec, claim_ref=claim))
            self._volumes[part.volume] = reserved
        for selected in effect.claims:
            key = f"{selected.claim_namespace}/{selected.claim_name}"
            yield self._annotate(key, {SELECTED_NODE: effect.node})
        for name in claims_of(pod):
            wanted = self._claims.get(f"{pod.metadata.namespace}/{name}")
            if wanted is not None and not wanted.bound:
                uid = wanted.metadata.uid
                volume_name = chosen.get(uid) or self._reserved_for(uid)
                if volume_name is not None:
                    yield from self._bind(wanted, volume_name)

    def _reserved_for(self, claim_uid: str) -> str | None:
        """Return the name of the first volume that is already reserved for a claim."""
        references = ((name, volume.spec.claim_ref) for name, volume in self._volumes.items())
        names = (name for name, ref in references if ref is not None and ref.uid == claim_uid)
        return next(names, None)

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
        """Return metadata with a resource version that no object has had before."""
        self._changes += 1
        return replace(metadata, resource_version=f"simulated-{self._changes}")
