"""VolumeBinding: places a pod where its claims have volumes, or can get them.

A bound claim limits the pod to nodes that can reach its volume. A claim that waits for its first
consumer needs a node for which a volume exists or can be provisioned. The volume is reserved when
the node is selected, and the pod is bound after its claims. Any other claim must be bound before
the pod can be scheduled. From v1.37 on, nodes with more capacity for these volumes are preferred.

Source: kube-scheduler v1.36.3 and v1.37.2 plugins/volumebinding.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import (
    PASS,
    CompiledFilter,
    CompiledScore,
    PluginError,
    Prepared,
    Rejected,
    Reservation,
)
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.api.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim
from scheduler.model.effects import PodRef
from scheduler.model.times import Seconds
from scheduler.plugins.volumes import volume_binding_hints
from scheduler.plugins.volumes.cached_filter import PodIndependentFilter
from scheduler.plugins.volumes.capacity_score import DEFAULT_SHAPE, CapacityScore
from scheduler.plugins.volumes.claims import claim_name, claims_of, is_owned, not_owner
from scheduler.plugins.volumes.matching import MatchFailure, VolumeMatcher
from scheduler.plugins.volumes.reservation import VolumeReservation
from scheduler.plugins.volumes.topology import VolumeReach
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Int
from scheduler.state.storage.csi_translation import TranslationError
from scheduler.state.storage.volumes import Volumes
from scheduler.state.views.node_view import NodeView

__all__ = ["VolumeBinding"]

REASON_UNREACHABLE: Final = "node(s) didn't match PersistentVolume's node affinity"
REASON_NO_VOLUME: Final = "node(s) didn't find available persistent volumes to bind"
REASON_NO_ROOM: Final = "node(s) did not have enough free storage"
REASON_NO_SUCH: Final = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
REASON_IMMEDIATE: Final = "pod has unbound immediate PersistentVolumeClaims"
REASON_DISABLED: Final = (
    "pod has PersistentVolumeClaims that wait for their first consumer, and this scheduler is"
    " configured with bindVolumes: false"
)

#: In the order in which they are reported when several apply; one bit each.
_REASONS: Final = (REASON_UNREACHABLE, REASON_NO_VOLUME, REASON_NO_ROOM, REASON_NO_SUCH)
_UNREACHABLE, _NO_VOLUME, _NO_ROOM, _NO_SUCH = 1, 2, 4, 8
_FAILED: Final = {MatchFailure.NO_VOLUME: _NO_VOLUME, MatchFailure.NO_ROOM: _NO_ROOM}


class VolumeBinding:
    """Rejects nodes where the claims of the pod cannot have volumes."""

    name: ClassVar[str] = "VolumeBinding"

    def __init__(
        self,
        bind_timeout_seconds: Seconds = 600,
        shape: Sequence[tuple[int, int]] = DEFAULT_SHAPE,
        *,
        may_bind: bool = True,
    ) -> None:
        """Make the rule.

        Args:
            bind_timeout_seconds: How long a pod may wait for its volumes.
            shape: Points (utilisation in percent, score from 0 to 10), utilisation rising.
            may_bind: Whether claims that wait for their first consumer get volumes.
        """
        self._timeout_seconds = bind_timeout_seconds
        self._shape = tuple(shape)
        self._may_bind = may_bind

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        if not claims_of(pod):
            return None
        return _Bindable(pod, cluster, verdicts, may_bind=self._may_bind)

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        if not cluster.reference.scores_storage_capacity or not claims_of(pod):
            return None
        return CapacityScore(pod, cluster, _unbound, self._shape)

    def reserve(self, state: AttemptState, node: str, cluster: Cluster) -> Reservation | None:
        pod = state.pod
        waiting = _unbound(pod, cluster)
        if not waiting:
            return None
        matcher, target = VolumeMatcher(waiting, cluster.volumes), cluster.columns.node(node)
        volumes = matcher.on({} if target is None else target.metadata.labels)
        if isinstance(volumes, MatchFailure):
            raise PluginError(
                f"the claims of pod {pod.key} can no longer be bound on the node: {volumes.value}"
            )
        reference = PodRef(pod.metadata.namespace, pod.metadata.name, pod.uid)
        return VolumeReservation(reference, node, volumes, cluster, self._timeout_seconds)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        hints, changed = volume_binding_hints, Action.ADD | Action.UPDATE
        return (
            ClusterEventWithHint(Resource.STORAGE_CLASS, changed, hints.after_class),
            ClusterEventWithHint(Resource.PERSISTENT_VOLUME_CLAIM, changed, hints.after_claim),
            ClusterEventWithHint(Resource.PERSISTENT_VOLUME, changed),
            ClusterEventWithHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            ClusterEventWithHint(Resource.CSI_NODE, changed, hints.after_csi_node),
            ClusterEventWithHint(Resource.CSI_DRIVER, Action.UPDATE, hints.after_driver),
            ClusterEventWithHint(Resource.CSI_STORAGE_CAPACITY, changed, hints.after_capacity),
        )


class _Bindable(PodIndependentFilter):
    """Rejects nodes by storage. What `prepare` finds is valid for the whole attempt."""

    def __init__(self, pod: Pod, cluster: Cluster, verdicts: Verdicts, *, may_bind: bool) -> None:
        super().__init__(cluster)
        self._pod = pod
        self._may_bind = may_bind
        self._volumes = cluster.volumes
        self._verdicts = verdicts
        self._bound: list[PersistentVolumeClaim] = []
        self._matching: VolumeMatcher | None = None

    def prepare(self, _state: AttemptState, /) -> Prepared:
        """Look up the claims of the pod."""
        problem = self._invalid_claim()
        if problem:
            return Rejected(_verdict(problem))
        self._bound = []
        waiting: list[PersistentVolumeClaim] = []
        immediate = False
        for name in claims_of(self._pod):
            claim = _claim(self._volumes, self._pod, name)
            if claim.bound:
                self._bound.append(claim)
            elif self._waits(claim) and not claim.spec.volume_name:
                waiting.append(claim)
            else:
                immediate = True
        if immediate:
            return Rejected(_verdict(REASON_IMMEDIATE))
        if waiting and not self._may_bind:
            return Rejected(_verdict(REASON_DISABLED))
        self._matching = VolumeMatcher(waiting, self._volumes) if waiting else None
        return PASS

    def _invalid_claim(self) -> str:
        """Return why a claim of the pod cannot be used; empty when all can.

        Source: kube-scheduler v1.36.3 volumebinding.podHasPVCs.
        """
        pod = self._pod
        for volume in pod.spec.volumes:
            name, own = claim_name(pod, volume), volume.ephemeral is not None
            if name is None:
                continue
            claim = self._volumes.claims.observed(f"{pod.metadata.namespace}/{name}")
            if claim is None and own:
                waits = "waiting for ephemeral volume controller to create the"
                return f'{waits} persistentvolumeclaim "{name}"'
            if claim is None:
                return f'persistentvolumeclaim "{name}" not found'
            if claim.status.phase == "Lost":
                lost = f'non-existent persistentvolume "{claim.spec.volume_name}"'
                return f'persistentvolumeclaim "{name}" bound to {lost}'
            if claim.metadata.deletion_timestamp is not None:
                return f'persistentvolumeclaim "{name}" is being deleted'
            if own and not is_owned(claim, pod):
                return not_owner(claim, pod)
        return ""

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        """Return whether a claim waits for its first consumer.

        Raises:
            PluginError: Its storage class has no volume binding mode.
        """
        storage_class = self._volumes.classes.get(claim.class_name)
        if storage_class is None:
            return False
        if storage_class.volume_binding_mode is None:
            text = f'VolumeBindingMode not set for StorageClass "{claim.class_name}"'
            raise PluginError(f'running PreFilter plugin "{VolumeBinding.name}": {text}')
        return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER

    def evaluate(self, nodes: NodeView) -> Codes:
        problems = self._unreachable(nodes)
        if self._matching is not None:
            problems |= self._unmatched(self._matching, nodes)
        codes = np.zeros(len(nodes), dtype=np.uint16)
        for problem in np.unique(problems).tolist():
            if problem:
                reasons = [text for bit, text in enumerate(_REASONS) if problem & 1 << bit]
                codes[problems == problem] = self._verdicts.code(_verdict(*reasons))
        return codes

    def _unreachable(self, nodes: NodeView) -> Int:
        """Return, (n,), the problem of the first bound claim that a node cannot satisfy."""
        problems = np.zeros(len(nodes), dtype=np.int64)
        reachable = np.ones(len(nodes), dtype=np.bool_)
        for claim in self._bound:
            volume = self._volumes.volumes.get(claim.spec.volume_name)
            if volume is None:
                problems[reachable] = _NO_SUCH
                break
            try:
                reach = VolumeReach(volume, nodes.columns.labels, self._volumes.nodes)
            except TranslationError as error:
                text = f"could not translate pv: {error}"
                raise PluginError(
                    f'running "{VolumeBinding.name}" filter plugin: {text}'
                ) from error
            reaches = reach.holds(nodes)
            problems[reachable & ~reaches] = _UNREACHABLE
            reachable &= reaches
        return problems

    def _unmatched(self, matching: VolumeMatcher, nodes: NodeView) -> Int:
        """Return, (n,), the problem of the claims that wait for their first consumer."""
        problems = np.zeros(len(nodes), dtype=np.int64)
        positions = np.arange(len(nodes))
        if matching.selected:
            # Volumes are being provisioned for one node already; other nodes are not evaluated.
            rows = [nodes.columns.row(name) for name in matching.selected]
            here = (
                nodes.rows == rows[0] if len(rows) == 1 and rows[0] is not None else positions < 0
            )
            problems[~here] = _NO_VOLUME
            positions = np.flatnonzero(here)
        view = nodes.take(positions)
        for alike, labels in matching.alike(view, nodes.columns.labels):
            result = matching.on(labels)
            if isinstance(result, MatchFailure):
                problems[positions[alike]] = _FAILED[result]
        return problems


def _unbound(pod: Pod, cluster: Cluster) -> list[PersistentVolumeClaim]:
    """Return the claims of a pod that are not bound: in a pod that fits, they wait for it."""
    claims = (_claim(cluster.volumes, pod, name) for name in claims_of(pod))
    return [claim for claim in claims if not claim.bound]


def _claim(volumes: Volumes, pod: Pod, name: str) -> PersistentVolumeClaim:
    """Return a claim of a pod.

    Raises:
        PluginError: It does not exist any more.
    """
    key = f"{pod.metadata.namespace}/{name}"
    claim = volumes.claims.get(key)
    if claim is None:
        raise PluginError(f'error getting PVC "{key}": it is gone')
    return claim


def _verdict(*reasons: str) -> Verdict:
    return Verdict(VolumeBinding.name, reasons, resolvable=False)
