"""The debug pages: what the scheduler knows, and why a pod is pending.

They only read. Long pages are made in parts, so that they do not block the loop. `/debug/pods`
evaluates one pod again, which takes as long as an attempt, and never two pods at a time.

Axes: N nodes.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, TypeAlias

import msgspec

from scheduler.core.attempt.node_results import NodeResult
from scheduler.core.attempt.scheduling_attempt import AttemptResult
from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.model.times import Seconds
from scheduler.observe.api.explanation import EVALUATED, turn
from scheduler.observe.api.queue_views import found
from scheduler.observe.api.rejections import grouped
from scheduler.observe.pages import json_stream
from scheduler.observe.pages.snapshot import snapshot
from scheduler.queue.phases import QueuePhase
from scheduler.queue.scheduling_queue import QueuedPod

__all__ = ["Debug"]


#: Returns a page, or what returns it when it is awaited.
Page: TypeAlias = Callable[[Mapping[str, str]], object]


class Debug:
    """The pages about one machine.

    Args:
        machine: The machine that they show.
        now: Returns the machine's time.
    """

    def __init__(self, machine: Machine, now: Callable[[], Seconds]) -> None:
        self._machine = machine
        self._now = now
        self._evaluating = asyncio.Lock()

    def pages(self) -> dict[str, Page]:
        """Return the pages by path."""
        return {
            "/debug/queue": self._queue,
            "/debug/nodes": self._nodes,
            "/debug/pods/{namespace}/{name}": self._pod,
            "/debug/snapshot": lambda _: snapshot(self._machine, self._now()),
        }

    def _queue(self, query: Mapping[str, str]) -> AsyncGenerator[bytes]:
        """Return all pods of the queue, in the order of arrival; `?phase=` selects one phase.

        Raises:
            ValueError: There is no such phase.
        """
        wanted = QueuePhase(query["phase"]) if "phase" in query else None
        queue = self._machine.queue
        head = msgspec.json.encode({"lengths": queue.lengths()})[:-1] + b',"pods":[\n'

        def encode(queued: QueuedPod) -> bytes | None:
            if queued.phase is QueuePhase.REMOVED or wanted not in (None, queued.phase):
                return None
            return msgspec.json.encode(self._waiting(queued))

        return json_stream.listed(head, list(queue), encode, b"\n]}\n")

    def _nodes(self, _query: Mapping[str, str]) -> AsyncGenerator[bytes]:
        """Return what each node has, and what its pods request."""
        columns = self._machine.cluster.columns
        names = [node.metadata.name for node in columns.nodes if node is not None]
        return json_stream.listed(b'{"nodes":[\n', names, self._node, b"\n]}\n")

    def _node(self, name: str) -> bytes | None:
        cluster = self._machine.cluster
        columns = cluster.columns
        row, node = columns.row(name), columns.node(name)
        if row is None or node is None:
            return None
        resources: dict[str, dict[str, int]] = {}
        for resource, resource_name in enumerate(cluster.axis.values):
            allocatable = int(columns.allocatable(resource)[row])
            requested = int(columns.requested(resource)[row])
            if allocatable or requested:
                amounts = {"allocatable": allocatable, "requested": requested}
                resources[resource_name] = amounts
        return msgspec.json.encode(
            {
                "name": name,
                "resourceVersion": node.metadata.resource_version,
                "unschedulable": node.spec.unschedulable,
                "pods": int(columns.pods()[row]),
                "allowedPods": int(columns.allowed_pods()[row]),
                "nominated": [claim.pod.key for claim in cluster.nominations.on_node(name)],
                "resources": resources,
            }
        )

    async def _pod(self, query: Mapping[str, str]) -> object:
        """Return why a pod is pending: its state in the queue, and the verdict of each node now.

        Raises:
            LookupError: It is not in the queue.
        """
        namespace, name = query["namespace"], query["name"]
        queued = await found(self._machine, namespace, name)
        if queued is None:
            raise LookupError(f'pod "{namespace}/{name}" is not in the queue of this scheduler')
        state = self._waiting(queued)
        gate = self._machine.gate_reason(queued.pod)
        if gate is not None:
            return {**state, "message": gate}
        if queued.phase not in EVALUATED:
            node = self._machine.cluster.node_of(queued.uid)
            return {**state, "node": node, "message": f"the pod is {queued.phase}"}
        return self._evaluated(queued)

    async def _evaluated(self, queued: QueuedPod) -> AsyncGenerator[bytes]:
        """Evaluate a pod as soon as no other one is being evaluated."""
        async with self._evaluating:
            await turn(self._machine)
            state = self._waiting(queued)
            evaluated = None
            if queued.phase in EVALUATED:
                evaluated = self._machine.explain(queued, self._now())
                state["preemption"] = self._preemption(evaluated[0])
        if evaluated is None:
            yield msgspec.json.encode(state)
            return
        async for part in _with_nodes(state, queued.pod, *evaluated):
            yield part

    def _waiting(self, queued: QueuedPod) -> dict[str, Any]:
        pod = queued.pod
        condition, expiry = queued.reported_condition, queued.backoff_expiry
        return {
            "pod": pod.key,
            "uid": queued.uid,
            "schedulerName": pod.spec.scheduler_name,
            "priority": pod.priority,
            "phase": queued.phase,
            "since": times.stamp(queued.timestamp),
            "attempts": queued.attempts,
            "backoffUntil": times.stamp(expiry) if expiry > self._now() else None,
            "rejectedBy": sorted(queued.rejectors),
            "nominatedNode": self._machine.cluster.nominations.node(queued.uid),
            "condition": None if condition is None else condition[1],
        }

    def _preemption(self, result: AttemptResult) -> dict[str, Any] | None:
        """Return the preemption that an attempt would begin; to be called right after it."""
        candidate = result.candidate
        if candidate is None:
            return None
        return {
            "node": self._machine.cluster.columns.names[candidate.row],
            "victims": [victim.key for victim in candidate.victims],
            "pdbViolations": candidate.violations,
        }


async def _with_nodes(
    state: dict[str, Any], pod: Pod, result: AttemptResult, problem: str
) -> AsyncGenerator[bytes]:
    """Yield the state of a pod with the result of an attempt, and the verdict of each node."""
    groups = await grouped(pod, result)
    rejections = Counter({str(verdict): len(names) for verdict, names in groups.names.items()})
    state |= {
        "node": result.node,
        "message": problem or result.message,
        "rejections": dict(rejections.most_common()),
    }
    head = msgspec.json.encode(state)[:-1] + b',"nodes":['
    async for part in json_stream.listed(head, result.results, _node_found, b"]}"):
        yield part


def _node_found(found: NodeResult) -> bytes:
    """Return the result about one node as JSON."""
    vetoes = tuple(map(str, found.vetoes))
    return msgspec.json.encode(
        {
            "name": found.name,
            "filter": None if found.verdict is None else str(found.verdict),
            "scores": found.scores,
            "total": sum(found.scores.values()),
            **({"vetoes": vetoes} if vetoes else {}),
        }
    )
