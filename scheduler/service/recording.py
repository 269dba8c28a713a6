"""Connects the loop with the recorder: when segments begin, and what their headers say.

A segment begins with a copy of the machine, which the loop makes in short steps. The machine does
not run meanwhile: events that arrive are passed to it afterwards.
"""

import asyncio
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Final

from msgspec.structs import replace
from structlog.typing import FilteringBoundLogger

from scheduler import __version__
from scheduler.config.settings import Settings
from scheduler.core.machine import Machine
from scheduler.core.snapshot.copying import MachineCopy, copying
from scheduler.model.times import Seconds
from scheduler.observe.api.requests import ApiRequest, StatusError, Stream
from scheduler.observe.recorder.header import SegmentHeader, settings_digest
from scheduler.observe.recorder.recent import parse_last, recent
from scheduler.observe.recorder.recorder import Recorder, RecorderSettings
from scheduler.observe.recorder.segments import SegmentFolder
from scheduler.service.clock import Clock
from scheduler.service.options import ProcessOptions

__all__ = ["CopyError", "Recording", "copied", "start"]

#: How long one step of a copy may delay I/O.
STEP_SECONDS: Final = 0.002
#: How long a segment is put off while the machine has what cannot be copied.
_PATIENCE: Final[Seconds] = 120.0
#: Stands for all namespaces.
_EVERYWHERE: Final = ""
_NEEDS_ALL_NAMES: Final = (
    "forbidden: a recording has the names of all pods; the permission to get pods in all namespaces"
    " is missing"
)
_BYTES: Final = "application/octet-stream"


class CopyError(Exception):
    """The state cannot be copied. Scheduling goes on."""


class Recording:
    """The recording of one process."""

    def __init__(self, recorder: Recorder, process: str, folder: Path, clock: Clock) -> None:
        self.recorder: Final = recorder
        self.folder: Final = folder
        self._process = process
        self._clock = clock
        self._number = 0
        self._header: SegmentHeader | None = None
        #: Since when a segment is wanted; `None` while none is.
        self._wanted_since: Seconds | None = None

    def begin(self, settings: Settings, *, evict_only: bool) -> None:
        """Begin to record a machine that knows nothing yet."""
        self._header = SegmentHeader(
            at=0.0,
            scheduler=__version__,
            reference=settings.reference.name,
            process=self._process,
            number=0,
            settings=settings_digest(settings),
            evict_only=evict_only,
        )
        self.recorder.begin(self._next_header(fresh=True), None)

    def is_due(self, machine: Machine) -> bool:
        """Return whether a segment is to begin now."""
        if not self.recorder.wants_segment:
            return False
        now = self._clock.now()
        if self._wanted_since is None:
            self._wanted_since = now
        return now - self._wanted_since >= _PATIENCE or not machine.not_copied()

    async def begin_segment(self, machine: Machine) -> None:
        """Begin a segment with a copy of the machine, which must not be called meanwhile."""
        self._wanted_since = None
        try:
            copy = await copied(machine, self._clock.perf)
        except CopyError as error:
            self.recorder.give_up(str(error))
            return
        self.recorder.begin(self._next_header(lacks=copy.lacks), copy)

    def _next_header(self, *, fresh: bool = False, lacks: tuple[str, ...] = ()) -> SegmentHeader:
        assert self._header is not None
        self._number += 1
        return replace(
            self._header, at=self._clock.now(), number=self._number, fresh=fresh, lacks=lacks
        )

    async def page(self, request: ApiRequest) -> Stream:
        """Return the last minutes of the recording.

        Raises:
            ApiError: The caller may not get the pods of all namespaces, whose names it has.
            LookupError: Nothing is recorded.
            ValueError: The query is malformed.
        """
        last = parse_last(request.query.get("last"))
        if _EVERYWHERE not in await request.names.visible((_EVERYWHERE,)):
            raise StatusError(403, "Forbidden", _NEEDS_ALL_NAMES)
        if not self.recorder.size:
            raise LookupError("nothing is recorded yet")
        since = self._clock.now() - last
        return Stream(recent(self.folder, since), _BYTES, filename="incident.rec")


async def copied(machine: Machine, perf: Callable[[], float]) -> MachineCopy:
    """Return a copy of a machine, which must not be called meanwhile; I/O goes on.

    Raises:
        CopyError: The state cannot be copied.
    """
    copy = MachineCopy()
    machine.is_copied = True
    try:
        end = perf() + STEP_SECONDS / 4
        for _ in copying(machine, copy):
            if perf() >= end:
                await asyncio.sleep(0)
                end = perf() + STEP_SECONDS / 4
    except Exception as error:
        raise CopyError(f"the state cannot be copied: {error!r}") from error
    finally:
        machine.is_copied = False
    return copy


def start(options: ProcessOptions, clock: Clock, log: FilteringBoundLogger) -> Recording | None:
    """Start the recorder; `None` where it is off or cannot write, which the log says."""
    if not options.recording_dir:
        return None
    process, path = secrets.token_hex(4), Path(options.recording_dir)
    folder = SegmentFolder(path, options.recording_bytes, options.recording_retention, process)
    try:
        folder.open()
    except OSError as error:
        log.error("not_recording", folder=str(path), problem=error.strerror or str(error))  # noqa: TRY400
        return None
    # So that a segment can be deleted soon after all in it is too old.
    quarter = options.recording_retention / 4
    usual = RecorderSettings()
    settings = RecorderSettings(
        min(usual.segment_seconds, quarter), min(usual.longest_seconds, quarter)
    )
    recorder = Recorder(folder, settings)
    recorder.start()
    return Recording(recorder, process, path, clock)
