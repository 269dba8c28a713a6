"""How much of the budgets of policies is spent, for all candidates at once.

The same as `Bounds.spent` says of one budget and one name. Most names have had no victim of their
own: they are one group, so that work goes with the entries of the ledger and not with the names.

Axes: C candidates, P pairs of a candidate and what its victims share, G groups of names, E entries
of the ledger.
"""

from typing import Final, NamedTuple

import numpy as np

from scheduler.core.preemption.crowd import NOWHERE, Crowd, Pairs, distinct
from scheduler.core.preemption.policy import Bounds
from scheduler.model.policies import Budget, BudgetScope
from scheduler.model.times import Seconds
from scheduler.state.arrays import Bool, Float, Int
from scheduler.state.entries import ANY
from scheduler.state.moments import MOST_TOLD

__all__ = ["Excess", "Spending"]

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
        spent = self.totals[self.groups][pairs.codes]
        after = counts + spent
        over = np.flatnonzero(after > budget.max_victims)
        over = over[counts[over] > 0]
        which = np.zeros(size, dtype=np.int64)
        which[pairs.columns[over]] = 1
        # Where nothing was counted yet, more than the whole budget is asked for: time ends nothing.
        over = over[(spent[over] > 0) & (counts[over] <= budget.max_victims)]
        if not over.shape[0]:
            return Excess(which, None)
        ends = np.full(size, NEVER)
        group = self.groups[pairs.codes[over]]
        before = np.cumsum(self.totals) - self.totals
        places, alike = distinct(before[group] + after[over] - budget.max_victims - 1)
        until = self.at[np.searchsorted(self.up_to, places, side="right")] + budget.window
        np.minimum.at(ends, pairs.columns[over], until[alike])
        return Excess(which, ends)


class Spending:
    """What budgets say of one crowd; what several policies count alike is found out once."""

    def __init__(self, bounds: Bounds, crowd: Crowd) -> None:
        self._now = bounds.now
        self._crowd = crowd
        self._counted = bounds.facts.ledger.counted_victims()
        self._codes: dict[BudgetScope, Int] = {}
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
            if (budget.scope, whose) not in self._counts:
                self._counts[budget.scope, whose] = pairs.count(counted)
            counts = self._counts[budget.scope, whose]
            spent = self._of(members, sets, budget)
            said = self._said[key] = spent.excess(budget, pairs, counts, size)
        return said

    def _of(self, members: bytes, sets: Bool | None, budget: Budget) -> _Spent:
        key = (members, budget.scope, budget.window)
        spent = self._spent.get(key)
        if spent is None:
            counted = self._counted
            if sets is None:
                entries = np.zeros(0, dtype=np.int64)
            else:
                recent = counted.at > self._now - budget.window
                entries = np.flatnonzero(recent & sets[counted.sets])
            spent = self._spent[key] = self._spend(budget.scope, entries)
        return spent

    def _spend(self, scope: BudgetScope, entries: Int) -> _Spent:
        """Return what some entries of the ledger come to."""
        codes = self._codes_of(scope)[entries]
        groups = np.zeros(len(self._crowd.names(scope)), dtype=np.int64)
        own, everywhere = entries[codes >= 0], entries[codes == _EVERYWHERE]
        known, of_own = np.unique(codes[codes >= 0], return_inverse=True)
        groups[known] = np.arange(1, known.shape[0] + 1)
        count = known.shape[0] + 1
        moments = [self._told(of_own + 1, own)]
        if everywhere.shape[0]:
            # They count for each group beside its own.
            _, at, many = self._told(np.zeros_like(everywhere), everywhere)
            repeated = np.repeat(np.arange(count), at.shape[0])
            moments.append((repeated, np.tile(at, count), np.tile(many, count)))
        of, at, many = (np.concatenate(each) for each in zip(*moments, strict=True))
        order = np.lexsort((at, of))
        totals = np.bincount(of, weights=many, minlength=count).astype(np.int64)
        return _Spent(groups, totals, at[order], np.cumsum(many[order]))

    def _told(self, groups: Int, entries: Int) -> tuple[Int, Float, Int]:
        """Return groups, moments and numbers of entries; the last `MOST_TOLD` of each group."""
        at, many = self._counted.at[entries], self._counted.many[entries]
        order = np.lexsort((at, groups))
        groups, at, many = groups[order], at[order], many[order]
        totals = np.bincount(groups, weights=many).astype(np.int64)
        if int(totals.max(initial=0)) > MOST_TOLD:
            later = np.cumsum(totals)[groups] - np.cumsum(many)
            many = np.clip(MOST_TOLD - later, 0, many)
        return groups, at, many

    def _codes_of(self, scope: BudgetScope) -> Int:
        """Return, (E,), the codes of what entries of the ledger share with victims now."""
        codes = self._codes.get(scope)
        if codes is None:
            names = self._counted.names[scope]
            codes = self._crowd.codes(scope, names)
            if scope is not BudgetScope.CLUSTER:
                everywhere = [place for place, each in enumerate(names) if each == ANY]
                codes[everywhere] = _EVERYWHERE
            self._codes[scope] = codes
        return codes


#: The code of entries that count for every name.
_EVERYWHERE: Final = NOWHERE - 1
