"""What is said against many candidates at once; the same as `Bounds` and `loops` say one by one.

Each rule is evaluated for all candidates with arrays, and yields a *sweep*: which candidates it
refuses and until when. `tests/core/preemption/test_sweep.py` holds both against each other.

Axes: M victims of all candidates, C candidates, P pairs of a candidate and what victims share.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.bindings import Binding
from scheduler.core.preemption.crowd import Crowd, paired
from scheduler.core.preemption.loops import HANGS, Past, wasteful
from scheduler.core.preemption.loops import Objection as Loop
from scheduler.core.preemption.policy import Bounds, room_at
from scheduler.model.policies import Budget, BudgetScope
from scheduler.model.refusals import Refusal, earliest
from scheduler.model.times import Seconds
from scheduler.state.arrays import Bool, Float, Int
from scheduler.state.budgets import UNPROTECTED
from scheduler.state.ledger import ANY

__all__ = ["told"]

_NEVER: Final = np.inf

#: What is said against one candidate.
Said: TypeAlias = tuple[Refusal | Loop, ...]


class Sweep(NamedTuple):
    """What one rule says against some candidates."""

    #: All that it says, each once.
    said: list[Refusal]
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
    found = {} if bounds is None else _shared(by_policies(bounds, crowd), len(crowd))
    more: dict[tuple[int, Loop], Said] = {}
    for column, objection in by_memory(past, crowd):
        before = found.get(column, ())
        found[column] = more.setdefault((id(before), objection), (*before, objection))
    return found


def _shared(sweeps: Iterable[Sweep], size: int) -> dict[int, Said]:
    """Return what sweeps say together against each candidate; equal words are one object."""
    #: (C,) which of these is said so far.
    known: list[Said] = [()]
    codes = np.zeros(size, dtype=np.int64)
    for said, which in sweeps:
        if not said:
            continue
        many = len(said) + 1
        both, codes = np.unique(codes * many + which, return_inverse=True)
        pairs = [divmod(each, many) for each in both.tolist()]
        known = [(*known[code], *said[place - 1 : place]) if place else known[code]
                 for code, place in pairs]  # fmt: skip
    return {column: known[code] for column, code in enumerate(codes.tolist()) if known[code]}


def by_policies(bounds: Bounds, crowd: Crowd) -> Iterator[Sweep]:
    """Yield what policies say against candidates whose victims need not stay one by one."""
    counts: dict[tuple[BudgetScope, str], Int] = {}
    overdrawn: list[_Overdrawn] | None = None
    for binding in bounds.enforced:
        policy = binding.policy
        most = policy.max_victims_per_preemption
        if most is None and not policy.budgets and not binding.strict:
            continue
        counted = binding.victims.staying(crowd.slots)
        whose = "" if binding.victims.every else policy.name
        if most is not None:
            many = np.bincount(crowd.columns[counted], minlength=len(crowd)) > most
            yield Sweep.ending(binding.too_many(most), many, _never(crowd))
        for budget in policy.budgets:
            pairs = crowd.pairs(budget.scope)
            key = (budget.scope, whose)
            if key not in counts:
                counts[key] = pairs.count(counted)
            yield _overspent(bounds, binding, budget, crowd, counts[key])
        if binding.strict:
            if overdrawn is None:
                overdrawn = [*_overdrawn(bounds, crowd)]
            yield _strict(binding, crowd, counted, overdrawn)


def _never(crowd: Crowd) -> Float:
    return np.full(len(crowd), _NEVER)


# Budgets of policies ------------------------------------------------------------------------------


def _overspent(
    bounds: Bounds, binding: Binding, budget: Budget, crowd: Crowd, counts: Int
) -> Sweep:
    """Return the candidates for whose victims a budget has no room."""
    pairs, names = crowd.pairs(budget.scope), crowd.names(budget.scope)
    spending = bounds.facts.ledger.places(binding.policy.name, budget.scope)
    spent = np.zeros(len(names), dtype=np.int64)
    moments: dict[int, list[Seconds]] = {}
    for code in pairs.distinct if spending else ():
        if ANY in spending or names[code] in spending:
            moments[code] = bounds.spent(binding, budget, names[code])
            spent[code] = len(moments[code])
    over = (counts > 0) & (counts + spent[pairs.codes] > budget.max_victims)
    refused = np.zeros(len(crowd), dtype=np.bool_)
    ends = _never(crowd)
    if over.any():
        columns, codes, more = pairs.columns[over], pairs.codes[over], counts[over]
        refused[columns] = True
        # Where nothing was counted yet, more than the whole budget is asked for: time ends nothing.
        timed = spent[codes] > 0
        if not timed.any():
            return Sweep.ending(binding.overspent(budget), refused, ends)
        columns, codes, more = columns[timed], codes[timed], more[timed]
        alike = paired(codes, more)
        until = np.array(
            [
                _end(moments[code], count, budget)
                for code, count in zip(alike.columns.tolist(), alike.codes.tolist(), strict=True)
            ],
            dtype=np.float64,
        )
        np.minimum.at(ends, columns, until[alike.of_victims])
    return Sweep.ending(binding.overspent(budget), refused, ends)


def _end(spent: list[Seconds], more: int, budget: Budget) -> float:
    end = room_at(spent, more, budget.max_victims, budget.window)
    return _NEVER if end is None else end


# Disruption budgets -------------------------------------------------------------------------------


class _Overdrawn(NamedTuple):
    """A disruption budget, or several, that do not allow the victims of one candidate."""

    column: int
    #: The victims that are protected, as places of the crowd.
    victims: tuple[int, ...]
    budgets: frozenset[str]
    until: Seconds | None


def _overdrawn(bounds: Bounds, crowd: Crowd) -> Iterator[_Overdrawn]:
    """Yield the candidates that are refused for the sake of disruption budgets.

    Only those are looked at pod by pod whose budgets may be too small if all their victims count.
    """
    disruptions = bounds.facts.disruptions
    of_column: dict[int, dict[str, list[int]]] = {}
    for place in _suspicious(bounds, crowd).tolist():
        keys = disruptions.protecting(crowd.pod(place))
        column = int(crowd.columns[place])
        if len(keys) > 1:
            yield _Overdrawn(column, (place,), frozenset(keys), None)
        for key in keys:
            of_column.setdefault(column, {}).setdefault(key, []).append(place)
    keys_of = {key for known in of_column.values() for key in known}
    quotas = {key: disruptions.quota(key) for key in keys_of}
    for column, known in of_column.items():
        for key, places in known.items():
            quota = quotas[key]
            taken = quota.taken
            if taken:
                taken -= disruptions.in_flight(key, (crowd.pod(each).uid for each in places))
            if quota.outdated or len(places) + taken > quota.allowed:
                timed = taken > 0 and not quota.outdated
                until = quota.until if timed else None
                yield _Overdrawn(column, tuple(places), frozenset({key}), until)


def _suspicious(bounds: Bounds, crowd: Crowd) -> Int:
    """Return the places of victims whose disruption budgets may not allow all of a candidate."""
    cluster = bounds.facts.cluster
    codes = cluster.pods.protection(crowd.slots)
    pairs = paired(crowd.columns, codes)
    few = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.int64)
    for code in pairs.distinct:
        few[code] = _room(bounds, code)
    sizes = np.bincount(pairs.of_victims, minlength=pairs.codes.shape[0])
    suspects: Bool = (sizes > few[pairs.codes])[pairs.of_victims]
    return np.flatnonzero(suspects | _broad(bounds, crowd))


def _room(bounds: Bounds, code: int) -> int:
    """Return for how many pods there is room for sure, with a set of budgets that protect them."""
    if code == UNPROTECTED:
        return 2**31
    keys = bounds.facts.cluster.budgets.sets.values[code]
    if len(keys) != 1:
        return 0
    quota = bounds.facts.disruptions.quota(keys[0])
    return 0 if quota.outdated else max(0, quota.allowed - quota.taken)


def _broad(bounds: Bounds, crowd: Crowd) -> Bool:
    """Return, (M,), the victims in namespaces with a budget that selects pods without labels."""
    names = crowd.names(BudgetScope.NAMESPACE)
    disruptions = bounds.facts.disruptions
    broad = np.array([disruptions.is_broad(each) for each in names], dtype=np.bool_)
    if not broad.any():
        return np.zeros(crowd.slots.shape[0], dtype=np.bool_)
    pairs = crowd.pairs(BudgetScope.NAMESPACE)
    found: Bool = broad[pairs.codes][pairs.of_victims]
    return found


def _strict(binding: Binding, crowd: Crowd, counted: Bool, overdrawn: list[_Overdrawn]) -> Sweep:
    """Return the candidates that are refused for disruption budgets of counted victims."""
    found: dict[int, tuple[frozenset[str], Seconds | None]] = {}
    nothing: tuple[frozenset[str], Seconds | None] = (frozenset(), None)
    counts = counted.tolist()
    for column, victims, budgets, until in overdrawn:
        if any(counts[each] for each in victims):
            before, end = found.get(column, nothing)
            found[column] = (before | budgets, earliest((end, until)))
    which = np.zeros(len(crowd), dtype=np.int64)
    places: dict[tuple[frozenset[str], Seconds | None], int] = {}
    for column, why in found.items():
        which[column] = places.setdefault(why, len(places) + 1)
    text = binding.overdrawn()
    return Sweep([replace(text, budgets=why, until=until) for why, until in places], which)


# What is remembered -------------------------------------------------------------------------------


def by_memory(past: Past, crowd: Crowd) -> Iterator[tuple[int, Loop]]:
    """Yield what is remembered against candidates, each with its place."""
    hanging = _hanging(past, crowd)
    yield from ((column, HANGS) for column in hanging)
    yield from ((column, said) for column, said in _of_loops(past, crowd) if column not in hanging)
    yield from _of_waste(past, crowd)


def _hanging(past: Past, crowd: Crowd) -> frozenset[int]:
    """Return the candidates with a victim that hangs."""
    if not past.overdue:
        return frozenset()
    hangs = [crowd.pod(each).uid in past.overdue for each in range(crowd.slots.shape[0])]
    return frozenset(crowd.columns[np.array(hangs, dtype=np.bool_)].tolist())


def _of_loops(past: Past, crowd: Crowd) -> Iterator[tuple[int, Loop]]:
    """Yield what the memory of loops says."""
    if not past.pairs:
        return
    pairs, names = crowd.pairs(BudgetScope.OWNER), crowd.names(BudgetScope.OWNER)
    remembered = [code for code in pairs.distinct if names[code] in past.pairs]
    owners: dict[int, list[str]] = {}
    about = np.flatnonzero(np.isin(pairs.codes, remembered))
    for column, code in zip(
        pairs.columns[about].tolist(), pairs.codes[about].tolist(), strict=True
    ):
        owners.setdefault(column, []).append(names[code])
    for column, theirs in owners.items():
        said = past.of_loops(crowd.nodes[column], theirs)
        if said is not None:
            yield column, said


def _of_waste(past: Past, crowd: Crowd) -> Iterator[tuple[int, Loop]]:
    """Yield what the memory of evictions in vain says."""
    if not past.view:
        return
    nodes = past.view.nodes
    many = {}
    for size in np.unique(crowd.sizes).tolist():
        pause = past.view.anywhere(size)
        if pause is not None:
            many[size] = wasteful(pause)
    for column, (node, size) in enumerate(zip(crowd.nodes, crowd.sizes.tolist(), strict=True)):
        said = past.of_waste(node, size) if node in nodes else many.get(size)
        if said is not None:
            yield column, said
