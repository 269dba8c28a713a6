"""Answers what-ifs about the live state in separate processes, so that scheduling continues.

A process is started for the first request and ended after some idle minutes. Two what-ifs are
answered at a time, one of each caller, and a few requests wait; further ones are refused. Each has
a deadline, after which its process is killed; so is a process that misbehaves in any way.

Everything here runs in the serving thread, except for the feed.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

import msgspec

from scheduler.core.snapshot.copying import MachineCopy
from scheduler.observe.api.requests import NameAccess, StatusError
from scheduler.observe.pages.statuses import status
from scheduler.observe.pages.what_if import SchedulerLoop, WhatIfReply
from scheduler.service import spawn, what_if_feed, what_if_memory
from scheduler.service.recording import CopyError
from scheduler.service.what_if_worker import HEAD, Refusal
from scheduler.sim.what_if_cluster import State
from scheduler.sim.what_if_request import MAX_BYTES

__all__ = ["WhatIf", "WhatIfLimits"]


class WhatIfLimits(msgspec.Struct, frozen=True):
    """Limits on what all requests together may use."""

    #: Requests that are decided at a time, and that wait for that.
    at_once: int = 2
    waiting: int = 4
    #: How long a request may wait, and how long it may be decided.
    waiting_seconds: float = 20.0
    deciding_seconds: float = 30.0
    #: How long a process is kept without a request.
    idle_seconds: float = 120.0
    #: The memory of one process, where the container has that much left.
    memory_bytes: int = 2 << 30


#: Seconds after which a refused caller may come again.
_RETRY_AFTER: Final = 5
#: The longest message of a process: the answer about 10,000 pods.
_MAX_MESSAGE: Final = 256 << 20
_CHUNK: Final = 1 << 16
_MODULE: Final = "scheduler.service.what_if_start"

#: Returns the state of the scheduler without a snapshot, and a copy of its machine.
Feed = Callable[[], Awaitable[tuple[State, MachineCopy]]]


class _BrokenError(Exception):
    """The process has ended or answered nonsense."""


class _TooLittleMemoryError(Exception):
    """The container has too little memory left for a what-if."""


class WhatIf:
    """The page of what-ifs.

    Attributes:
        max_bytes: The largest body.
    """

    def __init__(
        self,
        feed: Feed,
        log: Callable[..., object],
        not_ready: Callable[[], str | None],
        limits: WhatIfLimits | None = None,
        budget: Callable[[int], int | None] = what_if_memory.budget,
    ) -> None:
        """Create it without a process.

        Args:
            feed: Returns the state; called in the scheduler's loop.
            log: Logs an event with fields; called in the scheduler's loop.
            not_ready: Returns why the state is not complete; `None` if it is.
            limits: Limits on requests.
            budget: Returns the memory that all processes may have together; see there.
        """
        self.max_bytes: Final = MAX_BYTES
        self._feed = feed
        self._log = log
        self._not_ready = not_ready
        self._limits = limits or WhatIfLimits()
        self._budget = budget
        self._callers: set[str] = set()
        self._slots: asyncio.Semaphore | None = None
        self._idle: list[_Worker] = []
        self._busy: set[_Worker] = set()
        self._is_closed = False

    def admit(self, caller: str) -> "_Admission | WhatIfReply":
        """Return a place for a caller, or a refusal where there is none."""
        problem = "the scheduler is stopping" if self._is_closed else self._not_ready()
        if problem is not None:
            return _refusal(503, "ServiceUnavailable", problem)
        if caller in self._callers:
            return _refusal(
                429, "TooManyRequests", "another plan of this caller is already running"
            )
        if len(self._callers) >= self._limits.at_once + self._limits.waiting:
            return _refusal(429, "TooManyRequests", "too many concurrent plan requests")
        return _Admission(self, caller)

    async def close(self) -> None:
        """End all processes."""
        self._is_closed = True
        for worker in (*self._idle, *self._busy):
            await worker.kill()
        self._idle.clear()

    async def decide(
        self, scheduler_loop: SchedulerLoop, body: bytes, content_type: str, names: NameAccess
    ) -> WhatIfReply:
        """Answer a request that has a place."""
        limits = self._limits
        if self._slots is None:
            self._slots = asyncio.Semaphore(limits.at_once)
        try:
            async with asyncio.timeout(limits.waiting_seconds):
                await self._slots.acquire()
        except TimeoutError:
            return _refusal(429, "TooManyRequests", "too many concurrent plan requests")
        try:
            return await self._decided(scheduler_loop, content_type.encode() + b"\n" + body, names)
        except _TooLittleMemoryError as error:
            return _refusal(503, "ServiceUnavailable", str(error))
        finally:
            self._slots.release()

    async def _decided(
        self, scheduler_loop: SchedulerLoop, query: bytes, names: NameAccess
    ) -> WhatIfReply:
        try:
            worker = await self._take()
        except OSError as error:
            scheduler_loop.call_soon(partial(self._log, "what_if_not_started", problem=str(error)))
            return _refusal(503, "ServiceUnavailable", "the process for plans cannot be started")
        is_usable = False
        try:
            async with asyncio.timeout(self._limits.deciding_seconds):
                reply = await worker.ask(scheduler_loop, self._feed, query, names, self._log)
        except TimeoutError:
            seconds = self._limits.deciding_seconds
            return _refusal(
                503, "ServiceUnavailable", f"the plan takes longer than {seconds:g} seconds"
            )
        except StatusError as error:
            return _refusal(error.code, error.reason, error.message)
        except (_BrokenError, OSError) as error:
            fields = {"problem": str(error), "exit_code": worker.returncode}
            scheduler_loop.call_soon(partial(self._log, "what_if_failed", **fields))
            return _refusal(503, "ServiceUnavailable", "the process for plans has ended")
        else:
            is_usable = True
            return reply
        finally:
            await self._put_back(worker, is_usable=is_usable)

    async def _take(self) -> "_Worker":
        """Return a process with the memory that it may have, a new one if none is idle.

        Raises:
            OSError: None can be started.
            _TooLittleMemoryError: It would have too little.
        """
        worker = None
        while worker is None and self._idle:
            worker = self._idle.pop()
            worker.stop_waiting()
            if worker.returncode is not None:
                await worker.kill()
                worker = None
        memory = self._share(worker)
        while memory < what_if_memory.LEAST_BYTES and self._idle:
            await self._idle.pop().kill()
            memory = self._share(worker)
        if memory < what_if_memory.LEAST_BYTES:
            if worker is not None:
                await worker.kill()
            raise _TooLittleMemoryError(
                f"the container has {memory >> 20} MiB of memory left for a plan, and the least is"
                f" {what_if_memory.LEAST_BYTES >> 20} MiB; try again later, or raise its limit"
            )
        worker = worker or await _Worker.start(self._limits.memory_bytes)
        worker.memory = memory
        self._busy.add(worker)
        return worker

    def _share(self, worker: "_Worker | None") -> int:
        """Return the memory that a process may have for the next request, in bytes."""
        idle = sum(each.held for each in self._idle)
        busy = sum(each.held for each in self._busy)
        total = self._budget(idle + busy + (0 if worker is None else worker.held))
        if total is None:
            return self._limits.memory_bytes
        taken = idle + sum(each.memory for each in self._busy)
        share = what_if_memory.share(total, self._limits.at_once, taken)
        return max(0, min(self._limits.memory_bytes, share))

    async def _put_back(self, worker: "_Worker", *, is_usable: bool) -> None:
        self._busy.discard(worker)
        if not is_usable or self._is_closed:
            await worker.kill()
            return
        self._idle.append(worker)
        worker.wait_idle(self._limits.idle_seconds, self._idle)

    # Places

    def hold(self, caller: str) -> None:
        """Hold the place of a caller."""
        self._callers.add(caller)

    def give_up(self, caller: str) -> None:
        """Give up the place of a caller."""
        self._callers.discard(caller)


class _Admission:
    """The place of one caller."""

    def __init__(self, page: WhatIf, caller: str) -> None:
        self._page = page
        self._caller = caller

    def __enter__(self) -> "_Admission":
        self._page.hold(self._caller)
        return self

    def __exit__(self, *_: object) -> None:
        self._page.give_up(self._caller)

    async def answer(
        self, scheduler_loop: SchedulerLoop, body: bytes, content_type: str, names: NameAccess
    ) -> WhatIfReply:
        """Answer a request."""
        return await self._page.decide(scheduler_loop, body, content_type, names)


class _Worker:
    """One process."""

    def __init__(self, process: spawn.Child) -> None:
        self._process = process
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        #: What it may have for its request, in bytes.
        self.memory = 0

    @classmethod
    async def start(cls, memory: int) -> "_Worker":
        """Start a process, which never has more memory than that, in bytes.

        Raises:
            OSError: It cannot be started.
        """
        program = (sys.executable, "-I", "-m", _MODULE, str(memory))
        return cls(await spawn.start(program, _environment()))

    @property
    def returncode(self) -> int | None:
        """The exit code; `None` while it runs."""
        return self._process.returncode

    @property
    def held(self) -> int:
        """The memory that it has and shares with no other process, in bytes."""
        return what_if_memory.held(self._process.pid)

    async def ask(
        self,
        scheduler_loop: SchedulerLoop,
        feed: Feed,
        query: bytes,
        names: NameAccess,
        log: Callable[..., object],
    ) -> WhatIfReply:
        """Pass a request on; return the answer or the refusal.

        Raises:
            _BrokenError: The process does not answer as it should.
            OSError: It has ended.
        """
        await self._send(b"C", b"%d\n" % self.memory + query)
        tag, body = await self._receive()
        if tag == b"R":
            try:
                state = await scheduler_loop.run(feed)
            except CopyError as error:
                raise _BrokenError(str(error)) from error
            for part in what_if_feed.parts(*state):
                await self._send(b"S", part)
                await asyncio.sleep(what_if_feed.PAUSE_SECONDS)
            await self._send(b"E", b"")
            tag, body = await self._receive()
        if tag == b"N":
            wanted = msgspec.json.decode(body, type=list[str])
            visible = await scheduler_loop.run(lambda: names.visible(wanted))
            allowed = [name for name in wanted if name in visible]
            await self._send(b"V", msgspec.json.encode(allowed))
            tag, body = await self._receive()
        if tag == b"A":
            return WhatIfReply(200, body)
        if tag != b"X":
            raise _BrokenError(f"unexpected message {tag!r}")
        refusal = msgspec.json.decode(body, type=Refusal)
        if refusal.trace:
            fields = {"problem": refusal.message, "trace": refusal.trace}
            scheduler_loop.call_soon(partial(log, "what_if_failed", **fields))
        return _refusal(refusal.code, refusal.reason, refusal.message)

    async def _send(self, tag: bytes, body: bytes) -> None:
        writer = self._process.writer
        writer.write(HEAD.pack(len(body), tag[0]))
        # Large bodies are written piece by piece: what does not fit into the socket is copied.
        for start in range(0, len(body), _CHUNK):
            writer.write(body[start : start + _CHUNK])
            await writer.drain()
        await writer.drain()

    async def _receive(self) -> tuple[bytes, bytes]:
        reader = self._process.reader
        try:
            length, tag = HEAD.unpack(await reader.readexactly(HEAD.size))
            # This process takes as much, of the quarter that the processes for what-ifs leave.
            if length > min(_MAX_MESSAGE, self.memory // 4):
                raise _BrokenError("the answer is too long")
            return bytes([tag]), await reader.readexactly(length)
        except asyncio.IncompleteReadError as error:
            raise _BrokenError("the process has ended") from error

    def wait_idle(self, seconds: float, idle: "list[_Worker]") -> None:
        """End the process when it has been idle for some time."""

        def end() -> None:
            self._timer = None
            if self in idle:
                idle.remove(self)
                self._ending = asyncio.ensure_future(self.kill())

        self._timer = asyncio.get_running_loop().call_later(seconds, end)

    def stop_waiting(self) -> None:
        """Do not end the process for being idle: it has a request."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def kill(self) -> None:
        """End the process at once."""
        self.stop_waiting()
        await self._process.kill()


def _environment() -> dict[str, str]:
    """Return the environment of a process: nothing of ours, and one thread for arrays."""
    threads = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
    return dict.fromkeys(threads, "1")


def _refusal(code: int, reason: str, message: str) -> WhatIfReply:
    retry = _RETRY_AFTER if code == 429 else 0
    return WhatIfReply(code, status(code, reason, message), retry)
