"""What preemptions count for: kept in the ledger, written before the first victim is evicted.

One write is under way at a time; plans that come meanwhile wait for the next one and share it.
"""

from collections.abc import Sequence
from typing import Final

from scheduler.core.eviction.phases import OPEN
from scheduler.core.eviction.plan import PreemptionPlan
from scheduler.core.requeue.context import Context
from scheduler.model.api.owners import owner
from scheduler.model.effects import SaveLedger
from scheduler.model.times import Seconds
from scheduler.state.preemption.ledger import EvictionEntry, PreemptionEntry

__all__ = ["LedgerWriter"]

#: What no plan waits for is written once in this time: the whole ledger is written each time.
REST: Final[Seconds] = 1.0
#: The same when writes fail one after the other.
LONGEST_REST: Final[Seconds] = 64.0


class LedgerWriter:
    """Counts plans, and has the ledger written."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Plans that wait until the ledger is written, by uid of the preemptor.
        self.waiting: Final[dict[str, PreemptionPlan]] = {}
        #: The state of the ledger that is being written.
        self._writing: SaveLedger | None = None
        #: Whether to write as soon as possible, even if no plan waits, and from when on again.
        self.wanted = False
        self._rested_at: Seconds = 0.0
        self._rest = REST
        #: The revision of the last one that was.
        self._written = 0

    def count(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Let the ledger count a plan, once, from now on."""
        ledger, charge = self._context.ledger, plan.charge
        for each in plan.victims:
            policies = charge.victims.get(each.uid, frozenset())
            if each.uid in plan.counted:
                # By an earlier leader, perhaps long ago or by another clock.
                ledger.restamp(each.uid, now)
            elif policies and each.uid not in plan.asked and not each.leaving:
                namespace = each.ref.namespace
                eviction = EvictionEntry(now, each.uid, namespace, each.owner, plan.node, policies)
                if ledger.count_victim(eviction):
                    plan.counted.add(each.uid)
        if charge.limits:
            self._count_preemption(plan, now)
        plan.revision = ledger.revision

    def _count_preemption(self, plan: PreemptionPlan, now: Seconds) -> None:
        ledger, preemptor = self._context.ledger, plan.preemptor
        known = None if plan.decided_here else ledger.counted_preemption(plan.uid)
        if known is not None:
            plan.begun = known.at
            return
        plan.begun = round(now, 3)
        ledger.count_preemption(
            PreemptionEntry(plan.begun, plan.uid, owner(preemptor), plan.charge.limits)
        )

    def inherit(self, plan: PreemptionPlan) -> None:
        """Take over what an earlier leader has counted for a plan and may not have evicted."""
        staying = plan.staying(self._context.cluster)
        plan.counted = {each.uid for each in staying if self._context.ledger.counted(each.uid)}

    def take_back(
        self, plan: PreemptionPlan, others: Sequence[PreemptionPlan], now: Seconds
    ) -> None:
        """Let the ledger forget the victims of a plan that were not evicted after all.

        Args:
            plan: The plan, which has ended.
            others: Plans for the same node: a victim that one of them names, or has evicted, goes
                on to count.
            now: The time.
        """
        ledger = self._context.ledger
        before = ledger.revision
        heirs = {
            uid: each
            for each in others
            if each is not plan and each.phase in OPEN
            for uid in each.charge.victims
        }
        # What an eviction without an answer counts for is decided by its answer.
        certain = plan.asked.keys() | plan.outstanding.keys()
        evicted = {uid for each in others if each is not plan for uid in each.asked}
        for uid in plan.counted - certain:
            if uid in heirs:
                heirs[uid].counted.add(uid)
            elif uid not in evicted and uid not in self._context.cluster.asked_to_leave():
                ledger.take_back(uid)
        plan.counted &= certain
        if not certain:
            ledger.take_back_preemption(plan.uid, plan.begun)
        if ledger.revision != before:
            self._context.held.wake_counted(now)

    def waits(self, plan: PreemptionPlan, now: Seconds) -> bool:
        """Tell whether a plan has to wait until the ledger is written."""
        if plan.revision <= self._written:
            return False
        self.waiting[plan.uid] = plan
        self.write(now)
        return True

    def drop(self, plan: PreemptionPlan) -> None:
        """Let a plan wait no longer."""
        self.waiting.pop(plan.uid, None)

    def write_soon(self, now: Seconds) -> None:
        """Have the ledger written though no plan waits for it."""
        asked = self._written if self._writing is None else self._writing.revision
        self.wanted = self.wanted or self._context.ledger.revision > asked
        self.write(now)

    def write(self, now: Seconds) -> None:
        """Have the ledger written if that is wanted and no write is under way."""
        wanted = self.wanted and now >= self._rested_at
        if (self.waiting or wanted) and self._writing is None:
            self.wanted = False
            self._rested_at = now + self._rest
            ledger = self._context.ledger
            self._writing = SaveLedger(ledger.text(now), ledger.revision)
            self._context.outbox.append(self._writing)

    def next_wakeup(self) -> Seconds | None:
        """Return when `write` next has something to do by itself; `None` when never."""
        return self._rested_at if self.wanted and self._writing is None else None

    def done(self, effect: SaveLedger) -> list[PreemptionPlan]:
        """Return the plans that need not wait any longer."""
        self._written = max(self._written, effect.revision)
        self._rest = REST
        return self._waited(effect)

    def failed(self, effect: SaveLedger) -> list[PreemptionPlan]:
        """Return the plans that have waited for this write; it is tried again later."""
        self.wanted = True
        self._rest = min(2 * self._rest, LONGEST_REST)
        return self._waited(effect)

    def _waited(self, effect: SaveLedger) -> list[PreemptionPlan]:
        self._writing = None
        taken = [each for each in self.waiting.values() if each.revision <= effect.revision]
        for plan in taken:
            del self.waiting[plan.uid]
        return taken
