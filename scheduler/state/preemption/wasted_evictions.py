"""Wasted evictions: how many there were within the last hour, for which pods, and the consequences.

The eviction of a victim was wasted if the preemptor was not bound to the capacity that it freed,
for any reason: other pods took the capacity, the eviction of a victim was refused, a victim did not
terminate, the plan failed, the preemptor was deleted. There are two consequences.

* The node is backed off for all pods of the preemptor's owner, each time for twice as long, up to
  an hour; so the next best nodes are tried. A preemption that failed before any victim terminated
  counts here, too.
* The number of wasted victims within an hour is limited for one pod, one owner, one namespace, one
  node, and the cluster. Beyond the limit, preemption stops until enough of them are an hour old.

For one pod the largest of its wasted preemptions is not counted, so a preemption that needs many
victims may fail once. The limits of nodes and of the cluster do not stop the pods of a namespace
without any wasted victim: no tenant can stop preemption for all others. Preemptions that are under
way when a limit is reached continue.

`now` is always the time of this machine. Later times from another process are replaced by now.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

from scheduler.model.api.owners import MAX_LENGTH, bounded, namespace_of
from scheduler.model.times import Seconds

__all__ = [
    "MAX_PREEMPTIONS",
    "MAX_VICTIMS",
    "WINDOW",
    "NodePause",
    "WasteEntry",
    "WastePause",
    "WasteScope",
    "WasteUse",
    "WasteView",
    "WastedEvictions",
]

#: How long a wasted victim counts.
WINDOW: Final[Seconds] = 3600.0

FIRST_PAUSE: Final[Seconds] = 10.0
MAX_PAUSE: Final[Seconds] = 3600.0
#: After so long without a failure, a node starts again with the first pause.
FORGOTTEN_AFTER: Final[Seconds] = 2 * MAX_PAUSE

#: How many preemptions of one pod may be wasted within the hour, whatever their number of victims.
MAX_PREEMPTIONS: Final = 3
#: How much is kept of entries, and of pauses, in bytes as `_size` counts them. The entries that one
#: namespace may cause take less, however long the names of its owners are.
MAX_BYTES: Final = 150_000

#: The greatest size of an entry, by the bounds of its names.
_MAX_ENTRY_BYTES: Final = 3 * MAX_LENGTH + 64


class WasteScope(StrEnum):
    """What a limit of wasted victims applies to."""

    POD = "pod"
    OWNER = "owner"
    NAMESPACE = "namespace"
    NODE = "node"
    CLUSTER = "cluster"


#: How many victims may be wasted within the hour; for a pod, without those of its largest
#: preemption. For a pod: two or three preemptions with the usual one to four victims. For the other
#: scopes: what several such pods may waste before that counts as systematic.
MAX_VICTIMS: Final[Mapping[WasteScope, int]] = {
    WasteScope.POD: 8,
    WasteScope.OWNER: 64,
    WasteScope.NAMESPACE: 256,
    WasteScope.NODE: 64,
    WasteScope.CLUSTER: 1024,
}


class WastePause(NamedTuple):
    """Preemption is not tried, because too many evictions were wasted."""

    #: When it may be tried again, in seconds.
    until: Seconds
    #: Of the limit that was reached; `NODE` also for a node that is backed off.
    scope: WasteScope
    #: Wasted victims within the hour; for a node that is backed off, failed preemptions.
    times: int
    #: Whether a node is backed off for the preemptor's owner, and no limit reached.
    backed_off: bool = False


@dataclass(frozen=True, slots=True)
class WasteEntry:
    """One wasted preemption."""

    at: Seconds
    #: Of the preemptor.
    uid: str
    #: Of the preemptor, as `scheduler.model.api.owners` names it.
    owner: str
    node: str
    #: How many pods were evicted.
    victims: int
    #: Whether it is certain that no other pod of ours uses the capacity. Until then it counts for
    #: the preemptor alone, which needs another preemption.
    certain: bool = True

    @property
    def namespace(self) -> str:
        """The namespace of the preemptor."""
        return namespace_of(self.owner)


@dataclass(frozen=True, slots=True)
class NodePause:
    """How often preemption for pods of one owner has failed on a node in a row."""

    owner: str
    node: str
    times: int
    #: When it last failed.
    last: Seconds

    @property
    def until(self) -> Seconds:
        """When the back-off of the node ends."""
        growth = math.pow(2.0, min(self.times - 1, 16))
        return self.last + min(MAX_PAUSE, FIRST_PAUSE * growth)


class WasteUse(NamedTuple):
    """What counts for one limit."""

    scope: WasteScope
    #: The uid of a pod, an owner, a namespace or a node; empty for the cluster.
    key: str
    #: Of the preemptor of the last entry.
    owner: str
    #: Wasted victims; for a pod without those of its largest preemption.
    spent: int
    #: Whether preemption is stopped for the key.
    stopped: bool


#: The key of an entry in each scope.
_KEYS: Final[Mapping[WasteScope, Callable[[WasteEntry], str]]] = {
    WasteScope.POD: lambda entry: entry.uid,
    WasteScope.OWNER: lambda entry: entry.owner,
    WasteScope.NAMESPACE: lambda entry: entry.namespace,
    WasteScope.NODE: lambda entry: entry.node,
    WasteScope.CLUSTER: lambda _: "",
}


class _Limit(NamedTuple):
    """The limit of one scope, with its entries of the last hour, oldest first; at least one."""

    scope: WasteScope
    entries: tuple[WasteEntry, ...]

    def pause(self, victims: int) -> WastePause | None:
        """Return until when a number of new victims is too many; `None` if it is not."""
        wasted = [entry.victims for entry in self.entries]
        if self._allows(wasted, victims):
            return None
        # How many of the oldest entries must expire; all at most.
        expired = next(n for n in range(1, len(wasted) + 1) if self._allows(wasted[n:], victims))
        until = self.entries[expired - 1].at + WINDOW
        return WastePause(until, self.scope, sum(wasted))

    def _allows(self, wasted: Sequence[int], victims: int) -> bool:
        if self.scope is not WasteScope.POD:
            return sum(wasted) < MAX_VICTIMS[self.scope]
        counted = sum(wasted) + victims - max((*wasted, victims))
        return len(wasted) < MAX_PREEMPTIONS and counted <= MAX_VICTIMS[self.scope]


class WasteView:
    """The limits and pauses that apply to one preemptor at one moment."""

    def __init__(
        self,
        limits: Iterable[_Limit],
        nodes: Iterable[_Limit],
        pauses: Iterable[NodePause],
        whose: str,
    ) -> None:
        #: The preemptor's uid if evictions for this very pod were wasted, else empty.
        self.whose: Final = whose
        self._limits = tuple(limits)
        self._nodes = {limit.entries[0].node: limit for limit in nodes}
        self._pauses = {pause.node: pause for pause in pauses}
        self._known: dict[int, WastePause | None] = {}

    def __bool__(self) -> bool:
        """Whether any preemption may be forbidden."""
        return bool(self._limits or self._nodes or self._pauses)

    @property
    def nodes(self) -> frozenset[str]:
        """The nodes with a limit or a pause of their own."""
        return frozenset(self._nodes | self._pauses)

    def anywhere(self, victims: int) -> WastePause | None:
        """Return until when a number of victims is too many on any node; `None` if it is not."""
        if victims not in self._known:
            self._known[victims] = _longest(limit.pause(victims) for limit in self._limits)
        return self._known[victims]

    def on(self, node: str, victims: int) -> WastePause | None:
        """Return the pause for a number of victims on a node that is due to the node alone.

        Of the back-off of the node and its limit the one that lasts longer.
        """
        off, limit = self._pauses.get(node), self._nodes.get(node)
        backed_off = (
            None if off is None else WastePause(off.until, WasteScope.NODE, off.times, True)
        )
        return _longest((backed_off, None if limit is None else limit.pause(victims)))


@dataclass(slots=True)
class WastedEvictions:
    """The wasted evictions of the last hour, and the nodes in back-off. Owned by the ledger."""

    #: Grows with every change that must be saved.
    version: int = 0
    #: A set in time order.
    _entries: dict[WasteEntry, None] = field(default_factory=dict)
    _pauses: dict[tuple[str, str], NodePause] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._entries) + len(self._pauses)

    def record(
        self, preemptor_uid: str, owner: str, node: str, victims: int, now: Seconds
    ) -> WastePause | None:
        """Record a wasted preemption.

        Args:
            preemptor_uid: The uid of the preemptor.
            owner: Of the preemptor, as `scheduler.model.api.owners` names it.
            node: The nominated node.
            victims: How many were evicted; 0 if it failed before any was.
            now: The time.

        Returns:
            The pause that begins now, in which the preemptor may evict no pod of any node; `None`
            if it still may, or already could not before.
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

    def record_possible(
        self, preemptor_uid: str, owner: str, node: str, victims: int, now: Seconds
    ) -> WasteEntry:
        """Record that a preemptor lost the freed capacity, which another pod of ours may use.

        Args:
            preemptor_uid: The uid of the preemptor.
            owner: Of the preemptor, as `scheduler.model.api.owners` names it.
            node: The node with the capacity.
            victims: How many were evicted; at least one.
            now: The time.

        Returns:
            The entry, for `resolve`.
        """
        uid, owner, node = bounded(preemptor_uid), bounded(owner), bounded(node)
        entry = WasteEntry(now, uid, owner, node, victims, certain=False)
        self._add(entry)
        self.version += 1
        self._bound()
        return entry

    def resolve(self, entry: WasteEntry, victims: int, now: Seconds) -> WastePause | None:
        """Record whether possibly wasted evictions were wasted.

        Args:
            entry: What `record_possible` has returned.
            victims: How many were wasted after all; 0 if the capacity is used.
            now: The time.

        Returns:
            As `record`.
        """
        self.version += self._entries.pop(entry, False) is None
        if victims <= 0:
            return None
        return self.record(entry.uid, entry.owner, entry.node, victims, now)

    def record_binding(self, owner: str, node: str) -> bool:
        """Record that a preemption led to a binding, which ends the back-off of its node.

        Wasted evictions within the hour still count: an occasional success does not outweigh them.

        Returns:
            Whether the node was backed off.
        """
        known = self._pauses.pop((bounded(owner), bounded(node)), None)
        self.version += known is not None
        return known is not None

    def allowed(
        self, preemptor_uid: str, owner: str, node: str, victims: int, now: Seconds
    ) -> WastePause | None:
        """Return the longest pause that forbids a preemption now; `None` if it may be tried.

        For many nodes at once, use `view`.
        """
        view = self.view(preemptor_uid, owner, now)
        return _longest((view.anywhere(victims), view.on(bounded(node), victims)))

    def view(self, preemptor_uid: str, owner: str, now: Seconds) -> WasteView:
        """Return the limits and pauses that apply to one preemptor now."""
        uid, owner = bounded(preemptor_uid), bounded(owner)
        namespace = namespace_of(owner)
        recent = tuple(entry for entry in self._entries if entry.at > now - WINDOW)
        own = tuple(entry for entry in recent if entry.uid == uid)
        recent = tuple(entry for entry in recent if entry.certain)
        in_namespace = tuple(entry for entry in recent if entry.namespace == namespace)
        scopes = {
            WasteScope.POD: own,
            WasteScope.OWNER: tuple(entry for entry in in_namespace if entry.owner == owner),
            WasteScope.NAMESPACE: in_namespace,
            WasteScope.CLUSTER: recent if in_namespace else (),
        }
        nodes: dict[str, list[WasteEntry]] = {}
        for entry in scopes[WasteScope.CLUSTER]:
            nodes.setdefault(entry.node, []).append(entry)
        return WasteView(
            (_Limit(scope, entries) for scope, entries in scopes.items() if entries),
            (_Limit(WasteScope.NODE, tuple(entries)) for entries in nodes.values()),
            (
                pause
                for pause in self._pauses.values()
                if pause.owner == owner and pause.until > now
            ),
            uid if scopes[WasteScope.POD] else "",
        )

    def usage(self, now: Seconds) -> Iterator[WasteUse]:
        """Yield what counts for each limit now, by scope and key."""
        recent = [entry for entry in self._entries if entry.at > now - WINDOW]
        for scope, key in _KEYS.items():
            groups: dict[str, list[WasteEntry]] = {}
            for entry in recent:
                if entry.certain or scope is WasteScope.POD:
                    groups.setdefault(key(entry), []).append(entry)
            for name, entries in groups.items():
                victims = [entry.victims for entry in entries]
                spent = sum(victims) - (max(victims) if scope is WasteScope.POD else 0)
                stopped = _Limit(scope, tuple(entries)).pause(1) is not None
                yield WasteUse(scope, name, entries[-1].owner, spent, stopped)

    def prune(self, now: Seconds) -> None:
        """Drop entries and pauses that do not count any more."""
        for entry in [entry for entry in self._entries if entry.at <= now - WINDOW]:
            del self._entries[entry]
        for pause in [*self._pauses.values()]:
            if pause.last + FORGOTTEN_AFTER <= now:
                del self._pauses[pause.owner, pause.node]

    def written(self) -> tuple[list[WasteEntry], list[NodePause]]:
        """Return the entries and pauses that must be saved, oldest first."""
        return [*self._entries], [*self._pauses.values()]

    def merge(self, entries: Iterable[WasteEntry], pauses: Iterable[NodePause]) -> None:
        """Add the records of another process; of two pauses, keep the one with more failures."""
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
            self._entries = dict.fromkeys(sorted(self._entries, key=lambda entry: entry.at))

    def _bound(self) -> None:
        """Drop the oldest entries and pauses if there are too many to be saved."""
        # The sizes are computed only if they may be too large together.
        if len(self) * _MAX_ENTRY_BYTES <= MAX_BYTES:
            return
        size = sum(map(_size, self._entries))
        while size > MAX_BYTES:
            oldest = next(iter(self._entries))
            size -= _size(oldest)
            del self._entries[oldest]
        size = sum(map(_size, self._pauses.values()))
        if size > MAX_BYTES:
            for pause in sorted(self._pauses.values(), key=lambda pause: pause.last):
                size -= _size(pause)
                del self._pauses[pause.owner, pause.node]
                if size <= MAX_BYTES // 8 * 7:
                    break


def _size(entry: WasteEntry | NodePause) -> int:
    """Return how many bytes an entry takes at most in the ledger's text."""
    return (
        len(entry.owner)
        + len(entry.node)
        + (64 + len(entry.uid) if isinstance(entry, WasteEntry) else 64)
    )


def _longest(pauses: Iterable[WastePause | None]) -> WastePause | None:
    return max((pause for pause in pauses if pause is not None), default=None)
