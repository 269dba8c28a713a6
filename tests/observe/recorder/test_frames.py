"""Frames survive crashes and damage: what cannot be read is named, the rest is read."""

import zlib
from contextlib import suppress
from io import BytesIO

import numpy as np
import pytest
import zstandard

from scheduler.observe.recorder import frames as module
from scheduler.observe.recorder.frames import Damage, Frame, FrameError, FrameWriter, frames

WRITER = FrameWriter()
FIRST = WRITER.frame(b'{"first":1}\n', starts_segment=True)
SECOND = WRITER.frame(b"1\n2\n")
THIRD = WRITER.frame(b'{"third":1}\n', starts_segment=True)


def read(data: bytes) -> list[Frame | Damage]:
    return [*frames(BytesIO(data))]


def lines(data: bytes) -> list[bytes]:
    return [each.lines for each in read(data) if isinstance(each, Frame)]


def framed(body: bytes) -> bytes:
    """Return a frame that begins a segment, whatever its body is."""
    head = (0x184D2A5E, 16, b"PSRC", 1, 1, 0, len(body), zlib.crc32(body))
    return module._HEAD.pack(*head) + body


def test_frames_are_read_in_their_order():
    whole = FIRST + SECOND + THIRD

    assert read(whole) == [
        Frame(0, True, b'{"first":1}\n'),
        Frame(len(FIRST), False, b"1\n2\n"),
        Frame(len(FIRST + SECOND), True, b'{"third":1}\n'),
    ]


def test_any_tool_for_zstandard_shows_the_lines():
    with zstandard.ZstdDecompressor().stream_reader(
        BytesIO(FIRST + SECOND), read_across_frames=True
    ) as reader:
        assert reader.read() == b'{"first":1}\n1\n2\n'


@pytest.mark.parametrize("missing", range(1, len(SECOND)))
def test_only_the_frame_that_was_cut_is_lost(missing):
    first, cut = read((FIRST + SECOND)[:-missing])

    assert isinstance(first, Frame)
    assert cut == Damage(len(FIRST), "the last frame is incomplete", at_end=True)


def test_after_damage_the_next_segment_is_read():
    damaged = bytearray(FIRST + SECOND + THIRD)
    damaged[len(FIRST) + 30] ^= 4

    assert [type(each).__name__ for each in read(bytes(damaged))] == ["Frame", "Damage", "Frame"]
    assert lines(bytes(damaged))[-1] == b'{"third":1}\n'


def test_flipped_bits_are_never_taken_for_lines():
    for seed in range(200):
        rng = np.random.default_rng(seed)
        whole = bytearray(FIRST + SECOND * 3 + THIRD + SECOND)
        for position in rng.integers(0, len(whole), size=int(rng.integers(1, 5))).tolist():
            whole[position] ^= 1 << int(rng.integers(0, 8))

        with suppress(FrameError):
            found = lines(bytes(whole))
            assert set(found) <= {b'{"first":1}\n', b"1\n2\n", b'{"third":1}\n'}, seed


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "the file is empty"),
        (b"{}\n", "not a recording"),
        (b"\x28\xb5\x2f\xfd1234", "not a recording"),
        (FIRST[:12] + b"\x09" + FIRST[13:], "a recording of version 9; this program reads 1"),
    ],
)
def test_what_is_no_recording_is_refused(data, problem):
    with pytest.raises(FrameError, match=problem):
        read(data)


def test_a_frame_that_would_fill_the_memory_is_refused(monkeypatch):
    monkeypatch.setattr(module, "_LARGEST", 1000)
    bomb = WRITER.frame(b"0" * 1001)

    (refused,) = read(bomb)

    assert isinstance(refused, Damage)
    assert refused.problem == (
        "a frame cannot be decompressed: it is too large, or does not say how large it is"
    )


def test_a_frame_without_its_size_is_refused():
    body = zstandard.ZstdCompressor(write_content_size=False).compress(b"0" * 5000)

    (refused,) = read(framed(body))

    assert isinstance(refused, Damage)


def test_heads_that_claim_all_that_follows_cost_little():
    """Each place where a segment might begin would be read up to the length that it claims."""
    count = 5_000
    head = module._HEAD.pack(0x184D2A5E, 16, b"PSRC", 1, 1, 0, count * 12, 0)

    found = read(head * count)

    assert len(found) == 101
    assert found[-1].problem == "too much is damaged: the rest is not read"


def test_large_frames_that_are_damaged_are_read_a_few_times(monkeypatch):
    monkeypatch.setattr(module, "_MOST_UNUSABLE", 3 * len(FIRST))
    damaged = bytearray(FIRST)
    damaged[-1] ^= 4

    found = read(bytes(damaged) * 20 + THIRD)

    assert len(found) < 10
    assert isinstance(found[-1], Damage)


def test_small_frames_that_stand_for_large_ones_are_decompressed_a_few_times():
    body = zstandard.ZstdCompressor().compress(b"0" * 1_000_000)
    broken = framed(body[:-5] + b"\xff" * 5)

    found = read(broken * 20)

    assert len(found) == 3
    assert found[-1].problem == "too much is damaged: the rest is not read"
