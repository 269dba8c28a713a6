"""Creates the cluster of a workload once, as the data of etcd, and restores it for each run.

So each run begins with a new etcd and a new API server with the same objects.
"""

import asyncio
import json
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import uvloop

from deploy.tools.bench import devices, measure
from deploy.tools.bench.calls import Call, connected, get, post, send, send_all
from deploy.tools.bench.templates import csi_node
from deploy.tools.bench.workloads import Workload, pods_path
from deploy.tools.controlplane.api import ApiError
from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.components import Settings
from scheduler.kube.http.http1 import Http1

__all__ = ["create", "restored"]

#: Without controllers and kubelets. As in kube-scheduler's benchmark, pods may name a priority
#: without a class.
SETTINGS: Final = Settings(
    controllers=False, kwok=False, admission_off=("Priority",), start_seconds=120.0
)

#: The API server is idle if it uses less than this share of a core for these seconds.
IDLE_SHARE: Final = 0.1
IDLE_SECONDS: Final = 0.4
#: Timeouts until it is idle, and until its caches are filled.
IDLE_LIMIT_SECONDS: Final = 30.0
CACHE_LIMIT_SECONDS: Final = 120.0

_ETCD_GRACE_SECONDS: Final = 10.0


def create(workload: Workload, snapshot: Path) -> None:
    """Create the cluster of a workload, and copy the data of etcd into a new folder."""
    with ControlPlane(SETTINGS) as cluster:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_create(cluster.admin_kubeconfig, workload))
        cluster.stop("kube-apiserver", 0)
        cluster.stop("etcd", _ETCD_GRACE_SECONDS)
        shutil.copytree(cluster.folder / "etcd", snapshot)


def restored(snapshot: Path) -> ControlPlane:
    """Return a control plane with the data of a folder; `with` starts it."""
    cluster = ControlPlane(SETTINGS)
    try:
        shutil.copytree(snapshot, cluster.folder / "etcd")
    except BaseException:
        cluster.close()
        raise
    return cluster


def settle(cluster: ControlPlane) -> None:
    """Wait until the API server serves pods from its cache and is idle."""
    _await_cache(cluster)
    pid = cluster.pid("kube-apiserver")
    deadline = time.monotonic() + IDLE_LIMIT_SECONDS
    while time.monotonic() < deadline:
        before = measure.cpu_seconds(pid)
        time.sleep(IDLE_SECONDS)
        if measure.cpu_seconds(pid) - before < IDLE_SHARE * IDLE_SECONDS:
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


async def _create(kubeconfig: Path, workload: Workload) -> None:
    nodes = workload.node_bodies()
    names = [node["metadata"]["name"] for node in nodes]
    async with connected(kubeconfig) as http:
        await send_all(http, ([each] for each in _namespaces(workload)))
        await send_all(http, workload.objects)
        await send_all(http, ([post("/api/v1/nodes", node)] for node in nodes))
        if workload.csi:
            path = "/apis/storage.k8s.io/v1/csinodes"
            await send_all(http, ([post(path, csi_node(name, workload.csi))] for name in names))
        await send_all(http, pod_jobs(workload, names))
        if workload.claims:
            await _create_claims(http, workload)


async def _create_claims(http: Http1, workload: Workload) -> None:
    """Create the claims of the measured pods, whose uids the API server has chosen."""
    for namespace in {batch.namespace for batch in workload.measured}:
        listing = json.loads(await send(http, get(pods_path(namespace))))
        await send_all(http, devices.generated_claims(listing["items"]))


def _namespaces(workload: Workload) -> Iterator[Call]:
    for name in workload.namespace_names():
        labels = dict(workload.namespaces.get(name, {}))
        yield post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})


def pod_jobs(workload: Workload, nodes: Sequence[str]) -> Iterator[list[Call]]:
    """Yield the calls that create each pod; nodes are assigned round-robin over all batches."""
    first = 0
    for batch in (*workload.existing, *workload.measured):
        yield from batch.jobs(nodes, first)
        if batch.per_node:
            first += -(-batch.count // batch.per_node)
