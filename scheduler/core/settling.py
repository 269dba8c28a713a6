"""What became of preemptions whose victims were asked to leave: who got the room.

Until a preemptor is on a node, is gone, or preempts elsewhere, its plan is kept here. A victim that
hangs in termination past the end of its grace, and some more, makes the plan give its node back.

What came to nothing is counted (`wasted`), and remembered by the ledger where trying it again could
go on for ever: see `state/fruitless`. Room that another preemptor of ours has taken over is not
wasted, since that one would have had to make others leave: a more important one that came first, or
one that comes soon where another was placed elsewhere.
"""

import heapq
from collections import Counter, deque
from collections.abc import Callable
from enum import StrEnum
from itertools import count, islice
from typing import Final

from scheduler.core import telling
from scheduler.core.context import Context
from scheduler.core.plans import Plan, Plans, overdue_at
from scheduler.model.objects import Pod
from scheduler.model.owners import owner
from scheduler.model.times import Seconds

__all__ = ["MARGIN", "VACANT_FOR", "Settling", "Waste"]

#: How long a victim may take to be gone beyond its grace period before its node is given up.
#: Kubelets take a few seconds; a node that is not ready takes minutes, or for ever.
MARGIN: Final[Seconds] = 30.0


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


#: What may happen again and again.
_LOOPS: Final = frozenset({Waste.ROOM_LOST, Waste.PLACED_ELSEWHERE})


class Settling:
    """All plans whose victims were asked to leave, by uid of the preemptor."""

    def __init__(
        self,
        context: Context,
        release: Callable[[Plan, Seconds], None],
        has_room: Callable[[Plan], bool],
        write_soon: Callable[[Seconds], None],
    ) -> None:
        self._context = context
        #: Tells whether the room that a plan has made is there, whoever claims it.
        self._has_room = has_room
        #: Has the ledger written down: what is in vain must count after a restart, too.
        self._write_soon = write_soon
        #: Gives the nomination of a plan back, and lets its preemptor try again.
        self._release = release
        self._plans: Final = Plans()
        #: When to look next whether a victim hangs.
        self._due: list[tuple[Seconds, int, Plan]] = []
        self._numbers = count()
        #: Rooms that were left for a place elsewhere, and until when another preemptor may come.
        self._vacant: deque[tuple[Seconds, Plan]] = deque()
        #: Nodes on which preemptors are that had made room elsewhere, and until when that counts.
        self._takers: deque[tuple[Seconds, str]] = deque()
        #: Victims whose preemptor did not get the room, by reason.
        self.wasted: Final[Counter[str]] = Counter()
        #: Preemptions that came to nothing and are remembered, by reason.
        self.fruitless: Final[Counter[str]] = Counter()
        #: How often preemption was stopped for a pair of owners.
        self.stopped = 0

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, uid: str) -> Plan | None:
        """Return the plan of a preemptor."""
        return self._plans.get(uid)

    def on_node(self, node: str) -> list[Plan]:
        """Return the plans for a node."""
        return self._plans.on_node(node)

    def add(self, plan: Plan, now: Seconds) -> None:
        """Keep a plan until it is known what became of it."""
        if plan.released and self._context.cluster.columns.node(plan.node) is None:
            self._in_vain(plan, Waste.NODE_GONE, now)
            return
        self._plans.add(plan)
        if not plan.released:
            self._look_again(plan, now)

    def superseded(self, plan: Plan, now: Seconds) -> None:
        """Settle what a preemptor had planned before it planned anew."""
        before = self._plans.pop(plan.preemptor.uid)
        for room in before.rooms() if before is not None else ():
            goes_on = room.released or plan.uids <= room.uids or self._has_room(room)
            if room.node == plan.node and goes_on:
                # What was vacated there is still meant for it.
                plan.asked |= room.asked
                others = (each for each in room.victims if each.uid not in plan.uids)
                plan.victims = (*plan.victims, *others)
            else:
                self._in_vain(room, Waste.ROOM_LOST, now)

    def arrived(self, uid: str, node: str, now: Seconds) -> None:
        """Settle the plan of a preemptor that is on a node for good."""
        plan = self._plans.pop(uid)
        if plan is not None and all(room.node != node for room in plan.rooms()):
            self._take(node, now)
        for room in plan.rooms() if plan is not None else ():
            if room.node == node:
                self._context.ledger.note_success(owner(room.preemptor), room.owners(room.asked))
            else:
                self._in_vain(room, Waste.PLACED_ELSEWHERE, now)

    def still_waiting(self, gone: Pod) -> frozenset[str]:
        """Return the preemptors on whose node a victim has made room, but not enough yet."""
        return frozenset(
            plan.preemptor.uid
            for plan in self._plans.on_node(gone.spec.node_name)
            if gone.uid in plan.uids
            and not plan.released
            and plan.there(self._context.cluster)
            and not self._has_room(plan)
        )

    def take(self, uid: str) -> Plan | None:
        """Take out the plan of a preemptor that goes on with it."""
        return self._plans.pop(uid)

    def lost(self, uid: str, now: Seconds) -> bool:
        """Settle the plan of a preemptor that fits nowhere though all its victims are gone.

        Returns:
            Whether it has come to nothing now.
        """
        plan = self._plans.get(uid)
        if plan is None or plan.released:
            return False
        if any(room.there(self._context.cluster) for room in plan.rooms()):
            return False
        if any(not room.overtaken and self._has_room(room) for room in plan.rooms()):
            return False
        self._plans.pop(uid)
        remembered = False
        for room in plan.rooms():
            remembered |= self._in_vain(room, Waste.ROOM_LOST, now)
        return remembered

    def preemptor_gone(self, uid: str, now: Seconds) -> None:
        """Settle the plan of a preemptor that is gone."""
        plan = self._plans.pop(uid)
        for room in plan.rooms() if plan is not None else ():
            self._in_vain(room, Waste.PREEMPTOR_GONE, now)

    def node_gone(self, node: str, now: Seconds) -> None:
        """Settle the plans for a node that is gone."""
        for plan in self._plans.on_node(node):
            self._plans.pop(plan.preemptor.uid)
            self._in_vain(plan, Waste.NODE_GONE, now)

    def flush(self, now: Seconds) -> None:
        """Give up nodes on which a victim hangs, and rooms that nobody has come to take."""
        cluster = self._context.cluster
        while self._vacant and self._vacant[0][0] <= now:
            self._note(self._vacant.popleft()[1], Waste.PLACED_ELSEWHERE, now)
        while self._due and self._due[0][0] <= now:
            _, _, plan = heapq.heappop(self._due)
            uid = plan.preemptor.uid
            if self._plans.get(uid) is not plan or plan.released:
                continue
            hanging = [
                each for each in plan.there(cluster)
                if (end := overdue_at(each, MARGIN)) is not None and end <= now
            ]  # fmt: skip
            if not hanging:
                self._look_again(plan, now)
                continue
            for each in hanging:
                cluster.note_overdue(each.uid)
            self._plans.pop(uid)
            self._in_vain(plan, Waste.VICTIM_HANGS, now)
            self._release(plan, now)

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do; `None` when never."""
        due = [each[0] for each in self._due[:1]]
        due += [each[0] for each in islice(self._vacant, 1)]
        return min(due, default=None)

    def _look_again(self, plan: Plan, now: Seconds) -> None:
        """Choose when to look whether a victim hangs; never when all are gone."""
        there = plan.there(self._context.cluster)
        if there:
            ends = [overdue_at(each, MARGIN) or now + MARGIN for each in there]
            # Not all the time, should the clocks differ.
            moment = max(min(ends), now + 1.0)
            heapq.heappush(self._due, (moment, next(self._numbers), plan))

    def _in_vain(self, plan: Plan, why: Waste, now: Seconds) -> bool:
        """Count a plan that came to nothing; tell whether it is remembered as such."""
        if plan.overtaken or not plan.asked:
            return False
        if plan.released and why in _LOOPS:
            why = Waste.PLAN_FAILED
        if why in _LOOPS and self._is_taken(plan, now):
            return False
        if why is Waste.PLACED_ELSEWHERE:
            self._vacant.append((now + VACANT_FOR, plan))
            return False
        return self._note(plan, why, now)

    def _take(self, node: str, now: Seconds) -> None:
        """Note that a preemptor is on a node where it had made no room: others' serves it."""
        for each in self._vacant:
            if each[1].node == node:
                self._vacant.remove(each)
                return
        self._takers.append((now + VACANT_FOR, node))

    def _is_taken(self, plan: Plan, now: Seconds) -> bool:
        """Tell whether a preemptor of ours has the room of a plan instead of its own."""
        while self._takers and self._takers[0][0] <= now:
            self._takers.popleft()
        for each in self._takers:
            if each[1] == plan.node:
                self._takers.remove(each)
                return True
        return False

    def _note(self, plan: Plan, why: Waste, now: Seconds) -> bool:
        """Count what was wasted; tell whether it is remembered, since it may happen again."""
        self.wasted[why] += len(plan.asked)
        if why not in _LOOPS:
            return False
        self.fruitless[why] += 1
        ledger, preemptor = self._context.ledger, owner(plan.preemptor)
        owners = sorted(set(plan.owners(plan.asked)))
        before = {each: self._stopped(plan, each, now) for each in owners}
        lost = why is Waste.ROOM_LOST
        ledger.note_fruitless(preemptor, plan.node, owners, now, lost=lost)
        self._write_soon(now)
        for each in owners:
            if not before[each] and self._stopped(plan, each, now):
                self.stopped += 1
                telling.announce_loop(self._context, plan.preemptor, each)
        return True

    def _stopped(self, plan: Plan, victim: str, now: Seconds) -> bool:
        pause = self._context.ledger.fruitless.pause(owner(plan.preemptor), plan.node, victim, now)
        return pause is not None and pause.stopped
