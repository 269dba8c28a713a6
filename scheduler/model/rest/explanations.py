"""Documents about one pending pod: why it waits, and what would help."""

from collections.abc import Mapping

from scheduler.model.rest.cluster import PendingPodView
from scheduler.model.rest.common import CriterionView, Document
from scheduler.model.rest.preemptions import CandidateView, PolicyVeto, VictimView

__all__ = ["AttemptView", "NodeVerdict", "PodExplanation", "PossiblePreemption", "RejectionGroup"]


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
    criteria: tuple[CriterionView, ...] = ()
    candidates: tuple[CandidateView, ...] = ()
    candidates_total: int = 0
    criterion: str = ""


class PodExplanation(Document, frozen=True):
    """`GET /api/v1/pods/{namespace}/{name}?nodes=1`: evaluated now; nothing is changed.

    For a pod that has left the queue within the last hour, and that was rejected before, it has the
    attempts.
    """

    pending: PendingPodView
    now: str
    #: One sentence: the message of kube-scheduler, or why the pod is not evaluated.
    message: str
    #: The node that it fits on now; empty where there is none.
    node: str = ""
    verdicts: tuple[RejectionGroup, ...] = ()
    preemption: PossiblePreemption | None = None
    #: Why no preemption helps, in the words of kube-scheduler; empty if one does.
    preemption_message: str = ""
    policies: tuple[PolicyVeto, ...] = ()
    #: What would help, one sentence each, as "Node a lacks only 1 cpu, the least of 2 nodes."
    suggestions: tuple[str, ...] = ()
    #: When the pod left the queue; empty while it waits.
    left_at: str = ""
    history: tuple[AttemptView, ...] = ()
    #: With `?nodes=1`.
    nodes: tuple[NodeVerdict, ...] = ()
