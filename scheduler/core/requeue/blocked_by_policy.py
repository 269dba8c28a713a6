"""Pods whose preemption is blocked, and what unblocks them apart from cluster changes.

A pod that may not preempt because of a policy, or because too many evictions were wasted, waits in
the queue like any unschedulable pod. It can also be unblocked in four other ways: a time limit
ends, a policy changes, a disruption budget allows more disruptions, or a preemption is cancelled
and is no longer counted. What blocks a pod is recorded once, when its attempt has failed. A pod
that leaves the queue is no longer blocked.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from scheduler.model.policy_vetoes import Rule
from scheduler.model.times import Seconds
from scheduler.queue.deadlines import Deadlines
from scheduler.queue.scheduling_queue import SchedulingQueue

__all__ = ["Block", "BlockedByPolicy"]

#: What moves pods, as the queue's metric names it.
_TIME: Final = "PreemptionPolicyTimeout"
_BUDGET: Final = "PodDisruptionBudgetChange"
_TAKEN_BACK: Final = "PreemptionGivenBack"


#: Rules that count preemptions and victims.
_COUNTING: Final = frozenset({Rule.BUDGETS, Rule.MAX_PREEMPTIONS})


class Block(NamedTuple):
    """What blocks a pod."""

    #: The rules of policies; none where wasted evictions block it.
    rules: frozenset[Rule]
    #: When the first of them ends; `None` where time ends none.
    until: Seconds | None
    #: The disruption budgets that block it, by namespace and name.
    pdbs: frozenset[str]


@dataclass(slots=True)
class BlockedByPolicy:
    """All pods of the queue that are blocked."""

    _queue: SchedulingQueue = field(compare=False)
    #: By uid.
    _pods: dict[str, Block] = field(default_factory=dict)
    #: Uids of the pods that each disruption budget blocks, by its key.
    _by_pdb: dict[str, set[str]] = field(default_factory=dict)
    _ends: Deadlines[str] = field(init=False)

    def __post_init__(self) -> None:
        """Create the heap of the times at which blocks end."""
        self._ends = Deadlines(self._is_blocked_until)

    def __len__(self) -> int:
        return len(self._pods)

    def block(
        self,
        uid: str,
        rules: frozenset[Rule],
        until: Seconds | None,
        pdbs: frozenset[str] = frozenset(),
    ) -> None:
        """Record that a pod is blocked.

        Args:
            uid: The pod's.
            rules: The rules of policies that block it; none for wasted evictions.
            until: When that ends at the earliest; `None` where time does not end it.
            pdbs: The disruption budgets that block it, by namespace and name.
        """
        self.unblock(uid)
        self._pods[uid] = Block(rules, until, pdbs)
        for key in pdbs:
            self._by_pdb.setdefault(key, set()).add(uid)
        if until is not None:
            self._ends.put(uid, until)

    def unblock(self, uid: str) -> None:
        """Record that a pod is not blocked any more; also when it leaves the queue."""
        block = self._pods.pop(uid, None)
        if block is None:
            return
        for key in block.pdbs:
            self._by_pdb[key].discard(uid)
            if not self._by_pdb[key]:
                del self._by_pdb[key]

    def wake(self, now: Seconds, event: str, rule: Rule | None = None) -> None:
        """Wake the pods that a rule blocks, or all."""
        for uid, block in list(self._pods.items()):
            if rule is None or rule in block.rules:
                self._wake(uid, now, event)

    def wake_count_limited(self, now: Seconds) -> None:
        """Wake the pods that counted preemptions or wasted evictions block.

        To be called when a preemption is cancelled, so that it is no longer counted, and when one
        succeeds, so that wasted evictions are forgotten.
        """
        for uid, block in list(self._pods.items()):
            if not block.rules or not block.rules.isdisjoint(_COUNTING):
                self._wake(uid, now, _TAKEN_BACK)

    def wake_for_pdbs(self, now: Seconds, pdbs: Iterable[str]) -> None:
        """Wake the pods that disruption budgets block, given by namespace and name."""
        for key in pdbs:
            for uid in sorted(self._by_pdb.get(key, ())):
                self._wake(uid, now, _BUDGET)

    def flush(self, now: Seconds) -> None:
        """Wake the pods whose time has come."""
        for uid in self._ends.pop_until(now):
            self._wake(uid, now, _TIME)

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do; `None` when never."""
        return self._ends.first()

    def _is_blocked_until(self, uid: str, end: Seconds) -> bool:
        block = self._pods.get(uid)
        return block is not None and block.until == end

    def _wake(self, uid: str, now: Seconds, event: str) -> None:
        self.unblock(uid)
        queued = self._queue.get(uid)
        if queued is not None:
            self._queue.move_to_active_or_backoff(queued, now, event)

    def check(self) -> None:
        """Assert the invariants: each end in time and each PDB is known, and each pod waits."""
        timed = [block.until for block in self._pods.values() if block.until is not None]
        assert self._ends.first() == min(timed, default=None)
        for uid, block in self._pods.items():
            assert all(uid in self._by_pdb[key] for key in block.pdbs)
            assert self._queue.get(uid) is not None, uid
        assert sum(map(len, self._by_pdb.values())) == sum(
            len(block.pdbs) for block in self._pods.values()
        )
