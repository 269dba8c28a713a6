"""What preemption has to remember beyond a restart: who was evicted lately, and what was in vain.

Each eviction is kept with the policies that count it, as long as a window of one of them may reach
back to it. Counting is idempotent, so a plan that is taken up again counts its victims once. What
becomes too much is merged, always to the safe side: merged evictions count as if all of them had
happened at the time of the last, and for more places than they happened in. So a budget may refuse
too much then, and never too little.

The ledger is written down as text by whoever executes effects; `revision` tells whether there is
anything that was not.
"""

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from typing import Final

import msgspec

from scheduler.model.policies import BudgetScope
from scheduler.model.times import Seconds
from scheduler.state.fruitless import Fruitless, Memory

__all__ = ["ANY", "Eviction", "Ledger", "LedgerError", "Preempted"]

VERSION: Final = 1
#: More entries than these are merged.
MOST_ENTRIES: Final = 4096
#: A ConfigMap holds 1 MiB, its other fields included.
MOST_BYTES: Final = 900_000

#: Stands for every namespace, owner and node, in entries that were merged.
ANY: Final = "*"


class LedgerError(Exception):
    """A text is no ledger, or one of another version."""


@dataclass(frozen=True, slots=True)
class Eviction:
    """A victim, as budgets count it."""

    at: Seconds
    #: Of the victim; empty where several were merged.
    uid: str
    namespace: str
    #: As `scheduler.model.owners` names it.
    owner: str
    node: str
    #: Names of the policies that count it.
    policies: frozenset[str]
    count: int = 1


@dataclass(frozen=True, slots=True)
class Preempted:
    """A preemption, as the limits for one owner count it."""

    at: Seconds
    #: Of the preemptor; empty where several were merged.
    uid: str
    #: Of the preemptor.
    owner: str
    #: Names of the policies that count it.
    policies: frozenset[str]
    count: int = 1


class Ledger:
    """All that is remembered. Owned by the machine."""

    def __init__(self) -> None:
        self.fruitless: Final = Fruitless()
        #: Grows with every change that must be written down.
        self.revision = 0
        #: The longest window of any policy in force; what is older is dropped.
        self.horizon: Seconds = 0.0
        self._numbers = count()
        #: By uid, and by a number where several were merged.
        self._evictions: dict[object, Eviction] = {}
        #: By uid and moment.
        self._preemptions: dict[object, Preempted] = {}
        #: Moments, oldest first, by policy, scope and key.
        self._victims: dict[tuple[str, BudgetScope, str], list[Seconds]] = {}
        self._by_owner: dict[tuple[str, str], list[Seconds]] = {}

    def __len__(self) -> int:
        return len(self._evictions) + len(self._preemptions) + len(self.fruitless)

    # Counting -------------------------------------------------------------------------------------

    def count_victim(self, eviction: Eviction) -> bool:
        """Count a victim, once; tell whether it was not counted before."""
        if not eviction.policies or eviction.uid in self._evictions:
            return False
        self._add_eviction(eviction)
        self.revision += 1
        self._bound()
        return True

    def count_preemption(self, preemption: Preempted) -> bool:
        """Count a preemption, once; tell whether it was not counted before."""
        if not preemption.policies or (preemption.uid, preemption.at) in self._preemptions:
            return False
        self._add_preemption(preemption)
        self.revision += 1
        self._bound()
        return True

    def restamp(self, uid: str, now: Seconds) -> None:
        """Count a victim from now on: only now it is certain that it leaves."""
        found = self._evictions.get(uid)
        if found is not None:
            self._drop_eviction(uid)
            self._add_eviction(replace(found, at=round(now, 3)))
            self.revision += 1

    def take_back(self, uid: str) -> None:
        """Do not count a victim that was not evicted after all."""
        if uid in self._evictions:
            self._drop_eviction(uid)
            self.revision += 1

    def take_back_preemption(self, uid: str, at: Seconds) -> None:
        """Do not count a preemption for which nobody was evicted after all."""
        if (uid, at) in self._preemptions:
            self._rebuild(self._evictions.values(), [
                each for key, each in self._preemptions.items() if key != (uid, at)
            ])  # fmt: skip
            self.revision += 1

    def note_fruitless(
        self, preemptor: str, node: str, victims: Iterable[str], now: Seconds, *, lost: bool
    ) -> None:
        """Note that a preemption came to nothing; for the arguments see `Fruitless.note`."""
        self.fruitless.note(preemptor, node, victims, now, lost=lost)
        self.revision += 1

    def note_success(self, preemptor: str, victims: Iterable[str]) -> None:
        """Note that a preemption succeeded: what was in vain between these owners is forgotten."""
        if self.fruitless.succeeded(preemptor, victims):
            self.revision += 1

    # Asking ---------------------------------------------------------------------------------------

    def victims(self, policy: str, scope: BudgetScope, key: str, since: Seconds) -> list[Seconds]:
        """Return when victims were counted that share a budget, oldest first.

        Args:
            policy: Its name.
            scope: What shares the budget.
            key: The namespace, owner or node; for the cluster it does not matter.
            since: The begin of the window; what happened then is outside of it.
        """
        keys = (ANY,) if scope is BudgetScope.CLUSTER else (key, ANY)
        return _since([self._victims.get((policy, scope, each)) for each in keys], since)

    def preemptions(self, policy: str, owner: str, since: Seconds) -> list[Seconds]:
        """Return when preemptions for the pods of an owner were counted, oldest first."""
        return _since([self._by_owner.get((policy, each)) for each in (owner, ANY)], since)

    # Writing down ---------------------------------------------------------------------------------

    def text(self, now: Seconds) -> str:
        """Return everything as text that `merge` reads; what is too old is dropped before."""
        self.prune(now)
        text = self._encoded()
        while len(text) > MOST_BYTES:
            self._merge_oldest(hard=True)
            text = self._encoded()
        return text.decode()

    def merge(self, text: str) -> None:
        """Take over what was written down, and keep what is known.

        Raises:
            LedgerError: It is no ledger of this version; nothing is taken over then.
        """
        try:
            written = msgspec.json.decode(text, type=_Written)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise LedgerError(str(error)) from error
        if written.version != VERSION:
            raise LedgerError(f"version {written.version} is not known, only {VERSION}")
        try:
            evictions, preemptions, memories = written.entries()
        except IndexError as error:
            raise LedgerError("a name is missing") from error
        self._rebuild(
            [
                *self._evictions.values(),
                *(each for each in evictions if each.uid not in self._evictions),
            ],
            [
                *self._preemptions.values(),
                *(each for each in preemptions if (each.uid, each.at) not in self._preemptions),
            ],
        )
        for memory in memories:
            self.fruitless.merge(memory)

    def prune(self, now: Seconds) -> None:
        """Drop what no window reaches back to any more."""
        oldest = now - self.horizon
        # Before the policies are known, nothing can be told to be too old.
        moments = [*map(_moment, self._evictions.values())]
        moments += map(_moment, self._preemptions.values())
        if self.horizon > 0 and min(moments, default=now) < oldest:
            self._rebuild(
                [each for each in self._evictions.values() if each.at >= oldest],
                [each for each in self._preemptions.values() if each.at >= oldest],
            )
        self.fruitless.prune(now)

    def _encoded(self) -> bytes:
        return msgspec.json.encode(
            _Written.of(self._evictions.values(), self._preemptions.values(), self.fruitless)
        )

    # Keeping it small -----------------------------------------------------------------------------

    def _bound(self) -> None:
        if len(self._evictions) + len(self._preemptions) > MOST_ENTRIES:
            self._merge_oldest(hard=False)
            if len(self._evictions) + len(self._preemptions) > MOST_ENTRIES // 4 * 3:
                self._merge_oldest(hard=True)

    def _merge_oldest(self, *, hard: bool) -> None:
        """Merge the older half of the entries.

        Args:
            hard: Whether to forget also where they happened, and count them everywhere.
        """
        evictions = sorted(self._evictions.values(), key=_moment)
        preemptions = sorted(self._preemptions.values(), key=_moment)
        half, other = (len(evictions) + 1) // 2, (len(preemptions) + 1) // 2
        self._rebuild(
            [*_merged(evictions[:half], hard=hard), *evictions[half:]],
            [*_merged_owners(preemptions[:other], hard=hard), *preemptions[other:]],
        )

    def _rebuild(self, evictions: Iterable[Eviction], preemptions: Iterable[Preempted]) -> None:
        chosen = list(evictions), list(preemptions)
        self._evictions, self._preemptions = {}, {}
        self._victims, self._by_owner = {}, {}
        for eviction in chosen[0]:
            self._add_eviction(eviction)
        for preemption in chosen[1]:
            self._add_preemption(preemption)

    def _add_eviction(self, eviction: Eviction) -> None:
        self._evictions[eviction.uid or next(self._numbers)] = eviction
        for place in _places(eviction):
            _insert(self._victims.setdefault(place, []), eviction.at, eviction.count)

    def _drop_eviction(self, uid: str) -> None:
        eviction = self._evictions.pop(uid)
        for place in _places(eviction):
            moments = self._victims[place]
            first = bisect.bisect_left(moments, eviction.at)
            del moments[first : first + eviction.count]
            if not moments:
                del self._victims[place]

    def _add_preemption(self, preemption: Preempted) -> None:
        uid = preemption.uid
        self._preemptions[(uid, preemption.at) if uid else next(self._numbers)] = preemption
        for policy in preemption.policies:
            moments = self._by_owner.setdefault((policy, preemption.owner), [])
            _insert(moments, preemption.at, preemption.count)


def _places(eviction: Eviction) -> Iterator[tuple[str, BudgetScope, str]]:
    """Yield where a victim counts: policy, scope and key."""
    for policy in eviction.policies:
        yield policy, BudgetScope.CLUSTER, ANY
        yield policy, BudgetScope.NAMESPACE, eviction.namespace
        yield policy, BudgetScope.OWNER, eviction.owner
        yield policy, BudgetScope.NODE, eviction.node


def _moment(entry: Eviction | Preempted) -> Seconds:
    return entry.at


def _insert(moments: list[Seconds], at: Seconds, count: int) -> None:
    place = bisect.bisect_right(moments, at)
    moments[place:place] = [at] * count


def _since(lists: Iterable[list[Seconds] | None], since: Seconds) -> list[Seconds]:
    found = [each[bisect.bisect_right(each, since) :] for each in lists if each]
    return found[0] if len(found) == 1 else sorted(moment for each in found for moment in each)


def _merged(entries: Iterable[Eviction], *, hard: bool) -> list[Eviction]:
    """Merge evictions of the same place; with `hard` those that one policy counts."""
    merged: dict[object, Eviction] = {}
    for each in entries:
        for policies in [frozenset({name}) for name in each.policies] if hard else [each.policies]:
            place = (ANY, ANY, ANY) if hard else (each.namespace, each.owner, each.node)
            known = merged.get((policies, place))
            count = each.count + (known.count if known is not None else 0)
            # Entries come oldest first, so the last one's time is the latest.
            merged[policies, place] = Eviction(each.at, "", *place, policies, count)
    return list(merged.values())


def _merged_owners(entries: Iterable[Preempted], *, hard: bool) -> list[Preempted]:
    """Merge preemptions of the same owner; with `hard` those that one policy counts."""
    merged: dict[object, Preempted] = {}
    for each in entries:
        for policies in [frozenset({name}) for name in each.policies] if hard else [each.policies]:
            of = ANY if hard else each.owner
            known = merged.get((policies, of))
            count = each.count + (known.count if known is not None else 0)
            merged[policies, of] = Preempted(each.at, "", of, policies, count)
    return list(merged.values())


class _Names:
    """A table of names, so that each is written once."""

    def __init__(self) -> None:
        self.places: dict[str, int] = {}

    def place(self, name: str) -> int:
        return self.places.setdefault(name, len(self.places))

    def all(self, names: Iterable[str]) -> list[int]:
        return [self.place(each) for each in sorted(names)]


class _Written(msgspec.Struct):
    """The form in which a ledger is written down; numbers stand for names of the table."""

    version: int
    names: list[str] = []
    #: Time, uid, namespace, owner, node, policies, count.
    evictions: list[tuple[float, str, int, int, int, list[int], int]] = []
    #: Time, uid, owner, policies, count.
    preemptions: list[tuple[float, str, int, list[int], int]] = []
    #: Preemptor's owner, node, victims' owner, times, lost, last.
    fruitless: list[tuple[int, int, int, int, int, float]] = []

    @classmethod
    def of(
        cls, evictions: Iterable[Eviction], preemptions: Iterable[Preempted], fruitless: Fruitless
    ) -> "_Written":
        names = _Names()
        name = names.place
        return cls(
            version=VERSION,
            evictions=[
                (e.at, e.uid, name(e.namespace), name(e.owner), name(e.node),
                 names.all(e.policies), e.count)
                for e in evictions
            ],
            preemptions=[
                (e.at, e.uid, name(e.owner), names.all(e.policies), e.count) for e in preemptions
            ],
            fruitless=[
                (name(e.preemptor), name(e.node), name(e.victim), e.times, e.lost, e.last)
                for e in fruitless
            ],
            names=list(names.places),
        )  # fmt: skip

    def entries(self) -> tuple[list[Eviction], list[Preempted], list[Memory]]:
        """Return what is written.

        Raises:
            IndexError: The table of names is too short.
        """
        names = self.names
        return (
            [
                Eviction(at, uid, names[space], names[owner], names[node],
                         frozenset(names[each] for each in policies), count)
                for at, uid, space, owner, node, policies, count in self.evictions
            ],
            [
                Preempted(at, uid, names[owner], frozenset(names[each] for each in policies), count)
                for at, uid, owner, policies, count in self.preemptions
            ],
            [
                Memory(names[preemptor], names[node], names[victim], times, lost, last)
                for preemptor, node, victim, times, lost, last in self.fruitless
            ],
        )  # fmt: skip
