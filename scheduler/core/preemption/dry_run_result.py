"""The result of a dry run: which pods a preemption would evict on each candidate row.

`dry_run_preemption` in `evaluate.victims` produces it, `policy` reads it: it is in neither of them.

Axes: V potential victims of a row, most important first; C candidate rows.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.framework.verdicts import NO_NODE, EvictionOutcome
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


class EvictionOutcomes:
    """The outcomes of one dry run by row, for explanations."""

    def __init__(self) -> None:
        self._rows: Rows = np.empty(0, dtype=np.int64)
        self._codes: Codes = np.empty(0, dtype=np.uint16)
        self._meanings = {0: EvictionOutcome.HELPS, VETOED: EvictionOutcome.VETOED}
        #: Of rows about which filters know more, whether evictions were tried there or not.
        self._explained: dict[int, EvictionOutcome] = {}

    def record(self, rows: Rows, codes: Codes, no_victims: int) -> None:
        """Take what a dry run has found.

        Args:
            rows: (C,) its rows, in order.
            codes: (C,) its codes; vetoes that are found later may still be written into it.
            no_victims: The code of rows without pods of lower priority.
        """
        self._rows, self._codes = rows, codes
        self._meanings[no_victims] = EvictionOutcome.NO_VICTIMS

    def explain(self, outcomes: Mapping[int, EvictionOutcome]) -> None:
        """Take outcomes by row about which more is known than that evictions do not help."""
        self._explained.update(outcomes)

    def on_row(self, row: int) -> EvictionOutcome | None:
        """Return the outcome on a row; `None` where evictions were not tried."""
        if row in self._explained:
            return self._explained[row]
        position = int(np.searchsorted(self._rows, row))
        if position == self._rows.shape[0] or self._rows[position] != row:
            return None
        return self._meaning(int(self._codes[position]))

    def on_rows(self, rows: Rows) -> Mapping[str, int]:
        """Return on how many of some rows, given as (R,), evictions would mean what, by value."""
        explained = np.array([*self._explained], dtype=np.int64)
        tried = np.isin(self._rows, rows) & ~np.isin(self._rows, explained)
        codes = self._codes[tried]
        known = explained[np.isin(explained, rows)].tolist()
        found = Counter(self._explained[row].value for row in known)
        for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
            found[self._meaning(int(code)).value] += int(count)
        return found

    def _meaning(self, code: int) -> EvictionOutcome:
        return self._meanings.get(code, EvictionOutcome.NOT_ENOUGH)


def slots_of(victims: Sequence[Sequence[Pod]], cluster: Cluster) -> Int:
    """Return, (V, C), the slots of given victims, which are on nodes, by candidate; -1 pads."""
    slots = np.full((max(map(len, victims)), len(victims)), -1, dtype=np.int64)
    for column, pods in enumerate(victims):
        known = [cluster.pods.slot(pod.uid) for pod in pods]
        slots[: len(pods), column] = [-1 if slot is None else slot for slot in known]
    return slots
