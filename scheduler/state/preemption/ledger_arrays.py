"""The victims that a ledger counts, as arrays, for questions about many scopes at once.

Axes: E entries of the ledger.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.model.policies import BudgetScope
from scheduler.state.columns.arrays import Bool, Float, Int
from scheduler.state.preemption.event_times import MAX_RETURNED
from scheduler.state.preemption.ledger_entries import ANY, EvictionEntry

__all__ = ["LedgerArrays"]


class LedgerArrays(NamedTuple):
    """All entries of a ledger at one moment."""

    #: (E,) time of each entry, and its number of victims, `MAX_RETURNED` at most.
    at: Float
    many: Int
    #: (E,) code of the set of policies that count each entry; by policy, the sets it is in.
    sets: Int
    members: Mapping[str, Bool]
    #: By scope, the namespace, owner or node of each entry: E names, `ANY` for all, empty for none.
    names: Mapping[BudgetScope, Sequence[str]]

    @classmethod
    def of(cls, evictions: Collection[EvictionEntry]) -> "LedgerArrays":
        """Return the arrays of some entries."""
        codes: dict[frozenset[str], int] = {}
        sets = [codes.setdefault(entry.policies, len(codes)) for entry in evictions]
        members: dict[str, Bool] = {}
        for policies, code in codes.items():
            for policy in policies:
                if policy not in members:
                    members[policy] = np.zeros(len(codes), dtype=np.bool_)
                members[policy][code] = True
        return cls(
            np.array([entry.at for entry in evictions], dtype=np.float64),
            np.array([min(entry.count, MAX_RETURNED) for entry in evictions], dtype=np.int64),
            np.array(sets, dtype=np.int64),
            members,
            {
                BudgetScope.CLUSTER: [ANY] * len(evictions),
                BudgetScope.NAMESPACE: [entry.namespace for entry in evictions],
                BudgetScope.OWNER: [entry.owner for entry in evictions],
                BudgetScope.NODE: [entry.node for entry in evictions],
            },
        )
