"""A small world in which preemptions are carried out while everything about them goes wrong.

Nodes are full of pods of one cpu that are not important. Preemptors come, effects are carried out
late, answers get lost, events arrive late, time passes, and the process is killed at any moment.
Nothing else interferes, so at the end each victim must have made capacity that is used.
"""

from collections import Counter
from typing import Final

from scheduler.core.eviction.state import USE_WITHIN
from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.api import pod_changes
from scheduler.model.api.objects import Pod
from scheduler.model.effects import (
    Bind,
    Effect,
    Evict,
    RecordEvent,
)
from scheduler.model.events import (
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
    LedgerLoaded,
    NodeObserved,
    PodObserved,
    PolicyObserved,
)
from scheduler.model.plan_record import CONDITION, decode, fingerprint
from scheduler.model.policies import Budget, PreemptionPolicy
from scheduler.queue.backoff_duration import PodBackoff
from tests.support.builders import node, pod
from tests.support.cluster import profiles
from tests.support.late_cluster import LateCluster

NODES: Final = 3
CPU: Final = 4
#: Rounds of 11 seconds until all has come to rest: over before pods are tried again that have
#: waited for five minutes, so that the end does not depend on that.
PATIENCE: Final = 20
PROFILES: Final = profiles()
FULL: Final = tuple(node(f"n{each}").cpu(str(CPU)).build() for each in range(NODES))
LOW: Final = tuple(
    pod(f"low-{each}-{place}").on(f"n{each}").cpu("1").priority(place % 2).build()
    for each in range(NODES)
    for place in range(CPU)
)
GOLD: Final = PreemptionPolicy("gold", generation=1, budgets=(Budget(1000, 3600.0),))

Action = tuple[int, int]


class Transactions(LateCluster):
    """The API server, and the machine of the process that leads.

    Args:
        bounded: Whether a policy counts victims, so that the ledger is written.
        cpu: What each preemptor asks for.
        ranks: How many priorities preemptors have. A more important one may take the capacity of a
            less important one.
        crowd: How many preemptors come at most, as a share of those that can have a place.
    """

    def __init__(self, *, bounded: bool, cpu: int, ranks: int, crowd: float) -> None:
        super().__init__(Machine(PROFILES, PodBackoff()))
        #: By how much the machine's clock is ahead, in seconds.
        self.skew = 0.0
        self.evicted: dict[str, str] = {}
        self.kills = 0
        #: Victims that were wasted in the eyes of those that were killed, by reason.
        self.wasted: Counter[str] = Counter()
        self._bounded = bounded
        #: What each preemptor asks for: where they differ, capacity taken over may be too much.
        self._cpu = cpu
        self._ranks = ranks
        self._most = int(NODES * (CPU // cpu) * crowd)
        self._came = 0
        for each in LOW:
            self.put(each)
        self._begin()

    def _begin(self) -> None:
        self.machine = Machine(PROFILES, PodBackoff())
        self.waiting.clear()
        self.news.clear()
        #: What was done without an answer so far.
        self.unanswered: list[tuple[Effect, bool]] = []
        for each in FULL:
            self.observe(NodeObserved(each))
        if self._bounded:
            self.observe(PolicyObserved(GOLD))
        for known in self.pods.values():
            self.observe(PodObserved(known))
        if self.ledger:
            self.observe(LedgerLoaded(self.ledger))

    # What can happen ----------------------------------------------------------------------------

    def act(self, action: Action) -> None:
        """Let one thing happen."""
        kind, number = action
        getattr(self, HAPPENINGS[kind % len(HAPPENINGS)].__name__)(number)

    def come(self, number: int) -> None:
        """Preemptors are created, as many as are; some are more important than others."""
        for each in range(min(1 + number % 5, self._most - self._came)):
            self._came += 1
            made = pod(f"high-{self._came}").cpu(str(self._cpu))
            self.put(made.priority(100 * (1 + (number + each) % self._ranks)).build())

    def decide(self, _: int) -> None:
        """The machine decides for a pod."""
        attempt = self.machine.step(self._clock())
        if attempt is not None:
            self.carry_out(attempt.effects)

    def execute(self, number: int) -> None:
        """The API server does what it is asked to; the answer comes at once, later or never."""
        effect = self.next_effect(number)
        if effect is None:
            return
        changed = self.change_objects(effect)
        if number % 4 == 3:
            self.unanswered.append((effect, changed))
        elif number % 8 == 2 and not isinstance(effect, Bind | RecordEvent):
            self._fail(effect)
        else:
            self._answer(effect, changed)

    def answer(self, number: int) -> None:
        """An answer arrives that was late."""
        if self.unanswered:
            self._answer(*self.unanswered.pop(number % len(self.unanswered)))

    def fail(self, number: int) -> None:
        """The API server cannot be reached until the retries of the writer end."""
        effect = self.next_effect(number)
        if effect is not None and isinstance(effect, Bind | RecordEvent):
            self.waiting.insert(0, effect)
        elif effect is not None:
            self._fail(effect)

    def hear(self, number: int) -> None:
        """Some events arrive."""
        for _ in range(min(1 + number % 4, len(self.news))):
            self.observe(self.news.popleft())

    def end(self, number: int) -> None:
        """A terminating pod ends."""
        ending = self._ending()
        if ending:
            self.remove(ending[number % len(ending)].uid)

    def wait(self, number: int) -> None:
        """Time passes."""
        if number % 3 == 2:
            self._let_victims_end()
        self.now += (1.0, 3.0, 11.0)[number % 3]
        self._flush()

    def _let_victims_end(self) -> None:
        """Let all victims end, and all events arrive: no pod and no watch hangs here."""
        while self._ending():
            self.end(0)
        while self.news:
            self.hear(3)

    def _ending(self) -> list[Pod]:
        """Return the terminating pods that can end now."""
        return [each for each in self.pods.values() if each.terminating]

    def kill(self, _: int) -> None:
        """The process is killed, and another one begins; what was not sent is lost."""
        self.kills += 1
        self.wasted += self.machine.preemptions.state.waste.wasted_evictions
        self._begin()

    # The end ------------------------------------------------------------------------------------

    def come_to_rest(self) -> None:
        """Let everything end that has begun, without further faults."""
        for _ in range(PATIENCE):
            if not self._calm_down():
                return
        raise AssertionError("it does not come to rest")

    def _calm_down(self) -> bool:
        busy = bool(self.news or self.waiting or self.unanswered)
        while self.news:
            self.hear(3)
        while self.unanswered:
            self.answer(0)
        while (effect := self.next_effect(0)) is not None:
            self._answer(effect, self.change_objects(effect))
        while self._ending():
            self.end(0)
            busy = True
        while self.machine.ready():
            self.decide(0)
            busy = True
        self.now += 11.0
        self._flush()
        return busy or self.machine.ready()

    def check(self) -> None:
        """Assert that all preemptors have a place, and that each victim's capacity is used."""
        ours = [each for each in self.pods.values() if each.metadata.name.startswith("high")]
        assert [each.key for each in ours if not each.spec.node_name] == []
        for where, used in self._used().items():
            assert used == CPU, (where, used)
        self.now += USE_WITHIN
        self._flush()
        assert self.wasted + self.machine.preemptions.state.waste.wasted_evictions == {}
        self.machine.check()
        assert self.machine.sizes().preempting == 0
        assert self.machine.cluster.evicting == 0

    def _used(self) -> dict[str, int]:
        """Return how many cpus of each node are used."""
        used = dict.fromkeys((f"n{each}" for each in range(NODES)), 0)
        for each in self.pods.values():
            if each.spec.node_name:
                used[each.spec.node_name] += _cpu(each)
        return used

    # The API server -----------------------------------------------------------------------------

    def change_objects(self, effect: Effect) -> bool:
        if isinstance(effect, Evict):
            return self._evict(effect, self.pods.get(effect.victim.uid))
        return super().change_objects(effect)

    def _evict(self, effect: Evict, victim: Pod | None) -> bool:
        """Evict a victim; only one that a plan of its preemptor names on the API server."""
        if victim is None:
            return False
        preemptor = self.pods[effect.preemptor.uid]
        condition = preemptor.condition(CONDITION)
        plan = None if condition is None else decode(condition.message)
        assert plan is not None, f"{effect} is part of no plan"
        assert plan.node == preemptor.status.nominated_node_name == victim.spec.node_name
        assert fingerprint(preemptor.uid, victim.uid) in plan.victims
        assert not self._bounded or victim.uid in self.ledger, f"{effect} is not remembered"
        if not victim.terminating:
            assert victim.uid not in self.evicted
            self.evicted[victim.uid] = effect.preemptor.uid
        return super().change_objects(effect)

    def _evicted(self, pod: Pod) -> Pod:
        stamp = times.stamp(self.server_time())
        return pod if pod.terminating else pod_changes.evicted(pod, stamp)

    # The machine --------------------------------------------------------------------------------

    def _clock(self) -> float:
        """Return the time of the process that leads."""
        return self.now + self.skew

    def server_time(self) -> float:
        """Return what the API server stamps."""
        return self.now

    def observe(self, event: Event) -> None:
        self.carry_out(self.machine.observe(event, self._clock()).effects)

    def _flush(self) -> None:
        self.machine.flush(self._clock())
        self.carry_out(self.machine.flushed_effects())

    def _answer(self, effect: Effect, changed: bool) -> None:
        self.observe(EffectDone(effect, changed=changed))

    def _fail(self, effect: Effect) -> None:
        # The writer is patient.
        self._let_victims_end()
        self.now += 30.0
        self._flush()
        self.observe(EffectFailed(effect, Failure(FailureKind.UNAVAILABLE, "no answer")))


HAPPENINGS: Final = (
    Transactions.come,
    Transactions.decide,
    Transactions.decide,
    Transactions.execute,
    Transactions.execute,
    Transactions.execute,
    Transactions.answer,
    Transactions.hear,
    Transactions.hear,
    Transactions.end,
    Transactions.wait,
    Transactions.fail,
    Transactions.kill,
)


def _cpu(each: Pod) -> int:
    return int(each.spec.containers[0].resources.requests["cpu"])  # type: ignore[union-attr]
