"""The whole demonstration, as a user sees it."""

import os
import pty
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

ROOT = Path(__file__).parents[3]
MARK = "DEMONSTRATION_OF_A_TEST"

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


class Demo:
    """One demonstration, which all of its processes bear the mark of."""

    def __init__(self) -> None:
        self.mark = uuid.uuid4().hex
        self.process: subprocess.Popen[str] | None = None

    def start(self, *arguments: str, output: int | None = None) -> subprocess.Popen[str]:
        """Start it; output goes to a pipe unless a file descriptor is given."""
        self.process = subprocess.Popen(
            [sys.executable, "-m", "deploy.tools.demo", *arguments],
            cwd=ROOT,
            # A cluster of somebody else that must not be touched.
            env={**os.environ, MARK: self.mark, "KUBECONFIG": "/nowhere", "TERM": "xterm"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        return self.process

    def remains(self) -> list[str]:
        """Return the command lines of its processes that are still there."""
        return list(self._commands().values())

    def pids(self, part: str) -> list[int]:
        """Return its processes whose command line has a part."""
        return [pid for pid, command in self._commands().items() if part in command]

    def _commands(self) -> dict[int, str]:
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                marked = f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes()
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if marked and command:  # zombies have none
                found[int(folder.name)] = command.decode().replace("\0", " ")
        return found


@pytest.fixture
def demo() -> Iterator[Demo]:
    made = Demo()
    yield made
    if made.process is not None and made.process.poll() is None:
        made.process.kill()
        made.process.wait()


def until(stream: IO[str], pattern: str) -> str:
    """Read lines up to one with a pattern; return them all."""
    text = ""
    for line in stream:
        text += line
        if re.search(pattern, line):
            return text
    raise AssertionError(f"no {pattern!r} in:\n{text}")


def test_once_it_ends_by_itself_with_a_summary(demo: Demo):
    process = demo.start("--once")
    output, _ = process.communicate()

    assert process.returncode == 0, output
    assert (
        len(re.findall(r"^ .* preempts  urgent-\S+ on node-\d, evicting batch-", output, re.M)) == 3
    )
    assert not re.search(r"evicting.*cache-", output)
    assert len(re.findall(r"^urgent-\S+ +10000  node-\d .*batch-\S+, batch-\S+", output, re.M)) == 3
    assert "13 of 19 pods placed" in output
    assert "3 preemptions evicted 6 pods" in output
    assert "All 3 pods of priority class high-example run." in output
    assert demo.remains() == []


def test_a_deadline_that_passes_is_a_failure_with_a_reason(demo: Demo):
    process = demo.start("--once", "--limit", "0")
    output, _ = process.communicate()

    assert process.returncode == 1
    assert "error: not settled after 0 s: the scheduler does not lead" in output
    assert demo.remains() == []


@pytest.mark.parametrize(
    ("story", "lines"),
    [
        (
            "budget",
            [
                r"cache-\S+ .*violates preemption-example/cache$",
                r"^preemptionpolicy/strict-budgets applied$",
                r"report-\S+ +Unschedulable",
                r"preempts +report-\S+ on node-\d, evicting batch-\S+, batch-\S+$",
            ],
        ),
        (
            "drain",
            [
                r"urgent-\S+ +node-\d +on node-\d, as preemption-example/urgent-",
                r"^node/node-\d cordoned$",
                r"^error: pod preemption-example/cache-\S+: a disruption budget forbids",
                r"^node/node-\d drained$",
            ],
        ),
        (
            "undo",
            [
                r"\"no-evictions\" refuses",
                r"^no-evictions\b",
                r"^preemptionpolicy \"no-evictions\" deleted$",
                r"3 preemptions evicted 6 pods",
            ],
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_story_is_told_to_its_end(demo: Demo, story: str, lines: list[str]):
    process = demo.start("--once", "--story", story)
    output, _ = process.communicate()

    assert process.returncode == 0, output
    rest = output
    for line in lines:  # in this order
        found = re.search(line, rest, re.M)
        assert found, f"no {line!r} in:\n{rest}"
        rest = rest[found.end() :]
    assert demo.remains() == []


def test_it_survives_a_pause_and_ends_with_the_summary(demo: Demo):
    """As a suspended laptop: the scheduler has lost its lease, and is started again."""
    process = demo.start()
    assert process.stdout is not None
    advice = until(process.stdout, "settled")
    kubeconfig = Path(re.findall(r"export KUBECONFIG=(\S+)", advice)[0]).expanduser()
    assert kubeconfig.stat().st_mode & 0o777 == 0o600
    (scheduler,) = demo.pids("scheduler.cli.main")
    os.kill(scheduler, signal.SIGSTOP)
    time.sleep(11.0)  # the holder trusts its lease for ten seconds
    os.kill(scheduler, signal.SIGCONT)
    until(process.stdout, "restarts  the scheduler, which had lost its lease")
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate()

    assert process.returncode == 0
    assert "3 preemptions evicted 6 pods" in output
    assert "All 3 pods of priority class high-example run." in output
    assert demo.remains() == []
    assert not kubeconfig.exists()


@pytest.mark.parametrize(
    ("moment", "number"),
    [
        ("starting a control plane", signal.SIGINT),
        ("scheduler starts", signal.SIGHUP),
        ("step 1", signal.SIGTERM),
    ],
)
def test_a_signal_on_the_way_leaves_nothing_behind(demo: Demo, moment: str, number: signal.Signals):
    process = demo.start()
    assert process.stdout is not None
    until(process.stdout, moment)
    process.send_signal(number)
    output, _ = process.communicate()

    assert process.returncode == 130, output
    assert output.endswith("stopped\n")
    assert demo.remains() == []


def test_a_terminal_gets_the_live_view_and_is_given_back(demo: Demo):
    ours, theirs = pty.openpty()
    process = demo.start("--once", output=theirs)
    os.close(theirs)
    text = b""
    while chunk := _read(ours):
        text += chunk
    os.close(ours)

    assert process.wait() == 0
    start, live, end = re.split(rb"\x1b\[\?1049[hl]", text)
    assert b"starting a control plane" in start
    for part in ("Waiting pods", "Nodes", "Preemptions", "Log", "terminating"):
        assert part.encode() in live, part
    assert b"All 3 pods of priority class high-example run." in re.sub(rb"\x1b\[[\d;]*m", b"", end)


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # that is how the end of a terminal shows
        return b""
