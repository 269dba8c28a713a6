"""NodeVolumeLimits: limits the number of volumes of each CSI driver on a node.

The limits are those of the node's CSINode; a driver without a limit there is not limited. A volume
counts once on a node, no matter how many pods use it, and while only its attachment is left. From
v1.37 on, a driver that must be there, and is not in the CSINode, rejects the pod.

Source: kube-scheduler v1.36.3 and v1.37.2 plugins/nodevolumelimits. Differs: of several missing
drivers the first by name is reported; a claim of a running pod that cannot be resolved is not
counted, upstream fails the attempt.
"""

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import PASS, CompiledFilter, PluginError, Prepared, Reads
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Pod
from scheduler.plugins.volumes import claims, node_volume_limits_hints
from scheduler.plugins.volumes.hypothetical_counts import HypotheticalCounts
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes
from scheduler.state.storage.csi_counts import NO_LIMIT
from scheduler.state.storage.csi_translation import CsiVolume, TranslationError, of_inline
from scheduler.state.views.node_view import HypotheticalView, NodeView

__all__ = ["NodeVolumeLimits"]

REASON: Final = "node(s) exceed max volume count"


class NodeVolumeLimits:
    """Rejects nodes that would exceed the volume limit of a CSI driver."""

    name: ClassVar[str] = "NodeVolumeLimits"

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        if not node_volume_limits_hints.may_attach(pod):
            return None
        return _Limited(pod, cluster, verdicts)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        hints = node_volume_limits_hints
        return (
            ClusterEventWithHint(Resource.CSI_NODE, Action.ADD),
            ClusterEventWithHint(Resource.CSI_NODE, Action.UPDATE, hints.after_node),
            ClusterEventWithHint(Resource.POD, Action.DELETE, hints.after_pod),
            ClusterEventWithHint(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, hints.after_claim),
            ClusterEventWithHint(Resource.VOLUME_ATTACHMENT, Action.DELETE, hints.after_attachment),
        )


def _not_installed(driver: str) -> Verdict:
    reason = f"{driver} CSI driver is not installed on the node"
    return Verdict(NodeVolumeLimits.name, (reason,), resolvable=True)


class _Limited(CompiledFilter):
    """Rejects nodes by volume counts. What `prepare` finds is valid for the whole attempt."""

    reads = Reads.CLUSTER
    spec_only = True
    #: One more pod may bring a volume, which is then no longer a new volume for this pod.
    monotone = False

    def __init__(self, pod: Pod, cluster: Cluster, verdicts: Verdicts) -> None:
        self._pod = pod
        self._cluster = cluster
        self._counts = cluster.volumes.counts
        self._verdicts = verdicts
        self._full = verdicts.code(Verdict(NodeVolumeLimits.name, (REASON,), resolvable=True))
        self._new: frozenset[CsiVolume] = frozenset()
        self._missing = 0
        self._error = ""
        self._hypothetical = HypotheticalCounts(cluster, self._new)

    def prepare(self, _state: AttemptState, /) -> Prepared:
        """Find the volumes that the pod would bring to a node."""
        self._missing, self._error = 0, ""
        self._new = self._volumes()
        self._hypothetical = HypotheticalCounts(self._cluster, self._new)
        return PASS

    def _volumes(self) -> frozenset[CsiVolume]:
        pod, volumes, csi_volumes = self._pod, self._cluster.volumes, set()
        for source in pod.spec.volumes:
            name = claims.claim_name(pod, source)
            try:
                volume = of_inline(source) if name is None else None
            except TranslationError as error:
                self._error = f"converting volume({source.name}) from inline to csi: {error}"
                return frozenset()
            if name is not None:
                key = f"{pod.metadata.namespace}/{name}"
                claim = volumes.claims.observed(key)
                if claim is None:
                    text = f'looking up PVC {key}: persistentvolumeclaim "{name}" not found'
                    verdict = Verdict(NodeVolumeLimits.name, (text,), resolvable=False)
                    self._missing = self._verdicts.code(verdict)
                    return frozenset()
                if source.ephemeral is not None and not claims.is_owned(claim, pod):
                    self._error = claims.not_owner(claim, pod)
                    return frozenset()
                volume = volumes.csi_volume(key)
            if volume is not None:
                csi_volumes.add(volume)
        return frozenset(csi_volumes)

    def codes(self, nodes: NodeView) -> Codes:
        if self._error and len(nodes):
            raise PluginError(f'running "{NodeVolumeLimits.name}" filter plugin: {self._error}')
        if self._missing:
            return np.full(len(nodes), self._missing, dtype=np.uint16)
        drivers = Counter(volume.driver for volume in self._new)
        full = np.zeros(len(nodes), dtype=np.bool_)
        for driver, count in drivers.items():
            full |= self._exceeds(nodes, driver, count)
        codes: Codes = full * np.uint16(self._full)
        for driver in sorted(drivers, reverse=True):
            codes[self._lacks(nodes, driver)] = self._verdicts.code(_not_installed(driver))
        return codes

    def _lacks(self, nodes: NodeView, driver: str) -> Bool:
        """Return, (n,), which nodes are without a driver that must be there."""
        lacks = np.zeros(len(nodes), dtype=np.bool_)
        volumes = self._cluster.volumes
        known = volumes.drivers.get(driver)
        if known is None or not known.required:
            return lacks
        if not self._cluster.reference.requires_csi_drivers:
            return lacks
        names = nodes.columns.names
        for position, row in enumerate(nodes.rows.tolist()):
            csi_node = volumes.nodes.get(names[row])
            lacks[position] = csi_node is None or driver not in csi_node.drivers
        return lacks

    def _exceeds(self, nodes: NodeView, driver: str, count: int) -> Bool:
        """Return, (n,), whether the new volumes of a driver exceed the limit of each node."""
        limits = self._cluster.volumes.nodes.limits(driver)
        if limits is None:
            return np.zeros(len(nodes), dtype=np.bool_)
        rows = nodes.rows
        limit = limits[rows]
        attached = self._counts.attached(driver)
        have = np.zeros_like(limit) if attached is None else attached[rows]
        new = np.full_like(limit, count)
        for volume in self._new:
            if volume.driver == driver:
                new -= np.isin(rows, self._counts.holders(volume))
        if isinstance(nodes, HypotheticalView):
            limited = np.flatnonzero(limit != NO_LIMIT)
            self._hypothetical.adjust(nodes, driver, limited, have, new)
        exceeds: Bool = (new > 0) & (have + new > limit)
        return exceeds
