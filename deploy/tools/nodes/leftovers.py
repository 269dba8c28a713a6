"""Removes what killed runs have left: a folder and cgroups.

A run is named after its owner: `preemptive-nodes-<pid>-<start time>`, which identifies a process
even if its id is reused. Folder and cgroups have that name; everything else ends with its
processes.
"""

import contextlib
import os
import re
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import Final

from deploy.tools.nodes import cgroups

__all__ = ["PREFIX", "dead_runs", "folder", "identity", "record_sandbox", "remove", "run_name"]

PREFIX: Final = "preemptive-nodes-"
_NAME: Final = re.compile(rf"{PREFIX}(\d+)-(\d+)")

#: File in the folder of a run with the processes of its sandbox, in the machine's PID namespace.
SITE: Final = "sandbox.pid"
#: Timeout for a sandbox to end after its owner.
END_SECONDS: Final = 40.0
START_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.2


def identity(pid: int) -> str | None:
    """Return `<pid>-<start time>`, `None` if there is no such process."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else f"{pid}-{fields[19]}"


def run_name() -> str:
    """Return the name of a run of this process."""
    return f"{PREFIX}{identity(os.getpid())}"


def folder(run: str) -> Path:
    """Return the folder of a run."""
    return Path(tempfile.gettempdir()) / run


def record_sandbox(run: str, unshare: int) -> None:
    """Record the processes of the sandbox of a run: the child of `unshare`, and `unshare`.

    The child is the first process of its PID namespace: it ends last, and when it is killed, so are
    all others. `unshare` ends a moment after it.
    """
    children = Path(f"/proc/{unshare}/task/{unshare}/children")
    deadline = time.monotonic() + START_SECONDS
    while identity(unshare) is not None and time.monotonic() < deadline:
        if pids := children.read_text().split():
            processes = (identity(pid) for pid in (int(pids[0]), unshare))
            (folder(run) / SITE).write_text(" ".join(filter(None, processes)))
            return
        time.sleep(PAUSE_SECONDS / 10)


def dead_runs() -> list[str]:
    """Return the runs that have left something and whose owners have ended."""
    found = {path.name for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*")}
    found |= cgroups.names(PREFIX)
    dead = []
    for name in sorted(found):
        match = _NAME.fullmatch(name)
        if match and identity(int(match[1])) != f"{match[1]}-{match[2]}":
            dead.append(name)
    return dead


def remove(run: str) -> None:
    """Remove what a run has left, after its sandbox has had time to do it.

    Raises:
        OSError: something cannot be removed.
    """
    deadline = time.monotonic() + END_SECONDS
    with contextlib.suppress(FileNotFoundError):
        for process in (folder(run) / SITE).read_text().split():
            _await_end(process, deadline)
    cgroups.remove(run)
    shutil.rmtree(folder(run), ignore_errors=True)


def _await_end(process: str, deadline: float) -> None:
    """Wait until a process, named as by `identity`, has ended; kill it after the deadline."""
    pid = int(process.partition("-")[0])
    while identity(pid) == process:
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_SECONDS)
