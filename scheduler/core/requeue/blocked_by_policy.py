"""Pods whose preemption somebody objected to, and what ends that beside a change of the cluster.

A pod that is refused room by a policy, or because too much was in vain, waits in the queue like any
pod that fits nowhere. Four things more can help it: time, a change of a policy, a disruption budget
that allows more, and a preemption that is given back, so that what it counted for is free again.
What holds a pod is noted once, when it is parked; a pod that leaves the queue is not held any more.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from scheduler.model.policy_refusals import Rule
from scheduler.model.times import Seconds
from scheduler.queue.deadlines import Deadlines
from scheduler.queue.scheduling_queue import SchedulingQueue

__all__ = ["BlockedByPolicy"]

#: What moves pods, in the words of the queue's metric.
_TIME: Final = "PreemptionPolicyTimeout"
_BUDGET: Final = "PodDisruptionBudgetChange"
_GIVEN_BACK: Final = "PreemptionGivenBack"


#: Rules that count preemptions and victims.
_COUNTING: Final = frozenset({Rule.BUDGETS, Rule.MAX_PREEMPTIONS})


class _Block(NamedTuple):
    """What holds a pod."""

    #: The rules of policies; none for what is remembered of preemptions in vain.
    rules: frozenset[Rule]
    #: When the first of it ends; `None` where time ends nothing.
    until: Seconds | None
    #: The disruption budgets that are in the way, by namespace and name.
    budgets: frozenset[str]


class BlockedByPolicy:
    """All pods of the queue that are held."""

    def __init__(self, queue: SchedulingQueue) -> None:
        self._queue = queue
        #: By uid.
        self._pods: dict[str, _Block] = {}
        #: Uids of the pods that each disruption budget holds, by its key.
        self._by_budget: dict[str, set[str]] = {}
        self._ends: Final[Deadlines[str]] = Deadlines(self._is_held_until)

    def __len__(self) -> int:
        return len(self._pods)

    def hold(
        self,
        uid: str,
        rules: frozenset[Rule],
        until: Seconds | None,
        budgets: frozenset[str] = frozenset(),
    ) -> None:
        """Note that a pod is held.

        Args:
            uid: The pod's.
            rules: The rules of policies that hold it; none for preemptions in vain.
            until: When that ends at the earliest; `None` where time ends nothing.
            budgets: The disruption budgets that are in the way, by namespace and name.
        """
        self.let_go(uid)
        self._pods[uid] = _Block(rules, until, budgets)
        for key in budgets:
            self._by_budget.setdefault(key, set()).add(uid)
        if until is not None:
            self._ends.put(uid, until)

    def let_go(self, uid: str) -> None:
        """Note that a pod is not held any more; also when it leaves the queue."""
        hold = self._pods.pop(uid, None)
        if hold is None:
            return
        for key in hold.budgets:
            self._by_budget[key].discard(uid)
            if not self._by_budget[key]:
                del self._by_budget[key]

    def wake(self, now: Seconds, event: str, rule: Rule | None = None) -> None:
        """Wake the pods that are held by a rule, or all."""
        for uid, hold in list(self._pods.items()):
            if rule is None or rule in hold.rules:
                self._wake(uid, now, event)

    def wake_counted(self, now: Seconds) -> None:
        """Wake the pods that are held by what preemptions count for, or by what was in vain.

        To be called when a preemption is given back, so that it does not count any more, and when
        one succeeds, so that what was in vain is forgotten.
        """
        for uid, hold in list(self._pods.items()):
            if not hold.rules or not hold.rules.isdisjoint(_COUNTING):
                self._wake(uid, now, _GIVEN_BACK)

    def wake_budgets(self, now: Seconds, budgets: Iterable[str]) -> None:
        """Wake the pods that are held by some disruption budgets, by namespace and name."""
        for key in budgets:
            for uid in sorted(self._by_budget.get(key, ())):
                self._wake(uid, now, _BUDGET)

    def flush(self, now: Seconds) -> None:
        """Wake the pods for whom it was long enough."""
        for uid in self._ends.pop_until(now):
            self._wake(uid, now, _TIME)

    def next_wakeup(self) -> Seconds | None:
        """Return when `flush` next has something to do; `None` when never."""
        return self._ends.first()

    def _is_held_until(self, uid: str, end: Seconds) -> bool:
        hold = self._pods.get(uid)
        return hold is not None and hold.until == end

    def _wake(self, uid: str, now: Seconds, event: str) -> None:
        self.let_go(uid)
        queued = self._queue.get(uid)
        if queued is not None:
            self._queue.wake_pod(queued, now, event)

    def check(self) -> None:
        """Assert the invariants: each end in time and each budget is known, and each pod waits."""
        timed = [hold.until for hold in self._pods.values() if hold.until is not None]
        assert self._ends.first() == min(timed, default=None)
        for uid, hold in self._pods.items():
            assert all(uid in self._by_budget[key] for key in hold.budgets)
            assert self._queue.get(uid) is not None, uid
        assert sum(map(len, self._by_budget.values())) == sum(
            len(each.budgets) for each in self._pods.values()
        )
