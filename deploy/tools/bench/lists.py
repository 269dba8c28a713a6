"""Measures the start of a scheduler in a cluster with many pods, while etcd compacts its history.

Pods are bound and large, as real ones are. The first comes through the API; the others are copies
of it in etcd, with a name and uid of their own, because creating 150,000 pods through an API server
takes most of an hour on two cores. The API server reads them as its own.
"""

import base64
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from deploy.tools.controlplane.api import ApiError
from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.components import Settings

__all__ = ["WAYS", "measure"]

#: Feature gates and flags of the API server by what becomes of a list. Without its cache the pages
#: of a list depend on the history in etcd, and expire.
WAYS: Final[dict[str, tuple[dict[str, bool], dict[str, str]]]] = {
    "pages": ({}, {}),
    "pages-then-stream": ({}, {"watch-cache": "false"}),
    "pages-then-pages": ({"WatchList": False}, {"watch-cache": "false"}),
}
PODS_PER_NODE: Final = 30
#: Objects in a transaction of etcd: below its limit of 1.5 MiB and of 128 operations.
COPIES: Final = 64
#: What the scheduler keeps of a pod, at least. History is compacted when it has a quarter of that.
KEPT_BYTES: Final = 3000
PATIENCE_SECONDS: Final = 1800.0


def measure(
    pods: int, pod_bytes: int, way: str, tell: Callable[[str], None], *, compacts: bool = True
) -> None:
    """Start a control plane with pods, then a scheduler; print what its start took.

    Args:
        pods: How many there are.
        pod_bytes: The size of each as JSON.
        way: One of `WAYS`.
        tell: Prints a line.
        compacts: Whether history is compacted after the first part of the list.
    """
    gates, flags = WAYS[way]
    settings = Settings(
        controllers=False,
        kwok=False,
        feature_gates=gates,
        flags={"etcd": {"quota-backend-bytes": str(32 << 30)}, "kube-apiserver": flags},
        start_seconds=300.0,
    )
    with ControlPlane(settings) as plane:
        plane.create_nodes(-(-pods // PODS_PER_NODE))
        begun = time.perf_counter()
        size = _fill(plane, pods, pod_bytes)
        tell(f"{pods} pods of {size} bytes in etcd after {time.perf_counter() - begun:.0f} s")
        _until(lambda: _has_read(plane))
        _start(plane, pods, tell, compacts=compacts)


def _start(plane: ControlPlane, pods: int, tell: Callable[[str], None], *, compacts: bool) -> None:
    command: list[str | Path] = [sys.executable, "-m", "scheduler.cli.main", "run", "--kubeconfig"]
    command += [plane.admin_kubeconfig, "--secure-port=0", "--leader-elect=false"]
    begun, busy = time.perf_counter(), _cpu_seconds(plane.pid("kube-apiserver"))
    log = plane.run("scheduler", command, {**os.environ, "PYTHONPATH": str(Path.cwd())})
    pid = plane.pid("scheduler")

    def logged(event: str) -> bool:
        return event in log.read_text() or plane.exit_code("scheduler") is not None

    _until(lambda: logged('"serving"'))
    enough = _memory(pid, "VmRSS") + pods * KEPT_BYTES // 4
    if compacts:
        _until(lambda: _memory(pid, "VmRSS") > enough or logged("caches_synced"))
        plane.api.delete("/api/v1/namespaces/default/pods/list-000000", {"gracePeriodSeconds": 0})
        plane.compact_etcd()
        tell(f"history compacted after {time.perf_counter() - begun:.1f} s")
    _until(lambda: logged("caches_synced"))
    seconds = time.perf_counter() - begun
    for line in log.read_text().splitlines():
        if any(word in line for word in ("watch_interrupted", '"pods"', "caches_synced")):
            tell(line[:300])
    tell(
        f"synced after {seconds:.1f} s, with {_cpu_seconds(pid):.1f} s of CPU here and"
        f" {_cpu_seconds(plane.pid('kube-apiserver')) - busy:.1f} s in the API server"
    )
    peaks = [_memory(plane.pid(each), "VmHWM") >> 20 for each in ("scheduler", "kube-apiserver")]
    tell(f"RSS at most {peaks[0]} MiB here and {peaks[1]} MiB in the API server")
    plane.stop("scheduler")


def _fill(plane: ControlPlane, pods: int, pod_bytes: int) -> int:
    """Create pods `list-000000`, ...; return the size of one as JSON."""
    path = "/api/v1/namespaces/default/pods"
    made = plane.api.post(path, _pod(pod_bytes))
    status = {"phase": "Running", "startTime": made["metadata"]["creationTimestamp"]}
    name, uid = made["metadata"]["name"], made["metadata"]["uid"]
    plane.api.patch(f"{path}/{name}/status", {"status": status})
    key = f"/registry/pods/default/{name}".encode()
    found = plane.etcd("kv/range", {"key": _text(key)})["kvs"][0]
    value, node = base64.b64decode(found["value"]), b"node-000000"

    def copies() -> Iterator[list[tuple[bytes, bytes]]]:
        for begin in range(1, pods, COPIES):
            yield [
                (
                    key[:-6] + b"%06d" % number,
                    value.replace(name.encode(), b"list-%06d" % number)
                    .replace(uid.encode(), uid[:-6].encode() + b"%06d" % number)
                    .replace(node, b"node-%06d" % (number // PODS_PER_NODE)),
                )
                for number in range(begin, min(begin + COPIES, pods))
            ]

    def put(batch: list[tuple[bytes, bytes]]) -> None:
        puts = [{"requestPut": {"key": _text(one), "value": _text(two)}} for one, two in batch]
        plane.etcd("kv/txn", {"success": puts})

    # Not all batches exist at once.
    bound = threading.Semaphore(8)
    with ThreadPoolExecutor(4) as pool:
        pending = []
        for batch in copies():
            bound.acquire()
            pending.append(pool.submit(put, batch))
            pending[-1].add_done_callback(lambda _: bound.release())
        for each in pending:
            each.result()
    return len(json.dumps(plane.api.get(f"{path}/{name}")))


def _has_read(plane: ControlPlane) -> bool:
    """Return whether the API server has read what is in etcd."""
    revision = plane.etcd("maintenance/status", {})["header"]["revision"]
    fresh = {"resourceVersion": revision, "resourceVersionMatch": "NotOlderThan"}
    try:
        plane.api.get("/api/v1/pods", limit="1", **fresh)
    except ApiError:
        return False
    return True


def _pod(size: int) -> dict[str, Any]:
    containers = [
        {
            "name": name,
            "image": f"registry.example/team/{name}:1",
            "env": [{"name": f"E{number}", "value": "v" * 40} for number in range(15)],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        }
        for name in (("app", "proxy") if size > 5000 else ("app",))
    ]
    spec = {"nodeName": "node-000000", "schedulerName": "other", "containers": containers}
    metadata = {"name": "list-000000", "labels": {"app": "a", "team": "t"}}
    padding = size - len(json.dumps(spec)) - 4200
    return {
        "metadata": {**metadata, "annotations": {"padding": "x" * max(0, padding)}},
        "spec": spec,
    }


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _cpu_seconds(pid: int) -> float:
    """Return the CPU time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _memory(pid: int, name: str) -> int:
    """Return a figure of `/proc/PID/status` in bytes; 0 of a process that has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) << 10 for line in lines if line.startswith(name)), 0)


def _until(holds: Callable[[], object]) -> None:
    """Wait until something holds.

    Raises:
        TimeoutError: It took far too long.
    """
    deadline = time.perf_counter() + PATIENCE_SECONDS
    while not holds():
        if time.perf_counter() > deadline:
            raise TimeoutError
        time.sleep(0.05)
