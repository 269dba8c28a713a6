"""Effects: one API call, or one unit of calls, that the machine requests, as a value.

The service executes each effect and returns exactly one outcome event for it.
"""

from enum import StrEnum
from typing import TypeAlias

from scheduler.model.api.device_claims import Allocation, DeviceRequests
from scheduler.model.base import Record

__all__ = [
    "Ask",
    "Bind",
    "BindClaims",
    "BindVolumes",
    "ClaimRef",
    "ClaimWrite",
    "ClearNomination",
    "DeallocateClaim",
    "DeleteClaim",
    "Effect",
    "Evict",
    "NodeVictims",
    "Nominate",
    "PodRef",
    "Question",
    "RecordEvent",
    "ReleaseClaims",
    "RequestMapping",
    "ReserveVolume",
    "SaveLedger",
    "SelectNode",
    "SetCondition",
    "Verb",
]


class PodRef(Record, frozen=True):
    """A reference to a pod. Two references are equal if their uids are."""

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
    """Bind a pod to a node: POST pods/binding with the pod's uid as precondition."""

    pod: PodRef
    node: str
    scheduler_name: str
    #: The index of the configured extender that binds it; `None` if the scheduler does.
    extender: int | None = None


class ReserveVolume(Record, frozen=True):
    """Set a volume's `claimRef` for a claim. Fails if the volume has changed."""

    volume: str
    #: `metadata.resourceVersion` of the volume that the decision is based on.
    version: str
    claim_namespace: str
    claim_name: str
    claim_uid: str
    claim_version: str
    #: Also annotate the volume as bound by a controller; not for volumes reserved by hand.
    by_controller: bool


class SelectNode(Record, frozen=True):
    """Request a volume for a claim: annotate it with the node. Fails if the claim has changed."""

    claim_namespace: str
    claim_name: str
    #: `metadata.resourceVersion` of the claim that the decision is based on.
    version: str


class BindVolumes(Record, frozen=True):
    """Start to bind the volumes of a pod: write the nomination, then volumes, then claims.

    Done when everything is written. Controllers finish the binding, which the watches report.
    """

    pod: PodRef
    node: str
    volumes: tuple[ReserveVolume, ...]
    claims: tuple[SelectNode, ...]


class ClaimRef(Record, frozen=True):
    """A reference to a resource claim."""

    namespace: str
    #: Empty for a claim that does not exist yet.
    name: str
    #: Of a claim that does not exist yet, a name for its allocation in flight.
    uid: str
    #: `metadata.resourceVersion` of the claim that the decision is based on.
    version: str = ""

    @property
    def key(self) -> str:
        """Namespace and name, joined by a slash."""
        return f"{self.namespace}/{self.name}"


class RequestMapping(Record, frozen=True):
    """Which request of a claim has the devices for an extended resource of a container."""

    container_name: str
    resource_name: str
    request_name: str


class ClaimWrite(Record, frozen=True):
    """One claim that a pod uses: allocate it where that is to be done, then reserve it."""

    claim: ClaimRef
    #: `None` if the claim is allocated already.
    allocation: Allocation | None = None
    #: What a claim for extended resources asks for; it is created first. `None` for other claims.
    created_for: DeviceRequests | None = None
    #: What the pod's status says of the claim for extended resources.
    mappings: tuple[RequestMapping, ...] = ()
    #: Whether the claim has the finalizer that protects its devices.
    is_protected: bool = False


class BindClaims(Record, frozen=True):
    """Allocate and reserve the claims of a pod; nominate it first if its devices are not ready.

    Each claim in its order: finalizer, then allocation and reservation, on the newest state of the
    claim where the API server reports a conflict. Its answers are events of their own
    (`ClaimAnswered`), and come before the outcome.
    """

    pod: PodRef
    node: str
    claims: tuple[ClaimWrite, ...]
    #: Whether some of the devices have to be made ready before the pod can be bound.
    awaits_devices: bool = False


class ReleaseClaims(Record, frozen=True):
    """Take back the reservations of a pod that is not bound after all. Allocations stay."""

    pod: PodRef
    claims: tuple[ClaimRef, ...]


class DeallocateClaim(Record, frozen=True):
    """Take the devices of a claim that no other pod uses. Fails if the claim has changed."""

    #: The pod that needs other devices.
    pod: PodRef
    claim: ClaimRef


class DeleteClaim(Record, frozen=True):
    """Delete a claim for the extended resources of a pod: first its finalizer, then the claim."""

    pod: PodRef
    claim: ClaimRef


class SetCondition(Record, frozen=True):
    """Write into the pod's status why it is not scheduled: condition `PodScheduled=False`."""

    pod: PodRef
    #: `Unschedulable` or `SchedulerError`.
    reason: str
    #: The full text; the API has no limit on its length.
    message: str
    #: `metadata.generation` of the pod that the decision is based on.
    generation: int
    #: Also clear `status.nominatedNodeName`, and the plan, in the same request.
    clear_nomination: bool = False


class Nominate(Record, frozen=True):
    """Nominate a preemptor to a node: nomination and condition in one status PATCH."""

    pod: PodRef
    node: str
    #: Why no node was feasible before.
    message: str
    generation: int
    #: The plan (`model/plan_record`); written in the same request.
    plan: str = ""


class ClearNomination(Record, frozen=True):
    """Clear the nomination of a pod, and the plan that was written with it."""

    pod: PodRef


class Evict(Record, frozen=True):
    """Evict a victim: condition `DisruptionTarget`, then DELETE with its uid and own grace."""

    victim: PodRef
    node: str
    #: The pod that it is evicted for.
    preemptor: PodRef
    scheduler_name: str
    #: `metadata.generation` of the victim.
    generation: int
    #: Use the eviction API, which refuses if that would violate a disruption budget.
    strict: bool = False


class SaveLedger(Record, frozen=True):
    """Persist the ledger, so that a restart or a fail-over loses nothing."""

    #: The whole ledger (`state/preemption/ledger`).
    text: str
    #: Distinguishes it from earlier states.
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
    #: The pod for which it happened.
    related: PodRef | None = None


class Verb(StrEnum):
    """The kind of a call to an extender."""

    #: Which of the given nodes are feasible for the pod.
    FILTER = "filter"
    #: The scores of the given nodes.
    PRIORITIZE = "prioritize"
    #: Which of the given preemptions are allowed.
    PREEMPT = "preempt"


class NodeVictims(Record, frozen=True):
    """The victims of a possible preemption on a node."""

    node: str
    #: Most important first.
    pods: tuple[PodRef, ...]
    #: The number of them whose eviction violates a disruption budget.
    violations: int


class Question(Record, frozen=True):
    """One call to one extender."""

    #: The index of the extender in the configuration.
    extender: int
    verb: Verb
    #: Names of the given nodes.
    nodes: tuple[str, ...] = ()
    #: The given preemptions; of `PREEMPT` only.
    victims: tuple[NodeVictims, ...] = ()


class Ask(Record, frozen=True):
    """Call extenders about a pod, all at once. `Answered` has one answer for each question."""

    pod: PodRef
    #: Identifies this effect among those of its kind.
    number: int
    #: `metadata.resourceVersion` of the pod that is being scheduled.
    version: str
    questions: tuple[Question, ...]


Effect: TypeAlias = (
    Bind
    | BindVolumes
    | BindClaims
    | ReleaseClaims
    | DeallocateClaim
    | DeleteClaim
    | SetCondition
    | Nominate
    | ClearNomination
    | Evict
    | SaveLedger
    | RecordEvent
    | Ask
)
