"""One run: a restored cluster, one scheduler, and measurements from outside."""

import asyncio
import contextlib
import hashlib
import json
import os
import shutil
import time
from collections import Counter
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import uvloop

from deploy.tools.bench import measure, snapshots, statistics, verify
from deploy.tools.bench.calls import Refused, checked, connected, get, send
from deploy.tools.bench.cases import Size
from deploy.tools.bench.contenders import Contender
from deploy.tools.bench.observer import Observer, decode
from deploy.tools.bench.results import Result, Window, environment
from deploy.tools.bench.workloads import Churn, Workload, is_pod_deletion
from deploy.tools.controlplane.api import ApiClient
from deploy.tools.controlplane.cluster import ControlPlane
from scheduler.kube.http.http1 import Http1, Incoming

__all__ = ["Plan", "play"]

#: Seconds between two samples of the CPU time of the processes.
SAMPLE_SECONDS: Final = 0.1
#: Seconds between two counts of Events, and how long the count must be stable: not long if there is
#: an Event for each pod, longer if some may have been dropped.
EVENT_SECONDS: Final = 0.1
QUIET_SECONDS: Final = 1.0
DROPPED_SECONDS: Final = 8.0
#: Timeout for the last Event, after the last binding.
EVENTS_SECONDS: Final = 600.0

#: The part of an idle run that is not measured.
SETTLING: Final = 0.5

#: Timeout of the watch: longer than any run.
_WATCH_SECONDS: Final = 7200

_PAGE: Final = "2000"


@dataclass(frozen=True)
class Plan:
    """The inputs of a run."""

    workload: Workload
    size: Size
    contender: Contender
    number: int
    #: The folder with the code of this scheduler.
    code: Path

    def fingerprint(self) -> str:
        """Return a fingerprint of the inputs of the run."""
        load = self.workload
        shape = [
            [load.name, self.size, load.limit_seconds, load.kind],
            [group.count for group in load.nodes],
            [[batch.count, batch.per_node, batch.pod(1)] for batch in load.existing[:5]],
            [[batch.count, batch.pod(1)] for batch in load.measured],
        ]
        digest = hashlib.sha256(json.dumps(shape, sort_keys=True).encode())
        return f"{digest.hexdigest()[:16]}-{self.contender.fingerprint(self.code)}"


def play(plan: Plan, snapshot: Path, log: Path | None = None) -> Result:
    """Do a run; problems are part of the result.

    Args:
        plan: the inputs.
        snapshot: the data of etcd with the cluster of the workload.
        log: path for the scheduler's log if the run does not count.
    """
    with snapshots.restored(snapshot) as cluster:
        snapshots.settle(cluster)
        load_average = os.getloadavg()[0]
        before = measure.api_calls(cluster.api)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            seen = runner.run(_Run(cluster, plan).watch())
        calls = measure.api_calls(cluster.api)
        plan.contender.stop(cluster)
        calls.subtract(before)
        seen.problems += _verified(cluster.api, plan, seen.observer)
        if log is not None and seen.problems:
            log.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(cluster.log(plan.contender.name), log)
    return _result(plan, seen, +calls, load_average)


@dataclass
class _Seen:
    """The measurements of a run; times are on the monotonic clock."""

    observer: Observer
    began: float = 0.0
    finished: float = 0.0
    #: CPU seconds by component, sampled.
    cpu: list[tuple[float, dict[str, float]]] = field(default_factory=list)
    #: CPU seconds of the reference loop, sampled.
    loops: list[tuple[float, float]] = field(default_factory=list)
    peak_rss_bytes: int = 0
    events: int = 0
    #: How often the watch was interrupted.
    cuts: int = 0
    #: Number of writes of the benchmark, and of deletions of pods among them.
    own_writes: int = 0
    own_deletions: int = 0
    problems: list[str] = field(default_factory=list)


class _Run:
    """The part of a run in which the scheduler runs."""

    def __init__(self, cluster: ControlPlane, plan: Plan) -> None:
        self._cluster = cluster
        self._plan = plan
        self._pids = {name: cluster.pid(name) for name in ("kube-apiserver", "etcd")}
        self._seen = _Seen(Observer(plan.workload.measured_keys()))

    async def watch(self) -> _Seen:
        """Start the scheduler and watch until all pods are bound or the time is over."""
        workload, seen = self._plan.workload, self._seen
        kubeconfig = self._cluster.admin_kubeconfig
        async with connected(kubeconfig) as http, asyncio.TaskGroup() as group:
            stream = await self._open(http)
            self._pids["scheduler"] = self._start()
            seen.began = time.monotonic()
            background: list[Coroutine[Any, Any, None]] = [
                self._read(http, stream),
                self._sample(),
            ]
            tasks = [group.create_task(each) for each in background]
            churns = [group.create_task(self._churn(http, each)) for each in workload.churns]
            await self._until_bound()
            for churn in churns:
                churn.cancel()
            if workload.kind != "idle":
                await self._until_events_written(http)
            self._take_sample()
            seen.peak_rss_bytes = self._peak()
            for task in tasks:
                task.cancel()
        return seen

    def _start(self) -> int:
        plan = self._plan
        return plan.contender.start(self._cluster, plan.workload, plan.code)

    async def _until_bound(self) -> None:
        """Wait until all measured pods are bound, the scheduler has ended or the time is over."""
        workload, seen = self._plan.workload, self._seen
        ends = {
            asyncio.create_task(self._await_end()),
            asyncio.create_task(seen.observer.all_bound.wait()),
        }
        limit = workload.limit_seconds
        done, waiting = await asyncio.wait(ends, timeout=limit, return_when=asyncio.FIRST_COMPLETED)
        seen.finished = time.monotonic()
        for each in waiting:
            each.cancel()
        if not done and workload.kind != "idle":
            seen.problems.append(f"{len(seen.observer.bound)} pods had a node after {limit:g} s")

    async def _await_end(self) -> None:
        """Wait for the end of the scheduler, which is an error."""
        name = self._plan.contender.name
        while (code := self._cluster.exit_code(name)) is None:
            await asyncio.sleep(0.5)
        text = self._cluster.log(name).read_text(errors="replace")
        self._seen.problems.append(f"{name} ended with {code}: {text[-2000:]}")

    async def _until_events_written(self, http: Http1) -> None:
        """Wait until no more Events are written."""
        seen = self._seen
        seen.finished = max(seen.observer.bound.values(), default=seen.finished)
        changed = time.monotonic()
        limit = changed + EVENTS_SECONDS
        patience = DROPPED_SECONDS
        while time.monotonic() < min(changed + patience, limit):
            listing = await _get(http, "/api/v1/events?limit=1")
            remaining = listing["metadata"].get("remainingItemCount", 0)
            count = len(listing["items"]) + remaining
            if count != seen.events:
                changed = time.monotonic()
                if seen.events:  # Events before the first count may be old
                    seen.finished = changed
                seen.events = count
                enough = count >= self._plan.workload.pod_count()
                patience = QUIET_SECONDS if enough else DROPPED_SECONDS
            await asyncio.sleep(EVENT_SECONDS)

    async def _open(self, http: Http1) -> Incoming:
        """Start to watch pods, from now or after the last change that was seen."""
        version = self._seen.observer.version
        if not version:
            listing = await _get(http, "/api/v1/pods?limit=1")
            version = listing["metadata"]["resourceVersion"]
        query = f"watch=true&resourceVersion={version}&timeoutSeconds={_WATCH_SECONDS}"
        call = get(f"/api/v1/pods?{query}")
        stream = await http.stream(call.path, call.headers, _WATCH_SECONDS)
        checked(call, stream.status, b"")
        return stream

    async def _read(self, http: Http1, stream: Incoming) -> None:
        """Pass every change to the observer; the API server ends watches that are too slow."""
        while True:
            with contextlib.closing(stream):
                await self._see_all(stream)
            self._seen.cuts += 1
            stream = await self._open(http)

    async def _see_all(self, stream: Incoming) -> None:
        rest = b""
        while chunk := await stream.read():
            now = time.monotonic()
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._seen.observer.see(decode(line), now)

    async def _sample(self) -> None:
        while True:
            self._take_sample()
            await asyncio.sleep(SAMPLE_SECONDS)

    def _take_sample(self) -> None:
        used = {}
        for name, pid in self._pids.items():
            with contextlib.suppress(OSError):  # it has ended
                used[name] = measure.cpu_seconds(pid)
        if len(used) == len(self._pids):
            used["benchmark"] = time.process_time()
            used["machine"] = measure.machine_seconds()
            used["stolen"] = measure.stolen_seconds()
            self._seen.cpu.append((time.monotonic(), used))
        self._seen.loops.append((time.monotonic(), measure.loop_seconds()))

    def _peak(self) -> int:
        try:
            return measure.peak_rss_bytes(self._pids["scheduler"])
        except OSError:
            return 0

    async def _churn(self, http: Http1, churn: Churn) -> None:
        if churn.after == "attempted":
            await self._seen.observer.all_tried.wait()
        began, tick = time.monotonic(), 0
        while churn.ticks is None or tick < churn.ticks:
            for call in churn.calls(tick):
                self._seen.own_writes += 1
                with contextlib.suppress(Refused):  # as upstream, which ignores errors here
                    await send(http, call)
                    self._seen.own_deletions += is_pod_deletion(call)
            tick += 1
            await asyncio.sleep(max(began + tick * churn.every_seconds - time.monotonic(), 0))


async def _get(http: Http1, path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(await send(http, get(path)))
    return found


def _verified(api: ApiClient, plan: Plan, observer: Observer) -> list[str]:
    """Return the problems of the result."""
    cluster = verify.Cluster(
        nodes=_pages(api, "/api/v1/nodes"),
        pods=_pages(api, "/api/v1/pods"),
        namespaces=_pages(api, "/api/v1/namespaces"),
        csi_nodes=_pages(api, "/apis/storage.k8s.io/v1/csinodes") if plan.workload.csi else (),
        claims=_pages(api, "/apis/resource.k8s.io/v1/resourceclaims"),
    )
    measured = plan.workload.measured_keys()
    ruled = plan.contender.keeps_rules
    found = verify.problems(cluster, measured) if ruled else verify.lost(cluster, measured)
    return observer.problems[: verify.TOLD] + found


def _pages(api: ApiClient, path: str) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = []
    query = {"limit": _PAGE}
    while True:
        listing = api.get(path, **query)
        items += listing["items"] or []
        if not listing["metadata"].get("continue"):
            return items
        query["continue"] = listing["metadata"]["continue"]


def _result(plan: Plan, seen: _Seen, calls: Counter[str], load_average: float) -> Result:
    bound = sorted(seen.observer.bound.values())
    if plan.workload.kind == "idle":
        first = seen.began + plan.workload.limit_seconds * SETTLING
    else:
        first = seen.observer.first_write or seen.finished
        if plan.workload.kind == "bind" and bound:
            first = bound[0]
    at_first = statistics.interpolated(seen.cpu, first)
    at_end = statistics.interpolated(seen.cpu, seen.finished)
    at_start = seen.cpu[0][1]
    stolen = at_end.pop("stolen") - at_first["stolen"]
    loops = [took for at, took in seen.loops if first <= at <= seen.finished]
    return Result(
        workload=plan.workload.name,
        size=plan.size,
        contender=plan.contender.name,
        run=plan.number,
        fingerprint=plan.fingerprint(),
        environment=environment(),
        load_average=load_average,
        loop_seconds=statistics.middle(loops) if loops else 0.0,
        stolen_seconds=stolen,
        pods=plan.workload.pod_count(),
        problems=seen.problems,
        bound=[round(each - seen.began, 4) for each in bound],
        first_write=round(first - seen.began, 4),
        finished=round(seen.finished - seen.began, 4),
        cpu={
            name: Window(start=at_first[name] - at_start[name], work=at_end[name] - at_first[name])
            for name in at_end
        },
        peak_rss_bytes=seen.peak_rss_bytes,
        calls=dict(sorted(calls.items())),
        writes=measure.writes(calls) - seen.own_writes,
        events=seen.events,
        cuts=seen.cuts,
        deleted=max(len(seen.observer.gone) - seen.own_deletions, 0),
    )
