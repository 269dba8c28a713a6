"""Documents about one pod: why it waits, where it runs, who evicted it, and what would help."""

from collections.abc import Mapping
from typing import Literal, TypeAlias

from scheduler.model.rest.cluster import PendingPodView
from scheduler.model.rest.common import CriterionView, Document, Impact, PodView
from scheduler.model.rest.preemptions import (
    CandidateView,
    PolicyVeto,
    PreemptionDevices,
    PreemptionView,
    VictimView,
)

__all__ = [
    "AttemptView",
    "FoundPod",
    "FoundPodsDocument",
    "NodeVerdict",
    "PlacementView",
    "PodEviction",
    "PodExplanation",
    "PodState",
    "PossiblePreemption",
    "RejectionGroup",
]

#: waiting: it is in the queue; running: it is on a node; evicted: this scheduler has evicted it, or
#: does; foreign: it is on a node, and of another scheduler; left: it has left the queue, and is on
#: no node.
PodState: TypeAlias = Literal["waiting", "running", "evicted", "foreign", "left"]


class RejectionGroup(Document, frozen=True):
    """A reason for which nodes reject a pod."""

    plugin: str
    reason: str
    #: How many nodes reject it for this reason.
    nodes: int
    #: Whether evicting pods could help on these nodes.
    resolvable: bool = False
    #: The first five nodes, by name.
    examples: tuple[str, ...] = ()
    #: What a dry run of evictions on these nodes has found: "yes", or "no" and why not.
    eviction: str = ""


class NodeVerdict(Document, frozen=True):
    """The result of one node for a pod."""

    name: str
    #: Why it rejects the pod; empty if the pod fits.
    rejection: str = ""
    plugin: str = ""
    scores: Mapping[str, int] = {}
    total: int = 0
    #: Why policies forbid a preemption there.
    vetoes: tuple[str, ...] = ()


class AttemptView(Document, frozen=True):
    """A finished attempt to schedule a pod. The last 16 of a pod are kept, within 4 MiB of all."""

    at: str
    #: Scheduled, Preempting, Unschedulable, Gated or Error.
    decision: str
    node: str = ""
    #: At most 2,000 characters.
    message: str = ""
    #: How many equal attempts followed it without another one in between.
    repeated: int = 0


class PossiblePreemption(Document, frozen=True):
    """The preemption that would be planned now; nothing is carried out."""

    node: str
    victims: tuple[VictimView, ...] = ()
    #: How many more victims there are, which the caller may not see.
    hidden_victims: int = 0
    pdb_violations: int = 0
    #: The devices that it would free; null if it frees none.
    devices: PreemptionDevices | None = None
    criteria: tuple[CriterionView, ...] = ()
    candidates: tuple[CandidateView, ...] = ()
    candidates_total: int = 0
    criterion: str = ""


class PlacementView(Document, frozen=True):
    """Where a pod runs, and what protects it there."""

    node: str
    #: When it started, or was created; empty if it is not known.
    since: str = ""
    #: The disruption budgets that protect it, and how many disruptions the tightest one allows.
    budgets: tuple[str, ...] = ()
    allowed_disruptions: int = 0
    #: Whether it is terminating already.
    terminating: bool = False
    #: The policy that stops all preemption; empty if none does.
    stopped_by: str = ""


class PodEviction(Document, frozen=True):
    """The eviction of a pod, planned, under way or past."""

    #: The pod as a victim; one of those of the preemption.
    victim: VictimView
    preemption: PreemptionView


class PodExplanation(Document, frozen=True):
    """`GET /api/v1/pods/{namespace}/{name}?uid=&nodes=1`: where a pod is, and why.

    A pod that waits is evaluated now; nothing is changed. For a pod that has left the queue within
    the last hour, and that was rejected before, it has the attempts. Evictions are known as long as
    their preemptions are.
    """

    pending: PendingPodView
    now: str
    #: The message of kube-scheduler, or why the pod is not evaluated.
    message: str
    #: One sentence for people that answers why it is where it is.
    verdict: str = ""
    #: What its eviction, or the preemption that would help it, does.
    impact: Impact = "none"
    state: PodState = "waiting"
    #: The node that it fits on now; empty where there is none.
    node: str = ""
    verdicts: tuple[RejectionGroup, ...] = ()
    preemption: PossiblePreemption | None = None
    #: Why no preemption helps, in the words of kube-scheduler; empty if one does.
    preemption_message: str = ""
    #: No preemption helps, but a priority above this one would preempt; null where none would.
    preempts_above: int | None = None
    policies: tuple[PolicyVeto, ...] = ()
    #: What would help, one sentence each, as "Node a lacks only 1 cpu, the least of 2 nodes."
    suggestions: tuple[str, ...] = ()
    #: When the pod left the queue; empty while it waits.
    left_at: str = ""
    history: tuple[AttemptView, ...] = ()
    #: Where it runs.
    placement: PlacementView | None = None
    #: The evictions of this pod, and of earlier ones of its name: the last five, the newest first.
    evictions: tuple[PodEviction, ...] = ()
    #: The eviction of the pod that its owner has replaced by this one.
    replaces: PodEviction | None = None
    #: The last preemption for this pod; empty if none is known.
    preempted: str = ""
    #: The devices that the pod waits for where pods are evicted for it; null if it does not.
    devices: PreemptionDevices | None = None
    #: With `?nodes=1`.
    nodes: tuple[NodeVerdict, ...] = ()


class FoundPod(Document, frozen=True):
    """A pod, and where it is."""

    pod: PodView
    state: PodState
    #: Where it is, or was evicted from.
    node: str = ""
    #: Since when it is there: waits, runs, or was evicted.
    since: str = ""


class FoundPodsDocument(Document, frozen=True):
    """`GET /api/v1/find?namespace=&name=&uid=&owner=&labelSelector=`: pods, and their state.

    Pods that wait, that run, and that were evicted; those that wait come first, grouped by what
    they request and why they wait.
    """

    now: str
    #: One sentence for people about all of them.
    verdict: str = ""
    impact: Impact = "none"
    #: At most 500.
    items: tuple[FoundPod, ...] = ()
    #: How many more there are.
    remaining: int = 0
    #: About the first one.
    first: PodExplanation | None = None
