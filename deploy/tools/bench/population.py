"""The cluster of a workload: created once, kept as etcd's files, restored for each run.

Each run so begins with a fresh etcd and a fresh API server that hold the very same objects.
"""

import asyncio
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import uvloop

from deploy.tools.bench import measure
from deploy.tools.bench.templates import csi_node
from deploy.tools.bench.wire import Call, post, send_all
from deploy.tools.bench.workloads import Workload
from deploy.tools.controlplane.api import ApiError, endpoint
from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.components import Settings
from deploy.tools.controlplane.transport import Endpoint

__all__ = ["create", "restored"]

#: Without controllers and kubelets. As in kube-scheduler's benchmark, pods may name a priority
#: without a class.
SETTINGS: Final = Settings(
    controllers=False, kwok=False, admission_off=("Priority",), start_seconds=120.0
)

#: The API server is at rest when it takes less than this share of a core for so long.
REST_SHARE: Final = 0.1
REST_SECONDS: Final = 0.4
#: How long it may take to come to rest, and to fill its caches.
REST_LIMIT_SECONDS: Final = 30.0
CACHE_LIMIT_SECONDS: Final = 120.0

_ETCD_GRACE_SECONDS: Final = 10.0


def create(workload: Workload, snapshot: Path) -> None:
    """Create the cluster of a workload and keep etcd's files in a folder, which must not exist."""
    with ControlPlane(SETTINGS) as cluster:
        at = endpoint(cluster.admin_kubeconfig)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_create(at, workload))
        cluster.stop("kube-apiserver", 0)
        cluster.stop("etcd", _ETCD_GRACE_SECONDS)
        shutil.copytree(cluster.folder / "etcd", snapshot)


def restored(snapshot: Path) -> ControlPlane:
    """Return a control plane with the kept objects, not started yet; `with` starts it."""
    cluster = ControlPlane(SETTINGS)
    try:
        shutil.copytree(snapshot, cluster.folder / "etcd")
    except BaseException:
        cluster.close()
        raise
    return cluster


def settle(cluster: ControlPlane) -> None:
    """Wait until the API server serves pods from its cache and has nothing else to do."""
    _await_cache(cluster)
    pid = cluster.pid("kube-apiserver")
    deadline = time.monotonic() + REST_LIMIT_SECONDS
    while time.monotonic() < deadline:
        before = measure.cpu_seconds(pid)
        time.sleep(REST_SECONDS)
        if measure.cpu_seconds(pid) - before < REST_SHARE * REST_SECONDS:
            return


def _await_cache(cluster: ControlPlane) -> None:
    deadline = time.monotonic() + CACHE_LIMIT_SECONDS
    for resource in ("pods", "nodes"):
        while True:
            try:
                cluster.api.get(f"/api/v1/{resource}", limit="1", resourceVersion="0")
                break
            except ApiError as error:
                if error.status != 429 or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)


async def _create(at: Endpoint, workload: Workload) -> None:
    nodes = workload.node_bodies()
    names = [node["metadata"]["name"] for node in nodes]
    await send_all(at, ([each] for each in _namespaces(workload)))
    await send_all(at, ([each] for each in workload.objects))
    await send_all(at, ([post("/api/v1/nodes", node)] for node in nodes))
    if workload.csi:
        path = "/apis/storage.k8s.io/v1/csinodes"
        await send_all(at, ([post(path, csi_node(name, workload.csi))] for name in names))
    await send_all(at, pod_jobs(workload, names))


def _namespaces(workload: Workload) -> Iterator[Call]:
    for name in workload.namespace_names():
        labels = dict(workload.namespaces.get(name, {}))
        yield post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})


def pod_jobs(workload: Workload, nodes: Sequence[str]) -> Iterator[list[Call]]:
    """Yield the calls that create each pod; those that run are dealt out over all batches."""
    first = 0
    for batch in (*workload.existing, *workload.measured):
        yield from batch.jobs(nodes, first)
        if batch.per_node:
            first += -(-batch.count // batch.per_node)
