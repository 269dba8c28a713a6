"""How an attempt ended, or why it waits: one pod, one decision, with its trace."""

from typing import TypeAlias

from scheduler.model.base import Record
from scheduler.model.effects import Effect, PodRef
from scheduler.model.policy_refusals import PolicyRefusal

__all__ = [
    "Attempt",
    "Decision",
    "Failed",
    "Gated",
    "NodeTrace",
    "Placed",
    "Preempting",
    "Unschedulable",
    "Waiting",
]


class Placed(Record, frozen=True):
    """The pod goes to this node."""

    node: str


class Preempting(Record, frozen=True):
    """The pod is nominated to this node and its victims are asked to leave."""

    node: str
    #: All pods that must be gone, most important first; those already terminating included.
    victims: tuple[PodRef, ...]
    #: How many of them a budget would have protected.
    violations: int
    #: Why the pod fitted nowhere.
    message: str


class Unschedulable(Record, frozen=True):
    """The pod fits nowhere, and preemption does not help."""

    message: str


class Gated(Record, frozen=True):
    """The pod must not be scheduled yet."""

    message: str


class Failed(Record, frozen=True):
    """The attempt itself failed: an error, not a verdict about the pod."""

    message: str


class Waiting(Record, frozen=True):
    """Nothing is decided yet: extenders are asked, and the attempt goes on with their answers."""

    #: The configured extenders that are asked, by place.
    extenders: tuple[int, ...]


Decision: TypeAlias = Placed | Preempting | Unschedulable | Gated | Failed | Waiting


class NodeTrace(Record, frozen=True):
    """What an explained attempt found on one node."""

    name: str
    #: `Plugin: reason, reason`, or `None` where the pod fits.
    rejection: str | None
    #: Weighted, normalised score by plugin; empty where nothing was scored.
    scores: dict[str, int]
    #: Why pods must not be evicted from it for this one: what policies say, in full.
    objections: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """The sum of the scores."""
        return sum(self.scores.values())


class Attempt(Record, frozen=True):
    """One pod, one decision."""

    pod: PodRef
    scheduler_name: str
    priority: int
    decision: Decision
    #: What the decision asks of the world.
    effects: tuple[Effect, ...]
    #: How many attempts this pod has had, this one included.
    number: int
    #: Nodes looked at, and how many of them could take the pod.
    nodes: int
    feasible: int
    #: Plugins that rejected the pod on some node, in name order.
    plugins: tuple[str, ...] = ()
    #: Whether a preemption was tried (eligible or not).
    preemption_tried: bool = False
    #: How long the attempt has waited for extenders, in seconds.
    waited: float = 0.0
    #: What policies refused about preemption, or would have refused if they were enforced.
    refusals: tuple[PolicyRefusal, ...] = ()
    #: What was found on each node; only of explained attempts.
    trace: tuple[NodeTrace, ...] = ()
