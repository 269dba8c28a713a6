"""What became of preemptions whose victims were asked to leave: who got the room.

Until a preemptor is on a node, is gone, or preempts elsewhere, its plan is kept here. A victim that
hangs in termination past the end of its grace, and some more, makes the plan give its node back.

What came to nothing is counted (`wasted`), and remembered by the ledger where trying it again could
go on for ever: see `state/fruitless`. Room that another preemptor of ours has taken over is not
wasted, since that one would have had to make others leave: see `vacancies`.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Set
from itertools import count
from typing import Final

from scheduler.core import telling
from scheduler.core.context import Context
from scheduler.core.plans import Plan, Plans, overdue_at
from scheduler.core.vacancies import Vacancies, Waste
from scheduler.model.owners import owner
from scheduler.model.times import Seconds

__all__ = ["MARGIN", "Settling"]

#: How long a victim may take to be gone beyond its grace period before its node is given up.
#: Kubelets take a few seconds; a node that is not ready takes minutes, or for ever.
MARGIN: Final[Seconds] = 30.0


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
        self._vacancies: Final = Vacancies(context)
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
        if before is None:
            return
        if before.node != plan.node:
            self._in_vain(before, Waste.ROOM_LOST, now)
        elif before.released or plan.uids <= before.uids or self._has_room(before):
            # What was vacated there is still meant for it.
            plan.asked |= before.asked
            plan.known = before.known | plan.known
            vacating = before.vacating(self._context.cluster)
            plan.victims += tuple(each for each in vacating if each.uid not in plan.uids)
        else:
            self._leave(before, Waste.ROOM_LOST, now)

    def placed(self, uid: str, node: str, now: Seconds) -> None:
        """Leave the room of a preemptor to others when it is placed elsewhere."""
        plan = self._plans.get(uid)
        if plan is not None and plan.node != node:
            self._plans.pop(uid)
            self._leave(plan, Waste.PLACED_ELSEWHERE, now)

    def arrived(self, uid: str, node: str, now: Seconds) -> None:
        """Settle the plan of a preemptor that is on a node for good."""
        self.placed(uid, node, now)
        plan = self._plans.pop(uid)
        if plan is not None:
            self._context.ledger.note_success(owner(plan.preemptor), plan.owners(plan.asked))

    def awaits(self, uid: str) -> bool:
        """Tell whether victims of a preemptor leave, and are not gone yet."""
        plan = self._plans.get(uid)
        return plan is not None and not plan.released and bool(plan.there(self._context.cluster))

    def left(self) -> list[str]:
        """Return nodes on which victims are still there, and where a preemptor does not come."""
        cluster = self._context.cluster
        nodes: dict[str, bool] = {}
        for plan in self._vacancies:
            nodes[plan.node] = nodes.get(plan.node, False) or bool(plan.there(cluster))
        return [
            node for node, waits in nodes.items()
            if waits or any(plan.there(cluster) for plan in self._plans.on_node(node))
        ]  # fmt: skip

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
        if plan.there(self._context.cluster) or self._has_room(plan):
            return False
        self._plans.pop(uid)
        return self._in_vain(plan, Waste.ROOM_LOST, now)

    def preemptor_gone(self, uid: str, now: Seconds) -> None:
        """Settle the plan of a preemptor that is gone."""
        plan = self._plans.pop(uid)
        if plan is not None:
            self._in_vain(plan, Waste.PREEMPTOR_GONE, now)

    def node_gone(self, node: str, now: Seconds) -> None:
        """Settle the plans for a node that is gone."""
        for plan in self._plans.on_node(node):
            self._plans.pop(plan.preemptor.uid)
            self._in_vain(plan, Waste.NODE_GONE, now)

    def flush(self, now: Seconds) -> None:
        """Give up nodes on which a victim hangs, and rooms that nobody has come to take."""
        cluster = self._context.cluster
        for plan, why, uids in self._vacancies.due(now):
            self._note(plan, why, uids, now)
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
        moments = (self._vacancies.next_wakeup(), *(each[0] for each in self._due[:1]))
        return min((each for each in moments if each is not None), default=None)

    def _look_again(self, plan: Plan, now: Seconds) -> None:
        """Choose when to look whether a victim hangs; never when all are gone."""
        there = plan.there(self._context.cluster)
        if there:
            ends = [overdue_at(each, MARGIN) or now + MARGIN for each in there]
            # Not all the time, should the clocks differ.
            moment = max(min(ends), now + 1.0)
            heapq.heappush(self._due, (moment, next(self._numbers), plan))

    def _in_vain(self, plan: Plan, why: Waste, now: Seconds) -> bool:
        """Settle a plan that came to nothing; tell whether it is remembered as such."""
        if not plan.asked:
            return False
        if why not in _LOOPS:
            return self._note(plan, why, plan.asked, now)
        if why is Waste.ROOM_LOST and not plan.released:
            wasted = self._vacancies.in_vain(plan)
            if wasted:
                return self._note(plan, why, wasted, now)
        self._leave(plan, why, now)
        return False

    def _leave(self, plan: Plan, why: Waste, now: Seconds) -> None:
        """Leave the room of a plan to whoever comes soon."""
        self._vacancies.leave(plan, Waste.PLAN_FAILED if plan.released else why, now)

    def _note(self, plan: Plan, why: Waste, uids: Set[str], now: Seconds) -> bool:
        """Count what was wasted; tell whether it is remembered, since it may happen again."""
        if not uids:
            return False
        self.wasted[why] += len(uids)
        if why not in _LOOPS:
            return False
        self.fruitless[why] += 1
        ledger, preemptor = self._context.ledger, owner(plan.preemptor)
        owners = sorted(set(plan.owners(uids)))
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
