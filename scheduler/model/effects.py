"""What should happen outside: one API call that the machine wants, as a value.

The shell executes each effect and returns exactly one outcome event for it.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

__all__ = [
    "Announce",
    "Ask",
    "Bind",
    "BindVolumes",
    "ClearNomination",
    "Effect",
    "Evict",
    "NodeVictims",
    "Nominate",
    "PodRef",
    "Question",
    "Remember",
    "ReserveVolume",
    "SelectNode",
    "SetCondition",
    "Verb",
]


@dataclass(frozen=True, slots=True)
class PodRef:
    """Which pod is meant. Two references are equal when they mean the same pod."""

    namespace: str = field(compare=False)
    name: str = field(compare=False)
    uid: str

    @property
    def key(self) -> str:
        """Namespace and name, joined by a slash."""
        return f"{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return self.key


@dataclass(frozen=True, slots=True)
class Bind:
    """Put a pod on a node: POST pods/binding with the pod's uid as precondition."""

    pod: PodRef
    node: str
    scheduler_name: str
    #: Which of the configured extenders binds it; `None` for none: we do.
    extender: int | None = None


@dataclass(frozen=True, slots=True)
class ReserveVolume:
    """Reserve a volume for a claim: its `claimRef`. Refused for another state of the volume."""

    volume: str
    #: `metadata.resourceVersion` of the volume that was looked at.
    version: str
    claim_namespace: str
    claim_name: str
    claim_uid: str
    claim_version: str
    #: Also mark the volume as bound by a controller, as all are that nobody reserved by hand.
    by_controller: bool


@dataclass(frozen=True, slots=True)
class SelectNode:
    """Have a volume made for a claim: its annotation names the node. Refused for another state."""

    claim_namespace: str
    claim_name: str
    #: `metadata.resourceVersion` of the claim that was looked at.
    version: str


@dataclass(frozen=True, slots=True)
class BindVolumes:
    """Start to bind the volumes of a pod that is to be bound: the nomination, volumes, claims.

    Done when everything is written; others finish the binding, and news of it comes by watch.
    """

    pod: PodRef
    node: str
    volumes: tuple[ReserveVolume, ...]
    claims: tuple[SelectNode, ...]


@dataclass(frozen=True, slots=True)
class SetCondition:
    """Tell in the pod's status why it is not scheduled: condition `PodScheduled=False`."""

    pod: PodRef
    #: `Unschedulable` or `SchedulerError`.
    reason: str
    #: The full text; the API takes any length.
    message: str
    #: `metadata.generation` of the pod that was looked at.
    generation: int
    #: Also clear `status.nominatedNodeName`, and the plan, in the same request.
    clear_nomination: bool = False


@dataclass(frozen=True, slots=True)
class Nominate:
    """Claim a node for a preemptor: nomination and condition in one status PATCH."""

    pod: PodRef
    node: str
    #: Why the pod did not fit anywhere before.
    message: str
    generation: int
    #: The plan that it is part of (`model/plan_record`); written in the same request.
    plan: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ClearNomination:
    """Take back the nomination of a pod that lost its room, and the plan that came with it."""

    pod: PodRef


@dataclass(frozen=True, slots=True)
class Evict:
    """Make a victim leave: condition `DisruptionTarget`, then DELETE with its uid, own grace."""

    victim: PodRef
    node: str
    #: For whom it leaves.
    preemptor: PodRef
    scheduler_name: str
    #: `metadata.generation` of the victim.
    generation: int
    #: Ask the API server to evict it, which it refuses where a disruption budget is in the way.
    strict: bool = False


@dataclass(frozen=True, slots=True)
class Remember:
    """Write the ledger down, so that a restart or a fail-over forgets nothing."""

    #: The whole ledger (`state/ledger`).
    text: str = field(repr=False)
    #: Tells it from earlier states.
    revision: int


@dataclass(frozen=True, slots=True)
class Announce:
    """Write an `events.k8s.io/v1` Event. Best effort: it never delays anything else."""

    regarding: PodRef
    #: `Normal` or `Warning`.
    type: str
    reason: str
    action: str
    note: str
    scheduler_name: str
    #: Part of the aggregation key, as upstream.
    resource_version: str = ""


class Verb(StrEnum):
    """What an extender is asked."""

    #: Which of some nodes take the pod.
    FILTER = "filter"
    #: How good some nodes are.
    PRIORITIZE = "prioritize"
    #: Which of some preemptions may happen.
    PREEMPT = "preempt"


@dataclass(frozen=True, slots=True)
class NodeVictims:
    """Who would have to leave a node."""

    node: str
    #: Most important first.
    pods: tuple[PodRef, ...]
    #: How many of them a budget would protect.
    violations: int


@dataclass(frozen=True, slots=True)
class Question:
    """What one extender is asked."""

    #: Its place among the configured extenders.
    extender: int
    verb: Verb
    #: Names of the nodes in question.
    nodes: tuple[str, ...] = ()
    #: The preemptions in question; of `PREEMPT` only.
    victims: tuple[NodeVictims, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask extenders about a pod, all at once. Done by an `Answered`, one answer a question."""

    pod: PodRef
    #: Tells this effect from all others of its kind.
    number: int
    #: `metadata.resourceVersion` of the pod that is being decided on.
    version: str
    questions: tuple[Question, ...]


Effect: TypeAlias = (
    Bind
    | BindVolumes
    | SetCondition
    | Nominate
    | ClearNomination
    | Evict
    | Remember
    | Announce
    | Ask
)
