"""VolumeZone: a volume with zone or region labels is usable in that zone or region only.

Only bound claims are checked; a claim that waits for its first consumer has no volume yet.

Source: kube-scheduler v1.36.3 plugins/volumezone.
"""

from collections.abc import Sequence
from typing import ClassVar, Final, NamedTuple

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import PASS, Prepared, Rejected
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.api.storage import (
    WAIT_FOR_FIRST_CONSUMER,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.plugins.volumes import claims
from scheduler.plugins.volumes.cached_filter import PodIndependentFilter
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Int
from scheduler.state.columns.labels import ABSENT, LabelColumn, LabelColumns
from scheduler.state.storage.csi_translation import BETA_REGION, BETA_ZONE, REGION, ZONE
from scheduler.state.views.node_view import NodeView

__all__ = ["VolumeZone"]

REASON: Final = "node(s) had no available volume zone"

#: The labels that count; a deprecated label is also satisfied by the current label.
_LABELS: Final = {BETA_ZONE: ZONE, BETA_REGION: REGION, ZONE: ZONE, REGION: REGION}
_DELIMITER: Final = "__"


class VolumeZone:
    """Rejects nodes outside the zones and regions of the pod's volumes."""

    name: ClassVar[str] = "VolumeZone"

    def compile_filter(self, pod: Pod, cluster: Cluster, verdicts: Verdicts) -> "_InZone | None":
        if not claims.named_claims(pod):
            return None
        return _InZone(pod, cluster, verdicts.code(_verdict(REASON)))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        changed = Action.ADD | Action.UPDATE
        return (
            ClusterEventWithHint(Resource.STORAGE_CLASS, Action.ADD, _waits_for_consumer),
            ClusterEventWithHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            ClusterEventWithHint(Resource.PERSISTENT_VOLUME_CLAIM, changed, claims.names_claim),
            ClusterEventWithHint(Resource.PERSISTENT_VOLUME, changed, _moved),
        )


class _Topology(NamedTuple):
    """One zone or region label of a volume, with its values."""

    label: str
    values: frozenset[str]


class _InZone(PodIndependentFilter):
    """Rejects nodes by labels. What `prepare` finds is valid for the whole attempt."""

    def __init__(self, pod: Pod, cluster: Cluster, code: int) -> None:
        super().__init__(cluster)
        self._namespace = pod.metadata.namespace
        self._claims = claims.named_claims(pod)
        self._volumes = cluster.volumes
        self._labels = cluster.columns.labels
        self._code = code
        self._wanted: list[_Topology] = []

    def prepare(self, _state: AttemptState, /) -> Prepared:
        """Look up the labels of the pod's volumes."""
        self._wanted = []
        for name in self._claims:
            volume = self._volume(name)
            if isinstance(volume, str):
                return Rejected(_verdict(volume))
            if volume is not None:
                self._wanted += _topologies(volume)
        return PASS

    def _volume(self, name: str) -> PersistentVolume | str | None:
        """Return the volume of a claim, the reason why it is missing, or `None` if it may be."""
        if not name:
            return "PersistentVolumeClaim had no name"
        claim = self._volumes.claims.observed(f"{self._namespace}/{name}")
        if claim is None:
            return f'persistentvolumeclaim "{name}" not found'
        if not claim.spec.volume_name:
            return self._why_unbound(claim)
        volume = self._volumes.volumes.observed(claim.spec.volume_name)
        if volume is None:
            return f'persistentvolume "{claim.spec.volume_name}" not found'
        return volume

    def _why_unbound(self, claim: PersistentVolumeClaim) -> str | None:
        class_name = claim.class_name
        if not class_name:
            return "PersistentVolumeClaim had no pv name and storageClass name"
        storage_class = self._volumes.classes.get(class_name)
        if storage_class is None:
            return f'storageclass.storage.k8s.io "{class_name}" not found'
        if storage_class.volume_binding_mode is None:
            return f'VolumeBindingMode not set for StorageClass "{class_name}"'
        if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            return None
        return "PersistentVolume had no name"

    def evaluate(self, nodes: NodeView) -> Codes:
        codes = np.zeros(len(nodes), dtype=np.uint16)
        if not self._wanted:
            return codes
        labels = self._labels
        anywhere = np.zeros(len(nodes), dtype=np.bool_)
        for label in _LABELS:
            anywhere |= nodes.label_codes(labels.column(label)) != ABSENT
        outside = np.zeros(len(nodes), dtype=np.bool_)
        for wanted in self._wanted:
            outside |= ~_in_topology(wanted, nodes, labels)
        # A node without any of these labels is treated as part of a cluster with a single zone.
        codes[anywhere & outside] = self._code
        return codes


def _in_topology(wanted: _Topology, nodes: NodeView, labels: LabelColumns) -> Bool:
    column, newer = labels.column(wanted.label), labels.column(_LABELS[wanted.label])
    codes = nodes.label_codes(column)
    has = _has(wanted, column, codes)
    inside: Bool = np.where(codes == ABSENT, _has(wanted, newer, nodes.label_codes(newer)), has)
    return inside


def _has(wanted: _Topology, column: LabelColumn, codes: Int) -> Bool:
    known = [code for value in wanted.values if (code := column.code(value)) is not None]
    return np.isin(codes, known)


def _topologies(volume: PersistentVolume) -> list[_Topology]:
    """Return the zone and region labels of a volume; labels with an empty value are ignored."""
    topologies = []
    for label in _LABELS:
        value = volume.metadata.labels.get(label)
        if value is not None:
            values = [zone.strip() for zone in value.split(_DELIMITER)]
            if all(values):
                topologies.append(_Topology(label, frozenset(values)))
    return topologies


def _verdict(reason: str) -> Verdict:
    return Verdict(VolumeZone.name, (reason,), resolvable=False)


def _waits_for_consumer(_pod: Pod, _old: StorageClass | None, new: StorageClass | None) -> bool:
    return new is None or new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def _moved(_pod: Pod, old: PersistentVolume | None, new: PersistentVolume | None) -> bool:
    if old is None or new is None:
        return True
    return _topologies(old) != _topologies(new)
