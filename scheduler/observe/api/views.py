"""Views of pods, as much as a caller may know, and of candidates for a preemption."""

from collections.abc import Container, Mapping
from typing import Final

from msgspec.structs import replace

from scheduler.model import times
from scheduler.model.api import owners, resources
from scheduler.model.api.objects import Pod
from scheduler.model.api.pod_size import is_too_large
from scheduler.model.comparisons import ComparedCandidate, Comparison
from scheduler.model.rest.common import OwnerView, PodView
from scheduler.model.rest.preemptions import CandidateView
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.pod_footprints import PodFootprint

__all__ = [
    "candidate_views",
    "hidden",
    "owner_view",
    "pending_requests",
    "pending_view",
    "placed_view",
    "seen_by",
    "stamp",
]

#: The criterion of a node that was chosen because victims terminate there that no pod needs.
FREED_RESOURCES: Final = "freedResources"
_NO_REQUESTS: Final[Mapping[str, int]] = {}


def owner_view(pod: Pod) -> OwnerView | None:
    """Return the controller of a pod; `None` if it has none."""
    if not any(reference.controller for reference in pod.metadata.owner_references):
        return None
    kind, _, rest = owners.owner(pod).partition("/")
    return OwnerView(kind, rest.rpartition("/")[2])


def placed_view(pod: Pod, footprint: PodFootprint, cluster: Cluster) -> PodView:
    """Return the view of a pod that has a slot, with its name."""
    names = cluster.axis.values
    return _view(pod, {names[code]: amount for code, amount in footprint.requests})


def pending_view(pod: Pod, cluster: Cluster) -> PodView:
    """Return the view of a pod that may request what no node offers, with its name."""
    return _view(pod, pending_requests(pod, cluster))


def pending_requests(pod: Pod, cluster: Cluster) -> Mapping[str, int]:
    """Return what a pod requests that is on no node; nothing of one that is too large."""
    if is_too_large(pod) or resources.too_many(pod):
        return _NO_REQUESTS
    amounts = resources.pod_requests(pod, status_aware=True, reference=cluster.reference)
    return {name: amount for name, amount in amounts.items() if amount}


def _view(pod: Pod, requests: Mapping[str, int]) -> PodView:
    meta = pod.metadata
    return PodView(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        owner=owner_view(pod),
        priority=pod.priority,
        requests=requests,
    )


def hidden(view: PodView) -> PodView:
    """Return the view of a pod for a caller who may not see it: only its priority.

    Requests are left out, because a resource name may identify a tenant.
    """
    return PodView(hidden=True, priority=view.priority)


def seen_by(view: PodView, visible: Container[str]) -> PodView:
    """Return a view as a caller may see it who sees the names of some namespaces."""
    if view.namespace in visible:
        return view
    return view if view.hidden else hidden(view)


def candidate_views(
    comparison: Comparison | None, chosen: str
) -> tuple[tuple[CandidateView, ...], int, str]:
    """Return the candidates as views, how many there were, and the criterion of the choice.

    Args:
        comparison: The comparison; `None` if there was none.
        chosen: The node that was chosen in the end. If another one won the comparison, this one
            came first because its victims had been evicted for another pod, which does not need
            what they have freed.
    """
    if comparison is None:
        return (), 0, ""
    views = tuple(map(_candidate_view, comparison.candidates))
    if views[0].node == chosen:
        return views, comparison.total, comparison.criterion
    first = replace(views[0], lost_by=FREED_RESOURCES)
    compared = [replace(view, lost_by="") for view in views if view.node == chosen]
    rest = [view for view in views[1:] if view.node != chosen]
    # One that was not compared is one more, unless it is among those that have no name.
    unknown = not compared and comparison.total == len(views)
    best = compared[0] if compared else CandidateView(node=chosen)
    return (best, first, *rest), comparison.total + unknown, FREED_RESOURCES


def _candidate_view(candidate: ComparedCandidate) -> CandidateView:
    return CandidateView(
        node=candidate.node,
        pdb_violations=candidate.violations,
        highest_priority=candidate.highest_priority,
        priority_sum=candidate.sum_of_priorities,
        victims=candidate.victims,
        earliest_start=stamp(candidate.earliest_start),
        lost_by=candidate.lost_by,
    )


def stamp(moment: Seconds | None) -> str:
    """Return a time stamp; empty for no moment."""
    return "" if moment is None else times.stamp(moment)
