"""The content of the terminal view, as values.

The watcher of a cluster builds a `ViewSnapshot`; `view` renders it. Times are seconds since the
start of the watch. Pods are identified by key: namespace and name, joined by a slash.
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
    """The phase of a pod on a node."""

    BOUND = "bound"
    TERMINATING = "terminating"
    #: It is not bound yet: resources are reserved for it.
    NOMINATED = "nominated"


class AttemptResult(StrEnum):
    """The result of an attempt."""

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
    #: Keys of the first pods that are known.
    first: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod that is on a node or nominated to it."""

    key: str
    priority: int
    #: Its PriorityClass; empty if it has none.
    priority_class: str = ""
    phase: PodPhase = PodPhase.BOUND


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node, its used resources and its pods."""

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
    #: The node that it was placed on or nominated to.
    node: str = ""
    victims: tuple[str, ...] = ()
    #: Why no node was feasible.
    message: str = ""


@dataclass(frozen=True, slots=True)
class NominationView:
    """A preemptor that waits for its victims to terminate."""

    pod: str
    node: str
    since: Seconds


@dataclass(frozen=True, slots=True)
class VictimView:
    """A pod that was evicted."""

    pod: str
    priority: int
    node: str
    #: Key of its preemptor.
    preemptor: str
    evicted_at: Seconds
    #: `None` while it still exists.
    gone_at: Seconds | None = None


@dataclass(frozen=True, slots=True)
class PlacementView:
    """A pod that the scheduler bound."""

    pod: str
    priority: int
    node: str
    at: Seconds
    #: From its creation to its binding.
    waited: Seconds


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts since the start of the watch."""

    pods: int = 0
    placed: int = 0
    waiting: int = 0
    preemptions: int = 0
    evicted: int = 0


@dataclass(frozen=True, slots=True)
class ViewSnapshot:
    """All that is shown, at one moment."""

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
    #: Values of the priority classes of the legend, by name; those of pods are added.
    classes: dict[str, int] = field(default_factory=dict)
