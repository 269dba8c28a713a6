"""Finds volumes for the claims of a pod that wait for their first consumer, on one node.

A claim gets a volume that is reserved for it, else the smallest one that nobody has; a claim for
which there is none can have one made, where its class allows it and there is room. Nodes that
look the same to all volumes involved are looked at once.

Source: kube-scheduler v1.36.3 volumebinding/binder.go; component-helpers v0.36.3 storage/volume.
Differs: of volumes of one size the first by name is taken, where upstream's list is in no order.

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
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from scheduler.plugins.volumes import topology
from scheduler.state.columns.arrays import Int
from scheduler.state.columns.labels import LabelColumns
from scheduler.state.storage.volumes import Volumes
from scheduler.state.views.node_view import NodeView

__all__ = ["Found", "MatchFailure", "VolumeMatcher"]


@dataclass(frozen=True, slots=True)
class Found:
    """What the claims of a pod get on one node."""

    #: Volumes that exist, with their claims.
    bindings: tuple[tuple[PersistentVolume, PersistentVolumeClaim], ...]
    #: Claims for which a volume is to be made.
    provisions: tuple[PersistentVolumeClaim, ...]


class MatchFailure(Enum):
    """Why a claim gets nothing on a node."""

    #: There is no volume for it, and none can be made.
    NO_VOLUME = "no volume"
    #: There is not enough room for the volume that would have to be made.
    NO_ROOM = "no room"


class VolumeMatcher:
    """The claims of one pod that wait for their first consumer, against all storage."""

    def __init__(self, claims: Sequence[PersistentVolumeClaim], volumes: Volumes) -> None:
        """Look up what the claims could get anywhere.

        Raises:
            PluginError: The selector of a claim means nothing.
        """
        self._volumes = volumes
        #: Nodes for which volumes are being made already, for claims that some pod needed before.
        self.selected: Final = frozenset(
            each.selected_node for each in claims if each.selected_node is not None
        )
        self._to_make = [each for each in claims if each.selected_node is not None]
        left = [each for each in claims if each.selected_node is None]
        self._pools = [
            _Pool(claim, volumes) for claim in sorted(left, key=lambda each: _size(each.request))
        ]
        self._makers = {
            each.class_name: _Maker(volumes.classes[each.class_name], volumes) for each in claims
        }

    def on(self, labels: Mapping[str, str]) -> Found | MatchFailure:
        """Return what the claims get on a node with these labels, or why they get nothing.

        A node other than those in `selected` is not to be asked about.
        """
        bindings: list[tuple[PersistentVolume, PersistentVolumeClaim]] = []
        provisions = list(self._to_make)
        taken: set[str] = set()
        for pool in self._pools:
            volume = pool.smallest(labels, taken)
            if volume is None:
                provisions.append(pool.claim)
            else:
                taken.add(volume.metadata.name)
                bindings.append((volume, pool.claim))
        for claim in provisions:
            refusal = self._makers[claim.class_name].refusal(claim, labels)
            if refusal is not None:
                return refusal
        return Found(tuple(bindings), tuple(provisions))

    def alike(
        self, nodes: NodeView, columns: LabelColumns
    ) -> Iterator[tuple[Int, Mapping[str, str]]]:
        """Yield groups of nodes that look the same: positions, and labels that stand for all."""
        signature = np.zeros(len(nodes), dtype=np.int64)
        for key in sorted(self._keys()):
            column = columns.column(key)
            signature = signature * len(column.values) + nodes.label_codes(column)
            # Numbered anew each time, so that the numbers stay small.
            signature = np.unique(signature, return_inverse=True)[1].reshape(-1)
        order = np.argsort(signature, kind="stable")
        starts = np.flatnonzero(np.diff(signature[order], prepend=-1))
        for positions in np.split(order, starts[1:]):
            if positions.shape[0]:
                node = nodes.columns.nodes[int(nodes.rows[positions[0]])]
                yield positions, {} if node is None else node.metadata.labels

    def _keys(self) -> set[str]:
        keys = {key for pool in self._pools for key in pool.keys}
        return keys.union(*(maker.keys for maker in self._makers.values()))


class _Pool:
    """The volumes that one claim could get somewhere, the best first."""

    def __init__(self, claim: PersistentVolumeClaim, volumes: Volumes) -> None:
        self.claim: Final = claim
        mine, free = volumes.candidates(claim)
        #: Reserved for the claim; the first that is not taken decides, wherever it can be reached.
        self._mine = [each for each in mine if _suits(each, claim) and _is_for(each, claim)]
        selector = _selector(claim)
        fitting = [
            each
            for each in free
            if _suits(each, claim)
            and each.status.phase == "Available"
            and (selector is None or selector.matches(each.metadata.labels))
            and set(claim.spec.access_modes) <= set(each.spec.access_modes)
        ]
        fitting.sort(key=lambda each: _size(each.capacity))
        self._free = fitting
        #: Places in `_free`: of volumes that any node reaches, by the label value that a node must
        #: have to reach them, and of all others.
        self._anywhere: list[int] = []
        self._by_label: dict[str, dict[str, list[int]]] = {}
        self._elsewhere: list[int] = []
        for place, volume in enumerate(fitting):
            self._file(place, volume)
        self.keys: Final = {
            key for each in (*self._mine, *fitting) for key in topology.keys_of(each.required)
        }

    def _file(self, place: int, volume: PersistentVolume) -> None:
        label = _only_label(volume)
        if volume.required is None:
            self._anywhere.append(place)
        elif label is None:
            self._elsewhere.append(place)
        else:
            key, values = label
            for value in set(values):
                self._by_label.setdefault(key, {}).setdefault(value, []).append(place)

    def smallest(self, labels: Mapping[str, str], taken: set[str]) -> PersistentVolume | None:
        """Return the volume that the claim gets on a node with these labels."""
        for volume in self._mine:
            if volume.metadata.name not in taken:
                return volume if topology.selects(volume.required, labels) else None
        free, best = self._free, len(self._free)
        lists: list[Iterable[int]] = [self._anywhere]
        lists += [by.get(labels.get(key, ""), ()) for key, by in self._by_label.items()]
        for places in lists:
            best = min(best, _first(places, lambda at: free[at].metadata.name not in taken, best))
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


class _Maker:
    """Whether volumes of one class can be made.

    Source: kube-scheduler v1.36.3 volumebinding.checkVolumeProvisions, hasEnoughCapacity.
    """

    def __init__(self, found: StorageClass, volumes: Volumes) -> None:
        self._class = found
        driver = volumes.drivers.get(found.provisioner)
        self._limited = driver is not None and driver.tells_capacity
        self._pools: list[tuple[int, Selector]] = []
        capacities = volumes.capacities(found.metadata.name) if self._limited else ()
        for each in capacities:
            if each.largest is not None and each.node_topology is not None:
                try:
                    selector = Selector.of(each.node_topology)
                except SelectorError:
                    continue
                self._pools.append((quantity.value(each.largest), selector))
        terms = found.allowed_topologies
        self.keys: Final = {
            *(each.key for term in terms for each in term.match_label_expressions),
            *(each.key for _, selector in self._pools for each in selector.requirements),
        }

    def refusal(
        self, claim: PersistentVolumeClaim, labels: Mapping[str, str]
    ) -> MatchFailure | None:
        """Return why no volume can be made for a claim and a node with these labels."""
        if self._class.provisioner in ("", NO_PROVISIONER):
            return MatchFailure.NO_VOLUME
        if not topology.allowed(self._class.allowed_topologies, labels):
            return MatchFailure.NO_VOLUME
        if not self._limited or claim.request is None:
            return None
        size = quantity.value(claim.request)
        enough = any(size <= most and pool.matches(labels) for most, pool in self._pools)
        return None if enough else MatchFailure.NO_ROOM


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume is what a claim asks for, wherever it can be reached."""
    spec, wanted = volume.spec, claim.spec
    return (
        _size(volume.capacity) >= _size(claim.request)
        and (spec.volume_mode or "Filesystem") == (wanted.volume_mode or "Filesystem")
        and (spec.volume_attributes_class_name or "") == (wanted.volume_attributes_class_name or "")
        and volume.metadata.deletion_timestamp is None
    )


def _is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume with a claim's name is reserved for this very claim.

    Source: component-helpers v0.36.3 storage/volume.IsVolumeBoundToClaim.
    """
    reference = volume.spec.claim_ref
    return reference is not None and reference.uid in ("", claim.metadata.uid)


def _only_label(volume: PersistentVolume) -> tuple[str, Sequence[str]] | None:
    """Return the label and the values by which a node reaches a volume, if it is that simple."""
    terms = [] if volume.required is None else volume.required.node_selector_terms
    if len(terms) != 1 or terms[0].match_fields or len(terms[0].match_expressions) != 1:
        return None
    (expression,) = terms[0].match_expressions
    if expression.operator != "In" or "" in expression.values:
        return None
    sound = selectors.valid_node_requirement(expression)
    return (expression.key, expression.values) if sound else None


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


def _first(places: Iterable[int], is_meant: Callable[[int], bool], limit: int) -> int:
    """Return the first place that is meant, or the limit where none comes before it."""
    for place in places:
        if place >= limit:
            break
        if is_meant(place):
            return place
    return limit
