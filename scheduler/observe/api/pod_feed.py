"""The pods of the queue for readers that watch them.

The queue is checked once a second at most, and only while there are readers: the core does not know
of them. Each pod that has changed is encoded once for all readers that may see it.

A watch begins with all pods and cannot be resumed: which namespaces a caller may see changes with
time, and no revision could show what was hidden from the caller before.
"""

import asyncio
import contextlib
import itertools
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import msgspec

from scheduler.core.machine import Machine
from scheduler.model.api.objects import Pod
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.rest.cluster import PendingPodsDocument
from scheduler.model.times import Seconds
from scheduler.observe.api.lists import PAUSE_SECONDS, slices
from scheduler.observe.api.queue_views import QueueSelection, QueueViews
from scheduler.observe.api.requests import NameAccess
from scheduler.queue.phases import QueuePhase
from scheduler.queue.scheduling_queue import QueuedPod

__all__ = ["PodFeed", "PodWatch"]

#: The shortest time between two looks at the queue, and the part of the loop's time they may take.
_EVERY_SECONDS: Final = 1.0
_SHARE: Final = 0.1
_MAX_PAUSE_SECONDS: Final = 10.0
#: How often the permissions of a reader are reviewed.
_REVIEW_SECONDS: Final = 10.0
#: How many pods that have left are remembered; a reader that needs older ones begins again.
_MAX_REMOVED: Final = 50_000
#: Pods that are looked at, and that are encoded, in one slice.
_SCANNED: Final = 500
_ENCODED: Final = 50
#: Pods of one event.
_AT_ONCE: Final = 500
T = TypeVar("T")
_NONE: Final[frozenset[str]] = frozenset()
_ENCODER: Final = msgspec.json.Encoder()


class _Entry:
    """A pod as it was at the last look."""

    __slots__ = ("_classified", "_condition", "_node", "_version", "item", "queued", "revision")

    def __init__(self, queued: QueuedPod, node: str | None, revision: int) -> None:
        self.queued: Final = queued
        self.revision: Final = revision
        #: Its view as JSON, once a reader has needed it.
        self.item = b""
        self._version: Final = queued.version
        self._condition: Final[tuple[str, str] | None] = queued.reported_condition
        self._classified: Final[ClassifiedPod] = queued.classified
        self._node: Final = node

    def is_still(self, queued: QueuedPod, node: str | None) -> bool:
        """Return whether nothing that is shown of the pod has changed."""
        return (
            self._version == queued.version
            and self.queued is queued
            and self._condition is queued.reported_condition
            and self._classified is queued.classified
            and self._node == node
        )

    @property
    def namespace(self) -> str:
        """The namespace of the pod."""
        pod: Pod = self.queued.pod
        return pod.metadata.namespace


class PodFeed:
    """What changes in the queue. Owned by the scheduler's loop.

    Args:
        machine: The machine whose queue it is.
        views: Makes views of its pods.
        now: Returns the machine's time.
    """

    def __init__(self, machine: Machine, views: QueueViews, now: Callable[[], Seconds]) -> None:
        self._machine = machine
        self._now = now
        self.views: Final = views
        #: That of the last look; not shown to readers.
        self.revision = 0
        #: By uid; the pod that changed last comes last.
        self._entries: OrderedDict[str, _Entry] = OrderedDict()
        #: The number of pods by namespace.
        self.namespaces: Final[Counter[str]] = Counter()
        #: Revision, uid and namespace of pods that have left.
        self._removed: deque[tuple[int, str, str]] = deque()
        #: The last revision with removals that are forgotten.
        self._forgotten = 0
        self._watches = 0
        self._looking = asyncio.Lock()
        self._encoding = asyncio.Lock()
        #: Whether there was a look since the first watch began.
        self._has_looked = False
        self._next_at: Seconds = 0.0

    def __len__(self) -> int:
        return len(self._entries)

    async def counted(self, parts: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """Yield the events of a watch; nothing is kept when the last one has ended."""
        self._watches += 1
        try:
            async with contextlib.aclosing(parts):
                async for part in parts:
                    yield part
        finally:
            self._watches -= 1
            if not self._watches:
                self._entries.clear()
                self.namespaces.clear()
                self._removed.clear()
                self._has_looked = False

    async def look(self) -> None:
        """Look through the queue if it is time; the first look waits for its time."""
        loop = asyncio.get_running_loop()
        async with self._looking:
            if not self._has_looked:
                await asyncio.sleep(self._next_at - loop.time())
            elif loop.time() < self._next_at:
                return
            busy = await self._each(list(self._machine.queue), self._look_at)
            busy += await self._each(list(self._entries.values()), self._check)
            # Only now: what a reader has of a look under way, it gets again.
            self.revision += 1
            self._has_looked = True
            self._rest(busy, _EVERY_SECONDS)

    @staticmethod
    async def _each(items: Sequence[T], visit: Callable[[T], None]) -> Seconds:
        """Visit all items in slices; return how long that took without the pauses."""
        loop = asyncio.get_running_loop()
        busy = 0.0
        for part in slices(items, _SCANNED):
            begun = loop.time()
            for item in part:
                visit(item)
            busy += loop.time() - begun
            await asyncio.sleep(0)
        return busy

    def _look_at(self, queued: QueuedPod) -> None:
        if queued.phase is QueuePhase.REMOVED:
            return
        uid = queued.uid
        node = self._machine.cluster.nominations.node(uid)
        before = self._entries.get(uid)
        if before is None:
            self.namespaces[queued.pod.metadata.namespace] += 1
        elif before.is_still(queued, node):
            return
        self._entries[uid] = _Entry(queued, node, self.revision + 1)
        self._entries.move_to_end(uid)

    def _check(self, entry: _Entry) -> None:
        """Remove a pod that has left the queue."""
        if entry.queued.phase is not QueuePhase.REMOVED:
            return
        uid, namespace = entry.queued.uid, entry.namespace
        del self._entries[uid]
        self.namespaces[namespace] -= 1
        if not self.namespaces[namespace]:
            del self.namespaces[namespace]
        self._removed.append((self.revision + 1, uid, namespace))
        if len(self._removed) > _MAX_REMOVED:
            self._forgotten = self._removed.popleft()[0]

    def _rest(self, busy: Seconds, least: Seconds = 0.0) -> None:
        """Look again only after a while, so that readers get a small part of the loop's time."""
        pause = max(least, min(busy / _SHARE, _MAX_PAUSE_SECONDS))
        self._next_at = max(self._next_at, asyncio.get_running_loop().time() + pause)

    def is_complete(self, since: int) -> bool:
        """Return whether all pods that have left since a revision are remembered."""
        return since >= self._forgotten

    def changed(self, since: int) -> list[_Entry]:
        """Return the pods that changed after a revision."""
        if not since:
            return list(self._entries.values())
        latest = reversed(self._entries.values())
        return list(itertools.takewhile(lambda entry: entry.revision > since, latest))

    def removed(self, since: int) -> Iterator[tuple[str, str]]:
        """Yield uid and namespace of the pods that left after a revision."""
        for revision, uid, namespace in reversed(self._removed):
            if revision <= since:
                return
            yield uid, namespace

    async def encoded(self, entries: Sequence[_Entry]) -> list[bytes]:
        """Return pods as JSON, those that have not left meanwhile."""
        loop = asyncio.get_running_loop()
        items: list[bytes] = []
        busy = 0.0
        async with self._encoding:
            for part in slices(entries, _ENCODED):
                fresh = [each for each in part if not each.item]
                begun = loop.time()
                for entry in fresh:
                    if entry.queued.phase is not QueuePhase.REMOVED:
                        entry.item = _ENCODER.encode(self.views.view(entry.queued, self._now()))
                busy += loop.time() - begun
                items += [entry.item for entry in part if entry.item]
                await asyncio.sleep(PAUSE_SECONDS if fresh else 0)
        self._rest(busy)
        return items


class PodWatch:
    """One reader of the pods of the queue.

    Args:
        feed: What changes.
        selection: Which pods it wants.
        names: Which pods it may know by name.
    """

    def __init__(self, feed: PodFeed, selection: QueueSelection, names: NameAccess) -> None:
        self._feed = feed
        self._selection = selection
        self._names = names
        self._since = 0
        self._hidden = 0
        #: The namespaces that it may see, and the others, as far as they were reviewed.
        self._seen: frozenset[str] = frozenset()
        self._unseen: frozenset[str] = frozenset()
        self._review_at: Seconds = 0.0

    async def changes(self, _since: int) -> tuple[int, Iterable[bytes]] | None:
        """Return what changed since the last call; all pods at the first one.

        Returns:
            `None` if the reader was too slow and has to begin again.
        """
        feed, since = self._feed, self._since
        await feed.look()
        if since and not feed.is_complete(since):
            return None
        # What another reader's look finds during the review is later, and comes next time.
        self._since = feed.revision
        removed = list(feed.removed(since)) if since else []
        gained, lost = await self._review(frozenset(namespace for _, namespace in removed))
        known = self._seen | lost
        gone = dict.fromkeys(uid for uid, namespace in removed if namespace in known)
        chosen: list[_Entry] = []
        for part in slices(feed.changed(0 if gained or lost else since), _SCANNED):
            for entry in part:
                if self._wants(entry, since, gained):
                    chosen.append(entry)
                elif since and self._drops(entry, since, lost):
                    gone[entry.queued.uid] = None
            await asyncio.sleep(0)
        hidden, before = self._count_hidden(), self._hidden
        self._hidden = hidden
        if since and not chosen and not gone and hidden == before:
            return 0, ()
        return 0, _documents(await feed.encoded(chosen), tuple(gone), hidden)

    def _wants(self, entry: _Entry, since: int, gained: frozenset[str]) -> bool:
        """Return whether a pod is sent."""
        namespace = entry.namespace
        is_news = entry.revision > since or namespace in gained
        matches = self._feed.views.matches
        return is_news and namespace in self._seen and matches(entry.queued, self._selection)

    def _drops(self, entry: _Entry, since: int, lost: frozenset[str]) -> bool:
        """Return whether a pod that is not wanted may have been sent before."""
        namespace = entry.namespace
        return namespace in lost or (entry.revision > since and namespace in self._seen)

    async def _review(self, left: frozenset[str]) -> tuple[frozenset[str], frozenset[str]]:
        """Review the permissions on new namespaces, and from time to time on all.

        Args:
            left: The namespaces of pods that have left.

        Returns:
            The namespaces that the reader may see from now on, and those that it may not any more.
        """
        now = asyncio.get_running_loop().time()
        present = left | frozenset(self._feed.namespaces)
        asked = present - self._seen - self._unseen
        if now >= self._review_at:
            self._review_at = now + _REVIEW_SECONDS
            asked = present
        if not asked:
            return _NONE, _NONE
        visible = await self._names.visible(asked)
        allowed = frozenset(name for name in asked if name in visible)
        refused = asked - allowed
        gained, lost = allowed & self._unseen, refused & self._seen
        self._seen = (self._seen & present) - asked | allowed
        self._unseen = (self._unseen & present) - asked | refused
        return gained, lost

    def _count_hidden(self) -> int:
        """Return how many pods it may not see; with a selection they are not counted."""
        if self._selection != QueueSelection():
            return 0
        return sum(pods for name, pods in self._feed.namespaces.items() if name not in self._seen)


def _documents(items: Sequence[bytes], removed: tuple[str, ...], hidden: int) -> Iterator[bytes]:
    """Yield documents with at most so many pods each; the last one has the rest."""
    for first in range(0, max(1, len(items)), _AT_ONCE):
        part = items[first : first + _AT_ONCE]
        remaining = len(items) - first - len(part)
        rest = PendingPodsDocument(remaining=remaining)
        if not remaining:
            rest = PendingPodsDocument(removed=removed, hidden=hidden)
        tail = _ENCODER.encode(rest)[1:]
        yield b'{"items":[' + b",".join(part) + (b"]," if tail != b"}" else b"]") + tail
