"""The debug pages: what the scheduler knows, and why a pod waits.

They only read. Long ones come in parts, so that nothing waits for them; `/debug/pods` judges one
pod once more, which takes as long as an attempt, and no two pods at a time.

Axes: N nodes.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from scheduler.core.attempt.scheduling_attempt import AttemptResult
from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.times import Seconds
from scheduler.observe.pages import json_stream
from scheduler.observe.pages.snapshot import snapshot
from scheduler.queue.phases import QueuePhase
from scheduler.queue.scheduling_queue import QueuedPod

__all__ = ["Debug"]

#: Phases in which a pod is on no node, and nothing is under way for it.
_JUDGED: Final = (
    QueuePhase.ACTIVE,
    QueuePhase.BACKOFF,
    QueuePhase.UNSCHEDULABLE,
    QueuePhase.PREEMPTING,
)

#: Before each judgement, which takes some 30 ms at 5,000 nodes: so many that are asked for at once
#: leave the loop to its work.
_REST_SECONDS: Final = 0.2

Page: TypeAlias = Callable[[Mapping[str, str]], object]


class Debug:
    """The pages about one machine.

    Args:
        machine: What they are about.
        now: The machine's time.
    """

    def __init__(self, machine: Machine, now: Callable[[], Seconds]) -> None:
        self._machine = machine
        self._now = now
        self._judging = asyncio.Lock()

    def pages(self) -> dict[str, Page]:
        """Return the pages by path."""
        return {
            "/debug/queue": self._queue,
            "/debug/nodes": self._nodes,
            "/debug/pods/{namespace}/{name}": self._pod,
            "/debug/snapshot": lambda _: snapshot(self._machine, self._now()),
        }

    def _queue(self, query: Mapping[str, str]) -> AsyncGenerator[bytes]:
        """Tell of all pods that wait, in the order in which they came; `?phase=` picks some.

        Raises:
            ValueError: There is no such phase.
        """
        wanted = QueuePhase(query["phase"]) if "phase" in query else None
        queue = self._machine.queue
        head = msgspec.json.encode({"lengths": queue.lengths()})[:-1] + b',"pods":[\n'

        def encode(queued: QueuedPod) -> bytes | None:
            if queued.phase is QueuePhase.GONE or wanted not in (None, queued.phase):
                return None
            return msgspec.json.encode(self._waiting(queued))

        return json_stream.listed(head, list(queue), encode, b"\n]}\n")

    def _nodes(self, _query: Mapping[str, str]) -> AsyncGenerator[bytes]:
        """Tell what each node has, and what is asked of it."""
        columns = self._machine.cluster.columns
        names = [node.metadata.name for node in columns.nodes if node is not None]
        return json_stream.listed(b'{"nodes":[\n', names, self._node, b"\n]}\n")

    def _node(self, name: str) -> bytes | None:
        cluster = self._machine.cluster
        columns = cluster.columns
        row, node = columns.row(name), columns.node(name)
        if row is None or node is None:
            return None
        told: dict[str, dict[str, int]] = {}
        for resource, called in enumerate(cluster.axis.values):
            has = int(columns.allocatable(resource)[row])
            asked = int(columns.requested(resource)[row])
            if has or asked:
                told[called] = {"allocatable": has, "requested": asked}
        return msgspec.json.encode(
            {
                "name": name,
                "resourceVersion": node.metadata.resource_version,
                "unschedulable": node.spec.unschedulable,
                "pods": int(columns.pods()[row]),
                "allowedPods": int(columns.allowed_pods()[row]),
                "nominated": [claim.pod.key for claim in cluster.nominations.on_node(name)],
                "resources": told,
            }
        )

    def _pod(self, query: Mapping[str, str]) -> object:
        """Tell why a pod waits: what is known of it, and what each node says of it now.

        Raises:
            LookupError: It does not wait.
        """
        key = f"{query['namespace']}/{query['name']}"
        queued = next((each for each in self._machine.queue if each.pod.key == key), None)
        if queued is None:
            raise LookupError(f"pod {key} is not in the queue of this scheduler")
        told = self._waiting(queued)
        gate = self._machine.gated_because(queued.pod)
        if gate is not None:
            return {**told, "message": gate}
        if queued.phase not in _JUDGED:
            node = self._machine.cluster.node_of(queued.uid)
            return {**told, "node": node, "message": f"the pod is {queued.phase}"}
        return self._judged(queued)

    async def _judged(self, queued: QueuedPod) -> AsyncGenerator[bytes]:
        """Judge a pod when it is its turn."""
        async with self._judging:
            await asyncio.sleep(_REST_SECONDS)
            told = self._waiting(queued)
            if queued.phase in _JUDGED:
                outcome, problem = self._machine.explain(queued, self._now())
                told |= self._found(outcome, problem)
            yield msgspec.json.encode(told)

    def _waiting(self, queued: QueuedPod) -> dict[str, Any]:
        pod = queued.pod
        condition = queued.told
        return {
            "pod": pod.key,
            "uid": queued.uid,
            "schedulerName": pod.spec.scheduler_name,
            "priority": pod.priority,
            "phase": queued.phase,
            "since": times.stamp(queued.timestamp),
            "attempts": queued.attempts,
            "backoffUntil": times.stamp(queued.expiry) if queued.expiry > self._now() else None,
            "rejectedBy": sorted(queued.rejectors),
            "nominatedNode": self._machine.cluster.nominations.node(queued.uid),
            "condition": None if condition is None else condition[1],
        }

    def _found(self, outcome: AttemptResult, problem: str) -> dict[str, Any]:
        """Return what an attempt finds at this moment."""
        candidate = outcome.candidate
        preemption = None
        if candidate is not None:
            preemption = {
                "node": self._machine.cluster.columns.names[candidate.row],
                "victims": [victim.key for victim in candidate.victims],
                "pdbViolations": candidate.violations,
            }
        rejections = Counter(each.rejection for each in outcome.trace if each.rejection)
        return {
            "node": outcome.node,
            "preemption": preemption,
            "message": problem or outcome.message,
            "rejections": dict(rejections.most_common()),
            "nodes": [
                {
                    "name": each.name,
                    "filter": each.rejection,
                    "scores": each.scores,
                    "total": each.total,
                    **({"objections": each.objections} if each.objections else {}),
                }
                for each in outcome.trace
            ],
        }
