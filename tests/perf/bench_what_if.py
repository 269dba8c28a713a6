"""How long plans hold up the scheduler's loop, on the wall clock, while pods are scheduled.

    python -m tests.perf.bench_what_if

A loop like the live one decides for pods in slices of two milliseconds, and pods come and go. Plans
are asked for over HTTP, one after the other: good ones, bad ones, and one whose process is killed.
It prints the longest pause between two turns of the loop without plans and with plans, in turns:
by wall clock; without the time in which the loop's thread could run and had no CPU, as the kernel
counts it; and the CPU time of this process in it. What remains when the second is large and the
third small is waiting for the interpreter lock. Where the wall clock without plans is no better,
other work on the machine is to blame. The least disturbed round decides about the exit code.
"""

import asyncio
import contextlib
import gc
import io
import itertools
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import aiohttp
import structlog
import uvloop

from scheduler.core.machine import Machine
from scheduler.model.api import pod_changes
from scheduler.model.api.objects import Pod
from scheduler.model.effects import Bind
from scheduler.model.events import EffectDone, PodGone, PodObserved
from scheduler.observe.pages.routes import Document, Routes
from scheduler.observe.server import access
from scheduler.observe.server.listen import Listen
from scheduler.observe.server.web import Web
from scheduler.service import what_if_feed
from scheduler.service.clock import Clock
from scheduler.service.what_if import WhatIf
from tests.perf.core_cases import pod
from tests.perf.feed_cases import SETTINGS, full_state
from tests.perf.policy_cases import NOW

SECONDS: Final = 8.0
ROUNDS: Final = 4
SLICE: Final = 0.002
#: New pods a second, and how many of them stay.
RATE, KEPT = 400, 200
LIMIT_MS: Final = 5.0


class Scheduling:
    """Decides for pods that come and go, and notes the pauses of the loop."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._numbers = itertools.count()
        self._pods: dict[str, Pod] = {}
        self.pauses: list[float] = []
        #: The pauses without waiting for a CPU.
        self.held: list[float] = []
        #: The pauses as far as threads of this process used the CPU meanwhile.
        self.own: list[float] = []
        self.decided = 0

    def clear(self) -> None:
        """Forget what was noted."""
        self.pauses, self.held, self.own, self.decided = [], [], [], 0

    async def run(self) -> None:
        """Go on until cancelled; each turn is a slice."""
        begun = time.perf_counter()
        made = 0
        waited = waiting_for_cpu()
        while True:
            before, used, delayed = time.perf_counter(), time.process_time(), waited()
            await asyncio.sleep(0)
            now = time.perf_counter()
            self.pauses.append(now - before)
            self.held.append(max(0.0, now - before - (waited() - delayed)))
            self.own.append(min(now - before, time.process_time() - used))
            await asyncio.sleep(0.0005)
            while made < (now - begun) * RATE:
                made += 1
                new = pod(f"new-{next(self._numbers)}", "10m")
                self._machine.observe(PodObserved(new), NOW)
                self._pods[new.uid] = new
            self._slice(now + SLICE)

    def _slice(self, end: float) -> None:
        while self._machine.ready() and time.perf_counter() < end:
            attempt = self._machine.step(NOW)
            if attempt is None:
                return
            self.decided += 1
            for effect in attempt.effects:
                if isinstance(effect, Bind):
                    bound = self._pods[effect.pod.uid]
                    self._machine.observe(EffectDone(effect), NOW)
                    self._machine.observe(PodObserved(pod_changes.bound(bound, effect.node)), NOW)
        while len(self._pods) > KEPT:
            gone = self._pods.pop(next(iter(self._pods)))
            self._machine.observe(PodGone(gone.key, gone.uid), NOW)


def waiting_for_cpu() -> Callable[[], float]:
    """Return what returns for how long this thread could run and had no CPU, in seconds.

    It returns 0 where the kernel does not count that.
    """
    try:
        file = os.open(f"/proc/self/task/{threading.get_native_id()}/schedstat", os.O_RDONLY)
    except OSError:
        return lambda: 0.0
    return lambda: int(os.pread(file, 100, 0).split()[1]) / 1e9


def body(serial: int) -> tuple[Any, str]:
    """Return one of several bodies, with its content type."""
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    template = {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [container]}}
    deployment = {
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"d{serial}"},
        "spec": {"replicas": 20, "template": template},
    }  # fmt: skip
    kinds = (
        (json.dumps({"objects": [deployment]}), "application/json"),
        (json.dumps({"drain": [f"node-{serial % 5000}"]}), "application/json"),
        ("a: [", "application/yaml"),
        (json.dumps({"objects": [deployment], "settle": False}), "application/json"),
        ("x" * (10 << 20), "application/json"),
    )
    return kinds[serial % len(kinds)]


async def ask(port: int) -> None:
    """Ask for plans for some seconds, and print the number of answers by status."""
    codes: dict[int, int] = {}
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(SECONDS), aiohttp.ClientSession() as session:
            for serial in itertools.count():
                data, kind = body(serial)
                url = f"http://127.0.0.1:{port}/api/v1/plan"
                headers = {"Content-Type": kind}
                sent = io.BytesIO(data.encode())
                code = 0
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.post(url, data=sent, headers=headers) as response:
                        await response.read()
                        code = response.status
                codes[code] = codes.get(code, 0) + 1
    found = ", ".join(f"{code}: {number}" for code, number in sorted(codes.items()))
    sys.stdout.write(f"{'':15} answers by status: {found}\n")
    sys.stdout.flush()


async def kill(page: WhatIf) -> None:
    """Kill the process once, whatever it does."""
    await asyncio.sleep(SECONDS * 0.7)
    for worker in (*page._idle, *page._busy):
        os.kill(worker._process.pid, signal.SIGKILL)


async def told(name: str, scheduling: Scheduling) -> float:
    """Print the pauses so far, and forget them; return the longest without waiting for a CPU."""
    pauses, held, own = (
        sorted(1e3 * each for each in kind)
        for kind in (scheduling.pauses, scheduling.held, scheduling.own)
    )
    place = int(len(pauses) * 0.999)
    sys.stdout.write(
        f"{name:15} longest {pauses[-1]:6.2f} ms, {held[-1]:5.2f} ms without waiting for a CPU,"
        f" {own[-1]:5.2f} ms our CPU;"
        f" 99.9 % {pauses[place]:5.2f} ms, {scheduling.decided / SECONDS:5.0f} pods/s\n"
    )
    sys.stdout.flush()
    await asyncio.sleep(0.05)  # the pause that this function has caused is over
    scheduling.clear()
    return held[-1]


def check(answers: str) -> None:
    """Print the answers of a round; without a plan among them it says nothing."""
    sys.stdout.write(answers)
    if " 200:" not in answers:
        raise SystemExit("no plan was answered: is the package installed in this environment?")


async def measure() -> float:
    """Return the longest pause with plans in milliseconds, of the least disturbed round."""
    machine = full_state()
    clock = Clock()
    page = WhatIf(
        lambda: what_if_feed.parts(machine, SETTINGS, lambda: NOW, evict_only=False),
        lambda *_, **__: None,
        lambda: None,
    )
    nothing = Document("Statusz", "it", "", {})
    pages = Routes(
        metrics=lambda _: (b"", "text/plain"), configz=dict,
        flagz=lambda: nothing, statusz=lambda: nothing, plan=page,
    )  # fmt: skip
    web = Web(pages, structlog.get_logger(), access.allow_all)
    await web.start(Listen(plain=True), clock.wall, socket.create_server(("127.0.0.1", 0)))
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.perf.bench_what_if", str(web.port),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert client.stdin is not None
    assert client.stdout is not None
    scheduling = Scheduling(machine)
    running = asyncio.create_task(scheduling.run())
    gc.collect()
    gc.freeze()
    await asyncio.sleep(1.0)
    scheduling.clear()
    longest = []
    for _ in range(ROUNDS):
        await asyncio.sleep(SECONDS)
        await told("without plans", scheduling)
        killing = asyncio.create_task(kill(page))
        client.stdin.write(b"go\n")
        answers = await client.stdout.readline()
        longest.append(await told("with plans", scheduling))
        check(answers.decode())
        await killing
    client.stdin.close()
    await client.wait()
    running.cancel()
    await web.close()
    return min(longest)


def main() -> int:
    if len(sys.argv) > 1:
        for _ in sys.stdin:
            asyncio.run(ask(int(sys.argv[1])))
        return 0
    longest = uvloop.run(measure())
    return int(longest > LIMIT_MS)


if __name__ == "__main__":
    raise SystemExit(main())
