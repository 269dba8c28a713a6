"""What preemptions count for: kept in the ledger, written before the first victim is evicted.

One write is under way at a time; plans that come meanwhile wait for the next one and share it.
"""

from collections.abc import Iterable
from typing import Final

from scheduler.core.context import Context
from scheduler.core.eviction.phases import OPEN
from scheduler.core.eviction.plan import Plan
from scheduler.model.effects import Remember
from scheduler.model.owners import owner
from scheduler.model.times import Seconds
from scheduler.state.ledger import Eviction, Preempted

__all__ = ["LedgerWriter"]

#: What no plan waits for is written once in this time: the whole ledger is written each time.
REST: Final[Seconds] = 1.0


class LedgerWriter:
    """Counts plans, and has the ledger written."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Plans that wait until the ledger is written, by uid of the preemptor.
        self.waiting: Final[dict[str, Plan]] = {}
        #: The state of the ledger that is being written.
        self._writing: Remember | None = None
        #: Whether to write as soon as possible, even if no plan waits, and from when on again.
        self.wanted = False
        self._rested_at: Seconds = 0.0
        #: The revision of the last one that was.
        self._written = 0

    def count(self, plan: Plan) -> None:
        """Let the ledger count a plan, once."""
        ledger, charge = self._context.ledger, plan.charge
        for each in plan.victims:
            policies = charge.victims.get(each.uid, frozenset())
            if policies and each.uid not in plan.asked and not each.leaving:
                namespace = each.ref.namespace
                eviction = Eviction(
                    plan.begun, each.uid, namespace, each.owner, plan.node, policies
                )
                if ledger.count_victim(eviction):
                    plan.counted.add(each.uid)
        if charge.limits:
            preemptor = plan.preemptor
            ledger.count_preemption(
                Preempted(plan.begun, preemptor.uid, owner(preemptor), charge.limits)
            )
        plan.revision = ledger.revision

    def inherit(self, plan: Plan) -> None:
        """Take over what an earlier leader has counted for a plan and may not have evicted."""
        staying = plan.staying(self._context.cluster)
        plan.counted = {each.uid for each in staying if self._context.ledger.counted(each.uid)}

    def take_back(self, plan: Plan, others: Iterable[Plan], now: Seconds) -> None:
        """Let the ledger forget the victims of a plan that were not evicted after all.

        Args:
            plan: The plan, which has ended.
            others: Plans for the same node: a victim that one of them names goes on to count.
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
        for uid in plan.counted - plan.asked.keys():
            if uid in heirs:
                heirs[uid].counted.add(uid)
            else:
                ledger.take_back(uid)
        plan.counted &= plan.asked.keys()
        if not plan.asked:
            ledger.take_back_preemption(plan.uid, plan.begun)
        if ledger.revision != before:
            self._context.held.wake_counted(now)

    def waits(self, plan: Plan, now: Seconds) -> bool:
        """Tell whether a plan has to wait until the ledger is written."""
        if plan.revision <= self._written:
            return False
        self.waiting[plan.uid] = plan
        self.write(now)
        return True

    def drop(self, plan: Plan) -> None:
        """Let a plan wait no longer."""
        self.waiting.pop(plan.uid, None)

    def write_soon(self, now: Seconds) -> None:
        """Have the ledger written though no plan waits for it."""
        self.wanted = True
        self.write(now)

    def write(self, now: Seconds) -> None:
        """Have the ledger written if that is wanted and no write is under way."""
        wanted = self.wanted and now >= self._rested_at
        if (self.waiting or wanted) and self._writing is None:
            self.wanted = False
            self._rested_at = now + REST
            ledger = self._context.ledger
            self._writing = Remember(ledger.text(now), ledger.revision)
            self._context.outbox.append(self._writing)

    def next_wakeup(self) -> Seconds | None:
        """Return when `write` next has something to do by itself; `None` when never."""
        return self._rested_at if self.wanted and self._writing is None else None

    def done(self, effect: Remember) -> list[Plan]:
        """Return the plans that need not wait any longer."""
        self._written = max(self._written, effect.revision)
        return self.failed(effect)

    def failed(self, effect: Remember) -> list[Plan]:
        """Return the plans that have waited for this write."""
        self._writing = None
        taken = [each for each in self.waiting.values() if each.revision <= effect.revision]
        for plan in taken:
            del self.waiting[plan.uid]
        return taken
