"""Compares the candidates of a preemption: the criterion by which each was rejected.

It reads the sort keys that `candidates.pick_one_node` has decided by, and decides nothing.

Axes: C candidate rows, K criteria.
"""

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.evaluate.candidates import Choice
from scheduler.core.preemption.evaluate.objective import RELOCATION, Objective
from scheduler.model.comparisons import MAX_COMPARED, ComparedCandidate, Comparison
from scheduler.model.rest.common import CriterionView
from scheduler.state.columns.arrays import Float, Int, Rows

__all__ = ["explain_comparison", "with_other_victims"]


def explain_comparison(
    rows: Rows, keys: Float, choice: Choice, names: Sequence[str], objective: Objective
) -> Comparison:
    """Return how the candidates compare with the chosen one.

    Args:
        rows: (C,) the rows of the candidates.
        keys: (K, C) their sort keys.
        choice: The chosen one.
        names: The names of the nodes, by row.
        objective: The criteria by which they compare.
    """
    first = int(np.flatnonzero(rows == choice.row)[0])
    best = _best(keys, MAX_COMPARED).tolist()
    found = []
    for index in [first, *(index for index in best if index != first)][:MAX_COMPARED]:
        row, key = int(rows[index]), keys[:, index]
        lost_by = None
        if index != first:
            lost_by = _lost_by(key, keys[:, first], objective) or choice.tie_break(row)
        found.append(ComparedCandidate(names[row], _values(key, objective), lost_by))
    labels = tuple(criterion.label for criterion in objective)
    return Comparison(labels, tuple(found), rows.shape[0])


def with_other_victims(comparison: Comparison, key: Float, objective: Objective) -> Comparison:
    """Return a comparison in which the chosen candidate has other victims of the same node.

    With the victims that it had, it comes second: they have lost as they can run nowhere else.

    Args:
        comparison: The comparison.
        key: (K,) the sort key for the other victims.
        objective: The criteria by which the candidates compare.
    """
    usual, *rest = comparison.candidates
    best = ComparedCandidate(usual.node, _values(key, objective))
    found = (best, replace(usual, lost_by=RELOCATION), *rest)[:MAX_COMPARED]
    return replace(comparison, candidates=found, total=comparison.total + 1)


def _values(key: Float, objective: Objective) -> tuple[float | None, ...]:
    """Return the values of a sort key, given as (K,); those that are infinite are unknown."""
    return tuple(
        None if np.isinf(value) else -value if criterion.highest_is_best else value
        for criterion, value in zip(objective, key.tolist(), strict=True)
    )


def _best(keys: Float, most: int) -> Int:
    """Return the best candidates in order, at most so many; no more of them are sorted."""
    parts: list[Int] = []
    left, tied = most, np.arange(keys.shape[1])
    for key in keys:
        if tied.shape[0] <= left:
            break
        values = key[tied]
        limit = values.min()
        if values.max() == limit:
            continue
        if np.count_nonzero(values == limit) < left:
            limit = np.partition(values, left - 1)[left - 1]
            parts.append(tied[values < limit])
            left -= parts[-1].shape[0]
        tied = tied[values == limit]
    best = np.concatenate([*parts, tied[:left]])
    ranked: Int = best[np.lexsort(keys[::-1, best])]
    return ranked


def _lost_by(key: Float, chosen: Float, objective: Objective) -> CriterionView | None:
    """Return the first criterion that differs; `None` where none does."""
    differing = np.flatnonzero(key != chosen)
    return objective[int(differing[0])].label if differing.shape[0] else None
