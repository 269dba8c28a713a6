"""The controllers of volumes, as far as `plan` has to imagine them: at once and without failure.

A volume that was reserved for a claim is bound to it. A claim with a selected node gets a volume
that is made for it, and that can be reached where the driver's topology keys on that node say.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from scheduler.model import storage
from scheduler.model.effects import BindVolumes, ReserveVolume
from scheduler.model.objects import (
    Node,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    Pod,
    Requirement,
)
from scheduler.model.storage import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ClaimReference,
    CSINode,
    CSIVolume,
    ObjectPhase,
    PersistentVolume,
    PersistentVolumeClaim,
    Storage,
    StorageClass,
    VolumeNodeAffinity,
    VolumeSpec,
)
from scheduler.state.volume_use import claims_of

__all__ = ["ImaginedStorage"]

_BOUND = ObjectPhase("Bound")


class ImaginedStorage:
    """All storage of an imagined cluster."""

    def __init__(self, items: Iterable[Storage], nodes: Iterable[Node]) -> None:
        self._volumes: dict[str, PersistentVolume] = {}
        self._claims: dict[str, PersistentVolumeClaim] = {}
        self._classes: dict[str, StorageClass] = {}
        self._csi_nodes: dict[str, CSINode] = {}
        self._nodes = {node.metadata.name: node for node in nodes}
        self._changes = 0
        for item in items:
            match item:
                case PersistentVolume():
                    self._volumes[item.metadata.name] = item
                case PersistentVolumeClaim():
                    self._claims[item.key] = item
                case StorageClass():
                    self._classes[item.metadata.name] = item
                case CSINode():
                    self._csi_nodes[item.metadata.name] = item
                case _:
                    pass

    def bind(
        self, effect: BindVolumes, pod: Pod
    ) -> Iterator[PersistentVolume | PersistentVolumeClaim]:
        """Bind all claims of a pod; yield the new states of volumes and claims."""
        for part in effect.volumes:
            self._reserve(part)
        for each in effect.claims:
            key = f"{each.claim_namespace}/{each.claim_name}"
            self._annotate(key, {SELECTED_NODE: effect.node})
        for name in claims_of(pod):
            claim = self._claims.get(f"{pod.metadata.namespace}/{name}")
            if claim is not None and not claim.bound:
                volume = self._reserved_for(claim) or self._made_for(claim)
                yield self._bound_volume(volume, claim)
                yield self._bound_claim(claim, volume)

    def _reserve(self, part: ReserveVolume) -> None:
        volume = self._volumes[part.volume]
        claim = ClaimReference(part.claim_namespace, part.claim_name, part.claim_uid)
        self._volumes[part.volume] = replace(volume, spec=replace(volume.spec, claim_ref=claim))

    def _reserved_for(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        for volume in self._volumes.values():
            reference = volume.spec.claim_ref
            if reference is not None and reference.uid == claim.metadata.uid:
                return volume
        return None

    def _made_for(self, claim: PersistentVolumeClaim) -> PersistentVolume:
        """Make a volume as a provisioner would."""
        name, found = f"pvc-{claim.metadata.uid}", self._classes.get(claim.class_name)
        driver = "" if found is None else found.provisioner
        return PersistentVolume(
            metadata=ObjectMeta(name=name),
            spec=VolumeSpec(
                capacity={"storage": claim.request or "0"},
                access_modes=claim.spec.access_modes,
                storage_class_name=claim.class_name,
                volume_mode=claim.spec.volume_mode,
                node_affinity=self._topology(claim.selected_node or "", driver),
                csi=CSIVolume(driver, name),
            ),
        )

    def _topology(self, node: str, driver: str) -> VolumeNodeAffinity | None:
        """Return from where a volume can be reached that a driver makes for a node."""
        csi_node, there = self._csi_nodes.get(node), self._nodes.get(node)
        drivers = () if csi_node is None else csi_node.spec.drivers or ()
        keys = next((each.topology_keys for each in drivers if each.name == driver), None)
        labels = {} if there is None else there.metadata.labels
        same = [Requirement(key, "In", [labels[key]]) for key in keys or () if key in labels]
        if not same:
            return None
        return VolumeNodeAffinity(NodeSelector([NodeSelectorTerm(match_expressions=same)]))

    def _bound_volume(
        self, volume: PersistentVolume, claim: PersistentVolumeClaim
    ) -> PersistentVolume:
        of = claim.metadata
        reference = ClaimReference(of.namespace, of.name, of.uid)
        bound = replace(
            volume,
            metadata=self._changed(volume.metadata),
            spec=replace(volume.spec, claim_ref=reference),
            status=_BOUND,
        )
        self._volumes[volume.metadata.name] = bound
        return bound

    def _bound_claim(
        self, claim: PersistentVolumeClaim, volume: PersistentVolume
    ) -> PersistentVolumeClaim:
        self._annotate(claim.key, {BIND_COMPLETED: "yes", BOUND_BY_CONTROLLER: "yes"})
        marked = self._claims[claim.key]
        bound = replace(
            marked,
            metadata=self._changed(marked.metadata),
            spec=replace(marked.spec, volume_name=volume.metadata.name),
            status=_BOUND,
        )
        self._claims[claim.key] = bound
        return bound

    def _annotate(self, key: str, more: dict[str, str]) -> None:
        claim = self._claims[key]
        self._claims[key] = replace(claim, metadata=storage.annotated(claim.metadata, more))

    def _changed(self, metadata: ObjectMeta) -> ObjectMeta:
        """Return metadata under a version that no object had before."""
        self._changes += 1
        return replace(metadata, resource_version=f"imagined-{self._changes}")
