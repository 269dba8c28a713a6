"""The documents of `POST /api/v1/plan`: what would happen if objects were applied now."""

from collections.abc import Mapping
from typing import Any, Literal

from scheduler.model.rest.common import CriterionView, Document, PodView
from scheduler.model.rest.explanations import RejectionGroup
from scheduler.model.rest.preemptions import (
    CandidateView,
    PolicyVeto,
    PreemptionDevices,
    Replacement,
    VictimView,
)

__all__ = [
    "DisplacedPod",
    "DrainBlocker",
    "EvaluatedNode",
    "KubernetesObject",
    "SimulatedPod",
    "ViolatedBudget",
    "WhatIfAnswer",
    "WhatIfRequest",
]  # fmt: skip


class KubernetesObject(Document, frozen=True):
    """An object as it would be applied, or a list of objects."""

    api_version: str
    kind: str
    metadata: Mapping[str, Any] = {}


class WhatIfRequest(Document, frozen=True):
    """The request. The body may also be YAML or JSON of Kubernetes objects alone."""

    #: Kubernetes objects as they would be applied. Pods, and workloads whose pods are made from
    #: their templates; policies replace those of the same name; nodes are added or replaced.
    objects: tuple[dict[str, Any], ...] = ()
    #: Nodes that are drained: unschedulable, and their pods deleted and re-created. By name, or by
    #: their labels as `zone=a,!gpu`.
    drain: tuple[str, ...] = ()
    #: The namespace of objects without one.
    namespace: str = "default"
    #: Only pods of this scheduler name are scheduled; empty for all profiles. Given pods that name
    #: no profile get this one; without it they are not planned.
    scheduler_name: str = ""
    #: Whether to continue until nothing changes, so that owners re-create their victims.
    settle: bool = True
    #: Whether to return the verdicts of the nodes also for pods that fit; nothing else changes.
    explain: bool = False


class EvaluatedNode(Document, frozen=True):
    """What one node means for a pod."""

    name: str
    #: Why it rejects the pod; empty if the pod fits.
    rejection: str = ""
    #: By plugin, weighted.
    scores: Mapping[str, int] = {}
    total: int = 0
    #: Which policies forbid victims there.
    vetoes: tuple[str, ...] = ()


class SimulatedPod(Document, frozen=True):
    """What would happen to one pod."""

    pod: PodView
    #: Scheduled, Preempting, Unschedulable, Gated, Error, or NotPlanned: another scheduler
    #: schedules it.
    decision: str
    #: The object that it was made from, as `Deployment/web`; empty for a pod of its own.
    source: str = ""
    node: str = ""
    #: After settling: the node where it runs in the end; empty if it is pending.
    final_node: str = ""
    message: str = ""
    verdicts: tuple[RejectionGroup, ...] = ()
    victims: tuple[VictimView, ...] = ()
    #: How many more victims there are, which the caller may not see.
    hidden_victims: int = 0
    pdb_violations: int = 0
    #: The devices that its preemption would free; null if it frees none.
    devices: PreemptionDevices | None = None
    criteria: tuple[CriterionView, ...] = ()
    candidates: tuple[CandidateView, ...] = ()
    candidates_total: int = 0
    criterion: str = ""
    policies: tuple[PolicyVeto, ...] = ()
    #: Devices by claim, as `plan -o json` prints them.
    claims: Mapping[str, tuple[Mapping[str, Any], ...]] = {}
    #: The result of each node: only of a plan from files with `--explain`.
    nodes: tuple[EvaluatedNode, ...] = ()


class DisplacedPod(Document, frozen=True):
    """A pod that would be evicted or drained, and what becomes of it."""

    pod: PodView
    from_node: str
    #: drain, or preemption: it is evicted for another pod.
    cause: Literal["drain", "preemption"] = "preemption"
    #: Whether a controller re-creates it.
    recreated: bool = True
    replacement: Replacement | None = None


class ViolatedBudget(Document, frozen=True):
    """A PodDisruptionBudget that preemptions would violate."""

    namespace: str
    name: str
    #: How many disruptions it allows now.
    allowed: int = 0
    #: How many of its pods would be evicted for preemptions.
    victims: int = 0


class DrainBlocker(Document, frozen=True):
    """A pod at which the drain of its node stops: no disruption budget allows its eviction."""

    node: str
    pod: PodView
    #: Its disruption budgets, as `NAMESPACE/NAME`. With several, the API server never evicts it.
    budgets: tuple[str, ...] = ()


class WhatIfAnswer(Document, frozen=True):
    """What would happen."""

    #: The time of the cluster state that the answer is about.
    at: str
    reference: str
    #: The answer in one sentence.
    verdict: str = ""
    #: What would be lost: evictions if pods would be evicted, budgets if that would violate
    #: disruption budgets.
    impact: Literal["none", "evictions", "budgets"] = "none"
    #: Whether any pod would be evicted, for a preemption or from a drained node.
    evicts: bool = False
    #: How many pods would be evicted or drained.
    evictions: int = 0
    #: Disruption budgets that would be violated, and how many more the caller may not see.
    budgets: tuple[ViolatedBudget, ...] = ()
    hidden_budgets: int = 0
    #: The nodes that would be drained.
    drain: tuple[str, ...] = ()
    #: Pods at which drains stop.
    blockers: tuple[DrainBlocker, ...] = ()
    items: tuple[SimulatedPod, ...] = ()
    displaced: tuple[DisplacedPod, ...] = ()
    #: Pods that were pending before and would change: bound, or no longer bound, because of this.
    others: tuple[SimulatedPod, ...] = ()
    #: What could not be simulated, one sentence each.
    warnings: tuple[str, ...] = ()
