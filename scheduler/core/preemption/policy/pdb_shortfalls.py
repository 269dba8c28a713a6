"""Shortfalls of disruption budgets (PDBs): where they do not allow to evict all victims.

Axes: M victims of all candidates.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scheduler.core.preemption.policy.rules import RuleInputs
from scheduler.core.preemption.policy.victim_matrix import (
    PdbStanding,
    VictimMatrix,
    distinct,
    paired,
)
from scheduler.state.columns.arrays import Float, Int
from scheduler.state.pods.pdb_index import UNPROTECTED

__all__ = ["Shortfall", "pdb_shortfalls"]


class Shortfall(NamedTuple):
    """Candidates whose victims a PDB, or several PDBs together, do not allow to evict."""

    #: Namespaces and names of the PDBs; the API server evicts no pod that several protect.
    keys: tuple[str, ...]
    #: The victims that they protect, as positions in the matrix, in order.
    victims: Int
    #: For each of them, when that ends for its candidate; infinity where time does not end it.
    ends: Float


def pdb_shortfalls(inputs: RuleInputs, matrix: VictimMatrix) -> Iterator[Shortfall]:
    """Yield the shortfalls of all candidates; call `InFlightEvictions.remove_ended` before.

    Only those candidates are examined whose PDBs may not suffice if all their victims count.
    """
    victims = _suspicious(inputs, matrix)
    standing = matrix.facts.standing
    victims = victims[(standing[victims] != PdbStanding.FREE) & ~matrix.evicted()[victims]]
    unready = (standing[victims] == PdbStanding.UNREADY).astype(np.int64)
    numbers, group_of = distinct(
        2 * inputs.cluster.pods.protection(matrix.slots[victims]) + unready
    )
    by_key: dict[str, list[Int]] = {}
    for group, number in enumerate(numbers.tolist()):
        keys = inputs.cluster.pdbs.sets.values[number // 2]
        keys = inputs.in_flight.used_up(keys, ready=number % 2 == 0)
        members = victims[group_of == group]
        if len(keys) > 1:
            yield Shortfall(keys, members, np.full(members.shape[0], np.inf))
        for key in keys:
            by_key.setdefault(key, []).append(members)
    for key, groups in by_key.items():
        yield from _of_one(key, np.sort(np.concatenate(groups)), inputs, matrix)


def _of_one(
    key: str, victims: Int, inputs: RuleInputs, matrix: VictimMatrix
) -> Iterator[Shortfall]:
    """Yield the shortfall of one PDB, if there is one; `victims` are those that it protects."""
    quota = inputs.in_flight.quota(key)
    columns, column_of = distinct(matrix.columns[victims])
    own = matrix.are_in(victims, inputs.in_flight.slots_in_flight(key))
    taken = quota.in_flight - np.bincount(column_of[own], minlength=columns.shape[0])
    short = (np.bincount(column_of) + taken > quota.allowed) | quota.outdated
    if short.any():
        timed = (taken > 0) & (quota.until is not None and not quota.outdated)
        ends = np.where(timed, quota.until or 0.0, np.inf)
        among = short[column_of]
        yield Shortfall((key,), victims[among], ends[column_of[among]])


def _suspicious(inputs: RuleInputs, matrix: VictimMatrix) -> Int:
    """Return the positions of victims whose PDBs may not allow all that a candidate takes."""
    codes = inputs.cluster.pods.protection(matrix.slots)
    pairs = paired(matrix.columns, codes)
    allowed = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.int64)
    sets = inputs.cluster.pdbs.sets.values
    # Pods under several PDBs use up each of them beside the pods that it alone protects.
    shared = {key for code in pairs.distinct if len(sets[code]) > 1 for key in sets[code]}
    for code in pairs.distinct:
        allowed[code] = 0 if shared.intersection(sets[code]) else _certainly_allowed(inputs, code)
    sizes = np.bincount(pairs.of_victims, minlength=pairs.codes.shape[0])
    suspicious: Int = np.flatnonzero((sizes > allowed[pairs.codes])[pairs.of_victims])
    return suspicious


def _certainly_allowed(inputs: RuleInputs, code: int) -> int:
    """Return how many pods that a set of PDBs protects can be evicted for certain."""
    if code == UNPROTECTED:
        return 2**31
    keys = inputs.cluster.pdbs.sets.values[code]
    if len(keys) != 1:
        return 0
    quota = inputs.in_flight.quota(keys[0])
    return 0 if quota.outdated else max(0, quota.allowed - quota.in_flight)
