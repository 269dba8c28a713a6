"""Documents about the scheduler, its cluster and its queue."""

from collections.abc import Mapping
from typing import Final

import msgspec

from scheduler.model.rest.common import Document, PodView

__all__ = [
    "LEADER_HEADER",
    "ApiIndex",
    "LabelView",
    "LabelsDocument",
    "NodeDocument",
    "NodeUsage",
    "NodesDocument",
    "PendingPodView",
    "PendingPodsDocument",
    "PriorityUse",
    "ReasonCount",
    "ResourceUse",
    "Summary",
]


#: The header of all responses below `/api`, refusals included: `true` if this replica leads.
LEADER_HEADER: Final = "Preemptive-Scheduler-Leader"


class ApiIndex(Document, frozen=True):
    """`GET /api/v1`: the process that answers, and what it serves."""

    version: str
    #: The release of kube-scheduler that is followed, as `v1.37`.
    reference: str
    instance: str
    #: Whether this replica leads. A standby has no queue and no preemptions of its own.
    leader: bool
    profiles: tuple[str, ...]
    started: str
    now: str
    paths: tuple[str, ...]
    #: Whether it only compares with other schedulers what it would do, and writes nothing.
    shadow: bool = False
    #: The user who asks, as the API server knows it; empty where callers need no credentials.
    user: str = ""


class ReasonCount(Document, frozen=True):
    """How many pending pods were rejected for one reason in their last attempt."""

    reason: str
    pods: int


class Summary(Document, frozen=True):
    """`GET /api/v1/summary`: the figures at the head of each view. Supports `watch=1`."""

    now: str
    reference: str
    leader: bool
    revision: int
    #: Pods in the queue by phase: active, backoff, unschedulable, gated, preempting, binding.
    queue: Mapping[str, int]
    #: For how long the oldest pending pod has waited; gated pods do not count.
    oldest_pending_seconds: float = 0.0
    #: The 50 most frequent reasons; of the other ones, only the number of pods.
    reasons: tuple[ReasonCount, ...] = ()
    other_reasons: int = 0
    nodes: int = 0
    #: Pods on nodes, of all schedulers.
    pods: int = 0
    preemptions_active: int = 0
    #: Since the process started: attempts by result (scheduled, unschedulable, error), preemptions,
    #: evicted victims, wasted victims.
    attempts: Mapping[str, int] = {}
    preemptions: int = 0
    victims: int = 0
    wasted_victims: int = 0


class ResourceUse(Document, frozen=True):
    """What a node has of one resource, and what is requested of it."""

    allocatable: int = 0
    requested: int = 0


class PriorityUse(Document, frozen=True):
    """What the pods of one priority request on a node."""

    priority: int
    pods: int
    cpu: int = 0
    memory: int = 0
    #: Of these, the pods that terminate.
    terminating: int = 0
    #: Whether these are pods that are nominated to the node, and not on it.
    nominated: bool = False


class NodeUsage(Document, frozen=True):
    """A node and how it is used, without names of pods."""

    name: str
    unschedulable: bool = False
    #: The labels that `?labels=KEY,KEY` requests.
    labels: Mapping[str, str] = {}
    resources: Mapping[str, ResourceUse] = {}
    #: Highest priority first; nominated ones last.
    priorities: tuple[PriorityUse, ...] = ()


class NodesDocument(Document, frozen=True):
    """`GET /api/v1/nodes?labels=&limit=&continue=`. Supports `watch=1&revision=N`."""

    revision: int
    items: tuple[NodeUsage, ...] = ()
    #: In a watch: the names of deleted nodes.
    removed: tuple[str, ...] = ()
    continue_: str = msgspec.field(default="", name="continue")
    remaining: int = 0


class NodeDocument(Document, frozen=True):
    """`GET /api/v1/nodes/{name}`: one node with its pods."""

    node: NodeUsage
    labels: Mapping[str, str] = {}
    taints: tuple[str, ...] = ()
    pods: tuple[PodView, ...] = ()
    nominated: tuple[PodView, ...] = ()
    #: Pods whose names the caller may not see; `pods` has them without names.
    hidden: int = 0


class LabelView(Document, frozen=True):
    """A label key of nodes."""

    key: str
    nodes: int
    values: int


class LabelsDocument(Document, frozen=True):
    """`GET /api/v1/labels`: the label keys of nodes, to group nodes by."""

    items: tuple[LabelView, ...] = ()


class PendingPodView(Document, frozen=True):
    """A pod of the queue."""

    pod: PodView
    scheduler_name: str
    #: active, backoff, unschedulable, gated, preempting or binding; `left` for one that has left
    #: the queue, whose attempts are still kept.
    phase: str
    since: str
    attempts: int = 0
    backoff_until: str = ""
    #: Plugins that rejected it in its last attempt.
    rejected_by: tuple[str, ...] = ()
    nominated_node: str = ""
    #: The message of its last condition.
    message: str = ""


class PendingPodsDocument(Document, frozen=True):
    """`GET /api/v1/pods?phase=&namespace=&owner=&reason=&limit=&continue=`. Supports `watch=1`."""

    items: tuple[PendingPodView, ...] = ()
    #: In a watch: the uids of pods that have left the queue, or that do not match any more. Some
    #: may never have been sent.
    removed: tuple[str, ...] = ()
    #: Matching pods that the caller may not see; they are not in `items`. In a watch only of all
    #: pods.
    hidden: int = 0
    #: Total requests of the matching pods that the caller may see. Not in a watch.
    requests: Mapping[str, int] = {}
    continue_: str = msgspec.field(default="", name="continue")
    remaining: int = 0
