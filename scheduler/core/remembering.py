"""What preemptions count for: kept in the ledger, written down before the first victim is asked.

One write is under way at a time; plans that come meanwhile wait for the next one and share it.
"""

from collections.abc import Iterable

from scheduler.core.context import Context
from scheduler.core.plans import Plan
from scheduler.model.effects import Remember
from scheduler.model.owners import owner
from scheduler.model.times import Seconds
from scheduler.state.ledger import Eviction, Preempted

__all__ = ["Remembering"]


class Remembering:
    """Counts plans, and has the ledger written down."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Plans that wait until the ledger is written down, by uid of the preemptor.
        self._waiting: dict[str, Plan] = {}
        #: The state of the ledger that is being written down.
        self._writing: Remember | None = None
        #: Whether to write as soon as possible, even if no plan waits.
        self._wanted = False
        #: The revision of the last one that was.
        self._written = 0

    def count(self, plan: Plan) -> None:
        """Let the ledger count a plan, once."""
        ledger, charge = self._context.ledger, plan.charge
        for each in plan.victims:
            policies = charge.victims.get(each.uid, frozenset())
            if policies and each.uid not in plan.asked and not each.leaving:
                victim = Eviction(
                    plan.begun, each.uid, each.namespace, each.owner, plan.node, policies
                )
                if ledger.count_victim(victim):
                    plan.counted.add(each.uid)
        if charge.limits:
            preemptor = plan.preemptor
            plan.counts = ledger.count_preemption(
                Preempted(plan.begun, preemptor.uid, owner(preemptor), charge.limits)
            )
        plan.revision = ledger.revision

    def take_back(self, plan: Plan, others: Iterable[Plan]) -> None:
        """Let the ledger forget whom a plan did not ask to leave after all.

        Args:
            plan: The plan, which has ended.
            others: Plans under way for the same node: whom they name goes on to count.
        """
        ledger = self._context.ledger
        heirs = {uid: each for each in others for uid in each.charge.victims}
        for uid in plan.counted - plan.asked:
            if uid in heirs:
                heirs[uid].counted.add(uid)
            else:
                ledger.take_back(uid)
        if plan.counts and not plan.asked:
            ledger.take_back_preemption(plan.preemptor.uid, plan.begun)

    def waits(self, plan: Plan, now: Seconds) -> bool:
        """Tell whether a plan has to wait until the ledger is written down."""
        if plan.revision <= self._written:
            return False
        self._waiting[plan.preemptor.uid] = plan
        self.write_down(now)
        return True

    def drop(self, uid: str) -> None:
        """Let a plan wait no longer, by uid of its preemptor."""
        self._waiting.pop(uid, None)

    def write_soon(self, now: Seconds) -> None:
        """Have the ledger written down though no plan waits for it."""
        self._wanted = True
        self.write_down(now)

    def write_down(self, now: Seconds) -> None:
        """Have the ledger written down if that is wanted and no write is under way."""
        if (self._waiting or self._wanted) and self._writing is None:
            self._wanted = False
            ledger = self._context.ledger
            self._writing = Remember(ledger.text(now), ledger.revision)
            self._context.outbox.append(self._writing)

    def done(self, effect: Remember) -> list[Plan]:
        """Return the plans that need not wait any longer."""
        self._written = max(self._written, effect.revision)
        return self.failed(effect)

    def failed(self, effect: Remember) -> list[Plan]:
        """Return the plans that have waited for this write."""
        self._writing = None
        taken = [each for each in self._waiting.values() if each.revision <= effect.revision]
        for plan in taken:
            del self._waiting[plan.preemptor.uid]
        return taken
