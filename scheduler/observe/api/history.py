"""What this process remembers for its pages: preemptions, and the last attempts of pending pods.

It is fed from the scheduler's loop. An attempt costs it a few hundred nanoseconds, a preemption
some microseconds; views of it are made, and its progress is read from its plan, when a page needs
them, and four times a second for a few of them. Everything is limited.
"""

import itertools
from collections import Counter, OrderedDict, deque
from collections.abc import Collection, Iterable, Iterator
from typing import Final, NamedTuple

from scheduler.core.eviction.phases import PreemptionPhase
from scheduler.core.eviction.plan import PreemptionPlan
from scheduler.core.eviction.transition import Transition
from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.model.api.start_time import runs_since
from scheduler.model.decisions import (
    Attempt,
    Decision,
    Failed,
    Gated,
    Placed,
    Preempting,
    Unschedulable,
    Waiting,
)
from scheduler.model.effects import Evict, PodRef
from scheduler.model.events import (
    EffectDone,
    Event,
    NamespaceGone,
    NamespaceObserved,
    PodGone,
    PodObserved,
    PolicyGone,
)
from scheduler.model.policies import PolicyMode
from scheduler.model.times import Seconds
from scheduler.observe.api.costs import NamespaceCosts, lost
from scheduler.observe.api.past_attempts import PastAttempts, PastPod
from scheduler.observe.api.past_preemption import PastPreemption, PastVictim
from scheduler.observe.api.refusals import Refusals
from scheduler.observe.api.views import FORMER, pending_requests

__all__ = ["MAX_AGE", "MAX_LISTED", "MAX_PREEMPTIONS", "History", "LastRefusal"]

#: How many preemptions that have ended are kept, and for how long.
MAX_PREEMPTIONS: Final = 5000
MAX_AGE: Final[Seconds] = 7 * 24 * 3600.0
#: Of these, how many are listed, and for how long.
MAX_LISTED: Final = 1000
MAX_LISTED_AGE: Final[Seconds] = 24 * 3600.0
#: How many preemptions under way are kept; those beyond are only counted.
_MAX_OPEN: Final = 5000
#: For how long after its decision a preemption's victims may get replacements.
_REPLACED_WITHIN: Final[Seconds] = 900.0
#: For how many owners of victims a replacement is awaited, and for how many victims of each.
_MAX_OWNERS: Final = 10_000
_MAX_AWAITED: Final = 1000
#: Revisions are milliseconds times this, plus a number of the process: less than 2**53.
_REVISION_STEP: Final = 1000
#: By how much a clock may differ: what ended so long before a namespace was created was not in it.
_SAME_NAMESPACE: Final[Seconds] = 60.0
#: How many preemptions `tick` looks at.
_AT_ONCE: Final = 20

#: The values of the label `result` of kube-scheduler's metric for attempts.
_RESULTS: Final[dict[type[Decision], str]] = {
    Placed: "scheduled",
    Preempting: "unschedulable",
    Unschedulable: "unschedulable",
    Gated: "unschedulable",
    Failed: "error",
}


class LastRefusal(NamedTuple):
    """The last pod whose preemption a policy refused, or would have in mode Audit, and when."""

    pod: PodRef
    moment: Seconds
    mode: PolicyMode


class History:
    """Preemptions and attempts. Owned by the scheduler's loop.

    Args:
        machine: The machine that decides.
        began: When this process began; names its preemptions.
    """

    def __init__(self, machine: Machine, began: Seconds) -> None:
        self._machine = machine
        self._prefix = f"{int(began):x}"
        self._numbers = itertools.count(1)
        #: Under way, and those that have ended; oldest first.
        self._open: dict[int, PastPreemption] = {}
        self._ended: OrderedDict[int, PastPreemption] = OrderedDict()
        #: Those whose plan may still change, by number of the decision and uid of the preemptor.
        self._by_decision: dict[tuple[int, str], PastPreemption] = {}
        machine.preemptions.listeners.append(self)
        #: Those that have ended and may still change, in turns.
        self._unsettled: deque[PastPreemption] = deque()
        #: The last digits of all revisions of this process: another leader has other ones.
        self._mark: Final = int(began * 1e6) % _REVISION_STEP
        self._first_revision: Final = self._revision_at(began)
        #: The revision of the last change, and the last one that a reader was given.
        self._changed = self._given = self._first_revision
        #: Attempts by result, and preemptions and evictions, since the process began.
        self.attempts: Final[Counter[str]] = Counter()
        self.preemptions = 0
        self.evictions = 0
        #: What was lost by these.
        self.costs: Final = NamespaceCosts()
        #: Since when preemptions are known: since this replica decides, or longer.
        self.known_since = began
        self._is_restored = False
        #: What was read of preemptions that had not ended, by the preemptor's uid.
        self._interrupted: dict[str, PastPreemption] = {}
        #: Those that this process has taken over from the leader before, by the preemptor's uid.
        self._inherited: dict[str, PastPreemption] = {}
        #: When each namespace was created.
        self._created: dict[str, Seconds] = {}
        #: Those that are gone, while preemptions may still be of them.
        self._gone: set[str] = set()
        self.refusals: Final = Refusals(began)
        #: What each policy refused last, or would have refused, by its name.
        self.last_refusals: Final[dict[str, LastRefusal]] = {}
        #: Victims that wait for a replacement, by their namespace and the uid of their controller;
        #: those with the newest victim come last. Anybody can write a foreign controller's uid into
        #: a pod, but not create one in its namespace.
        self.awaited: Final[OrderedDict[tuple[str, str], deque[PastVictim]]] = OrderedDict()
        #: The attempts of pods that were rejected.
        self.past_attempts: Final = PastAttempts()

    def begin(self, now: Seconds) -> None:
        """Note that this replica begins to decide, unless it has read the history before."""
        if not self._is_restored:
            self.known_since = now
            self.refusals.begin(now)

    # What the loop reports --------------------------------------------------------------------

    def attempted(self, attempt: Attempt, now: Seconds) -> None:
        """Record an attempt that has ended, or that waits for extenders."""
        decision = attempt.decision
        if isinstance(decision, Waiting):
            return
        self.attempts[_RESULTS[type(decision)]] += 1
        self.past_attempts.add(attempt, now)
        for veto in attempt.vetoes:
            self.last_refusals[veto.policy] = LastRefusal(attempt.pod, now, veto.mode)
            self.refusals.add(veto.policy, veto.mode.value, now)
        if isinstance(decision, Preempting):
            self._preempting(attempt)

    def _preempting(self, attempt: Attempt) -> None:
        plan = self._machine.preemptions.state.plan_of(attempt.pod.uid)
        if plan is None:
            return
        if (plan.decision, attempt.pod.uid) in self._by_decision:
            return  # the plan of an earlier leader, which goes on
        self.preemptions += 1
        if len(self._open) < _MAX_OPEN:
            self._add(plan, attempt)

    def _add(self, plan: PreemptionPlan, attempt: Attempt | None) -> None:
        for placement in plan.placements:
            number = next(self._numbers)
            name, cluster = f"{self._prefix}-{number}", self._machine.cluster
            past = PastPreemption.of_plan(number, name, plan, placement, attempt, cluster)
            if past.is_inherited:
                self._inherited[past.preemptor_uid] = past
                self._continue(past.preemptor_uid)
            self._open[number] = past
            self._by_decision[plan.decision, placement.preemptor_uid] = past
            for victim in past.victims:
                self._await_replacement(victim)

    def moved(self, _before: PreemptionPlan, transition: Transition, _now: Seconds) -> None:
        """Follow a plan."""
        plan = transition.plan
        for preemptor in plan.preemptors:
            past = self._by_decision.get((plan.decision, preemptor))
            if past is not None:
                past.follow(plan, self._machine.preemptions.state.waste.in_vain(plan))
            if plan.phase is PreemptionPhase.DONE:
                self._by_decision.pop((plan.decision, preemptor), None)

    def _await_replacement(self, victim: PastVictim) -> None:
        if victim.controller:
            key = victim.pod.namespace, victim.controller
            victims = self.awaited.setdefault(key, deque(maxlen=_MAX_AWAITED))
            _drop_expired(victims, victim.decided_at)
            victims.append(victim)
            # Else one that has victims again and again would keep those behind it for ever.
            self.awaited.move_to_end(key)
            if len(self.awaited) > _MAX_OWNERS:
                self.awaited.popitem(last=False)

    def observed(self, event: Event, now: Seconds) -> None:
        """Look at an event before the machine does: it may be the replacement of a victim.

        To be called only while `awaited` is not empty.
        """
        if not isinstance(event, PodObserved):
            return
        pod = event.pod
        controller = next((ref.uid for ref in pod.metadata.owner_references if ref.controller), "")
        key = pod.metadata.namespace, controller
        victims = self.awaited.get(key)
        if victims is not None and not pod.terminating and self._is_new(pod):
            _drop_expired(victims, now)
            self._replace(key, victims, pod)

    def _is_new(self, pod: Pod) -> bool:
        machine = self._machine
        return machine.queue.get(pod.uid) is None and machine.cluster.find_pod(pod.uid) is None

    def _replace(self, key: tuple[str, str], victims: deque[PastVictim], pod: Pod) -> None:
        cluster = self._machine.cluster
        for victim in victims:
            if victim.left(cluster):
                victim.replaced_by(pod, cluster)
                victims.remove(victim)
                break
        if not victims:
            del self.awaited[key]

    def applied(self, event: Event, now: Seconds) -> None:
        """Look at an event after the machine has: a pod may have left the queue."""
        if isinstance(event, PodObserved):
            self._may_have_left(event.pod.metadata.uid, now)
        elif isinstance(event, PodGone):
            self._may_have_left(event.uid, now)
        elif isinstance(event, NamespaceGone):
            self._leave_namespace(event.name)
        elif isinstance(event, NamespaceObserved):
            name = event.namespace.metadata.name
            self._created[name] = times.parse(event.namespace.metadata.creation_timestamp) or 0.0
            if name in self._gone:
                self._leave_namespaces(now)
        elif isinstance(event, PolicyGone):
            self.last_refusals.pop(event.name, None)

    def _leave_namespace(self, name: str) -> None:
        """Keep what was in a namespace that is gone from the next owner of its name."""
        self.past_attempts.drop_namespace(name)
        self._created.pop(name, None)
        # The uid of a controller is no secret.
        for key in [key for key in self.awaited if key[0] == name]:
            del self.awaited[key]
        for policy, last in [*self.last_refusals.items()]:
            if last.pod.namespace == name:
                ref = PodRef(f"{name}{FORMER}", last.pod.name, last.pod.uid)
                self.last_refusals[policy] = last._replace(pod=ref)
        self._gone.add(name)

    def _leave_namespaces(self, now: Seconds) -> None:
        """Look through all preemptions once for all namespaces that are gone."""
        names, self._gone = self._gone, set()
        for past in self.known() if names else ():
            if past.is_new:
                self._update(past, now)
            if past.leave_namespaces(names):
                self._change(past, now)

    def _may_have_left(self, uid: str, now: Seconds) -> None:
        if uid in self.past_attempts and self._machine.queue.get(uid) is None:
            self.past_attempts.leave(uid, now)

    def outcome(self, event: Event, now: Seconds) -> None:
        """Count an eviction that was carried out."""
        if isinstance(event, EffectDone) and event.changed and isinstance(event.effect, Evict):
            self.evictions += 1
            self._count_cost(event.effect, now)

    def _count_cost(self, effect: Evict, now: Seconds) -> None:
        victim, cluster = effect.victim, self._machine.cluster
        plan = self._machine.preemptions.state.plan_of(effect.preemptor.uid)
        pod = cluster.find_pod(victim.uid)
        if pod is None and plan is not None:  # it was gone at once
            pod = plan.placement(effect.preemptor.uid).victim_pods.get(victim.uid)
        since = None if pod is None else runs_since(pod)
        seconds = 0.0 if since is None else max(0.0, now - since)
        requests = {} if pod is None else pending_requests(pod, cluster)
        cost = lost(requests, seconds)
        self.costs.add(victim.namespace, effect.preemptor.namespace, cost)

    def tick(self, now: Seconds) -> None:
        """Bring a few preemptions up to date, and drop what is too old."""
        self._adopt()
        self._leave_namespaces(now)
        for past in list(itertools.islice(self._open.values(), _AT_ONCE)):
            # The first ones come last in the next turn.
            del self._open[past.number]
            self._open[past.number] = past
            self._update(past, now)
        for _ in range(min(_AT_ONCE, len(self._unsettled))):
            past = self._unsettled.popleft()
            if past.number in self._ended and not self._update(past, now):
                self._unsettled.append(past)
        self._drop_old(now)
        self.past_attempts.drop_old(now)

    # What pages read ----------------------------------------------------------------------------

    def newest(self, now: Seconds) -> list[PastPreemption]:
        """Return what is listed, newest first; preemptions that are new are brought up to date."""
        for past in [past for past in self._open.values() if past.is_new]:
            self._update(past, now)
        ended = itertools.takewhile(
            lambda past: (past.ended_at or now) > now - MAX_LISTED_AGE,
            itertools.islice(reversed(self._ended.values()), MAX_LISTED),
        )
        return sorted((*self._open.values(), *ended), key=lambda past: -past.number)

    def known(self) -> list[PastPreemption]:
        """Return all preemptions that are known; some may be new, and without views."""
        return [*self._ended.values(), *self._open.values()]

    def find(self, number: int) -> PastPreemption | None:
        """Return a preemption by its number, while it is kept."""
        return self._open.get(number) or self._ended.get(number)

    @property
    def changed(self) -> int:
        """The revision of the last change."""
        return self._changed

    def revision(self, now: Seconds) -> int:
        """Return the revision of now: all changes until now are not later, all others are.

        It is a time. A count would tell readers how many preemptions change that they may not see.
        """
        self._given = max(self._revision_at(now), self._changed, self._given)
        return self._given

    def _revision_at(self, moment: Seconds) -> int:
        return int(moment * 1000) * _REVISION_STEP + self._mark

    def is_known(self, revision: int) -> bool:
        """Return whether this process may have returned a revision, and no other one has."""
        is_own = revision % _REVISION_STEP == self._mark
        return is_own and self._first_revision <= revision <= self._given

    def changing(self, now: Seconds) -> Iterator[PastPreemption]:
        """Bring all preemptions up to date that may have changed, and yield each."""
        self._adopt()
        self._leave_namespaces(now)
        for past in [*self._open.values(), *self._unsettled]:
            self._update(past, now)
            yield past
        self._drop_old(now)

    # What earlier leaders have written down -----------------------------------------------------

    def reserve(self, names: Collection[str], now: Seconds) -> int:
        """Return the number for the newest of some preemptions that will be restored.

        Their names are not given again, even if their process began in the same second.
        """
        parts = (name.rpartition("-") for name in names)
        used = (int(number) for prefix, _, number in parts if prefix == self._prefix)
        self._numbers = itertools.count(max(next(self._numbers), max(used, default=0) + 1))
        self._is_restored, self.known_since = True, now
        self.refusals.begin(now)
        return -1

    def restore(self, past: PastPreemption, now: Seconds) -> None:
        """Add one that was read, and that is older than all that are known."""
        latest = (past.ended_at or past.decided_at) + _SAME_NAMESPACE
        # They were deleted and created again while nobody looked.
        past.leave_namespaces({n for n in past.namespaces if self._created.get(n, 0.0) > latest})
        self._change(past, now)
        self._ended[past.number] = past
        self._ended.move_to_end(past.number, last=False)
        if not past.settled:
            self._unsettled.append(past)
        self.known_since = past.decided_at
        if past.is_interrupted:
            self._interrupted[past.preemptor_uid] = past
            self._continue(past.preemptor_uid)

    def restore_attempts(self, pods: Iterable[PastPod], now: Seconds) -> None:
        """Add the attempts of pods that were read; `past_attempts.order` has to follow."""
        queue, restored = self._machine.queue, []
        for past in pods:
            latest = (past.left_at or past.attempts[-1].at) + _SAME_NAMESPACE
            if self._created.get(past.ref.namespace, 0.0) > latest:
                continue
            # One that was bound or deleted while nobody looked has left now.
            waits = queue.get(past.ref.uid) is not None
            past.left_at = 0.0 if waits else past.left_at or now
            restored.append(past)
        self.past_attempts.restore(restored)

    def _continue(self, preemptor: str) -> None:
        """Have a plan that was taken over go on under the name that its leader gave it."""
        earlier, past = self._interrupted.get(preemptor), self._inherited.get(preemptor)
        if earlier is not None and past is not None and earlier.node == past.node:
            del self._interrupted[preemptor], self._inherited[preemptor]
            self._ended.pop(earlier.number, None)
            past.take_over(earlier)

    # Keeping up ---------------------------------------------------------------------------------

    def _adopt(self) -> None:
        """Add the preemptions of an earlier leader."""
        plans = [*self._machine.preemptions.state]
        if len(plans) <= len(self._open):
            return
        for plan in plans:
            key = plan.decision, plan.preemptors[0]
            known = key in self._by_decision or plan.decided_here
            if not known and len(self._open) < _MAX_OPEN:
                self._add(plan, None)

    def _update(self, past: PastPreemption, now: Seconds) -> bool:
        """Bring a preemption up to date; return whether it cannot change any more."""
        if past.update(self._machine.cluster, now):
            self._change(past, now)
        for victim in past.newly_wasted():
            pod, preemptor = victim.pod, past.preemptor
            self.costs.add(pod.namespace, preemptor.namespace, victim.cost, wasted=True)
        if past.number in self._open and past.ended_at is not None:
            del self._open[past.number]
            self._ended[past.number] = past
            self._unsettled.append(past)
        return past.settled

    def _change(self, past: PastPreemption, now: Seconds) -> None:
        """Give a preemption that has changed its new revision."""
        # Later than what a reader was given within the same millisecond.
        soonest = self._given + _REVISION_STEP
        past.revision = self._changed = max(self._revision_at(now), self._changed, soonest)

    def _drop_old(self, now: Seconds) -> None:
        while self._ended:
            oldest = next(iter(self._ended.values()))
            if len(self._ended) <= MAX_PREEMPTIONS and (oldest.ended_at or now) > now - MAX_AGE:
                break
            del self._ended[oldest.number]
            self.known_since = max(self.known_since, oldest.decided_at)
        while self.awaited:
            key, victims = next(iter(self.awaited.items()))
            _drop_expired(victims, now)
            if victims:
                break
            del self.awaited[key]


def _drop_expired(victims: deque[PastVictim], now: Seconds) -> None:
    """Drop the victims that have waited for a replacement for too long."""
    while victims and victims[0].decided_at + _REPLACED_WITHIN < now:
        victims.popleft()
