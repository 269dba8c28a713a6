"""Recordings of machines that tests drive by hand."""

from pathlib import Path

import msgspec

from scheduler import __version__
from scheduler.config import load
from scheduler.config.settings import Settings
from scheduler.core.machine import Machine
from scheduler.core.snapshot.copying import MachineCopy, copying
from scheduler.core.snapshot.encoding import encoded
from scheduler.model import recording_lines
from scheduler.model.decisions import Attempt
from scheduler.model.effects import Effect
from scheduler.model.events import EffectDone, Event
from scheduler.observe.recorder.frames import FrameWriter
from scheduler.observe.recorder.header import CONTINUED, SegmentHeader, settings_digest
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff


def copied(machine: Machine) -> MachineCopy:
    """Return a copy of a machine."""
    copy = MachineCopy()
    for _ in copying(machine, copy):
        pass
    return copy


def line_of(happened: Event | Attempt | None, at: float) -> bytes:
    """Return the line of what happened, without its newline."""
    lines = bytearray()
    recording_lines.encode_into(happened, at, lines)
    return bytes(lines.removesuffix(b"\n"))


class RecordedMachine:
    """A machine whose calls are written to a file at once, one frame for each call."""

    def __init__(self, path: Path, settings: Settings | None = None) -> None:
        settings = settings or load.defaults()
        self.machine = Machine(registry.profiles(settings), PodBackoff())
        self.path = path
        self._writer = FrameWriter()
        self._settings = settings
        self._number = 0
        path.unlink(missing_ok=True)
        self.segment(0.0, fresh=True)

    def write(self, frame: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(frame)

    def segment(self, at: float, *, fresh: bool = False, continues: bool = True) -> None:
        """Begin a segment."""
        if self._number and continues:
            self.write(self._writer.frame(CONTINUED + b"\n"))
        self._number += 1
        copy = copied(self.machine)
        header = SegmentHeader(
            at, __version__, self._settings.reference.name, "0" * 8, self._number,
            settings_digest(self._settings), fresh=fresh, lacks=copy.lacks,
        )  # fmt: skip
        self.write(self._writer.frame(msgspec.json.encode(header) + b"\n", starts_segment=True))
        if not fresh:
            self.write(self._writer.frame(b"\n".join(encoded(copy)) + b"\n"))

    def _record(self, happened: Event | Attempt | None, at: float) -> None:
        self.write(self._writer.frame(line_of(happened, at) + b"\n"))

    def observe(self, event: Event, at: float) -> tuple[Effect, ...]:
        self._record(event, at)
        return self.machine.observe(event, at).effects

    def observe_all(self, event: Event, at: float) -> None:
        """Observe an event, and let all effects be done."""
        for effect in self.observe(event, at):
            self.observe_all(EffectDone(effect), at)

    def flush(self, at: float) -> None:
        self._record(None, at)
        self.machine.flush(at)
        for effect in self.machine.flushed_effects():
            self.observe_all(EffectDone(effect), at)

    def step(self, at: float) -> Attempt:
        attempt = self.machine.step(at)
        assert attempt is not None
        self._record(attempt, at)
        return attempt

    def step_all(self, at: float) -> Attempt:
        """Decide, and let all effects be done."""
        attempt = self.step(at)
        for effect in attempt.effects:
            self.observe_all(EffectDone(effect), at)
        return attempt
