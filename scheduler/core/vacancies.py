"""Room that was made for a preemptor which does not come: whether others of ours have it instead.

Preemptors of one scheduler take each other's room: one finds a place before its own is free,
another is planned into what is vacated already, a more important one comes first, and a new leader
knows nothing of all that. So nobody follows who has what; it is looked at what has come of it.

A victim was evicted in vain when nobody has its place who could have evicted it: it is free, or
pods have it that are not ours, or no more important. That is judged by what pods request and by
host ports, as the node will be when all who leave are gone and all who claim room are there.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from enum import StrEnum
from typing import Final

from scheduler.core.context import Context
from scheduler.core.plans import Plan
from scheduler.model.objects import Pod
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.shapes import Shape, WantedPorts

__all__ = ["VACANT_FOR", "Vacancies", "Waste"]

#: So long a preemptor of ours may take to come where another one has left its room.
VACANT_FOR: Final[Seconds] = 60.0


class Waste(StrEnum):
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


class Vacancies:
    """Rooms that preemptors have left, until it is certain what became of them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Until when somebody may come, the plan, and why its preemptor does not: in time order.
        self._left: deque[tuple[Seconds, Plan, Waste]] = deque()

    def __iter__(self) -> Iterator[Plan]:
        return (plan for _, plan, _ in self._left)

    def leave(self, plan: Plan, why: Waste, now: Seconds) -> None:
        """Note that a preemptor does not come to the room that was made for it."""
        self._left.append((now + VACANT_FOR, plan, why))

    def due(self, now: Seconds) -> Iterator[tuple[Plan, Waste, frozenset[str]]]:
        """Yield what is certain now: a plan, why its preemptor left, and who was evicted in vain.

        Whoever still claims room on the node is waited for.
        """
        while self._left and self._left[0][0] <= now:
            _, plan, why = self._left.popleft()
            if any(self._claimants(plan)):
                self.leave(plan, why, now)
            else:
                yield plan, why, self.in_vain(plan)

    def next_wakeup(self) -> Seconds | None:
        """Return when `due` next has something to yield; `None` when never."""
        return self._left[0][0] if self._left else None

    def in_vain(self, plan: Plan) -> frozenset[str]:
        """Return the victims of a plan, by uid, whose place nobody has who could evict them.

        All of them where nobody has come to the node who could. Of a victim that was gone before
        this process began nothing is known; whoever has come since then has its place.
        """
        cluster = self._context.cluster
        row = cluster.columns.row(plan.node)
        own = plan.preemptor.uid
        there = [] if row is None else [*cluster.pods.pods_on(row)]
        came = any(plan.may_precede(pod) and self._could_evict(pod, plan) for pod in there)
        claimants = [pod for pod in self._claimants(plan) if pod.uid != own]
        if row is None or not (came or claimants):
            return frozenset(plan.asked)
        away = (pod.uid for pod in there if plan.precedes(pod) and not self._could_evict(pod, plan))
        room = _Room(cluster, row, away, (*claimants, *self._later(plan)))
        found = set()
        for each in plan.victims:
            victim = plan.known.get(each.uid)
            if each.uid in plan.asked and victim is not None and room.take(victim):
                found.add(each.uid)
        return frozenset(found)

    def _claimants(self, plan: Plan) -> Iterator[Pod]:
        """Yield the pods that claim room on a plan's node and could have evicted its victims."""
        for claim in self._context.cluster.nominations.on_node(plan.node):
            if self._could_evict(claim.pod, plan):
                yield claim.pod

    def _could_evict(self, pod: Pod, plan: Plan) -> bool:
        known = (plan.known[uid].priority for uid in plan.asked if uid in plan.known)
        lowest = min(known, default=None)
        return self._context.is_ours(pod) and (lowest is None or pod.priority > lowest)

    def _later(self, plan: Plan) -> Iterator[Pod]:
        """Yield the victims of rooms on the node that were left later: what is free is theirs."""
        for _, other, _ in self._left:
            if other is not plan and other.node == plan.node:
                yield from (other.known[uid] for uid in other.asked if uid in other.known)


class _Room:
    """What is left of a node when those are gone who leave."""

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
