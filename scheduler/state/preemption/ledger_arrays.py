"""The victims that a ledger counts, as arrays: for who asks about many places at once.

Axes: E entries of the ledger.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.model.policies import BudgetScope
from scheduler.state.columns.arrays import Bool, Float, Int
from scheduler.state.preemption.ledger_entries import ANY, EvictionEntry
from scheduler.state.preemption.moments import MOST_TOLD

__all__ = ["LedgerArrays"]


class LedgerArrays(NamedTuple):
    """All entries at one moment."""

    #: (E,) when they happened, and how many victims each is, `MOST_TOLD` at most.
    at: Float
    many: Int
    #: (E,) which set of policies counts each, and by name which sets a policy is in.
    sets: Int
    members: Mapping[str, Bool]
    #: What shares a budget with each: E names, `ANY` for all, empty for none.
    names: Mapping[BudgetScope, Sequence[str]]

    @classmethod
    def of(cls, evictions: Collection[EvictionEntry]) -> "LedgerArrays":
        """Return the arrays of some entries."""
        codes: dict[frozenset[str], int] = {}
        sets = [codes.setdefault(each.policies, len(codes)) for each in evictions]
        members: dict[str, Bool] = {}
        for policies, code in codes.items():
            for policy in policies:
                if policy not in members:
                    members[policy] = np.zeros(len(codes), dtype=np.bool_)
                members[policy][code] = True
        return cls(
            np.array([each.at for each in evictions], dtype=np.float64),
            np.array([min(each.count, MOST_TOLD) for each in evictions], dtype=np.int64),
            np.array(sets, dtype=np.int64),
            members,
            {
                BudgetScope.CLUSTER: [ANY] * len(evictions),
                BudgetScope.NAMESPACE: [each.namespace for each in evictions],
                BudgetScope.OWNER: [each.owner for each in evictions],
                BudgetScope.NODE: [each.node for each in evictions],
            },
        )
