"""Counts preemptions in the ledger, and has it written before the first victim is evicted.

There is one write at a time; plans that come meanwhile wait for the next one and share it.
"""

from collections.abc import Sequence
from typing import Final

from scheduler.core.eviction.phases import OPEN
from scheduler.core.eviction.plan import PreemptionPlan
from scheduler.core.outbox import Outbox
from scheduler.core.requeue.blocked_by_policy import BlockedByPolicy
from scheduler.model.api.owners import owner
from scheduler.model.effects import SaveLedger
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.preemption.ledger import EvictionEntry, Ledger, PreemptionEntry

__all__ = ["LedgerWriter"]

#: Changes that no plan waits for are written once in this time, since each write has all of it.
WRITE_INTERVAL: Final[Seconds] = 1.0
#: The longest such time while writes fail.
MAX_WRITE_INTERVAL: Final[Seconds] = 64.0


class LedgerWriter:
    """Counts plans, and has the ledger written."""

    def __init__(
        self, cluster: Cluster, ledger: Ledger, blocked: BlockedByPolicy, outbox: Outbox
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._blocked = blocked
        self._outbox = outbox
        #: Plans that wait until the ledger is written, by uid of the preemptor.
        self.unwritten: Final[dict[str, PreemptionPlan]] = {}
        #: The state of the ledger that is being written.
        self._writing: SaveLedger | None = None
        #: Whether to write as soon as possible, even if no plan waits.
        self.wanted = False
        #: The earliest time of the next such write, and the time between two.
        self._next_write: Seconds = 0.0
        self._interval = WRITE_INTERVAL
        #: The revision of the ledger that was written last.
        self._written = 0

    def count(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Count a plan in the ledger, once, from now on."""
        ledger, charge = self._ledger, plan.charge
        for victim in plan.victims:
            uid = victim.uid
            policies = charge.victims.get(uid, frozenset())
            if uid in plan.in_ledger:
                # By an earlier leader, perhaps long ago or by another clock.
                ledger.restamp(uid, now)
            elif policies and uid not in plan.evicted and not victim.wait_only:
                namespace = victim.ref.namespace
                eviction = EvictionEntry(now, uid, namespace, victim.owner, plan.node, policies)
                if ledger.count_victim(eviction):
                    plan.in_ledger.add(uid)
        if charge.limited_by:
            self._count_preemption(plan, now)
        plan.ledger_revision = ledger.revision

    def _count_preemption(self, plan: PreemptionPlan, now: Seconds) -> None:
        ledger, preemptor = self._ledger, plan.preemptor
        known = None if plan.decided_here else ledger.find_preemption(plan.uid)
        if known is not None:
            plan.decided_at = known.at
            return
        plan.decided_at = round(now, 3)
        ledger.count_preemption(
            PreemptionEntry(plan.decided_at, plan.uid, owner(preemptor), plan.charge.limited_by)
        )

    def inherit(self, plan: PreemptionPlan) -> None:
        """Take over the victims that an earlier leader has counted and may not have evicted."""
        not_terminating = plan.not_terminating(self._cluster)
        plan.in_ledger = {
            victim.uid for victim in not_terminating if self._ledger.find_victim(victim.uid)
        }

    def take_back(
        self, plan: PreemptionPlan, others: Sequence[PreemptionPlan], now: Seconds
    ) -> None:
        """Remove the victims of a plan that were not evicted from the ledger.

        Args:
            plan: The plan, which has ended.
            others: Plans for the same node: a victim that one of them names, or has evicted, is
                still counted.
            now: The time.
        """
        ledger = self._ledger
        before = ledger.revision
        heirs = {
            uid: other
            for other in others
            if other is not plan and other.phase in OPEN
            for uid in other.charge.victims
        }
        # An eviction without an answer is decided by its answer.
        certain = plan.evicted.keys() | plan.outstanding.keys()
        evicted = {uid for other in others if other is not plan for uid in other.evicted}
        for uid in plan.in_ledger - certain:
            if uid in heirs:
                heirs[uid].in_ledger.add(uid)
            elif uid not in evicted and uid not in self._cluster.evicting_uids():
                ledger.take_back(uid)
        plan.in_ledger &= certain
        if not certain:
            ledger.take_back_preemption(plan.uid, plan.decided_at)
        if ledger.revision != before:
            self._blocked.wake_count_limited(now)

    def must_wait(self, plan: PreemptionPlan, now: Seconds) -> bool:
        """Return whether a plan has to wait until the ledger is written."""
        if plan.ledger_revision <= self._written:
            return False
        self.unwritten[plan.uid] = plan
        self.write(now)
        return True

    def drop(self, plan: PreemptionPlan) -> None:
        """Stop a plan from waiting."""
        self.unwritten.pop(plan.uid, None)

    def write_soon(self, now: Seconds) -> None:
        """Write the ledger soon although no plan waits for it."""
        requested = self._written if self._writing is None else self._writing.revision
        self.wanted = self.wanted or self._ledger.revision > requested
        self.write(now)

    def write(self, now: Seconds) -> None:
        """Write the ledger if that is wanted and no write is in progress."""
        wanted = self.wanted and now >= self._next_write
        if (self.unwritten or wanted) and self._writing is None:
            self.wanted = False
            self._next_write = now + self._interval
            self._writing = SaveLedger(self._ledger.text(now), self._ledger.revision)
            self._outbox.emit(self._writing)

    def next_wakeup(self) -> Seconds | None:
        """Return when `write` next has something to do by itself; `None` when never."""
        return self._next_write if self.wanted and self._writing is None else None

    def saved(self, effect: SaveLedger) -> list[PreemptionPlan]:
        """Return the plans that do not have to wait any longer."""
        self._written = max(self._written, effect.revision)
        self._interval = WRITE_INTERVAL
        return self._stop_waiting(effect)

    def failed(self, effect: SaveLedger) -> list[PreemptionPlan]:
        """Return the plans that waited for this write, which is tried again later."""
        self.wanted = True
        self._interval = min(2 * self._interval, MAX_WRITE_INTERVAL)
        return self._stop_waiting(effect)

    def _stop_waiting(self, effect: SaveLedger) -> list[PreemptionPlan]:
        self._writing = None
        waited = [
            plan for plan in self.unwritten.values() if plan.ledger_revision <= effect.revision
        ]
        for plan in waited:
            del self.unwritten[plan.uid]
        return waited
