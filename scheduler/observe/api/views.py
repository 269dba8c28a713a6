"""Views of pods, as much as a caller may know, and of comparisons of candidates."""

from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec.structs import replace

from scheduler.core.preemption.evaluate.objective import FREED_RESOURCES
from scheduler.model import times
from scheduler.model.api import owners, resources
from scheduler.model.api.objects import Pod
from scheduler.model.api.pod_size import is_too_large
from scheduler.model.comparisons import ComparedCandidate, Comparison
from scheduler.model.rest.common import TIME, CriterionView, OwnerView, PodView
from scheduler.model.rest.preemptions import CandidateView
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.pod_footprints import PodFootprint

__all__ = [
    "FORMER",
    "comparison_views",
    "former",
    "hidden",
    "owner_view",
    "pending_requests",
    "pending_view",
    "placed_view",
    "seen_by",
    "stamp",
    "violated_budgets",
]

#: Ends the name of a namespace that was deleted. No namespace can have such a name.
FORMER: Final = " (deleted)"
_NO_REQUESTS: Final[Mapping[str, int]] = {}


def owner_view(pod: Pod) -> OwnerView | None:
    """Return the controller of a pod; `None` if it has none.

    It is the Deployment where the controller is one of its ReplicaSets.
    """
    controller = owners.controller(pod)
    if controller is None:
        return None
    kind, _, rest = owners.owner(pod).partition("/")
    name = rest.rpartition("/")[2]
    # `owner` leaves out the hash that a Deployment appends to the names of its ReplicaSets.
    is_of_deployment = kind == "ReplicaSet" and controller.name.startswith(f"{name}-")
    return OwnerView("Deployment" if is_of_deployment else kind, name)


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


def violated_budgets(
    victims: Collection[Pod], violating: Container[str], cluster: Cluster
) -> dict[str, tuple[str, ...]]:
    """Return the budgets that the eviction of some pods violates, by uid of each such pod.

    These allow less disruptions than pods are evicted that they protect; a pod may have further
    budgets, which are not violated.

    Args:
        victims: All pods that are evicted together.
        violating: The uids of those whose eviction violates a budget.
        cluster: The cluster with the budgets, as it is before.
    """
    pdbs = cluster.pdbs
    protecting = {victim.uid: pdbs.protecting(victim) for victim in victims}
    wanted = Counter(key for keys in protecting.values() for key in keys)
    violated = {key for key, number in wanted.items() if number > pdbs.allowed(key)}
    return {
        uid: tuple(key for key in keys if key in violated)
        for uid, keys in protecting.items()
        if uid in violating
    }


def former(view: PodView) -> PodView:
    """Return the view of a pod whose namespace was deleted.

    Nobody can create a namespace of that name, so the next owner of the old name does not see it.
    """
    return replace(view, namespace=f"{view.namespace}{FORMER}")


class ComparisonViews(NamedTuple):
    """A comparison of candidates, as the documents have it."""

    criteria: tuple[CriterionView, ...] = ()
    candidates: tuple[CandidateView, ...] = ()
    candidates_total: int = 0
    criterion: str = ""


def comparison_views(comparison: Comparison | None, chosen: str) -> ComparisonViews:
    """Return a comparison as views.

    Args:
        comparison: The comparison; `None` if there was none.
        chosen: The node that was chosen in the end. If another one won the comparison, this one
            came first because its victims had been evicted for another pod, which does not need
            what they have freed.
    """
    if comparison is None:
        return ComparisonViews()
    found, total = comparison.candidates, comparison.total
    if found[0].node != chosen:
        first = replace(found[0], lost_by=FREED_RESOURCES)
        compared = [replace(each, lost_by=None) for each in found if each.node == chosen]
        rest = [each for each in found[1:] if each.node != chosen]
        # One that was not compared is one more, unless it is among those that have no name.
        total += not compared and total == len(found)
        best = compared[0] if compared else ComparedCandidate(chosen, ())
        found = (best, first, *rest)
    criteria = comparison.criteria
    decided = dict.fromkeys(each.lost_by for each in found if each.lost_by is not None)
    return ComparisonViews(
        (*criteria, *(label for label in decided if label not in criteria)),
        tuple(_candidate_view(each, criteria) for each in found),
        total,
        found[1].lost_by.name if len(found) > 1 and found[1].lost_by is not None else "",
    )


def _candidate_view(
    candidate: ComparedCandidate, criteria: Sequence[CriterionView]
) -> CandidateView:
    values = {
        label.name: times.stamp(value) if label.measure == TIME else int(value)
        for label, value in zip(criteria, candidate.values, strict=False)
        if value is not None
    }
    lost_by = "" if candidate.lost_by is None else candidate.lost_by.name
    return CandidateView(candidate.node, values, lost_by)


def stamp(moment: Seconds | None) -> str:
    """Return a time stamp; empty for no moment."""
    return "" if moment is None else times.stamp(moment)
