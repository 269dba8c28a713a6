"""What the flight recorder costs for a plain pod, all of its threads included.

    python -m tests.perf.bench_recording

The scheduler's loop places pods on 5,000 nodes without an API server: watch events are decoded from
bytes, and bindings are answered as one would. Rounds with and without the recorder take turns in
one process, so that other work of the computer distorts both alike. Prints CPU time per pod.
"""

import argparse
import asyncio
import gc
import io
import operator
import statistics
import sys
import tempfile
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop
from prometheus_client import CollectorRegistry

from scheduler.config import load
from scheduler.kube.watch.decoding import WatchDecoder, WatchEvent
from scheduler.model.api.objects import Pod
from scheduler.model.effects import Bind, Effect
from scheduler.model.events import EffectDone, PodObserved
from scheduler.observe.logs.logs import Logs
from scheduler.observe.metrics.metrics import Metrics
from scheduler.observe.recorder.recorder import Recorder
from scheduler.observe.recorder.segments import SegmentFolder
from scheduler.service.clock import Clock
from scheduler.service.loop import Loop
from scheduler.service.recording import Recording
from scheduler.service.telemetry import Telemetry
from tests.perf.core_cases import machine

#: Pods that are created at once, and answers that come at once.
BACKLOG, ANSWERS = 500, 8
PROCESS: Final = "0000abcd"
OURS: Final = "preemptive-scheduler"
#: Until the thread has written everything.
SETTLE_SECONDS: Final = 0.3


def line(number: int, node: str = "") -> bytes:
    """Return what the API server sends of a pod of the workload Basic: created, or bound."""
    name, amounts = f"pod-{number}", {"cpu": "10m", "memory": "10Mi"}
    kinds = ("default-token", "pause", "resources", "requests", "limits", "ports", "status")
    managed = {f"f:{kind}": {".": {}, f"f:{kind}-{index}": {}} for index, kind in enumerate(kinds)}
    entry = {"manager": "bench", "operation": "Update", "apiVersion": "v1", "fieldsV1": managed}
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": None}
    container = {
        "name": "pause", "image": "pause", "imagePullPolicy": "Always",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "resources": {"requests": amounts, "limits": amounts},
        "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
    }  # fmt: skip
    pod = {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name, "namespace": "bench", "uid": str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
            "resourceVersion": str(100_000 + 2 * number + bool(node)), "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [entry],
        },
        "spec": {
            "containers": [container], "restartPolicy": "Always", "dnsPolicy": "ClusterFirst",
            "terminationGracePeriodSeconds": 30, "securityContext": {}, "schedulerName": OURS,
            "tolerations": [
                {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute",
                 "tolerationSeconds": 300}
                for key in ("not-ready", "unreachable")
            ],
            "priority": 0, "enableServiceLinks": True, "preemptionPolicy": "PreemptLowerPriority",
            **({"nodeName": node} if node else {}),
        },
        "status": {
            "phase": "Pending", "qosClass": "Guaranteed",
            **({"conditions": [scheduled]} if node else {}),
        },
    }  # fmt: skip
    return msgspec.json.encode({"type": "MODIFIED" if node else "ADDED", "object": pod})


class Bench:
    """A loop, and a stand-in for the API server that answers it."""

    def __init__(self, folder: Path, nodes: int) -> None:
        clock = Clock()
        kept = SegmentFolder(folder, 64 << 20, 3600.0, PROCESS)
        kept.open()
        self.recorder = Recorder(kept)
        self.recorder.start()
        recording = Recording(self.recorder, PROCESS, folder, clock)
        recording.begin(load.defaults(), evict_only=False)
        logs = Logs(io.BytesIO(), clock.wall)
        telemetry = Telemetry(Metrics(CollectorRegistry()), logs)
        self.loop = Loop(machine(nodes), self._submit, clock, telemetry, recording)
        self._record = self.loop._append_record
        self._sent: deque[Effect] = deque()
        self._decoder = WatchDecoder(Pod)
        self._bound = 0
        self._changed: list[bytes] = []

    def _submit(self, effect: Effect) -> None:
        self._sent.append(effect)

    def switch(self, *, on: bool) -> None:
        """Record from now on, or not."""
        self.loop._append_record = self._record if on else None

    async def place(self, lines: list[list[bytes]], total: int) -> None:
        """Create pods, and answer until all are bound."""
        for part in lines:
            self._observe(part)
        wanted = self._bound + total
        while self._bound < wanted or self._sent:
            for _ in range(min(ANSWERS, len(self._sent))):
                self._answer(self._sent.popleft())
            changed, self._changed = self._changed, []
            if changed:
                self._observe(changed)
            await asyncio.sleep(0)

    def _answer(self, effect: Effect) -> None:
        asyncio.get_running_loop().call_soon(self.loop.outcome, EffectDone(effect))
        if isinstance(effect, Bind):
            self._bound += 1
            self._changed.append(line(int(effect.pod.name.removeprefix("pod-")), effect.node))

    def _observe(self, lines: list[bytes]) -> None:
        notices: list[Any] = [self._decoder.decode(each) for each in lines]
        assert all(isinstance(each, WatchEvent) for each in notices)
        self.loop.observe([PodObserved(each.object) for each in notices])


@asynccontextmanager
async def running(folder: Path, nodes: int) -> AsyncIterator[Bench]:
    """Run the loop."""
    bench = Bench(folder, nodes)
    gc.collect()
    gc.freeze()
    bench.loop.start_deciding()
    task = asyncio.create_task(bench.loop.run())
    yield bench
    task.cancel()
    await asyncio.wait([task])
    bench.recorder.stop()


async def measure(rounds: int, pods: int, nodes: int) -> None:
    """Print what rounds cost."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    walls: dict[bool, list[float]] = {True: [], False: []}
    with tempfile.TemporaryDirectory() as folder:
        async with running(Path(folder), nodes) as bench:
            for turn in range(2 * (rounds + 1)):
                on = turn % 4 in (1, 2)
                bench.switch(on=on)
                first = turn * pods
                every = [line(number) for number in range(first, first + pods)]
                parts = [every[begin : begin + BACKLOG] for begin in range(0, pods, BACKLOG)]
                await asyncio.sleep(SETTLE_SECONDS)
                begun, wall = time.process_time(), time.perf_counter()
                await bench.place(parts, pods)
                walls[on].append((time.perf_counter() - wall) / pods)
                await asyncio.sleep(SETTLE_SECONDS)
                seconds[on].append((time.process_time() - begun) / pods)
            size = bench.recorder.size
    for kept in (*seconds.values(), *walls.values()):
        del kept[0]  # warms up
    _report("CPU", seconds)
    _report("elapsed", walls)
    sys.stdout.write(f"bytes per pod: {size / (rounds + 1) / pods:.0f}\n")


def _report(name: str, seconds: dict[bool, list[float]]) -> None:
    """Print the quiet rounds, a tenth of them, and the middle of the ratios of neighbours."""
    quiet = {on: statistics.quantiles(each, n=10)[0] * 1e6 for on, each in seconds.items()}
    ratio = statistics.median(map(operator.truediv, seconds[True], seconds[False]))
    sys.stdout.write(
        f"{name} us per pod: {quiet[False]:.1f} without, {quiet[True]:.1f} with,"
        f" {quiet[True] - quiet[False]:.1f} more ({quiet[True] / quiet[False]:.3f});"
        f" middle of ratios {ratio:.3f}\n"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--pods", type=int, default=250)
    parser.add_argument("--nodes", type=int, default=5000)
    options = parser.parse_args()
    uvloop.run(measure(options.rounds, options.pods, options.nodes))


if __name__ == "__main__":
    main()
