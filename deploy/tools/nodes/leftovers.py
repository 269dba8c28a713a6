"""What a run leaves behind that was killed: found by the process id in its name, and removed.

A run is named after its owner: `preemptive-nodes-<pid>-<start time>`. Both together name a process
once and for all. A folder and cgroups carry that name; everything else ends with its processes.
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

__all__ = ["PREFIX", "dead_runs", "folder", "identity", "note_site", "remove", "run_name"]

PREFIX: Final = "preemptive-nodes-"
_NAME: Final = re.compile(rf"{PREFIX}(\d+)-(\d+)")

#: File in the folder of a run that names the processes of its site, seen from the machine.
SITE: Final = "site.pid"
#: How long a site may take to end by itself when its owner is gone.
END_SECONDS: Final = 40.0
START_SECONDS: Final = 5.0
PAUSE_SECONDS: Final = 0.2


def identity(pid: int) -> str | None:
    """Return `<pid>-<start time>`, `None` if there is no such process or it has ended."""
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


def note_site(run: str, unshare: int) -> None:
    """Write down which processes the site of a run is: the child of `unshare`, and `unshare`.

    The child is the first of its namespace, so it ends last there, and when it is killed all others
    are. `unshare` ends a moment after it.
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
    """Return the runs that left something, and whose owners are gone."""
    found = {path.name for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*")}
    found |= cgroups.names(PREFIX)
    dead = []
    for name in sorted(found):
        match = _NAME.fullmatch(name)
        if match and identity(int(match[1])) != f"{match[1]}-{match[2]}":
            dead.append(name)
    return dead


def remove(run: str) -> None:
    """Remove what a run left; its site gets some time to do it.

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
    """Wait until a process, as `identity` names it, has ended; after the deadline it is killed."""
    pid = int(process.partition("-")[0])
    while identity(pid) == process:
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(PAUSE_SECONDS)
