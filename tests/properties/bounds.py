"""Bounds that every property asserts."""

from collections import Counter
from collections.abc import Iterable, Mapping

from scheduler.core.machine import Machine
from scheduler.state.preemption.wasted_evictions import (
    MAX_PREEMPTIONS,
    MAX_VICTIMS,
    WINDOW,
    WasteScope,
)

__all__ = ["Gone", "nominations_follow_their_pods", "too_many", "wasted_evictions"]

#: One pod that was evicted: when, in seconds, and from which node.
Gone = tuple[float, str]


def wasted_evictions(
    gone: Mapping[str, Iterable[Gone]], bound_to: Mapping[str, str]
) -> dict[str, list[Gone]]:
    """Return the evictions that did not lead to a binding, by preemptor.

    Args:
        gone: The pods that were evicted, by the uid of the preemptor.
        bound_to: The nodes of the preemptors that are bound, by uid.
    """
    found = {
        uid: sorted(each for each in evicted if each[1] != bound_to.get(uid))
        for uid, evicted in gone.items()
    }
    return {uid: each for uid, each in found.items() if each}


def too_many(wasted: list[Gone], forgotten: int = 0) -> int:
    """Return by how many the wasted evictions within any hour exceed the bound.

    What is evicted from one node at one moment is one preemption. Where pods of others overfill a
    node, one preemption may have more victims than the preemptor takes capacity.

    Args:
        wasted: The wasted evictions for one preemptor, in time order.
        forgotten: How many failed preemptions no ledger has recorded, because the process ended
            before it was written.
    """
    worst = 0
    for start, _ in wasted:
        preemptions = Counter(each for each in wasted if start <= each[0] < start + WINDOW)
        most = MAX_VICTIMS[WasteScope.POD] + (1 + forgotten) * max(preemptions.values())
        worst = max(
            worst,
            len(preemptions) - MAX_PREEMPTIONS - forgotten,
            preemptions.total() - most,
        )
    return worst


def nominations_follow_their_pods(machine: Machine) -> None:
    """Assert that what a pod of ours reserves on a node is what it asks for, with its labels."""
    for nomination in machine.cluster.nominations:
        queued = machine.queue.get(nomination.pod.uid)
        if queued is not None:
            reserved, pod = nomination.pod, queued.pod
            assert reserved.spec == pod.spec, pod.key
            assert reserved.metadata.labels == pod.metadata.labels, pod.key
