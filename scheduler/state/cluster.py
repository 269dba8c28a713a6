"""The cluster as the scheduler knows it: nodes, pods on nodes, nominated pods, PDBs, volumes.

A pod is added to a node when it is observed there or assumed, and removed when its deletion is
observed or it is forgotten. An assumed pod stays until its real state is known: a timer never frees
anything that was assumed. Observations carry full states, so repeats and re-orderings are harmless.

Axes: N rows.
"""

from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from scheduler.model.api.devices import DeviceClass
from scheduler.model.api.objects import LocalObject, Node, Pod, PodDisruptionBudget
from scheduler.model.releases import OLDEST, Reference
from scheduler.model.times import Seconds
from scheduler.state.columns.arrays import Rows
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.columns.pod_footprints import PodFootprint, PodFootprints
from scheduler.state.columns.resource_axis import ResourceAxis
from scheduler.state.devices.device_classes import DeviceClasses
from scheduler.state.devices.devices import Devices
from scheduler.state.pods.nominations import Nomination, Nominations
from scheduler.state.pods.pdb_index import PdbIndex
from scheduler.state.pods.pod_index import LabelSet
from scheduler.state.pods.pod_table import NOWHERE, PodTable
from scheduler.state.pods.workloads import Workloads
from scheduler.state.preemption.policies import PoliciesInForce
from scheduler.state.storage.volumes import Volumes
from scheduler.state.views.held_devices import HeldDevices
from scheduler.state.views.node_view import NOBODY, GonePods, HypotheticalView, NodeView

__all__ = ["Cluster", "ClusterState"]


@dataclass(slots=True, eq=False)
class ClusterState:
    """What a cluster remembers that does not follow from nodes and pods: marks of pods, by uid."""

    #: Labels of the namespaces, by name.
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)
    #: Grows whenever a namespace is added, removed or gets other labels.
    namespaces_version: int = 0
    policies: PoliciesInForce = field(default_factory=PoliciesInForce)
    _assumed: set[str] = field(default_factory=set)
    _evicting: set[str] = field(default_factory=set)
    _overdue: set[str] = field(default_factory=set)
    #: Grows whenever a pod becomes overdue or stops being so.
    overdue_version: int = 0
    #: How many seconds the clock behind `now` is ahead of the API server's clock.
    clock_ahead: Seconds = 0.0


class Cluster(ClusterState):
    """All state that plugins read. Plugins must not change it; only the machine does."""

    def __init__(self, reference: Reference = OLDEST) -> None:
        super().__init__()
        #: The release of kube-scheduler whose decisions are reproduced.
        self.reference: Final = reference
        self.axis: Final = ResourceAxis()
        self.footprints: Final = PodFootprints(self.axis, reference)
        self.columns: Final = NodeColumns(self.axis)
        self.pods: Final = PodTable(self.footprints, reference)
        self.nominations: Final = Nominations(self.columns)
        self.pdbs: Final = PdbIndex()
        self.workloads: Final = Workloads()
        self.volumes: Final = Volumes(self.columns)
        self.devices: Final = Devices(self.columns, reference)
        self.device_classes: Final[DeviceClasses] = self.devices.classes
        self.held_devices: Final = HeldDevices(self.columns, self.pods, self.devices)

    @property
    def assumed(self) -> int:
        """How many pods are assumed and not observed on their node yet."""
        return len(self._assumed)

    @property
    def evicting(self) -> int:
        """How many pods we evicted that are still on their nodes."""
        return len(self._evicting)

    def is_assumed(self, uid: str) -> bool:
        """Return whether a pod is assumed on its node and not observed there yet."""
        return uid in self._assumed

    def prepare(self) -> bool:
        """Do a part of the work that the next decision needs; return whether more is left."""
        return self.devices.prepare() or (
            self.held_devices.is_used and (self.held_devices.advance() or self.pods.advance())
        )

    def nodes(self) -> NodeView:
        """Return the view of all rows."""
        return NodeView(self.columns)

    def hypothetical_view(self, rows: Rows, gone: GonePods = NOBODY) -> HypotheticalView:
        """Return a hypothetical view of copies of some rows; of one row where pods are gone."""
        return HypotheticalView(self.columns, self.pods, self.footprints, rows, gone)

    def may_have_resources(
        self,
        footprint: PodFootprint,
        row: int,
        priority: int,
        ignored: Callable[[str], bool] = lambda _: False,
    ) -> bool:
        """Return whether the free resources of a row may be enough for a pod.

        This is arithmetic alone, for callers with many pods. False is certain: the free resources
        of the node, or the number of pods that it allows, are not enough beside its pods and
        nominated pods. True means that the other filters must be checked.

        Args:
            footprint: Of the pod. Resources that no node offers are not checked.
            row: Of the node.
            priority: Of the pod; nominated pods of lower priority do not count. The pod itself
                must not be nominated to the node.
            ignored: Returns whether a resource is not checked.
        """
        columns = self.columns
        if columns.nodes[row] is None:
            return False
        nominations = self.nominations.on_node(columns.names[row])
        nominated = [self.pods.footprint(n.slot) for n in nominations if n.pod.priority >= priority]
        if int(columns.pods()[row]) + len(nominated) >= int(columns.allowed_pods()[row]):
            return False
        reserved = [dict(other.requests) for other in nominated]
        for resource, amount in footprint.requests:
            allocatable, name = columns.allocatable(resource)[row], self.axis.values[resource]
            requested = columns.requested(resource)[row] + sum(
                requests.get(resource, 0) for requests in reserved
            )
            by_devices = allocatable <= 0 and name in self.device_classes.resources
            if allocatable - requested < amount and not by_devices and not ignored(name):
                return False
        return True

    def node_of(self, uid: str) -> str | None:
        """Return the node of a pod that is observed or assumed on a node."""
        slot = self.pods.slot(uid)
        row = NOWHERE if slot is None else self.pods.row(slot)
        return None if row == NOWHERE else self.columns.names[row]

    def find_pod(self, uid: str) -> Pod | None:
        """Return the last known state of a pod that is observed or assumed on a node."""
        slot = self.pods.slot(uid)
        return None if slot is None or self.pods.row(slot) == NOWHERE else self.pods.pod(slot)

    def place(self, pod: Pod, node: str) -> Pod | None:
        """Store the state of a pod on a node, in place of its previous state.

        This confirms a pod that was assumed.

        Returns:
            The previous state of the pod, if it was on a node.

        Raises:
            QuantityError: A request of the pod is not a quantity; nothing is changed then.
        """
        footprint, uid = self.footprints.acquire(pod), pod.uid
        before = self.find_pod(uid)
        if before is not None and self._update_in_place(pod, node, footprint):
            self.footprints.release(footprint)
            self._assumed.discard(uid)
            return before
        evicting, overdue = uid in self._evicting, uid in self._overdue
        self.remove(uid)
        if evicting:
            self._evicting.add(uid)
        if overdue:
            self._overdue.add(uid)
        row = self.columns.ensure(node)
        slot = self.pods.add(pod, row, footprint)
        self.volumes.add_pod(slot, pod, node)
        self.pods.protect(slot, self.pdbs.code(pod))
        self.columns.add_usage(row, self.footprints[footprint])
        return before

    def _update_in_place(self, pod: Pod, node: str, footprint: int) -> bool:
        """Update a pod in place if its node, footprint and volumes are unchanged."""
        slot = self.pods.slot(pod.uid)
        if (
            slot is None
            or self.node_of(pod.uid) != node
            or self.pods.footprint_code(slot) != footprint
        ):
            return False
        if self.pods.pod(slot).spec.volumes != pod.spec.volumes:
            return False
        self.pods.update(slot, pod)
        self.pods.protect(slot, self.pdbs.code(pod))
        return True

    def assume(self, pod: Pod, node: str) -> None:
        """Add a pod to the node that was chosen for it, before it is bound.

        The stored state of the pod names that node already.
        """
        if self.find_pod(pod.uid) is not None:
            raise ValueError(f"pod {pod.key} ({pod.uid}) is on a node and cannot be assumed")
        self.place(replace(pod, spec=replace(pod.spec, node_name=node)), node)
        self._assumed.add(pod.uid)

    def forget(self, uid: str) -> Pod | None:
        """Remove an assumed pod from its node; return its state there."""
        if uid not in self._assumed:
            raise ValueError(f"pod {uid} is not assumed and cannot be forgotten")
        return self.remove(uid)

    def remove(self, uid: str) -> Pod | None:
        """Remove a pod and its nomination; return its last state if it was on a node."""
        self._assumed.discard(uid)
        self._evicting.discard(uid)
        if uid in self._overdue:
            self._overdue.discard(uid)
            self.overdue_version += 1
        self.nominations.remove(uid)
        slot = self.pods.slot(uid)
        if slot is None:
            return None
        row, pod = self.pods.row(slot), self.pods.pod(slot)
        footprint = self.pods.footprint(slot)
        self.volumes.remove_pod(slot)
        self.pods.remove(uid)
        if row == NOWHERE:
            return None
        self.columns.remove_usage(row, footprint)
        return pod

    def nominate(self, pod: Pod, node: str) -> None:
        """Nominate a pod that is on no node to a node.

        Raises:
            QuantityError: A request of the pod is not a quantity; nothing is changed then.
        """
        footprint = self.footprints.acquire(pod)
        self.remove(pod.uid)
        slot = self.pods.add(pod, NOWHERE, footprint)
        self.volumes.add_pod(slot, pod, "")
        self.nominations.add(Nomination(pod, node, slot))

    def withdraw(self, uid: str) -> None:
        """Remove the nomination of a pod, if it has one."""
        if self.nominations.get(uid) is not None:
            self.remove(uid)

    def marking(self, uid: str) -> Iterator[Callable[[str], None]]:
        """Yield what marks a pod as it is marked now: assumed, evicted by us, overdue."""
        if uid in self._assumed:
            yield self._assumed.add
        if uid in self._evicting:
            yield self._evicting.add
        if uid in self._overdue:
            yield self.mark_overdue

    def mark_evicting(self, uid: str) -> None:
        """Record that we evicted a pod, before it is observed to terminate."""
        self._evicting.add(uid)
        self._record_change(uid)

    def unmark_evicting(self, uid: str) -> None:
        """Record that a pod is not evicted after all."""
        self._evicting.discard(uid)
        self._record_change(uid)

    def _record_change(self, uid: str) -> None:
        """Record that verdicts and vetoes on the node of a pod may be out of date."""
        slot = self.pods.slot(uid)
        if slot is not None and (row := self.pods.row(slot)) != NOWHERE:
            self.pods.changes.record(row)

    def mark_overdue(self, uid: str) -> None:
        """Record that a pod is overdue: its termination should have ended by now."""
        self._overdue.add(uid)
        self.overdue_version += 1

    @property
    def overdue(self) -> Set[str]:
        """The uids of pods whose termination should have ended by now."""
        return self._overdue

    def evicting_uids(self) -> frozenset[str]:
        """Return the uids of pods that we evicted and that are still on their nodes."""
        return frozenset(self._evicting)

    def is_being_deleted(self, pod: Pod) -> bool:
        """Return whether a pod is terminating, or evicted by us."""
        return pod.terminating or pod.uid in self._evicting

    def is_being_preempted(self, pod: Pod) -> bool:
        """Return whether a pod is terminating or evicted because a scheduler preempted it."""
        return pod.uid in self._evicting or (pod.terminating and pod.preempted)

    def write_node(self, node: Node) -> Node | None:
        """Store the state of a node; return its previous state.

        Raises:
            QuantityError: An allocatable amount is not a quantity; nothing is changed then.
        """
        before = self.columns.node(node.metadata.name)
        self.columns.write(node)
        self._apply_axis()
        return before

    def erase_node(self, name: str) -> Node | None:
        """Remove a node; return its last state."""
        before = self.columns.node(name)
        self.columns.erase(name)
        self.devices.forget_node(name)
        self._apply_axis()
        return before

    def _apply_axis(self) -> None:
        """Update columns and footprints for resources that nodes began or stopped to offer."""
        retired, fresh = self.axis.take_changes()
        for resource in retired:
            self.footprints.withdraw(resource)
            self.columns.clear(resource)
        for resource in fresh:
            self.footprints.offer(resource)
            requesting = self.pods.requesting(self.footprints.amounts(resource))
            self.columns.count_requested(resource, requesting)

    def objects(self) -> Iterator[Any]:
        """Return all observed objects except pods, namespaces and policies."""
        slices = self.devices.slices
        return chain(
            filter(None, self.columns.nodes), self.pdbs, self.workloads, self.volumes,
            self.device_classes, slices, slices.taint_rules, self.devices.claims,
        )  # fmt: skip

    def write_pdb(self, pdb: PodDisruptionBudget) -> None:
        """Store the state of a PDB."""
        key = pdb.metadata.key
        before = self.pdbs.find(key)
        if self.pdbs.write(pdb):
            self._protect(key)
        if before is not None and _charging(before) != _charging(pdb):
            self.pods.record_protected(self.pdbs.codes_with(key))

    def erase_pdb(self, key: str) -> None:
        """Remove a PDB."""
        if self.pdbs.erase(key):
            self._protect(key)

    def write_namespace(self, namespace: LocalObject) -> None:
        """Store the labels of a namespace."""
        name, labels = namespace.metadata.name, namespace.metadata.labels
        if self.namespaces.get(name) != labels:
            self.namespaces[name] = labels
            self.namespaces_version += 1

    def erase_namespace(self, name: str) -> None:
        """Remove a namespace."""
        if self.namespaces.pop(name, None) is not None:
            self.namespaces_version += 1

    def write_device_class(self, device_class: DeviceClass) -> DeviceClass | None:
        """Store the state of a device class; return its previous state."""
        provided = self.device_classes.resources
        before = self.devices.write_class(device_class)
        self._mark_all_nodes_changed(provided)
        return before

    def erase_device_class(self, name: str) -> DeviceClass | None:
        """Remove a device class; return its last state."""
        provided = self.device_classes.resources
        before = self.devices.erase_class(name)
        self._mark_all_nodes_changed(provided)
        return before

    def _mark_all_nodes_changed(self, before: Set[str]) -> None:
        """Mark all nodes as changed if device classes provide other resources than before."""
        if self.device_classes.resources != before:
            for row in range(self.columns.size):
                self.columns.node_changes.record(row)

    def _protect(self, key: str) -> None:
        """Update which pods a PDB protects that was added, removed or got a new selector."""
        namespace, pdbs = key.rpartition("/")[0], self.pdbs

        def protected(pod: LabelSet) -> bool:
            return pod.namespace == namespace and pdbs.protects(key, pod.labels)

        selected = self.pods.pod_index.having(protected)
        slots = np.flatnonzero(selected | self.pods.protected_by(pdbs.codes_with(key)))
        codes, inverse = np.unique(self.pods.protection(slots), return_inverse=True)
        more = np.array([pdbs.with_key(code, key) for code in codes.tolist()], dtype=np.int64)
        less = np.array([pdbs.without_key(code, key) for code in codes.tolist()], dtype=np.int64)
        self.pods.protect_all(slots, np.where(selected[slots], more[inverse], less[inverse]))
        if pdbs.needs_compaction:
            self.pods.rename_protection(pdbs.compact)

    def check(self) -> None:
        """Assert the invariants: the usage of each row is the sum over its pods."""
        self.pods.check()
        columns = self.columns
        for row in range(columns.size):
            slots = self.pods.on_row(row)
            footprints = [self.pods.footprint(slot) for slot in slots]
            assert int(columns.pods()[row]) == len(slots)
            for resource in range(len(self.axis)):
                total = sum(dict(footprint.requests).get(resource, 0) for footprint in footprints)
                assert columns.requested(resource)[row] == total
            for index in (0, 1):
                total = sum(footprint.non_zero[index] for footprint in footprints)
                assert columns.non_zero(index)[row] == total
        self.volumes.check([slot for slot, _ in self.pods.occupied()])
        for nomination in self.nominations:
            assert self.pods.row(nomination.slot) == NOWHERE
        assert all(self.find_pod(uid) is not None for uid in self._assumed)


def _charging(pdb: PodDisruptionBudget) -> tuple[int, Mapping[str, str]]:
    """Return the fields by which evictions are charged."""
    return pdb.status.disruptions_allowed, pdb.status.disrupted_pods
