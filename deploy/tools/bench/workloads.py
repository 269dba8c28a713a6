"""Workloads: nodes, existing pods, measured pods, and changes during a run.

The full sizes are those of kube-scheduler's own benchmark; the small ones are smoke tests. It
differs: existing pods are created on nodes, round-robin, and not scheduled; measured pods are
created before the scheduler starts.

Source: kube-scheduler v1.36.3 test/integration/scheduler_perf, performance-config.yaml of each
folder.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from deploy.tools.bench import templates
from deploy.tools.bench.calls import Call, delete, merge, post, put
from deploy.tools.bench.templates import Json, Template

__all__ = ["Batch", "Churn", "Nodes", "Workload", "is_pod_deletion", "name_of", "pods_path"]

#: The schedulerName of all pods: the profile of every contender.
SCHEDULER: Final = "bench-scheduler"

#: bind: pods fit. preemption: pods preempt. idle: there is nothing to schedule.
Kind: TypeAlias = Literal["bind", "preemption", "idle"]


@dataclass(frozen=True)
class Nodes:
    """Nodes of one template."""

    count: int
    template: Template = templates.plain_node


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Pods of one template in one namespace."""

    name: str
    namespace: str
    count: int
    template: Template = field(default_factory=templates.pod)
    #: Number of consecutive pods on each node, round-robin; 0 leaves them pending.
    per_node: int = 0
    #: Kind of the volume that each pod has; empty for none.
    volume: Literal["", "csi", "aws"] = ""
    #: Access mode of the volumes.
    access: str = "ReadOnlyMany"

    def jobs(self, nodes: Sequence[str], first: int = 0) -> Iterator[list[Call]]:
        """Yield the calls that create each pod with its volume.

        Args:
            nodes: names of the nodes.
            first: index of the node of the first pod.
        """
        for index in range(self.count):
            made = self.pod(index)
            if self.per_node:
                made["spec"]["nodeName"] = nodes[(first + index // self.per_node) % len(nodes)]
            calls = [post(pods_path(self.namespace), made)]
            yield self._volume_calls(index) + calls if self.volume else calls

    def pod(self, index: int) -> Json:
        """Return a pod of the batch."""
        made = self.template(index)
        spec: Json = {**made["spec"], "schedulerName": SCHEDULER}
        if self.volume:
            spec["volumes"] = templates.claiming(self.claim(index))
        metadata = {**made["metadata"], "name": name_of(self, index), "namespace": self.namespace}
        return {"metadata": metadata, "spec": spec}

    def claim(self, index: int) -> str:
        """Return the name of a pod's claim."""
        return f"{self.name}-{index}"

    def _volume_calls(self, index: int) -> list[Call]:
        claim = self.claim(index)
        volume = f"{self.namespace}-{claim}"
        claims = f"/api/v1/namespaces/{self.namespace}/persistentvolumeclaims"
        volumes = "/api/v1/persistentvolumes"
        made_claim = templates.claim(claim, self.namespace, volume, self.access)
        made_volume = templates.volume(
            volume, self.namespace, claim, csi=self.volume == "csi", access=self.access
        )
        bound = {"status": {"phase": "Bound"}}
        return [
            post(claims, made_claim),
            put(f"{claims}/{claim}/status", {**made_claim, **bound}),
            post(volumes, made_volume),
            put(f"{volumes}/{volume}/status", {**made_volume, **bound}),
        ]


@dataclass(frozen=True, kw_only=True)
class Churn:
    """Changes during a run: calls at each tick."""

    every_seconds: float
    calls: Callable[[int], Sequence[Call]]
    #: Number of ticks; None until the end of the run.
    ticks: int | None = None
    #: Start with the scheduler, or when it has attempted every measured pod.
    after: Literal["start", "attempted"] = "start"


@dataclass(frozen=True, kw_only=True)
class Workload:
    """One workload in one size."""

    nodes: tuple[Nodes, ...]
    measured: tuple[Batch, ...]
    name: str = ""
    #: The case of kube-scheduler's benchmark that it follows.
    source: str = ""
    existing: tuple[Batch, ...] = ()
    #: Labels of namespaces.
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    #: Other objects, as jobs: the calls of one job in order.
    objects: tuple[Sequence[Call], ...] = ()
    #: Whether each measured pod has a resource claim that is generated for it.
    claims: bool = False
    #: Limit of CSI volumes on each node; 0 for no limit.
    csi: int = 0
    churns: tuple[Churn, ...] = ()
    kind: Kind = "bind"
    #: Timeout of a run; length of an idle run.
    limit_seconds: float = 600.0
    #: Victims of each preemptor, for the ceiling.
    victims_per_pod: int = 0

    def node_bodies(self) -> list[Json]:
        """Return all nodes."""
        return [group.template(index) for group in self.nodes for index in range(group.count)]

    def namespace_names(self) -> list[str]:
        """Return the namespaces to create, sorted."""
        used = {batch.namespace for batch in (*self.existing, *self.measured)}
        return sorted(used | {"churn"} | set(self.namespaces))

    def pod_count(self) -> int:
        """Return the number of measured pods."""
        return sum(batch.count for batch in self.measured)

    def measured_keys(self) -> set[tuple[str, str]]:
        """Return namespace and name of every measured pod."""
        return {
            (batch.namespace, name_of(batch, index))
            for batch in self.measured
            for index in range(batch.count)
        }


def name_of(batch: Batch, index: int) -> str:
    """Return the name of a pod."""
    return f"{batch.name}-{index}"


def pods_path(namespace: str) -> str:
    """Return the API path of the pods of a namespace."""
    return f"/api/v1/namespaces/{namespace}/pods"


# Churn


def is_pod_deletion(call: Call) -> bool:
    """Return whether a call deletes a pod."""
    return call.method == "DELETE" and "/pods/" in call.path


def creating(template: Template, every_seconds: float) -> Churn:
    """Return churn that creates a pod at each tick."""
    batch = Batch(name="churn", namespace="churn", count=0, template=template)

    def calls(tick: int) -> list[Call]:
        return [post(pods_path("churn"), batch.pod(tick))]

    return Churn(every_seconds=every_seconds, calls=calls)


def recreating(every_seconds: float) -> Churn:
    """Return churn that creates a node, an unschedulable pod and a service, or deletes them."""
    batch = Batch(name="churn", namespace="churn", count=0, template=templates.large_cpu_pod)

    def calls(tick: int) -> list[Call]:
        number = tick // 2
        service = templates.service("churn", {"app": "foo"})
        if tick % 2:
            return [
                delete(f"/api/v1/nodes/churn-{number}"),
                delete(f"{pods_path('churn')}/churn-{number}", {"gracePeriodSeconds": 0}),
                delete("/api/v1/namespaces/churn/services/service"),
            ]
        return [
            post("/api/v1/nodes", templates.node(f"churn-{number}", pods=0)),
            post(pods_path("churn"), batch.pod(number)),
            post("/api/v1/namespaces/churn/services", service),
        ]

    return Churn(every_seconds=every_seconds, calls=calls)


def deleting(batch: Batch, per_second: float, after: Literal["start", "attempted"]) -> Churn:
    """Return churn that deletes the pods of a batch in order."""

    def calls(tick: int) -> list[Call]:
        path = f"{pods_path(batch.namespace)}/{name_of(batch, tick)}"
        return [delete(path, {"gracePeriodSeconds": 0})]

    return Churn(every_seconds=1 / per_second, calls=calls, ticks=batch.count, after=after)


def changing(batch: Batch, per_second: float) -> Churn:
    """Return churn that changes an annotation of a pod at each tick."""

    def calls(tick: int) -> list[Call]:
        path = f"{pods_path(batch.namespace)}/{name_of(batch, tick % batch.count)}"
        return [merge(path, {"metadata": {"annotations": {"tick": str(tick)}}})]

    return Churn(every_seconds=1 / per_second, calls=calls)
