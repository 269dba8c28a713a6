"""The process that answers what-ifs: it reads requests, simulates them, and has no credentials.

The live scheduler starts it, by `what_if_start`, with a socket as standard input and output. It
ends when its input ends.

Messages have four bytes of length, one byte that says what they are, and a body:

    scheduler  C the memory that it may take in bytes, content type and body of the request
    worker     R the request can be read: the state is wanted
    scheduler  S a part of the state, repeated; E the end of it
    worker     N the namespaces of the pods in the answer, as JSON
    scheduler  V those of them that the caller may see
    worker     A the answer, as JSON

In place of R, N and A the worker may send X, a refusal, as JSON.
"""

import contextlib
import gc
import resource
import struct
import sys
import traceback
from typing import BinaryIO, Final

import msgspec

from scheduler.model.rest.what_if import WhatIfRequest
from scheduler.service.what_if_feed import Received
from scheduler.sim import what_if_request
from scheduler.sim.hiding import hide, namespaces
from scheduler.sim.manifests import ManifestError
from scheduler.sim.what_if import decided
from scheduler.sim.what_if_request import TooLargeError
from scheduler.sim.workloads import TooManyPodsError

__all__ = ["HEAD", "Refusal", "main"]

HEAD: Final = struct.Struct(">IB")
#: CPU seconds of one request.
_CPU_SECONDS: Final = 30


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
    """Answer requests until the input ends."""
    pipe = _Pipe(sys.stdin.buffer, sys.stdout.buffer)
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            _serve(pipe)
            gc.collect()


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
    memory, _, body = body.partition(b"\n")
    # A limit below what it has already only refuses more.
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (int(memory), most))
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
    except (EOFError, ConnectionError):
        raise
    except Exception as error:  # noqa: BLE001 - the scheduler logs it
        text = f"the plan failed: {type(error).__name__}"
        refusal = Refusal(500, "InternalError", text, traceback.format_exc())
    else:
        return
    pipe.send(b"X", msgspec.json.encode(refusal))


def _answer(pipe: _Pipe, body: bytes) -> None:
    content_type, _, content = body.partition(b"\n")
    request: WhatIfRequest = what_if_request.read(content, content_type.decode())
    pipe.send(b"R")
    received = Received()
    while (message := pipe.receive())[0] == b"S":
        received.take(message[1])
    answer, about = decided(received.state(), request)
    pipe.send(b"N", msgspec.json.encode(sorted(namespaces(answer, about))))
    visible = frozenset(msgspec.json.decode(pipe.receive()[1], type=list[str]))
    pipe.send(b"A", msgspec.json.encode(hide(answer, visible.__contains__, about)))
