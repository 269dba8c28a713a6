"""Preemptions under tight budgets, while answers are lost, watches lag, and pods change.

Unlike in `transactions`, not every preemptor gets a place: a budget allows few victims in a window,
from a second on. What must hold is about the API server and its clock: no window has more evictions
than the budget allows, whatever the answers say, whichever leader decides, and even if a request is
carried out long after it was given up. Besides, no pod is evicted that a policy was known to
protect before, and what a nominated pod reserves is what it asks for.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from scheduler.core.machine import Machine
from scheduler.model.api.objects import Pod
from scheduler.model.effects import Effect, Evict
from scheduler.model.events import (
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
    LedgerLoaded,
    NodeObserved,
    PodGone,
    PodObserved,
    PolicyObserved,
)
from scheduler.model.policies import Budget, BudgetScope, PodSelection, PreemptionPolicy
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.state.preemption.ledger import UNCERTAIN_FOR
from tests.properties.bounds import nominations_follow_their_pods
from tests.properties.transactions import FULL, PROFILES, Transactions
from tests.support.builders import PodBuilder
from tests.support.late_cluster import LateCluster
from tests.support.policies import labelled

WINDOWS: Final = (1.0, 7.0, 60.0, 600.0)
#: How long the API server may work on a request, and how long a watch may lag, in seconds.
WORK: Final = 60.0
LAG: Final = 50.0
#: Times are rounded to this in the ledger.
ROUNDED: Final = 0.002
PROTECTED: Final = "protected"
KEEP: Final = PreemptionPolicy(
    "keep",
    generation=1,
    victims=PodSelection(pods=labelled(**{PROTECTED: "yes"})),
    max_victims_per_preemption=0,
)


class Limited(Transactions):
    """Transactions whose budget is tight; the seed says how tight, and what is lost."""

    def __init__(self, seed: int) -> None:
        self.dice = np.random.default_rng(seed)
        scope = (BudgetScope.CLUSTER, BudgetScope.NODE)[seed // 4 % 2]
        self.budget = Budget(1 + seed // 8 % 3, WINDOWS[seed % 4], scope)
        #: When pods were evicted, by what shares the budget.
        self.times: dict[str, list[float]] = {}
        #: Requests on which the API server works, though nobody waits for them, and until when.
        self.working: list[tuple[float, Evict]] = []
        #: What informers have been told, and since when they have not been told all.
        self.told: dict[str, Pod] = {}
        self.behind_since = 0.0
        #: Evictions without an answer, by identity: they are asked for again.
        self.unsure: dict[int, Evict] = {}
        super().__init__(bounded=True, cpu=1 + seed // 2 % 2, ranks=1 + seed // 3 % 3, crowd=1.0)

    def _begin(self) -> None:
        """A standby takes over: its watches may lag, and its clock differs."""
        started = self.kills > 0
        sent = [each for each in self.waiting if isinstance(each, Evict)]
        for effect in sent:
            if self._chance(0.3):
                self._work_on(effect)
        self.skew = float(self.dice.uniform(-5.0, 20.0))
        self.machine = Machine(PROFILES, PodBackoff())
        self.waiting, self.unanswered = [], []
        if not started:
            self.news.clear()
        limit = PreemptionPolicy("limit", generation=1, budgets=(self.budget,))
        for policy in (limit, KEEP):
            self.observe(PolicyObserved(policy))
        for each in FULL:
            self.observe(NodeObserved(each))
        for known in (self.told if started else self.pods).values():
            self.observe(PodObserved(known))
        if self.ledger:
            self.observe(LedgerLoaded(self.ledger))

    def _chance(self, share: float) -> bool:
        return bool(self.dice.random() < share)

    # What can happen ------------------------------------------------------------------------------

    def live(self, moves: int) -> None:
        """Let so many things happen."""
        acts = (
            self.come, self.decide, self.decide, self.execute, self.execute, self.execute,
            self.answer, self.hear, self.hear, self.end, self.wait, self.wait, self.relabel,
            self.resize, self.leave, self.kill,
        )  # fmt: skip
        for _ in range(moves):
            acts[int(self.dice.integers(len(acts)))](int(self.dice.integers(64)))
            self._look()

    def execute(self, number: int) -> None:
        """The API server does what it is asked to; answers are late, lost or refusals."""
        effect = self.next_effect(number)
        if effect is None:
            return
        if not isinstance(effect, Evict):
            self.waiting.insert(0, effect)
            super().execute(number)
            return
        if not self.machine.preemptions.state.is_still_planned(effect):
            self._no(effect, FailureKind.ABANDONED)
        elif self._chance(0.1):
            self._no(effect, FailureKind.REFUSED)
        elif self._chance(0.4):
            if self._chance(0.5):
                self.change_objects(effect)
            else:
                self._work_on(effect)
            self._no(effect, FailureKind.UNAVAILABLE)
        elif self._chance(0.3):
            self.unanswered.append((effect, self.change_objects(effect)))
        else:
            self._answer(effect, self.change_objects(effect))

    def relabel(self, number: int) -> None:
        """A victim is protected from now on, or no longer; or a preemptor gets another label."""
        pods = [each for each in self.pods.values() if not each.terminating]
        if pods:
            chosen = pods[number % len(pods)]
            label = ("yes", "no", "other")[number % 3]
            self.put(PodBuilder(chosen).label(PROTECTED, label).build())

    def resize(self, number: int) -> None:
        """A waiting preemptor asks for more or less."""
        waiting = self._waiting_pods()
        if waiting:
            cpu = str(1 + number // 8 % 2)
            self.put(PodBuilder(waiting[number % len(waiting)]).cpu(cpu).build())

    def leave(self, number: int) -> None:
        """A waiting preemptor is deleted."""
        waiting = self._waiting_pods()
        if waiting and number % 2:
            self.remove(waiting[number % len(waiting)].uid)

    def end(self, number: int) -> None:
        ending = self._ending()
        if ending:
            self.remove(ending[number % len(ending)].uid)

    def wait(self, number: int) -> None:
        self.now += (0.3, 1.0, 3.0, 11.0, 31.0)[number % 5]
        self._flush()

    def hear(self, number: int) -> None:
        super().hear(number)
        self.behind_since = self.now

    def _waiting_pods(self) -> list[Pod]:
        return [each for each in self.pods.values() if not each.spec.node_name]

    # The API server -------------------------------------------------------------------------------

    def _work_on(self, effect: Evict) -> None:
        self.working.append((self.now + float(self.dice.uniform(0.0, WORK)), effect))

    def _look(self) -> None:
        """Finish requests whose time has come, and end the lag of watches that is too long."""
        due = [each for each in self.working if each[0] <= self.now]
        self.working = [each for each in self.working if each[0] > self.now]
        for _, effect in due:
            self.change_objects(effect)
        if self.now - self.behind_since > LAG:
            while self.news:
                self.hear(3)
        self.machine.check()
        nominations_follow_their_pods(self.machine)

    def _evict(self, effect: Evict, victim: Pod | None) -> bool:
        if victim is None:
            return False
        if not victim.terminating:
            key = effect.node if self.budget.scope is BudgetScope.NODE else ""
            self.times.setdefault(key, []).append(self.now)
            self.evicted[victim.uid] = effect.preemptor.uid
        return LateCluster.change_objects(self, effect)

    # The machine ----------------------------------------------------------------------------------

    def carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            # What was begun goes on, whatever the labels of a victim are by now.
            if isinstance(effect, Evict) and id(effect) not in self.unsure:
                known = self.machine.cluster.find_pod(effect.victim.uid)
                assert known is None or known.metadata.labels.get(PROTECTED) != "yes", effect
        super().carry_out(effects)

    def observe(self, event: Event) -> None:
        match event:
            case PodObserved(seen):
                self.told[seen.uid] = seen
            case PodGone(uid=uid):
                self.told.pop(uid, None)
        super().observe(event)

    def _no(self, effect: Evict, kind: FailureKind) -> None:
        self.now += float(self.dice.uniform(0.0, 31.0)) * (kind is FailureKind.UNAVAILABLE)
        self.unsure[id(effect)] = effect
        self.observe(EffectFailed(effect, Failure(kind, "no")))

    def _fail(self, effect: Effect) -> None:
        self.now += 30.0
        self.observe(EffectFailed(effect, Failure(FailureKind.UNAVAILABLE, "no answer")))

    def _answer(self, effect: Effect, changed: bool) -> None:
        self.observe(EffectDone(effect, changed=changed))

    # The end --------------------------------------------------------------------------------------

    def come_to_rest(self) -> None:
        """Let all that has begun end, decide no more, and wait for longer than anything counts."""
        for _ in range(20):
            self._calm_down()
            self._look()
        while self.news or self.waiting or self._ending():
            self.hear(3)
            self.end(0)
            if (effect := self.next_effect(0)) is not None:
                self._answer(effect, self.change_objects(effect))
        self.now += UNCERTAIN_FOR + self.budget.window
        self._flush()

    def check(self) -> None:
        """Assert that no window has too many evictions, and that nothing counts for ever."""
        most, window = self.budget.max_victims, self.budget.window
        for key, moments in self.times.items():
            ordered = sorted(moments)
            for first, last in zip(ordered, ordered[most:], strict=False):
                assert last - first > window - ROUNDED, (self.budget, key, ordered)
        self.machine.check()
        assert self.machine.sizes().preempting == 0
        assert self.machine.cluster.evicting == 0
        since = self._clock() - window
        assert self.machine.ledger.victims("limit", BudgetScope.CLUSTER, "", since) == []
