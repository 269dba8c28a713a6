"""Evictions that did not help: room that was made for a preemptor which does not come.

Preemptors of one scheduler take each other's room: one finds a place before its own is free,
another is planned into what is vacated already, a more important one comes first, and a new leader
knows nothing of all that. So rooms are not followed from pod to pod; each is looked at once, when
it is certain what became of it.

An eviction was wasted when the victim's place is free, or has gone to pods that are not ours or
could not have evicted it. That is judged by what pods request and by host ports, as the node will
be when all leaving pods are gone and all pods that claim room are there.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from scheduler.core.eviction.phases import PreemptionMove
from scheduler.core.eviction.plan import PreemptionPlan
from scheduler.core.requeue.context import Context
from scheduler.model.api.objects import Pod
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.pod_shapes import Shape, WantedPorts

__all__ = ["VACANT_FOR", "FreedRooms", "WasteReason"]

#: How long another preemptor of ours may take to use the room.
VACANT_FOR: Final[Seconds] = 60.0
#: How many rooms are judged in one call; the others follow in the next.
MOST_AT_ONCE: Final = 64


class WasteReason(StrEnum):
    """Why a preemptor did not get the room that was made for it."""

    #: Others took it.
    ROOM_LOST = "room_lost"
    #: It was placed on another node.
    PLACED_ELSEWHERE = "placed_elsewhere"
    #: It is gone itself.
    PREEMPTOR_GONE = "preemptor_gone"
    #: The node is gone.
    NODE_GONE = "node_gone"
    #: Not all victims could be asked to leave.
    PLAN_FAILED = "plan_failed"
    #: A victim hangs in termination.
    VICTIM_HANGS = "victim_hangs"


class FreedRooms:
    """Rooms whose preemptor does not come, until it is certain what became of them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Until when a pod may come, the plan, and why its preemptor does not: in time order.
        self.left: deque[tuple[Seconds, PreemptionPlan, WasteReason]] = deque()
        #: The same plans by node, in the order in which they came.
        self._on_node: dict[str, dict[int, PreemptionPlan]] = {}

    def __len__(self) -> int:
        return len(self.left)

    def nodes(self) -> Iterator[str]:
        """Yield the nodes with such rooms."""
        return iter(self._on_node)

    def on_node(self, node: str) -> Iterable[PreemptionPlan]:
        """Return the plans whose rooms are on a node."""
        return self._on_node.get(node, {}).values()

    def add(self, plan: PreemptionPlan, why: WasteReason, now: Seconds) -> None:
        """Keep the room of a plan whose preemptor does not come."""
        self.left.append((now + VACANT_FOR, plan, why))
        self._on_node.setdefault(plan.node, {})[id(plan)] = plan

    def due(self, now: Seconds) -> Iterator[tuple[PreemptionPlan, WasteReason, frozenset[str]]]:
        """Yield what is certain now: a plan, why its preemptor does not come, and wasted victims.

        A pod that still claims room on the node is waited for, and so is the answer to an eviction.
        """
        for _ in range(MOST_AT_ONCE):
            if not self.left or self.left[0][0] > now:
                return
            _, plan, why = self.left.popleft()
            self._forget(plan)
            if plan.outstanding or any(self._claimants(plan)):
                self.add(plan, why, now)
            else:
                plan.move(PreemptionMove.END, now)
                yield plan, why, self.wasted(plan)

    def _forget(self, plan: PreemptionPlan) -> None:
        here = self._on_node[plan.node]
        del here[id(plan)]
        if not here:
            del self._on_node[plan.node]

    def next_wakeup(self) -> Seconds | None:
        """Return when `due` next has something to yield; `None` when never."""
        return self.left[0][0] if self.left else None

    def is_taken(self, plan: PreemptionPlan) -> bool:
        """Tell whether pods have come to a plan's node that could not have evicted its victims."""
        return any(not self._could_evict(pod, plan) for pod in self._came(plan))

    def wasted(self, plan: PreemptionPlan) -> frozenset[str]:
        """Return the victims of a plan, by uid, whose place no pod uses that may evict them.

        All of them where no such pod has come to the node. Of a victim that was gone before this
        process began nothing is known; a pod that has come since then has its place.
        """
        cluster = self._context.cluster
        row, came = cluster.columns.row(plan.node), self._came(plan)
        claimants = [pod for pod in self._claimants(plan) if pod.uid != plan.uid]
        if row is None or not (claimants or any(self._could_evict(pod, plan) for pod in came)):
            return frozenset(plan.asked)
        away = (pod.uid for pod in came if not self._could_evict(pod, plan))
        room = _FreeRoom(cluster, row, away, (*claimants, *self._later(plan)))
        found = set()
        for victim in sorted(plan.known.values(), key=lambda each: -each.priority):
            if victim.uid in plan.asked and room.take(victim):
                found.add(victim.uid)
        return frozenset(found)

    def _came(self, plan: PreemptionPlan) -> list[Pod]:
        """Return the pods that have come to a plan's node since it was decided.

        That is not known of the plan of an earlier leader: any pod that could have evicted the
        victims may have come since then.
        """
        cluster = self._context.cluster
        row = cluster.columns.row(plan.node)
        there = () if row is None else cluster.pods.pods_on(row)
        if plan.decided_here:
            return [pod for pod in there if pod.uid not in plan.present]
        return [pod for pod in there if pod.uid not in plan.uids and self._could_evict(pod, plan)]

    def _claimants(self, plan: PreemptionPlan) -> Iterator[Pod]:
        """Yield the pods that claim room on a plan's node and could have evicted its victims."""
        for claim in self._context.cluster.nominations.on_node(plan.node):
            if self._could_evict(claim.pod, plan):
                yield claim.pod

    def _could_evict(self, pod: Pod, plan: PreemptionPlan) -> bool:
        known = (plan.known[uid].priority for uid in plan.asked if uid in plan.known)
        lowest = min(known, default=None)
        return self._context.is_ours(pod) and (lowest is None or pod.priority > lowest)

    def _later(self, plan: PreemptionPlan) -> Iterator[Pod]:
        """Yield the victims of rooms on the node that were left later: what is free is theirs."""
        for other in self.on_node(plan.node):
            if other is not plan:
                yield from (other.known[uid] for uid in other.asked if uid in other.known)


class _FreeRoom:
    """What is left of a node when its leaving pods are gone."""

    def __init__(
        self, cluster: Cluster, row: int, away: Iterable[str], coming: Iterable[Pod]
    ) -> None:
        """Look at a node.

        Args:
            cluster: As it is.
            row: Of the node.
            away: The uids of pods that do not count.
            coming: Pods that count although they are not there.
        """
        self._cluster = cluster
        self._columns = cluster.columns
        self._row = row
        self._there: list[Shape] = []
        pods, absent = cluster.pods, frozenset(away)
        for slot in pods.on_row(row):
            guest = pods.pod(slot)
            if guest.uid not in absent and not cluster.leaves(guest):
                self._there.append(pods.shape(slot))
        self._there += (self._shape(pod) for pod in coming)

    def take(self, pod: Pod) -> bool:
        """Let a pod take room if it fits; tell whether it does."""
        wanted = self._shape(pod)
        if wanted.beyond or len(self._there) >= int(self._columns.allowed_pods()[self._row]):
            return False
        taken = [dict(shape.requests) for shape in self._there]
        for resource, amount in wanted.requests:
            used = sum(each.get(resource, 0) for each in taken)
            if used + amount > self._columns.allocatable(resource)[self._row]:
                return False
        ports = {port for shape in self._there for port in shape.ports}
        if WantedPorts(wanted.ports).conflict(ports):
            return False
        self._there.append(wanted)
        return True

    def _shape(self, pod: Pod) -> Shape:
        return self._cluster.shapes.of(pod)
