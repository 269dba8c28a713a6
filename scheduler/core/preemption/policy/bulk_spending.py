"""How much of the budgets of policies is spent, for all candidates at once.

The same as `PolicyRules.spent` says of one budget and one name. Most names have had no victim of
their own: they are one group, so that work goes with the entries of the ledger and not with the
names.

Axes: C candidates, P pairs of a candidate and what its victims share, G groups of names, E entries
of the ledger.
"""

from typing import Final, NamedTuple

import numpy as np

from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.core.preemption.policy.victim_matrix import NOWHERE, Pairs, VictimMatrix, distinct
from scheduler.model.policies import Budget, BudgetScope
from scheduler.model.times import Seconds
from scheduler.state.columns.arrays import Bool, Float, Int
from scheduler.state.preemption.ledger_entries import ANY
from scheduler.state.preemption.moments import MOST_TOLD

__all__ = ["BudgetSpending", "Excess"]

NEVER: Final = np.inf


class Excess(NamedTuple):
    """The candidates for whose victims a budget has no room."""

    #: (C,) 1 for them.
    which: Int
    #: (C,) when that ends, infinity where time does not end it; `None` where it never does.
    ends: Float | None


class _Spent(NamedTuple):
    """When victims were counted, by what they share."""

    #: The group of each code; group 0 is of all codes without a victim of their own.
    groups: Int
    #: (G,) how many victims each group has.
    totals: Int
    #: (E,) moments group by group, oldest first, and how many victims there are up to each.
    at: Float
    up_to: Int

    def excess(self, budget: Budget, pairs: Pairs, counts: Int, size: int) -> Excess:
        """Return the candidates for which there is no room.

        Args:
            budget: How many there may be.
            pairs: Candidates, with what their victims share.
            counts: (P,) how many victims there are of each pair.
            size: C.
        """
        most = budget.max_victims
        room = (most - self.totals)[self.groups]
        over = np.flatnonzero(counts > room[pairs.codes])
        # Where none counts, what was spent before does not matter.
        over = over[counts[over] > 0]
        which = np.zeros(size, dtype=np.int64)
        which[pairs.columns[over]] = 1
        # Where nothing was counted yet, more than the whole budget is asked for: time ends nothing.
        over = over[(room[pairs.codes[over]] < most) & (counts[over] <= most)]
        if not over.shape[0]:
            return Excess(which, None)
        ends = np.full(size, NEVER)
        # Of each group's moments the first that has to end for there to be room.
        codes = pairs.codes[over]
        before = (np.cumsum(self.totals) - self.totals)[self.groups[codes]]
        places, alike = distinct(before + counts[over] - room[codes] - 1)
        until = self.at[np.searchsorted(self.up_to, places, side="right")] + budget.window
        np.minimum.at(ends, pairs.columns[over], until[alike])
        return Excess(which, ends)


class BudgetSpending:
    """What budgets say of one crowd; what several policies count alike is found out once."""

    def __init__(self, bounds: PolicyRules, crowd: VictimMatrix) -> None:
        self._now = bounds.now
        self._crowd = crowd
        self._counted = bounds.facts.ledger.counted_victims()
        self._ordered: dict[BudgetScope, tuple[Int, Int]] = {}
        self._spent: dict[tuple[bytes, BudgetScope, Seconds], _Spent] = {}
        self._counts: dict[tuple[BudgetScope, str | None], Int] = {}
        self._said: dict[tuple[bytes, Budget, str | None], Excess] = {}

    def excess(self, policy: str, budget: Budget, counted: Bool, whose: str | None) -> Excess:
        """Return the candidates for whose victims a budget has no room.

        Args:
            policy: The name of the policy.
            budget: One of its budgets.
            counted: (M,) the victims that it counts.
            whose: `None` where it counts all; else equal for policies that count the same.
        """
        sets = self._counted.members.get(policy)
        members = b"" if sets is None else sets.tobytes()
        key = (members, budget, whose)
        said = self._said.get(key)
        if said is None:
            pairs, size = self._crowd.pairs(budget.scope), len(self._crowd)
            counts = self._count(budget.scope, counted, whose)
            spent = self._of(members, sets, budget)
            said = self._said[key] = spent.excess(budget, pairs, counts, size)
        return said

    def _count(self, scope: BudgetScope, counted: Bool, whose: str | None) -> Int:
        """Return, (P,), how many victims of each pair count."""
        counts = self._counts.get((scope, whose))
        if counts is None:
            pairs = self._crowd.pairs(scope)
            if whose is None:
                counts = pairs.count(counted)
            else:
                # Mostly few are left out, and those are counted faster.
                counts = self._count(scope, np.ones_like(counted), None) - pairs.count(~counted)
            self._counts[scope, whose] = counts
        return counts

    def _of(self, members: bytes, sets: Bool | None, budget: Budget) -> _Spent:
        key = (members, budget.scope, budget.window)
        spent = self._spent.get(key)
        if spent is None:
            counted = self._counted
            wanted: Bool = counted.at > self._now - budget.window
            wanted &= False if sets is None else sets[counted.sets]
            spent = self._spent[key] = self._spend(budget.scope, wanted)
        return spent

    def _spend(self, scope: BudgetScope, wanted: Bool) -> _Spent:
        """Return what some entries of the ledger, (E,) given, come to."""
        order, codes = self._in_order(scope)
        kept = wanted[order]
        entries, codes = order[kept], codes[kept]
        end, begin = np.searchsorted(codes, (NOWHERE, 0)).tolist()
        everywhere, own, codes = entries[:end], entries[begin:], codes[begin:]
        first = np.diff(codes, prepend=NOWHERE) != 0
        known = codes[first]
        groups = np.zeros(len(self._crowd.names(scope)), dtype=np.int64)
        groups[known] = np.arange(1, known.shape[0] + 1)
        count = known.shape[0] + 1
        of, at, many = self._told(np.cumsum(first), own)
        if everywhere.shape[0]:
            # They count for each group beside its own.
            _, more_at, more = self._told(np.zeros_like(everywhere), everywhere)
            of = np.concatenate([of, np.repeat(np.arange(count), more.shape[0])])
            at = np.concatenate([at, np.tile(more_at, count)])
            many = np.concatenate([many, np.tile(more, count)])
            order = np.lexsort((at, of))
            of, at, many = of[order], at[order], many[order]
        totals = np.bincount(of, weights=many, minlength=count).astype(np.int64)
        return _Spent(groups, totals, at, np.cumsum(many))

    def _told(self, groups: Int, entries: Int) -> tuple[Int, Float, Int]:
        """Return groups, moments and numbers of entries; the last `MOST_TOLD` of each group.

        Args:
            groups: The group of each, in order.
            entries: Oldest first in each group.
        """
        at, many = self._counted.at[entries], self._counted.many[entries]
        totals = np.bincount(groups, weights=many).astype(np.int64)
        if int(totals.max(initial=0)) > MOST_TOLD:
            later = np.cumsum(totals)[groups] - np.cumsum(many)
            many = np.clip(MOST_TOLD - later, 0, many)
        return groups, at, many

    def _in_order(self, scope: BudgetScope) -> tuple[Int, Int]:
        """Return, (E,), all entries by what they share with victims now, oldest first, and that."""
        found = self._ordered.get(scope)
        if found is None:
            names = self._counted.names[scope]
            codes = self._crowd.codes(scope, names)
            if scope is not BudgetScope.CLUSTER:
                everywhere = [place for place, each in enumerate(names) if each == ANY]
                codes[everywhere] = _EVERYWHERE
            order = np.lexsort((self._counted.at, codes))
            found = self._ordered[scope] = (order, codes[order])
        return found


#: The code of entries that count for every name.
_EVERYWHERE: Final = NOWHERE - 1
