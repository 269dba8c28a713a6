"""The result of a dry run: which pods a preemption would evict on each candidate row.

`dry_run_preemption` in `evaluate.victims` produces it, `policy` reads it: it is in neither of them.

Axes: V potential victims of a row, most important first; C candidate rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from scheduler.framework.verdicts import NO_NODE
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Float, Int, Rows

__all__ = ["VETOED", "DryRunResult", "EvictionOutcome", "EvictionOutcomes", "slots_of"]

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


class EvictionOutcome(Enum):
    """What evicting all pods of lower priority from a node would mean for a preemptor."""

    HELPS = "helps"
    #: No pod there has a lower priority.
    NO_VICTIMS = "noVictims"
    #: The preemptor would still not fit.
    NOT_ENOUGH = "notEnough"
    #: It would fit if policies spared no pod.
    VETOED = "vetoed"


class EvictionOutcomes:
    """The outcomes of one dry run by row, for explanations."""

    def __init__(self) -> None:
        self._codes: dict[int, int] = {}
        self._no_victims = 0

    def record(self, rows: Rows, codes: Codes, no_victims: int) -> None:
        """Take the codes of a dry run, and the one of rows without pods of lower priority."""
        self._codes = dict(zip(rows.tolist(), codes.tolist(), strict=True))
        self._no_victims = no_victims

    def on_row(self, row: int) -> EvictionOutcome | None:
        """Return the outcome on a row; `None` where evictions were not tried."""
        code = self._codes.get(row)
        if code is None:
            return None
        known = {0: EvictionOutcome.HELPS, VETOED: EvictionOutcome.VETOED}
        known[self._no_victims] = EvictionOutcome.NO_VICTIMS
        return known.get(code, EvictionOutcome.NOT_ENOUGH)


def slots_of(victims: Sequence[Sequence[Pod]], cluster: Cluster) -> Int:
    """Return, (V, C), the slots of given victims, which are on nodes, by candidate; -1 pads."""
    slots = np.full((max(map(len, victims)), len(victims)), -1, dtype=np.int64)
    for column, pods in enumerate(victims):
        known = [cluster.pods.slot(pod.uid) for pod in pods]
        slots[: len(pods), column] = [-1 if slot is None else slot for slot in known]
    return slots
