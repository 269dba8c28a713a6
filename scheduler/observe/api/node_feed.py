"""What changed of nodes since a revision, for readers that watch them.

Changes are read from the change logs of the columns, once a second at most, and only while there
are readers. What one reader gets is kept for the others, which mostly read at the same moment.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from scheduler.model.rest.cluster import NodesDocument
from scheduler.model.times import Seconds
from scheduler.observe.api.lists import PAUSE_SECONDS, slices
from scheduler.observe.api.nodes import NodeViews
from scheduler.state.cluster import Cluster
from scheduler.state.columns.row_cursor import RowCursor

__all__ = ["NodeFeed"]

#: The shortest time between two revisions.
_EVERY_SECONDS: Final = 1.0
#: Making an update may take this part of the loop's time.
_SHARE: Final = 0.05
#: How many changes of nodes are remembered, of all revisions together.
_MAX_CHANGES: Final = 50_000
#: With so many changes of pods and nodes between two reads, all nodes count as changed.
_MAX_BEHIND: Final = 100_000
#: How many updates are kept for other readers.
_MAX_UPDATES: Final = 8
_SLICE: Final = 50
_ENCODER: Final = msgspec.json.Encoder()


class _Change(NamedTuple):
    """What changed with one revision."""

    revision: int
    changed: frozenset[str]
    removed: frozenset[str]


class NodeFeed:
    """The changes of nodes, by revision. Owned by the scheduler's loop.

    Args:
        cluster: The cluster.
        views: Makes views of its nodes.
        began: When this process began; its revisions are later than those of earlier processes.
    """

    def __init__(self, cluster: Cluster, views: NodeViews, began: Seconds) -> None:
        self._cluster = cluster
        self._views = views
        self._first = self._revision = int(began) * 1000
        self._cursors = [
            RowCursor(cluster.columns.node_changes),
            RowCursor(cluster.columns.pod_changes),
            RowCursor(cluster.pods.changes),
            RowCursor(cluster.nominations.changes),
        ]
        #: The node of each row at the last revision.
        self._names: dict[int, str] = {}
        self._changes: deque[_Change] = deque()
        self._remembered = 0
        self._updates: OrderedDict[object, bytes] = OrderedDict()
        self._making = asyncio.Lock()
        self._next_at: Seconds = 0.0

    def revision(self) -> int:
        """Return the revision of the present state, for a list that is made now."""
        self._advance()
        return self._revision

    async def update(
        self, since: int, labels: Sequence[str]
    ) -> tuple[int, tuple[bytes, ...]] | None:
        """Return the revision of now, and what changed since another one, as JSON.

        Args:
            since: A revision that this process has returned; 0 for all nodes.
            labels: The labels that the nodes are shown with.

        Returns:
            `None` if that revision is too old, or is of another process. There is no document if
            nothing changed.
        """
        loop = asyncio.get_running_loop()
        async with self._making:
            if since == self._revision and loop.time() < self._next_at:
                return since, ()
            if loop.time() >= self._next_at:
                self._advance()
                self._next_at = loop.time() + _EVERY_SECONDS
            if since == self._revision:
                return since, ()
            change = self._since(since)
            if change is None:
                return None
            key = (since, change.revision, tuple(labels))
            known = self._updates.get(key)
            if known is None:
                begun = loop.time()
                known = await self._encoded(change, labels)
                self._keep(key, known)
                pause = (loop.time() - begun) / _SHARE
                self._next_at = max(self._next_at, loop.time() + min(pause, 30.0))
            return change.revision, (known,)

    def _keep(self, key: object, update: bytes) -> None:
        self._updates[key] = update
        while len(self._updates) > _MAX_UPDATES:
            self._updates.popitem(last=False)

    def _since(self, since: int) -> _Change | None:
        """Return all changes since a revision as one."""
        if not since:
            return _Change(self._revision, frozenset(self._names.values()), frozenset())
        oldest = self._changes[0].revision - 1 if self._changes else self._revision
        if not oldest <= since <= self._revision:
            return None
        changed: set[str] = set()
        removed: set[str] = set()
        for change in self._changes:
            if change.revision > since:
                # In place: copies would cost the size of the sum for each of thousands of changes.
                changed -= change.removed
                changed |= change.changed
                removed -= change.changed
                removed |= change.removed
        return _Change(self._revision, frozenset(changed), frozenset(removed))

    async def _encoded(self, change: _Change, labels: Sequence[str]) -> bytes:
        parts: list[bytes] = []
        for names in slices(sorted(change.changed), _SLICE):
            parts += map(_ENCODER.encode, self._views.of(names, labels))
            await asyncio.sleep(PAUSE_SECONDS)
        removed = tuple(sorted(change.removed))
        rest = _ENCODER.encode(NodesDocument(change.revision, removed=removed))
        return b'{"items":[' + b",".join(parts) + b"]," + rest[1:]

    def _advance(self) -> None:
        """Read the change logs; a revision follows if anything changed."""
        columns = self._cluster.columns
        rows: set[int] = set()
        everything = False
        for cursor in self._cursors:
            changed = cursor.take_changed(_MAX_BEHIND)
            everything = everything or changed is None
            rows.update(() if changed is None else changed.tolist())
        if everything:
            rows = {*range(columns.size), *self._names}
        if rows:
            self._record(rows)

    def _record(self, rows: set[int]) -> None:
        columns, names = self._cluster.columns, self._names
        changed: set[str] = set()
        removed: set[str] = set()
        for row in rows:
            before = names.pop(row, "")
            if row < columns.size and columns.nodes[row] is not None:
                names[row] = columns.names[row]
                changed.add(names[row])
            if before and columns.node(before) is None:
                removed.add(before)
        if not changed and not removed:
            return
        self._revision += 1
        change = _Change(self._revision, frozenset(changed), frozenset(removed))
        self._changes.append(change)
        self._remembered += len(changed) + len(removed)
        while self._remembered > _MAX_CHANGES and len(self._changes) > 1:
            oldest = self._changes.popleft()
            self._remembered -= len(oldest.changed) + len(oldest.removed)
