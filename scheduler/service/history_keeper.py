"""Keeps the history for the next leader: preemptions in a ring of ConfigMaps, attempts in one.

A new leader reads them, and then writes what has changed: the part of the ring that has the newest
preemptions until it is full, then the next one, whose content is dropped. A part is written at most
every 30 seconds, the attempts of pods every 60, and not at all while nothing changes. Nothing waits
for that: what a crash forgets is at most what changed since the last write. What is read may be
damaged or hostile; see `observe/api/kept_fields`.

Decisions do not depend on it. So a failure is logged, and the scheduler goes on.
"""

import asyncio
import contextlib
import gc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import msgspec

from scheduler.kube.client.backoff import ExponentialBackoff, Sleeper
from scheduler.kube.client.client import Client
from scheduler.kube.errors import Conflict, KubeError, MissingRight, NotFound
from scheduler.kube.write.history_configmaps import HistoryPart, StoredHistory
from scheduler.model.times import Seconds
from scheduler.observe.api import kept_attempts, kept_preemptions, lists
from scheduler.observe.api.history import MAX_AGE, MAX_PREEMPTIONS, History
from scheduler.observe.api.kept_fields import KeptError
from scheduler.observe.api.kept_preemptions import KeptPreemption, KeptRefusals
from scheduler.service.clock import Clock
from scheduler.state.cluster import Cluster

__all__ = ["MAX_BYTES", "WRITE_SECONDS", "HistoryKeeper"]

T = TypeVar("T")

#: Between two looks at what has changed, and between two writes of a part.
LOOK_SECONDS: Final[Seconds] = 5.0
WRITE_SECONDS: Final[Seconds] = 30.0
#: Between two writes of the attempts. In a busy cluster each write is of nearly all of them.
ATTEMPTS_SECONDS: Final[Seconds] = 60.0
#: After a write that was refused, or got no answer.
RETRY_SECONDS: Final[Seconds] = 120.0
#: How long the last write of a process that stops may take.
LAST_WRITE_SECONDS: Final = 2.0
#: The most bytes of a part. A ConfigMap holds 1 MiB.
MAX_BYTES: Final = 256 << 10
#: How many preemptions are read or encoded between two pauses of the loop.
_SLICE: Final = 20


@dataclass(eq=False)
class _Part:
    """One part of the ring."""

    stored: HistoryPart
    #: The numbers of its preemptions, in the order in which they were added.
    numbers: list[int] = field(default_factory=list)
    is_dirty: bool = False
    #: When it may be written again.
    next_write: Seconds = 0.0


class HistoryKeeper:
    """Reads and writes the history.

    Args:
        history: What is kept.
        cluster: Has the pods that still exist.
        stored: Where it is kept.
        client: Sends the requests.
        may_write: Returns whether this process leads.
        clock: The time.
        sleeper: Waits.
        report: Logs a warning with fields.
    """

    def __init__(
        self,
        history: History,
        cluster: Cluster,
        stored: StoredHistory,
        client: Client,
        may_write: Callable[[], bool],
        clock: Clock,
        sleeper: Sleeper,
        report: Callable[..., object],
    ) -> None:
        self._history = history
        self._cluster = cluster
        self._parts = [_Part(each) for each in stored.ring]
        self._attempts = _Part(stored.attempts)
        #: The changes of attempts that were written.
        self._attempts_written = 0
        self._client = client
        self._may_write = may_write
        self._clock = clock
        self._sleeper = sleeper
        self._report = report
        #: The index of the part that gets new preemptions.
        self._current = 0
        #: The part of each preemption, by number.
        self._places: dict[int, _Part] = {}
        #: The revision of the last change that was noted, and how many refusals were written.
        self._noted = self._refusals_written = 0
        self._is_loaded = False
        self._writing = asyncio.Lock()
        #: The last problem that was logged, so that each is logged once.
        self._problem = ""

    async def run(self) -> None:
        """Read what earlier leaders have written, then keep it up to date, until cancelled."""
        try:
            # What is read stays: a full collection meanwhile, and each later one, would scan it.
            gc.disable()
            try:
                is_loaded = await self._load()
            finally:
                gc.enable()
            if is_loaded:
                gc.freeze()
                while True:
                    await self._sleeper.sleep(LOOK_SECONDS)
                    await self.save()
        except Exception as defect:  # noqa: BLE001 - nothing depends on the history
            self._report("history_not_kept", problem=repr(defect)[:500])

    async def leave(self) -> None:
        """Write what has changed, before a leader stops."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_WRITE_SECONDS):
                await self.save(is_last=True)

    # Reading ------------------------------------------------------------------------------------

    async def _load(self) -> bool:
        """Read all parts; return whether the rights for that are there."""
        found: dict[str, tuple[KeptPreemption, _Part]] = {}
        refusals = KeptRefusals()
        for part in self._parts:
            content = await self._content(part)
            if content is None:
                return False
            items, refused = await self._items(part, content)
            refusals.rows += refused.rows
            refusals.since = min(refusals.since, refused.since)
            for each in items:
                known = found.get(each.id)
                # One that was taken over is in two parts: in the other one it has not ended.
                if known is None or known[0].ended_at is None:
                    found[each.id] = each, part
        ordered = sorted(found.values(), key=lambda each: each[0].decided_at)[-MAX_PREEMPTIONS:]
        if ordered:
            self._current = self._parts.index(ordered[-1][1])
        history, now = self._history, self._clock.now()
        number = history.reserve([each.id for each, _ in ordered], now)
        for slice_ in lists.slices(reversed(ordered), _SLICE):
            for each, part in slice_:
                history.restore(kept_preemptions.restored(each, number, self._cluster, now), now)
                part.numbers.insert(0, number)
                self._places[number] = part
                number -= 1
            await asyncio.sleep(0)
        history.refusals.restore(refusals.rows, refusals.since, now)
        self._noted = history.changed
        self._is_loaded = await self._load_attempts()
        return self._is_loaded

    async def _load_attempts(self) -> bool:
        """Read the attempts; return whether the rights for that are there."""
        content = await self._content(self._attempts)
        if content is None:
            return False
        history, now = self._history, self._clock.now()
        items = await self._unpacked(self._attempts, content, kept_attempts.unpacked) or []
        for each in lists.slices(items, _SLICE):
            valid = (kept_attempts.decoded(item, now) for item in each)
            history.restore_attempts(filter(None, valid), now)
            await asyncio.sleep(0)
        history.past_attempts.order()
        return True

    async def _unpacked(self, part: _Part, content: bytes, read: Callable[[bytes], T]) -> T | None:
        """Return what a part holds; `None` if there is nothing that can be read."""
        if content:
            try:
                return await asyncio.to_thread(read, content)
            except KeptError as error:
                self._report("history_damaged", object=part.stored.name, problem=str(error))
        return None

    async def _content(self, part: _Part) -> bytes | None:
        """Return what a part holds; `None` without the right to read it."""
        backoff = ExponentialBackoff(self._sleeper, 1.0, 60.0)
        while True:
            try:
                return await part.stored.read(self._client)
            except MissingRight as error:
                self._tell("history_not_kept", str(error))
                return None
            except KubeError as error:
                self._tell("history_not_read", str(error))
                await backoff.wait()

    async def _items(
        self, part: _Part, content: bytes
    ) -> tuple[list[KeptPreemption], KeptRefusals]:
        """Return the valid preemptions in what a part holds, and the refusals."""
        found = await self._unpacked(part, content, kept_preemptions.unpacked)
        if found is None:
            return [], KeptRefusals()
        items, refusals = found
        valid: list[KeptPreemption] = []
        oldest = self._clock.now() - MAX_AGE
        for each in lists.slices(items, _SLICE):
            valid += filter(None, map(self._decoded(oldest), each))
            await asyncio.sleep(0)
        if len(valid) < len(items):
            problem = f"{len(items) - len(valid)} of {len(items)} entries are too old, or not valid"
            self._report("history_damaged", object=part.stored.name, problem=problem)
        return valid, refusals

    def _decoded(self, oldest: Seconds) -> Callable[[msgspec.Raw], KeptPreemption | None]:
        now = self._clock.now()
        return lambda item: kept_preemptions.decoded(item, now, oldest)

    # Writing ------------------------------------------------------------------------------------

    async def save(self, *, is_last: bool = False) -> None:
        """Write the parts that have changed, and that may be written again."""
        async with self._writing:
            await self._note_changes()
            if is_last and self._is_loaded:
                written = self._refusals_written == self._history.refusals.total
                self._parts[self._current].is_dirty |= not written
            for part in (*self._parts, self._attempts):
                due = is_last or part.next_write <= self._clock.elapsed()
                if part.is_dirty and due and self._may_write():
                    part.is_dirty = False
                    if part is self._attempts:
                        content = await self._packed_attempts()
                        await self._write(part, content, ATTEMPTS_SECONDS)
                    else:
                        await self._write(part, await self._fitting(part), WRITE_SECONDS)

    async def _note_changes(self) -> None:
        """Find out which parts have changed."""
        changed = self._history.changed
        if self._is_loaded:
            has_changed = self._attempts_written != self._history.past_attempts.changes
            self._attempts.is_dirty |= has_changed
        if not self._is_loaded or changed == self._noted:
            return
        for each in lists.slices(self._history.known(), 500):
            for past in each:
                is_placed = past.number in self._places
                if not past.is_new and (past.revision > self._noted or not is_placed):
                    self._place_of(past.number).is_dirty = True
            await asyncio.sleep(0)
        self._noted = changed

    def _place_of(self, number: int) -> _Part:
        part = self._places.get(number)
        if part is None:
            part = self._places[number] = self._parts[self._current]
            part.numbers.append(number)
        return part

    async def _write(self, part: _Part, content: bytes, pause: Seconds) -> None:
        part.next_write = self._clock.elapsed() + pause
        try:
            await part.stored.write(self._client, content)
        except (Conflict, NotFound):
            part.is_dirty = True
            await self._read_again(part)
        except KubeError as error:
            part.is_dirty = True
            part.next_write += RETRY_SECONDS
            self._tell("history_not_written", str(error))
        else:
            self._problem = ""

    async def _fitting(self, part: _Part) -> bytes:
        """Return the content of a part, which is made smaller if it has become too large."""
        self._forget(part, [each for each in part.numbers if self._history.find(each) is None])
        content = await self._packed(part)
        while len(content) > MAX_BYTES:
            self._make_smaller(part, len(content))
            content = await self._packed(part)
        return content

    async def _packed(self, part: _Part) -> bytes:
        """Return the content of a part."""
        encoded: list[bytes] = []
        for each in lists.slices(part.numbers, _SLICE):
            pasts = map(self._history.find, each)
            encoded += [kept_preemptions.encoded(past) for past in pasts if past is not None]
            await asyncio.sleep(0)
        refusals = self._history.refusals
        kept = KeptRefusals()
        if part is self._parts[self._current]:
            kept = KeptRefusals(refusals.known_since, refusals.rows())
            self._refusals_written = refusals.total
        return await asyncio.to_thread(kept_preemptions.packed, encoded, kept)

    async def _packed_attempts(self) -> bytes:
        """Return the content of the part with the attempts."""
        past = self._history.past_attempts
        self._attempts_written = past.changes
        encoded: list[bytes] = []
        for each in lists.slices(past.newest(kept_attempts.MAX_PODS), _SLICE):
            encoded += map(kept_attempts.encoded, each)
            await asyncio.sleep(0)
        return await asyncio.to_thread(kept_attempts.packed, encoded, MAX_BYTES)

    def _make_smaller(self, part: _Part, size: int) -> None:
        """Move what does not fit from the current part to the next one, or drop old ones."""
        numbers = part.numbers
        if part is not self._parts[self._current] or len(numbers) < 2:
            self._forget(part, numbers[: len(numbers) // 16 + 1])
            return
        self._current = (self._current + 1) % len(self._parts)
        following = self._parts[self._current]
        self._forget(following, [*following.numbers])
        fitting = min(int(len(numbers) * 0.97 * MAX_BYTES / size), len(numbers) - 1) or 1
        part.numbers, following.numbers = numbers[:fitting], numbers[fitting:]
        following.is_dirty = True
        for number in following.numbers:
            self._places[number] = following

    def _forget(self, part: _Part, numbers: Sequence[int]) -> None:
        gone = {*numbers}
        part.numbers = [each for each in part.numbers if each not in gone]
        for number in numbers:
            self._places.pop(number, None)

    async def _read_again(self, part: _Part) -> None:
        """Learn the version of a part that another instance has changed.

        That is one that has just lost the lease, or whoever may write in our namespace. What this
        process knows is written again.
        """
        try:
            await part.stored.read(self._client)
        except KubeError as error:
            self._tell("history_not_read", str(error))

    def _tell(self, event: str, problem: str) -> None:
        if self._problem != problem:
            self._problem = problem
            self._report(event, problem=problem)
