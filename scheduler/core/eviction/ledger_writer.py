"""Counts preemptions in the ledger, and has it written before the first victim is evicted.

There is one write at a time; plans that come meanwhile wait for the next one and share it.
"""

from typing import Final

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
        """Count a plan in the ledger, once, until `take_back` whatever its age."""
        ledger, charge = self._ledger, plan.charge
        for victim in plan.victims:
            uid = victim.uid
            policies = charge.victims.get(uid)
            if policies and not victim.wait_only:
                namespace = victim.ref.namespace
                eviction = EvictionEntry(now, uid, namespace, victim.owner, plan.node, policies)
                ledger.hold(eviction, plan.uid)
                plan.in_ledger.add(uid)
        if charge.limited_by:
            self._count_preemption(plan, now)
        plan.ledger_revision = ledger.revision

    def _count_preemption(self, plan: PreemptionPlan, now: Seconds) -> None:
        ledger, preemptor = self._ledger, plan.preemptor
        known = None if plan.decided_here else ledger.find_preemption(plan.uid)
        if known is None:
            at = plan.decided_at if plan.decided_here else now
            known = PreemptionEntry(at, plan.uid, owner(preemptor), plan.charge.limited_by)
        ledger.hold_preemption(known)

    def take_over(self, now: Seconds) -> None:
        """Count what an earlier leader was about to evict when it wrote the ledger."""
        for uid in self._ledger.take_unsettled():
            self.unanswered(uid, now)

    def inherit(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Take over the victims that an earlier leader has counted for a plan.

        Those that run may have been evicted: what this process has observed may be older.
        """
        ledger = self._ledger
        for victim in plan.not_terminating(self._cluster):
            ledger.doubt(victim.uid, now)
            entry = ledger.find_victim(victim.uid)
            if entry is not None:
                ledger.hold(entry, plan.uid)
                plan.in_ledger.add(victim.uid)
        preemption = ledger.find_preemption(plan.uid) if plan.in_ledger else None
        if preemption is not None:
            ledger.hold_preemption(preemption)

    def evicted(self, uid: str, plan: PreemptionPlan | None, now: Seconds) -> None:
        """Count a victim from now on: only now its eviction is certain."""
        self._ledger.restamp(uid, now)
        if plan is not None and uid in plan.in_ledger:
            plan.in_ledger.remove(uid)
            self._ledger.release(uid, plan.uid)

    def unanswered(self, uid: str, now: Seconds) -> None:
        """Count a victim as evicted although that is uncertain, unless it is seen to be true."""
        pod = self._cluster.find_pod(uid)
        if pod is None or pod.terminating:
            self._ledger.restamp(uid, now)
        else:
            self._ledger.doubt(uid, now)

    def observed(self, uid: str, now: Seconds, *, gone: bool = False) -> None:
        """Process a new state of a pod, which may be a victim whose eviction is uncertain."""
        pod = None if gone else self._cluster.find_pod(uid)
        if self._ledger.observed(uid, now, runs_on=pod is not None and not pod.terminating):
            self._blocked.wake_count_limited(now)

    def take_back(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Give back what a plan has counted and cannot have evicted, after its last step.

        An eviction without an outcome is decided by its outcome.
        """
        ledger, ended = self._ledger, plan.in_ledger - plan.outstanding.keys()
        given_back = [ledger.release(uid, plan.uid) for uid in sorted(ended)]
        plan.in_ledger -= ended
        if not plan.outstanding:
            evicted = bool(plan.evicted) or not plan.decided_here
            given_back.append(ledger.release_preemption(plan.uid, now, evicted=evicted))
        if any(given_back):
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
