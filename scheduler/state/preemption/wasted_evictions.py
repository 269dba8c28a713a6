"""Evictions in vain: how many there were within the last hour, for which pods, and what follows.

A victim was evicted in vain when the preemptor was not bound to the room that it left, whatever the
reason: others took the room, a victim refused or hung, the plan failed, the preemptor went. Two
things follow.

* The node is backed off for all pods of the preemptor's owner, each time for twice as long, up to
  an hour; so the next best nodes are tried. Here a preemption that failed before any victim left
  counts, too.
* Within any hour there are only so many victims in vain for one pod, one owner, one namespace, one
  node, and the cluster. Then preemption stops until enough of them are an hour old.

For one pod the largest of the preemptions in vain is not counted, so one that needs many victims
may fail once. The bounds of nodes and of the cluster do not stop the pods of a namespace without
any victim in vain: nothing that one tenant does stops all others. What is under way when a bound is
reached goes on.

`now` is always the time of this machine. What another process has dated later is taken for now.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from scheduler.model.api.owners import LONGEST, bounded, namespace_of
from scheduler.model.times import Seconds

__all__ = [
    "MOST",
    "MOST_PREEMPTIONS",
    "WINDOW",
    "NodePause",
    "WasteEntry",
    "WastePause",
    "WasteScope",
    "WasteView",
    "WastedEvictions",
]

#: How long a victim in vain counts.
WINDOW: Final[Seconds] = 3600.0

FIRST_PAUSE: Final[Seconds] = 10.0
LONGEST_PAUSE: Final[Seconds] = 3600.0
#: A node on which nothing failed for so long begins with the first pause.
FORGOTTEN_AFTER: Final[Seconds] = 2 * LONGEST_PAUSE

#: So many preemptions of one pod may be in vain within the hour, however few victims they have.
MOST_PREEMPTIONS: Final = 3
#: How much is kept of entries and of pauses, in bytes as `_size` counts them. What one namespace
#: may waste takes less, whatever its owners are called.
MOST_BYTES: Final = 150_000

#: One entry takes no more, by the bounds of its names.
_LARGEST: Final = 3 * LONGEST + 64


class WasteScope(StrEnum):
    """What shares a bound."""

    POD = "pod"
    OWNER = "owner"
    NAMESPACE = "namespace"
    NODE = "node"
    CLUSTER = "cluster"


#: So many victims may be in vain within the hour, for a pod beside those of its largest preemption.
#: A pod: two or three preemptions of the usual one to four victims. The others: what several such
#: pods may cost before it is no accident.
MOST: Final[Mapping[WasteScope, int]] = {
    WasteScope.POD: 8,
    WasteScope.OWNER: 64,
    WasteScope.NAMESPACE: 256,
    WasteScope.NODE: 64,
    WasteScope.CLUSTER: 1024,
}


class WastePause(NamedTuple):
    """Preemption is not tried, because too much of it was in vain."""

    #: When it may be tried again, in seconds.
    until: Seconds
    #: Whose bound it is; `NODE` also for a node that is backed off.
    scope: WasteScope
    #: Victims in vain within the hour; for a node that is backed off, preemptions that failed.
    times: int
    #: Whether a node is backed off for the preemptor's owner, and no bound reached.
    backed_off: bool = False


@dataclass(frozen=True, slots=True)
class WasteEntry:
    """One preemption in vain."""

    at: Seconds
    #: Of the preemptor.
    uid: str
    #: Of the preemptor, as `scheduler.model.api.owners` names it.
    owner: str
    node: str
    #: How many were evicted.
    victims: int
    #: Whether it is certain that no other pod of ours uses the room. Until then it counts against
    #: the preemptor alone, which needs another preemption.
    settled: bool = True

    @property
    def namespace(self) -> str:
        """The preemptor's."""
        return namespace_of(self.owner)


@dataclass(frozen=True, slots=True)
class NodePause:
    """How often preemption for pods of one owner has failed on a node, one time after another."""

    owner: str
    node: str
    times: int
    #: When it last failed.
    last: Seconds

    @property
    def until(self) -> Seconds:
        """Until when the node is backed off."""
        growth = math.pow(2.0, min(self.times - 1, 16))
        return self.last + min(LONGEST_PAUSE, FIRST_PAUSE * growth)


class _Bound(NamedTuple):
    """What was in vain within the hour in one scope, oldest first; at least one entry."""

    scope: WasteScope
    entries: tuple[WasteEntry, ...]

    def pause(self, victims: int) -> WastePause | None:
        """Return until when so many victims more are too many; `None` when they are not."""
        left = [each.victims for each in self.entries]
        if self._has_room(left, victims):
            return None
        # How many of the oldest must have ended to count; all at most.
        ended = next(n for n in range(1, len(left) + 1) if self._has_room(left[n:], victims))
        until = self.entries[ended - 1].at + WINDOW
        return WastePause(until, self.scope, sum(left))

    def _has_room(self, wasted: Sequence[int], victims: int) -> bool:
        if self.scope is not WasteScope.POD:
            return sum(wasted) < MOST[self.scope]
        counted = sum(wasted) + victims - max((*wasted, victims))
        return len(wasted) < MOST_PREEMPTIONS and counted <= MOST[self.scope]


class WasteView:
    """What was in vain, as one preemptor is concerned by it at one moment."""

    def __init__(
        self,
        bounds: Iterable[_Bound],
        nodes: Iterable[_Bound],
        pauses: Iterable[NodePause],
        whose: str,
    ) -> None:
        #: The preemptor's uid where anything was in vain for this very pod, else empty.
        self.whose: Final = whose
        self._bounds = tuple(bounds)
        self._nodes = {each.entries[0].node: each for each in nodes}
        self._pauses = {each.node: each for each in pauses}
        self._known: dict[int, WastePause | None] = {}

    def __bool__(self) -> bool:
        """Whether anything can be said against any preemption."""
        return bool(self._bounds or self._nodes or self._pauses)

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes about which there is something to say."""
        return frozenset(self._nodes | self._pauses)

    def anywhere(self, victims: int) -> WastePause | None:
        """Return until when so many victims are too many on every node; `None` if they are not."""
        if victims not in self._known:
            self._known[victims] = _longest(each.pause(victims) for each in self._bounds)
        return self._known[victims]

    def on(self, node: str, victims: int) -> WastePause | None:
        """Return until when so many victims must not be evicted from a node, for the node's sake.

        Of a bound and a node that is backed off the one that lasts longer.
        """
        found = self._pauses.get(node)
        off = None if found is None else WastePause(found.until, WasteScope.NODE, found.times, True)
        bound = self._nodes.get(node)
        return _longest((off, None if bound is None else bound.pause(victims)))


class WastedEvictions:
    """All that was in vain lately. Owned by the ledger."""

    def __init__(self) -> None:
        #: Grows with every change that must be written down.
        self.version = 0
        #: In time order, as a set.
        self._entries: dict[WasteEntry, None] = {}
        self._pauses: dict[tuple[str, str], NodePause] = {}

    def __len__(self) -> int:
        return len(self._entries) + len(self._pauses)

    def record(
        self, preemptor_uid: str, owner: str, node: str, victims: int, now: Seconds
    ) -> WastePause | None:
        """Note that a preemption was in vain.

        Args:
            preemptor_uid: The preemptor's.
            owner: The preemptor's, as `scheduler.model.api.owners` names it.
            node: Where it was to be.
            victims: How many were evicted; 0 where it failed before any was.
            now: The time.

        Returns:
            The pause that begins with it, in which the preemptor may evict no pod of any node;
            `None` where it still may, or could not before.
        """
        uid, owner, node = bounded(preemptor_uid), bounded(owner), bounded(node)
        stopped = self.view(uid, owner, now).anywhere(1)
        known = self._pauses.pop((owner, node), None)
        if known is not None and known.last + FORGOTTEN_AFTER <= now:
            known = None
        times = 1 if known is None else known.times + 1
        self._pauses[owner, node] = NodePause(owner, node, times, now)
        if victims > 0:
            self._add(WasteEntry(now, uid, owner, node, victims))
        self.version += 1
        self._bound()
        return None if stopped is not None else self.view(uid, owner, now).anywhere(1)

    def suspect(
        self, preemptor_uid: str, owner: str, node: str, victims: int, now: Seconds
    ) -> WasteEntry:
        """Note that a preemptor has lost its room, though another pod of ours may use it.

        Args:
            preemptor_uid: The preemptor's.
            owner: The preemptor's, as `scheduler.model.api.owners` names it.
            node: Where the room is.
            victims: How many were evicted; at least one.
            now: The time.

        Returns:
            What `settle` ends.
        """
        uid, owner, node = bounded(preemptor_uid), bounded(owner), bounded(node)
        entry = WasteEntry(now, uid, owner, node, victims, settled=False)
        self._add(entry)
        self.version += 1
        self._bound()
        return entry

    def settle(self, entry: WasteEntry, victims: int, now: Seconds) -> WastePause | None:
        """Note what has become of a suspected waste.

        Args:
            entry: What `suspect` has returned.
            victims: How many were in vain after all; 0 where the room is used.
            now: The time.

        Returns:
            As `record`.
        """
        self.version += self._entries.pop(entry, False) is None
        if victims <= 0:
            return None
        return self.record(entry.uid, entry.owner, entry.node, victims, now)

    def credited(self, owner: str, node: str) -> bool:
        """Note that a preemption led to a binding: its node is not backed off any more.

        What was in vain within the hour still counts: success now and then is no excuse.

        Returns:
            Whether the node was backed off.
        """
        known = self._pauses.pop((bounded(owner), bounded(node)), None)
        self.version += known is not None
        return known is not None

    def allowed(
        self, preemptor_uid: str, owner: str, node: str, victims: int, now: Seconds
    ) -> WastePause | None:
        """Return the longest pause that forbids a preemption now; `None` when it may be tried.

        For many nodes at once, ask the `view`.
        """
        view = self.view(preemptor_uid, owner, now)
        return _longest((view.anywhere(victims), view.on(bounded(node), victims)))

    def view(self, preemptor_uid: str, owner: str, now: Seconds) -> WasteView:
        """Return what concerns one preemptor now."""
        uid, owner = bounded(preemptor_uid), bounded(owner)
        namespace = namespace_of(owner)
        recent = tuple(each for each in self._entries if each.at > now - WINDOW)
        own = tuple(each for each in recent if each.uid == uid)
        recent = tuple(each for each in recent if each.settled)
        theirs = tuple(each for each in recent if each.namespace == namespace)
        scopes = {
            WasteScope.POD: own,
            WasteScope.OWNER: tuple(each for each in theirs if each.owner == owner),
            WasteScope.NAMESPACE: theirs,
            WasteScope.CLUSTER: recent if theirs else (),
        }
        nodes: dict[str, list[WasteEntry]] = {}
        for each in scopes[WasteScope.CLUSTER]:
            nodes.setdefault(each.node, []).append(each)
        return WasteView(
            (_Bound(scope, entries) for scope, entries in scopes.items() if entries),
            (_Bound(WasteScope.NODE, tuple(each)) for each in nodes.values()),
            (each for each in self._pauses.values() if each.owner == owner and each.until > now),
            uid if scopes[WasteScope.POD] else "",
        )

    def prune(self, now: Seconds) -> None:
        """Forget what counts no more."""
        for entry in [each for each in self._entries if each.at <= now - WINDOW]:
            del self._entries[entry]
        for pause in [*self._pauses.values()]:
            if pause.last + FORGOTTEN_AFTER <= now:
                del self._pauses[pause.owner, pause.node]

    def written(self) -> tuple[list[WasteEntry], list[NodePause]]:
        """Return what is to be written down, oldest first."""
        return [*self._entries], [*self._pauses.values()]

    def merge(self, entries: Iterable[WasteEntry], pauses: Iterable[NodePause]) -> None:
        """Take over what was noted elsewhere; of two pauses the one that says more."""
        before = (len(self._entries), dict(self._pauses))
        for entry in entries:
            if entry not in self._entries:
                self._add(entry)
        for pause in pauses:
            known = self._pauses.get((pause.owner, pause.node))
            if known is None or (known.times, known.last) < (pause.times, pause.last):
                self._pauses[pause.owner, pause.node] = pause
        self._bound()
        if (len(self._entries), self._pauses) != before:
            self.version += 1

    def _add(self, entry: WasteEntry) -> None:
        last = next(reversed(self._entries), None)
        self._entries[entry] = None
        if last is not None and entry.at < last.at:
            self._entries = dict.fromkeys(sorted(self._entries, key=lambda each: each.at))

    def _bound(self) -> None:
        """Let go of what is longest ago, where it is too much to be written down."""
        # The sizes are only looked at where there is a lot of them.
        if len(self) * _LARGEST <= MOST_BYTES:
            return
        size = sum(map(_size, self._entries))
        while size > MOST_BYTES:
            oldest = next(iter(self._entries))
            size -= _size(oldest)
            del self._entries[oldest]
        size = sum(map(_size, self._pauses.values()))
        if size > MOST_BYTES:
            for pause in sorted(self._pauses.values(), key=lambda each: each.last):
                size -= _size(pause)
                del self._pauses[pause.owner, pause.node]
                if size <= MOST_BYTES // 8 * 7:
                    break


def _size(entry: WasteEntry | NodePause) -> int:
    """Return how many bytes an entry takes at most when it is written down."""
    return (
        len(entry.owner)
        + len(entry.node)
        + (64 + len(entry.uid) if isinstance(entry, WasteEntry) else 64)
    )


def _longest(pauses: Iterable[WastePause | None]) -> WastePause | None:
    return max((each for each in pauses if each is not None), default=None)
