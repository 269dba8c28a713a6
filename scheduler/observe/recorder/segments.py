"""The segments of a recording in a folder: one file each, with limits of size and age.

A name has the time of the segment's begin, in milliseconds since 1970, the process and a number,
so names sort by time. One process at a time writes to a folder; others may read it.
"""

import contextlib
import fcntl
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scheduler.model.times import Seconds

__all__ = ["FolderInUseError", "SegmentFile", "SegmentFolder", "segments"]

_NAME: Final = re.compile(r"(\d{13})-([0-9a-f]{8})-(\d{6})\.rec")
_LOCK: Final = ".lock"


class FolderInUseError(OSError):
    """Another process records into the folder."""


@dataclass(frozen=True, slots=True, order=True)
class SegmentFile:
    """One segment in a folder."""

    path: Path
    #: When it begins.
    at: Seconds
    size: int


def segments(folder: Path) -> list[SegmentFile]:
    """Return the segments of a folder, oldest first.

    Raises:
        OSError: The folder cannot be read.
    """
    found = []
    for entry in os.scandir(folder):
        name = _NAME.fullmatch(entry.name)
        # One that is deleted meanwhile is left out.
        with contextlib.suppress(FileNotFoundError):
            if name is not None and entry.is_file(follow_symlinks=False):
                size = entry.stat(follow_symlinks=False).st_size
                found.append(SegmentFile(Path(entry.path), int(name[1]) / 1000, size))
    return sorted(found)


class SegmentFolder:
    """The folder that a process records into. Only the writing thread uses it.

    Args:
        folder: Its path; it is made if it is missing.
        max_bytes: The size of all segments together.
        retention: Segments are deleted when all that is in them is older, in seconds.
        process: Eight hexadecimal digits that no other process has.
    """

    def __init__(self, folder: Path, max_bytes: int, retention: Seconds, process: str) -> None:
        self._folder = folder
        self.max_bytes: Final = max_bytes
        self._retention = retention
        self._process = process
        self._lock: int | None = None
        self._file: int | None = None
        self._path: Path | None = None
        #: Size of the current segment.
        self.size = 0
        self._others = 0

    @property
    def total(self) -> int:
        """The size of all segments."""
        return self._others + self.size

    def open(self) -> None:
        """Make the folder if it is missing, and keep other processes from writing to it.

        Raises:
            FolderInUseError: Another process writes to it.
            OSError: It cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        lock = os.open(self._folder / _LOCK, flags, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise FolderInUseError(f"another process records into {self._folder}") from error
        self._lock = lock
        self._others = sum(segment.size for segment in segments(self._folder))

    def begin(self, at: Seconds, number: int) -> None:
        """Begin a segment; the one before is complete.

        Raises:
            OSError: It cannot be made.
        """
        self.end()
        name = f"{max(0, round(at * 1000)):013d}-{self._process}-{number:06d}.rec"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._path = self._folder / name
        self._file = os.open(self._path, flags, 0o600)
        self.size = 0

    def write(self, frame: bytes) -> None:
        """Append a frame to the current segment.

        Raises:
            OSError: It could not be written completely.
        """
        assert self._file is not None
        written = 0
        while written < len(frame):
            written += os.write(self._file, memoryview(frame)[written:])
        self.size += written

    def trim(self, now: Seconds) -> None:
        """Delete the oldest segments, as far as the bounds require it; the current one stays.

        Raises:
            OSError: The folder cannot be read, or a segment cannot be deleted.
        """
        # Those of earlier processes come first, also where their clocks were ahead.
        found = sorted(segments(self._folder), key=self._is_own)
        self._others = sum(each.size for each in found if each.path != self._path)
        # A segment ends where the next one begins.
        ends = [*(each.at for each in found[1:]), now]
        for segment, end in zip(found, ends, strict=False):
            too_large, too_old = self.total > self.max_bytes, end < now - self._retention
            if segment.path != self._path and (too_large or too_old):
                segment.path.unlink(missing_ok=True)
                self._others -= segment.size

    def _is_own(self, segment: SegmentFile) -> bool:
        return f"-{self._process}-" in segment.path.name

    def end(self) -> None:
        """End the current segment, if there is one.

        Raises:
            OSError: It may be incomplete; it has ended nevertheless.
        """
        file, size = self._file, self.size
        self._file, self._path, self.size = None, None, 0
        if file is not None:
            self._others += size
            os.close(file)

    def discard(self) -> None:
        """End the current segment, and delete it, unless that was done from outside.

        Raises:
            OSError: It cannot be deleted; it has ended nevertheless.
        """
        path, size = self._path, self.size
        self.end()
        if path is not None:
            path.unlink(missing_ok=True)
            self._others -= size

    def close(self) -> None:
        """End the current segment, and let others write to the folder."""
        self.end()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None
