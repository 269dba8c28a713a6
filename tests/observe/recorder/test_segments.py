"""The folder of the recorder stays within its bounds, and has one writer."""

from pathlib import Path

import pytest

from scheduler.observe.recorder.recent import parse_last, recent
from scheduler.observe.recorder.segments import FolderInUseError, SegmentFolder, segments

T = 1_767_225_600.0


def opened(folder: Path, size: int = 1000, retention: float = 600.0) -> SegmentFolder:
    made = SegmentFolder(folder, size, retention, "0000abcd")
    made.open()
    return made


def write(folder: SegmentFolder, at: float, number: int, size: int = 100) -> None:
    folder.begin(T + at, number)
    folder.write(b"." * size)


def test_segments_are_listed_by_time_and_other_files_are_left_alone(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    folder = opened(tmp_path)
    for number in range(3):
        write(folder, number * 10.0, number)
    folder.close()

    assert [(each.at - T, each.size) for each in segments(tmp_path)] == [
        (0.0, 100), (10.0, 100), (20.0, 100),
    ]  # fmt: skip
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_the_oldest_segments_go_when_all_are_too_large(tmp_path):
    folder = opened(tmp_path)
    for number in range(12):
        write(folder, number * 10.0, number)
        folder.trim(T + number * 10.0)

    assert folder.total <= 1000
    assert [each.at - T for each in segments(tmp_path)] == [20.0 + 10.0 * n for n in range(10)]


def test_segments_go_when_all_in_them_is_too_old(tmp_path):
    folder = opened(tmp_path)
    for number, at in enumerate((0.0, 300.0, 700.0, 950.0)):
        write(folder, at, number)
    folder.trim(T + 950.0)

    # The second one has what happened until 700 s.
    assert [each.at - T for each in segments(tmp_path)] == [300.0, 700.0, 950.0]


def test_what_an_earlier_process_has_recorded_counts_and_is_kept(tmp_path):
    before = opened(tmp_path)
    write(before, 0.0, 0, 400)
    before.close()

    folder = SegmentFolder(tmp_path, 1000, 600.0, "ffff0000")
    folder.open()
    write(folder, 10.0, 0, 500)
    folder.trim(T + 10.0)

    assert folder.total == 900
    assert len(segments(tmp_path)) == 2


def recorded_ahead(folder: Path) -> SegmentFolder:
    """Return the folder of a process; one before it had a clock that was a day ahead."""
    before = opened(folder)
    for number in range(4):
        write(before, 86_400.0 + number, number, 200)
    before.close()
    made = SegmentFolder(folder, 1000, 600.0, "ffff0000")
    made.open()
    return made


def test_segments_from_the_future_go_before_those_of_now(tmp_path):
    folder = recorded_ahead(tmp_path)
    for number in range(4):
        write(folder, 10.0 * number, number)
        folder.trim(T + 10.0 * number)

    assert [each.at - T for each in segments(tmp_path)] == [
        0.0, 10.0, 20.0, 30.0, 86_401.0, 86_402.0, 86_403.0,
    ]  # fmt: skip


def test_segments_from_the_future_become_too_old(tmp_path):
    folder = recorded_ahead(tmp_path)
    for number, at in enumerate((0.0, 601.0, 1300.0)):
        write(folder, at, number)
        for _ in range(4):
            folder.trim(T + at)

    assert [each.at - T for each in segments(tmp_path)] == [601.0, 1300.0]


def test_a_second_process_is_refused(tmp_path):
    folder = opened(tmp_path)

    with pytest.raises(FolderInUseError, match=f"another process records into {tmp_path}"):
        opened(tmp_path)
    folder.close()
    opened(tmp_path).close()


def test_links_are_neither_followed_nor_deleted(tmp_path):
    target = tmp_path / "target"
    target.write_text("precious")
    inside = tmp_path / "inside"
    folder = opened(inside)
    (inside / "1767225600000-0000abcd-000001.rec").symlink_to(target)

    with pytest.raises(FileExistsError):
        folder.begin(T, 1)
    folder.trim(T + 10_000.0)

    assert segments(inside) == []
    assert target.read_text() == "precious"


async def test_the_last_minutes_are_streamed(tmp_path):
    folder = opened(tmp_path)
    for number in range(4):
        folder.begin(T + number * 60.0, number)
        folder.write(f"{number}".encode() * 3)

    async def text(since: float) -> bytes:
        return b"".join([part async for part in recent(tmp_path, T + since)])

    assert await text(130.0) == b"222333"
    assert await text(-5.0) == b"000111222333"
    assert await text(500.0) == b"333"


async def test_a_segment_that_is_deleted_meanwhile_ends_nothing(tmp_path):
    folder = opened(tmp_path)
    for number in range(3):
        folder.begin(T + number * 60.0, number)
        folder.write(f"{number}".encode())
    stream = recent(tmp_path, T)

    parts = [await anext(stream)]
    segments(tmp_path)[1].path.unlink()
    parts += [part async for part in stream]

    assert parts == [b"0", b"2"]


@pytest.mark.parametrize("text", ["soon", "0s", "-1m", "200h", "15"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ValueError, match="last: "):
        parse_last(text)


def test_the_default_is_a_quarter_of_an_hour():
    assert (parse_last(None), parse_last("90s")) == (900.0, 90.0)
