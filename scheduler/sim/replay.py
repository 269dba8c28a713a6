"""Makes a machine decide a recording again, and compares its decisions with the recorded ones."""

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from scheduler.core.machine import Machine
from scheduler.core.snapshot.encoding import SnapshotError, restore
from scheduler.model.decisions import Attempt
from scheduler.model.recording_lines import Decided, Flushed, Line, decided
from scheduler.model.times import Seconds
from scheduler.observe.logs.escape import shortened
from scheduler.observe.recorder.header import SegmentHeader
from scheduler.observe.recorder.reading import Entry, Notice, RecordingError, SegmentStart

__all__ = ["NewMachine", "Replayed", "Replayer", "fitting", "restored"]

#: Returns a fresh machine for a segment.
NewMachine = Callable[[SegmentHeader], Machine]


@contextlib.contextmanager
def fitting(place: str) -> Iterator[None]:
    """Report whatever a line breaks: of a forged recording that cannot be told beforehand.

    Args:
        place: Where the line is.

    Raises:
        RecordingError: The line does not fit the machine.
    """
    try:
        yield
    except (RecordingError, OSError):
        raise
    except Exception as error:
        text = shortened(f"{type(error).__name__}: {error}", 200)
        text = f"{place}: the recording does not fit this scheduler: {text}"
        raise RecordingError(text) from error


def restored(machine: Machine, start: SegmentStart, *, decides: bool = True) -> None:
    """Bring a fresh machine into the state in which a segment begins.

    Args:
        machine: Knows no object yet.
        start: The beginning of the segment.
        decides: Whether the machine will decide, and so needs a profile for each waiting pod.

    Raises:
        RecordingError: The snapshot cannot be read, or does not fit the machine.
    """
    if start.header.fresh:
        return
    try:
        restore(machine, start.snapshot)
    except SnapshotError as error:
        text = f"recorded by version {start.header.scheduler}: {error}"
        raise RecordingError(f"{start.place}: {shortened(text, 300)}") from error
    missing = {pod.pod.spec.scheduler_name for pod in machine.queue} - machine.profile_names
    if decides and missing:
        text = f"{start.place}: the configuration has no profile {shortened(min(missing), 100)!r}"
        raise RecordingError(text)


@dataclass(frozen=True, slots=True)
class Replayed:
    """One decision of a recording, and the repeated one."""

    place: str
    at: Seconds
    then: Decided
    #: `None` if no pod was ready.
    now: Decided | None
    #: The repeated decision, with its trace if that was requested.
    attempt: Attempt | None = None
    #: Why the two may differ: what the snapshot lacks from which the machine went on.
    lacks: tuple[str, ...] = ()


@dataclass(slots=True)
class Replayer:
    """Replays one recording.

    Args:
        parts: What the recording has.
        new_machine: Returns a fresh machine.
        explain: Returns whether to explain the decision with this number, counted from 0.
    """

    parts: Iterable[SegmentStart | Entry | Notice]
    new_machine: NewMachine
    explain: Callable[[int], bool] = lambda _: False
    #: As it is after the last part; `None` before the first segment, and after damage.
    machine: Machine | None = None
    _lacks: tuple[str, ...] = ()
    _number: int = field(default=0)

    def run(self) -> Iterator[Replayed | Notice]:
        """Yield each decision, and each part that is missing.

        Raises:
            RecordingError: A part cannot be read.
            OSError: The recording cannot be read.
        """
        for part in self.parts:
            match part:
                case SegmentStart():
                    self._start(part)
                case Notice():
                    self.machine = None
                    yield part
                case Entry(place, line, at):
                    with fitting(place):
                        replayed = self._replay(place, line, at)
                    if replayed is not None:
                        yield replayed

    def _start(self, start: SegmentStart) -> None:
        if start.continues and self.machine is not None:
            return
        self.machine = self.new_machine(start.header)
        self._lacks = start.header.lacks
        restored(self.machine, start)

    def _replay(self, place: str, line: Line, at: Seconds) -> Replayed | None:
        machine = self.machine
        if machine is None:
            return None
        if isinstance(line, Decided):
            attempt = machine.step(at, explain=self.explain(self._number))
            self._number += 1
            now = None if attempt is None else decided(attempt)
            return Replayed(place, at, line, now, attempt, self._lacks)
        if isinstance(line, Flushed):
            machine.flush(at)
            machine.flushed_effects()
        else:
            machine.observe(line, at)
        return None
