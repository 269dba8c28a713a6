"""The documents of `POST /api/v1/plan`: what would happen if objects were applied now."""

from collections.abc import Mapping
from typing import Any

from scheduler.model.rest.common import CriterionView, Document, PodView
from scheduler.model.rest.explanations import RejectionGroup
from scheduler.model.rest.preemptions import (
    CandidateView,
    PolicyVeto,
    Replacement,
    VictimView,
)

__all__ = ["DisplacedPod", "KubernetesObject", "SimulatedPod", "WhatIfAnswer", "WhatIfRequest"]


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
    #: Names of nodes that are drained: unschedulable, and their pods deleted and re-created.
    drain: tuple[str, ...] = ()
    #: The namespace of objects without one.
    namespace: str = "default"
    #: Only pods of this scheduler name are scheduled; empty for all profiles. Pods of a template
    #: without a scheduler name of a profile get this one, or that of the first profile.
    scheduler_name: str = ""
    #: Whether to continue until nothing changes, so that owners re-create their victims.
    settle: bool = True
    #: Whether to return the verdicts of the nodes also for pods that fit; nothing else changes.
    explain: bool = False


class SimulatedPod(Document, frozen=True):
    """What would happen to one pod."""

    pod: PodView
    #: Scheduled, Preempting, Unschedulable, Gated or Error.
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
    criteria: tuple[CriterionView, ...] = ()
    candidates: tuple[CandidateView, ...] = ()
    candidates_total: int = 0
    criterion: str = ""
    policies: tuple[PolicyVeto, ...] = ()
    #: Devices by claim, as `plan -o json` prints them.
    claims: Mapping[str, tuple[Mapping[str, Any], ...]] = {}


class DisplacedPod(Document, frozen=True):
    """A pod that would be evicted or drained, and what becomes of it."""

    pod: PodView
    from_node: str
    #: Whether a controller re-creates it.
    recreated: bool = True
    replacement: Replacement | None = None


class WhatIfAnswer(Document, frozen=True):
    """What would happen."""

    #: The time of the cluster state that the answer is about.
    at: str
    reference: str
    #: Whether any pod would be evicted, for a preemption or from a drained node.
    evicts: bool = False
    items: tuple[SimulatedPod, ...] = ()
    displaced: tuple[DisplacedPod, ...] = ()
    #: Pods that were pending before and would change: bound, or no longer bound, because of this.
    others: tuple[SimulatedPod, ...] = ()
    #: What could not be simulated, one sentence each.
    warnings: tuple[str, ...] = ()
