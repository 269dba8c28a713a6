"""The client of `supervisor`: starts, signals and ends processes by name."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

SUPERVISOR = Path(__file__).with_name("supervisor.py")

#: Timeout of the supervisor's clean-up: half a second of grace and the removal of a folder.
CLOSE_SECONDS = 30.0


class ProcessError(RuntimeError):
    """A process could not be started or addressed."""


class Processes:
    """Named child processes and a folder, which are ended with this object or Python process.

    It may be used by several threads. Ctrl-C in the terminal does not reach the children.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._supervisor = subprocess.Popen(
            [sys.executable, "-I", "-S", SUPERVISOR, folder, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def supervisor_pid(self) -> int:
        """The process id of the supervisor."""
        return self._supervisor.pid

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        log: Path,
        env: Mapping[str, str] | None = None,
    ) -> int:
        """Start a process; its output is appended to `log`.

        Returns:
            The process id.

        Raises:
            ProcessError: it cannot be executed, or a process of that name is running.
        """
        environ = dict(os.environ if env is None else env)
        pid: int = self._call(
            "start", name=name, argv=[str(word) for word in argv], log=str(log), env=environ
        )
        return pid

    def exit_code(self, name: str) -> int | None:
        """Return the exit code (negative: the signal that ended it), None while it runs."""
        code: int | None = self._call("exit_code", name=name)
        return code

    def pause(self, name: str) -> None:
        """Pause the process (SIGSTOP)."""
        self._call("signal", name=name, number=int(signal.SIGSTOP))

    def resume(self, name: str) -> None:
        """Resume a paused process (SIGCONT)."""
        self._call("signal", name=name, number=int(signal.SIGCONT))

    def stop(self, name: str, grace_seconds: float) -> int:
        """End a process by SIGTERM, after the grace period by SIGKILL; return its exit code."""
        code: int = self._call("stop", name=name, grace_seconds=grace_seconds)
        return code

    def close(self) -> None:
        """End all processes and remove the folder; may be called twice."""
        with self._lock:
            assert self._supervisor.stdin is not None
            assert self._supervisor.stdout is not None
            with contextlib.suppress(OSError):  # it has ended already
                self._supervisor.stdin.close()
            try:
                self._supervisor.wait(CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                self._supervisor.kill()  # the kernel then kills the children
                self._supervisor.wait()
            self._supervisor.stdout.close()

    def _call(self, command: str, **arguments: Any) -> Any:
        with self._lock:
            self._number += 1
            try:
                answer = self._exchange([self._number, command, arguments])
            except (OSError, ValueError) as error:
                raise ProcessError(f"the supervisor has ended: {error}") from error
        if "error" in answer:
            raise ProcessError(f"{command} {arguments.get('name')}: {answer['error']}")
        return answer["result"]

    def _exchange(self, message: list[Any]) -> dict[str, Any]:
        assert self._supervisor.stdin is not None
        assert self._supervisor.stdout is not None
        self._supervisor.stdin.write(json.dumps(message).encode() + b"\n")
        self._supervisor.stdin.flush()
        while True:
            answer: dict[str, Any] = json.loads(self._supervisor.stdout.readline() or b"null") or {}
            if not answer:
                raise BrokenPipeError("no answer")
            if answer["number"] == message[0]:  # else it belongs to a call that Ctrl-C interrupted
                return answer
