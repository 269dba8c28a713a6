"""What a ledger counts: victims and preemptions, and how many of them become few.

Merging is to the safe side: a merged entry counts as if all of it had happened at the time of the
last. So a budget may refuse too much then, and never too little.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from scheduler.model.policies import BudgetScope
from scheduler.model.times import Seconds

__all__ = ["ANY", "NONE", "EvictionEntry", "PreemptionEntry", "merged", "merged_owners", "places"]

#: Stands for every namespace, owner and node, in entries that were merged.
ANY: Final = "*"
#: Stands for no namespace, owner or node: the entry counts for the wider scopes alone.
NONE: Final = ""


@dataclass(frozen=True, slots=True)
class EvictionEntry:
    """A victim, as budgets count it."""

    at: Seconds
    #: Of the victim; empty where several were merged.
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
    #: Of the preemptor; empty where several were merged.
    uid: str
    #: Of the preemptor.
    owner: str
    #: Names of the policies that count it.
    policies: frozenset[str]
    count: int = 1


def places(eviction: EvictionEntry) -> Iterator[tuple[str, BudgetScope, str]]:
    """Yield where a victim counts: policy, scope and key."""
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
        hard: Whether to forget where they happened, too. Then each namespace, owner and node
            counts as many as the one with the most of them; the cluster counts all.
    """
    if not hard:
        return _same(entries)
    by_policy: dict[str, list[EvictionEntry]] = {}
    for each in entries:
        for policy in each.policies:
            by_policy.setdefault(policy, []).append(each)
    return [one for policy, all_of in by_policy.items() for one in _anywhere(policy, all_of)]


def _same(entries: Iterable[EvictionEntry]) -> list[EvictionEntry]:
    """Merge evictions of the same place that the same policies count."""
    found: dict[object, EvictionEntry] = {}
    for each in entries:
        place = (each.policies, each.namespace, each.owner, each.node)
        known = found.get(place)
        count = each.count + (0 if known is None else known.count)
        # Entries come oldest first, so the last one's time is the latest.
        found[place] = replace(each, uid="", count=count)
    return list(found.values())


def _anywhere(policy: str, entries: list[EvictionEntry]) -> Iterator[EvictionEntry]:
    """Yield at most four entries that count as much for every place as for any of these.

    The first counts for every namespace, owner and node, the others for fewer scopes each, and
    all of them for the cluster.
    """
    total = sum(each.count for each in entries)
    most = [
        (_most(entries, lambda each: each.namespace), "namespace"),
        (_most(entries, lambda each: each.owner), "owner"),
        (_most(entries, lambda each: each.node), "node"),
        (total, ""),
    ]
    scopes = {"namespace": ANY, "owner": ANY, "node": ANY}
    told = 0
    for bound, scope in sorted(most):
        # A place cannot have more than all, whatever a text says.
        count = min(bound, total) - told
        if count > 0:
            yield EvictionEntry(
                entries[-1].at, "", **scopes, policies=frozenset({policy}), count=count
            )
            told += count
        if scope:
            scopes[scope] = NONE


def _most(entries: Iterable[EvictionEntry], key: Callable[[EvictionEntry], str]) -> int:
    """Return how many evictions any one place may have had at most."""
    counts: Counter[str] = Counter()
    for each in entries:
        counts[key(each)] += each.count
    everywhere = counts.pop(ANY, 0)
    counts.pop(NONE, 0)
    return everywhere + max(counts.values(), default=0)


def merged_owners(entries: Iterable[PreemptionEntry], *, hard: bool) -> list[PreemptionEntry]:
    """Merge preemptions of the same owner; with `hard` those of all owners, as `merged` does."""
    by_policy: dict[frozenset[str], list[PreemptionEntry]] = {}
    for each in entries:
        for policies in [frozenset({name}) for name in each.policies] if hard else [each.policies]:
            by_policy.setdefault(policies, []).append(each)
    found = []
    for policies, all_of in by_policy.items():
        counts: Counter[str] = Counter()
        last: dict[str, Seconds] = {}
        for each in all_of:
            counts[each.owner] += each.count
            last[each.owner] = each.at
        if hard:
            everywhere = counts.pop(ANY, 0)
            bound = everywhere + max(counts.values(), default=0)
            found.append(PreemptionEntry(all_of[-1].at, "", ANY, policies, bound))
        else:
            found += [PreemptionEntry(last[of], "", of, policies, n) for of, n in counts.items()]
    return found
