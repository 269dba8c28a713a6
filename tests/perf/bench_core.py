"""How fast the core decides, without an API server.

    python -m tests.perf.bench_core [--nodes 100,1000,5000]

Prints decisions per second and microseconds per decision for plain pods, and milliseconds per
preemption decision with few and with many pods on a node. Each figure is the best of several
rounds, so that a busy machine disturbs it less; beside it stands the ratio to a calibration loop
that was timed in the same process, which is what to compare between machines.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from scheduler.config import load
from scheduler.core.machine import Machine
from scheduler.model.decisions import Placed, Preempting
from scheduler.model.events import EffectDone, NodeObserved, PodObserved
from scheduler.model.objects import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    PodStatus,
    ResourceRequirements,
)
from scheduler.plugins import registry
from scheduler.state.backoff import Backoff

ROUNDS = 7
PLAIN_PODS = 200
PREEMPTORS = 8
STARTED = "2026-01-01T00:00:00Z"


def node(name: str) -> Node:
    labels = {"kubernetes.io/hostname": name}
    allocatable = {"cpu": "32", "memory": "64Gi", "pods": "110"}
    return Node(ObjectMeta(name=name, labels=labels), status=NodeStatus(allocatable))


def pod(name: str, cpu: str, *, priority: int = 0, on: str = "") -> Pod:
    requests = ResourceRequirements({"cpu": cpu, "memory": "128Mi"})
    return Pod(
        ObjectMeta(name=name, namespace="default", uid=name),
        PodSpec(
            node_name=on,
            scheduler_name="preemptive-scheduler",
            priority=priority,
            containers=[Container(name="c", image="pause", resources=requests)],
        ),
        PodStatus(phase="Running", start_time=STARTED) if on else PodStatus(phase="Pending"),
    )


def machine(nodes: int) -> Machine:
    made = Machine(registry.profiles(load.defaults()), Backoff())
    for index in range(nodes):
        made.observe(NodeObserved(node(f"node-{index}")), 0.0)
    return made


def calibration() -> float:
    """Time a fixed mix of Python and numpy work, in seconds."""
    numbers = np.arange(5000)
    begun = time.perf_counter()
    total = 0
    for turn in range(2000):
        total += int((numbers >= turn).sum()) + len(str(turn))
    assert total > 0
    return (time.perf_counter() - begun) / 2000


def rounds(one: Callable[[], float]) -> float:
    return min(one() for _ in range(ROUNDS))


def plain(nodes: int) -> float:
    """Return seconds per decision for pods of one class that fit."""
    made = machine(nodes)
    serial = iter(range(10**9))

    def one() -> float:
        for _ in range(PLAIN_PODS):
            made.observe(PodObserved(pod(f"plain-{next(serial)}", "100m")), 0.0)
        begun = time.perf_counter()
        attempts = [made.step(0.0) for _ in range(PLAIN_PODS)]
        seconds = time.perf_counter() - begun
        assert all(each and isinstance(each.decision, Placed) for each in attempts)
        return seconds / PLAIN_PODS

    one()
    return rounds(one)


def preemption(nodes: int, pods_per_node: int) -> float:
    """Return seconds per preemption decision, its effects' outcomes included."""
    made = machine(nodes)
    cpu = f"{31_000 // pods_per_node}m"
    for index in range(nodes):
        for place in range(pods_per_node):
            low = pod(f"low-{index}-{place}", cpu, on=f"node-{index}")
            made.observe(PodObserved(low), 0.0)
    serial = iter(range(10**9))

    def one() -> float:
        for _ in range(PREEMPTORS):
            made.observe(PodObserved(pod(f"high-{next(serial)}", "20", priority=10)), 0.0)
        begun = time.perf_counter()
        for _ in range(PREEMPTORS):
            attempt = made.step(0.0)
            assert attempt is not None
            assert isinstance(attempt.decision, Preempting)
            for effect in attempt.effects:
                made.observe(EffectDone(effect), 0.0)
        return (time.perf_counter() - begun) / PREEMPTORS

    one()
    return rounds(one)


def report(sizes: list[int]) -> Iterator[str]:
    unit = min(calibration() for _ in range(5))
    yield f"calibration loop: {unit * 1e6:.1f} us a turn"
    for nodes in sizes:
        seconds = plain(nodes)
        yield (
            f"{nodes:>6} nodes  plain            {seconds * 1e6:8.0f} us a decision"
            f"  {1 / seconds:8.0f}/s  ratio {seconds / unit:6.1f}"
        )
        for pods_per_node in (4, 30):
            if nodes == 100 and pods_per_node == 4:
                # Eight rounds of eight preemptors need more nodes than that.
                continue
            seconds = preemption(nodes, pods_per_node)
            yield (
                f"{nodes:>6} nodes  preemption, {pods_per_node:>2}/node {seconds * 1e3:7.2f} ms a "
                f"decision  {1 / seconds:8.0f}/s  ratio {seconds / unit:6.1f}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", default="100,1000,5000", help="default: 100,1000,5000")
    sizes = [int(size) for size in parser.parse_args().nodes.split(",")]
    for line in report(sizes):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
