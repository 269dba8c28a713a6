"""Records what the machine is called with and what it decides, in segments of a folder.

The scheduler's loop encodes what happens at once: later that costs more than twice as much, because
values have left the processor's cache, and memory is kept for them. A thread gets the lines of a
second, or a mebibyte of them, compresses and writes them. So recording never makes the loop wait
for a disk. Where the thread cannot keep up or a write fails, the rest of the segment is left out,
which a metric and the log report, and a new segment begins later.

A segment begins with a snapshot, which the loop copies in short steps (`core/snapshot/copying`) and
the thread encodes. So the decisions of each segment can be repeated without the segments before it.
"""

import contextlib
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from queue import SimpleQueue
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

#: How many bytes of lines may wait for the thread: more than ten seconds of a busy cluster.
MAX_WAITING_BYTES: Final = 64 * 1024 * 1024
#: Lines are handed over when there are so many, or after so long. A smaller frame costs more, since
#: the two threads take turns at each.
_FRAME_BYTES: Final = 1024 * 1024
_FRAME_SECONDS: Final[Seconds] = 1.0
#: Lines of one frame of a snapshot, in bytes before compression. Encoding them takes half a
#: millisecond, then the interpreter is free for the loop while they are compressed.
_SNAPSHOT_FRAME_BYTES: Final = 256 * 1024
#: How long the thread pauses after a frame of a snapshot, which can wait.
_SNAPSHOT_PAUSE: Final = 0.002
#: How often segments that are too old are looked for.
_TRIM_SECONDS: Final[Seconds] = 60.0
#: The shortest and the longest time between a failure and the next segment.
_RETRY_SECONDS: Final[Seconds] = 30.0
_LONGEST_RETRY_SECONDS: Final[Seconds] = 1920.0

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


@dataclass(slots=True, eq=False)
class _Segment:
    """A segment that has begun."""

    header: SegmentHeader
    #: Whether what happens is part of it. The loop or the thread sets it to false when it ends
    #: without another one that continues it.
    open: bool = True


class _Begin(NamedTuple):
    """To the thread: a segment begins."""

    segment: _Segment
    #: `None` for a fresh machine.
    snapshot: MachineCopy | None
    #: Whether nothing is missing since the segment before.
    continues: bool


class _Lines(NamedTuple):
    """To the thread: what has happened until a moment, and the time."""

    lines: bytearray
    until: Seconds
    #: Whether the rest of the segment is left out.
    ends: bool


class _LimitError(Exception):
    """One segment is larger than all may be together."""


class Recorder:
    """The recorder of one process. The loop calls the public methods, and none of them blocks."""

    def __init__(self, folder: SegmentFolder, settings: RecorderSettings | None = None) -> None:
        self._folder = folder
        self._settings = settings or RecorderSettings()
        #: Whether a new segment is to begin. Set by the thread, reset by the loop.
        self.wants_segment = False
        #: Gaps that were not reported yet, and their number by reason.
        self._gaps: deque[Gap] = deque()
        self.gap_counts: Final[Counter[str]] = Counter()
        #: To the thread; `None` stops it.
        self._messages: SimpleQueue[_Begin | _Lines | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="recorder", daemon=True)
        # Used by the loop alone.
        self._current: _Segment | None = None
        self._lines = bytearray()
        self._handed_over_at: Seconds = 0.0
        self._bytes_handed_over = 0
        # Set by the thread alone.
        self._bytes_taken = 0
        # Used by the thread alone.
        self._writer = FrameWriter()
        self._segment: _Segment | None = None
        self._snapshot_bytes = 0
        self._next_trim: Seconds = 0.0
        self._retry_seconds = _RETRY_SECONDS
        self._retry_at: Seconds | None = None

    def start(self) -> None:
        """Start the thread; the folder is open."""
        self._thread.start()

    def stop(self, patience: Seconds = 2.0) -> None:
        """Write what was recorded, and stop the thread; called when nothing happens any more."""
        self._hand_over(self._handed_over_at)
        self._current = None
        self._messages.put(None)
        self._thread.join(patience)

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return self._folder.total

    def begin(self, header: SegmentHeader, snapshot: MachineCopy | None) -> None:
        """Begin a segment, with a snapshot that was just taken or with a fresh machine."""
        self.wants_segment = False
        before, segment = self._current, _Segment(header)
        continues = before is not None and before.open and snapshot is not None
        self._hand_over(header.at)
        self._current = segment
        self._messages.put(_Begin(segment, snapshot, continues))

    def record(self, happened: Event | Attempt | None, at: Seconds) -> None:
        """Record an event, a decision or, as `None`, a call of `flush`."""
        segment, lines = self._current, self._lines
        if segment is None or not segment.open:
            return
        before = len(lines)
        try:
            recording_lines.encode_into(happened, at, lines)
        except Exception as error:  # noqa: BLE001 - scheduling goes on without a recording
            del lines[before:]
            self.give_up(repr(error))
            return
        if before >= _FRAME_BYTES:
            self._hand_over(at)

    def tick(self, now: Seconds) -> None:
        """Hand over what has happened if the last time was a second ago."""
        if now - self._handed_over_at >= _FRAME_SECONDS:
            self._hand_over(now)

    def give_up(self, problem: str) -> None:
        """Leave out the rest of the segment, because of a bug."""
        self.wants_segment = False
        self._note(Gap("defect", problem))
        self._hand_over(self._handed_over_at, ends=True)

    def take_gaps(self) -> list[Gap]:
        """Return and remove the gaps that were not reported yet."""
        return [self._gaps.popleft() for _ in range(len(self._gaps))]

    def _hand_over(self, now: Seconds, *, ends: bool = False) -> None:
        """Hand over the lines; without any, the thread learns the time."""
        lines, self._lines = self._lines, bytearray()
        segment, self._handed_over_at = self._current, now
        self._bytes_handed_over += len(lines)
        waiting = self._bytes_handed_over - self._bytes_taken
        if waiting > MAX_WAITING_BYTES and segment is not None and segment.open:
            ends = True
            self._note(Gap("behind", f"more than {MAX_WAITING_BYTES} bytes wait to be written"))
        if ends and segment is not None:
            segment.open = False
        self._messages.put(_Lines(lines, now, ends))

    def _note(self, gap: Gap) -> None:
        self.gap_counts[gap.reason] += 1
        self._gaps.append(gap)

    # The thread -----------------------------------------------------------------------------------

    def _run(self) -> None:
        while (message := self._messages.get()) is not None:
            self._handle(message)
        self._folder.close()

    def _handle(self, message: _Begin | _Lines) -> None:
        """Do what a message says."""
        try:
            if isinstance(message, _Begin):
                self._begin(message)
            else:
                self._write_lines(message)
        except _LimitError as error:
            self._fail(Gap("size", str(error)), self._folder.discard)
        except OSError as error:
            self._fail(Gap("disk", error.strerror or str(error)))
        except Exception as error:  # noqa: BLE001 - a defect here must not end the scheduler
            self._fail(Gap("defect", repr(error)))
        # A segment that has begun meanwhile must not be followed by one that the last one needed.
        if isinstance(message, _Lines) and self._messages.empty():
            self._plan_segment(message.until)

    def _begin(self, begin: _Begin) -> None:
        """Begin a segment; whatever happens next is in it."""
        # A failure from here on ends the new segment, to which the loop adds already.
        before, self._segment = self._segment, begin.segment
        header = begin.segment.header
        if before is not None and begin.continues:
            self._write(self._writer.frame(CONTINUED + b"\n"), header.at)
        self._folder.begin(header.at, header.number)
        self._write(self._writer.frame(_encode(header) + b"\n", starts_segment=True), header.at)
        if begin.snapshot is not None:
            self._write_snapshot(encoded(begin.snapshot), header.at)
        self._snapshot_bytes = self._folder.size
        self._trim(header.at)
        self._retry_seconds = _RETRY_SECONDS

    def _end_segment(self) -> None:
        self._segment = None
        self._folder.end()

    def _write_snapshot(self, lines: Iterable[bytes], at: Seconds) -> None:
        frame = bytearray()
        for line in lines:
            frame += line + b"\n"
            if len(frame) >= _SNAPSHOT_FRAME_BYTES:
                self._write(self._writer.frame(frame), at)
                frame.clear()
                time.sleep(_SNAPSHOT_PAUSE)
        self._write(self._writer.frame(frame), at)

    def _write_lines(self, message: _Lines) -> None:
        self._bytes_taken += len(message.lines)
        if self._segment is not None and message.lines:
            self._write(self._writer.frame(message.lines), message.until)
        if message.ends:
            self._retry_at = None
            if self._segment is not None:
                self._end_segment()
        if message.until >= self._next_trim:
            self._trim(message.until)

    def _write(self, frame: bytes, at: Seconds) -> None:
        folder = self._folder
        folder.write(frame)
        if folder.total > folder.max_bytes:
            folder.trim(at)
            if folder.total > folder.max_bytes:
                raise _LimitError(
                    f"a segment needs more than the limit of {folder.max_bytes} bytes"
                )

    def _trim(self, now: Seconds) -> None:
        self._next_trim = now + _TRIM_SECONDS
        self._folder.trim(now)

    def _fail(self, gap: Gap, end: Callable[[], None] | None = None) -> None:
        """Leave out the rest of the segment, and begin another one later."""
        if self._segment is not None:
            self._segment.open = False
        self._segment = self._retry_at = None
        # A second problem must not end the thread: lines would wait in memory for ever.
        with contextlib.suppress(OSError):
            (end or self._folder.end)()
        self._note(gap)

    def _plan_segment(self, now: Seconds) -> None:
        """Request a new segment when it is time for one."""
        if self._segment is not None:
            self._retry_at = None
            if self._is_long(self._segment.header, now):
                self.wants_segment = True
        elif self._retry_at is None:
            self._retry_at = now + self._retry_seconds
            self._retry_seconds = min(2 * self._retry_seconds, _LONGEST_RETRY_SECONDS)
        elif now >= self._retry_at:
            self.wants_segment = True

    def _is_long(self, header: SegmentHeader, now: Seconds) -> bool:
        age, size, settings = now - header.at, self._folder.size, self._settings
        if size == self._snapshot_bytes:
            return False  # nothing has happened since it began
        worthwhile = size >= 2 * self._snapshot_bytes
        if size >= self._folder.max_bytes // 4 and worthwhile:
            return True
        worthwhile = worthwhile or age >= settings.longest_seconds
        return age >= settings.segment_seconds and worthwhile
