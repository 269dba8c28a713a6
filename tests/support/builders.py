"""Objects for tests: immutable, chaining, and silent about all that does not matter.

    node("n1").cpu("4").label("zone", "a")
    pod("low").on("n1").cpu("2").priority(1)
    budget("b").selects(app="web").allows(1)

Each call returns a new builder; `build()` gives the API object. A test states only what matters to
it. Times are seconds after `EPOCH`.
"""

from dataclasses import dataclass
from typing import Any, Self

from msgspec.structs import replace

from scheduler.model import times
from scheduler.model.api.objects import (
    Affinity,
    Condition,
    Container,
    ContainerImage,
    ContainerPort,
    ContainerStatus,
    LabelSelector,
    LocalObject,
    Node,
    NodeAffinity,
    NodeMeta,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodDisruptionBudget,
    Requirement,
    ResourceRequirements,
    SchedulingGate,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedNodeTerm,
)
from scheduler.model.effects import PodRef
from scheduler.model.plan_record import CONDITION

OURS = "preemptive-scheduler"
#: Where the time stamps of tests start: 2026-01-01T00:00:00Z.
EPOCH = 1_767_225_600


def at(seconds: float) -> str:
    """Return an API time stamp, so many seconds after `EPOCH`."""
    return times.stamp(EPOCH + seconds)


def requirement(key: str, operator: str, *values: str) -> Requirement:
    """Return one expression of a selector."""
    return Requirement(key, operator, list(values))


def term(*expressions: Requirement, fields: tuple[Requirement, ...] = ()) -> NodeSelectorTerm:
    """Return a node selector term."""
    return NodeSelectorTerm(list(expressions), list(fields))


def container(**requests: str) -> Container:
    """Return a container; underscores in names stand for dashes."""
    named = {name.replace("_", "-"): amount for name, amount in requests.items()}
    return Container(name="main", resources=ResourceRequirements(requests=named))


@dataclass(frozen=True)
class PodBuilder:
    """A pod of ours, pending unless it is put `on` a node."""

    object: Pod

    def build(self) -> Pod:
        return self.object

    @property
    def ref(self) -> PodRef:
        meta = self.object.metadata
        return PodRef(meta.namespace, meta.name, meta.uid)

    def meta(self, **changes: Any) -> Self:
        return type(self)(replace(self.object, metadata=replace(self.object.metadata, **changes)))

    def spec(self, **changes: Any) -> Self:
        return type(self)(replace(self.object, spec=replace(self.object.spec, **changes)))

    def status(self, **changes: Any) -> Self:
        return type(self)(replace(self.object, status=replace(self.object.status, **changes)))

    def namespace(self, namespace: str) -> Self:
        return self.meta(namespace=namespace, uid=_uid(namespace, self.object.metadata.name))

    def uid(self, uid: str) -> Self:
        return self.meta(uid=uid)

    def version(self, version: int) -> Self:
        return self.meta(resource_version=str(version))

    def label(self, key: str, value: str = "") -> Self:
        return self.meta(labels={**self.object.metadata.labels, key: value})

    def owner(self, kind: str, name: str) -> Self:
        return self.meta(owner_references=[OwnerReference("apps/v1", kind, name, name, True)])

    def created(self, seconds: float) -> Self:
        return self.meta(creation_timestamp=at(seconds))

    def scheduler(self, name: str) -> Self:
        return self.spec(scheduler_name=name)

    def priority(self, priority: int | None) -> Self:
        return self.spec(priority=priority)

    def never_preempts(self) -> Self:
        return self.spec(preemption_policy="Never")

    def cpu(self, amount: str) -> Self:
        return self.requests(cpu=amount)

    def memory(self, amount: str) -> Self:
        return self.requests(memory=amount)

    def requests(self, amounts: dict[str, str] | None = None, **named: str) -> Self:
        """Add requests to the first container."""
        first, *others = self.object.spec.containers
        requests = {**first.resources.requests, **(amounts or {}), **named}
        resources = replace(first.resources, requests=requests)
        return self.spec(containers=[replace(first, resources=resources), *others])

    def containers(self, *containers: Container) -> Self:
        return self.spec(containers=list(containers))

    def init(self, *containers: Container) -> Self:
        return self.spec(init_containers=list(containers))

    def image(self, name: str) -> Self:
        first, *others = self.object.spec.containers
        return self.spec(containers=[replace(first, image=name), *others])

    def port(self, port: int, protocol: str = "TCP", address: str = "") -> Self:
        """Take a host port."""
        first, *others = self.object.spec.containers
        ports = [*first.ports, ContainerPort(port, address, protocol)]
        return self.spec(containers=[replace(first, ports=ports), *others])

    def selects(self, **labels: str) -> Self:
        """Require node labels."""
        return self.spec(node_selector=labels)

    def needs(self, *terms: NodeSelectorTerm) -> Self:
        """Require one of some node selector terms."""
        return self._node_affinity(required=NodeSelector(list(terms)))

    def likes(self, weight: int, preference: NodeSelectorTerm) -> Self:
        """Prefer nodes."""
        have = self.object.spec.affinity
        before = have.node_affinity.preferred if have and have.node_affinity else []
        return self._node_affinity(preferred=[*before, WeightedNodeTerm(weight, preference)])

    def _node_affinity(self, **changes: Any) -> Self:
        affinity = self.object.spec.affinity or Affinity()
        wanted = replace(affinity.node_affinity or NodeAffinity(), **changes)
        return self.spec(affinity=replace(affinity, node_affinity=wanted))

    def near(self, key: str, *expressions: Requirement, **labels: str) -> Self:
        """Require affinity to pods, by a node label."""
        return self._with_term("pod_affinity", key, expressions, labels)

    def apart(self, key: str, *expressions: Requirement, **labels: str) -> Self:
        """Require anti-affinity to pods, by a node label."""
        return self._with_term("pod_anti_affinity", key, expressions, labels)

    def _with_term(
        self, kind: str, key: str, expressions: tuple[Requirement, ...], labels: dict[str, str]
    ) -> Self:
        affinity = self.object.spec.affinity or Affinity()
        before = getattr(affinity, kind) or PodAffinity()
        more = PodAffinityTerm(LabelSelector(labels, list(expressions)), [], key)
        group = replace(before, required=[*before.required, more])
        return self.spec(affinity=replace(affinity, **{kind: group}))

    def spreads(
        self, key: str, *expressions: Requirement, least: int | None = None, **labels: str
    ) -> Self:
        """Spread evenly over a node label, which must have at least so many values."""
        selector = LabelSelector(labels, list(expressions))
        more = TopologySpreadConstraint(1, key, "DoNotSchedule", selector, least)
        have = self.object.spec.topology_spread_constraints
        return self.spec(topology_spread_constraints=[*have, more])

    def tolerates(
        self, key: str = "", value: str = "", *, operator: str = "", effect: str = ""
    ) -> Self:
        more = Toleration(key, operator, value, effect)
        return self.spec(tolerations=[*self.object.spec.tolerations, more])

    def gated(self, *gates: str) -> Self:
        return self.spec(scheduling_gates=[SchedulingGate(gate) for gate in gates])

    def on(self, node: str) -> Self:
        """Run on a node, started at `EPOCH`."""
        started = self.object.status.start_time or at(0)
        return self.spec(node_name=node).status(phase="Running", start_time=started)

    def started(self, seconds: float) -> Self:
        return self.status(start_time=at(seconds))

    def not_started(self) -> Self:
        return self.status(start_time=None)

    def finished(self, phase: str = "Succeeded") -> Self:
        return self.status(phase=phase)

    def nominated(self, node: str) -> Self:
        return self.status(nominated_node_name=node)

    def planned(self, plan: str) -> Self:
        """With a plan of an earlier leader; without one if it is empty."""
        if plan:
            return self.condition(CONDITION, "True", "Planned", plan)
        others = [each for each in self.object.status.conditions if each.type != CONDITION]
        return self.status(conditions=others)

    def condition(self, kind: str, status: str, reason: str = "", message: str = "") -> Self:
        others = [each for each in self.object.status.conditions if each.type != kind]
        return self.status(conditions=[*others, Condition(kind, status, reason, message)])

    def terminating(self) -> Self:
        return self.meta(deletion_timestamp=at(0))

    def preempted(self) -> Self:
        """Terminate because a scheduler has preempted it."""
        return self.terminating().condition("DisruptionTarget", "True", "PreemptionByScheduler")

    def granted(self, **requests: str) -> Self:
        """Say what the kubelet has granted the first container."""
        name = self.object.spec.containers[0].name
        resources = ResourceRequirements(requests=dict(requests))
        return self.status(container_statuses=[ContainerStatus(name, resources, dict(requests))])


@dataclass(frozen=True)
class NodeBuilder:
    """A node that allows 110 pods."""

    object: Node

    def build(self) -> Node:
        return self.object

    def _meta(self, **changes: Any) -> Self:
        return type(self)(replace(self.object, metadata=replace(self.object.metadata, **changes)))

    def _spec(self, **changes: Any) -> Self:
        return type(self)(replace(self.object, spec=replace(self.object.spec, **changes)))

    def _status(self, **changes: Any) -> Self:
        return type(self)(replace(self.object, status=replace(self.object.status, **changes)))

    def cpu(self, amount: str) -> Self:
        return self.has(cpu=amount)

    def memory(self, amount: str) -> Self:
        return self.has(memory=amount)

    def pods(self, count: int) -> Self:
        return self.has(pods=str(count))

    def has(self, amounts: dict[str, str] | None = None, **named: str) -> Self:
        return self._status(
            allocatable={**self.object.status.allocatable, **(amounts or {}), **named}
        )

    def label(self, key: str, value: str = "") -> Self:
        return self._meta(labels={**self.object.metadata.labels, key: value})

    def annotation(self, key: str, value: str) -> Self:
        return self._meta(annotations={**self.object.metadata.annotations, key: value})

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        return self._spec(taints=[*self.object.spec.taints, Taint(key, value, effect)])

    def cordoned(self, cordoned: bool = True) -> Self:
        return self._spec(unschedulable=cordoned)

    def image(self, name: str, size_bytes: int) -> Self:
        images = [*self.object.status.images, ContainerImage([name], size_bytes)]
        return self._status(images=images)

    def condition(self, kind: str, status: str) -> Self:
        others = [each for each in self.object.status.conditions if each.type != kind]
        return self._status(conditions=[*others, Condition(kind, status)])

    def declares(self, *features: str) -> Self:
        return self._status(declared_features=list(features))


@dataclass(frozen=True)
class PdbBuilder:
    """A pod disruption budget that protects no pod until it `selects`, and allows no disruption."""

    object: PodDisruptionBudget

    def build(self) -> PodDisruptionBudget:
        return self.object

    @property
    def key(self) -> str:
        return f"{self.object.metadata.namespace}/{self.object.metadata.name}"

    def namespace(self, namespace: str) -> Self:
        metadata = replace(self.object.metadata, namespace=namespace)
        return type(self)(replace(self.object, metadata=metadata))

    def selects(self, *expressions: Requirement, **labels: str) -> Self:
        selector = LabelSelector(labels, list(expressions))
        return type(self)(replace(self.object, spec=replace(self.object.spec, selector=selector)))

    def _status(self, **changes: Any) -> Self:
        return type(self)(replace(self.object, status=replace(self.object.status, **changes)))

    def allows(self, disruptions: int) -> Self:
        return self._status(disruptions_allowed=disruptions)

    def healthy(self, pods: int, *, desired: int) -> Self:
        return self._status(current_healthy=pods, desired_healthy=desired)

    def generation(self, generation: int, *, observed: int) -> Self:
        """Say how often it was changed, and which change its status knows of."""
        metadata = replace(self.object.metadata, generation=generation)
        changed = type(self)(replace(self.object, metadata=metadata))
        return changed._status(observed_generation=observed)

    def unhealthy(self, policy: str) -> Self:
        """Say what becomes of pods that are not ready."""
        spec = replace(self.object.spec, unhealthy_pod_eviction_policy=policy)
        return type(self)(replace(self.object, spec=spec))

    def disrupted(self, *pods: str) -> Self:
        return self._status(disrupted_pods={name: at(0) for name in pods})


Builder = PodBuilder | NodeBuilder | PdbBuilder


def pod(name: str) -> PodBuilder:
    """Start a pod."""
    meta = ObjectMeta(name=name, namespace="default", uid=_uid("default", name))
    plain = PodBuilder(Pod(metadata=meta))
    return plain.spec(containers=[container()], scheduler_name=OURS).status(phase="Pending")


def node(name: str) -> NodeBuilder:
    """Start a node."""
    return NodeBuilder(Node(metadata=NodeMeta(name=name))).pods(110)


def pdb(name: str) -> PdbBuilder:
    """Start a budget."""
    return PdbBuilder(PodDisruptionBudget(metadata=ObjectMeta(name=name, namespace="default")))


def namespace(name: str, **labels: str) -> LocalObject:
    """Return a namespace."""
    return LocalObject(ObjectMeta(name=name, labels=labels))


def _uid(namespace: str, name: str) -> str:
    return f"uid:{namespace}/{name}"
