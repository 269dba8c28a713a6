"""How much memory pods and nodes take, without an API server.

    python -m tests.perf.bench_memory [--nodes 5000] [--pods 150000] [MIX ...]

Lists pods page by page, as an informer does, and gives them to the machine. Prints, for each mix of
`tests/support/memory_mixes`, the resident memory of a process of its own: that without objects,
that with the nodes, and that with the pods, at the end and at its peak.
"""

import argparse
import gc
import multiprocessing
import re
import resource
import sys
import tracemalloc
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

import msgspec

from scheduler.core.machine import Machine
from scheduler.kube.watch.decoding import PageDecoder
from scheduler.kube.watch.informer_settings import InformerSettings
from scheduler.kube.watch.known_objects import KnownObjects
from scheduler.kube.watch.resources import NODES, PODS, ApiResource
from scheduler.model.events import Event
from tests.perf.core_cases import machine
from tests.support.memory_mixes import MIXES, node

__all__ = ["bytes_each", "listed"]

_MIB: Final = 1 << 20


class _Silent:
    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def pages(resource: ApiResource[Any], objects: Iterator[Any]) -> Iterator[bytes]:
    """Yield objects as the pages of a list."""
    size = InformerSettings().page_objects
    while some := [item for _, item in zip(range(size), objects, strict=False)]:
        page = {"kind": f"{resource.kind}List", "metadata": {"resourceVersion": "1"}}
        yield msgspec.json.encode(page | {"items": some})


def listed(into: Machine, resource: ApiResource[Any], bodies: Iterator[bytes]) -> KnownObjects[Any]:
    """List objects into a machine; return what the informer keeps of them."""
    decoder = PageDecoder(resource.type, resource.kind)
    known: KnownObjects[Any] = KnownObjects(resource, _Silent())
    for body in bodies:
        events: list[Event] = []
        for each in decoder.decode(body).objects:
            known.observe(each, events)
        for event in events:
            into.observe(event, 0.0)
    return known


def bytes_each(mix: str, pods: int, nodes: int) -> float:
    """Return what Python allocates for each pod of a mix, in bytes."""
    cluster = machine(0)
    known = [listed(cluster, NODES, pages(NODES, map(node, range(nodes))))]
    bodies = [*pages(PODS, map(MIXES[mix], range(pods)))]
    gc.collect()
    tracemalloc.start(1)
    try:
        known.append(listed(cluster, PODS, iter(bodies)))
        gc.collect()
        return tracemalloc.get_traced_memory()[0] / pods
    finally:
        tracemalloc.stop()


def _resident() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    found = re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE)
    assert found is not None
    return int(found[1]) << 10


def _received(pipe: Connection) -> Iterator[bytes]:
    while body := pipe.recv_bytes():
        yield body


def _measure(pipe: Connection) -> None:
    """Send what is resident: without objects, with the nodes and with the pods, and the most."""
    import scheduler.service.process  # noqa: F401 - what a replica has loaded

    cluster, known, found = machine(0), [], []
    for kind in (None, NODES, PODS):
        if kind is not None:
            known.append(listed(cluster, kind, _received(pipe)))
        gc.collect()
        found.append(_resident())
    pipe.send((*found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10))


def _measured(mix: str, pods: int, nodes: int) -> tuple[int, ...]:
    """Have another process measure; pages are made here, where they cost it no memory."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_measure, args=(theirs,))
    process.start()
    for kind, objects in ((NODES, map(node, range(nodes))), (PODS, map(MIXES[mix], range(pods)))):
        for body in pages(kind, objects):
            ours.send_bytes(body)
        ours.send_bytes(b"")
    found: tuple[int, ...] = ours.recv()
    process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mixes", nargs="*", metavar="MIX", default=[*MIXES])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=150_000)
    options = parser.parse_args()
    nodes, pods = options.nodes, options.pods
    for mix in options.mixes:
        empty, with_nodes, with_pods, most = _measured(mix, pods, nodes)
        each_node = (with_nodes - empty) / nodes / 1000
        each_pod = (with_pods - with_nodes) / pods / 1000
        sys.stdout.write(
            f"{mix}: {empty / _MIB:.0f} MiB, {each_node:.1f} kB for each of {nodes:,} nodes and"
            f" {each_pod:.1f} kB for each of {pods:,} pods: {with_pods / _MIB:.0f} MiB,"
            f" at most {most / _MIB:.0f} MiB\n"
        )
        sys.stdout.flush()


if __name__ == "__main__":
    main()
