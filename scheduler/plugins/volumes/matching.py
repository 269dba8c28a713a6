"""Finds volumes for the claims of a pod that wait for their first consumer, on one node.

A claim gets a volume that is reserved for it, else the smallest available volume. Without one, a
volume can be provisioned if the storage class allows it and there is enough capacity. Nodes whose
labels are equal for all volumes involved are evaluated once.

Source: kube-scheduler v1.36.3 volumebinding/binder.go; component-helpers v0.36.3 storage/volume.
Differs: of volumes of one size the first by name is taken; upstream's list has no order.

Axes: n rows of a view.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from scheduler.framework.plugin import PluginError
from scheduler.model.api import quantity, selectors
from scheduler.model.api.selectors import Selector, SelectorError
from scheduler.model.api.storage import (
    NO_PROVISIONER,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.plugins.volumes import topology
from scheduler.state.columns.arrays import Int
from scheduler.state.columns.labels import LabelColumns
from scheduler.state.storage.volumes import Volumes
from scheduler.state.views.node_view import NodeView

__all__ = ["MatchFailure", "MatchedVolumes", "VolumeMatcher"]


@dataclass(frozen=True, slots=True)
class MatchedVolumes:
    """The volumes for the claims of a pod on one node."""

    #: Existing volumes, with their claims.
    bindings: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...]
    #: Claims for which a volume has to be provisioned.
    provisions: tuple[PersistentVolumeClaim, ...]
    #: The capacity for each of them in bytes, in the same order; `None` where it is not known.
    capacities: tuple[int | None, ...] = ()


class MatchFailure(Enum):
    """Why a claim cannot have a volume on a node."""

    #: There is no volume for it, and none can be provisioned.
    NO_VOLUME = "no volume"
    #: There is not enough capacity for the volume that would have to be provisioned.
    NO_ROOM = "no room"


class VolumeMatcher:
    """Matches the claims of one pod that wait for their first consumer with all storage."""

    def __init__(self, claims: Sequence[PersistentVolumeClaim], volumes: Volumes) -> None:
        """Look up the volumes that match the claims on any node.

        Raises:
            PluginError: The selector of a claim is invalid.
        """
        self._volumes = volumes
        #: Nodes for which volumes are being provisioned already, from earlier attempts.
        self.selected: Final = frozenset(
            claim.selected_node for claim in claims if claim.selected_node is not None
        )
        self._provisioning = [claim for claim in claims if claim.selected_node is not None]
        unmatched = [claim for claim in claims if claim.selected_node is None]
        self._candidates = [
            _Candidates(claim, volumes)
            for claim in sorted(unmatched, key=lambda claim: _size(claim.request))
        ]
        self._provisioners = {
            claim.class_name: _Provisioner(volumes.classes[claim.class_name], volumes)
            for claim in claims
        }

    def on(self, labels: Mapping[str, str]) -> MatchedVolumes | MatchFailure:
        """Return the volumes for the claims on a node with these labels, or why there are none.

        When `selected` is not empty, it must not be called for other nodes than those.
        """
        bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]] = []
        provisions = list(self._provisioning)
        taken: set[str] = set()
        for candidates in self._candidates:
            volume = candidates.smallest(labels, taken)
            if volume is None:
                provisions.append(candidates.claim)
            else:
                taken.add(volume.metadata.name)
                bindings.append((volume, candidates.claim))
        capacities = []
        for claim in provisions:
            capacity = self._provisioners[claim.class_name].capacity(claim, labels)
            if isinstance(capacity, MatchFailure):
                return capacity
            capacities.append(capacity)
        return MatchedVolumes(tuple(bindings), tuple(provisions), tuple(capacities))

    def alike(
        self, nodes: NodeView, columns: LabelColumns
    ) -> Iterator[tuple[Int, Mapping[str, str]]]:
        """Yield groups of equivalent nodes: their positions, and the labels of one of them."""
        signature = np.zeros(len(nodes), dtype=np.int64)
        for key in sorted(self._keys()):
            column = columns.column(key)
            signature = signature * len(column.values) + nodes.label_codes(column)
            # Renumbered for each key, so that the numbers stay small.
            signature = np.unique(signature, return_inverse=True)[1].reshape(-1)
        order = np.argsort(signature, kind="stable")
        starts = np.flatnonzero(np.diff(signature[order], prepend=-1))
        for positions in np.split(order, starts[1:]):
            if positions.shape[0]:
                node = nodes.columns.nodes[int(nodes.rows[positions[0]])]
                yield positions, {} if node is None else node.metadata.labels

    def _keys(self) -> set[str]:
        keys = {key for candidates in self._candidates for key in candidates.keys}
        return keys.union(*(provisioner.keys for provisioner in self._provisioners.values()))


class _Candidates:
    """The volumes that match one claim on any node, the best first."""

    def __init__(self, claim: PersistentVolumeClaim, volumes: Volumes) -> None:
        self.claim: Final = claim
        mine, free = volumes.candidates(claim)
        #: Reserved for the claim; the first that is not taken is used, on nodes that can reach it.
        self._mine = [volume for volume in mine if _suits(volume, claim) and _is_for(volume, claim)]
        selector = _selector(claim)
        fitting = [
            volume
            for volume in free
            if _suits(volume, claim)
            and volume.status.phase == "Available"
            and (selector is None or selector.matches(volume.metadata.labels))
            and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        ]
        fitting.sort(key=lambda volume: _size(volume.capacity))
        self._free = fitting
        #: Indices of `_free`: of volumes that all nodes reach; by the label value that a node must
        #: have to reach them; and of all other volumes.
        self._anywhere: list[int] = []
        self._by_label: dict[str, dict[str, list[int]]] = {}
        self._elsewhere: list[int] = []
        for index, volume in enumerate(fitting):
            self._file(index, volume)
        self.keys: Final = {
            key for volume in (*self._mine, *fitting) for key in topology.keys_of(volume.required)
        }

    def _file(self, index: int, volume: PersistentVolume) -> None:
        label = _only_label(volume)
        if volume.required is None:
            self._anywhere.append(index)
        elif label is None:
            self._elsewhere.append(index)
        else:
            key, values = label
            for value in set(values):
                self._by_label.setdefault(key, {}).setdefault(value, []).append(index)

    def smallest(self, labels: Mapping[str, str], taken: set[str]) -> PersistentVolume | None:
        """Return the smallest free volume for the claim on a node with these labels."""
        for volume in self._mine:
            if volume.metadata.name not in taken:
                return volume if topology.selects(volume.required, labels) else None
        free, best = self._free, len(self._free)
        lists: list[Iterable[int]] = [self._anywhere]
        lists += [by.get(labels.get(key, ""), ()) for key, by in self._by_label.items()]
        for indices in lists:
            best = min(best, _first(indices, lambda at: free[at].metadata.name not in taken, best))
        best = min(
            best,
            _first(
                self._elsewhere,
                lambda at: (
                    free[at].metadata.name not in taken
                    and topology.selects(free[at].required, labels)
                ),
                best,
            ),
        )
        return free[best] if best < len(free) else None


class _Provisioner:
    """Whether volumes of one storage class can be provisioned.

    Source: kube-scheduler v1.36.3 volumebinding.checkVolumeProvisions, hasEnoughCapacity.
    """

    def __init__(self, storage_class: StorageClass, volumes: Volumes) -> None:
        self._class = storage_class
        driver = volumes.drivers.get(storage_class.provisioner)
        self._limited = driver is not None and driver.tells_capacity
        #: The largest volume and the capacity of each pool, in bytes, and its nodes.
        self._pools: list[tuple[int, int | None, Selector]] = []
        capacities = volumes.capacities(storage_class.metadata.name) if self._limited else ()
        for capacity in sorted(capacities, key=_name):
            if capacity.largest is not None and capacity.node_topology is not None:
                try:
                    selector = Selector.of(capacity.node_topology)
                except SelectorError:
                    continue
                total = None if capacity.capacity is None else quantity.value(capacity.capacity)
                self._pools.append((quantity.value(capacity.largest), total, selector))
        terms = storage_class.allowed_topologies
        self.keys: Final = {
            *(expression.key for term in terms for expression in term.match_label_expressions),
            *(
                requirement.key
                for *_, selector in self._pools
                for requirement in selector.requirements
            ),
        }

    def capacity(
        self, claim: PersistentVolumeClaim, labels: Mapping[str, str]
    ) -> int | MatchFailure | None:
        """Return the capacity for a claim on a node with these labels, `None` if it is not known.

        Of several pools with enough capacity the first by name counts; upstream's have no order.

        Returns:
            Why no volume can be provisioned, if none can.
        """
        if self._class.provisioner in ("", NO_PROVISIONER):
            return MatchFailure.NO_VOLUME
        if not topology.allowed(self._class.allowed_topologies, labels):
            return MatchFailure.NO_VOLUME
        if not self._limited or claim.request is None:
            return None
        size = quantity.value(claim.request)
        for most, total, pool in self._pools:
            if size <= most and pool.matches(labels):
                return total
        return MatchFailure.NO_ROOM


def _name(capacity: CSIStorageCapacity) -> tuple[str, str]:
    return capacity.metadata.namespace, capacity.metadata.name


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume meets the spec of a claim; its topology is not checked."""
    spec, wanted = volume.spec, claim.spec
    return (
        _size(volume.capacity) >= _size(claim.request)
        and (spec.volume_mode or "Filesystem") == (wanted.volume_mode or "Filesystem")
        and (spec.volume_attributes_class_name or "") == (wanted.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume that names a claim is reserved for this claim, by uid.

    Source: component-helpers v0.36.3 storage/volume.IsVolumeBoundToClaim.
    """
    reference = volume.spec.claim_ref
    return reference is not None and reference.uid in ("", claim.metadata.uid)


def _only_label(volume: PersistentVolume) -> tuple[str, Sequence[str]] | None:
    """Return the label and its values, if a volume is reachable by the values of one label."""
    terms = [] if volume.required is None else volume.required.node_selector_terms
    if len(terms) != 1 or terms[0].match_fields or len(terms[0].match_expressions) != 1:
        return None
    (expression,) = terms[0].match_expressions
    if expression.operator != "In" or "" in expression.values:
        return None
    valid = selectors.valid_node_requirement(expression)
    return (expression.key, expression.values) if valid else None


def _selector(claim: PersistentVolumeClaim) -> Selector | None:
    if claim.spec.selector is None:
        return None
    try:
        return Selector.of(claim.spec.selector)
    except SelectorError as error:
        text = f"error creating internal label selector for claim: {claim.key}: {error}"
        raise PluginError(f'running "VolumeBinding" filter plugin: {text}') from error


def _size(amount: str | float | None) -> int:
    return 0 if amount is None else quantity.exact(amount)


def _first(indices: Iterable[int], matches: Callable[[int], bool], limit: int) -> int:
    """Return the first index below the limit that matches; the limit if there is none."""
    for index in indices:
        if index >= limit:
            break
        if matches(index):
            return index
    return limit
