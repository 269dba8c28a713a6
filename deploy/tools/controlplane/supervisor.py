"""Starts processes for an owner, and ends them when the owner has ended.

It is a script that needs nothing but the standard library:

    python -I -S supervisor.py FOLDER OWNER_PID

It reads one JSON command per line on standard input, [number, command, arguments], and responds to
each with one JSON line that has the same number (see `processes`, its only client). When the input
ends, when the owner ends for any reason including SIGKILL, or on SIGTERM, it ends every process
that it started and removes FOLDER. If the supervisor itself is killed, the kernel kills its
children (PR_SET_PDEATHSIG).

It is a separate process with one thread, because Linux sends the death signal when the *thread*
that forked ends: a control plane that a worker thread started would otherwise end with that thread.
"""

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

#: Grace period when everything is ended: the data is discarded anyway.
FINAL_GRACE_SECONDS = 0.5

#: How often to check that the owner is alive; a closed input is noticed at once.
OWNER_CHECK_SECONDS = 1.0

PR_SET_PDEATHSIG = 1


class Supervisor:
    """Owns the children by name, and the folder."""

    def __init__(self, folder: str, owner: int) -> None:
        self._folder = folder
        self._owner = owner
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._commands: dict[str, Callable[..., Any]] = {
            "start": self.start,
            "exit_code": self.exit_code,
            "signal": self.signal,
            "stop": self.stop,
        }

    def answer(self, command: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Execute a command; return {"result": ...} or {"error": ...}."""
        try:
            return {"result": self._commands[command](**arguments)}
        except (OSError, ValueError, LookupError, subprocess.SubprocessError) as error:
            return {"error": f"{type(error).__name__}: {error}"}

    def start(self, name: str, argv: list[str], log: str, env: dict[str, str]) -> int:
        """Start a child in its own session; its output is appended to `log`."""
        if name in self._children:
            if self.exit_code(name) is None:
                raise ValueError(f"{name} is running")
            self.stop(name, 0)
        supervisor = os.getpid()

        def die_with_supervisor() -> None:
            self._libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != supervisor:  # it ended before the call above
                os._exit(1)

        with open(log, "ab") as output:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=env,
                cwd=self._folder,
                start_new_session=True,
                preexec_fn=die_with_supervisor,  # noqa: PLW1509 - one thread here
            )
        self._children[name] = child
        return child.pid

    def exit_code(self, name: str) -> int | None:
        """Return the exit code (negative: the signal that ended it), None while it runs."""
        child = self._children[name]
        return child.returncode if child.returncode is not None else _peek(child.pid)

    def signal(self, name: str, number: int) -> None:
        """Send a signal to the child only; after SIGSTOP it is stopped on return."""
        if self.exit_code(name) is not None:
            raise ValueError(f"{name} has ended")
        pid = self._children[name].pid
        os.kill(pid, number)
        if number == signal.SIGSTOP:  # its threads stop one after the other
            os.waitid(os.P_PID, pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def stop(self, name: str, grace_seconds: float) -> int:
        """End a child and its descendants."""
        self._stop([self._children[name]], grace_seconds)
        return self._children[name].wait()

    def close(self) -> None:
        """End all children, newest first, and remove the folder."""
        self._stop(list(reversed(self._children.values())), FINAL_GRACE_SECONDS)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _stop(self, children: list[subprocess.Popen[bytes]], grace_seconds: float) -> None:
        pids = [child.pid for child in children if child.returncode is None]
        for pid in pids:
            os.killpg(pid, signal.SIGTERM)
            os.killpg(pid, signal.SIGCONT)  # a stopped process does not handle SIGTERM
        deadline = time.monotonic() + grace_seconds
        while any(_peek(pid) is None for pid in pids) and time.monotonic() < deadline:
            if grace_seconds > FINAL_GRACE_SECONDS and os.getppid() != self._owner:
                break  # the owner has ended, so the rest of a long grace period is skipped
            time.sleep(0.01)
        for pid in pids:
            os.killpg(pid, signal.SIGKILL)
        for child in children:
            child.wait()


def _peek(pid: int) -> int | None:
    """Return the exit code of a child without reaping it, so that its group id is not reused."""
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def commands(owner: int) -> Iterator[bytes]:
    """Yield the lines of standard input while the owner runs."""
    buffer = b""
    while os.getppid() == owner:
        ready, _, _ = select.select([sys.stdin], [], [], OWNER_CHECK_SECONDS)
        if not ready:
            continue
        chunk = os.read(sys.stdin.fileno(), 1 << 16)
        if not chunk:
            return
        *lines, buffer = (buffer + chunk).split(b"\n")
        yield from lines


def main() -> None:
    """Serve the owner until it ends, then clean up."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    owner = int(sys.argv[2])
    supervisor = Supervisor(sys.argv[1], owner)
    try:
        for line in commands(owner):
            number, command, arguments = json.loads(line)
            answer = {"number": number, **supervisor.answer(command, arguments)}
            os.write(sys.stdout.fileno(), json.dumps(answer).encode() + b"\n")
    except BrokenPipeError:
        pass  # the owner has ended
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        supervisor.close()


if __name__ == "__main__":
    main()
