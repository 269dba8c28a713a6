"""Compares the candidates of a preemption: the criterion by which each was rejected.

It reads the criteria that `candidates.pick_one_node` has decided by, and decides nothing.

Axes: C candidate rows.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.evaluate.candidate_cache import Criteria
from scheduler.model.comparisons import MAX_COMPARED, ComparedCandidate, Comparison
from scheduler.state.columns.arrays import Codes, Rows

__all__ = ["RELOCATION", "explain_comparison", "with_other_victims"]

#: What decides between equal candidates where victims that can run elsewhere are preferred.
RELOCATION: Final = "relocation"
#: What the criteria are called, in their order.
_NAMES: Final = ("pdbViolations", "highestPriority", "prioritySum", "victims", "earliestStart")


def explain_comparison(
    rows: Rows,
    codes: Codes,
    criteria: Criteria,
    chosen: int,
    names: Sequence[str],
    tie_break: Callable[[int], str],
) -> Comparison:
    """Return how the candidates compare with the chosen one.

    Args:
        rows: (C,) rows that were evaluated.
        codes: (C,) 0 where evicting pods helps.
        criteria: The criteria by which candidates compare.
        chosen: The row of the chosen candidate.
        names: The names of the nodes, by row.
        tie_break: Returns what decided against a row whose criteria are those of the chosen one.
    """
    candidates = np.flatnonzero((codes == 0) & (criteria.victims > 0))
    first = int(candidates[np.flatnonzero(rows[candidates] == chosen)[0]])
    best = _best(candidates, criteria, MAX_COMPARED)
    order = [first, *(index for index in best.tolist() if index != first)][:MAX_COMPARED]
    keys = list(zip(*(key[order].tolist() for key in criteria), strict=True))
    found = []
    for index, key in zip(order, keys, strict=True):
        row = int(rows[index])
        lost_by = "" if index == first else _lost_by(key, keys[0]) or tie_break(row)
        found.append(_compared(names[row], key, lost_by))
    return Comparison(tuple(found), candidates.shape[0])


def with_other_victims(comparison: Comparison, key: tuple[float, ...]) -> Comparison:
    """Return a comparison in which the chosen candidate has other victims of the same node.

    With the victims that it had, it comes second: they have lost as they can run nowhere else.

    Args:
        comparison: The comparison.
        key: The criteria for the other victims.
    """
    usual, *rest = comparison.candidates
    best = _compared(usual.node, key, "")
    found = (best, replace(usual, lost_by=RELOCATION), *rest)[:MAX_COMPARED]
    return Comparison(found, comparison.total + 1)


def _compared(node: str, key: tuple[Any, ...], lost_by: str) -> ComparedCandidate:
    violations, highest, total, victims, age = key
    start = None if np.isinf(age) else -age
    return ComparedCandidate(node, violations, highest, total, victims, start, lost_by)


def _best(candidates: Rows, criteria: Criteria, most: int) -> Rows:
    """Return the best candidates in order, at most so many; no more of them are sorted."""
    parts: list[Rows] = []
    left, tied = most, candidates
    for key in criteria:
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
    order = np.lexsort(tuple(key[best] for key in reversed(criteria)))
    ranked: Rows = best[order]
    return ranked


def _lost_by(key: tuple[float, ...], chosen: tuple[float, ...]) -> str:
    """Return the first criterion that differs; empty where none does."""
    pairs = zip(_NAMES, key, chosen, strict=True)
    return next((name for name, value, best in pairs if value != best), "")
