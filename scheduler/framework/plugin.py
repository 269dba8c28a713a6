"""What a plugin is.

A plugin is one rule. For each class of equal pods it is *compiled* once into a predicate (filter)
or a priority (score): an object that already knows what the pod asks for and judges any view of
nodes, all rows at once. A plugin that has nothing to say about a class compiles to `None` and
costs that class nothing.

    Filter.compile_filter(pod) -> Predicate.codes(nodes) -> (n,) verdict codes, 0 where the pod fits
    Score.priority(pod)   -> Priority.scores(nodes) -> (n,) raw scores; .normalise(raw) -> [0, 100]

Each predicate and priority says what its result `reads`. Results that read only a node's own
facts, or those and its pods, are kept per row and recomputed for changed rows only; all others
are computed for each attempt. A rule must judge a node the same alone as among others.

Axes: n rows of a view.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np

from scheduler.framework.cluster_events import ClusterEventWithHint
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Node, Pod
from scheduler.model.effects import Effect
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Scores
from scheduler.state.columns.pod_shapes import Shape
from scheduler.state.views.node_view import NodeView

__all__ = [
    "MAX_SCORE",
    "PASS",
    "SKIP",
    "CapacityFilter",
    "CompiledFilter",
    "CompiledScore",
    "Filter",
    "NodeFilter",
    "NodeScore",
    "Plugin",
    "PluginError",
    "PostFilter",
    "PostFilterMessage",
    "PreEnqueue",
    "PrepareStatus",
    "Prepared",
    "Reads",
    "Rejected",
    "Reservation",
    "ReservationFailed",
    "Reserve",
    "Score",
    "normalise_to_max",
]

MAX_SCORE = 100


class Reads(IntEnum):
    """What the result for a row depends on."""

    #: Only the node's own facts.
    NODE = 0
    #: The node's own facts and the pods on it.
    PODS = 1
    #: More than the row itself: counters of its domain, volumes, the set of feasible nodes.
    CLUSTER = 2


class PrepareStatus(IntEnum):
    """The two plain answers of `prepare`."""

    PASS = 0
    #: The rule has nothing to say in this attempt.
    SKIP = 1


PASS = PrepareStatus.PASS
SKIP = PrepareStatus.SKIP


@dataclass(frozen=True, slots=True)
class Rejected:
    """The whole pod is rejected before any node is looked at (PreFilter)."""

    verdict: Verdict


Prepared: TypeAlias = PrepareStatus | Rejected


class PluginError(Exception):
    """A rule cannot judge the pod at all: the attempt ends as an error with this message."""


class Plugin(Protocol):
    """What every plugin has."""

    @property
    def name(self) -> str:
        """The name, as in the configuration file."""
        ...

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return which changes may lift a rejection by this plugin."""
        ...


class CompiledFilter(ABC):
    """A filter, compiled for one class of pods."""

    #: What a verdict about a row depends on.
    reads: Reads = Reads.NODE
    #: Whether a pod more on a node can never turn a rejection into a fit.
    monotone: bool = True
    #: Whether nothing of the pod is looked at but its spec, without the names in its volumes, and
    #: what its claims bring; neither here nor by the hints of the plugin, those on claims aside.
    spec_only: bool = False
    #: The only nodes that can take the pod, by name; `None` when all can.
    node_names: frozenset[str] | None = None

    def prepare(self) -> Prepared:
        """Say something about the pod as a whole, before any node is looked at."""
        return PASS

    @abstractmethod
    def codes(self, nodes: NodeView) -> Codes:
        """Return, (n,), a verdict code for each node, 0 where the pod fits."""

    def fits_row(self, row: int) -> bool | None:
        """Tell whether the pod fits one row as it is, without arrays; `None` to use `codes`.

        For rules that read pods: after each placement just one row has to be judged again, and
        arrays of one element cost ten times what plain arithmetic does.
        """
        del row
        return None

    def fits(self, nodes: NodeView) -> Bool:
        """Return, (n,), where the pod fits; for those who do not ask why."""
        fits: Bool = self.codes(nodes) == 0
        return fits


class CompiledScore(ABC):
    """A score, compiled for one class of pods."""

    #: What a raw score depends on.
    reads: Reads = Reads.NODE
    #: Whether raw scores have to be normalised over the feasible nodes.
    needs_normalising: bool = False

    def prepare(self) -> PrepareStatus:
        """Say whether the rule scores at all in this attempt."""
        return PASS

    def cache_key(self) -> Hashable:
        """Return a value that changes when the raw scores of all rows have to be recomputed."""
        return None

    @abstractmethod
    def scores(self, nodes: NodeView) -> Scores:
        """Return, (n,), the raw score of each node."""

    def score_row(self, row: int) -> int | None:
        """Return the raw score of one row without arrays; `None` to use `scores`."""
        del row
        return None

    def normalise(self, raw: Scores) -> Scores:
        """Return, (n,), scores from 0 to 100 for the raw scores of all feasible nodes.

        Where all raw scores are equal, so must all normalised ones be.
        """
        return raw


@runtime_checkable
class PreEnqueue(Protocol):
    """PreEnqueue: keeps pods out of the queue."""

    @property
    def name(self) -> str:
        """The name, as in the configuration file."""
        ...

    def pre_enqueue(self, pod: Pod) -> str | None:
        """Return why the pod must not be scheduled yet, `None` when it may."""
        ...


@runtime_checkable
class Filter(Protocol):
    """PreFilter and Filter."""

    @property
    def name(self) -> str:
        """The name, as in the configuration file."""
        ...

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        """Compile the rule for pods like this one; `None` when it never rejects them."""
        ...


@runtime_checkable
class CapacityFilter(Protocol):
    """A filter that rejects a node for nothing that a pod which goes can change but its room.

    Preemptors that it alone has rejected need not be tried again before there is enough room.
    """

    @property
    def name(self) -> str:
        """The name, as in the configuration file."""
        ...

    def may_fit(self, shape: Shape, row: int, priority: int, cluster: Cluster) -> bool:
        """Tell, without compiling the rule, whether a pod may fit on a row; False is certain.

        Args:
            shape: What the pod takes from a node.
            row: Of the node, which the pod does not claim.
            priority: Of the pod; claims of pods of this priority or higher count.
            cluster: As it is.
        """
        ...


@runtime_checkable
class NodeFilter(Protocol):
    """The simple form of a filter: one node at a time, run on the survivors of all others."""

    #: What `filter_node` may return: index 0 stands for *fits*, the others are reasons.
    reasons: ClassVar[tuple[str, ...]]

    @property
    def name(self) -> str:
        """The name, as in the configuration file."""
        ...

    def filter_node(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> int:
        """Return 0 when the node takes the pod, else the index of the reason why not."""
        ...


@runtime_checkable
class Score(Protocol):
    """PreScore, Score and NormalizeScore."""

    @property
    def name(self) -> str:
        """The name, as in the configuration file."""
        ...

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        """Compile the rule for pods like this one; `None` when it does not score them."""
        ...


@runtime_checkable
class NodeScore(Protocol):
    """The simple form of a score: one node at a time, run on feasible nodes only."""

    @property
    def name(self) -> str:
        """The name, as in the configuration file."""
        ...

    def score_node(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> int:
        """Return how good the node is for the pod, from 0 to 100."""
        ...


@dataclass(frozen=True, slots=True)
class PostFilterMessage:
    """What a PostFilter plugin without a cure adds to the message."""

    message: str
    #: Whether it ends the phase: no later plugin is asked.
    ends: bool = False


@runtime_checkable
class PostFilter(Protocol):
    """A cure for pods that fit nowhere."""

    @property
    def name(self) -> str:
        """The name, as in the configuration file."""
        ...

    def post_filter(self, pod: Pod, *, prefilter_rejected_by: str | None) -> PostFilterMessage:
        """Say what there is to say; preemption itself is the core's own cure."""
        ...


@dataclass(frozen=True, slots=True)
class ReservationFailed:
    """What a pod waits for will not come."""

    reason: str


class Reservation(ABC):
    """What a pod holds beside room on its node, from the choice of the node until it is bound.

    The effect has to be done, and what `poll` asks for has to be there, before it is bound.
    """

    #: What has to be done before the binding.
    effect: Effect
    #: How long to wait for the rest when the effect is done, and why it then is given up.
    timeout_seconds: Seconds
    timed_out: ReservationFailed
    #: Objects whose news may decide: kind and key.
    watched_objects: frozenset[tuple[str, str]]

    @abstractmethod
    def poll(self) -> bool | ReservationFailed:
        """Tell whether everything is there; asked when the effect is done, and again on news."""

    @abstractmethod
    def release(self) -> None:
        """Give up what is held, as far as only we know of it."""


@runtime_checkable
class Reserve(Protocol):
    """Reserve, Unreserve and PreBind."""

    @property
    def name(self) -> str:
        """The name, as in the configuration file."""
        ...

    def reserve(self, pod: Pod, node: str, cluster: Cluster) -> Reservation | None:
        """Take what the pod needs on the node that was chosen; `None` when that is nothing."""
        ...


def normalise_to_max(raw: Scores, *, reverse: bool = False) -> Scores:
    """Scale scores so that the best gets 100, or 0 when reversed; integer division.

    Source: kube-scheduler v1.36.3 plugins/helper.DefaultNormalizeScore.
    """
    top = int(raw.max(initial=0))
    if top == 0:
        return np.full_like(raw, MAX_SCORE) if reverse else raw
    scaled = raw * MAX_SCORE // top
    return MAX_SCORE - scaled if reverse else scaled
