"""Which pods a policy selects: checks one pod, or all pods of some slots at once.

Axes: V potential victims of a row, most important first; C candidate rows.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np

from scheduler.model.api.objects import Pod
from scheduler.model.policies import EVERY_POD, PodSelection
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Int
from scheduler.state.pods.pod_index import LabelSet
from scheduler.state.views import counters

__all__ = ["SelectedPods", "in_namespace", "selects"]

_encode = msgspec.msgpack.Encoder().encode


def selects(selection: PodSelection, pod: Pod, namespaces: Mapping[str, dict[str, str]]) -> bool:
    """Return whether a pod meets all requirements of a selection.

    Args:
        selection: The requirements.
        pod: The pod.
        namespaces: The labels of the namespaces; an unknown namespace has none.
    """
    least, most, classes = (
        selection.min_priority,
        selection.max_priority,
        selection.priority_classes,
    )
    return (
        (least is None or pod.priority >= least)
        and (most is None or pod.priority <= most)
        and (not classes or pod.spec.priority_class_name in classes)
        and _labels_meet(selection, pod.metadata.namespace, pod.metadata.labels, namespaces)
    )


def _labels_meet(
    selection: PodSelection,
    namespace: str,
    labels: Mapping[str, str],
    namespaces: Mapping[str, dict[str, str]],
) -> bool:
    of_namespace, of_pod = selection.namespaces, selection.pods
    if of_namespace is not None and not of_namespace.matches(namespaces.get(namespace, {})):
        return False
    return of_pod is None or of_pod.matches(labels)


def in_namespace(namespace: str, cluster: Cluster, slots: Int) -> Bool:
    """Return, (V, C), which pods are in a namespace; -1 pads."""

    def weigh(labels: LabelSet) -> int:
        return int(labels.namespace == namespace)

    weights = counters.of_labels(cluster.pods.pod_index, ("in namespace", namespace), weigh)
    mask: Bool = weights.of(slots) > 0
    return mask


class SelectedPods:
    """A selection, compiled for the namespaces as they are now."""

    def __init__(self, selection: PodSelection, cluster: Cluster) -> None:
        self.selection: Final = selection
        #: Whether all pods are selected.
        self.every: Final = selection == EVERY_POD
        self._cluster = cluster
        namespaces = dict(cluster.namespaces) if selection.namespaces is not None else {}

        def weigh(labels: LabelSet) -> int:
            return int(
                not labels.terminating
                and _labels_meet(selection, labels.namespace, labels.labels, namespaces)
            )

        version = cluster.namespaces_version if selection.namespaces is not None else 0
        key = ("selection", _encode((selection.namespaces, selection.pods)), version)
        self._weights = counters.of_labels(cluster.pods.pod_index, key, weigh)

    def selects(self, pod: Pod) -> bool:
        """Return whether a pod is selected, terminating or not."""
        return selects(self.selection, pod, self._cluster.namespaces)

    def not_terminating(self, slots: Int) -> Bool:
        """Return, (V, C), which pods are selected and neither terminating nor evicted; -1 pads."""
        cluster, selection = self._cluster, self.selection
        mask: Bool = self._weights.of(slots) > 0
        if selection.min_priority is not None or selection.max_priority is not None:
            priorities = cluster.pods.priorities(slots)
            if selection.min_priority is not None:
                mask &= priorities >= selection.min_priority
            if selection.max_priority is not None:
                mask &= priorities <= selection.max_priority
        slots_of = map(cluster.pods.slot, cluster.evicting_uids())
        evicted = [slot for slot in slots_of if slot is not None]
        if evicted:
            mask &= ~np.isin(slots, evicted)
        if selection.priority_classes:
            pods = map(cluster.pods.pod, slots[mask].tolist())
            mask[mask] = [
                pod.spec.priority_class_name in selection.priority_classes for pod in pods
            ]
        return mask
