"""Records what the machine is called with and what it decides, in segments of a folder.

The scheduler's loop hands over references to values that never change; a thread encodes, compresses
and writes them. So recording never makes the loop wait for a disk. Where the thread cannot keep up
or a write fails, the rest of the segment is left out, which a metric and the log say, and a new
segment begins later. The loop waits for the thread for half a millisecond at most.

A segment begins with a snapshot, which the loop copies in short steps (`core/snapshot/copying`),
so each segment can be decided again without the ones before it.
"""

import contextlib
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from scheduler.core.snapshot.copying import MachineCopy
from scheduler.core.snapshot.encoding import encoded
from scheduler.model import recording_lines
from scheduler.model.decisions import Attempt
from scheduler.model.events import Event
from scheduler.model.times import Seconds
from scheduler.observe.recorder.frames import FrameWriter
from scheduler.observe.recorder.header import CONTINUED, SegmentHeader
from scheduler.observe.recorder.segments import SegmentFolder

__all__ = ["GAP_REASONS", "Gap", "Recorder", "RecorderSettings"]

#: How many entries may wait for the thread: some seconds of a busy cluster. Most refer to values
#: that exist anyway; a pod that has changed meanwhile takes 2 to 5 kB.
MAX_WAITING: Final = 100_000
#: How often the thread looks for entries, and after how many looks it writes what it has.
_LOOK_SECONDS: Final = 0.25
_LOOKS_PER_FRAME: Final = 4
#: Lines of one frame, in bytes before compression. Encoding them takes half a millisecond, then the
#: interpreter is free for the loop while they are compressed.
_FRAME_BYTES: Final = 256 * 1024
#: How long the thread pauses after a frame of a snapshot, which can wait.
_SNAPSHOT_PAUSE: Final = 0.002
#: The shortest and the longest time between a failure and the next segment.
_RETRY_SECONDS: Final = 30.0
_LONGEST_RETRY_SECONDS: Final = 1920.0

_encode = msgspec.json.Encoder().encode


#: Why a recording has a gap: the thread could not keep up, a write failed, one segment does not fit
#: into the limit, or the recorder has a defect.
GAP_REASONS: Final = ("behind", "disk", "size", "defect")


class Gap(NamedTuple):
    """Why a recording has a gap."""

    #: One of `GAP_REASONS`.
    reason: str
    problem: str


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """How often segments begin."""

    #: The usual length of a segment; longer where its snapshot is larger than its events.
    segment_seconds: Seconds = 300.0
    #: The greatest length.
    longest_seconds: Seconds = 1800.0


class _Begin(NamedTuple):
    header: SegmentHeader
    #: `None` for a fresh machine.
    snapshot: MachineCopy | None
    #: Whether nothing is missing since the segment before.
    continues: bool


class _LimitError(Exception):
    """One segment is larger than all may be together."""


_Entry = tuple[Event | Attempt | _Begin | None, Seconds]


class Recorder:
    """The recorder of one process. The loop calls the public methods, and none of them blocks."""

    def __init__(self, folder: SegmentFolder, settings: RecorderSettings | None = None) -> None:
        self._folder = folder
        self._settings = settings or RecorderSettings()
        self._entries: deque[_Entry] = deque()
        self._accepting = False
        #: Whether a new segment is to begin. Set by the thread, reset by the loop.
        self.wants_segment = False
        #: Gaps that were not reported yet, and their number by reason.
        self._gaps: deque[Gap] = deque()
        self.gap_counts: Final[Counter[str]] = Counter()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        # Used by the thread alone.
        self._writer = FrameWriter()
        self._lines: list[bytes] = []
        self._pending_bytes = 0
        self._segment: SegmentHeader | None = None
        self._snapshot_bytes = 0
        self._latest: Seconds = 0.0
        self._retry_seconds = _RETRY_SECONDS
        self._looks_until_retry = 0

    def start(self) -> None:
        """Start the thread; the folder is open."""
        self._thread.start()

    def stop(self, patience: Seconds = 2.0) -> None:
        """Write what was recorded, and stop the thread; called in another thread."""
        self._accepting = False
        self._stopping.set()
        self._thread.join(patience)

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return self._folder.total

    def begin(self, header: SegmentHeader, snapshot: MachineCopy | None) -> None:
        """Begin a segment, with a snapshot that was just taken or with a fresh machine."""
        self.wants_segment = False
        continues, self._accepting = self._accepting and snapshot is not None, True
        self._entries.append((_Begin(header, snapshot, continues), header.at))

    def record(self, happened: Event | Attempt | None, at: Seconds) -> None:
        """Record an event, a decision or, as `None`, a call of `flush`."""
        if self._accepting:
            self._entries.append((happened, at))
            if len(self._entries) > MAX_WAITING:
                self._accepting = False
                self._note(Gap("behind", f"more than {MAX_WAITING} entries wait to be written"))

    def give_up(self, problem: str) -> None:
        """Leave out the rest of the segment because no snapshot can be taken."""
        self._accepting = False
        self.wants_segment = False
        self._note(Gap("defect", problem))

    def take_gaps(self) -> list[Gap]:
        """Return and remove the gaps that were not reported yet."""
        return [self._gaps.popleft() for _ in range(len(self._gaps))]

    def _note(self, gap: Gap) -> None:
        self.gap_counts[gap.reason] += 1
        self._gaps.append(gap)

    # The thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        looks = 0
        while not self._stopping.wait(_LOOK_SECONDS):
            looks += 1
            self._look(flush=looks % _LOOKS_PER_FRAME == 0)
        self._look(flush=True)
        self._folder.close()

    def _look(self, *, flush: bool) -> None:
        """Write what was recorded since the last look."""
        try:
            self._write_entries()
            if self._segment is not None and not (self._accepting or self._entries):
                self._end_segment()
            elif flush:
                self._write_frame()
        except _LimitError as error:
            self._fail(Gap("size", str(error)), self._folder.discard)
        except OSError as error:
            self._fail(Gap("disk", error.strerror or str(error)))
        except Exception as error:  # noqa: BLE001 - a defect here must not end the scheduler
            self._fail(Gap("defect", repr(error)))
        self._plan_segment()

    def _write_entries(self) -> None:
        entries = self._entries
        for _ in range(len(entries)):
            happened, at = entries.popleft()
            if isinstance(happened, _Begin):
                self._begin(happened)
            elif self._segment is not None:
                self._latest = at
                self._add(recording_lines.encode(happened, at))

    def _add(self, line: bytes) -> None:
        self._lines.append(line)
        self._pending_bytes += len(line) + 1
        if self._pending_bytes >= _FRAME_BYTES:
            self._write_frame()

    def _begin(self, begin: _Begin) -> None:
        """Begin a segment; whatever happens next is in it."""
        if self._segment is not None:
            if begin.continues:
                self._add(CONTINUED)
            self._end_segment()
        header = begin.header
        self._folder.begin(header.at, header.number)
        self._write(self._writer.frame(_encode(header) + b"\n", starts_segment=True))
        self._segment, self._latest = header, header.at
        if begin.snapshot is not None:
            self._write_snapshot(encoded(begin.snapshot))
        self._snapshot_bytes = self._folder.size
        self._folder.trim(header.at)
        self._retry_seconds = _RETRY_SECONDS

    def _end_segment(self) -> None:
        self._write_frame()
        self._segment = None
        self._folder.end()

    def _write_snapshot(self, lines: Iterable[bytes]) -> None:
        frame = bytearray()
        for line in lines:
            frame += line + b"\n"
            if len(frame) >= _FRAME_BYTES:
                self._write(self._writer.frame(bytes(frame)))
                frame.clear()
                time.sleep(_SNAPSHOT_PAUSE)
        self._write(self._writer.frame(bytes(frame)))

    def _write_frame(self) -> None:
        if self._lines:
            lines, self._lines, self._pending_bytes = self._lines, [], 0
            self._write(self._writer.frame(b"\n".join(lines) + b"\n"))

    def _write(self, frame: bytes) -> None:
        folder = self._folder
        folder.write(frame)
        if folder.total > folder.max_bytes:
            folder.trim(self._latest)
            if folder.total > folder.max_bytes:
                raise _LimitError(
                    f"a segment needs more than the limit of {folder.max_bytes} bytes"
                )

    def _fail(self, gap: Gap, end: Callable[[], None] | None = None) -> None:
        """Leave out the rest of the segment, and begin another one later."""
        self._accepting = False
        self._entries.clear()
        self._lines, self._pending_bytes, self._segment = [], 0, None
        # A second problem must not end the thread: entries would wait in memory for ever.
        with contextlib.suppress(OSError):
            (end or self._folder.end)()
        self._note(gap)

    def _plan_segment(self) -> None:
        """Request a new segment when it is time for one."""
        if self._segment is not None:
            self._looks_until_retry = 0
            if self._is_long(self._segment):
                self.wants_segment = True
        elif not self._looks_until_retry:
            self._looks_until_retry = round(self._retry_seconds / _LOOK_SECONDS)
            self._retry_seconds = min(2 * self._retry_seconds, _LONGEST_RETRY_SECONDS)
        else:
            self._looks_until_retry -= 1
            if not self._looks_until_retry:
                self.wants_segment = True

    def _is_long(self, header: SegmentHeader) -> bool:
        age, size, settings = self._latest - header.at, self._folder.size, self._settings
        worthwhile = size >= 2 * self._snapshot_bytes
        if size >= self._folder.max_bytes // 4 and worthwhile:
            return True
        worthwhile = worthwhile or age >= settings.longest_seconds
        return age >= settings.segment_seconds and worthwhile
