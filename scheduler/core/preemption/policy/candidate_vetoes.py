"""The vetoes of policies and of the preemption history against candidates, all of them at once.

Each rule is evaluated for all candidates with arrays, and yields a `RuleVetoes`: which candidates
it vetoes, until when, and on demand for which pods.

Axes: M victims of all candidates, C candidates, P pairs of a candidate and what victims share.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.policy.applied_policy import AppliedPolicy
from scheduler.core.preemption.policy.loop_breaker import HANGS, PreemptionHistory, waste_veto
from scheduler.core.preemption.policy.pdb_shortfalls import Shortfall, pdb_shortfalls
from scheduler.core.preemption.policy.policy_budgets import BudgetSpending
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.core.preemption.policy.veto_table import RuleVetoes, Veto
from scheduler.core.preemption.policy.victim_matrix import VictimMatrix, distinct
from scheduler.model.policies import Budget, BudgetScope
from scheduler.model.policy_vetoes import RuleVeto
from scheduler.state.columns.arrays import Bool, Float, Int
from scheduler.state.preemption.preemption_backoff import PairPause
from scheduler.state.preemption.wasted_evictions import WasteView

__all__ = ["history_vetoes", "policy_vetoes", "victim_vetoes"]


def policy_vetoes(
    rules: PolicyRules,
    policies: Iterable[AppliedPolicy],
    matrix: VictimMatrix,
    *,
    are_spared: bool,
) -> Iterator[RuleVetoes]:
    """Yield the vetoes of some policies that bind the preemptor.

    Args:
        rules: The policies that bind it.
        policies: Those of them to evaluate.
        matrix: The victims of the candidates.
        are_spared: Whether the pods that policies spare are no victims for certain.
    """
    limits = _Limits(rules, matrix)
    for applied in policies:
        if not are_spared:
            yield from victim_vetoes(rules, applied, matrix)
        yield from limits.vetoes(applied)


def victim_vetoes(
    rules: PolicyRules, applied: AppliedPolicy, matrix: VictimMatrix
) -> Iterator[RuleVetoes]:
    """Yield the vetoes of the rules of a policy that spare single pods."""
    for veto, spared, ends in rules.spared_by_rule(applied, matrix.slots):
        columns, until = matrix.columns[spared], None
        which = np.zeros(len(matrix), dtype=np.int64)
        which[columns] = 1
        if ends is not None:
            until = np.full(len(matrix), np.inf)
            np.minimum.at(until, columns, ends[spared])
        details = partial(_named, veto, spared, until, matrix)
        yield RuleVetoes([veto], which, until, details)


def _named(
    veto: RuleVeto, spared: Bool, until: Float | None, matrix: VictimMatrix, column: int
) -> Iterator[Veto]:
    """Yield the veto against a candidate with the names of the pods that are spared."""
    names = ", ".join(pod.key for pod in matrix.pods(matrix.of(column, spared)))
    end = np.inf if until is None else float(until[column])
    yield replace(veto, detail=names, until=None if np.isinf(end) else end)


class _Limits:
    """The limits of policies for candidates; what several policies count alike is counted once."""

    def __init__(self, rules: PolicyRules, matrix: VictimMatrix) -> None:
        self._rules = rules
        self._matrix = matrix
        self._spending = BudgetSpending(rules, matrix)
        #: (C,) 1 for the candidates with more victims than a limit, else 0.
        self._above: dict[tuple[int, str | None], Int] = {}

    def vetoes(self, applied: AppliedPolicy) -> Iterator[RuleVetoes]:
        """Yield the vetoes of a policy."""
        policy = applied.policy
        most = policy.max_victims_per_preemption
        if most is None and not policy.budgets and not applied.strict:
            return
        counted = applied.victims.not_terminating(self._matrix.slots)
        # Policies that count the same victims share the counts.
        whose = None if counted.all() else "" if applied.victims.every else policy.name
        if most is not None:
            yield self._too_many(applied, most, counted, whose)
        for budget in policy.budgets:
            excess = self._spending.excess(policy.name, budget, counted, whose)
            if excess is not None:
                details = partial(self._overspent, applied, budget, counted)
                yield RuleVetoes([applied.overspent(budget)], *excess, details)
        if applied.strict:
            yield self._strict(applied, counted)

    def _too_many(
        self, applied: AppliedPolicy, most: int, counted: Bool, whose: str | None
    ) -> RuleVetoes:
        matrix, veto = self._matrix, applied.too_many(most)
        if (most, whose) not in self._above:
            sizes = np.bincount(matrix.columns[counted], minlength=len(matrix))
            self._above[most, whose] = (sizes > most).astype(np.int64)

        def details(column: int) -> Iterator[Veto]:
            yield replace(veto, detail=f"{matrix.of(column, counted).shape[0]} victims")

        return RuleVetoes([veto], self._above[most, whose], None, details)

    def _overspent(
        self, applied: AppliedPolicy, budget: Budget, counted: Bool, column: int
    ) -> Iterator[Veto]:
        """Yield the vetoes against a candidate, one for each name that its victims share."""
        matrix, names = self._matrix, self._matrix.names(budget.scope)
        pairs = matrix.pairs(budget.scope)
        for pair, count in Counter(pairs.of_victims[matrix.of(column, counted)].tolist()).items():
            yield from self._rules.overspent(applied, budget, names[int(pairs.codes[pair])], count)

    @cached_property
    def _shortfalls(self) -> list[Shortfall]:
        return [*pdb_shortfalls(self._rules.inputs, self._matrix)]

    def _strict(self, applied: AppliedPolicy, counted: Bool) -> RuleVetoes:
        """Return the vetoes for disruption budgets that do not allow the counted victims."""
        which = np.zeros(len(self._matrix), dtype=np.int64)
        ends = np.full(len(self._matrix), np.inf)
        pdbs: set[str] = set()
        for shortfall in self._shortfalls:
            columns, until = self._matrix.columns[shortfall.victims], shortfall.ends
            if not (mine := counted[shortfall.victims]).all():
                concerned = np.isin(columns, columns[mine])
                columns, until = columns[concerned], until[concerned]
            if columns.shape[0]:
                pdbs.update(shortfall.keys)
                which[columns] = 1
                np.minimum.at(ends, columns, until)
        veto = replace(applied.pdb_shortfall(), pdbs=frozenset(pdbs))
        return RuleVetoes([veto], which, ends, partial(self._short, veto, counted))

    def _short(self, veto: RuleVeto, counted: Bool, column: int) -> Iterator[Veto]:
        """Yield the vetoes against a candidate: for each pod under several PDBs, then by PDB."""
        found = []
        for keys, victims, ends in self._shortfalls:
            mine = np.flatnonzero(self._matrix.columns[victims] == column)
            concerned = mine[counted[victims[mine]]].tolist()
            groups = [[at] for at in concerned] if len(keys) > 1 else [mine.tolist()]
            for group in groups if concerned else ():
                first, pods = int(victims[group[0]]), self._matrix.pods(victims[group])
                found.append((len(keys) == 1, first, keys, pods, float(ends[group[0]])))
        for _, _, keys, pods, end in sorted(found, key=lambda each: each[:3]):
            text = self._rules.inputs.in_flight.shortage(keys, pods)
            until = None if np.isinf(end) else end
            yield replace(veto, detail=text, until=until, pdbs=frozenset(keys))


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
