"""The cluster as the scheduler believes it to be: nodes, pods on them, claims, budgets.

A pod comes onto a node by being observed there or by being assumed, and leaves by being observed
gone or by being forgotten. What was assumed stays until the truth is known: nothing assumed is
ever freed by a timer. Observations carry full states, so repeats and re-orderings are harmless.

Axes: N rows.
"""

from collections.abc import Callable, Mapping, Set
from typing import Final

import numpy as np
from msgspec.structs import replace

from scheduler.model.api.objects import DeviceClass, LocalObject, Node, Pod, PodDisruptionBudget
from scheduler.state.columns.arrays import Rows
from scheduler.state.columns.device_classes import DeviceClasses
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.columns.pod_shapes import Shape, Shapes
from scheduler.state.columns.resource_axis import ResourceAxis
from scheduler.state.pods.disruption_budgets import BudgetIndex
from scheduler.state.pods.nominations import Nomination, Nominations
from scheduler.state.pods.pod_index import LabelSet
from scheduler.state.pods.pod_table import NOWHERE, PodTable
from scheduler.state.pods.workloads import Workloads
from scheduler.state.preemption.policies import PoliciesInForce
from scheduler.state.storage.volumes import Volumes
from scheduler.state.views.node_view import NodeView, WhatIfView

__all__ = ["Cluster"]


class Cluster:
    """Everything that rules read. Rules must not change it; only the machine does."""

    def __init__(self) -> None:
        self.axis: Final = ResourceAxis()
        self.shapes: Final = Shapes(self.axis)
        self.columns: Final = NodeColumns(self.axis)
        self.pods: Final = PodTable(self.shapes)
        self.nominations: Final = Nominations(self.columns)
        self.budgets: Final = BudgetIndex()
        self.policies: Final = PoliciesInForce()
        self.namespaces: Final[dict[str, dict[str, str]]] = {}
        #: Grows whenever a namespace comes, goes or gets other labels.
        self.namespaces_version = 0
        self.workloads: Final = Workloads()
        self.volumes: Final = Volumes(self.columns)
        self.device_classes: Final = DeviceClasses()
        self._assumed: set[str] = set()
        self._leaving: set[str] = set()
        self._overdue: set[str] = set()
        #: Grows whenever a pod begins or ends to be overdue.
        self.overdue_version = 0
        #: By how many seconds the clock that `now` comes from is ahead of the API server's.
        self.clock_ahead = 0.0

    @property
    def assumed(self) -> int:
        """How many pods are assumed and not yet seen on their node."""
        return len(self._assumed)

    @property
    def leaving(self) -> int:
        """How many pods were asked to leave and are still there."""
        return len(self._leaving)

    def is_assumed(self, uid: str) -> bool:
        """Tell whether a pod is on its node only by our own decision."""
        return uid in self._assumed

    def nodes(self) -> NodeView:
        """Return the view of all rows."""
        return NodeView(self.columns)

    def hypothesis(self, rows: Rows) -> WhatIfView:
        """Return what-if copies of some rows."""
        return WhatIfView(self.columns, self.pods, self.shapes, rows)

    def room_beside(
        self,
        shape: Shape,
        row: int,
        priority: int,
        ignored: Callable[[str], bool] = lambda _: False,
    ) -> bool:
        """Tell whether a pod may have the room that it needs beside pods and claims on a row.

        This is arithmetic alone, for callers that ask about many pods. False is certain: the
        resources of the node, or the number of pods that it allows, are not enough. True means
        that other rules have to be asked.

        Args:
            shape: Of the pod. What no node offers is not looked at.
            row: Of the node.
            priority: Of the pod; claims of pods of lower priority do not count. The pod itself
                must not have a claim on the node.
            ignored: Tells which resources are not checked.
        """
        columns = self.columns
        if columns.nodes[row] is None:
            return False
        claims = self.nominations.on_node(columns.names[row])
        coming = [self.pods.shape(each.slot) for each in claims if each.pod.priority >= priority]
        if int(columns.pods()[row]) + len(coming) >= int(columns.allowed_pods()[row]):
            return False
        claimed = [dict(each.requests) for each in coming]
        for resource, amount in shape.requests:
            has, name = columns.allocatable(resource)[row], self.axis.values[resource]
            taken = columns.requested(resource)[row] + sum(
                each.get(resource, 0) for each in claimed
            )
            by_devices = has <= 0 and name in self.device_classes.resources
            if has - taken < amount and not by_devices and not ignored(name):
                return False
        return True

    def node_of(self, uid: str) -> str | None:
        """Return the node that a pod takes room on."""
        slot = self.pods.slot(uid)
        row = NOWHERE if slot is None else self.pods.row(slot)
        return None if row == NOWHERE else self.columns.names[row]

    def placed(self, uid: str) -> Pod | None:
        """Return the last known state of a pod that takes room on a node."""
        slot = self.pods.slot(uid)
        return None if slot is None or self.pods.row(slot) == NOWHERE else self.pods.pod(slot)

    def place(self, pod: Pod, node: str) -> Pod | None:
        """Count a pod on a node, in place of what was counted for it before.

        A pod that was assumed is confirmed by this.

        Returns:
            The pod's last known state, if it was on a node already.

        Raises:
            QuantityError: A request of the pod is no quantity; nothing is changed then.
        """
        shape, uid = self.shapes.take(pod), pod.uid
        before = self.placed(uid)
        if before is not None and self._unmoved(pod, node, shape):
            self.shapes.give_back(shape)
            self._assumed.discard(uid)
            return before
        leaving, overdue = uid in self._leaving, uid in self._overdue
        self.remove(uid)
        if leaving:
            self._leaving.add(uid)
        if overdue:
            self._overdue.add(uid)
        row = self.columns.ensure(node)
        slot = self.pods.add(pod, row, shape)
        self.volumes.enter(slot, pod, node)
        self.pods.protect(slot, self.budgets.code(pod))
        self.columns.take(row, self.shapes[shape])
        return before

    def _unmoved(self, pod: Pod, node: str, shape: int) -> bool:
        """Take over a new state of a pod that still takes the same of the same node."""
        slot = self.pods.slot(pod.uid)
        if slot is None or self.node_of(pod.uid) != node or self.pods.shape_code(slot) != shape:
            return False
        if self.pods.pod(slot).spec.volumes != pod.spec.volumes:
            return False
        self.pods.update(slot, pod)
        self.pods.protect(slot, self.budgets.code(pod))
        return True

    def assume(self, pod: Pod, node: str) -> None:
        """Count a pod on the node that was chosen for it, before the API server knows.

        What is kept says already that it is on that node.
        """
        if self.placed(pod.uid) is not None:
            raise ValueError(f"pod {pod.key} ({pod.uid}) is on a node and cannot be assumed")
        self.place(replace(pod, spec=replace(pod.spec, node_name=node)), node)
        self._assumed.add(pod.uid)

    def forget(self, uid: str) -> Pod | None:
        """Take an assumed pod off its node again; return it as it was there."""
        if uid not in self._assumed:
            raise ValueError(f"pod {uid} is not assumed and cannot be forgotten")
        return self.remove(uid)

    def remove(self, uid: str) -> Pod | None:
        """Count a pod out, and drop its claim; return its last state if it was on a node."""
        self._assumed.discard(uid)
        self._leaving.discard(uid)
        if uid in self._overdue:
            self._overdue.discard(uid)
            self.overdue_version += 1
        self.nominations.remove(uid)
        slot = self.pods.slot(uid)
        if slot is None:
            return None
        row, pod = self.pods.row(slot), self.pods.pod(slot)
        shape = self.pods.shape(slot)
        self.volumes.leave(slot)
        self.pods.remove(uid)
        if row == NOWHERE:
            return None
        self.columns.give_back(row, shape)
        return pod

    def nominate(self, pod: Pod, node: str) -> None:
        """Let a pod that is on no node claim room on one.

        Raises:
            QuantityError: A request of the pod is no quantity; nothing is changed then.
        """
        shape = self.shapes.take(pod)
        self.remove(pod.uid)
        slot = self.pods.add(pod, NOWHERE, shape)
        self.volumes.enter(slot, pod, "")
        self.nominations.add(Nomination(pod, node, slot))

    def withdraw(self, uid: str) -> None:
        """Drop the claim of a pod, if it has one."""
        if self.nominations.get(uid) is not None:
            self.remove(uid)

    def note_leaving(self, uid: str) -> None:
        """Note that a pod was asked to leave, though not yet seen to."""
        self._leaving.add(uid)

    def note_staying(self, uid: str) -> None:
        """Note that a pod which was asked to leave stays."""
        self._leaving.discard(uid)

    def note_overdue(self, uid: str) -> None:
        """Note that a pod hangs: it should have been gone by now."""
        self._overdue.add(uid)
        self.overdue_version += 1

    @property
    def overdue(self) -> Set[str]:
        """The uids of pods that should have been gone by now."""
        return self._overdue

    def asked_to_leave(self) -> frozenset[str]:
        """Return the uids of pods that we asked to leave and that are still there."""
        return frozenset(self._leaving)

    def leaves(self, pod: Pod) -> bool:
        """Tell whether a pod is on its way out."""
        return pod.terminating or pod.uid in self._leaving

    def leaves_by_preemption(self, pod: Pod) -> bool:
        """Tell whether a pod is on its way out because a scheduler preempted it."""
        return pod.uid in self._leaving or (pod.terminating and pod.preempted)

    def write_node(self, node: Node) -> Node | None:
        """Take over the state of a node; return its last one.

        Raises:
            QuantityError: An allocatable amount is no quantity; nothing is changed then.
        """
        before = self.columns.node(node.metadata.name)
        self.columns.write(node)
        self._settle_axis()
        return before

    def erase_node(self, name: str) -> Node | None:
        """Forget a node; return its last state."""
        before = self.columns.node(name)
        self.columns.erase(name)
        self._settle_axis()
        return before

    def _settle_axis(self) -> None:
        """Follow names of resources that came with the first node or went with the last one."""
        retired, fresh = self.axis.settle()
        for resource in retired:
            self.shapes.withdraw(resource)
            self.columns.clear(resource)
        for resource in fresh:
            self.shapes.offer(resource)
            requesting = self.pods.requesting(self.shapes.amounts(resource))
            self.columns.count_requested(resource, requesting)

    def write_budget(self, budget: PodDisruptionBudget) -> None:
        """Take over the state of a budget."""
        key = f"{budget.metadata.namespace}/{budget.metadata.name}"
        before = self.budgets.find(key)
        if self.budgets.write(budget):
            self._protect(key)
        if before is not None and _charging(before) != _charging(budget):
            self.pods.note_protected(self.budgets.codes_with(key))

    def erase_budget(self, key: str) -> None:
        """Forget a budget."""
        if self.budgets.erase(key):
            self._protect(key)

    def write_namespace(self, namespace: LocalObject) -> None:
        """Take over the labels of a namespace."""
        name, labels = namespace.metadata.name, namespace.metadata.labels
        if self.namespaces.get(name) != labels:
            self.namespaces[name] = labels
            self.namespaces_version += 1

    def erase_namespace(self, name: str) -> None:
        """Forget a namespace."""
        if self.namespaces.pop(name, None) is not None:
            self.namespaces_version += 1

    def write_device_class(self, device_class: DeviceClass) -> DeviceClass | None:
        """Take over the state of a device class; return the one before."""
        known = self.device_classes.resources
        before = self.device_classes.write(device_class)
        self._provide_anew(known)
        return before

    def erase_device_class(self, name: str) -> DeviceClass | None:
        """Forget a device class; return it."""
        known = self.device_classes.resources
        before = self.device_classes.erase(name)
        self._provide_anew(known)
        return before

    def _provide_anew(self, known: Set[str]) -> None:
        """Let all nodes be judged again when other resources are provided by device classes."""
        if self.device_classes.resources != known:
            for row in range(self.columns.size):
                self.columns.node_changes.note(row)

    def _protect(self, key: str) -> None:
        """Find out which pods a budget protects that came, went or got another selector."""
        namespace, budgets = key.partition("/")[0], self.budgets

        def protected(looks: LabelSet) -> bool:
            return looks.namespace == namespace and budgets.protects(key, looks.labels)

        selected = self.pods.census.having(protected)
        slots = np.flatnonzero(selected | self.pods.protected_by(budgets.codes_with(key)))
        codes, which = np.unique(self.pods.protection(slots), return_inverse=True)
        more = np.array([budgets.with_key(code, key) for code in codes.tolist()], dtype=np.int64)
        less = np.array([budgets.without_key(code, key) for code in codes.tolist()], dtype=np.int64)
        self.pods.protect_all(slots, np.where(selected[slots], more[which], less[which]))
        if budgets.crowded:
            self.pods.rename_protection(budgets.compact)

    def check(self) -> None:
        """Assert the invariants: what is counted on each row is the sum over its pods."""
        self.pods.check()
        columns = self.columns
        for row in range(columns.size):
            slots = self.pods.on_row(row)
            shapes = [self.pods.shape(slot) for slot in slots]
            assert int(columns.pods()[row]) == len(slots)
            for resource in range(len(self.axis)):
                total = sum(dict(shape.requests).get(resource, 0) for shape in shapes)
                assert columns.requested(resource)[row] == total
            for index in (0, 1):
                total = sum(shape.non_zero[index] for shape in shapes)
                assert columns.non_zero(index)[row] == total
        self.volumes.check([slot for slot, _ in self.pods.occupied()])
        for claim in self.nominations:
            assert self.pods.row(claim.slot) == NOWHERE
        assert all(self.placed(uid) is not None for uid in self._assumed)


def _charging(budget: PodDisruptionBudget) -> tuple[int, Mapping[str, str]]:
    """Return what evictions are charged by."""
    return budget.status.disruptions_allowed, budget.status.disrupted_pods
