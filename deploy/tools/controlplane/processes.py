"""The owner's side of `keeper`: starts, watches, signals and ends named processes."""

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

KEEPER = Path(__file__).with_name("keeper.py")

#: The keeper's own clean-up takes half a second of grace and the removal of a folder.
CLOSE_SECONDS = 30.0


class ProcessError(RuntimeError):
    """A process could not be started or addressed."""


class Processes:
    """Named child processes and a folder, which end with this object or this Python process.

    Safe to use from several threads. Ctrl-C in the terminal does not reach the children: the owner
    decides.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._number = 0
        self._keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", KEEPER, folder, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def keeper_pid(self) -> int:
        """The process id of the keeper itself."""
        return self._keeper.pid

    def start(
        self,
        name: str,
        argv: Sequence[str | Path],
        log: Path,
        env: Mapping[str, str] | None = None,
    ) -> int:
        """Start a process; output goes to `log`, the environment is ours unless given.

        Returns:
            The process id.

        Raises:
            ProcessError: it cannot be executed, or one of that name is running.
        """
        environ = dict(os.environ if env is None else env)
        pid: int = self._call(
            "start", name=name, argv=[str(word) for word in argv], log=str(log), env=environ
        )
        return pid

    def exit_code(self, name: str) -> int | None:
        """Return how the process ended (negative: by which signal), None while it runs."""
        code: int | None = self._call("exit_code", name=name)
        return code

    def pause(self, name: str) -> None:
        """Stop the process where it stands (SIGSTOP)."""
        self._call("signal", name=name, number=int(signal.SIGSTOP))

    def resume(self, name: str) -> None:
        """Let a paused process go on (SIGCONT)."""
        self._call("signal", name=name, number=int(signal.SIGCONT))

    def stop(self, name: str, grace_seconds: float) -> int:
        """End a process by SIGTERM, after the grace by SIGKILL; return its exit code."""
        code: int = self._call("stop", name=name, grace_seconds=grace_seconds)
        return code

    def close(self) -> None:
        """End all processes and remove the folder; does nothing the second time."""
        with self._lock:
            assert self._keeper.stdin is not None
            assert self._keeper.stdout is not None
            with contextlib.suppress(OSError):  # it is gone already
                self._keeper.stdin.close()
            try:
                self._keeper.wait(CLOSE_SECONDS)
            except subprocess.TimeoutExpired:
                self._keeper.kill()  # the kernel then kills the children
                self._keeper.wait()
            self._keeper.stdout.close()

    def _call(self, command: str, **arguments: Any) -> Any:
        with self._lock:
            self._number += 1
            try:
                answer = self._exchange([self._number, command, arguments])
            except (OSError, ValueError) as error:
                raise ProcessError(f"the keeper of the processes is gone: {error}") from error
        if "error" in answer:
            raise ProcessError(f"{command} {arguments.get('name')}: {answer['error']}")
        return answer["result"]

    def _exchange(self, message: list[Any]) -> dict[str, Any]:
        assert self._keeper.stdin is not None
        assert self._keeper.stdout is not None
        self._keeper.stdin.write(json.dumps(message).encode() + b"\n")
        self._keeper.stdin.flush()
        while True:
            answer: dict[str, Any] = json.loads(self._keeper.stdout.readline() or b"null") or {}
            if not answer:
                raise BrokenPipeError("no answer")
            if answer["number"] == message[0]:  # else it answers a call that Ctrl-C interrupted
                return answer
