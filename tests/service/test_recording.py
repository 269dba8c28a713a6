"""The loop hands over what happens, and begins segments without missing anything."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.cli.main import main
from scheduler.config import load
from scheduler.core.machine import Machine
from scheduler.core.snapshot import copying as copying_module
from scheduler.model.decisions import Placed
from scheduler.model.effects import Bind, Effect, Evict, Nominate
from scheduler.model.events import EffectDone, NodeObserved, PodGone, PodObserved, PolicyObserved
from scheduler.model.policies import PreemptionPolicy
from scheduler.observe.api.requests import EVERY_NAME, NO_NAME, ApiRequest, NameAccess, StatusError
from scheduler.observe.recorder.reading import SegmentStart, recording
from scheduler.observe.recorder.recorder import Gap, Recorder, RecorderSettings
from scheduler.observe.recorder.segments import SegmentFolder
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.service import loop as loop_module
from scheduler.service import recording as service
from scheduler.service.clock import Clock
from scheduler.service.loop import Loop
from scheduler.service.options import ProcessOptions
from scheduler.service.recording import Recording
from tests.service.test_loop import Deaf
from tests.support.builders import OURS, node, pod

CLOCK = Clock()
PATIENCE = 20.0


class Listening(Deaf):
    """Telemetry that keeps gaps of the recording."""

    def __init__(self) -> None:
        self.gaps: list[Gap] = []
        self.decisions: list[object] = []

    def recording_gap(self, gap: Gap) -> None:
        self.gaps.append(gap)

    def attempt(self, attempt, *_: float) -> None:
        self.decisions.append(attempt.decision)

    def bound(self, *_: object) -> None: ...

    def outcome(self, *_: object) -> None: ...

    def event_rejected(self, *_: object) -> None: ...


class Live:
    """A loop whose bindings are answered at once."""

    def __init__(self, folder: Path, clock: Clock = CLOCK) -> None:
        settings = load.defaults()
        self.machine = Machine(registry.profiles(settings), PodBackoff())
        self.telemetry = Listening()
        made = SegmentFolder(folder, 10_000_000, 600.0, "0000abcd")
        made.open()
        self.recorder = Recorder(made, RecorderSettings(segment_seconds=3600.0))
        self.recorder.start()
        self.recording = Recording(self.recorder, "0000abcd", folder, clock)
        self.recording.begin(settings, evict_only=False)
        self.loop = Loop(self.machine, self.submit, clock, self.telemetry, self.recording)

    def submit(self, effect: Effect) -> None:
        if isinstance(effect, Bind):
            asyncio.get_running_loop().call_soon(self.loop.outcome, EffectDone(effect))

    async def pods(self, first: int, count: int) -> None:
        """Create pods one by one, and wait until all are decided."""
        before = len(self.telemetry.decisions)
        for number in range(first, first + count):
            self.loop.observe([PodObserved(pod(f"p{number}").scheduler(OURS).cpu("1m").build())])
            await asyncio.sleep(0)
        async with asyncio.timeout(PATIENCE):
            while len(self.telemetry.decisions) < before + count:
                await asyncio.sleep(0)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    made = Live(tmp_path / "recording")
    yield made
    made.recorder.stop()


def headers(live: Live) -> list[SegmentStart]:
    return [part for part in recording(live.recording.folder) if isinstance(part, SegmentStart)]


async def run(live: Live, segments: int, each: int = 40) -> None:
    """Decide for pods while segments begin between and among them."""
    live.loop.start_deciding()
    task = asyncio.create_task(live.loop.run())
    live.loop.observe([NodeObserved(node(f"n{i}").cpu("64").pods(500).build()) for i in range(9)])
    for number in range(segments):
        await live.pods(number * each, each)
        live.recorder.wants_segment = True
    await live.pods(segments * each, each)
    task.cancel()
    await asyncio.wait([task])
    await asyncio.to_thread(live.recorder.stop)


async def test_every_segment_of_a_live_loop_decides_the_same_again(live, tmp_path, capsys):
    await run(live, 4)

    starts = headers(live)
    assert [start.header.number for start in starts] == [1, 2, 3, 4, 5]
    assert [start.continues for start in starts] == [False, True, True, True, True]
    paths = sorted(live.recording.folder.glob("*.rec"))
    for first in range(5):
        incident = tmp_path / f"from-{first}.rec"
        incident.write_bytes(b"".join(path.read_bytes() for path in paths[first:]))
        assert main(["replay", str(incident)]) == 0
        said = capsys.readouterr()
        assert said.err == ""
        assert said.out.endswith(" decisions, 0 different\n")
        assert int(said.out.split()[0]) >= (5 - first) * 40 - 40


async def test_events_wait_while_the_machine_is_copied(live, monkeypatch, capsys):
    monkeypatch.setattr(service, "STEP_SECONDS", 0.0)  # every step of a copy lets I/O run
    monkeypatch.setattr(copying_module, "_AT_ONCE", 1)

    await run(live, 3)

    assert all(isinstance(each, Placed) for each in live.telemetry.decisions)
    assert main(["replay", str(live.recording.folder)]) == 0
    assert capsys.readouterr().out == "160 decisions, 0 different\n"
    assert len(headers(live)) == 4


async def test_a_stop_that_comes_while_the_machine_is_copied_holds_for_evictions_at_once(
    live, monkeypatch
):
    """The status of the policy says meanwhile that all preemption is stopped."""
    effects: list[Effect] = []
    monkeypatch.setattr(live.loop, "_submit", effects.append)
    small = node("n1").cpu("1").build()
    pods = [pod("low").on("n1").cpu("1"), pod("high").scheduler(OURS).cpu("1").priority(9)]
    live.loop.observe([NodeObserved(small), *(PodObserved(each.build()) for each in pods)])
    live.loop.start_deciding()
    task = asyncio.create_task(live.loop.run())
    while not (nominations := [each for each in effects if isinstance(each, Nominate)]):
        await asyncio.sleep(0)
    live.loop.outcome(EffectDone(nominations[0]))
    (eviction,) = (each for each in effects if isinstance(each, Evict))
    copied = asyncio.Event()
    monkeypatch.setattr(live.recording, "begin_segment", lambda _: copied.wait())
    live.recorder.wants_segment = True
    live.loop.observe([PodGone("default/no-such", "no-such")])
    while live.loop._held is None:
        await asyncio.sleep(0)
    assert live.loop.is_still_planned(eviction)

    live.loop.observe([PolicyObserved(PreemptionPolicy("emergency-stop", "uid", stop=""))])

    assert not live.loop.is_still_planned(eviction)
    copied.set()
    while live.loop._held is not None:
        await asyncio.sleep(0)
    assert not live.loop.is_still_planned(eviction)
    task.cancel()
    await asyncio.wait([task])


async def test_old_segments_are_deleted_while_nothing_happens(tmp_path, monkeypatch):
    monkeypatch.setattr(loop_module, "HEARTBEAT_SECONDS", 0.01)
    now, folder = [1_767_225_600.0], tmp_path / "recording"
    live = Live(folder, Clock(lambda: now[0], lambda: now[0]))
    task = asyncio.create_task(live.loop.run())
    live.recorder.wants_segment = True
    live.loop.observe([NodeObserved(node("n1").build())])
    async with asyncio.timeout(PATIENCE):
        while len(list(folder.glob("*.rec"))) < 2:
            await asyncio.sleep(0.01)

        now[0] += 700.0
        while len(list(folder.glob("*.rec"))) > 1:
            await asyncio.sleep(0.01)

    task.cancel()
    await asyncio.wait([task])
    await asyncio.to_thread(live.recorder.stop)
    (left,) = headers(live)
    assert left.header.number == 2


async def test_a_machine_that_cannot_be_copied_is_scheduled_with_all_the_same(live, monkeypatch):
    def failing(*_: object) -> Iterator[None]:
        yield
        raise TypeError("a snapshot cannot copy this")

    monkeypatch.setattr(service, "copying", failing)

    await run(live, 1)
    live.loop._poll_recorder()

    assert len(live.telemetry.decisions) == 80
    problem = "the state cannot be copied: TypeError('a snapshot cannot copy this')"
    assert live.telemetry.gaps == [Gap("defect", problem)]


async def test_a_segment_is_put_off_while_there_is_what_cannot_be_copied(live, monkeypatch):
    lacking = ("attempts that wait for extenders: 1",)
    monkeypatch.setattr(live.machine, "not_copied", lambda: lacking)
    live.recorder.wants_segment = True
    assert not live.recording.is_due(live.machine)

    monkeypatch.setattr(service, "_PATIENCE", 0.0)

    assert live.recording.is_due(live.machine)


def asked(last: str, names: NameAccess = EVERY_NAME) -> ApiRequest:
    return ApiRequest({"last": last}, names)


async def test_the_recording_is_for_users_that_may_get_all_pods(live):
    await run(live, 0)

    with pytest.raises(StatusError, match="permission to get pods in all namespaces is missing"):
        await live.recording.page(asked("1m", NO_NAME))


class Log:
    """Keeps what is logged."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, str]]] = []

    def error(self, event: str, **fields: str) -> None:
        self.lines.append((event, fields))


@pytest.mark.parametrize("case", ["a file", "in use", "no folder is possible"])
def test_without_a_folder_there_is_no_recording_and_one_line_in_the_log(case, tmp_path):
    folder, log = tmp_path / "recording", Log()
    holder = SegmentFolder(tmp_path / "recording", 1_000_000, 60.0, "ffff0000")
    match case:
        case "a file":
            folder.write_text("")
        case "in use":
            holder.open()
        case _:
            folder = Path("/proc/no/recording")

    started = service.start(
        ProcessOptions(settings=load.defaults(), recording_dir=str(folder)), CLOCK, log
    )

    assert started is None
    ((event, fields),) = log.lines
    assert (event, fields["folder"]) == ("not_recording", str(folder))
    assert fields["problem"]
    assert not [each for each in threading.enumerate() if each.name == "recorder"]
    holder.close()


async def test_the_page_streams_what_was_recorded(live):
    with pytest.raises(ValueError, match="last: "):
        await live.recording.page(asked("soon"))
    await run(live, 0)

    download = await live.recording.page(asked("1m"))

    body = b"".join([part async for part in download.parts])
    (path,) = live.recording.folder.glob("*.rec")
    assert body == path.read_bytes()
    assert download.filename == "incident.rec"
