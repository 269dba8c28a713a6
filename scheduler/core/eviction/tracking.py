"""What became of preemptions whose victims were evicted: who got the room.

Until a preemptor is on a node, is gone, or preempts elsewhere, its plan stays in the table. A
victim that hangs in termination past the end of its grace, and some more, makes the plan give its
node back. That is measured here, from the moment at which the victim was first seen to leave: with
time stamps of others, a clock that is ahead would evict pod after pod.

Every eviction that did not lead to the preemptor's binding is counted against the preemptor at
once; where the ledger's memory says so, preemption of that kind pauses. Room that another preemptor
of ours has taken over is not counted against owners, nodes and the cluster, since that preemptor
would have had to evict others: see `waste`.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Final

from scheduler.core.eviction.freed_room import FreedRooms, WasteReason
from scheduler.core.eviction.ledger_writer import LedgerWriter
from scheduler.core.eviction.phases import WAITING, PreemptionMove, PreemptionPhase
from scheduler.core.eviction.plan import PlanTable, PreemptionPlan
from scheduler.core.eviction.revalidation import PlanValidator
from scheduler.core.preemption.policy.loop_breaker import wasteful
from scheduler.core.requeue import pod_status
from scheduler.core.requeue.context import Context
from scheduler.model.api.objects import Pod
from scheduler.model.api.owners import owner
from scheduler.model.effects import ClearNomination
from scheduler.model.times import Seconds
from scheduler.queue.deadlines import Deadlines
from scheduler.state.preemption.wasted_evictions import WastePause

__all__ = ["MARGIN", "VictimTracker"]

#: How long a victim may take to be gone beyond its grace period before its node is given up.
#: Kubelets take a few seconds; a node that is not ready takes minutes, or never ends it.
MARGIN: Final[Seconds] = 30.0
#: How soon at the earliest it is looked again whether a victim hangs.
_LOOK_AGAIN_AFTER: Final[Seconds] = 1.0

#: What may happen again and again.
_LOOPS: Final = frozenset({WasteReason.ROOM_LOST, WasteReason.PLACED_ELSEWHERE})


class VictimTracker:
    """Watches the plans of the table whose victims leave, and accounts for those that ended."""

    def __init__(
        self,
        context: Context,
        plans: PlanTable,
        revalidation: PlanValidator,
        ledger_writer: LedgerWriter,
    ) -> None:
        self._context = context
        self._plans = plans
        self._revalidation = revalidation
        self._ledger_writer = ledger_writer
        #: When to look next whether a victim of a plan hangs.
        self._due: Final[Deadlines[PreemptionPlan]] = Deadlines(self._is_watched)
        self._rooms: Final = FreedRooms(context)
        #: Victims whose preemptor did not get the room, by reason.
        self.wasted: Final[Counter[str]] = Counter()
        #: Preemptions that are remembered because the preemptor did not get the room, by reason.
        self.fruitless: Final[Counter[str]] = Counter()
        #: How often preemption was stopped, for a pair of owners or for a pod.
        self.stopped = 0

    def awaits(self, uid: str) -> bool:
        """Tell whether victims of a preemptor leave, and are not gone yet."""
        plan = self._plans.get(uid)
        return (
            plan is not None
            and plan.phase in WAITING
            and bool(plan.there(self._context.cluster))
        )  # fmt: skip

    def served(self, node: str) -> list[str]:
        """Return the preemptors, by uid, whose victims on a node are gone, or gone far enough."""
        cluster = self._context.cluster
        return [
            plan.uid
            for plan in self._plans.on_node(node)
            if not plan.there(cluster) or self._revalidation.has_room(plan)
        ]

    def vacated(self) -> Iterator[str]:
        """Yield nodes on which victims are still there, and where a preemptor does not come."""
        cluster = self._context.cluster
        for node in self._rooms.nodes():
            plans = (*self._rooms.on_node(node), *self._plans.on_node(node))
            if any(plan.there(cluster) for plan in plans):
                yield node

    # What happens ---------------------------------------------------------------------------------

    def watch(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Look from time to time whether a victim of a plan hangs."""
        there = plan.there(self._context.cluster)
        if there:
            ends = [end for each in there if (end := self._hangs_at(plan, each, now)) is not None]
            moment = min((*ends, now + MARGIN))
            self._due.put(plan, max(moment, now + _LOOK_AGAIN_AFTER))

    def superseded(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Close what a preemptor had planned before it planned again."""
        before, cluster = self._plans.get(plan.uid), self._context.cluster
        if before is None:
            return
        if before.node != plan.node:
            self.lose(before, now)
        elif (
            before.phase is PreemptionPhase.RELEASED
            or plan.uids <= before.uids
            or self._has_room(before)
        ):
            # What was vacated there is still meant for it.
            self._close(before, PreemptionMove.END, now)
            plan.asked |= before.asked
            plan.seen_leaving |= before.seen_leaving
            plan.charged |= before.charged
            plan.suspects |= before.suspects
            plan.suspected += before.suspected
            plan.known = before.known | plan.known
            leaving = {each.uid for each in before.there(cluster) if cluster.leaves(each)}
            plan.victims += tuple(
                each for each in before.victims
                if each.uid not in plan.uids and each.uid in leaving
            )  # fmt: skip
        else:
            self._suspect(before, now)
            self._vacate(before, WasteReason.ROOM_LOST, now)

    def assumed(self, uid: str, node: str, now: Seconds) -> None:
        """Leave the room of a preemptor to others when it is placed elsewhere."""
        plan = self._plans.get(uid)
        if plan is not None and plan.node != node:
            self._vacate(plan, WasteReason.PLACED_ELSEWHERE, now)

    def bound(self, uid: str, node: str, now: Seconds) -> None:
        """Close the plan of a preemptor that is on a node for good."""
        self.assumed(uid, node, now)
        plan = self._plans.get(uid)
        if plan is not None:
            self._close(plan, PreemptionMove.END, now)
            self._succeeded(plan, now)

    def _succeeded(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Note that a preemptor is bound to the room that was made for it."""
        ledger, preemptor = self._context.ledger, owner(plan.preemptor)
        before = ledger.revision
        ledger.note_success(preemptor, plan.owners(plan.asked))
        for entry in plan.suspected:
            ledger.settle_waste(entry, 0, now)
        if plan.asked:
            ledger.credit(preemptor, plan.node)
        if ledger.revision != before:
            self._context.held.wake_counted(now)

    def preemptor_gone(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Leave the room of a preemptor that is gone to others."""
        self._vacate(plan, WasteReason.PREEMPTOR_GONE, now)

    def victim_stays(self, uid: str, node: str, now: Seconds) -> None:
        """Try preemptors again that wait for the end of a pod which stays after all."""
        for plan in self._plans.on_node(node):
            if plan.phase is PreemptionPhase.AWAITING and uid in plan.uids:
                self._release(plan, now)

    def _waits_in_vain(self, plan: PreemptionPlan) -> bool:
        """Tell whether a plan waits for a pod that stays, and that no plan evicts any more."""
        if plan.phase is not PreemptionPhase.AWAITING:
            return False
        cluster = self._context.cluster
        others = (each for each in self._plans.on_node(plan.node) if each is not plan)
        planned = frozenset().union(*(each.leaving(cluster) for each in others))
        return any(each.uid not in planned for each in plan.staying(cluster))

    def _release(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Give up a plan that waits for a pod which stays, and try its preemptor again."""
        plan.move(PreemptionMove.RELEASE, now)
        self._give_back(plan, now)
        self.released(plan, now)

    def node_gone(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Close a plan for a node that is gone."""
        self._close(plan, PreemptionMove.END, now)
        self._account(plan, WasteReason.NODE_GONE, plan.asked, now)

    def settle_lost(self, uid: str, now: Seconds) -> None:
        """Close the plan of a preemptor whose victims are gone and whose room is taken.

        To be asked before the preemptor's next attempt, which then knows what was in vain.
        """
        plan = self._plans.get(uid)
        if plan is None or plan.phase not in WAITING:
            return
        if not plan.there(self._context.cluster) and not self._has_room(plan):
            self.lose(plan, now)

    def lose(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Close a plan whose preemptor is left without a place.

        Where pods have come that could not have evicted the victims, it is certain what was wasted.
        """
        self._suspect(plan, now)
        if plan.phase is PreemptionPhase.RELEASED or not self._rooms.is_taken(plan):
            self._vacate(plan, WasteReason.ROOM_LOST, now)
        else:
            wasted = self._rooms.wasted(plan)
            self._close(plan, PreemptionMove.END, now)
            self._account(plan, WasteReason.ROOM_LOST, wasted, now)
        self._ledger_writer.write_soon(now)

    def released(self, plan: PreemptionPlan, now: Seconds, *, failed: bool = False) -> None:
        """Keep a plan that was given up, as long as its victims may still serve its preemptor.

        Args:
            plan: The plan.
            now: The time.
            failed: Whether a step was refused; else the preemptor is tried again at once.
        """
        if failed and (plan.asked or plan.refused):
            # Also where no victim was evicted: other nodes come first then.
            self._charge(plan, plan.asked, now)
            self._ledger_writer.write_soon(now)
        elif plan.asked:
            self._suspect(plan, now)
            self._ledger_writer.write_soon(now)
        if not plan.asked:
            self._close(plan, PreemptionMove.END, now)
        elif self._context.cluster.columns.node(plan.node) is None:
            self.node_gone(plan, now)

    def flush(self, now: Seconds) -> None:
        """Give up nodes on which a victim hangs, and rooms that no preemptor has come to take."""
        # Every event comes by here, and most find nothing to be done: so no call is made for them.
        if self._context.bounds.may_free:
            self._context.wake_freed(now)
        writer = self._ledger_writer
        if writer.wanted or writer.waiting:
            writer.write(now)
        if self._rooms.left:
            for plan, why, uids in self._rooms.due(now):
                self._account(plan, why, uids, now)
        due = self._due.entries
        if due and due[0][0] <= now:
            self._give_up_hanging(now)

    def _give_up_hanging(self, now: Seconds) -> None:
        """Give up the nodes of plans with a victim that should have been gone by now."""
        cluster = self._context.cluster
        for plan in self._due.pop_until(now):
            hanging = [
                each for each in plan.there(cluster)
                if (end := self._hangs_at(plan, each, now)) is not None and end <= now
            ]  # fmt: skip
            if not hanging:
                if self._waits_in_vain(plan):
                    self._release(plan, now)
                else:
                    self.watch(plan, now)
                continue
            for each in hanging:
                cluster.note_overdue(each.uid)
            self._give_back(plan, now)
            self._close(plan, PreemptionMove.END, now)
            self._account(plan, WasteReason.VICTIM_HANGS, plan.asked, now)

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do; `None` when never."""
        moments = (
            self._rooms.next_wakeup(),
            self._due.first(),
            self._ledger_writer.next_wakeup(),
        )
        return min((each for each in moments if each is not None), default=None)

    # How ------------------------------------------------------------------------------------------

    def _hangs_at(self, plan: PreemptionPlan, victim: Pod, now: Seconds) -> Seconds | None:
        """Return from when on a victim hangs; `None` where it is not seen to leave yet.

        The grace period is that of its deletion, which only the API server writes.
        """
        if not victim.terminating:
            return None
        since = plan.asked.get(victim.uid)
        if since is None:
            # It leaves for another reason, and that may have begun long after the decision.
            since = plan.seen_leaving.setdefault(victim.uid, now)
        return since + (victim.metadata.deletion_grace_period_seconds or 0) + MARGIN

    def _is_watched(self, plan: PreemptionPlan, _moment: Seconds) -> bool:
        return self._plans.get(plan.uid) is plan and plan.phase in WAITING

    def _has_room(self, plan: PreemptionPlan) -> bool:
        return self._revalidation.has_room(plan)

    def _give_back(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Give the nomination of a plan back, and try its preemptor again."""
        context, uid = self._context, plan.uid
        context.withdraw(uid, now)
        context.outbox.append(ClearNomination(plan.preemptor.ref))
        queued = context.queue.get(uid)
        if queued is not None:
            context.queue.wake_pod(queued, now, "ForceActivate")

    def _close(self, plan: PreemptionPlan, move: PreemptionMove, now: Seconds) -> None:
        """Take a plan out of the table; what was counted for it and not evicted is taken back."""
        self._plans.close(plan, move, now)
        self._ledger_writer.take_back(plan, self._plans.on_node(plan.node), now)
        self._context.promises_ended(plan.uid, now)

    def _vacate(self, plan: PreemptionPlan, why: WasteReason, now: Seconds) -> None:
        """Leave the room of a plan to preemptors that come soon."""
        failed = plan.phase is PreemptionPhase.RELEASED
        left = bool(plan.asked or plan.outstanding)
        self._close(plan, PreemptionMove.VACATE if left else PreemptionMove.END, now)
        if left:
            self._rooms.add(plan, WasteReason.PLAN_FAILED if failed else why, now)

    def _account(
        self, plan: PreemptionPlan, why: WasteReason, uids: Collection[str], now: Seconds
    ) -> None:
        """Count what was wasted, and remember what may happen again."""
        if not uids:
            return
        self.wasted[why] += len(uids)
        if why in _LOOPS:
            self._remember_loop(plan, why, uids, now)
        certain = len(frozenset(uids) - plan.charged)
        if not plan.suspected:
            self._charge(plan, uids, now)
        elif certain:
            # The others go on to count against the preemptor alone.
            entry = plan.suspected.pop()
            self._paused(plan, self._context.ledger.settle_waste(entry, certain, now))
        self._ledger_writer.write_soon(now)

    def _remember_loop(
        self, plan: PreemptionPlan, why: WasteReason, uids: Collection[str], now: Seconds
    ) -> None:
        """Remember between which owners a preemption was in vain, since that may go on and on."""
        self.fruitless[why] += 1
        ledger, preemptor = self._context.ledger, owner(plan.preemptor)
        owners = plan.owners(uids)
        before = {each: self._stopped(plan, each, now) for each in owners}
        lost = why is WasteReason.ROOM_LOST
        ledger.note_fruitless(preemptor, plan.node, owners, now, lost=lost)
        for each in owners:
            if not before[each] and self._stopped(plan, each, now):
                self.stopped += 1
                pod_status.announce_loop(self._context, plan.preemptor, each)

    def _charge(self, plan: PreemptionPlan, uids: Collection[str], now: Seconds) -> None:
        """Count victims as evicted in vain, each once, and back the node off."""
        fresh = frozenset(uids) - plan.charged
        plan.charged |= fresh
        ledger, preemptor = self._context.ledger, plan.preemptor
        pause = ledger.waste(preemptor.uid, owner(preemptor), plan.node, len(fresh), now)
        self._paused(plan, pause)

    def _suspect(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Count victims against the preemptor alone, until it is certain what became of the room.

        Another preemptor of ours may use it; this one needs another preemption all the same.
        """
        fresh = plan.asked.keys() - plan.charged - plan.suspects
        if fresh:
            ledger, preemptor = self._context.ledger, plan.preemptor
            plan.suspects |= fresh
            plan.suspected.append(
                ledger.suspect(preemptor.uid, owner(preemptor), plan.node, len(fresh), now)
            )

    def _paused(self, plan: PreemptionPlan, pause: WastePause | None) -> None:
        """Announce that preemption for a pod is stopped from now on."""
        if pause is not None:
            self.stopped += 1
            pod_status.announce_stop(
                self._context, plan.preemptor, wasteful(pause).text, pause.until
            )

    def _stopped(self, plan: PreemptionPlan, victim: str, now: Seconds) -> bool:
        pause = self._context.ledger.fruitless.pause(owner(plan.preemptor), plan.node, victim, now)
        return pause is not None and pause.stopped
