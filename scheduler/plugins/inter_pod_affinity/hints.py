"""Which changes can lift a rejection by InterPodAffinity.

Source: kube-scheduler v1.36.3 interpodaffinity/plugin.go isSchedulableAfterPodChange,
isSchedulableAfterNodeChange; v1.37.2 isSchedulableAfterAssignedPodChange. As there, terms are
matched as if no namespace had labels. Differs: anti-affinity of other pods may have rejected a pod
as well as its own terms, so a new node, or one that leaves a domain, wakes it whatever its terms.
"""

from collections.abc import Callable, Sequence

from scheduler.model.api.objects import Node, Pod
from scheduler.model.releases import Reference
from scheduler.state.pods import affinity_terms
from scheduler.state.pods.affinity_terms import (
    AffinityTerm,
    TermList,
    matches_all_terms,
    matches_any_term,
)

__all__ = ["after_node", "after_pod"]


def after_pod(reference: Reference, pod: Pod, old: Pod | None, new: Pod | None) -> bool:
    """Return whether an added, deleted or relabelled pod can make a waiting pod schedulable."""
    repels = matches_any_term if reference.wakes_by_any_anti_affinity_term else matches_all_terms
    if old is not None and new is not None and new.uid == pod.uid:
        return True
    if any(state is not None and not _placed(state) for state in (old, new)):
        return False
    own = affinity_terms.compiled(pod)
    if own.error:
        return True
    if old is not None and new is not None:
        attracts = matches_all_terms(own.affinity, new) and not matches_all_terms(own.affinity, old)
        releases = repels(own.anti_affinity, old) and not repels(own.anti_affinity, new)
        return attracts or releases
    if new is not None:
        return matches_all_terms(own.affinity, new)
    return old is not None and _repelled(pod, old, repels)


def _repelled(pod: Pod, gone: Pod, repels: Callable[[TermList, Pod], bool]) -> bool:
    """Return whether a pod that is gone and a waiting pod kept each other away."""
    own, theirs = affinity_terms.compiled(pod), affinity_terms.compiled(gone)
    refused = bool(theirs.error) or repels(theirs.anti_affinity, pod)
    return refused or repels(own.anti_affinity, gone)


def after_node(pod: Pod, old: Node | None, new: Node) -> bool:
    """Return whether an added or relabelled node can make a waiting pod schedulable."""
    own = affinity_terms.compiled(pod)
    if own.error or _attracts(own.affinity, old, new):
        return True
    if old is None:
        return not own.affinity or bool(own.anti_affinity)
    return _has_left_a_domain(old, new)


def _attracts(affinity: Sequence[AffinityTerm], old: Node | None, new: Node) -> bool:
    """Return whether a node has a new value of one of the topology keys."""
    before = {} if old is None else old.metadata.labels
    now = new.metadata.labels
    keys = [term.topology_key for term in affinity]
    return any(key in now and now[key] != before.get(key) for key in keys)


def _has_left_a_domain(old: Node, new: Node) -> bool:
    """Return whether a node has left a topology domain, of whichever key.

    The topology keys of the pods that repel the waiting one are unknown here.
    """
    now = new.metadata.labels
    return any(now.get(key) != value for key, value in old.metadata.labels.items())


def _placed(pod: Pod) -> bool:
    return bool(pod.spec.node_name or pod.status.nominated_node_name)
