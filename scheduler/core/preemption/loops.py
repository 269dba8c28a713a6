"""The loop breaker: which preemption must not be tried now, because the like of it was in vain.

Two things are remembered. Preemptions whose room went to others, by owners (`state/fruitless`):
there the answer is a pause. And victims that were asked to leave and hang: as long as one is there,
the room that it takes cannot be counted on.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from scheduler.model import times
from scheduler.model.objects import Pod
from scheduler.model.owners import owner
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.ledger import Ledger

__all__ = ["LOOP", "Objection", "objection"]

#: What the event about a preemption that is stopped is called, and how its text begins.
LOOP: Final = "PreemptionLoop"


class Objection(NamedTuple):
    """Why a preemption must not be tried now."""

    text: str
    #: When that ends; `None` where only an event can end it.
    until: Seconds | None
    #: Whether it holds on every node, until somebody does something about it.
    stopped: bool = False


def objection(
    pod: Pod, node: str, victims: Sequence[Pod], cluster: Cluster, ledger: Ledger, now: Seconds
) -> Objection | None:
    """Return why pods must not be evicted from a node for a pod; `None` when they may.

    Args:
        pod: The preemptor.
        node: The node's name.
        victims: Who would have to leave.
        cluster: As it is.
        ledger: What is remembered.
        now: The time.
    """
    if cluster.overdue and any(each.uid in cluster.overdue for each in victims):
        return Objection("node(s) where a victim hangs in termination", None)
    if not len(ledger.fruitless):
        return None
    preemptor = owner(pod)
    worst: Objection | None = None
    for name in sorted({owner(each) for each in victims}):
        pause = ledger.fruitless.pause(preemptor, node, name, now)
        if pause is None or (worst is not None and (worst.until or now) >= pause.until):
            continue
        theirs, until = name.replace("/", " ", 1), times.stamp(pause.until)
        where = "" if pause.stopped else "node(s) where "
        text = f"{LOOP}: {where}evicting pods of {theirs} came to nothing {pause.times} times"
        end = "stopped" if pause.stopped else "paused"
        worst = Objection(f"{text}, {end} until {until}", pause.until, pause.stopped)
    return worst
