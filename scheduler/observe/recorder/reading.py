"""Reads recordings: segments of a file or a folder, line by line."""

import contextlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from scheduler.core.snapshot import encoding
from scheduler.model import recording_lines
from scheduler.model.recording_lines import Line, LineError
from scheduler.model.times import Seconds
from scheduler.observe.recorder.frames import Damage, Frame, FrameError, frames
from scheduler.observe.recorder.header import CONTINUED, SegmentHeader
from scheduler.observe.recorder.segments import segments

__all__ = ["Entry", "Notice", "RecordingError", "SegmentStart", "recording"]

_END: Final = msgspec.json.encode([encoding.END])
#: The largest snapshot in memory; one of 150,000 pods takes some hundreds of megabytes.
MAX_SNAPSHOT_BYTES: Final = 2 << 30
#: What a line takes beside its content.
_LINE_BYTES: Final = 48


class RecordingError(ValueError):
    """What cannot be read at all."""


@dataclass(frozen=True, slots=True)
class SegmentStart:
    """A segment begins."""

    place: str
    header: SegmentHeader
    #: Whether the events of the segment before continue here without a gap.
    continues: bool
    #: The lines of its snapshot; none for a fresh machine.
    snapshot: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    """One line that is not of a snapshot."""

    place: str
    line: Line
    at: Seconds


@dataclass(frozen=True, slots=True)
class Notice:
    """A part of the recording is missing, or damaged."""

    place: str
    text: str


def recording(path: Path) -> Iterator[SegmentStart | Entry | Notice]:
    """Yield what a recording has.

    Args:
        path: A file with any number of segments, or a folder that `run` records into.

    Raises:
        RecordingError: It is not a recording, or one of another version.
        OSError: It cannot be read.
    """
    if not path.is_dir():
        with path.open("rb") as file:
            yield from _file(path, file, _State())
        return
    found, state = segments(path), _State()
    if not found:
        raise RecordingError(f"{path}: no recording is in this folder")
    for segment in found:
        if not segment.size:
            yield Notice(str(segment.path), "the process ended before anything was written")
            continue
        # The oldest ones may be deleted meanwhile, where a scheduler still records.
        with contextlib.suppress(FileNotFoundError), segment.path.open("rb") as file:
            yield from _file(segment.path, file, state)


@dataclass(slots=True)
class _State:
    """Where reading is; it goes on from file to file of a folder."""

    #: Whether the segment before has ended with the mark that another one continues it.
    continued: bool = False
    #: The segment whose snapshot is being read.
    header: SegmentHeader | None = None
    place: str = ""
    #: Whether a segment has begun completely.
    begun: bool = False
    snapshot: list[bytes] | None = None
    #: The memory that it takes.
    snapshot_bytes: int = 0


def _file(path: Path, file: BinaryIO, state: _State) -> Iterator[SegmentStart | Entry | Notice]:
    try:
        for found in frames(file):
            if isinstance(found, Damage):
                state.begun = state.continued = False
                yield from _incomplete(state)
                yield Notice(f"{path}:{found.offset}", found.problem)
            else:
                yield from _frame(f"{path}:{found.offset}", found, state)
    except FrameError as error:
        raise RecordingError(f"{path}: {error}") from error


def _incomplete(state: _State) -> Iterator[Notice]:
    if state.header is not None:
        yield Notice(state.place, "the snapshot of this segment is incomplete")
    state.header = state.snapshot = None


def _frame(place: str, frame: Frame, state: _State) -> Iterator[SegmentStart | Entry | Notice]:
    # One by one: as a list, the shortest lines of a frame would take many times its size.
    rest = (line.rstrip(b"\n") for line in io.BytesIO(frame.lines))
    if frame.starts_segment:
        yield from _incomplete(state)
        try:
            state.header = msgspec.json.decode(next(rest, b""), type=SegmentHeader)
        except (msgspec.DecodeError, RecursionError) as error:
            raise RecordingError(f"{place}: not the beginning of a segment: {error}") from error
        state.place, state.snapshot, state.snapshot_bytes, state.begun = place, [], 0, False
    if state.header is not None:
        yield from _snapshot(rest, state)
    if state.begun:
        yield from _entries(place, rest, state)


def _snapshot(lines: Iterable[bytes], state: _State) -> Iterator[SegmentStart]:
    """Read lines up to the end of the snapshot."""
    assert state.header is not None
    assert state.snapshot is not None
    if not state.header.fresh:
        for line in lines:
            state.snapshot.append(line)
            state.snapshot_bytes += len(line) + _LINE_BYTES
            if state.snapshot_bytes > MAX_SNAPSHOT_BYTES:
                raise RecordingError(f"{state.place}: the snapshot of this segment is too large")
            if line == _END:
                break
        else:
            return
    start = SegmentStart(state.place, state.header, state.continued, tuple(state.snapshot))
    state.header, state.snapshot, state.begun, state.continued = None, None, True, False
    yield start


def _entries(place: str, lines: Iterable[bytes], state: _State) -> Iterator[Entry]:
    for number, line in enumerate(lines, start=1):
        if line == CONTINUED:
            state.continued = True
            continue
        try:
            read, at = recording_lines.decode(line)
        except LineError as error:
            raise RecordingError(f"{place} line {number}: {error}") from error
        yield Entry(f"{place} line {number}", read, at)
