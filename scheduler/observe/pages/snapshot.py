"""All that decisions are made from, as a file of Kubernetes objects that `plan -f` reads.

Objects have the fields that some rule reads, and no others. What the scheduler has decided and the
API server has not confirmed is told as if it had: an assumed pod is on its node, a victim is
terminating, a claim on a node is a nomination, a reserved volume is reserved.

Of pods on no node there are only those of our profiles, and those of others that are nominated to
a node. What only time tells is not in it: back-offs, and the order of pods of equal priority that
were tried before.
"""

from collections.abc import AsyncGenerator, Iterator
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.api.kinds import KINDS
from scheduler.model.api.objects import (
    DISRUPTION_TARGET,
    PREEMPTION_BY_SCHEDULER,
    Condition,
    LocalObject,
    ObjectMeta,
    Pod,
)
from scheduler.model.times import Seconds
from scheduler.observe.pages import json_stream
from scheduler.queue.phases import QueuePhase

__all__ = ["snapshot"]

_HEADS: Final = {
    type_: msgspec.json.encode({"apiVersion": version, "kind": kind})[:-1]
    for type_, (version, kind) in KINDS.items()
}
_ENCODER: Final = msgspec.json.Encoder()


def snapshot(machine: Machine, now: Seconds) -> AsyncGenerator[bytes]:
    """Return the state of this moment as JSON, in parts.

    Args:
        machine: Whose state.
        now: The time; victims that were asked to leave are leaving since then.
    """
    # Pods of the queue come first: what they say is newer than what their claims say.
    items = [*_objects(machine), *_waiting(machine), *machine.cluster.pods]
    head = b'{"apiVersion":"v1","kind":"List","items":[\n'
    return json_stream.listed(head, items, _Encoding(machine, now), b"\n]}\n")


class _Encoding:
    """Tells of objects as they will be when all that is under way has happened."""

    def __init__(self, machine: Machine, now: Seconds) -> None:
        cluster = machine.cluster
        self._leaving_since = times.stamp(now)
        self._leaving = cluster.asked_to_leave()
        self._claims = {claim.pod.uid: claim.node for claim in cluster.nominations}
        self._told: set[str] = set()

    def __call__(self, item: Any) -> bytes | None:
        """Return an object as JSON, `None` for a pod that was told of already."""
        if isinstance(item, Pod):
            if item.uid in self._claims:
                if item.uid in self._told:
                    return None
                self._told.add(item.uid)
            item = self._as_decided(item)
        body = _ENCODER.encode(item)[1:]
        return _HEADS[type(item)] + (b"," if body != b"}" else b"") + body

    def _as_decided(self, pod: Pod) -> Pod:
        if pod.spec.node_name:
            return self._evicted(pod) if pod.uid in self._leaving else pod
        node = self._claims.get(pod.uid, "")
        if pod.status.nominated_node_name == node:
            return pod
        return replace(pod, status=replace(pod.status, nominated_node_name=node))

    def _evicted(self, pod: Pod) -> Pod:
        if pod.terminating:
            return pod
        target = Condition(DISRUPTION_TARGET, "True", PREEMPTION_BY_SCHEDULER)
        metadata = replace(pod.metadata, deletion_timestamp=self._leaving_since)
        status = replace(pod.status, conditions=[*pod.status.conditions, target])
        return replace(pod, metadata=metadata, status=status)


def _objects(machine: Machine) -> Iterator[Any]:
    """Yield everything but pods."""
    cluster = machine.cluster
    for name, labels in cluster.namespaces.items():
        yield LocalObject(ObjectMeta(name=name, labels=labels))
    yield from (node for node in cluster.columns.nodes if node is not None)
    yield from cluster.budgets
    yield from cluster.workloads
    yield from cluster.volumes
    yield from cluster.device_classes


def _waiting(machine: Machine) -> Iterator[Pod]:
    """Yield the pods that are on no node, not even by our own decision."""
    return (queued.pod for queued in machine.queue if queued.phase is not QueuePhase.BINDING)
