"""What is said against many candidates at once; the same as `Bounds` and `loops` say one by one.

Each rule is evaluated for all candidates with arrays, and yields a *sweep*: which candidates it
refuses and until when. `tests/core/preemption/test_sweep.py` holds both against each other.

Axes: M victims of all candidates, C candidates, P pairs of a candidate and what victims share.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.bindings import Binding
from scheduler.core.preemption.crowd import Crowd, distinct
from scheduler.core.preemption.loops import HANGS, Past, wasteful
from scheduler.core.preemption.overdrafts import Overdrawn, overdrawn
from scheduler.core.preemption.policy import Bounds
from scheduler.core.preemption.sheet import Objection, Sheet, Sweep
from scheduler.core.preemption.spending import Spending
from scheduler.model.policies import BudgetScope
from scheduler.state.arrays import Bool, Int, Rows
from scheduler.state.fruitless import Pause as LoopPause
from scheduler.state.waste import View

__all__ = ["told"]


def told(bounds: Bounds | None, past: Past, rows: Rows, crowd: Crowd) -> Sheet:
    """Return what is said against each candidate that is refused.

    Args:
        bounds: The policies that bind the preemptor, if any do.
        past: What is remembered.
        rows: (C,) where the candidates are.
        crowd: Their victims.
    """
    sweeps = () if bounds is None else by_policies(bounds, crowd)
    return Sheet(rows, itertools.chain(sweeps, by_memory(past, crowd)))


def by_policies(bounds: Bounds, crowd: Crowd) -> Iterator[Sweep]:
    """Yield what policies say against candidates whose victims need not stay one by one."""
    found: Overdrawn | None = None
    sizes, spending = _Sizes(crowd), Spending(bounds, crowd)
    for binding in bounds.enforced:
        policy = binding.policy
        most = policy.max_victims_per_preemption
        if most is None and not policy.budgets and not binding.strict:
            continue
        counted = binding.victims.staying(crowd.slots)
        # Policies that count the same victims share the counts.
        whose = None if counted.all() else "" if binding.victims.every else policy.name
        if most is not None:
            yield Sweep([binding.too_many(most)], sizes.above(most, counted, whose))
        for budget in policy.budgets:
            excess = spending.excess(policy.name, budget, counted, whose)
            yield Sweep([binding.overspent(budget)], *excess)
        if binding.strict:
            if found is None:
                found = overdrawn(bounds.facts, crowd)
            yield _strict(binding, len(crowd), counted, found)


class _Sizes:
    """The candidates with too many victims; what several policies count alike is counted once."""

    def __init__(self, crowd: Crowd) -> None:
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


def _strict(binding: Binding, size: int, counted: Bool, overdrawn: Overdrawn) -> Sweep:
    """Return the candidates that are refused for disruption budgets of counted victims."""
    said, found = overdrawn.against(counted)
    which = np.zeros(size, dtype=np.int64)
    which[: found.shape[0]] = found
    text = binding.overdrawn()
    return Sweep([replace(text, budgets=keys, until=until) for keys, until in said], which)


# What is remembered -------------------------------------------------------------------------------


def by_memory(past: Past, crowd: Crowd) -> Iterator[Sweep]:
    """Yield what is remembered against candidates."""
    hanging = np.zeros(len(crowd), dtype=np.bool_)
    if past.overdue:
        hanging[crowd.columns[crowd.among(past.overdue)]] = True
        yield Sweep([HANGS], hanging.astype(np.int64))
    if past.pairs:
        loops = _of_loops(past, crowd)
        yield Sweep(loops.said, np.where(hanging, 0, loops.which))
    if past.view:
        yield _of_waste(past, past.view, crowd)


def _of_loops(past: Past, crowd: Crowd) -> Sweep:
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
    past: Past, pauses: Sequence[tuple[str, LoopPause]], size: int, columns: Int, of_pairs: Int
) -> Sweep:
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
    return Sweep([past.said(*pauses[order[each]]) for each in used.tolist()], which)


def _of_waste(past: Past, view: View, crowd: Crowd) -> Sweep:
    """Return what the memory of evictions in vain says."""
    said: list[Objection] = []
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
    return Sweep(said, which)
