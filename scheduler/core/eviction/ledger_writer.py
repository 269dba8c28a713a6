"""Counts preemptions in the ledger, and has it written before the first victim is evicted.

There is one write at a time; plans that come meanwhile wait for the next one and share it.
"""

from typing import Final

from msgspec.structs import replace

from scheduler.core.eviction.phases import CLOSED, HOLDING, PreemptionPhase
from scheduler.core.eviction.plan import PreemptionPlan
from scheduler.core.eviction.state import WRITE_INTERVAL, LedgerWriterState
from scheduler.core.eviction.transition import Transition
from scheduler.core.outbox import Outbox
from scheduler.core.requeue.blocked_by_policy import BlockedByPolicy
from scheduler.model.api.owners import owner
from scheduler.model.effects import SaveLedger
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.preemption.ledger import EvictionEntry, Ledger, PreemptionEntry

__all__ = ["LedgerWriter"]

#: The longest such time while writes fail.
MAX_WRITE_INTERVAL: Final[Seconds] = 64.0


class LedgerWriter:
    """Counts plans, and has the ledger written."""

    def __init__(
        self,
        state: LedgerWriterState,
        cluster: Cluster,
        ledger: Ledger,
        blocked: BlockedByPolicy,
        outbox: Outbox,
    ) -> None:
        self._state = state
        self._cluster = cluster
        self._ledger = ledger
        self._blocked = blocked
        self._outbox = outbox

    def hold(self, plan: PreemptionPlan, now: Seconds) -> PreemptionPlan:
        """Count a plan, whatever its age, until `moved` gives it back; return it with that."""
        ledger, charge = self._ledger, plan.charge
        held: set[str] = set()
        for placement in plan.placements:
            for victim in placement.victims:
                policies = charge.victims.get(victim.uid)
                if policies and not victim.wait_only:
                    ledger.hold(
                        EvictionEntry(
                            now, victim.uid, victim.ref.namespace, victim.owner, placement.node,
                            policies,
                        ),
                        placement.preemptor_uid,
                    )  # fmt: skip
                    held.add(victim.uid)
            if charge.limited_by:
                at = plan.decided_at if plan.decided_here else now
                known = (
                    None if plan.decided_here else ledger.find_preemption(placement.preemptor_uid)
                )
                new = PreemptionEntry(
                    at, placement.preemptor_uid, owner(placement.preemptor), charge.limited_by
                )
                ledger.hold_preemption(known or new)
        progress = replace(plan.progress, in_ledger=plan.progress.in_ledger.union(held))
        return replace(plan, progress=progress, ledger_revision=ledger.revision)

    def inherit(self, plan: PreemptionPlan, running: list[str], now: Seconds) -> PreemptionPlan:
        """Hold what an earlier leader has counted for a plan; return the plan with that.

        Args:
            plan: The plan.
            running: Its victims that run, by uid. They may have been evicted: what this process has
                observed may be older.
            now: The time.
        """
        ledger, held = self._ledger, set()
        (preemptor,) = plan.preemptors
        for uid in running:
            ledger.doubt(uid, now)
            entry = ledger.find_victim(uid)
            if entry is not None:
                ledger.hold(entry, preemptor)
                held.add(uid)
        preemption = ledger.find_preemption(preemptor) if held else None
        if preemption is not None:
            ledger.hold_preemption(preemption)
        return plan.at(replace(plan.progress, in_ledger=frozenset(held)))

    def moved(self, before: PreemptionPlan, transition: Transition, now: Seconds) -> None:
        """Give back what a plan does not count any more, or write what it has to wait for.

        An eviction without an outcome is decided by its outcome.
        """
        plan = transition.plan
        ledger, progress = self._ledger, plan.progress
        dropped = before.progress.in_ledger - progress.in_ledger
        given_back = [
            ledger.release(uid, placement.preemptor_uid)
            for placement, own in (plan.by_placement(dropped) if dropped else ())
            for uid in sorted(own)
        ]
        if progress.phase not in HOLDING:
            self._state.waiting.pop(plan.number, None)
            evicted = bool(progress.evicted) or not plan.decided_here
            # A closed plan without an open answer has given back its count: what the ledger holds
            # for its preemptors now is that of their next plans.
            settled = before.progress.phase in CLOSED and not before.progress.outstanding
            for preemptor in () if progress.outstanding or settled else plan.preemptors:
                given_back.append(ledger.release_preemption(preemptor, now, evicted=evicted))
        if any(given_back):
            self._blocked.wake_count_limited(now)
        if progress.phase is PreemptionPhase.RECORDING and transition.move is not None:
            self._write_for(plan, now)

    def take_over(self, now: Seconds) -> None:
        """Count what an earlier leader was about to evict when it wrote the ledger."""
        for uid in self._ledger.take_unsettled():
            self.unanswered(uid, now)

    def evicted(self, uid: str, now: Seconds) -> None:
        """Count a victim from now on: only now its eviction is certain."""
        self._ledger.restamp(uid, now)

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

    def _write_for(self, plan: PreemptionPlan, now: Seconds) -> None:
        """Write the ledger before a plan goes on, unless that is done."""
        if plan.ledger_revision > self._state.written:
            self._state.waiting[plan.number] = plan.ledger_revision
            self.write(now)

    def write_soon(self, now: Seconds) -> None:
        """Write the ledger soon although no plan waits for it."""
        state = self._state
        requested = state.written if state.writing is None else state.writing.revision
        state.wanted = state.wanted or self._ledger.revision > requested
        self.write(now)

    def write(self, now: Seconds) -> None:
        """Write the ledger if that is wanted and no write is in progress."""
        state = self._state
        wanted = state.wanted and now >= state.next_write
        if (state.waiting or wanted) and state.writing is None:
            state.wanted = False
            state.next_write = now + state.interval
            state.writing = SaveLedger(self._ledger.text(now), self._ledger.revision)
            self._outbox.emit(state.writing)

    def next_wakeup(self) -> Seconds | None:
        """Return when `write` next has something to do by itself; `None` when never."""
        state = self._state
        return state.next_write if state.wanted and state.writing is None else None

    def saved(self, effect: SaveLedger) -> list[int]:
        """Return the plans, by number, that do not have to wait any longer."""
        state = self._state
        state.written = max(state.written, effect.revision)
        state.interval = WRITE_INTERVAL
        return self._stop_waiting(effect)

    def failed(self, effect: SaveLedger) -> list[int]:
        """Return the plans, by number, that waited for this write, which is tried again later."""
        state = self._state
        state.wanted = True
        state.interval = min(2 * state.interval, MAX_WRITE_INTERVAL)
        return self._stop_waiting(effect)

    def _stop_waiting(self, effect: SaveLedger) -> list[int]:
        state = self._state
        state.writing = None
        waited = [
            number for number, revision in state.waiting.items() if revision <= effect.revision
        ]
        for number in waited:
            del state.waiting[number]
        return waited
