"""What the flight recorder costs: a case is timed as those of `core_cases`."""

from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import replace

from scheduler.core.snapshot.copying import MachineCopy, copying
from scheduler.core.snapshot.encoding import encoded
from scheduler.model import recording_lines
from scheduler.model.decisions import Attempt, Placed
from scheduler.model.effects import Bind
from scheduler.model.events import EffectDone, Event, PodObserved
from scheduler.observe.recorder.frames import FrameWriter
from tests.perf.core_cases import Case, machine, pod

#: Lines of one frame, as the recorder has them.
FRAME: Final = 1024 * 1024
Happened = Event | Attempt | None


def _life(number: int) -> tuple[Happened, ...]:
    """Return what is recorded of a plain pod, from its creation to its binding."""
    waiting = pod(f"pod-{number}", "100m")
    node = f"node-{number % 5000}"
    bound = replace(waiting, spec=replace(waiting.spec, node_name=node))
    bind = Bind(waiting.ref, node, "preemptive-scheduler")
    placed = Attempt(waiting.ref, "preemptive-scheduler", 0, Placed(node), (bind,), 1, 5000, 5000)
    return (
        PodObserved(waiting), None, placed, EffectDone(bind), None, PodObserved(bound), None,
    )  # fmt: skip


def _recording(pods: int) -> Callable[[int], None]:
    """Return what encodes and compresses what happened to so many pods."""
    lives = [_life(number) for number in range(pods)]
    writer = FrameWriter()

    def record(count: int) -> None:
        lines, at = bytearray(), 1_767_225_600.0
        for life in lives[:count]:
            for happened in life:
                at += 0.0001
                recording_lines.encode_into(happened, at, lines)
                if len(lines) >= FRAME:
                    writer.frame(lines)
                    lines = bytearray()

    return record


def _snapshot(nodes: int, pods: int, waiting: int) -> Callable[[int], None]:
    """Return what copies and encodes the state of a machine."""
    made = machine(nodes)
    for number in range(pods):
        made.observe(PodObserved(pod(f"r-{number}", "10m", on=f"node-{number % nodes}")), 0.0)
    for number in range(waiting):
        made.observe(PodObserved(pod(f"w-{number}", "100")), 0.0)

    def copy(count: int) -> None:
        for _ in range(count):
            copied = MachineCopy()
            for _ in copying(made, copied):
                pass
            for _ in encoded(copied):
                pass

    return copy


CASES: Final[Mapping[str, Case]] = {
    "recording, a plain pod": Case(lambda: _recording(2000), 2000),
    "a snapshot of 1000 nodes with 5 pods, 1000 waiting": Case(
        lambda: _snapshot(1000, 5000, 1000), 3
    ),
}
