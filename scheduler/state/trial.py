"""A trial: several pods are assumed one after another, and all of it is undone exactly.

A hypothetical view has copies of rows, each row by itself. In a trial the pods are on the real
columns, so each sees the ones before: their resources, ports, labels, affinity terms, volumes and
devices. The filters and scores are the ordinary ones, and their caches follow by the change logs.

    with Trial(cluster) as trial:
        trial.assume(first, "n1")
        ...                        # decide for the second pod
        trial.assume(second, "n2")
        trial.commit()             # without this, everything is undone at the end

Changes are undone by the ordinary opposite ones, in reverse order. That is exact for all that is
counted, or that the last change appended. What it does not bring back is noted before each change:
the place of the pod in the orders that break ties, its marks, and ports that two pods have.

Versions and change logs only grow, because what was computed in a trial is not valid after it.
Interned values stay known without references, as after any pod that is gone.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Self

import numpy as np

from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.pods.pod_table import NOWHERE

__all__ = ["Trial"]


class Trial:
    """Changes of the pods of a cluster that are undone at the end, also after an exception.

    Nothing else may change pods, nodes or PDBs until then.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        #: For each change what undoes it.
        self._undo: list[tuple[Callable[[], object], ...]] = []
        self._seen = self._positions()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()

    def __len__(self) -> int:
        """Return how many changes there are that can be undone."""
        return len(self._undo)

    def assume(self, pod: Pod, node: str) -> None:
        """Assume a pod on an existing node.

        Raises:
            QuantityError: A request of the pod is not a quantity; nothing is changed then.
            ValueError: The pod is on a node, or the node does not exist.
        """
        if self._cluster.columns.node(node) is None:
            raise ValueError(f"node {node} does not exist")
        self._change(pod.uid, node, partial(self._cluster.assume, pod, node))

    def remove(self, uid: str) -> None:
        """Remove a pod from its node, or withdraw its nomination."""
        node = self._cluster.node_of(uid)
        self._change(uid, node or "", partial(self._cluster.remove, uid))

    def undo_also(self, undo: Callable[[], object]) -> None:
        """Record how to undo another change that was just made, such as a reservation."""
        self._check()
        self._record((undo,))

    def undo(self, keep: int = 0) -> None:
        """Undo the latest changes, all but the first `keep`."""
        self._check()
        while len(self._undo) > keep:
            for step in self._undo.pop():
                step()
        self._seen = self._positions()

    def commit(self) -> None:
        """Keep the changes that were made so far."""
        self._check()
        self._undo.clear()

    def _change(self, uid: str, node: str, change: Callable[[], object]) -> None:
        self._check()
        steps = tuple(self._undoing(uid, self._cluster.columns.row(node)))
        change()
        self._record(steps)

    def _record(self, steps: tuple[Callable[[], object], ...]) -> None:
        self._undo.append(steps)
        self._seen = self._positions()

    def _undoing(self, uid: str, row: int | None) -> Iterator[Callable[[], object]]:
        """Yield what undoes a change of a pod, which is as it is before the change.

        Args:
            uid: Of the pod.
            row: Of the node that the change adds the pod to or removes it from.
        """
        cluster, pods, ports = self._cluster, self._cluster.pods, self._cluster.columns.ports
        yield partial(cluster.remove, uid)
        yield partial(pods.trim, pods.size)
        if (slot := pods.slot(uid)) is not None:
            yield from self._putting_back(uid, slot)
        for mark in cluster.marking(uid):
            yield partial(mark, uid)
        if row is not None:
            yield partial(ports.restore, row, ports.on(row))

    def _putting_back(self, uid: str, slot: int) -> Iterator[Callable[[], object]]:
        """Yield what puts a pod back on the node that it is on or nominated to."""
        cluster, pods, nominations = self._cluster, self._cluster.pods, self._cluster.nominations
        pod, row = pods.pod(slot), pods.row(slot)
        if row == NOWHERE:
            yield partial(cluster.nominate, pod, nominations.node(uid) or "")
            yield partial(nominations.make_latest, nominations.later_than(uid))
        else:
            yield partial(cluster.place, pod, cluster.columns.names[row])
            yield partial(pods.swap_with_last, slot, pods.on_row(row).index(slot))
        yield partial(pods.protect, slot, int(pods.protection(np.array(slot))))

    def _check(self) -> None:
        if self._undo and self._seen != self._positions():
            raise RuntimeError("the cluster was changed from outside during a trial")

    def _positions(self) -> tuple[int, ...]:
        """Return the positions of all logs of changes that a trial cannot undo."""
        cluster, columns = self._cluster, self._cluster.columns
        return (
            columns.node_changes.position,
            columns.pod_changes.position,
            cluster.pods.changes.position,
            cluster.nominations.changes.position,
            cluster.pdbs.version,
        )
