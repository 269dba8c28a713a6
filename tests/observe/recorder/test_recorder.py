"""The recorder: bounded, in a thread of its own, and without harm to what it records."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from scheduler.config import load
from scheduler.core.machine import Machine
from scheduler.core.snapshot.copying import MachineCopy
from scheduler.model.events import NodeGone, NodeObserved, PodGone, PodObserved
from scheduler.observe.recorder import recorder as module
from scheduler.observe.recorder import segments
from scheduler.observe.recorder.header import SegmentHeader, settings_digest
from scheduler.observe.recorder.reading import Entry, Notice, SegmentStart, recording
from scheduler.observe.recorder.recorder import Recorder, RecorderSettings
from scheduler.observe.recorder.segments import SegmentFolder
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from tests.support.builders import node, pod
from tests.support.recordings import copied

T = 1_767_225_600.0
PATIENCE = 10.0


def header(number: int, at: float = 0.0, *, fresh: bool = False) -> SegmentHeader:
    return SegmentHeader(
        T + at, "0", "v1.36", "0000abcd", number, settings_digest(load.defaults()), fresh=fresh
    )


def machine(nodes: int = 3) -> Machine:
    made = Machine(registry.profiles(load.defaults()), PodBackoff())
    for number in range(nodes):
        made.observe(NodeObserved(node(f"n{number}").cpu("4").build()), T)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> SegmentFolder:
    made = SegmentFolder(tmp_path / "recording", 1_000_000, 600.0, "0000abcd")
    made.open()
    return made


@pytest.fixture
def recorder(folder: SegmentFolder) -> Iterator[Recorder]:
    made = Recorder(folder, RecorderSettings(segment_seconds=60.0, longest_seconds=120.0))
    made.start()
    yield made
    made.stop()


def until(condition, seconds: float = PATIENCE) -> None:
    pause = threading.Event()
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        pause.wait(0.01)
    raise TimeoutError


def parts(tmp_path: Path) -> list[SegmentStart | Entry | Notice]:
    return [*recording(tmp_path / "recording")]


def test_what_happened_is_written_in_its_order(recorder, tmp_path):
    recorder.begin(header(1, fresh=True), None)
    recorder.record(PodObserved(pod("a").build()), T + 1)
    recorder.record(None, T + 2)
    recorder.record(PodGone("default/a", "a"), T + 3)
    recorder.stop()

    start, *entries = parts(tmp_path)
    assert isinstance(start, SegmentStart)
    assert [(type(each.line).__name__, each.at - T) for each in entries] == [
        ("PodObserved", 1.0), ("Flushed", 2.0), ("PodGone", 3.0),
    ]  # fmt: skip


def test_a_segment_continues_the_one_before(recorder, tmp_path):
    recorder.begin(header(1, fresh=True), None)
    recorder.record(NodeGone("n9"), T + 1)
    recorder.begin(header(2, 5.0), copied(machine()))
    recorder.record(NodeGone("n8"), T + 6)
    recorder.stop()

    first, _, second, last = parts(tmp_path)
    assert isinstance(first, SegmentStart)
    assert isinstance(second, SegmentStart)
    assert (first.continues, first.snapshot, second.continues) == (False, (), True)
    assert len(second.snapshot) > 3
    assert isinstance(last, Entry)
    assert last.line == NodeGone("n8")


def test_a_segment_is_wanted_when_the_last_one_is_long_enough(recorder):
    recorder.begin(header(1, fresh=True), None)
    recorder.record(PodObserved(pod("a").build()), T + 59)
    recorder.tick(T + 59)
    until(lambda: recorder.size > 200)
    assert not recorder.wants_segment

    for number in range(20):
        recorder.record(PodObserved(pod(f"p{number}").build()), T + 61)
    recorder.tick(T + 61)

    until(lambda: recorder.wants_segment)


def test_a_snapshot_that_is_larger_than_its_events_is_not_repeated_at_once(recorder):
    recorder.begin(header(1), copied(machine(300)))
    recorder.record(NodeGone("n"), T + 70)
    recorder.tick(T + 70)
    until(lambda: recorder.size > 1000)
    assert not recorder.wants_segment

    recorder.tick(T + 121)

    until(lambda: recorder.wants_segment)


def test_when_the_disk_is_full_recording_pauses_and_goes_on(
    recorder, folder, tmp_path, monkeypatch
):
    recorder.begin(header(1, fresh=True), None)
    until(lambda: recorder.size > 100)
    with monkeypatch.context() as patched:

        def full(*_: object) -> int:
            raise OSError(28, "No space left on device")

        patched.setattr("os.write", full)
        recorder.record(NodeGone("n1"), T + 1)
        recorder.tick(T + 1)
        until(lambda: recorder.gap_counts["disk"] == 1)
        for _ in range(100):
            recorder.record(NodeGone("n2"), T + 2)
        recorder.tick(T + 20)
        assert not recorder.wants_segment
        recorder.tick(T + 31)
        until(lambda: recorder.wants_segment)

    recorder.begin(header(2, 33.0), copied(machine()))
    recorder.record(NodeGone("n3"), T + 34)
    recorder.stop()

    assert [gap.problem for gap in recorder.take_gaps()] == ["No space left on device"]
    assert recorder.take_gaps() == []
    _, second, last = parts(tmp_path)
    assert isinstance(second, SegmentStart)
    assert not second.continues
    assert isinstance(last, Entry)
    assert last.line == NodeGone("n3")


def test_nothing_is_encoded_for_a_segment_that_could_not_begin(recorder, folder, monkeypatch):
    def full(_frame: bytes) -> None:
        raise OSError(28, "No space left on device")

    recorder.begin(header(1, fresh=True), None)
    until(lambda: folder.size > 0)
    monkeypatch.setattr(folder, "write", full)
    recorder.begin(header(2, 1.0), copied(machine()))
    until(lambda: recorder.gap_counts["disk"] == 1)

    recorder.record(PodObserved(pod("a").build()), T + 2)
    assert not recorder._lines


def test_what_the_thread_cannot_keep_up_with_is_left_out(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "MAX_WAITING_BYTES", 200)
    recorder = Recorder(folder)
    recorder.begin(header(1, fresh=True), None)
    for number in range(1000):
        recorder.record(NodeGone(f"n{number}"), T + number)
        recorder.tick(T + number)

    assert recorder.gap_counts == {"behind": 1}
    recorder.start()
    until(lambda: recorder._bytes_taken > 200)
    recorder.begin(header(2, 1000.0), copied(machine()))
    recorder.stop()

    first, *entries, second = parts(tmp_path)
    assert [each.line for each in entries] == [NodeGone(f"n{i}") for i in range(len(entries))]
    assert 0 < len(entries) < 10
    assert isinstance(first, SegmentStart)
    assert isinstance(second, SegmentStart)
    assert not second.continues


def test_what_cannot_be_encoded_is_a_gap_and_leaves_no_trace(recorder, tmp_path):
    recorder.begin(header(1, fresh=True), None)
    recorder.record(NodeGone("n1"), T + 1)
    recorder.record(NodeGone({"not": object()}), T + 2)
    recorder.record(NodeGone("n3"), T + 3)
    recorder.stop()

    assert [each.reason for each in recorder.take_gaps()] == ["defect"]
    _, entry = parts(tmp_path)
    assert isinstance(entry, Entry)
    assert entry.line == NodeGone("n1")


def test_segments_that_are_too_old_are_deleted_although_nothing_happens(recorder, tmp_path):
    recorder.begin(header(1, fresh=True), None)
    recorder.begin(header(2, 100.0), copied(machine()))
    until(lambda: recorder.size > 500)
    kept = sorted((tmp_path / "recording").glob("*.rec"))
    assert len(kept) == 2

    recorder.tick(T + 699)
    recorder.tick(T + 761)

    until(lambda: not kept[0].exists())
    assert kept[1].exists()
    assert not recorder.wants_segment


def test_a_segment_that_exceeds_the_limit_by_itself_is_deleted(tmp_path):
    folder = SegmentFolder(tmp_path / "recording", 2000, 600.0, "0000abcd")
    folder.open()
    recorder = Recorder(folder)
    recorder.start()

    recorder.begin(header(1), copied(machine(1000)))
    until(lambda: recorder.gap_counts["size"] == 1)
    recorder.stop()

    (gap,) = recorder.take_gaps()
    assert gap.problem == "a segment needs more than the limit of 2000 bytes"
    assert recorder.size == 0
    assert not [*(tmp_path / "recording").glob("*.rec")]


def test_a_defect_of_the_recorder_is_a_gap(recorder):
    broken = MachineCopy()
    broken.fields["queue._pods"] = object()

    recorder.begin(header(2), broken)

    until(lambda: recorder.gap_counts["defect"] >= 1)
    assert "Error" in recorder.take_gaps()[-1].problem


@pytest.mark.parametrize("trouble", ["deleted", "not deletable", "not closable"])
def test_trouble_after_a_failure_does_not_end_the_thread(tmp_path, monkeypatch, trouble):
    folder = SegmentFolder(tmp_path / "recording", 500, 600.0, "0000abcd")
    folder.open()
    recorder = Recorder(folder, RecorderSettings())
    recorder.start()

    def broken(*_: object, **__: object) -> None:
        raise OSError("Input/output error")

    recorder.begin(header(1, fresh=True), None)
    until(lambda: list((tmp_path / "recording").glob("*.rec")))
    if trouble == "deleted":
        next((tmp_path / "recording").glob("*.rec")).unlink()
    elif trouble == "not deletable":
        monkeypatch.setattr(Path, "unlink", broken)
    else:
        monkeypatch.setattr(segments.os, "close", broken)
    for number in range(100):
        recorder.record(PodGone(f"default/{number**9}", f"{number**7}"), T + number)
    recorder.tick(T + 100)
    until(recorder.take_gaps)
    monkeypatch.undo()

    # Another segment is wanted: the thread goes on.
    recorder.tick(T + 131)
    until(lambda: recorder.wants_segment)
    recorder.stop()
