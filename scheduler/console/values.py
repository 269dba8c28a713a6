"""What the terminal view shows, as values.

Whoever watches a cluster builds a `ViewSnapshot`; `view` makes a picture of it. Times are seconds
since the watching began. Pods are named by key, namespace and name joined by a slash.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from scheduler.model.times import Seconds

__all__ = [
    "AttemptResult",
    "AttemptView",
    "NodeView",
    "NominationView",
    "PlacementView",
    "PodPhase",
    "PodView",
    "QueueView",
    "Totals",
    "VictimView",
    "ViewSnapshot",
]


class PodPhase(StrEnum):
    """How a pod stands on a node."""

    BOUND = "bound"
    TERMINATING = "terminating"
    #: It is not there yet: room is held for it.
    NOMINATED = "nominated"


class AttemptResult(StrEnum):
    """What an attempt decided, in the words of the view."""

    PLACED = "placed"
    PREEMPTING = "preempting"
    UNSCHEDULABLE = "unschedulable"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class QueueView:
    """One of the queues."""

    #: As in the metrics: `active`, `backoff`, `unschedulable`, `gated`.
    name: str
    count: int
    #: Keys of the first pods, as many as are known.
    first: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod on a node, or about to be."""

    key: str
    priority: int
    #: Its PriorityClass, empty for none.
    priority_class: str = ""
    phase: PodPhase = PodPhase.BOUND


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node with what is used of it."""

    name: str
    cpu_used_millicores: int
    cpu_millicores: int
    memory_used_bytes: int
    memory_bytes: int
    pods: tuple[PodView, ...] = ()


@dataclass(frozen=True, slots=True)
class AttemptView:
    """An attempt that has ended."""

    at: Seconds
    pod: str
    result: AttemptResult
    #: Where it was placed or nominated to.
    node: str = ""
    victims: tuple[str, ...] = ()
    #: Why it fitted nowhere.
    message: str = ""


@dataclass(frozen=True, slots=True)
class NominationView:
    """A preemptor that waits for its victims to leave."""

    pod: str
    node: str
    since: Seconds


@dataclass(frozen=True, slots=True)
class VictimView:
    """A pod that was asked to leave."""

    pod: str
    priority: int
    node: str
    #: Key of the pod for which it leaves.
    preemptor: str
    asked_at: Seconds
    #: `None` while it is still there.
    gone_at: Seconds | None = None


@dataclass(frozen=True, slots=True)
class PlacementView:
    """A pod that was bound by us."""

    pod: str
    priority: int
    node: str
    at: Seconds
    #: From its creation to its binding.
    waited: Seconds


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts since the watching began."""

    pods: int = 0
    placed: int = 0
    waiting: int = 0
    preemptions: int = 0
    evicted: int = 0


@dataclass(frozen=True, slots=True)
class ViewSnapshot:
    """Everything that is shown, at one moment."""

    title: str
    elapsed: Seconds
    totals: Totals = Totals()
    queues: tuple[QueueView, ...] = ()
    nodes: tuple[NodeView, ...] = ()
    #: Newest first; so are the victims and the placements.
    attempts: tuple[AttemptView, ...] = ()
    nominations: tuple[NominationView, ...] = ()
    victims: tuple[VictimView, ...] = ()
    placements: tuple[PlacementView, ...] = ()
    #: Priority classes by value, to be explained; others are added from the pods.
    classes: dict[str, int] = field(default_factory=dict)
