"""Starts a process while the other threads of this one continue.

`subprocess` and `os.posix_spawn` keep the interpreter lock until the new process runs its program:
no thread of this process does anything until the kernel has found CPU time for the new one. A call
through `ctypes` releases the lock. Nothing of this process is copied, so its size does not matter.
"""

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["Child", "start"]

_C: Final = ctypes.CDLL(None)
#: More than `posix_spawn_file_actions_t` takes: 80 bytes with glibc and musl, 8 on macOS.
_ACTIONS_BYTES: Final = 512
_FIRST_OTHER: Final = 3
#: How often a process that was killed is looked at until it has ended.
_LOOK_SECONDS: Final = 0.005


class Child:
    """A process with a socket as its standard input and output. Used in one event loop.

    Attributes:
        pid: Its process id.
        reader: What it writes.
        writer: What it reads.
    """

    def __init__(
        self, pid: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self.pid: Final = pid
        self.reader: Final = reader
        self.writer: Final = writer
        self._code: int | None = None

    @property
    def returncode(self) -> int | None:
        """The exit code, negative for a signal; `None` while it runs."""
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                # It has ended. How is not known where SIGCHLD is ignored, as some parents leave it.
                self._code = 0
            else:
                self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    async def kill(self) -> None:
        """End it at once, and wait for the end."""
        if self.returncode is None:
            os.kill(self.pid, signal.SIGKILL)
        self.writer.close()
        while self.returncode is None:
            await asyncio.sleep(_LOOK_SECONDS)


async def start(
    program: Sequence[str], environment: Mapping[str, str], errors: str = os.devnull
) -> Child:
    """Start a process.

    Args:
        program: The path of the executable, and the arguments.
        environment: All variables that it gets.
        errors: The file to which it writes its errors.

    Raises:
        OSError: It cannot be started.
    """
    ours, theirs = socket.socketpair()
    with theirs:
        reader, writer = await asyncio.open_connection(sock=ours)
        # Nothing is awaited from here on: a caller that is cancelled would never wait for it.
        try:
            pid = _spawn(program, environment, theirs.fileno(), errors)
        except OSError:
            writer.close()
            await writer.wait_closed()
            raise
    return Child(pid, reader, writer)


def _spawn(
    program: Sequence[str], environment: Mapping[str, str], channel: int, errors: str
) -> int:
    pid, actions = ctypes.c_int(), ctypes.create_string_buffer(_ACTIONS_BYTES)
    _checked(_C.posix_spawn_file_actions_init(actions))
    try:
        for target in (0, 1):
            _checked(_C.posix_spawn_file_actions_adddup2(actions, channel, target))
        name = os.fsencode(errors)
        _checked(_C.posix_spawn_file_actions_addopen(actions, 2, name, os.O_WRONLY, 0))
        # Python's own files are closed anyway; others may have been inherited from our parent.
        with contextlib.suppress(AttributeError):  # a C library without it
            _checked(_C.posix_spawn_file_actions_addclosefrom_np(actions, _FIRST_OTHER))
        variables = [f"{name}={value}" for name, value in environment.items()]
        path = os.fsencode(program[0])
        _checked(
            _C.posix_spawn(
                ctypes.byref(pid), path, actions, None, _strings(program), _strings(variables)
            )
        )
    finally:
        _C.posix_spawn_file_actions_destroy(actions)
    return pid.value


def _strings(texts: Sequence[str]) -> "ctypes.Array[ctypes.c_char_p]":
    """Return an array of C strings that ends with a null pointer."""
    return (ctypes.c_char_p * (len(texts) + 1))(*map(os.fsencode, texts), None)


def _checked(error: int) -> None:
    """Raise what a call has returned, unless it has succeeded."""
    if error:
        raise OSError(error, os.strerror(error))
