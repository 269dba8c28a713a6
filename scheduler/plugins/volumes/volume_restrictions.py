"""VolumeRestrictions: volumes that cannot be mounted twice.

A network disk that a pod spec names directly can be written by only one pod of a node. A claim with
the access mode ReadWriteOncePod can be used by only one pod of the cluster.

Source: kube-scheduler v1.36.3 plugins/volumerestrictions.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import PASS, CompiledFilter, Prepared, Reads, Rejected
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.api.storage import READ_WRITE_ONCE_POD
from scheduler.plugins.volumes import claims
from scheduler.plugins.volumes.slot_weights import SlotWeights
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes
from scheduler.state.storage.mounts import Disks, disks_of
from scheduler.state.views.node_view import NodeView

__all__ = ["VolumeRestrictions"]

REASON_DISK: Final = "node(s) had no available disk"
REASON_IN_USE: Final = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)


class VolumeRestrictions:
    """Rejects nodes where a disk of the pod is in use, and all nodes while a claim of it is."""

    name: ClassVar[str] = "VolumeRestrictions"

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        if not disks_of(pod) and not claims.named_claims(pod):
            return None

        def code(reason: str) -> int:
            return verdicts.code(Verdict(self.name, (reason,), resolvable=True))

        return _Exclusive(pod, cluster, code(REASON_DISK), code(REASON_IN_USE))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return (
            ClusterEventWithHint(Resource.POD, Action.DELETE, _freed_a_volume),
            ClusterEventWithHint(Resource.NODE, Action.ADD),
            ClusterEventWithHint(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, claims.names_claim),
        )


class _Exclusive(CompiledFilter):
    """Rejects nodes by disks, all nodes by claims. `prepare` is valid for the whole attempt."""

    reads = Reads.CLUSTER

    def __init__(self, pod: Pod, cluster: Cluster, taken: int, in_use: int) -> None:
        self._namespace = pod.metadata.namespace
        self._claims = claims.named_claims(pod)
        self._disks = Disks(disks_of(pod))
        self._cluster = cluster
        self._taken, self._in_use = taken, in_use
        self._conflicts: SlotWeights | None = None
        self._users: SlotWeights | None = None
        self._used = 0

    def prepare(self, _state: AttemptState, /) -> Prepared:
        """Look up the pods that use the volumes of the pod.

        Upstream skips the rule for a pod without disks whose claims no pod uses now, so pods that
        are only nominated do not count either. Here such a pod passes, because 0 on every node has
        the same effect.
        """
        use, claims = self._cluster.volumes.use, self._cluster.volumes.claims
        alone: set[str] = set()
        for name in self._claims:
            claim = claims.observed(f"{self._namespace}/{name}")
            if claim is None:
                reason = f'persistentvolumeclaim "{name}" not found'
                return Rejected(Verdict(VolumeRestrictions.name, (reason,), resolvable=False))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                alone.add(name)
        self._used = sum(use.is_used(f"{self._namespace}/{name}") for name in alone)
        # In a hypothetical view, pods count by the name of the claim only, not by the namespace.
        users = use.naming(alone) if self._used or (self._disks.identities and alone) else {}
        conflicts = use.conflicting(self._disks)
        self._users = SlotWeights(users) if users else None
        self._conflicts = SlotWeights(dict.fromkeys(conflicts, 1)) if conflicts else None
        return PASS

    def codes(self, nodes: NodeView) -> Codes:
        codes = np.zeros(len(nodes), dtype=np.uint16)
        used = np.full(len(nodes), self._used)
        shift = None if self._users is None else nodes.shift(self._users)
        codes[(used if shift is None else used + shift) > 0] = self._in_use
        if self._conflicts is not None:
            codes[self._conflicts.on(nodes, self._cluster.pods) > 0] = self._taken
        return codes


def _freed_a_volume(pod: Pod, old: Pod | None, _new: Pod | None) -> bool:
    if old is None or old.metadata.namespace != pod.metadata.namespace:
        return False
    if not set(claims.named_claims(old)).isdisjoint(claims.named_claims(pod)):
        return True
    freed = disks_of(old)
    return bool(freed) and Disks(disks_of(pod)).conflict(Disks(freed))
