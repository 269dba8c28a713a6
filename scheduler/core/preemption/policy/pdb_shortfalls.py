"""Shortfalls of disruption budgets (PDBs): candidates that they allow to evict less from.

Axes: M victims of all candidates, C candidates, B pairs of a victim and a PDB that protects it,
E shortfalls.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from scheduler.core.preemption.policy.in_flight import InFlightEvictions, Quota
from scheduler.core.preemption.policy.rules import RuleInputs
from scheduler.core.preemption.policy.victim_matrix import (
    PdbStanding,
    VictimMatrix,
    distinct,
    paired,
)
from scheduler.model.policy_refusals import earliest
from scheduler.model.times import Seconds
from scheduler.state.columns.arrays import Bool, Int
from scheduler.state.pods.pdb_index import UNPROTECTED

__all__ = ["PdbShortfalls", "Reason", "pdb_shortfalls"]

#: The PDBs that are in the way, and when that ends; `None` where time does not end it.
Reason: TypeAlias = tuple[frozenset[str], Seconds | None]


class PdbShortfalls(NamedTuple):
    """The shortfalls of all candidates."""

    #: (E,) the candidate, and its reason as an index into `reasons`.
    columns: Int
    which: Int
    reasons: Sequence[Reason]
    #: (B,) protected victims, as positions in the matrix, and the shortfall that each is part of.
    victims: Int
    part_of: Int
    in_flight: InFlightEvictions
    matrix: VictimMatrix

    def of(self, counted: Bool) -> tuple[list[Reason], Int]:
        """Return the shortfalls that some victims are part of.

        Args:
            counted: (M,) True for these victims.

        Returns:
            The reasons, each once, and (C,) the reason of each candidate that has a victim in a
            shortfall, counted from 1; 0 for the others. C ends with the last such candidate.
        """
        concerned = np.zeros(self.columns.shape[0], dtype=np.bool_)
        concerned[self.part_of[counted[self.victims]]] = True
        width = len(self.reasons)
        pairs, _ = distinct(self.columns[concerned] * width + self.which[concerned])
        columns, indices = pairs // max(width, 1), (pairs % max(width, 1)).tolist()
        starts = np.flatnonzero(np.diff(columns, prepend=-1))
        which = np.zeros(int(columns.max(initial=-1)) + 1, dtype=np.int64)
        numbers: dict[Reason, int] = {}
        known: dict[tuple[int, ...], int] = {}
        ends = [*starts[1:].tolist(), len(indices)]
        of_columns = []
        for start, end in zip(starts.tolist(), ends, strict=False):
            group = tuple(indices[start:end])
            number = known.get(group)
            if number is None:
                reason = self._joined(group)
                number = known[group] = numbers.setdefault(reason, len(numbers) + 1)
            of_columns.append(number)
        which[columns[starts]] = of_columns
        return list(numbers), which

    def at(self, column: int, counted: Bool) -> Iterator[tuple[Reason, str]]:
        """Yield the shortfalls of one candidate in words: those of single pods, then of each PDB.

        Args:
            column: The candidate.
            counted: (M,) True for victims; each shortfall has one of them.
        """
        found = []
        for number in np.flatnonzero(self.columns == column).tolist():
            victims = self.victims[self.part_of == number]
            reason = self.reasons[self.which[number]]
            keys = sorted(reason[0])
            if counted[victims].any():
                found.append((len(keys) == 1, int(victims[0]), keys, reason, victims))
        for _, _, keys, reason, victims in sorted(found, key=lambda each: each[:3]):
            yield reason, self.in_flight.shortage(keys, self.matrix.pods(victims))

    def _joined(self, group: Iterable[int]) -> Reason:
        reasons = [self.reasons[index] for index in group]
        keys = frozenset[str]().union(*(keys for keys, _ in reasons))
        return keys, earliest(end for _, end in reasons)


def pdb_shortfalls(inputs: RuleInputs, matrix: VictimMatrix) -> PdbShortfalls:
    """Return the shortfalls of all candidates; call `InFlightEvictions.remove_ended` before.

    Only those candidates are examined whose PDBs may not suffice if all their victims count.
    """
    victims = _suspicious(inputs, matrix)
    counts = (matrix.facts.standing[victims] != PdbStanding.FREE) & ~matrix.evicted()[victims]
    victims = victims[counts]
    sets, set_of = _sets(inputs, matrix, victims)
    sizes = np.array([len(keys) for keys in sets], dtype=np.int64)
    single = _single_pdbs(inputs.in_flight, matrix, victims, sets, set_of, sizes)
    # The API server evicts no pod that several PDBs protect.
    several = np.flatnonzero(sizes[set_of] > 1) if sets else victims[:0]
    width = len(single.reasons)
    return PdbShortfalls(
        np.concatenate([single.columns, matrix.columns[victims[several]]]),
        np.concatenate([single.which, width + set_of[several]]),
        [*single.reasons, *((frozenset(keys), None) for keys in sets)],
        np.concatenate([single.victims, victims[several]]),
        np.concatenate([single.part_of, single.columns.shape[0] + np.arange(several.shape[0])]),
        inputs.in_flight,
        matrix,
    )


def _single_pdbs(
    in_flight: InFlightEvictions,
    matrix: VictimMatrix,
    victims: Int,
    sets: Sequence[Sequence[str]],
    set_of: Int,
    sizes: Int,
) -> PdbShortfalls:
    """Return the shortfalls of single PDBs.

    Args:
        in_flight: The evictions in flight.
        matrix: The victims of all candidates.
        victims: The positions of those that use PDBs up.
        sets: Sets of PDBs.
        set_of: The set that protects each victim.
        sizes: How many PDBs each set has.
    """
    codes = {key: code for code, key in enumerate(dict.fromkeys(k for s in sets for k in s))}
    victims, keys = _spread(victims, set_of, sizes, [codes[key] for s in sets for key in s])
    quotas = [in_flight.quota(key) for key in codes]
    pairs = paired(matrix.columns[victims], keys)
    counts = np.bincount(pairs.of_victims, minlength=pairs.codes.shape[0])
    own = _are_in_flight(in_flight, matrix, victims, keys, list(codes))
    charged = np.bincount(pairs.of_victims[own], minlength=pairs.codes.shape[0])
    taken = _array(quota.in_flight for quota in quotas)[pairs.codes] - charged
    outdated = _array(quota.outdated for quota in quotas)[pairs.codes] > 0
    short = outdated | (counts + taken > _array(quota.allowed for quota in quotas)[pairs.codes])
    timed = (taken > 0) & ~outdated
    number = np.cumsum(short) - 1
    part: Bool = short[pairs.of_victims]
    return PdbShortfalls(
        pairs.columns[short],
        (2 * pairs.codes + timed)[short],
        [*_reasons(codes, quotas)],
        victims[part],
        number[pairs.of_victims[part]],
        in_flight,
        matrix,
    )


def _reasons(keys: Iterable[str], quotas: Iterable[Quota]) -> Iterator[Reason]:
    """Yield the two reasons of each PDB: without and with evictions in flight."""
    for key, quota in zip(keys, quotas, strict=True):
        yield frozenset({key}), None
        yield frozenset({key}), quota.until


def _array(numbers: Iterable[int]) -> Int:
    return np.fromiter(numbers, dtype=np.int64)


def _spread(victims: Int, set_of: Int, sizes: Int, codes: Sequence[int]) -> tuple[Int, Int]:
    """Return, (B,) each, victims and the PDBs that protect them, one at a time.

    Args:
        victims: The victims.
        set_of: The set of PDBs that protects each.
        sizes: How many PDBs each set has.
        codes: The PDBs of all sets, one set after the other.
    """
    many = sizes[set_of] if sizes.shape[0] else set_of
    first = np.cumsum(sizes) - sizes
    within = np.arange(int(many.sum())) - np.repeat(np.cumsum(many) - many, many)
    at = np.repeat(first[set_of], many) + within if sizes.shape[0] else within
    return np.repeat(victims, many), np.array(codes, dtype=np.int64)[at]


def _are_in_flight(
    in_flight: InFlightEvictions,
    matrix: VictimMatrix,
    victims: Int,
    codes: Int,
    keys: Sequence[str],
) -> Bool:
    """Return, (B,), which victims use up the PDB as evictions in flight already."""
    slots = matrix.slots[victims]
    size = int(slots.max(initial=0)) + 1
    taken = [
        code * size + slot
        for code, key in enumerate(keys)
        for slot in in_flight.slots_in_flight(key)
        if slot < size
    ]
    if not taken:
        return np.zeros(victims.shape[0], dtype=np.bool_)
    return np.isin(codes * size + slots, taken)


def _sets(
    inputs: RuleInputs, matrix: VictimMatrix, victims: Int
) -> tuple[list[tuple[str, ...]], Int]:
    """Return sets of PDBs, and which of them protects each of some victims."""
    codes = inputs.cluster.pods.protection(matrix.slots[victims])
    unready = (matrix.facts.standing[victims] == PdbStanding.UNREADY).astype(np.int64)
    numbers, set_of = distinct(2 * codes + unready)
    values = inputs.cluster.pdbs.sets.values
    sets = [
        inputs.in_flight.used_up(values[number // 2], ready=number % 2 == 0)
        for number in numbers.tolist()
    ]
    return sets, set_of


def _suspicious(inputs: RuleInputs, matrix: VictimMatrix) -> Int:
    """Return the positions of victims whose PDBs may not allow all that a candidate takes."""
    codes = inputs.cluster.pods.protection(matrix.slots)
    pairs = paired(matrix.columns, codes)
    allowed = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.int64)
    for code in pairs.distinct:
        allowed[code] = _certainly_allowed(inputs, code)
    sizes = np.bincount(pairs.of_victims, minlength=pairs.codes.shape[0])
    suspicious: Bool = (sizes > allowed[pairs.codes])[pairs.of_victims]
    return np.flatnonzero(suspicious)


def _certainly_allowed(inputs: RuleInputs, code: int) -> int:
    """Return how many pods that a set of PDBs protects can be evicted for certain."""
    if code == UNPROTECTED:
        return 2**31
    keys = inputs.cluster.pdbs.sets.values[code]
    if len(keys) != 1:
        return 0
    quota = inputs.in_flight.quota(keys[0])
    return 0 if quota.outdated else max(0, quota.allowed - quota.in_flight)
