"""Bounds that every property asserts, and which of them the scheduler keeps by now."""

from collections.abc import Iterable, Mapping
from typing import Final

from scheduler.state.waste import MOST, MOST_PREEMPTIONS, WINDOW, Scope

__all__ = ["NAMES_ARE_FORGOTTEN", "WASTE_IS_BOUNDED", "Gone", "in_vain", "too_many"]

#: Whether names of resources are forgotten that no pod and no node has any more.
NAMES_ARE_FORGOTTEN: Final = True
#: Whether decisions heed what was in vain (`scheduler/state/waste`).
WASTE_IS_BOUNDED: Final = True

#: One pod that was evicted: when, in seconds, and from which node.
Gone = tuple[float, str]


def in_vain(
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


def too_many(wasted: list[Gone], victims: int, forgotten: int = 0) -> int:
    """Return by how many the evictions in vain within any hour are more than allowed.

    Args:
        wasted: The evictions in vain for one preemptor, in time order.
        victims: How many one preemption has at most.
        forgotten: How many preemptions in vain no ledger has kept, because the process ended
            before it was written.
    """
    most = min(MOST_PREEMPTIONS * victims, MOST[Scope.POD] + victims) + forgotten * victims
    hours = (sum(start <= moment < start + WINDOW for moment, _ in wasted) for start, _ in wasted)
    return max(0, max(hours, default=0) - most)
