"""What should happen outside: one API call that the machine wants, as a value.

The shell executes each effect and returns exactly one outcome event for it.
"""

from enum import StrEnum
from typing import TypeAlias

from scheduler.model.base import Record

__all__ = [
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
    "RecordEvent",
    "ReserveVolume",
    "SaveLedger",
    "SelectNode",
    "SetCondition",
    "Verb",
]


class PodRef(Record, frozen=True):
    """Which pod is meant. Two references are equal when they mean the same pod."""

    namespace: str
    name: str
    uid: str

    @property
    def key(self) -> str:
        """Namespace and name, joined by a slash."""
        return f"{self.namespace}/{self.name}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PodRef) and self.uid == other.uid

    def __hash__(self) -> int:
        return hash(self.uid)

    def __str__(self) -> str:
        return self.key


class Bind(Record, frozen=True):
    """Put a pod on a node: POST pods/binding with the pod's uid as precondition."""

    pod: PodRef
    node: str
    scheduler_name: str
    #: Which of the configured extenders binds it; `None` for none: we do.
    extender: int | None = None


class ReserveVolume(Record, frozen=True):
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


class SelectNode(Record, frozen=True):
    """Have a volume made for a claim: its annotation names the node. Refused for another state."""

    claim_namespace: str
    claim_name: str
    #: `metadata.resourceVersion` of the claim that was looked at.
    version: str


class BindVolumes(Record, frozen=True):
    """Start to bind the volumes of a pod that is to be bound: the nomination, volumes, claims.

    Done when everything is written; others finish the binding, and news of it comes by watch.
    """

    pod: PodRef
    node: str
    volumes: tuple[ReserveVolume, ...]
    claims: tuple[SelectNode, ...]


class SetCondition(Record, frozen=True):
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


class Nominate(Record, frozen=True):
    """Claim a node for a preemptor: nomination and condition in one status PATCH."""

    pod: PodRef
    node: str
    #: Why the pod did not fit anywhere before.
    message: str
    generation: int
    #: The plan that it is part of (`model/plan_record`); written in the same request.
    plan: str = ""


class ClearNomination(Record, frozen=True):
    """Take back the nomination of a pod that lost its room, and the plan that came with it."""

    pod: PodRef


class Evict(Record, frozen=True):
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


class SaveLedger(Record, frozen=True):
    """Write the ledger down, so that a restart or a fail-over forgets nothing."""

    #: The whole ledger (`state/preemption/ledger`).
    text: str
    #: Tells it from earlier states.
    revision: int

    def __repr__(self) -> str:
        return f"SaveLedger(revision={self.revision})"


class RecordEvent(Record, frozen=True):
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


class NodeVictims(Record, frozen=True):
    """Who would have to leave a node."""

    node: str
    #: Most important first.
    pods: tuple[PodRef, ...]
    #: How many of them a budget would protect.
    violations: int


class Question(Record, frozen=True):
    """What one extender is asked."""

    #: Its place among the configured extenders.
    extender: int
    verb: Verb
    #: Names of the nodes in question.
    nodes: tuple[str, ...] = ()
    #: The preemptions in question; of `PREEMPT` only.
    victims: tuple[NodeVictims, ...] = ()


class Ask(Record, frozen=True):
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
    | SaveLedger
    | RecordEvent
    | Ask
)
