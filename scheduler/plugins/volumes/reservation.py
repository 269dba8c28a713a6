"""The reservation of storage for a pod: volumes bound to its claims, and claims with a node.

Both are assumed at once, so that no other pod gets the same volumes, and are written by the effect
of the reservation. The volume controller then binds volume and claim, and a provisioner creates
missing volumes. The pod is bound when all of its claims are bound.

Source: kube-scheduler v1.36.3 volumebinding.AssumePodVolumes, BindPodVolumes, checkBindings.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from scheduler.framework import event_diff
from scheduler.framework.plugin import Change, Reservation, ReservationFailed
from scheduler.model.api import storage
from scheduler.model.api.objects import Node
from scheduler.model.api.storage import (
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
    ClaimReference,
    PersistentVolume,
    PersistentVolumeClaim,
)
from scheduler.model.effects import BindVolumes, PodRef, ReserveVolume, SelectNode
from scheduler.model.times import Seconds
from scheduler.plugins.volumes import topology
from scheduler.plugins.volumes.matching import MatchedVolumes
from scheduler.state.cluster import Cluster
from scheduler.state.storage.csi_translation import TranslationError

__all__ = ["VolumeReservation", "reserved", "selected"]

_VOLUME: Final = PersistentVolume.__name__
_CLAIM: Final = PersistentVolumeClaim.__name__


def reserved(volume: PersistentVolume, claim: PersistentVolumeClaim) -> PersistentVolume:
    """Return a volume with the changes that reserve it for a claim.

    Source: component-helpers v0.36.3 storage/volume.GetBindVolumeToClaim.
    """
    metadata, have = claim.metadata, volume.spec.claim_ref
    wanted = ClaimReference(metadata.namespace, metadata.name, metadata.uid)
    by_hand = have is not None and have.key == wanted.key and have.uid in ("", wanted.uid)
    now = replace(volume, spec=replace(volume.spec, claim_ref=wanted))
    if by_hand or BOUND_BY_CONTROLLER in volume.metadata.annotations:
        return now
    marked = storage.annotated(volume.metadata, {BOUND_BY_CONTROLLER: "yes"})
    return replace(now, metadata=marked)


def selected(claim: PersistentVolumeClaim, node: str) -> PersistentVolumeClaim:
    """Return a claim with the annotation that has a volume provisioned for a node."""
    return replace(claim, metadata=storage.annotated(claim.metadata, {SELECTED_NODE: node}))


class VolumeReservation(Reservation):
    """Reserves the volumes of one pod on one node."""

    timed_out = ReservationFailed("binding volumes: context deadline exceeded")

    def __init__(
        self,
        pod: PodRef,
        node: str,
        matched: MatchedVolumes,
        cluster: Cluster,
        timeout_seconds: Seconds,
    ) -> None:
        self._node = node
        self._matched = matched
        self._cluster = cluster
        self._assumed: list[PersistentVolume | PersistentVolumeClaim] = []
        #: By kind and key, the resource version before the write of this reservation.
        self._old: dict[tuple[str, str], str] = {}
        self.timeout_seconds = timeout_seconds
        volumes = tuple(self._reserve())
        claims = tuple(self._select())
        self.effect = BindVolumes(pod, node, volumes, claims)
        self.watched_objects = frozenset(
            {
                *((_VOLUME, volume.metadata.name) for volume, _ in matched.bindings),
                *((_CLAIM, claim.key) for _, claim in matched.bindings),
                *((_CLAIM, claim.key) for claim in matched.provisions),
            }
        )

    def _reserve(self) -> Iterator[ReserveVolume]:
        """Assume that volumes are reserved; yield the writes for it."""
        for volume, claim in self._matched.bindings:
            self._assume(volume, reserved(volume, claim))
            name, of = volume.metadata.name, claim.metadata
            observed = self._cluster.volumes.volumes.observed(name)
            now = None if observed is None else reserved(observed, claim)
            if observed is not None and now is not None and now != observed:
                self._old[_VOLUME, name] = observed.metadata.resource_version
                yield ReserveVolume(
                    volume=name,
                    version=observed.metadata.resource_version,
                    claim_namespace=of.namespace,
                    claim_name=of.name,
                    claim_uid=of.uid,
                    claim_version=of.resource_version,
                    by_controller=now.metadata != observed.metadata,
                )

    def _select(self) -> Iterator[SelectNode]:
        """Assume that claims have the node selected; yield the writes for it."""
        for claim in self._matched.provisions:
            self._assume(claim, selected(claim, self._node))
            observed = self._cluster.volumes.claims.observed(claim.key)
            if observed is not None and observed.selected_node != self._node:
                version = observed.metadata.resource_version
                self._old[_CLAIM, claim.key] = version
                yield SelectNode(claim.metadata.namespace, claim.metadata.name, version)

    def _assume(
        self,
        before: PersistentVolume | PersistentVolumeClaim,
        now: PersistentVolume | PersistentVolumeClaim,
    ) -> None:
        if now != before:
            self._cluster.volumes.assume(now)
            self._assumed.append(now)

    def release(self) -> Iterable[Change]:
        volumes = self._cluster.volumes
        changes = []
        for item in self._assumed:
            volumes.restore(item)
            now: PersistentVolume | PersistentVolumeClaim | None
            if isinstance(item, PersistentVolume):
                now = volumes.volumes.observed(item.metadata.name)
            else:
                now = volumes.claims.observed(item.key)
            if now is not None:
                changes.append((event_diff.storage_change(item, now), item, now))
        return changes

    def poll(self) -> bool | ReservationFailed:
        node = self._cluster.columns.node(self._node)
        if node is None:
            name = self._node
            return _failed(f'failed to get node "{name}": node "{name}" not found')
        for volume, claim in self._matched.bindings:
            complete = self._bound(volume, claim, node)
            if complete is not True:
                return complete
        for claim in self._matched.provisions:
            complete = self._provisioned(claim, node)
            if complete is not True:
                return complete
        return True

    def _bound(
        self, volume: PersistentVolume, claim: PersistentVolumeClaim, node: Node
    ) -> bool | ReservationFailed:
        """Return whether the binding of an existing volume is complete."""
        name = volume.metadata.name
        now = self._cluster.volumes.volumes.observed(name)
        if now is None:
            return _failed(f'failed to check binding: persistentvolumes "{name}" not found')
        claim_now = self._cluster.volumes.claims.observed(claim.key)
        if claim_now is None:
            return _failed(
                f'failed to check binding: persistentvolumeclaims "{claim.key}" not found'
            )
        if self._is_old(_VOLUME, name, now):
            return False
        unreachable = self._unreachable(now, node)
        if unreachable is not None:
            return unreachable
        if now.spec.claim_ref is None or not now.spec.claim_ref.uid:
            return _failed(f'ClaimRef got reset for pv "{name}"')
        return claim_now.bound

    def _provisioned(self, claim: PersistentVolumeClaim, node: Node) -> bool | ReservationFailed:
        """Return whether the volume of a claim is provisioned and bound."""
        now = self._cluster.volumes.claims.observed(claim.key)
        if now is None:
            return _failed(
                f'failed to check provisioning pvc: persistentvolumeclaims "{claim.key}" not found'
            )
        if self._is_old(_CLAIM, claim.key, now):
            return False
        name = claim.metadata.name
        if not now.metadata.annotations:
            return _failed(f'selectedNode annotation reset for PVC "{name}"')
        if now.selected_node != self._node:
            return _failed(f'provisioning failed for PVC "{name}"')
        volume = self._cluster.volumes.volumes.observed(now.spec.volume_name)
        if volume is None:
            # Not provisioned yet, or its watch event comes later than that of the claim.
            return False
        return self._unreachable(volume, node) or now.bound

    def _is_old(self, kind: str, key: str, now: PersistentVolume | PersistentVolumeClaim) -> bool:
        """Return whether this is the state before the write, so that an event is still to come."""
        return self._old.get((kind, key)) == now.metadata.resource_version

    def _unreachable(self, volume: PersistentVolume, node: Node) -> ReservationFailed | None:
        name, volumes = node.metadata.name, self._cluster.volumes
        try:
            if topology.reaches(volume, name, node.metadata.labels, volumes.nodes):
                return None
        except TranslationError as error:
            return _failed(f"failed to translate pv to csi: could not translate pv: {error}")
        return _failed(
            f'pv "{volume.metadata.name}" node affinity doesn\'t match node "{name}": '
            "no matching NodeSelectorTerms"
        )


def _failed(reason: str) -> ReservationFailed:
    return ReservationFailed(f"binding volumes: {reason}")
