"""Attempts and their decisions: one pod, one decision, with an optional trace."""

from collections.abc import Mapping
from enum import IntEnum, StrEnum
from typing import NamedTuple, TypeAlias, assert_never

from scheduler.model.base import Record
from scheduler.model.comparisons import Comparison
from scheduler.model.effects import Effect, PodRef
from scheduler.model.policy_vetoes import RuleVeto

__all__ = [
    "Attempt",
    "AttemptDetails",
    "AttemptPhase",
    "Decision",
    "DecisionSummary",
    "Detail",
    "Failed",
    "Gated",
    "NodeTrace",
    "Placed",
    "Preempting",
    "Rejection",
    "Unschedulable",
    "Waiting",
    "summary",
]


class Placed(Record, frozen=True):
    """The pod is placed on this node."""

    node: str


class Preempting(Record, frozen=True):
    """The pod is nominated to this node and its victims are evicted."""

    node: str
    #: All pods that must terminate, most important first, including those that already do.
    victims: tuple[PodRef, ...]
    #: The number of victims whose eviction violates a disruption budget.
    violations: int
    #: Why no node was feasible.
    message: str


class Unschedulable(Record, frozen=True):
    """No node is feasible, and preemption does not help."""

    message: str


class Gated(Record, frozen=True):
    """A scheduling gate blocks the pod."""

    message: str


class Failed(Record, frozen=True):
    """The attempt itself failed: an error, not a verdict about the pod."""

    message: str


class Waiting(Record, frozen=True):
    """Nothing is decided yet: the attempt is suspended until extenders have answered."""

    #: Indices of these extenders in the configuration.
    extenders: tuple[int, ...]


Decision: TypeAlias = Placed | Preempting | Unschedulable | Gated | Failed | Waiting


class DecisionSummary(NamedTuple):
    """A decision in the words of the API and of `plan`."""

    #: Scheduled, Preempting, Unschedulable, Gated, Error or Waiting.
    word: str
    #: The node that the pod is placed on or nominated to; empty if there is none.
    node: str
    #: Why no node was feasible, or what failed; empty for a pod that is placed.
    message: str


def summary(decision: Decision) -> DecisionSummary:
    """Return a decision as all documents and tables show it."""
    match decision:
        case Placed(node):
            return DecisionSummary("Scheduled", node, "")
        case Preempting(node, _, _, message):
            return DecisionSummary("Preempting", node, message)
        case Unschedulable(message):
            return DecisionSummary("Unschedulable", "", message)
        case Gated(message):
            return DecisionSummary("Gated", "", message)
        case Failed(message):
            return DecisionSummary("Error", "", message)
        case Waiting():
            return DecisionSummary("Waiting", "", "")
        case _:
            assert_never(decision)


class NodeTrace(Record, frozen=True):
    """The verdict on one node, with scores; part of an explained attempt."""

    name: str
    #: `Plugin: reason, reason`, or `None` if the pod fits.
    rejection: str | None
    #: Weighted, normalised score by plugin; empty if nothing was scored.
    scores: dict[str, int]
    #: The full texts of the vetoes on evictions from it for this pod.
    vetoes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """The sum of the scores."""
        return sum(self.scores.values())


class Rejection(Record, frozen=True):
    """A verdict that rejects a pod, and on how many nodes."""

    plugin: str
    reasons: tuple[str, ...]
    nodes: int
    #: Whether the removal of pods could lift it.
    resolvable: bool
    #: The first nodes, by name.
    examples: tuple[str, ...]
    #: On how many of them evictions would mean what, by the values of `EvictionOutcome`; without
    #: the nodes on which they were not tried.
    outcomes: Mapping[str, int]


class AttemptPhase(StrEnum):
    """A part of an attempt whose time is measured."""

    #: From popping the pod until the feasible nodes are known.
    FILTER = "filter"
    #: Scores the feasible nodes and picks one.
    SCORE = "score"
    #: Runs the post filters: looks for a node and victims.
    PREEMPT = "preempt"
    #: Assumes the pod, or starts its preemption, or has it wait; and hands the effects over.
    COMMIT = "commit"


class Detail(IntEnum):
    """How much an attempt tells beside its decision; each level includes those before it."""

    NONE = 0
    #: How the candidates of a preemption compared.
    COMPARISON = 1
    #: The rejections and vetoes with their numbers of nodes; no vetoed candidate is compared.
    COUNTS = 2
    #: The verdict on each node, and the vetoes against preemption there.
    NODES = 3
    #: The pods that each veto is about, on however many nodes.
    PODS = 4


class AttemptDetails(Record, frozen=True):
    """What an attempt is decided by; from `Detail.COUNTS` on."""

    #: Most nodes first.
    rejections: tuple[Rejection, ...] = ()
    #: Why policies, and earlier wasted preemptions, forbid preemptions, with the number of nodes.
    vetoes: tuple[tuple[str, int], ...] = ()


class Attempt(Record, frozen=True):
    """One pod, one decision."""

    pod: PodRef
    scheduler_name: str
    priority: int
    decision: Decision
    #: The effects of the decision.
    effects: tuple[Effect, ...]
    #: The number of attempts of this pod, including this one.
    number: int
    #: The number of evaluated nodes, and how many of them are feasible.
    nodes: int
    feasible: int
    #: Plugins that rejected the pod on some node, in name order.
    plugins: tuple[str, ...] = ()
    #: Whether preemption was tried, even if the pod was not eligible.
    preemption_tried: bool = False
    #: How long the attempt has waited for extenders, in seconds.
    waited: float = 0.0
    #: Refusals of preemption by policies, including those of policies in audit mode.
    vetoes: tuple[RuleVeto, ...] = ()
    #: The verdict on each node; from `Detail.NODES` on.
    trace: tuple[NodeTrace, ...] = ()
    #: How the candidates of its preemption compared; from `Detail.COMPARISON` on.
    comparison: Comparison | None = None
    #: Uids of the victims whose eviction violates a disruption budget, as far as they are known.
    violating: frozenset[str] = frozenset()
    details: AttemptDetails | None = None
