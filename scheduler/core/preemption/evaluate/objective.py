"""The objective of preemption: the criteria by which candidates compare, in their order.

The choice, the explanation of the choice and the documents about it read this one value.

Axes: V potential victims of a row, most important first; C candidate rows; K criteria.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from scheduler.core.preemption.dry_run_result import DryRunResult, slots_of
from scheduler.model.api.objects import Pod
from scheduler.model.rest.common import SHIFTED_SUM, TIME, CriterionView
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Float, Int

__all__ = [
    "EARLIEST_START",
    "FREED_RESOURCES",
    "HASH",
    "KUBE_SCHEDULER",
    "LABELS",
    "NOMINATED_NODE",
    "RELOCATION",
    "Criterion",
    "Objective",
    "VictimArrays",
]

#: Shifts priorities, which are 32-bit integers, so that none is negative in a sum.
_SHIFT: Final = 2**31


class VictimArrays:
    """The victims of some candidates."""

    def __init__(self, slots: Int, chosen: Bool, violations: Int, cluster: Cluster) -> None:
        """Take the victims.

        Args:
            slots: (V, C) pods; -1 pads.
            chosen: (V, C) True for the victims.
            violations: (C,) how many of them violate a disruption budget.
            cluster: Has the pods.
        """
        self.chosen: Final = chosen
        self.violations: Final = violations
        self.priorities: Final = cluster.pods.priorities(slots)
        self._slots = slots
        self._cluster = cluster

    @classmethod
    def of_run(cls, run: DryRunResult, cluster: Cluster) -> "VictimArrays":
        """Return the victims of a dry run."""
        violations = np.count_nonzero(run.pdb_violations, axis=0)
        return cls(run.slots, run.chosen, violations, cluster)

    @classmethod
    def of_victims(
        cls, victims: Sequence[Sequence[Pod]], violations: Sequence[int], cluster: Cluster
    ) -> "VictimArrays":
        """Return given victims, which are on nodes, of some candidates."""
        slots = slots_of(victims, cluster)
        return cls(slots, slots >= 0, np.array(violations), cluster)

    @cached_property
    def counts(self) -> Int:
        """(C,) how many victims there are."""
        counts: Int = np.count_nonzero(self.chosen, axis=0)
        return counts

    def first_priority(self) -> Int:
        """Return, (C,), the priority of the first victim, which counts as the most important."""
        first: Int = self.priorities[self.chosen.argmax(axis=0), np.arange(self.chosen.shape[1])]
        return first

    def earliest_start(self) -> Float:
        """Return, (C,), the earliest start among the victims of the highest priority.

        It is infinity where none of them has started.
        """
        highest = np.where(self.chosen, self.priorities, -_SHIFT).max(axis=0, initial=-_SHIFT)
        most_important = self.chosen & (self.priorities == highest)
        starts = self._cluster.pods.starts(self._slots)
        earliest: Float = np.where(most_important, starts, np.inf).min(axis=0, initial=np.inf)
        return earliest


class Criterion(NamedTuple):
    """One criterion."""

    label: CriterionView
    #: Returns, (C,), its value for each candidate.
    values: Callable[[VictimArrays], Int | Float]
    #: Whether the highest value is the best; else the lowest is.
    highest_is_best: bool = False


class Objective(tuple[Criterion, ...]):
    """The criteria in order: the first that differs decides."""

    __slots__ = ()

    def keys(self, victims: VictimArrays) -> Float:
        """Return, (K, C), the values as sort keys: smaller is better."""
        rows = [each.values(victims) * (-1.0 if each.highest_is_best else 1.0) for each in self]
        return np.array(rows).reshape(len(self), victims.chosen.shape[1])

    def without(self, criterion: Criterion) -> "Objective":
        """Return the objective without one criterion."""
        return Objective(each for each in self if each is not criterion)


EARLIEST_START: Final = Criterion(
    CriterionView(
        "earliestStart", "its most important victims started last", "Earliest start", "Started",
        TIME,
    ),
    VictimArrays.earliest_start,
    highest_is_best=True,
)  # fmt: skip

#: Source: kube-scheduler v1.36.3 framework/preemption.pickOneNodeForPreemption,
#: defaultpreemption.OrderedScoreFuncs.
KUBE_SCHEDULER: Final = Objective(
    (
        Criterion(
            CriterionView(
                "pdbViolations", "fewest disruption budgets violated", "PDB violations", "Budgets"
            ),
            lambda victims: victims.violations,
        ),
        Criterion(
            CriterionView(
                "highestPriority", "lowest priority of its most important victim",
                "Highest priority", "Highest",
            ),
            VictimArrays.first_priority,
        ),
        Criterion(
            CriterionView(
                "prioritySum", "lowest sum of priorities", "Sum of priorities", "Sum",
                SHIFTED_SUM,
            ),
            lambda victims: np.where(victims.chosen, victims.priorities + _SHIFT, 0).sum(axis=0),
        ),
        Criterion(
            CriterionView("victims", "fewest victims", "Victims", "Victims"),
            lambda victims: victims.counts,
        ),
        EARLIEST_START,
    )
)  # fmt: skip

# What decides between candidates that are equal by the objective: these have no values.
NOMINATED_NODE: Final = CriterionView("nominatedNode", "already nominated")
RELOCATION: Final = CriterionView("relocation", "its victims can run elsewhere")
HASH: Final = CriterionView("hash", "hash of the names, all else being equal")
#: What decides after the comparison, where victims terminate that no preemptor needs.
FREED_RESOURCES: Final = CriterionView("freedResources", "resources there are already being freed")
#: What candidates may compare by, by name.
LABELS: Final = {
    label.name: label
    for label in (
        *(criterion.label for criterion in KUBE_SCHEDULER),
        NOMINATED_NODE, RELOCATION, HASH, FREED_RESOURCES,
    )
}  # fmt: skip
