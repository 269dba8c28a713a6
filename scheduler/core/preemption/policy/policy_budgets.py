"""How much of the budgets of policies is spent, for all candidates at once.

What victims of a few candidates share is looked up in the ledger. Of the names that victims of many
share, most have no counted victim of their own. They are one group, so that the cost depends on the
number of entries in the ledger and not on the number of names.

Axes: C candidates, P pairs of a candidate and what its victims share, G groups of names, E entries
of the ledger.
"""

from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.core.preemption.policy.victim_matrix import NOWHERE, Pairs, VictimMatrix, distinct
from scheduler.model.policies import Budget, BudgetScope
from scheduler.model.times import Seconds
from scheduler.state.columns.arrays import Bool, Float, Int
from scheduler.state.preemption.event_times import MAX_RETURNED
from scheduler.state.preemption.ledger_arrays import LedgerArrays
from scheduler.state.preemption.ledger_entries import ANY

__all__ = ["BudgetSpending", "Excess"]

NEVER: Final = np.inf
#: For up to this many candidates names are looked up one by one.
_FEW: Final = 4


class Excess(NamedTuple):
    """The candidates whose victims exceed a budget."""

    #: (C,) 1 for these candidates, else 0.
    which: Int
    #: (C,) when that ends, infinity where time does not end it.
    ends: Float


class _Spent(NamedTuple):
    """When victims were counted, by what shares the budget: its name has a code and a group."""

    #: The group of each code; group 0 is that of all codes without a victim of their own.
    groups: Int
    #: (G,) how many victims each group has.
    totals: Int
    #: (E,) moments group by group, oldest first, and how many victims there are up to each.
    at: Float
    up_to: Int

    def excess(self, budget: Budget, pairs: Pairs, counts: Int, size: int) -> Excess | None:
        """Return the candidates whose victims exceed the budget; `None` if there are none.

        Args:
            budget: The budget.
            pairs: Candidates, with what their victims share.
            counts: (P,) how many victims there are of each pair.
            size: C.
        """
        most = budget.max_victims
        free = (most - self.totals)[self.groups]
        over = np.flatnonzero(counts > free[pairs.codes])
        # Where no victim counts, what was spent before does not matter.
        over = over[counts[over] > 0]
        if not over.shape[0]:
            return None
        which = np.zeros(size, dtype=np.int64)
        which[pairs.columns[over]] = 1
        # Time helps only where something was counted, and not where more victims are needed than
        # the whole budget.
        over = over[(free[pairs.codes[over]] < most) & (counts[over] <= most)]
        ends = np.full(size, NEVER)
        if not over.shape[0]:
            return Excess(which, ends)
        # Of the moments of the group, the last one that has to leave the window, oldest first.
        codes = pairs.codes[over]
        before = (np.cumsum(self.totals) - self.totals)[self.groups[codes]]
        positions, position_of = distinct(before + counts[over] - free[codes] - 1)
        until = self.at[np.searchsorted(self.up_to, positions, side="right")] + budget.window
        np.minimum.at(ends, pairs.columns[over], until[position_of])
        return Excess(which, ends)


class BudgetSpending:
    """Budgets against the victims of one matrix; what policies count alike is computed once."""

    def __init__(self, rules: PolicyRules, matrix: VictimMatrix) -> None:
        self._rules = rules
        self._matrix = matrix
        self._ordered: dict[BudgetScope, tuple[Int, Int]] = {}
        self._spent: dict[tuple[bytes, BudgetScope, Seconds], _Spent] = {}
        self._counts: dict[tuple[BudgetScope, str | None], Int] = {}
        self._excess: dict[tuple[bytes, Budget, str | None], Excess | None] = {}

    def excess(
        self, policy: str, budget: Budget, counted: Bool, whose: str | None
    ) -> Excess | None:
        """Return the candidates whose victims exceed a budget; `None` if there are none.

        Args:
            policy: The name of the policy.
            budget: One of its budgets.
            counted: (M,) the victims that it counts.
            whose: `None` where it counts all; else equal for policies that count the same.
        """
        counts = self._count(budget.scope, counted, whose)
        if len(self._matrix) <= _FEW:
            return self._looked_up(policy, budget, counts)
        sets = self._counted.members.get(policy)
        members = b"" if sets is None else sets.tobytes()
        key = (members, budget, whose)
        if key not in self._excess:
            pairs, spent = self._matrix.pairs(budget.scope), self._spent_for(members, sets, budget)
            self._excess[key] = spent.excess(budget, pairs, counts, len(self._matrix))
        return self._excess[key]

    @cached_property
    def _counted(self) -> LedgerArrays:
        return self._rules.inputs.ledger.victim_arrays()

    def _looked_up(self, policy: str, budget: Budget, counts: Int) -> Excess | None:
        """Return the candidates, of a few, whose victims exceed a budget."""
        pairs, names = self._matrix.pairs(budget.scope), self._matrix.names(budget.scope)
        codes, size, excess = pairs.codes.tolist(), len(self._matrix), None
        for pair, count in enumerate(counts.tolist()):
            name = names[codes[pair]]
            for _, until in self._rules.excess(policy, budget, name, count) if count else ():
                excess = excess or Excess(np.zeros(size, dtype=np.int64), np.full(size, NEVER))
                column = pairs.columns[pair]
                excess.which[column] = 1
                excess.ends[column] = min(excess.ends[column], NEVER if until is None else until)
        return excess

    def _count(self, scope: BudgetScope, counted: Bool, whose: str | None) -> Int:
        """Return, (P,), how many victims of each pair count."""
        counts = self._counts.get((scope, whose))
        if counts is None:
            pairs = self._matrix.pairs(scope)
            if whose is None:
                counts = pairs.count(counted)
            else:
                # Usually few victims do not count, and it is faster to count those.
                counts = self._count(scope, np.ones_like(counted), None) - pairs.count(~counted)
            self._counts[scope, whose] = counts
        return counts

    def _spent_for(self, members: bytes, sets: Bool | None, budget: Budget) -> _Spent:
        key = (members, budget.scope, budget.window)
        spent = self._spent.get(key)
        if spent is None:
            counted = self._counted
            wanted: Bool = counted.at > self._rules.now - budget.window
            wanted &= False if sets is None else sets[counted.sets]
            spent = self._spent[key] = self._sum_up(budget.scope, wanted)
        return spent

    def _sum_up(self, scope: BudgetScope, wanted: Bool) -> _Spent:
        """Return what some entries of the ledger, given as (E,), have spent."""
        order, codes = self._in_order(scope)
        kept = wanted[order]
        entries, codes = order[kept], codes[kept]
        end, begin = np.searchsorted(codes, (NOWHERE, 0)).tolist()
        everywhere, own, codes = entries[:end], entries[begin:], codes[begin:]
        first = np.diff(codes, prepend=NOWHERE) != 0
        known = codes[first]
        groups = np.zeros(len(self._matrix.names(scope)), dtype=np.int64)
        groups[known] = np.arange(1, known.shape[0] + 1)
        count = known.shape[0] + 1
        of, at, many = self._last(np.cumsum(first), own)
        if everywhere.shape[0]:
            # They count for each group, beside its own entries.
            _, more_at, more = self._last(np.zeros_like(everywhere), everywhere)
            of = np.concatenate([of, np.repeat(np.arange(count), more.shape[0])])
            at = np.concatenate([at, np.tile(more_at, count)])
            many = np.concatenate([many, np.tile(more, count)])
            order = np.lexsort((at, of))
            of, at, many = of[order], at[order], many[order]
        totals = np.bincount(of, weights=many, minlength=count).astype(np.int64)
        return _Spent(groups, totals, at, np.cumsum(many))

    def _last(self, groups: Int, entries: Int) -> tuple[Int, Float, Int]:
        """Return groups, moments and victims of entries: the last `MAX_RETURNED` of each group.

        Args:
            groups: The group of each entry, in order.
            entries: The entries, oldest first in each group.
        """
        at, many = self._counted.at[entries], self._counted.many[entries]
        totals = np.bincount(groups, weights=many).astype(np.int64)
        if int(totals.max(initial=0)) > MAX_RETURNED:
            later = np.cumsum(totals)[groups] - np.cumsum(many)
            many = np.clip(MAX_RETURNED - later, 0, many)
        return groups, at, many

    def _in_order(self, scope: BudgetScope) -> tuple[Int, Int]:
        """Return, (E,), all entries sorted by code and time, oldest first, and their codes.

        The code is that of the name under which the victims of the matrix share the budget.
        """
        ordered = self._ordered.get(scope)
        if ordered is None:
            names = self._counted.names[scope]
            codes = self._matrix.codes(scope, names)
            if scope is not BudgetScope.CLUSTER:
                everywhere = [index for index, name in enumerate(names) if name == ANY]
                codes[everywhere] = _EVERYWHERE
            order = np.lexsort((self._counted.at, codes))
            ordered = self._ordered[scope] = (order, codes[order])
        return ordered


#: The code of entries that count for every name.
_EVERYWHERE: Final = NOWHERE - 1
