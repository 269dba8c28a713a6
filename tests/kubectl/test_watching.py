"""Commands that go on: they follow changes, and come back when the connection breaks."""

import asyncio
import contextlib
import io
import os
import pty
import subprocess
import sys
import termios
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scheduler.kubectl import client as client_module
from scheduler.kubectl import parsing
from scheduler.kubectl.client import SchedulerClient
from scheduler.kubectl.commands import preemptions, top
from scheduler.kubectl.connection import Reach
from scheduler.kubectl.errors import CommandError
from scheduler.kubectl.output import Output
from scheduler.kubectl.session import Session
from scheduler.model.rest.cluster import NodesDocument, Summary
from scheduler.terminal.top import TopSnapshot
from tests.support.stand_in_documents import NOW

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "PAUSE_SECONDS", 0.01)


@pytest.fixture
async def client(url: str) -> AsyncIterator[SchedulerClient]:
    async with SchedulerClient(Reach((), float, server=url).open) as client:
        yield client


async def until(condition, seconds: float = 5.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


async def test_the_whole_comes_first_and_then_what_changes(client, scheduler):
    async with contextlib.aclosing(client.follow("/nodes", NodesDocument)) as updates:
        first = await anext(updates)
        scheduler.tick()
        second = await anext(updates)

    assert (first.whole, len(first.document.items)) == (True, 12)
    assert (second.whole, len(second.document.items)) == (False, 1)


async def test_the_whole_comes_again_when_the_connection_breaks(client, scheduler):
    async with contextlib.aclosing(client.follow("/nodes", NodesDocument)) as updates:
        await anext(updates)
        scheduler.switches.break_watches = True
        scheduler.wake()

        assert (await anext(updates)).whole


async def test_the_whole_comes_again_when_the_revision_is_too_old(client, scheduler):
    scheduler.switches.oldest_revision = 100
    async with contextlib.aclosing(client.follow("/nodes", NodesDocument)) as updates:
        await anext(updates)

        assert (await anext(updates)).whole


async def test_it_goes_on_when_another_replica_leads(client, scheduler):
    """Meanwhile none answers."""
    async with contextlib.aclosing(client.follow("/nodes", NodesDocument)) as updates:
        await anext(updates)
        scheduler.switches.failures["/api/v1/nodes"] = 503
        scheduler.switches.break_watches = True
        scheduler.wake()
        waiting = asyncio.ensure_future(anext(updates))
        await until(lambda: scheduler.requests.count("GET /api/v1/nodes?limit=500") > 3)
        scheduler.switches.failures.clear()

        assert (await waiting).whole


async def test_it_gives_up_when_none_leads_for_long(client, scheduler, monkeypatch):
    monkeypatch.setattr(client_module, "PATIENCE_SECONDS", 0.05)
    scheduler.switches.break_watches = True
    async with contextlib.aclosing(client.follow("/nodes", NodesDocument)) as updates:
        await anext(updates)
        scheduler.switches.failures["/api/v1/nodes"] = 503

        with pytest.raises(CommandError, match="not synced"):
            await anext(updates)


async def test_preemptions_that_change_are_printed_below_the_table(client, scheduler):
    arguments = parsing.parser().parse_args(["preemptions", "--watch"])
    text = io.StringIO()
    out = Output(text, 80, color=False)
    session = Session(arguments, client, out, lambda: NOW, Reach((), float).selection)

    watching = asyncio.create_task(preemptions.run(session))
    try:
        await until(lambda: text.getvalue().count("\n") == 12)
        scheduler.tick()
        await until(lambda: text.getvalue().count("\n") == 13)
    finally:
        watching.cancel()

    lines = text.getvalue().splitlines()
    assert lines[0].startswith("AGE")
    assert "prod/api-2" in lines[-1]


@contextlib.contextmanager
def terminal(*command: str, kind: str = "xterm"):
    """Run a command at a terminal of 80 by 24."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": kind, "COLUMNS": "80", "LINES": "24"}
    with subprocess.Popen(
        command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        try:
            yield process, ours
        finally:
            process.kill()
            os.close(ours)


async def read_until(descriptor: int, wanted: str) -> str:
    text = b""  # one read may end within a character
    async with asyncio.timeout(10):
        while wanted.encode() not in text:
            text += await asyncio.to_thread(os.read, descriptor, 65_536)
    return text.decode(errors="replace")


async def test_top_fills_a_terminal_and_ends_with_q(url, scheduler):
    command = [sys.executable, "-m", "scheduler.kubectl.main", "top", "--interval", "0.5"]
    with terminal(*command, "--server", url) as (process, descriptor):
        first = await read_until(descriptor, "Preemptions")
        scheduler.switches.failures["/api/v1/summary"] = 503
        problem = await read_until(descriptor, "not synced")
        scheduler.switches.failures.clear()
        os.write(descriptor, b"q")
        last = await read_until(descriptor, "\x1b[?1049l")  # the screen is as it was
        code = await asyncio.to_thread(process.wait, 5)

    assert "\x1b[?1049h" in first
    assert "Waiting pods" in problem
    assert "Traceback" not in first + problem + last
    assert code == 0


async def test_top_opens_the_selected_pod_and_preemption_and_restores_the_terminal(url, scheduler):
    command = [sys.executable, "-m", "scheduler.kubectl.main", "top", "--interval", "0.5"]
    with terminal(*command, "--server", url) as (process, descriptor):
        before = termios.tcgetattr(descriptor)
        await read_until(descriptor, "Preemptions")
        os.write(descriptor, b"/api-0\r")
        await read_until(descriptor, "filter: api-0")
        os.write(descriptor, b"j\r")
        pod = await read_until(descriptor, "Pod prod/api-0 is ")
        os.write(descriptor, b"\x1b")
        await read_until(descriptor, "Preemptions")
        os.write(descriptor, b"pj\r")
        preemption = await read_until(descriptor, "preemption-00000")
        scheduler.switches.failures["/api/v1/preemptions"] = 503
        os.write(descriptor, b"\x1b\r")
        await read_until(descriptor, "error: ")
        os.write(descriptor, b"q")
        await read_until(descriptor, "\x1b[?1049l")
        code = await asyncio.to_thread(process.wait, 5)

        assert termios.tcgetattr(descriptor) == before
    assert "Esc back" in pod
    assert "Esc back" in preemption
    assert code == 0


async def test_top_ends_with_q_while_the_scheduler_is_silent(url, scheduler):
    command = [sys.executable, "-m", "scheduler.kubectl.main", "top", "--interval", "0.5"]
    with terminal(*command, "--server", url) as (process, descriptor):
        await read_until(descriptor, "Preemptions")
        scheduler.switches.delay_seconds = 60.0
        asked = scheduler.requests.count("GET /api/v1/summary")
        await until(lambda: scheduler.requests.count("GET /api/v1/summary") > asked)
        os.write(descriptor, b"q")
        await read_until(descriptor, "\x1b[?1049l")
        code = await asyncio.to_thread(process.wait, 5)

    assert code == 0


async def test_top_prints_one_frame_where_frames_cannot_replace_each_other(url):
    command = [sys.executable, "-m", "scheduler.kubectl.main", "top", "--server", url]
    with terminal(*command, kind="dumb") as (process, descriptor):
        frame = await read_until(descriptor, "batch/worker-9")
        code = await asyncio.to_thread(process.wait, 5)

    assert "\x1b" not in frame
    assert code == 0


class Screen:
    """Shows nothing."""

    def update(self, *_: object, **__: object) -> None:
        pass


async def test_a_defect_ends_top(client, monkeypatch):
    async def broken(*_: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(top, "_redraws", lambda: True)
    monkeypatch.setattr(top, "_keys", lambda: contextlib.nullcontext(asyncio.Queue()))
    monkeypatch.setattr(top, "live", lambda _: contextlib.nullcontext(Screen()))
    monkeypatch.setattr(top._Frames, "follow", broken)
    arguments = parsing.parser().parse_args(["top"])
    out = Output(io.StringIO(), 80, color=False)
    session = Session(arguments, client, out, lambda: NOW, Reach((), float).selection)

    async with asyncio.timeout(5):
        with pytest.raises(ValueError, match="a defect"):
            await top.run(session)


SUMMARY = Summary("2026-01-01T00:00:00Z", "v1.37", leader=True, revision=1, queue={})


async def test_top_says_for_how_long_the_scheduler_has_been_silent():
    frames = top._Frames(TopSnapshot(SUMMARY), asked_at=asyncio.get_running_loop().time() - 10)
    answered = top._Frames(TopSnapshot(SUMMARY))

    assert frames.current().problem == "no response from the scheduler for 10 s"
    assert answered.current().problem == ""
