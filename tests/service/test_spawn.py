"""Processes are started while other threads go on, with nothing of ours, and are waited for."""

import asyncio
import os
import signal
import sys
import threading

import pytest

from scheduler.service import spawn

pytestmark = pytest.mark.timeout(60)


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-I", "-c", code)


async def test_other_threads_go_on_while_a_process_is_started(tmp_path):
    # The new process cannot run its program before the other thread has opened the pipe.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    opened: list[bytes] = []
    thread = threading.Thread(target=lambda: opened.append(pipe.read_bytes()), daemon=True)
    begin = threading.Timer(0.2, thread.start)
    begin.start()

    child = await spawn.start(python("import sys; sys.stderr.write('x')"), {}, str(pipe))

    assert await child.reader.read() == b""
    thread.join()
    assert opened == [b"x"]
    await child.kill()


async def test_what_cannot_be_started_is_an_error():
    before = set(os.listdir("/proc/self/fd"))

    with pytest.raises(FileNotFoundError):
        await spawn.start(("/nowhere/python",), {})

    assert len(os.listdir("/proc/self/fd")) == len(before)


async def test_a_process_has_no_other_files_and_variables(monkeypatch):
    monkeypatch.setenv("SECRET", "hunter2")
    first, second = os.pipe()
    os.set_inheritable(first, True)
    try:
        code = "import os; print(sorted(os.listdir('/proc/self/fd')), sorted(os.environ))"
        child = await spawn.start(python(code), {"A": "b"})
    finally:
        os.close(first)
        os.close(second)

    # The fourth is the listing itself.
    written = (await child.reader.read()).decode()
    assert written.startswith("['0', '1', '2', '3'] ")
    assert "'A'" in written
    assert "SECRET" not in written
    await child.kill()


async def test_a_start_that_is_cancelled_leaves_no_process(monkeypatch):
    started: list[int] = []
    spawned = spawn._spawn

    def noted(*arguments: object) -> int:
        started.append(spawned(*arguments))
        return started[-1]

    monkeypatch.setattr(spawn, "_spawn", noted)
    start = asyncio.ensure_future(spawn.start(python("input()"), {}))
    await asyncio.sleep(0)
    start.cancel()
    with pytest.raises(asyncio.CancelledError):
        await start

    # One that is started belongs to a caller, or is a zombie for ever.
    assert started == []


async def test_a_process_ends_where_the_parent_has_left_its_signal_ignored():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        child = await spawn.start(python("input()"), {})
        assert child.returncode is None

        await child.kill()

        assert child.returncode is not None
    finally:
        signal.signal(signal.SIGCHLD, before)
