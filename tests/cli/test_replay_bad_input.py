"""What is no recording, or a damaged one: one clear line, and never a trace."""

import json
import os
import subprocess
import sys
import tracemalloc
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from scheduler.observe.recorder import reading
from scheduler.observe.recorder.frames import Frame, FrameWriter, frames
from tests.cli.recorded import replayed, without_first


def test_a_recording_of_another_version_is_refused(incident, capsys):
    data = bytearray(incident.read_bytes())
    data[12] = 7
    incident.write_bytes(data)

    problem = "a recording of version 7; this program reads 1"
    assert replayed(capsys, incident) == (2, "", f"{incident}: {problem}\n")


def test_what_cannot_be_opened_is_named(tmp_path, capsys):
    missing, empty, folder = tmp_path / "none.rec", tmp_path / "empty.rec", tmp_path / "folder"
    empty.touch()
    folder.mkdir()

    assert replayed(capsys, missing) == (2, "", f"{missing}: No such file or directory\n")
    assert replayed(capsys, empty) == (2, "", f"{empty}: the file is empty\n")
    assert replayed(capsys, folder) == (2, "", f"{folder}: no recording is in this folder\n")


def test_after_damage_the_next_segment_is_read(longer, capsys):
    data = bytearray(longer.read_bytes())
    data[200] ^= 1
    longer.write_bytes(data)

    code, shown, warned = replayed(capsys, longer)

    assert (code, shown) == (0, "4 decisions, 0 different\n")
    assert warned.count("\n") == 1
    assert "a checksum is wrong" in warned


def test_a_recording_without_a_readable_decision_is_no_success(incident, capsys):
    data = bytearray(incident.read_bytes())
    data[200] ^= 1
    incident.write_bytes(data)

    code, shown, warned = replayed(capsys, incident)

    assert (code, shown) == (2, "0 decisions, 0 different\n")
    assert warned.endswith(f"{incident}: no decision can be read\n")


def test_a_reader_that_closes_the_pipe_is_no_error_of_the_recording(incident):
    """`head -1` closes it; nothing is said about the recording."""
    read, write = os.pipe()
    os.close(read)
    with open(write, "wb") as closed:
        ended = subprocess.run(
            [sys.executable, "-m", "scheduler.cli.main", "replay", incident],
            env={**os.environ, "PYTHONUNBUFFERED": "1"}, stdout=closed, stderr=subprocess.PIPE,
            check=False,
        )  # fmt: skip

    assert (ended.returncode, ended.stderr) == (1, b"")


@pytest.mark.parametrize("seed", range(40))
def test_a_damaged_recording_prints_no_traceback(longer, capsys, seed):
    rng = np.random.default_rng(seed)
    data = bytearray(longer.read_bytes())
    for position in rng.integers(0, len(data), size=1 + seed % 4).tolist():
        data[position] ^= 1 << int(rng.integers(0, 8))
    longer.write_bytes(data[: len(data) - int(rng.integers(0, 200)) * (seed % 2)])

    code, shown, said = replayed(capsys, longer)

    assert code in (0, 2)
    assert said if code == 2 else shown.endswith(", 0 different\n")


def test_a_forged_recording_does_no_harm(incident, capsys):
    writer, data = FrameWriter(), incident.read_bytes()
    begin = next(iter(frames(BytesIO(data))))
    header = begin.lines.replace(b',"fresh":true', b"")
    for lines in (
        b'["field","queue.__class__",1]\n',
        b'["record","os.system",[]]\n',
        b'["field","queue._pods",["@",-1]]\n',
        b'["field","queue._pods",["e","QueuePhase","none"]]\n',
        b'["field","queue._pods",["e","SaveLedger","none"]]\n',
        b'["end of snapshot"]\n',
        b'["value","Pod",7]\n',
        b"[[[[\n",
    ):
        incident.write_bytes(
            writer.frame(header, starts_segment=True)
            + writer.frame(lines + b'["end of snapshot"]\n')
        )

        code, shown, said = replayed(capsys, incident)

        assert (code, shown) == (2, "")
        assert said.count("\n") == 1


def test_a_line_that_means_nothing_is_named(incident, capsys):
    with incident.open("ab") as file:
        file.write(FrameWriter().frame(b'[1,"Nonsense",{}]\n'))

    code, _, said = replayed(capsys, incident)

    assert code == 2
    assert "line 1: not part of a recording" in said


HEADER = (
    b'{"at":0,"scheduler":"0\\u001b]0;owned\\u0007","reference":"v1.36","process":"x","number":1,'
    b'"settings":"x"%s}\n'
)


@pytest.mark.parametrize("otherwise", [False, True])
def test_names_in_a_recording_do_not_control_the_terminal(tmp_path, capsys, otherwise):
    path, policy = tmp_path / "odd.rec", tmp_path / "policy.yaml"
    decision = (
        b'[1,"Decided",{"pod":"d/\\u001b[2Jx","decision":"Scheduled","node":"\\u001b[31mn"}]\n'
    )
    path.write_bytes(FrameWriter().frame(HEADER % b',"fresh":true' + decision, starts_segment=True))
    policy.write_text(
        "apiVersion: preemptive-scheduler.io/v1alpha1\nkind: PreemptionPolicy\n"
        "metadata: {name: p}\nspec: {}\n"
    )

    code, shown, said = replayed(capsys, path, *(["--policy", str(policy)] if otherwise else []))

    assert code == 1
    assert r"d/\x1b[2Jx" in shown
    assert "\x1b" not in shown + said
    assert "\x07" not in said


def test_short_lines_take_no_more_memory_than_their_frame(tmp_path):
    path, writer = tmp_path / "lines.rec", FrameWriter()
    times = writer.frame(HEADER % b',"fresh":true' + b"11\n" * (1 << 22), starts_segment=True)
    path.write_bytes(times)
    tracemalloc.start()
    try:
        for _, _part in zip(range(3), reading.recording(path), strict=False):
            pass
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most < 3 * 3 * (1 << 22)


#: What a value of a line is replaced by.
ODD = (
    None, -1, 2**63, 2**80, 1e308, True, "", "x" * 3000, "1e999999999", [], {}, {"a": {"b": []}},
    ["@", 10**9], ["@", -1], ["@", 0], ["f", "nan"], ["f", "inf"], ["d", 1], ["t"], ["c", "a", "b"],
    ["q", ["q", ["q"]]], ["e", "QueuePhase", "?"], ["e", "QueuePhase", "active"], ["l", 1, "a"],
)  # fmt: skip


def mutated(value: Any, rng: np.random.Generator) -> Any:
    """Return a value with one part of it replaced or left out."""
    if isinstance(value, list) and value and rng.random() < 0.85:
        at = int(rng.integers(len(value)))
        return [*value[:at], mutated(value[at], rng), *value[at + 1 :]]
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = [*value][rng.integers(len(value))]
        rest = {name: each for name, each in value.items() if name != key}
        return rest if rng.random() < 0.1 else {**rest, key: mutated(value[key], rng)}
    return ODD[rng.integers(len(ODD))]


Lines = list[tuple[bool, list[bytes]]]


def lines_of(data: bytes) -> Lines:
    """Return the lines of each frame, and whether a segment begins with it."""
    parts = [each for each in frames(BytesIO(data)) if isinstance(each, Frame)]
    return [(part.starts_segment, part.lines.splitlines()) for part in parts]


def framed(lines: Lines) -> bytes:
    """Return a recording with right checksums."""
    writer = FrameWriter()
    return b"".join(
        writer.frame(b"".join(each + b"\n" for each in some), starts_segment=starts)
        for starts, some in lines
    )


def forged(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a recording with some lines changed, left out or repeated."""
    lines = lines_of(data)
    places = [(frame, line) for frame, (_, some) in enumerate(lines) for line in range(len(some))]
    chosen = rng.choice(len(places), size=rng.choice((1, 1, 2, 4)), replace=False)
    for frame, line in sorted((places[each] for each in chosen), reverse=True):
        some, chance = lines[frame][1], rng.random()
        if chance < 0.1:
            del some[line]
        elif chance < 0.2:
            some.insert(line, some[line])
        else:
            some[line] = json.dumps(mutated(json.loads(some[line]), rng)).encode()
    return framed(lines)


@pytest.mark.parametrize(
    ("there", "forged", "problem"),
    [
        (b'[1767225602.5,"Decided"', b'[1e308,"Decided"', "not part of a recording"),
        (b'_next_flush",1767225632.0', b'_next_flush","x"', "queue._next_flush is a str"),
        (b'clock_ahead",0.0', b'clock_ahead","x"', "cluster.clock_ahead is a str"),
        (b'0,0,0.0,["z"]', b'0,0,"x",["z"]', "QueuedPod.backoff_expiry is a str"),
        (b'0,0,0.0,["z"]', b'0,0,["f","nan"],["z"]', "backoff_expiry is not a number"),
        (b'_sequence",1', b'_sequence",["' + b"x" * 3000 + b'"]', "not a snapshot of this version"),
    ],
)
def test_a_value_that_no_machine_has_is_named(longer, capsys, there, forged, problem):
    without_first(longer, 1)
    lines = lines_of(longer.read_bytes())
    changed = [(starts, [each.replace(there, forged) for each in some]) for starts, some in lines]
    assert changed != lines
    longer.write_bytes(framed(changed))

    code, _, said = replayed(capsys, longer)

    assert code == 2
    assert problem in said
    assert said.count("\n") == 1
    assert len(said) < 1000


@pytest.mark.parametrize("seed", range(6))
def test_whatever_a_recording_says_it_ends_in_one_line(longer, tmp_path, capsys, seed):
    """Also with another policy, and where a decision is explained."""
    without_first(longer, seed % 3)  # a snapshot is only read where nothing continues
    rng, data, policy = np.random.default_rng(seed), longer.read_bytes(), tmp_path / "policy.yaml"
    policy.write_text(
        "apiVersion: preemptive-scheduler.io/v1alpha1\nkind: PreemptionPolicy\n"
        "metadata: {name: p}\nspec: {maxVictimsPerPreemption: 1}\n"
    )
    ways = ((), ("--policy", policy), ("--explain", "default/high"))
    for _ in range(8):
        path = tmp_path / "forged.rec"
        path.write_bytes(forged(data, rng))
        for way in ways:
            code, _, said = replayed(capsys, path, *way)
            assert code in (0, 1, 2)
            if code == 2:
                problems = [line for line in said.splitlines() if not line.startswith("warning: ")]
                assert len(problems) == 1, said


def test_a_segment_without_a_byte_costs_nothing(longer, tmp_path, capsys):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "0000000000001-0000abcd-000001.rec").write_bytes(longer.read_bytes())
    (folder / "0000000000002-0000abcd-000002.rec").touch()

    code, shown, said = replayed(capsys, folder)

    assert (code, shown) == (0, "4 decisions, 0 different\n")
    assert said.endswith(": the process ended before anything was written\n")
