"""Filters with the nominated pods that a pod has to respect added to their nodes.

Source: kube-scheduler v1.36.3 framework/runtime.RunFilterPluginsWithNominatedPods.

Axes: N rows, n rows of a hypothetical copy.
"""

from collections.abc import Sequence

import numpy as np

from scheduler.core.feasibility.filters import merged, run_filters
from scheduler.framework.plugin import CompiledFilter
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Int, Rows

__all__ = ["layers_on", "verdicts_with_nominated_pods", "with_nominated_pods"]


def verdicts_with_nominated_pods(
    pod: Pod,
    cluster: Cluster,
    predicates: Sequence[tuple[str, CompiledFilter]],
    rows: Rows | None = None,
) -> tuple[Rows, Codes] | None:
    """Return rows with nominated pods of equal or higher priority, and (n,) verdicts with them.

    A pod must fit both with them (they are expected) and without (they may not come): a rejection
    with them is final, otherwise the verdict without them stands.

    Args:
        pod: The pod to be placed.
        cluster: The cluster with the nominations.
        predicates: The filters that apply to the pod in this attempt.
        rows: The only rows that matter, and the rows of the result; `None` for all.

    Returns:
        `None` if there are no such pods.
    """
    if not len(cluster.nominations):
        return None
    if rows is None:
        rows, layers = cluster.nominations.layers(pod.priority, pod.uid)
    else:
        layers = layers_on(rows, pod, cluster)
    if not layers:
        return None
    copy = cluster.hypothetical_view(rows)
    for layer in layers:
        copy.change(layer, +1)
    return rows, run_filters(copy, predicates)


def with_nominated_pods(
    codes: Codes,
    pod: Pod,
    cluster: Cluster,
    predicates: Sequence[tuple[str, CompiledFilter]],
) -> Codes:
    """Return, (N,), verdicts that respect nominated pods; for the arguments see the one above.

    Args:
        codes: (N,) verdicts without them; not written to.
        pod: The pod to be placed.
        cluster: The cluster with the nominations.
        predicates: The filters that apply to the pod in this attempt.
    """
    found = verdicts_with_nominated_pods(pod, cluster, predicates)
    return codes if found is None else merged(codes, *found)


def layers_on(rows: Rows, pod: Pod, cluster: Cluster) -> list[Int]:
    """Return the nominated pods that a pod has to respect on some rows, as layers of (n,) slots."""
    if rows.shape[0] == 1:
        return cluster.nominations.layers_on(int(rows[0]), pod.priority, pod.uid)
    nominated, layers = cluster.nominations.layers(pod.priority, pod.uid)
    common, source, target = np.intersect1d(
        nominated, rows, assume_unique=True, return_indices=True
    )
    if not common.shape[0]:
        return []
    on_rows = []
    for layer in layers:
        slots = np.full(rows.shape[0], -1, dtype=np.int64)
        slots[target] = layer[source]
        on_rows.append(slots)
    return on_rows
