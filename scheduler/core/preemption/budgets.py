"""Which victims would violate a disruption budget.

Source: kube-scheduler v1.36.3 defaultpreemption.filterPodsWithPDBViolation.

Axes: V pods on a row, most important first; C candidate rows.
"""

import numpy as np

from scheduler.state.arrays import Bool, Int
from scheduler.state.budgets import UNPROTECTED
from scheduler.state.cluster import Cluster

__all__ = ["violating"]


def violating(slots: Int, cluster: Cluster) -> Bool:
    """Tell which pods could not be evicted within their budgets.

    Each row is for itself: its pods are charged in order to every budget that protects them, and a
    pod that overdraws one violates. A pod that was evicted before is not charged.

    Args:
        slots: (V, C) pods that could go, most important first; -1 pads.
        cluster: Whose budgets count.

    Returns:
        (V, C) True where evicting the pod violates a budget.
    """
    found = np.zeros(slots.shape, dtype=np.bool_)
    protected = cluster.pods.protection(slots) * (slots >= 0)
    if not protected.any():
        return found
    for column in np.flatnonzero((protected != UNPROTECTED).any(axis=0)).tolist():
        left: dict[str, int] = {}
        for rank in np.flatnonzero(protected[:, column] != UNPROTECTED).tolist():
            keys = cluster.budgets.sets.values[int(protected[rank, column])]
            pod = cluster.pods.pod(int(slots[rank, column]))
            for key in keys:
                if cluster.budgets.charges(key, pod):
                    left[key] = left.get(key, cluster.budgets.allowed(key)) - 1
                    found[rank, column] |= left[key] < 0
    return found
