"""Which candidates disruption budgets do not allow, for all candidates at once.

The same as `InFlightEvictions.overdrafts` says of the victims of one candidate, without the names
of the pods.

Axes: M victims of all candidates, C candidates, B pairs of a victim and a budget that protects it,
E overdrafts.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from scheduler.core.preemption.policy.in_flight import InFlightEvictions, Quota
from scheduler.core.preemption.policy.rules import RuleInputs
from scheduler.core.preemption.policy.victim_matrix import Standing, VictimMatrix, distinct, paired
from scheduler.model.policies import BudgetScope
from scheduler.model.policy_refusals import earliest
from scheduler.model.times import Seconds
from scheduler.state.columns.arrays import Bool, Int
from scheduler.state.pods.disruption_budgets import UNPROTECTED

__all__ = ["PdbShortfalls", "Why", "overdrawn"]

#: The budgets that are in the way, and when that ends; `None` where time does not end it.
Why: TypeAlias = tuple[frozenset[str], Seconds | None]


class PdbShortfalls(NamedTuple):
    """The overdrafts of all candidates."""

    #: (E,) the candidate, and which of `why` is said against it.
    columns: Int
    which: Int
    why: Sequence[Why]
    #: (B,) protected victims, as places of the crowd, and the overdraft that each is part of.
    victims: Int
    part_of: Int

    def against(self, counted: Bool) -> tuple[list[Why], Int]:
        """Return what is said for the sake of some victims.

        Args:
            counted: (M,) True for these victims.

        Returns:
            All that is said, each once, and (C,) for each candidate that has a victim in an
            overdraft which of it is said, counted from 1; 0 elsewhere. C ends with the last one.
        """
        meant = np.zeros(self.columns.shape[0], dtype=np.bool_)
        meant[self.part_of[counted[self.victims]]] = True
        width = len(self.why)
        pairs, _ = distinct(self.columns[meant] * width + self.which[meant])
        columns, whys = pairs // max(width, 1), (pairs % max(width, 1)).tolist()
        starts = np.flatnonzero(np.diff(columns, prepend=-1))
        which = np.zeros(int(columns.max(initial=-1)) + 1, dtype=np.int64)
        places: dict[Why, int] = {}
        known: dict[tuple[int, ...], int] = {}
        ends = [*starts[1:].tolist(), len(whys)]
        of_columns = []
        for start, end in zip(starts.tolist(), ends, strict=False):
            group = tuple(whys[start:end])
            place = known.get(group)
            if place is None:
                said = self._joined(group)
                place = known[group] = places.setdefault(said, len(places) + 1)
            of_columns.append(place)
        which[columns[starts]] = of_columns
        return list(places), which

    def _joined(self, group: Iterable[int]) -> Why:
        said = [self.why[each] for each in group]
        return frozenset().union(*(keys for keys, _ in said)), earliest(end for _, end in said)


def overdrawn(facts: RuleInputs, crowd: VictimMatrix) -> PdbShortfalls:
    """Return the overdrafts of all candidates; `InFlightEvictions.settle` comes before.

    Only those candidates are looked at closely whose budgets may be too small if all their victims
    count.
    """
    broad = _broad(facts.disruptions, crowd)
    places = _suspicious(facts, crowd, broad)
    counts = (crowd.facts.standing[places] != Standing.FREE) & ~crowd.asked_to_leave()[places]
    places = places[counts]
    sets, of_places = _sets(facts, crowd, places, broad)
    sizes = np.array([len(keys) for keys in sets], dtype=np.int64)
    charged = _charged(facts.disruptions, crowd, places, sets, of_places, sizes)
    several = np.flatnonzero(sizes[of_places] > 1) if sets else places[:0]
    width = len(charged.why)
    refused = [(frozenset(keys), None) for keys in sets]
    return PdbShortfalls(
        np.concatenate([charged.columns, crowd.columns[places[several]]]),
        np.concatenate([charged.which, width + of_places[several]]),
        [*charged.why, *refused],
        np.concatenate([charged.victims, places[several]]),
        np.concatenate([charged.part_of, charged.columns.shape[0] + np.arange(several.shape[0])]),
    )


def _charged(
    disruptions: InFlightEvictions,
    crowd: VictimMatrix,
    places: Int,
    sets: Sequence[Sequence[str]],
    of_places: Int,
    sizes: Int,
) -> PdbShortfalls:
    """Return the overdrafts of single budgets.

    Args:
        disruptions: What is in flight.
        crowd: The victims.
        places: Those that use budgets up.
        sets: Sets of budgets.
        of_places: Which set protects each victim.
        sizes: How many budgets each set has.
    """
    codes = {key: code for code, key in enumerate(dict.fromkeys(k for s in sets for k in s))}
    victims, keys = _spread(places, of_places, sizes, [codes[key] for s in sets for key in s])
    quotas = [disruptions.quota(key) for key in codes]
    pairs = paired(crowd.columns[victims], keys)
    counts = np.bincount(pairs.of_victims, minlength=pairs.codes.shape[0])
    own = _in_flight(disruptions, crowd, victims, keys, list(codes))
    charged = np.bincount(pairs.of_victims[own], minlength=pairs.codes.shape[0])
    taken = _column(each.taken for each in quotas)[pairs.codes] - charged
    outdated = _column(each.outdated for each in quotas)[pairs.codes] > 0
    over = outdated | (counts + taken > _column(each.allowed for each in quotas)[pairs.codes])
    timed = (taken > 0) & ~outdated
    number = np.cumsum(over) - 1
    part: Bool = over[pairs.of_victims]
    return PdbShortfalls(
        pairs.columns[over],
        (2 * pairs.codes + timed)[over],
        [*_whys(codes, quotas)],
        victims[part],
        number[pairs.of_victims[part]],
    )


def _whys(keys: Iterable[str], quotas: Iterable[Quota]) -> Iterator[Why]:
    """Yield what is said for the sake of each budget, without and with evictions in flight."""
    for key, quota in zip(keys, quotas, strict=True):
        yield frozenset({key}), None
        yield frozenset({key}), quota.until


def _column(numbers: Iterable[int]) -> Int:
    return np.fromiter(numbers, dtype=np.int64)


def _spread(places: Int, of_places: Int, sizes: Int, codes: Sequence[int]) -> tuple[Int, Int]:
    """Return, (B,) each, victims and the budgets that protect them, one at a time.

    Args:
        places: The victims.
        of_places: Which set of budgets protects each.
        sizes: How many budgets each set has.
        codes: The budgets of all sets, one set after the other.
    """
    many = sizes[of_places] if sizes.shape[0] else of_places
    first = np.cumsum(sizes) - sizes
    within = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
    at = np.repeat(first[of_places], many) + within if sizes.shape[0] else within
    return np.repeat(places, many), np.array(codes, dtype=np.int64)[at]


def _in_flight(
    disruptions: InFlightEvictions,
    crowd: VictimMatrix,
    victims: Int,
    codes: Int,
    keys: Sequence[str],
) -> Bool:
    """Return, (B,), which victims use up the budget as evictions in flight already."""
    slots = crowd.slots[victims]
    size = int(slots.max(initial=0)) + 1
    taken = [
        code * size + slot
        for code, key in enumerate(keys)
        for slot in disruptions.slots_in_flight(key)
        if slot < size
    ]
    if not taken:
        return np.zeros(victims.shape[0], dtype=np.bool_)
    return np.isin(codes * size + slots, taken)


def _sets(
    facts: RuleInputs, crowd: VictimMatrix, places: Int, broad: Bool
) -> tuple[list[tuple[str, ...]], Int]:
    """Return sets of budgets, and which of them protects each of some victims."""
    known, disruptions = crowd.facts, facts.disruptions
    codes = facts.cluster.pods.protection(crowd.slots[places])
    unready = (known.standing[places] == Standing.UNREADY).astype(np.int64)
    namespaces, bare = known.namespaces[places], known.bare[places]
    wide = broad[namespaces]
    # Where no budget selects pods without labels, the code of a set says all.
    spaces, bare = np.where(wide, namespaces + 1, 0), np.where(wide, bare, 0)
    size = broad.shape[0] + 1
    numbers, of_places = distinct(((codes * size + spaces) * 2 + bare) * 2 + unready)
    names = crowd.names(BudgetScope.NAMESPACE)
    found = []
    for number in numbers.tolist():
        rest, one_unready = divmod(number, 2)
        rest, one_bare = divmod(rest, 2)
        code, space = divmod(rest, size)
        namespace = names[space - 1] if space else ""
        keys = disruptions.keys_by(code, namespace, bare=bool(one_bare))
        found.append(disruptions.used_up(keys, ready=not one_unready))
    return found, of_places


def _broad(disruptions: InFlightEvictions, crowd: VictimMatrix) -> Bool:
    """Return by code the namespaces with a budget that selects pods without labels."""
    names = crowd.names(BudgetScope.NAMESPACE)
    return np.array([disruptions.is_broad(each) for each in names], dtype=np.bool_)


def _suspicious(facts: RuleInputs, crowd: VictimMatrix, broad: Bool) -> Int:
    """Return the places of victims whose disruption budgets may not allow all of a candidate."""
    codes = facts.cluster.pods.protection(crowd.slots)
    pairs = paired(crowd.columns, codes)
    few = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.int64)
    for code in pairs.distinct:
        few[code] = _room(facts, code)
    sizes = np.bincount(pairs.of_victims, minlength=pairs.codes.shape[0])
    suspects: Bool = (sizes > few[pairs.codes])[pairs.of_victims]
    return np.flatnonzero(suspects | broad[crowd.facts.namespaces])


def _room(facts: RuleInputs, code: int) -> int:
    """Return for how many pods there is room for sure, with a set of budgets that protect them."""
    if code == UNPROTECTED:
        return 2**31
    keys = facts.cluster.budgets.sets.values[code]
    if len(keys) != 1:
        return 0
    quota = facts.disruptions.quota(keys[0])
    return 0 if quota.outdated else max(0, quota.allowed - quota.taken)
