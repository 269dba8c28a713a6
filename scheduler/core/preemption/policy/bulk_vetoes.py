"""Vetoes against many candidates at once; `PolicyRules` and `loop_breaker` judge one at a time.

Each rule is evaluated for all candidates with arrays, and yields a *sweep*: which candidates it
refuses and until when. `tests/core/preemption/policy/test_bulk_vetoes.py` holds both against each
other.

Axes: M victims of all candidates, C candidates, P pairs of a candidate and what victims share.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.policy.applied_policy import AppliedPolicy
from scheduler.core.preemption.policy.bulk_budgets import PdbShortfalls, overdrawn
from scheduler.core.preemption.policy.bulk_spending import BudgetSpending
from scheduler.core.preemption.policy.loop_breaker import HANGS, PreemptionHistory, wasteful
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.core.preemption.policy.veto_sheet import RuleVetoes, Veto, VetoSheet
from scheduler.core.preemption.policy.victim_matrix import VictimMatrix, distinct
from scheduler.model.policies import BudgetScope
from scheduler.state.columns.arrays import Bool, Int, Rows
from scheduler.state.preemption.preemption_backoff import PairPause as LoopPause
from scheduler.state.preemption.wasted_evictions import WasteView

__all__ = ["told"]


def told(
    bounds: PolicyRules | None, past: PreemptionHistory, rows: Rows, crowd: VictimMatrix
) -> VetoSheet:
    """Return what is said against each candidate that is refused.

    Args:
        bounds: The policies that bind the preemptor, if any do.
        past: What is remembered.
        rows: (C,) where the candidates are.
        crowd: Their victims.
    """
    sweeps = () if bounds is None else by_policies(bounds, crowd)
    return VetoSheet(rows, itertools.chain(sweeps, by_memory(past, crowd)))


def by_policies(bounds: PolicyRules, crowd: VictimMatrix) -> Iterator[RuleVetoes]:
    """Yield what policies say against candidates whose victims need not stay one by one."""
    found: PdbShortfalls | None = None
    sizes, spending = _Sizes(crowd), BudgetSpending(bounds, crowd)
    for binding in bounds.enforced:
        policy = binding.policy
        most = policy.max_victims_per_preemption
        if most is None and not policy.budgets and not binding.strict:
            continue
        counted = binding.victims.staying(crowd.slots)
        # Policies that count the same victims share the counts.
        whose = None if counted.all() else "" if binding.victims.every else policy.name
        if most is not None:
            yield RuleVetoes([binding.too_many(most)], sizes.above(most, counted, whose))
        for budget in policy.budgets:
            excess = spending.excess(policy.name, budget, counted, whose)
            yield RuleVetoes([binding.overspent(budget)], *excess)
        if binding.strict:
            if found is None:
                found = overdrawn(bounds.facts, crowd)
            yield _strict(binding, len(crowd), counted, found)


class _Sizes:
    """The candidates with too many victims; what several policies count alike is counted once."""

    def __init__(self, crowd: VictimMatrix) -> None:
        self._crowd = crowd
        self._found: dict[tuple[int, str | None], Int] = {}

    def above(self, most: int, counted: Bool, whose: str | None) -> Int:
        """Return, (C,), 1 for those with more than so many.

        Args:
            most: How many there may be.
            counted: (M,) the victims that count.
            whose: `None` where all do; else equal for policies that count the same.
        """
        found = self._found.get((most, whose))
        if found is None:
            columns = self._crowd.columns[counted]
            sizes = np.bincount(columns, minlength=len(self._crowd))
            found = self._found[most, whose] = (sizes > most).astype(np.int64)
        return found


# Disruption budgets -------------------------------------------------------------------------------


def _strict(
    binding: AppliedPolicy, size: int, counted: Bool, overdrawn: PdbShortfalls
) -> RuleVetoes:
    """Return the candidates that are refused for disruption budgets of counted victims."""
    said, found = overdrawn.against(counted)
    which = np.zeros(size, dtype=np.int64)
    which[: found.shape[0]] = found
    text = binding.overdrawn()
    return RuleVetoes([replace(text, budgets=keys, until=until) for keys, until in said], which)


# What is remembered -------------------------------------------------------------------------------


def by_memory(past: PreemptionHistory, crowd: VictimMatrix) -> Iterator[RuleVetoes]:
    """Yield what is remembered against candidates."""
    hanging = np.zeros(len(crowd), dtype=np.bool_)
    if past.overdue:
        hanging[crowd.columns[crowd.among(past.overdue)]] = True
        yield RuleVetoes([HANGS], hanging.astype(np.int64))
    if past.pairs:
        loops = _of_loops(past, crowd)
        yield RuleVetoes(loops.said, np.where(hanging, 0, loops.which))
    if past.view:
        yield _of_waste(past, past.view, crowd)


def _of_loops(past: PreemptionHistory, crowd: VictimMatrix) -> RuleVetoes:
    """Return what the memory of loops says: of several pauses the one that lasts longest."""
    pairs, names = crowd.pairs(BudgetScope.OWNER), crowd.names(BudgetScope.OWNER)
    #: The pauses that there are, with their owners; `of_pairs` counts them from 1.
    pauses: list[tuple[str, LoopPause]] = []
    stopped = np.zeros(len(names), dtype=np.int64)
    paused: list[int] = []
    for code in pairs.distinct:
        if names[code] in past.pairs:
            stop = past.stop(names[code])
            if stop is None:
                paused.append(code)
            else:
                pauses.append((names[code], stop))
                stopped[code] = len(pauses)
    of_pairs = stopped[pairs.codes]
    for place in np.flatnonzero(np.isin(pairs.codes, paused)).tolist() if paused else ():
        name = names[pairs.codes[place]]
        pause = past.pause(crowd.nodes[pairs.columns[place]], name)
        if pause is not None:
            pauses.append((name, pause))
            of_pairs[place] = len(pauses)
    return _longest(past, pauses, len(crowd), pairs.columns, of_pairs)


def _longest(
    past: PreemptionHistory,
    pauses: Sequence[tuple[str, LoopPause]],
    size: int,
    columns: Int,
    of_pairs: Int,
) -> RuleVetoes:
    """Return for each candidate the pause that lasts longest; of equal ones the first owner's.

    Args:
        past: Says what a pause means.
        pauses: All pauses with their owners.
        size: How many candidates there are.
        columns: (P,) candidates.
        of_pairs: (P,) a pause of each, counted from 1; 0 for none.
    """
    order = sorted(range(len(pauses)), key=lambda at: (-pauses[at][1].until, pauses[at][0]))
    ranks = np.empty(len(pauses) + 1, dtype=np.int64)
    ranks[np.array([*order, -1], dtype=np.int64) + 1] = np.arange(len(pauses) + 1)
    best = np.full(size, len(pauses))
    np.minimum.at(best, columns, ranks[of_pairs])
    which = np.zeros(size, dtype=np.int64)
    refused = best < len(pauses)
    used, places = distinct(best[refused])
    which[refused] = places + 1
    return RuleVetoes([past.said(*pauses[order[each]]) for each in used.tolist()], which)


def _of_waste(past: PreemptionHistory, view: WasteView, crowd: VictimMatrix) -> RuleVetoes:
    """Return what the memory of evictions in vain says."""
    said: list[Veto] = []
    sizes, places = distinct(crowd.sizes)
    of_sizes = np.zeros(sizes.shape[0], dtype=np.int64)
    for place, size in enumerate(sizes.tolist()):
        pause = view.anywhere(size)
        if pause is not None:
            said.append(wasteful(pause))
            of_sizes[place] = len(said)
    which = of_sizes[places]
    for column in map(crowd.candidate, view.nodes):
        if column is None:
            continue
        found = past.of_waste(crowd.nodes[column], int(crowd.sizes[column]))
        which[column] = 0 if found is None else len(said) + 1
        said += [] if found is None else [found]
    return RuleVetoes(said, which)
