"""The result of a dry run: which pods a preemption would evict on each candidate row.

`dry_run_preemption` in `evaluate.victims` produces it, `policy` reads it: it is in neither of them.

Axes: V potential victims of a row, most important first; C candidate rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.framework.verdicts import NO_NODE
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Float, Int, Rows

__all__ = ["VETOED", "DryRunResult", "slots_of"]

#: The code of rows where only a veto prevents the preemption: either policies spare the pods in the
#: way, or the candidate is vetoed. It is in no table of verdicts.
VETOED: Final = NO_NODE


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """What preemption would mean on some rows."""

    #: (C,) the rows.
    rows: Rows
    #: (C,) 0 where the preemptor fits once the victims are evicted; `VETOED` where it would fit if
    #: policies spared no pod; else the verdict that remains without all potential victims.
    codes: Codes
    #: (V, C) slots of the potential victims, most important first; -1 pads.
    slots: Int
    #: (V, C) True for the victims.
    chosen: Bool
    #: (V, C) True for the pods whose eviction would violate a disruption budget.
    protected: Bool
    #: (C,) the earliest time at which policies spare other pods; infinity where time changes
    #: nothing.
    until: Float | None = None

    @property
    def pdb_violations(self) -> Bool:
        """(V, C) True for the victims whose eviction violates a disruption budget."""
        return self.protected & self.chosen


def slots_of(victims: Sequence[Sequence[Pod]], cluster: Cluster) -> Int:
    """Return, (V, C), the slots of given victims, which are on nodes, by candidate; -1 pads."""
    slots = np.full((max(map(len, victims)), len(victims)), -1, dtype=np.int64)
    for column, pods in enumerate(victims):
        known = [cluster.pods.slot(pod.uid) for pod in pods]
        slots[: len(pods), column] = [-1 if slot is None else slot for slot in known]
    return slots
