"""The process that answers `what if`: it reads requests, decides them in memory, and has no rights.

The live scheduler starts it with pipes as standard input and output. It runs at a low
priority, with limits on memory and CPU time, and ends when its input ends.

Messages have four bytes of length, one byte that says what they are, and a body:

    scheduler  C content type and body of the request
    worker     R the request can be read: the state is wanted
    scheduler  S a part of the state, repeated; E the end of it
    worker     N the namespaces of the pods in the answer, as JSON
    scheduler  V those of them that the caller may see
    worker     A the answer, as JSON

In place of R, N and A the worker may send X, a refusal, as JSON.
"""

import contextlib
import ctypes
import gc
import os
import resource
import signal
import struct
import sys
import traceback
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from scheduler.model.rest.plans import PlanRequest
from scheduler.service.what_if_feed import Received
from scheduler.sim import plan_request
from scheduler.sim.hiding import hide, namespaces
from scheduler.sim.manifests import ManifestError
from scheduler.sim.plan_request import TooLargeError
from scheduler.sim.what_if import decided
from scheduler.sim.workloads import TooManyPodsError

__all__ = ["HEAD", "Refusal", "main"]

HEAD: Final = struct.Struct(">IB")
#: CPU seconds of one request.
_CPU_SECONDS: Final = 30
_PR_SET_PDEATHSIG: Final = 1
#: A tenth of the CPU time of the scheduler, where both want all of it.
_NICENESS: Final = 10


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is not answered."""

    code: int
    reason: str
    message: str
    #: For the log of the scheduler; the caller does not see it.
    trace: str = ""


class _Pipe:
    """Messages over two files."""

    def __init__(self, source: BinaryIO, target: BinaryIO) -> None:
        self._source = source
        self._target = target

    def receive(self) -> tuple[bytes, bytes]:
        """Return the next message.

        Raises:
            EOFError: There is none any more.
        """
        head = self._source.read(HEAD.size)
        if len(head) < HEAD.size:
            raise EOFError
        length, tag = HEAD.unpack(head)
        body = self._source.read(length)
        if len(body) < length:
            raise EOFError
        return bytes([tag]), body

    def send(self, tag: bytes, body: bytes = b"") -> None:
        """Send a message."""
        self._target.write(HEAD.pack(len(body), tag[0]) + body)
        self._target.flush()


def main() -> None:
    """Answer requests until the input ends. The first argument is the limit of memory in bytes."""
    _limit(int(sys.argv[1]))
    pipe = _Pipe(sys.stdin.buffer, sys.stdout.buffer)
    with contextlib.suppress(EOFError, BrokenPipeError):
        while True:
            _serve(pipe)
            gc.collect()


def _limit(memory: int) -> None:
    """Give up what is not needed, and bound the rest."""
    with contextlib.suppress(OSError, AttributeError):
        # The kernel ends this process with its parent.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(OSError):
        # Rather this process than the scheduler, if memory runs out.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    os.nice(_NICENESS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def _limit_time() -> None:
    """Let the kernel end this process if the next request takes too much CPU time."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft = int(used.ru_utime + used.ru_stime) + _CPU_SECONDS
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _serve(pipe: _Pipe) -> None:
    """Answer one request."""
    tag, body = pipe.receive()
    assert tag == b"C", tag
    _limit_time()
    refusal: Refusal
    try:
        _answer(pipe, body)
    except (TooLargeError, TooManyPodsError) as error:
        refusal = Refusal(413, "RequestEntityTooLarge", str(error))
    except ManifestError as error:
        refusal = Refusal(400, "BadRequest", str(error))
    except MemoryError:
        gc.collect()
        refusal = Refusal(503, "ServiceUnavailable", "the plan needs more memory than it may use")
    except (EOFError, BrokenPipeError):
        raise
    except Exception as error:  # noqa: BLE001 - the scheduler logs it
        text = f"the plan failed: {type(error).__name__}"
        refusal = Refusal(500, "InternalError", text, traceback.format_exc())
    else:
        return
    pipe.send(b"X", msgspec.json.encode(refusal))


def _answer(pipe: _Pipe, body: bytes) -> None:
    content_type, _, content = body.partition(b"\n")
    request: PlanRequest = plan_request.read(content, content_type.decode())
    pipe.send(b"R")
    received = Received()
    while (message := pipe.receive())[0] == b"S":
        received.take(message[1])
    answer, about = decided(received.state(), request)
    pipe.send(b"N", msgspec.json.encode(sorted(namespaces(answer, about))))
    visible = frozenset(msgspec.json.decode(pipe.receive()[1], type=list[str]))
    pipe.send(b"A", msgspec.json.encode(hide(answer, visible.__contains__, about)))


if __name__ == "__main__":
    main()
