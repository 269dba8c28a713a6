"""The last minutes of a recording, as a stream of bytes that `replay` reads."""

import asyncio
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Final

from scheduler.config import durations
from scheduler.model.times import Seconds
from scheduler.observe.recorder.segments import SegmentFile, segments

__all__ = ["DEFAULT_SECONDS", "parse_last", "recent", "suffix"]

#: How much is sent where the caller does not say, in seconds.
DEFAULT_SECONDS: Final[Seconds] = 900.0
_LONGEST: Final[Seconds] = 7 * 86_400.0
_PART: Final = 256 * 1024


def parse_last(text: str | None) -> Seconds:
    """Return the seconds of a duration like `15m`.

    Raises:
        ValueError: It is no duration, or none that makes sense here.
    """
    if text is None:
        return DEFAULT_SECONDS
    try:
        seconds = durations.parse(text)
    except ValueError as error:
        raise ValueError(f"last: {error}") from error
    if not 0 < seconds <= _LONGEST:
        raise ValueError("last: must be more than 0 and at most 168h")
    return seconds


def suffix(found: list[SegmentFile], since: Seconds) -> list[SegmentFile]:
    """Return the segments that cover the time from a moment on; all if they begin later."""
    first = max((i for i, each in enumerate(found) if each.at <= since), default=0)
    return found[first:]


async def recent(folder: Path, since: Seconds) -> AsyncGenerator[bytes]:
    """Yield the segments of a folder from a moment on. Files are read in a thread.

    What is recorded after the first part was read is left out, so the stream ends.
    """
    chosen = suffix(await asyncio.to_thread(segments, folder), since)
    for segment in chosen:
        try:
            file = await asyncio.to_thread(os.open, segment.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue  # it was the oldest one, and is deleted now
        try:
            position = 0
            while position < segment.size:
                wanted = min(_PART, segment.size - position)
                part = await asyncio.to_thread(os.pread, file, wanted, position)
                if not part:
                    break
                position += len(part)
                yield part
        finally:
            os.close(file)
