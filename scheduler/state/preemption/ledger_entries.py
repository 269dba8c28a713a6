"""What a ledger counts: victims and preemptions, and how entries are merged or moved.

Merging is conservative: a merged entry counts as if all of its events had happened at the time of
the last one. So a budget may refuse too much afterwards, but never too little.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from scheduler.model.policies import BudgetScope
from scheduler.model.times import Seconds

__all__ = [
    "ANY",
    "NONE",
    "EvictionEntry",
    "PreemptionEntry",
    "counted_for",
    "merged",
    "merged_owners",
    "renewed",
]

#: Stands for every namespace, owner and node, in entries that were merged.
ANY: Final = "*"
#: Stands for no namespace, owner or node: the entry counts for the wider scopes alone.
NONE: Final = ""


@dataclass(frozen=True, slots=True)
class EvictionEntry:
    """A victim, as budgets count it."""

    at: Seconds
    #: Of the victim; empty if several were merged.
    uid: str
    namespace: str
    #: As `scheduler.model.api.owners` names it.
    owner: str
    node: str
    #: Names of the policies that count it.
    policies: frozenset[str]
    count: int = 1


@dataclass(frozen=True, slots=True)
class PreemptionEntry:
    """A preemption, as the limits for one owner count it."""

    at: Seconds
    #: Of the preemptor; empty if several were merged.
    uid: str
    #: Of the preemptor.
    owner: str
    #: Names of the policies that count it.
    policies: frozenset[str]
    count: int = 1


def counted_for(eviction: EvictionEntry) -> Iterator[tuple[str, BudgetScope, str]]:
    """Yield the policy, scope and key of each budget that a victim counts for."""
    for policy in eviction.policies:
        yield policy, BudgetScope.CLUSTER, ANY
        if eviction.namespace != NONE:
            yield policy, BudgetScope.NAMESPACE, eviction.namespace
        if eviction.owner != NONE:
            yield policy, BudgetScope.OWNER, eviction.owner
        if eviction.node != NONE:
            yield policy, BudgetScope.NODE, eviction.node


def merged(entries: Iterable[EvictionEntry], *, hard: bool) -> list[EvictionEntry]:
    """Merge evictions.

    Args:
        entries: Oldest first.
        hard: Whether to drop the namespaces, owners and nodes, too. Then each namespace, owner and
            node counts as many as the one with the most of them; the cluster counts all.
    """
    if not hard:
        return _same(entries)
    by_policy: dict[str, list[EvictionEntry]] = {}
    for entry in entries:
        for policy in entry.policies:
            by_policy.setdefault(policy, []).append(entry)
    return [entry for policy, own in by_policy.items() for entry in _anywhere(policy, own)]


def _same(entries: Iterable[EvictionEntry]) -> list[EvictionEntry]:
    """Merge evictions of the same namespace, owner and node that the same policies count."""
    by_key: dict[object, EvictionEntry] = {}
    for entry in entries:
        key = (entry.policies, entry.namespace, entry.owner, entry.node)
        known = by_key.get(key)
        count = entry.count + (0 if known is None else known.count)
        # Entries come oldest first, so the last one's time is the latest.
        by_key[key] = replace(entry, uid="", count=count)
    return list(by_key.values())


def _anywhere(policy: str, entries: list[EvictionEntry]) -> Iterator[EvictionEntry]:
    """Yield at most four entries that count for each scope as much as these do for any key of it.

    The first counts for every namespace, owner and node, the others for fewer scopes each, and
    all of them for the cluster.
    """
    total = sum(entry.count for entry in entries)
    most = [
        (_most(entries, lambda entry: entry.namespace), "namespace"),
        (_most(entries, lambda entry: entry.owner), "owner"),
        (_most(entries, lambda entry: entry.node), "node"),
        (total, ""),
    ]
    scopes = {"namespace": ANY, "owner": ANY, "node": ANY}
    counted = 0
    for bound, scope in sorted(most):
        # No key has more than the total, even if a damaged text says so.
        count = min(bound, total) - counted
        if count > 0:
            yield EvictionEntry(
                entries[-1].at, "", **scopes, policies=frozenset({policy}), count=count
            )
            counted += count
        if scope:
            scopes[scope] = NONE


def _most(entries: Iterable[EvictionEntry], key: Callable[[EvictionEntry], str]) -> int:
    """Return the greatest number of evictions that any one key may have."""
    counts: Counter[str] = Counter()
    for entry in entries:
        counts[key(entry)] += entry.count
    everywhere = counts.pop(ANY, 0)
    counts.pop(NONE, 0)
    return everywhere + max(counts.values(), default=0)


def merged_owners(entries: Iterable[PreemptionEntry], *, hard: bool) -> list[PreemptionEntry]:
    """Merge preemptions of the same owner; with `hard` those of all owners, as `merged` does."""
    by_policy: dict[frozenset[str], list[PreemptionEntry]] = {}
    for entry in entries:
        keys = [frozenset({name}) for name in entry.policies] if hard else [entry.policies]
        for policies in keys:
            by_policy.setdefault(policies, []).append(entry)
    result = []
    for policies, own in by_policy.items():
        counts: Counter[str] = Counter()
        last: dict[str, Seconds] = {}
        for entry in own:
            counts[entry.owner] += entry.count
            last[entry.owner] = entry.at
        if hard:
            everywhere = counts.pop(ANY, 0)
            bound = everywhere + max(counts.values(), default=0)
            result.append(PreemptionEntry(own[-1].at, "", ANY, policies, bound))
        else:
            result += [
                PreemptionEntry(last[owner], "", owner, policies, count)
                for owner, count in counts.items()
            ]
    return result


def renewed(at: Seconds, step: Seconds, until: Seconds) -> Seconds:
    """Return a time moved forward by so many steps that it is less than one before `until`."""
    steps = math.floor((until - at) / step)
    return round(at + steps * step, 3) if steps > 0 else at
