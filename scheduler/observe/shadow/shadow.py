"""Compares what other schedulers do with what this one would have done, and counts.

Each act is compared when it is observed, before the machine applies it: on the newest state before
the act that this process knows. The pod is not assumed anywhere, so each decision follows from what
the other scheduler has done until then, and not from our earlier decisions.

Everything is limited, and nothing of it is written anywhere.
"""

from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from typing import Final

from scheduler.core.machine import Machine
from scheduler.model.api.objects import Pod
from scheduler.model.api.start_time import runs_since
from scheduler.model.base import Record
from scheduler.model.events import Event, PodGone, PodObserved
from scheduler.model.rest.common import PodView
from scheduler.model.times import Seconds
from scheduler.observe.api.costs import Cost, lost
from scheduler.observe.api.views import pending_view
from scheduler.observe.shadow import comparison
from scheduler.observe.shadow.acts import (
    Act,
    SeenBinding,
    SeenEviction,
    SeenEvictions,
    SeenNomination,
    act_of,
)
from scheduler.observe.shadow.comparison import Judgement, Outcome
from scheduler.queue.scheduling_queue import QueuedPod

__all__ = ["Difference", "Shadow"]

#: How many pods are kept that another scheduler treated differently.
MAX_DIFFERENCES: Final = 1000
#: How many victims of each side are kept of one preemption; the others are only counted.
_MAX_VICTIMS: Final = 20
#: After its nomination, a preemptor's victims are collected for so long.
_SETTLES: Final[Seconds] = 5.0
#: How many nominated pods are followed, and for how long those without a victim are.
_MAX_NOMINATED: Final = 5000
_MAX_AGE: Final[Seconds] = 600.0
#: The mean time between two differences that are explained by rules, which takes five times as long
#: as the decision, and how many may be explained at once.
_EXPLAINED_EVERY: Final[Seconds] = 1.0
_EXPLAINED_AT_ONCE: Final = 20
#: Not kept: there is nothing to see.
_ALIKE: Final = frozenset(
    {
        Outcome.SAME_NODE,
        Outcome.EQUAL_NODE,
        Outcome.BOTH_UNSCHEDULABLE,
        Outcome.SAME_PREEMPTION,
        Outcome.EQUAL_PREEMPTION,
    }
)


class Difference(Record, frozen=True):
    """A pod that another scheduler treated differently."""

    pod: PodView
    at: Seconds
    outcome: Outcome
    #: The node to which they bound the pod or from which they evicted for it; empty for none.
    their_node: str
    our_node: str
    why: str
    their_victims: tuple[PodView, ...]
    our_victims: tuple[PodView, ...]
    #: Of all victims, also of those that are only counted.
    their_cost: Cost
    our_cost: Cost


class _Preemptor:
    """A nominated pod, until its victims are known."""

    __slots__ = ("at", "judgement", "node", "pod", "since", "told")

    def __init__(
        self, pod: Pod, node: str, judgement: Judgement, since: Seconds, at: Seconds
    ) -> None:
        self.pod = pod
        self.node = node
        self.judgement = judgement
        #: When it began to wait, and when it was nominated.
        self.since = since
        self.at = at
        #: Whether its preemption was compared.
        self.told = False


class Shadow:
    """Compares acts; owned by the scheduler's loop.

    Args:
        machine: The machine, whose profiles have the names of the other schedulers.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.schedulers: Final = tuple(sorted(machine.profile_names))
        #: Acts by outcome; each exists from the start, so that `rate` sees the first one.
        self.outcomes: Final[Counter[Outcome]] = Counter(dict.fromkeys(Outcome, 0))
        #: The newest ones come last.
        self.differences: Final[deque[Difference]] = deque(maxlen=MAX_DIFFERENCES)
        #: What all their preemptions have lost, and ours would have in their place.
        self.their_cost = self.our_cost = Cost()
        #: Since when acts are compared; `None` while this replica stands by.
        self.began: Seconds | None = None
        self._evictions = SeenEvictions(self.schedulers)
        self._explains_from: Seconds = 0.0
        #: By uid, oldest first.
        self._preemptors: OrderedDict[str, _Preemptor] = OrderedDict()

    def before(self, event: Event, now: Seconds, *, compare: bool = True) -> None:
        """Look at an event that the machine has not applied yet.

        Args:
            event: The event.
            now: The time.
            compare: Whether acts are compared; otherwise they are only counted.
        """
        if isinstance(event, PodObserved):
            self._observed(event.pod, now, compare=compare)
        elif isinstance(event, PodGone):
            preemptor = self._preemptors.pop(event.uid, None)
            if preemptor is not None:
                self._compare_preemption(preemptor, now)

    def _observed(self, pod: Pod, now: Seconds, *, compare: bool) -> None:
        queued = self._machine.queue.get(pod.uid)
        if queued is None:
            known = self._machine.cluster.find_pod(pod.uid) if pod.status.conditions else None
            if known is not None:
                self._evictions.note(known, pod, now)
            return
        act = act_of(queued.pod, pod)
        if act is None or pod.terminating:
            return
        if compare:
            self._compare(queued, pod, act, now)
        else:
            self.outcomes[Outcome.NOT_COMPARED] += 1

    def tick(self, now: Seconds) -> None:
        """Compare the preemptions whose victims are known by now."""
        for uid, preemptor in list(self._preemptors.items()):
            if preemptor.at + _SETTLES > now:
                break
            self._compare_preemption(preemptor, now)
            if preemptor.at + _MAX_AGE < now:
                del self._preemptors[uid]

    def _compare(self, queued: QueuedPod, pod: Pod, act: Act, now: Seconds) -> None:
        since = queued.first_active or queued.timestamp
        preemptor = self._preemptors.get(pod.uid)
        if isinstance(act, SeenNomination):
            if preemptor is not None:
                self._compare_preemption(preemptor, now)
            gone = self._evicted_for(pod, act.node, since)
            judgement = self._judge(queued, act.node, gone, now)
            self._preemptors[pod.uid] = _Preemptor(pod, act.node, judgement, since, now)
            self._preemptors.move_to_end(pod.uid)
            while len(self._preemptors) > _MAX_NOMINATED:
                self._preemptors.popitem(last=False)
        elif isinstance(act, SeenBinding):
            if preemptor is not None:
                del self._preemptors[pod.uid]
                self._compare_preemption(preemptor, now)
                if preemptor.told:
                    return
                if preemptor.node == act.node:
                    # Nominated without evictions, while its volumes are bound for example. From
                    # then on the state names the node, so what was decided then counts.
                    outcome, why = comparison.placed(preemptor.judgement, act.node)
                    self._record(pod, now, outcome, why, preemptor.judgement, act.node)
                    return
            self._compare_binding(queued, pod, act.node, since, now)
        else:
            judgement = comparison.judge(self._machine, queued, now)
            outcome, why = comparison.rejected(judgement)
            self._record(pod, now, outcome, why, judgement)

    def _compare_binding(
        self, queued: QueuedPod, pod: Pod, node: str, since: Seconds, now: Seconds
    ) -> None:
        """Compare a pod that was bound, perhaps after evictions whose nomination was not seen."""
        gone = self._evicted_for(pod, node, since)
        judgement = self._judge(queued, node, gone, now)
        if gone:
            self._compare_preemption(_Preemptor(pod, node, judgement, since, now), now)
            return
        outcome, why = comparison.placed(judgement, node)
        self._record(pod, now, outcome, why, judgement, node)

    def _judge(
        self, queued: QueuedPod, node: str, gone: Sequence[SeenEviction], now: Seconds
    ) -> Judgement:
        """Decide for a pod for which they have chosen a node."""
        explains = now >= self._explains_from
        judgement = comparison.judge(
            self._machine, queued, now, theirs=node, gone=gone, explains=explains
        )
        if judgement.found:
            earliest = now - (_EXPLAINED_AT_ONCE - 1) * _EXPLAINED_EVERY
            self._explains_from = max(self._explains_from, earliest) + _EXPLAINED_EVERY
        return judgement

    def _evicted_for(self, pod: Pod, node: str, since: Seconds) -> list[SeenEviction]:
        """Return what was evicted from a node for a pod; who only claims so, and stays, was not."""
        find = self._machine.cluster.find_pod
        return [
            each
            for each in self._evictions.for_preemptor(pod, node, since)
            if (known := find(each.pod.uid)) is None or known.terminating
        ]

    def _compare_preemption(self, preemptor: _Preemptor, now: Seconds) -> None:
        """Compare a preemption, once; it is none as long as no pod was evicted."""
        if preemptor.told:
            return
        pod, node = preemptor.pod, preemptor.node
        evicted = self._evicted_for(pod, node, preemptor.since)
        if not evicted:
            return
        preemptor.told = True
        self._evictions.take(evicted)
        victims = [each.pod for each in evicted]
        outcome, why = comparison.preempted(preemptor.judgement, node, victims)
        self._record(pod, now, outcome, why, preemptor.judgement, node, evicted)

    def _record(
        self,
        pod: Pod,
        now: Seconds,
        outcome: Outcome,
        why: str,
        judgement: Judgement,
        node: str = "",
        evicted: Sequence[SeenEviction] = (),
    ) -> None:
        self.outcomes[outcome] += 1
        if outcome in _ALIKE and not judgement.victims:
            return  # neither side evicts: nothing is lost, and there is nothing to see
        theirs = [each.pod for each in evicted]
        their_cost, our_cost = self._cost(theirs, now), self._cost(judgement.victims, now)
        self.their_cost = self.their_cost.plus(their_cost)
        self.our_cost = self.our_cost.plus(our_cost)
        if outcome in _ALIKE:
            return
        self.differences.append(
            Difference(
                pod=self._view(pod),
                at=now,
                outcome=outcome,
                their_node=node,
                our_node=judgement.node,
                why=why,
                their_victims=self._views(theirs),
                our_victims=self._views(judgement.victims),
                their_cost=their_cost,
                our_cost=our_cost,
            )
        )

    def _views(self, victims: Sequence[Pod]) -> tuple[PodView, ...]:
        return tuple(map(self._view, victims[:_MAX_VICTIMS]))

    def _view(self, pod: Pod) -> PodView:
        return pending_view(pod, self._machine.cluster)

    def _cost(self, victims: Sequence[Pod], now: Seconds) -> Cost:
        """Return what the eviction of pods costs."""
        total = Cost()
        for victim in victims:
            since = runs_since(victim)
            seconds = 0.0 if since is None else max(0.0, now - since)
            total = total.plus(lost(self._view(victim).requests, seconds))
        return total
