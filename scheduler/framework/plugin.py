"""What a plugin is.

A plugin is one scheduling rule. It is *compiled* once for each class of equal pods. The result, a
`CompiledFilter` or a `CompiledScore`, already knows what the pod requests, and evaluates any view
of nodes, all rows at once. A plugin that does not apply to a class of pods compiles to `None` and
costs that class nothing.

    Filter.compile_filter(pod) -> CompiledFilter
        .prepare(state) -> whether it applies in this attempt
        .codes(nodes)   -> (n,) verdict codes, 0 where the pod fits
    Score.compile_score(pod)   -> CompiledScore
        .prepare(state) -> whether it applies in this attempt
        .scores(nodes)  -> (n,) raw scores
        .normalise(raw) -> (n,) scores from 0 to 100

A compiled rule declares what its result `reads`. A result that reads only the node itself, or the
node and its pods, is cached by row and recomputed for changed rows only. All other results are
computed in each attempt. The result for a node must not depend on the other nodes of the view.

All pods of a class share a compiled rule, so it keeps nothing of an attempt. A rule that depends on
more of a pod, or on the time, returns from `prepare` the rule for this attempt.

Axes: n rows of a view.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np

from scheduler.framework.cluster_events import ClusterEvent, ClusterEventWithHint
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.verdicts import EvictionOutcome, Verdict, Verdicts
from scheduler.model.api.device_claims import Allocation
from scheduler.model.api.objects import Node, Pod
from scheduler.model.effects import Effect
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Scores
from scheduler.state.columns.pod_footprints import PodFootprint
from scheduler.state.views.node_view import HypotheticalView, NodeView

__all__ = [
    "MAX_SCORE",
    "PASS",
    "SKIP",
    "CapacityFilter",
    "Change",
    "CompiledFilter",
    "CompiledScore",
    "Filter",
    "Named",
    "NodeFilter",
    "NodeScore",
    "Plugin",
    "PluginError",
    "PostFilter",
    "PostFilterMessage",
    "PreEnqueue",
    "PreFilter",
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

    #: Only the Node object.
    NODE = 0
    #: The Node object and the pods on the node.
    PODS = 1
    #: More than the row: counters of its topology domain, volumes, the set of feasible nodes.
    CLUSTER = 2


class PrepareStatus(IntEnum):
    """What `prepare` returns when the rule does not reject the pod."""

    PASS = 0
    #: The rule is skipped in this attempt.
    SKIP = 1


PASS: Final = PrepareStatus.PASS
SKIP: Final = PrepareStatus.SKIP


@dataclass(frozen=True, slots=True)
class Rejected:
    """The pod is rejected on all nodes, before any node is evaluated (PreFilter)."""

    verdict: Verdict


class PluginError(Exception):
    """A rule failed on the pod: the attempt ends as an error with this message."""


class Named(Protocol):
    """Something that has the name of a plugin."""

    @property
    def name(self) -> str:
        """The name, as in the configuration file."""
        ...


class Plugin(Named, Protocol):
    """What every plugin has.

    Source: kube-scheduler v1.36.3 framework.EnqueueExtensions.
    """

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        """Return the events that may make a pod schedulable that this plugin rejected."""
        ...


class CompiledFilter(ABC):
    """A filter, compiled for one class of pods."""

    #: What a verdict about a row depends on.
    reads: Reads = Reads.NODE
    #: Whether adding a pod to a node can never turn a rejection into a fit.
    monotone: bool = True
    #: Whether the verdict depends on the pod's spec alone (volume names and claim names ignored),
    #: and on the volumes of its claims. Must hold for the plugin's queueing hints, too, except
    #: for hints on PersistentVolumeClaims.
    spec_only: bool = False
    #: The names of the only nodes on which the pod can fit; `None` when there is no such limit.
    #: Source: kube-scheduler v1.36.3 framework.PreFilterResult.NodeNames.
    node_names: frozenset[str] | None = None

    def prepare(self, _state: AttemptState, /) -> "Prepared":
        """Reject the pod, or skip the rule, before any node is evaluated (PreFilter)."""
        return PASS

    @abstractmethod
    def codes(self, nodes: NodeView) -> Codes:
        """Return, (n,), a verdict code for each node, 0 where the pod fits."""

    def codes_where(self, nodes: NodeView, passing: Bool) -> Codes:
        """Return, (n,), verdict codes that count only on the nodes that pass so far.

        Rules that can fail, or that remember what they reject, look at no other nodes.
        """
        del passing
        return self.codes(nodes)

    def fits_row(self, row: int) -> bool | None:
        """Return whether the pod fits one row as it is, without arrays; `None` to use `codes`.

        For rules that read pods: after each placement only one row has to be evaluated again, and
        arrays of one element cost ten times as much as plain arithmetic.
        """
        del row
        return None

    def fits(self, nodes: NodeView) -> Bool:
        """Return, (n,), whether the pod fits each node, for callers that need no reasons."""
        fits: Bool = self.codes(nodes) == 0
        return fits

    def given_up(self, _nodes: NodeView, /) -> Codes | None:
        """Return, (n,), verdicts for nodes of a view that were too many to evaluate, 0 elsewhere.

        What `fits` said of these may be wrong. `None` if there are none.
        """
        return None

    def cache_key(self) -> Hashable:
        """Return what verdicts on hypothetical views depend on beside facts of a row and its pods.

        For filters that read `CLUSTER`. Facts of devices that `HeldDevices.changes` records count
        as those of a row. `None` if that is not known, or if verdicts so far were no final ones.
        """
        return None

    def expected_devices(self, _nodes: HypotheticalView, /) -> Mapping[str, Allocation]:
        """Return the devices that the pod would get on the one node of a view, by uid of its claim.

        Raises:
            PluginError: It would not get them.
        """
        return {}

    def outcomes(self, _codes: Codes, /) -> Mapping[int, EvictionOutcome]:
        """Return what evictions would mean, by row, where more is known than that they do not help.

        For explanations only.

        Args:
            codes: (N,) the verdicts that remain without the pods of lower priority.
        """
        return {}


#: A compiled filter takes the place of the one that was prepared, in this attempt. Both read
#: `CLUSTER`.
Prepared: TypeAlias = PrepareStatus | Rejected | CompiledFilter


class PreFilter(CompiledFilter):
    """A compiled filter that evaluates the pod in `prepare`, and accepts every node itself."""

    def codes(self, nodes: NodeView) -> Codes:
        """Return, (n,), 0 for each node."""
        return np.zeros(len(nodes), dtype=np.uint16)


class CompiledScore(ABC):
    """A score, compiled for one class of pods."""

    #: What a raw score depends on.
    reads: Reads = Reads.NODE
    #: Whether raw scores have to be normalised over the feasible nodes (NormalizeScore).
    needs_normalising: bool = False

    def prepare(self, _state: AttemptState, /) -> "PrepareStatus | CompiledScore":
        """Return whether the rule scores in this attempt (PreScore): `PASS` or `SKIP`.

        A rule that reads `CLUSTER` may return another one that scores in this attempt.
        """
        return PASS

    def cache_key(self) -> Hashable:
        """Return a value that changes when cached raw scores of all rows become invalid."""
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

        When all raw scores are equal, all normalised scores must be equal, too.
        """
        return raw


@runtime_checkable
class PreEnqueue(Named, Protocol):
    """PreEnqueue: keeps pods out of the scheduling queue."""

    def pre_enqueue(self, pod: Pod, cluster: Cluster) -> str | None:
        """Return why the pod must not enter the queue yet; `None` when it may."""
        ...


@runtime_checkable
class Filter(Named, Protocol):
    """PreFilter and Filter."""

    def compile_filter(
        self, pod: Pod, cluster: Cluster, verdicts: Verdicts
    ) -> CompiledFilter | None:
        """Compile the rule for the class of this pod; `None` when it never rejects such pods."""
        ...


@runtime_checkable
class CapacityFilter(Named, Protocol):
    """A filter whose rejections a deleted pod can lift only by the resources that it frees.

    A preemptor that was rejected by such filters alone is not retried before enough is free.
    """

    def may_fit(self, footprint: PodFootprint, row: int, priority: int, cluster: Cluster) -> bool:
        """Return, without compiling the rule, whether a pod may fit on a row; False is certain.

        Args:
            footprint: What the pod takes from a node.
            row: Of the node. The pod is not nominated to it.
            priority: Of the pod. Nominations of pods of this priority or higher count.
            cluster: As it is now.
        """
        ...


@runtime_checkable
class NodeFilter(Named, Protocol):
    """The simple form of a filter: one node at a time, run on nodes that pass all other filters."""

    #: The reasons that `filter_node` returns an index of; index 0 stands for a node that fits.
    reasons: ClassVar[tuple[str, ...]]

    def filter_node(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> int:
        """Return 0 when the pod fits the node, else the index of the reason why it does not."""
        ...


@runtime_checkable
class Score(Named, Protocol):
    """PreScore, Score and NormalizeScore."""

    def compile_score(self, pod: Pod, cluster: Cluster) -> CompiledScore | None:
        """Compile the rule for the class of this pod; `None` when it does not score such pods."""
        ...


@runtime_checkable
class NodeScore(Named, Protocol):
    """The simple form of a score: one node at a time, run on feasible nodes only."""

    def score_node(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> int:
        """Return the score of the node for the pod, from 0 to 100."""
        ...


@dataclass(frozen=True, slots=True)
class PostFilterMessage:
    """What a PostFilter plugin adds to the message when it does not make the pod schedulable."""

    message: str
    #: Whether the phase ends here: later PostFilter plugins are not run.
    ends: bool = False
    #: What makes the pod schedulable later.
    effects: tuple[Effect, ...] = ()


@runtime_checkable
class PostFilter(Named, Protocol):
    """PostFilter: runs when a pod fits nowhere."""

    def post_filter(
        self, state: AttemptState, *, prefilter_rejected_by: str | None
    ) -> PostFilterMessage:
        """Return a message; preemption itself is part of the core, not a plugin."""
        ...


#: A change of an object that waiting pods may wait for: the event, the old and the new state.
Change: TypeAlias = tuple[ClusterEvent, object, object]


@dataclass(frozen=True, slots=True)
class ReservationFailed:
    """A reservation that cannot be completed."""

    reason: str
    #: What kind of failure it is, for metrics.
    status: str = "error"


class Reservation(ABC):
    """What a pod holds besides resources of its node, from node selection until it is bound.

    Before the pod is bound, `effect` has to be done and `poll` has to return True.
    """

    #: What has to be done before the pod is bound.
    effect: Effect
    #: How long `poll` may return False once the effect is done, and the failure after that.
    timeout_seconds: Seconds
    timed_out: ReservationFailed
    #: Objects whose changes make it necessary to poll again: kind and key. `written` may add some.
    watched_objects: frozenset[tuple[str, str]]
    #: Reason and note of an Event on the pod, where it has to wait once the effect is done.
    waiting_event: tuple[str, str] | None = None

    @abstractmethod
    def poll(self) -> bool | ReservationFailed:
        """Return whether it is complete; called once the effect is done, and on each change."""

    def devices(self) -> tuple[tuple[str, bool], ...]:
        """Return the driver of each device, and whether the device has to be made ready.

        Empty where no device has to be.
        """
        return ()

    def written(self) -> None:  # noqa: B027 - most reservations have nothing to do
        """Record that the effect is done; called before the first `poll`."""

    def release(self) -> Iterable[Change]:
        """Give back what is held in memory; return what waiting pods see of that."""
        return ()

    def undo(self) -> Sequence[Effect]:
        """Return what has to be undone at the API server; called after `release`."""
        return ()


@runtime_checkable
class Reserve(Named, Protocol):
    """Reserve, Unreserve and PreBind."""

    def reserve(self, state: AttemptState, node: str, cluster: Cluster) -> Reservation | None:
        """Reserve what the pod needs on the selected node; `None` when it needs nothing."""
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
