"""Preemptions under faults: clocks differ, victims stay or hang, answers are lost, leaders change.

A fault that keeps victims from terminating makes full use of all freed capacity impossible. What
holds all the same: a victim is only evicted when its plan is on the API server, no pod is evicted
for one that is not more important, wasted evictions for one preemptor are bounded, and all that the
faults allow comes to rest.
"""

import hashlib
from collections import defaultdict
from dataclasses import dataclass
from typing import Final

from scheduler.model.api.objects import Pod
from scheduler.model.effects import Effect, Evict, RecordEvent
from scheduler.model.events import EffectFailed, Failure, FailureKind
from tests.properties.bounds import Gone, too_many, wasted_evictions
from tests.properties.transactions import CPU, Transactions
from tests.support.builders import pod

#: Clocks differ by no more, in seconds.
HOUR: Final = 3600.0
#: How long a victim takes that ends late.
LATE: Final = 400.0
#: Leaders that change at each move do so for this often; then one may stay.
MAX_LEADERS: Final = 40
#: Rounds of 11 seconds in which the last leader goes on, where it may find no rest.
ROUNDS: Final = 40


@dataclass(frozen=True)
class Faults:
    """The faults of a world."""

    #: Clocks of leaders, the API server and kubelets differ by up to an hour.
    skew: bool = False
    #: The API server refuses to evict some pods, each time.
    refused: bool = False
    #: Some pods hang in termination, for long or for good.
    hanging: bool = False
    #: Evictions of some pods are lost, and so is the answer, each time.
    lost: bool = False
    #: Evicted pods are created again and take the capacity at once; another scheduler binds them.
    replaced: bool = False
    #: Another leader takes over whenever something was done.
    leaders: bool = False

    @property
    def keep_capacity(self) -> bool:
        """Whether some capacity does not get free for preemptors."""
        return self.refused or self.hanging or self.lost or self.replaced


class Disturbed(Transactions):
    """Transactions under faults; `seed` says which clocks and which pods they are about."""

    def __init__(self, faults: Faults, seed: int, **more: object) -> None:
        self.faults = faults
        self._seed = seed
        self._leaders = 0
        self._again = 0
        self._left_at: dict[str, float] = {}
        #: Evicted pods by preemptor.
        self.gone: defaultdict[str, list[Gone]] = defaultdict(list)
        super().__init__(**more)  # type: ignore[arg-type]

    def _begin(self) -> None:
        self._leaders += 1
        if self.faults.skew:
            self.skew = HOUR * self._chance("leader", str(self._leaders))
        super()._begin()

    def server_time(self) -> float:
        if not self.faults.skew:
            return self.now
        return self.now + HOUR * self._chance("server", str(self._leaders // 3))

    def _chance(self, *what: str) -> float:
        """Return a number from -1 to 1."""
        text = "/".join([str(self._seed), *what])
        number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest())
        return number / 2**31 - 1

    def _is_odd(self, fault: str, uid: str, share: float = 0.25) -> bool:
        return self._chance(fault, uid) < 2 * share - 1

    # What goes wrong ------------------------------------------------------------------------------

    def execute(self, number: int) -> None:
        if self.faults.leaders and self._leaders <= MAX_LEADERS:
            self._then_kill(number)
        else:
            super().execute(number)

    def _then_kill(self, number: int) -> None:
        """Carry an effect out, or not, and let another leader take over before the answer."""
        effect = self.next_effect(number)
        if effect is None or isinstance(effect, RecordEvent):
            return
        if number % 5 and self._refusal(effect) is None:
            self.change_objects(effect)
        self.kill(0)

    def _refusal(self, effect: Effect) -> FailureKind | None:
        """Return why the API server never does what it is asked to."""
        if isinstance(effect, Evict):
            if self.faults.refused and self._is_odd("refused", effect.victim.uid):
                return FailureKind.FORBIDDEN
            if self.faults.lost and self._is_odd("lost", effect.victim.uid):
                return FailureKind.UNAVAILABLE
        return None

    def _answer(self, effect: Effect, changed: bool) -> None:
        refusal = self._refusal(effect)
        if refusal is None:
            super()._answer(effect, changed)
        elif refusal is FailureKind.UNAVAILABLE:
            self._fail(effect)
        else:
            self.observe(EffectFailed(effect, Failure(refusal, "no")))

    def change_objects(self, effect: Effect) -> bool:
        return self._refusal(effect) is None and super().change_objects(effect)

    def _evict(self, effect: Evict, victim: Pod | None) -> bool:
        before = victim is not None and not victim.terminating
        changed = super()._evict(effect, victim)
        if before and victim is not None:
            preemptor = self.pods[effect.preemptor.uid]
            assert victim.priority < preemptor.priority, effect
            self.gone[preemptor.uid].append((self.now, victim.spec.node_name))
            self._left_at[victim.uid] = self.now
        return changed

    def _ending(self) -> list[Pod]:
        return [each for each in super()._ending() if not self._hangs(each)]

    def end(self, number: int) -> None:
        before = dict(self.pods)
        super().end(number)
        if self.faults.replaced:
            for uid in before.keys() - self.pods.keys():
                self._come_again(before[uid])

    def _come_again(self, gone: Pod) -> None:
        """Let a pod like a deleted one take its place, if that is still free."""
        if self._used()[gone.spec.node_name] < CPU:
            self._again += 1
            name = f"again-{self._again}"
            built = pod(name).cpu("1").priority(gone.priority).on(gone.spec.node_name)
            self.put(built.build())

    def _hangs(self, terminating: Pod) -> bool:
        if not self.faults.hanging or not self._is_odd("hanging", terminating.uid):
            return False
        if self._is_odd("for good", terminating.uid, 0.5):
            return True
        return self.now < self._left_at[terminating.uid] + LATE

    # The end --------------------------------------------------------------------------------------

    def come_to_rest(self) -> None:
        if not self.faults.keep_capacity:
            super().come_to_rest()
            return
        for _ in range(ROUNDS):
            self._calm_down()

    def check(self) -> None:
        if not self.faults.keep_capacity:
            super().check()
            return
        self.machine.check()
        for where, used in self._used().items():
            assert used <= CPU, (where, used)
        for uid, wasted in wasted_evictions(self.gone, self._bound_to()).items():
            assert too_many(wasted, self.kills) == 0, (uid, wasted)

    def _bound_to(self) -> dict[str, str]:
        return {each.uid: each.spec.node_name for each in self.pods.values()}
