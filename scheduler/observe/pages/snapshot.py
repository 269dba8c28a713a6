"""The state that decisions are made from, as a file of Kubernetes objects that `plan -f` reads.

Objects have only the fields that some rule reads. What the scheduler has decided and the API server
has not confirmed is written as if it were confirmed: an assumed pod is on its node, a victim is
terminating, a nominated pod has its nomination, a reserved volume is reserved.

Of pods on no node it has only those of our profiles, and other pods that are nominated to a node.
It names the release of kube-scheduler that was followed, so `plan` follows the same.
It does not hold what depends on time: back-offs, and the order of pods of equal priority that were
tried before.
"""

import itertools
import operator
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.api import pod_changes
from scheduler.model.api.kinds import KINDS
from scheduler.model.api.objects import LocalObject, ObjectMeta, Pod
from scheduler.model.releases import SNAPSHOT_REFERENCE
from scheduler.model.times import Seconds
from scheduler.observe.pages import json_stream
from scheduler.queue.phases import QueuePhase

__all__ = ["snapshot"]

_HEADS: Final = {
    type_: msgspec.json.encode({"apiVersion": version, "kind": kind})[:-1]
    for type_, (version, kind) in KINDS.items()
}
_ENCODER: Final = msgspec.json.Encoder()
_PHASE: Final = operator.attrgetter("phase")
_POD: Final = operator.attrgetter("classified.pod")


def snapshot(machine: Machine, now: Seconds) -> AsyncGenerator[bytes]:
    """Return the current state as JSON, in parts.

    Args:
        machine: The machine whose state it is.
        now: The time; evicted victims that still run get it as their deletion timestamp.
    """
    cluster, queue = machine.cluster, list(machine.queue)
    namespaces = (
        LocalObject(ObjectMeta(name=name, labels=labels))
        for name, labels in cluster.namespaces.items()
    )
    # Neither on a node nor assumed on one. Without Python code for each pod: there are many.
    waits = map(operator.is_not, map(_PHASE, queue), itertools.repeat(QueuePhase.BINDING))
    waiting = itertools.compress(map(_POD, queue), waits)
    # Pods of the queue come before the copies that nominations hold, which are older.
    items = [*namespaces, *cluster.objects(), *waiting, *cluster.pods]
    named = msgspec.json.encode({SNAPSHOT_REFERENCE: machine.reference.name})[1:-1]
    head = b'{"apiVersion":"v1","kind":"List",' + named + b',"items":[\n'
    return json_stream.listed(head, items, _Encoding(machine, now), b"\n]}\n")


class _Encoding:
    """Encodes objects as they will be when all pending effects are done."""

    def __init__(self, machine: Machine, now: Seconds) -> None:
        cluster = machine.cluster
        self._evicted_at = times.stamp(now)
        self._victims = cluster.evicting_uids()
        #: The node of each nominated pod, by uid.
        self._nominated = {claim.pod.uid: claim.node for claim in cluster.nominations}
        #: Uids of nominated pods that have been encoded.
        self._written: set[str] = set()

    def __call__(self, item: Any) -> bytes | None:
        """Return an object as JSON, `None` for a pod that has been encoded before."""
        if isinstance(item, Pod):
            if item.uid in self._nominated:
                if item.uid in self._written:
                    return None
                self._written.add(item.uid)
            item = self._as_decided(item)
        body = _ENCODER.encode(item)[1:]
        return _HEADS[type(item)] + (b"," if body != b"}" else b"") + body

    def _as_decided(self, pod: Pod) -> Pod:
        if pod.spec.node_name:
            return self._evicted(pod) if pod.uid in self._victims else pod
        node = self._nominated.get(pod.uid, "")
        if pod.status.nominated_node_name == node:
            return pod
        return pod_changes.nominated(pod, node)

    def _evicted(self, pod: Pod) -> Pod:
        return pod if pod.terminating else pod_changes.evicted(pod, self._evicted_at)
