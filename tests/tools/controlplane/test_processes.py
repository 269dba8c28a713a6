import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from deploy.tools.controlplane.processes import ProcessError, Processes

ROOT = Path(__file__).parents[3]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "cluster"
    path.mkdir()
    return path


@pytest.fixture
def processes(folder):
    processes = Processes(folder)
    yield processes
    processes.close()


def ends(pid: int, seconds: float = 10.0) -> bool:
    """Wait until a process is gone."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def children_of(pid: int) -> list[int]:
    """Wait for the first child of a process and return all there are."""
    while True:
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        if found:
            return [int(child) for child in found]


def test_closing_ends_all_children_and_removes_the_folder(folder, processes):
    pids = [
        processes.start("one", ["sleep", "1000"], folder / "one.log"),
        processes.start("two", ["sleep", "1000"], folder / "two.log"),
    ]

    processes.close()

    assert [ends(pid, 0) for pid in pids] == [True, True]
    assert not folder.exists()


def test_closing_ends_what_the_children_started(folder, processes):
    pid = processes.start("shell", ["sh", "-c", "sleep 1000; true"], folder / "log")
    (grandchild,) = children_of(pid)

    processes.close()

    assert ends(grandchild)


def test_a_child_that_ignores_sigterm_is_killed(folder, processes):
    script = "trap '' TERM; sleep 1000; true"
    pid = processes.start("stubborn", ["sh", "-c", script], folder / "log")
    children_of(pid)

    assert processes.stop("stubborn", 0.1) == -signal.SIGKILL


def test_a_paused_child_ends_by_sigterm(folder, processes):
    processes.start("paused", ["sleep", "1000"], folder / "log")
    processes.pause("paused")

    assert processes.stop("paused", 5.0) == -signal.SIGTERM


def test_a_child_outlives_the_thread_that_started_it(folder, processes):
    pids = []
    thread = threading.Thread(
        target=lambda: pids.append(processes.start("one", ["sleep", "1000"], folder / "log"))
    )
    thread.start()
    thread.join()

    assert not ends(pids[0], 0.1)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_is_left_when_the_owner_is_ended_by(number, folder):
    script = """
        import sys, time
        from pathlib import Path
        from deploy.tools.controlplane.processes import Processes
        folder = Path(sys.argv[1])
        processes = Processes(folder)
        pid = processes.start("one", ["sleep", "1000"], folder / "log")
        print(processes.supervisor_pid, pid, flush=True)
        time.sleep(1000)
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script), folder],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    with owner:
        supervisor, child = map(int, owner.stdout.readline().split())
        owner.send_signal(number)

    assert [ends(child), ends(supervisor)] == [True, True]
    assert not folder.exists()


def test_children_die_with_a_killed_supervisor(folder, processes):
    pid = processes.start("one", ["sleep", "1000"], folder / "log")

    os.kill(processes.supervisor_pid, signal.SIGKILL)

    assert ends(pid)
    with pytest.raises(ProcessError, match="supervisor"):
        processes.exit_code("one")
