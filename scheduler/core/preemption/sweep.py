"""What is said against many candidates at once; the same as `Bounds` and `loops` say one by one.

Each rule is evaluated for all candidates with arrays, and yields a *sweep*: which candidates it
refuses and until when. `tests/core/preemption/test_sweep.py` holds both against each other.

Axes: M victims of all candidates, C candidates, P pairs of a candidate and what victims share.
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.bindings import Binding
from scheduler.core.preemption.crowd import Crowd, distinct, paired
from scheduler.core.preemption.loops import HANGS, Past, wasteful
from scheduler.core.preemption.loops import Objection as Loop
from scheduler.core.preemption.overdrafts import Overdrawn, overdrawn
from scheduler.core.preemption.policy import Bounds, room_at
from scheduler.model.policies import Budget, BudgetScope
from scheduler.model.refusals import Refusal
from scheduler.model.times import Seconds
from scheduler.state.arrays import Bool, Float, Int
from scheduler.state.fruitless import Pause as LoopPause
from scheduler.state.ledger import ANY
from scheduler.state.waste import View

__all__ = ["told"]

_NEVER: Final = np.inf

#: What is said against one candidate.
Said: TypeAlias = tuple[Refusal | Loop, ...]


class Sweep(NamedTuple):
    """What one rule says against some candidates."""

    #: All that it says; each candidate is told one of it at most.
    said: Sequence[Refusal | Loop]
    #: (C,) which of it is said against each candidate, counted from 1; 0 where nothing is.
    which: Int

    @classmethod
    def ending(cls, text: Refusal, refused: Bool, ends: Float) -> "Sweep":
        """Return a sweep that says the same everywhere, but for when it ends.

        Args:
            text: What it says.
            refused: (C,) True for those that are refused.
            ends: (C,) when that ends, infinity where time does not end it.
        """
        moments, places = np.unique(ends[refused], return_inverse=True)
        which = np.zeros(refused.shape[0], dtype=np.int64)
        which[refused] = places + 1
        said = [text if end == _NEVER else replace(text, until=end) for end in moments.tolist()]
        return cls(said, which)


def told(bounds: Bounds | None, past: Past, crowd: Crowd) -> dict[int, Said]:
    """Return what is said against each candidate that is refused, by its place.

    Candidates of which the same is said share one object.
    """
    sweeps = () if bounds is None else by_policies(bounds, crowd)
    #: (C,) which of these is said so far.
    known: list[Said] = [()]
    codes = np.zeros(len(crowd), dtype=np.int64)
    for said, which in itertools.chain(sweeps, by_memory(past, crowd)):
        if not which.any():
            continue
        many = len(said) + 1
        both, codes = distinct(codes * many + which)
        pairs = [divmod(each, many) for each in both.tolist()]
        known = [(*known[code], *said[place - 1 : place]) if place else known[code]
                 for code, place in pairs]  # fmt: skip
    return {column: known[code] for column, code in enumerate(codes.tolist()) if known[code]}


def by_policies(bounds: Bounds, crowd: Crowd) -> Iterator[Sweep]:
    """Yield what policies say against candidates whose victims need not stay one by one."""
    counts: dict[tuple[BudgetScope, str | None], Int] = {}
    found: Overdrawn | None = None
    for binding in bounds.enforced:
        policy = binding.policy
        most = policy.max_victims_per_preemption
        if most is None and not policy.budgets and not binding.strict:
            continue
        counted = binding.victims.staying(crowd.slots)
        if most is not None:
            sizes = crowd.sizes if counted.all() else _sizes(crowd, counted)
            many = (sizes > most).astype(np.int64)
            yield Sweep([binding.too_many(most)], many)
        # Policies that count the same victims share the counts.
        every = "" if binding.victims.every else policy.name
        whose = None if counted.all() else every
        for budget in policy.budgets:
            key = (budget.scope, whose)
            if key not in counts:
                counts[key] = crowd.pairs(budget.scope).count(counted)
            yield _overspent(bounds, binding, budget, crowd, counts[key])
        if binding.strict:
            if found is None:
                found = overdrawn(bounds.facts, crowd)
            yield _strict(binding, len(crowd), counted, found)


def _sizes(crowd: Crowd, counted: Bool) -> Int:
    return np.bincount(crowd.columns[counted], minlength=len(crowd))


# Budgets of policies ------------------------------------------------------------------------------


def _overspent(
    bounds: Bounds, binding: Binding, budget: Budget, crowd: Crowd, counts: Int
) -> Sweep:
    """Return the candidates for whose victims a budget has no room."""
    pairs = crowd.pairs(budget.scope)
    moments = _moments(bounds, binding, budget, crowd)
    most, text = budget.max_victims, binding.overspent(budget)
    if not moments and int(counts.max(initial=0)) <= most:
        return Sweep([text], np.zeros(len(crowd), dtype=np.int64))
    spent = np.zeros(len(crowd.names(budget.scope)), dtype=np.int64)
    spent[list(moments)] = [len(each) for each in moments.values()]
    over = np.flatnonzero((counts > 0) & (counts + spent[pairs.codes] > most))
    refused = np.zeros(len(crowd), dtype=np.bool_)
    columns, codes, more = pairs.columns[over], pairs.codes[over], counts[over]
    refused[columns] = True
    # Where nothing was counted yet, more than the whole budget is asked for: time ends nothing.
    timed = spent[codes] > 0
    if not timed.any():
        return Sweep([text], refused.astype(np.int64))
    columns, codes, more = columns[timed], codes[timed], more[timed]
    alike = paired(codes, more)
    until = np.array(
        [
            _end(moments[code], count, budget)
            for code, count in zip(alike.columns.tolist(), alike.codes.tolist(), strict=True)
        ],
        dtype=np.float64,
    )
    ends = np.full(len(crowd), _NEVER)
    np.minimum.at(ends, columns, until[alike.of_victims])
    return Sweep.ending(text, refused, ends)


def _moments(
    bounds: Bounds, binding: Binding, budget: Budget, crowd: Crowd
) -> dict[int, list[Seconds]]:
    """Return when victims were counted, by the code of what they share with victims now."""
    ledger, name, scope = bounds.facts.ledger, binding.policy.name, budget.scope
    spending = ledger.places(name, scope)
    if not spending:
        return {}
    names, there = crowd.names(scope), crowd.pairs(scope).distinct
    if ANY in spending:
        codes = list(there)
    else:
        asked = (crowd.code(scope, each) for each in spending)
        codes = sorted({each for each in asked if each is not None} & crowd.present(scope))
    since = bounds.now - budget.window
    spent = ledger.victims_of(name, scope, [names[code] for code in codes], since)
    return {code: each for code, each in zip(codes, spent, strict=True) if each}


def _end(spent: list[Seconds], more: int, budget: Budget) -> float:
    end = room_at(spent, more, budget.max_victims, budget.window)
    return _NEVER if end is None else end


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
    said: list[Refusal | Loop] = []
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
