"""Finds the vetoes against many candidates at once; `rules` and `loop_breaker` check one at a time.

Each rule is evaluated for all candidates with arrays, and yields a `RuleVetoes`: which candidates
it vetoes and until when. `tests/core/preemption/policy/test_bulk_vetoes.py` compares both ways.

Axes: M victims of all candidates, C candidates, P pairs of a candidate and what victims share.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.policy.applied_policy import AppliedPolicy
from scheduler.core.preemption.policy.bulk_pdb_shortfalls import PdbShortfalls, pdb_shortfalls
from scheduler.core.preemption.policy.bulk_policy_budgets import BudgetSpending
from scheduler.core.preemption.policy.loop_breaker import HANGS, PreemptionHistory, waste_veto
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.core.preemption.policy.veto_sheet import RuleVetoes, Veto, VetoSheet
from scheduler.core.preemption.policy.victim_matrix import VictimMatrix, distinct
from scheduler.model.policies import BudgetScope
from scheduler.state.columns.arrays import Bool, Int, Rows
from scheduler.state.preemption.preemption_backoff import PairPause
from scheduler.state.preemption.wasted_evictions import WasteView

__all__ = ["veto_sheet"]


def veto_sheet(
    rules: PolicyRules | None, history: PreemptionHistory, rows: Rows, matrix: VictimMatrix
) -> VetoSheet:
    """Return the vetoes against each candidate.

    Args:
        rules: The policies that bind the preemptor, if any do.
        history: The preemption history.
        rows: (C,) the rows of the candidates.
        matrix: Their victims.
    """
    by_policies = () if rules is None else policy_vetoes(rules, matrix)
    return VetoSheet(rows, itertools.chain(by_policies, history_vetoes(history, matrix)))


def policy_vetoes(rules: PolicyRules, matrix: VictimMatrix) -> Iterator[RuleVetoes]:
    """Yield the vetoes of policies, without the rules that spare victims one by one."""
    shortfalls: PdbShortfalls | None = None
    sizes, spending = _Sizes(matrix), BudgetSpending(rules, matrix)
    for applied in rules.enforced:
        policy = applied.policy
        most = policy.max_victims_per_preemption
        if most is None and not policy.budgets and not applied.strict:
            continue
        counted = applied.victims.not_terminating(matrix.slots)
        # Policies that count the same victims share the counts.
        whose = None if counted.all() else "" if applied.victims.every else policy.name
        if most is not None:
            yield RuleVetoes([applied.too_many(most)], sizes.above(most, counted, whose))
        for budget in policy.budgets:
            excess = spending.excess(policy.name, budget, counted, whose)
            yield RuleVetoes([applied.overspent(budget)], *excess)
        if applied.strict:
            if shortfalls is None:
                shortfalls = pdb_shortfalls(rules.inputs, matrix)
            yield _strict(applied, len(matrix), counted, shortfalls)


class _Sizes:
    """The candidates with too many victims; what several policies count alike is counted once."""

    def __init__(self, matrix: VictimMatrix) -> None:
        self._matrix = matrix
        self._above: dict[tuple[int, str | None], Int] = {}

    def above(self, most: int, counted: Bool, whose: str | None) -> Int:
        """Return, (C,), 1 for the candidates with too many victims, else 0.

        Args:
            most: The most victims that are allowed.
            counted: (M,) the victims that count.
            whose: `None` where all victims count; else equal for policies that count the same.
        """
        above = self._above.get((most, whose))
        if above is None:
            columns = self._matrix.columns[counted]
            sizes = np.bincount(columns, minlength=len(self._matrix))
            above = self._above[most, whose] = (sizes > most).astype(np.int64)
        return above


# Disruption budgets -------------------------------------------------------------------------------


def _strict(
    applied: AppliedPolicy, size: int, counted: Bool, shortfalls: PdbShortfalls
) -> RuleVetoes:
    """Return the vetoes for disruption budgets that do not allow the counted victims."""
    reasons, reason_of = shortfalls.of(counted)
    which = np.zeros(size, dtype=np.int64)
    which[: reason_of.shape[0]] = reason_of
    refusal = applied.pdb_shortfall()
    return RuleVetoes([replace(refusal, pdbs=keys, until=until) for keys, until in reasons], which)


# Preemption history -------------------------------------------------------------------------------


def history_vetoes(history: PreemptionHistory, matrix: VictimMatrix) -> Iterator[RuleVetoes]:
    """Yield the vetoes of the preemption history."""
    hanging = np.zeros(len(matrix), dtype=np.bool_)
    if history.overdue:
        hanging[matrix.columns[matrix.is_any_of(history.overdue)]] = True
        yield RuleVetoes([HANGS], hanging.astype(np.int64))
    if history.pairs:
        loops = _loop_vetoes(history, matrix)
        yield RuleVetoes(loops.vetoes, np.where(hanging, 0, loops.which))
    if history.waste:
        yield _waste_vetoes(history, history.waste, matrix)


def _loop_vetoes(history: PreemptionHistory, matrix: VictimMatrix) -> RuleVetoes:
    """Return the vetoes of preemption loops: of several pauses the longest."""
    pairs, names = matrix.pairs(BudgetScope.OWNER), matrix.names(BudgetScope.OWNER)
    #: All pauses with their owners; `of_pairs` counts them from 1.
    pauses: list[tuple[str, PairPause]] = []
    stopped = np.zeros(len(names), dtype=np.int64)
    paused: list[int] = []
    for code in pairs.distinct:
        if names[code] in history.pairs:
            stop = history.stop(names[code])
            if stop is None:
                paused.append(code)
            else:
                pauses.append((names[code], stop))
                stopped[code] = len(pauses)
    of_pairs = stopped[pairs.codes]
    for pair in np.flatnonzero(np.isin(pairs.codes, paused)).tolist() if paused else ():
        name = names[pairs.codes[pair]]
        pause = history.pause(matrix.nodes[pairs.columns[pair]], name)
        if pause is not None:
            pauses.append((name, pause))
            of_pairs[pair] = len(pauses)
    return _longest(history, pauses, len(matrix), pairs.columns, of_pairs)


def _longest(
    history: PreemptionHistory,
    pauses: Sequence[tuple[str, PairPause]],
    size: int,
    columns: Int,
    of_pairs: Int,
) -> RuleVetoes:
    """Return for each candidate the veto of the longest pause; of equal ones the first owner's.

    Args:
        history: Makes the veto of a pause.
        pauses: All pauses with their owners.
        size: The number of candidates.
        columns: (P,) candidates.
        of_pairs: (P,) the pause of each pair, counted from 1; 0 for none.
    """
    order = sorted(range(len(pauses)), key=lambda at: (-pauses[at][1].until, pauses[at][0]))
    ranks = np.empty(len(pauses) + 1, dtype=np.int64)
    ranks[np.array([*order, -1], dtype=np.int64) + 1] = np.arange(len(pauses) + 1)
    best = np.full(size, len(pauses))
    np.minimum.at(best, columns, ranks[of_pairs])
    which = np.zeros(size, dtype=np.int64)
    vetoed = best < len(pauses)
    used, positions = distinct(best[vetoed])
    which[vetoed] = positions + 1
    return RuleVetoes([history.veto(*pauses[order[rank]]) for rank in used.tolist()], which)


def _waste_vetoes(history: PreemptionHistory, waste: WasteView, matrix: VictimMatrix) -> RuleVetoes:
    """Return the vetoes of wasted evictions."""
    vetoes: list[Veto] = []
    sizes, positions = distinct(matrix.sizes)
    of_sizes = np.zeros(sizes.shape[0], dtype=np.int64)
    for index, size in enumerate(sizes.tolist()):
        pause = waste.anywhere(size)
        if pause is not None:
            vetoes.append(waste_veto(pause))
            of_sizes[index] = len(vetoes)
    which = of_sizes[positions]
    for column in map(matrix.candidate, waste.nodes):
        if column is None:
            continue
        veto = history.waste_veto(matrix.nodes[column], int(matrix.sizes[column]))
        which[column] = 0 if veto is None else len(vetoes) + 1
        vetoes += [] if veto is None else [veto]
    return RuleVetoes(vetoes, which)
