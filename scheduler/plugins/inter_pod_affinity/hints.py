"""Which changes can lift a rejection by InterPodAffinity.

Source: kube-scheduler v1.36.3 interpodaffinity/plugin.go isSchedulableAfterPodChange,
isSchedulableAfterNodeChange. As there, terms are matched as if no namespace had labels, and a
change counts for anti-affinity only when it matches all terms.
"""

from collections.abc import Sequence

from scheduler.model.api.objects import Node, Pod
from scheduler.state.pods import affinity_terms
from scheduler.state.pods.affinity_terms import AffinityTerm, about

__all__ = ["after_node", "after_pod"]


def after_pod(pod: Pod, old: Pod | None, new: Pod | None) -> bool:
    """Return whether an added, deleted or relabelled pod can make a waiting pod schedulable."""
    if old is not None and new is not None and new.uid == pod.uid:
        return True
    if any(state is not None and not _placed(state) for state in (old, new)):
        return False
    own = affinity_terms.compiled(pod)
    if own.error:
        return True
    if old is not None and new is not None:
        attracts = about(own.affinity, new) and not about(own.affinity, old)
        releases = about(own.anti_affinity, old) and not about(own.anti_affinity, new)
        return attracts or releases
    if new is not None:
        return about(own.affinity, new)
    return old is not None and (about(own.anti_affinity, old) or _refused(pod, old))


def after_node(pod: Pod, old: Node | None, new: Node) -> bool:
    """Return whether an added or relabelled node can make a waiting pod schedulable."""
    own = affinity_terms.compiled(pod)
    if own.error:
        return True
    return _attracts(own.affinity, old, new) or _releases(own.anti_affinity, old, new)


def _attracts(affinity: Sequence[AffinityTerm], old: Node | None, new: Node) -> bool:
    """Return whether a node has a new value of one of the topology keys."""
    before = {} if old is None else old.metadata.labels
    now = new.metadata.labels
    keys = [term.topology_key for term in affinity]
    return any(key in now and now[key] != before.get(key) for key in keys)


def _releases(anti_affinity: Sequence[AffinityTerm], old: Node | None, new: Node) -> bool:
    """Return whether a node is new, or has left a topology domain."""
    if old is None:
        return bool(anti_affinity)
    before, now = old.metadata.labels, new.metadata.labels
    keys = [term.topology_key for term in anti_affinity]
    return any(key in before and before[key] != now.get(key) for key in keys)


def _refused(pod: Pod, old: Pod) -> bool:
    carried = affinity_terms.compiled(old)
    return bool(carried.error) or about(carried.anti_affinity, pod)


def _placed(pod: Pod) -> bool:
    return bool(pod.spec.node_name or pod.status.nominated_node_name)
