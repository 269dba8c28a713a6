"""A small world in which pods evict others for their devices while everything goes wrong.

It is the world of claims (`claims`) with pods of three priorities, evictions and graces: so answers
get lost, watches lag, claims are deallocated late or by the scheduler, drivers withdraw devices,
another scheduler takes some, a stranger forges plans, and leaders are killed at each moment.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import Final

import numpy as np
from msgspec.structs import replace

from scheduler.core.eviction.phases import PreemptionPhase
from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.api import pod_changes
from scheduler.model.api.device_claims import Consumer
from scheduler.model.api.devices import ClaimStatus, ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.model.effects import (
    Bind,
    BindClaims,
    ClearNomination,
    DeallocateClaim,
    Effect,
    Evict,
    Nominate,
    ReleaseClaims,
    SaveLedger,
    SetCondition,
)
from scheduler.model.events import DevicesObserved, FailureKind, LedgerLoaded, PodGone
from scheduler.model.plan_record import CONDITION, PlanRecord, decode, encode, fingerprint
from scheduler.queue.backoff_duration import PodBackoff
from tests.properties import claims
from tests.properties.bounds import Gone, too_many, wasted_evictions
from tests.properties.claims import NODES, Claims
from tests.support.cluster import profiles
from tests.support.devices import allocated, claiming, gpus

PROFILES: Final = profiles("""
    profiles:
    - schedulerName: preemptive-scheduler
      pluginConfig:
      - {name: PreemptiveScheduler, args: {preemptForDevices: true}}
""")
PRIORITIES: Final = (1, 1, 5, 9)
#: In a calm world pods of two priorities come; nothing else changes claims, devices and pods.
CALM: Final = (1, 5)
#: Plans are given up, and devices are released, within so many rounds of 11 seconds.
ROUNDS: Final = 40
_SENT: Final = Bind | BindClaims | ReleaseClaims | DeallocateClaim | Nominate | ClearNomination


class DevicePreemptions(Claims):
    """The API server, and the machine of the process that leads."""

    happenings = (
        *Claims.happenings, *(5 * ("come", "decide", "carry_out", "carry_out", "hear", "wait")),
        "end", "end", "clean_up", "clean_up", "withdraw", "take", "release", "use", "forge",
    )  # fmt: skip
    claim_names = tuple(f"c{each}" for each in range(9))

    def __init__(self, *, calm: bool = False) -> None:
        self._calm = calm
        if calm:
            self.happenings = (
                *(4 * ("come", "decide", "carry_out", "carry_out", "hear", "wait")),
                "lose", "end", "end", "clean_up", "relist", "kill",
            )  # fmt: skip
        self.ledger = ""
        self.kills = -1
        self._withdrawn = dict.fromkeys(NODES, False)
        #: Evicted pods by preemptor.
        self.gone: defaultdict[str, list[Gone]] = defaultdict(list)
        self.evicted = 0
        #: Preemptors whose plans a stranger has written.
        self.forged: set[str] = set()
        #: Keys of the claims of another scheduler.
        self._foreign: set[str] = set()
        self._bound_to: dict[str, str] = {}
        #: Pods of the higher priority of a calm world that were bound.
        self.important: set[str] = set()
        super().__init__()

    def _begin(self) -> None:
        self.kills += 1
        super()._begin()

    def new_machine(self) -> Machine:
        return Machine(PROFILES, PodBackoff())

    def _list(self) -> None:
        super()._list()
        if self.ledger:
            self._tell(LedgerLoaded(self.ledger))

    # What can happen ----------------------------------------------------------------------------

    def come(self, number: int) -> None:
        self._came += 1
        name = f"p{number % 9}"
        if all(each.metadata.name != name for each in self._all()):
            first = number % len(self.claim_names) if number % 7 else 0
            names = self.claim_names[first : first + 1 + (number % 11 == 0)]
            built = claiming(name, *names).uid(f"uid-{self._came}")
            priorities = CALM if self._calm else PRIORITIES
            self._put(built.priority(priorities[self._came // 3 % len(priorities)]).build())

    def end(self, number: int) -> None:
        """A pod that terminates ends."""
        ending = [each for each in self._all() if each.terminating]
        if ending:
            gone = self.pods.pop(ending[number % len(ending)].uid)
            self.news[0].append(PodGone(gone.key, gone.uid))

    def wait(self, number: int) -> None:
        if self._calm and number % 3 == 2:
            self._let_end()
        super().wait(number)

    def lose(self, number: int) -> None:
        if self._calm:
            # The writer is patient.
            self._let_end()
            self.now += 20.0
        super().lose(number)

    def _let_end(self) -> None:
        """Let all victims end, their claims be deallocated, and all events arrive."""
        while any(each.terminating for each in self._all()):
            self.end(0)
        self.clean_up()
        for number in range(2):
            while self.news[number]:
                self.hear(number)

    def withdraw(self, number: int) -> None:
        """A driver withdraws a device of a node, or publishes it again."""
        name = NODES[number % 2]
        self._withdrawn[name] = not self._withdrawn[name]
        self._publish(name)

    def _publish(self, name: str) -> None:
        if self._withdrawn[name]:
            self._tell(DevicesObserved(gpus(name, "b")))
        else:
            super()._publish(name)

    def take(self, number: int) -> None:
        """Another scheduler takes a free device, or gives it back."""
        name = NODES[number % 2]
        device, made = f"{name}/a", f"foreign-{name}"
        key = f"default/{made}"
        if key in self.claims:
            del self.claims[key]
            self.news[1].append(claims.DevicesGone(ResourceClaim.__name__, key))
        elif (name, "a") not in self._taken():
            self._foreign.add(key)
            self._write(allocated(made, device, on=name, by=("elsewhere",)))

    def _taken(self) -> Counter[tuple[str, str]]:
        """Return how many claims of this scheduler have each device."""
        return Counter(
            (result.pool, result.device)
            for known in self.claims.values()
            if known.status.allocation is not None
            for result in known.status.allocation.devices.results
        )

    def _check_devices(self) -> None:
        """Assert that no device is in two claims, but where two schedulers collide."""
        foreign = [self.claims[key] for key in self._foreign if key in self.claims]
        theirs = {
            (result.pool, result.device)
            for known in foreign
            if known.status.allocation is not None
            for result in known.status.allocation.devices.results
        }
        for device, number in self._taken().items():
            assert number <= 1 + (device in theirs), device

    def release(self, number: int) -> None:
        """The reservations of a claim are taken back, and its devices are not."""
        found = list(self.claims.values())[number % len(self.claims)]
        users = [each for each in found.status.reserved_for if each.uid in self.pods]
        if len(users) < len(found.status.reserved_for):
            self._write(replace(found, status=replace(found.status, reserved_for=users)))

    def use(self, number: int) -> None:
        """What is no pod uses a claim that is allocated."""
        found = list(self.claims.values())[number % len(self.claims)]
        if found.status.allocation is not None and number % 3 == 0:
            other = Consumer("example.com", "jobs", "j", f"uid:j{number % 2}")
            users = [each for each in found.status.reserved_for if each.is_pod]
            self._write(replace(found, status=replace(found.status, reserved_for=[*users, other])))

    def clean_up(self, _: int = 0) -> None:
        """The resource claim controller takes devices back that nobody uses any more."""
        for known in list(self.claims.values()):
            users = [
                each
                for each in known.status.reserved_for
                if each.uid in self.pods or known.key in self._foreign
            ]
            if len(users) < len(known.status.reserved_for):
                status = replace(known.status, reserved_for=users) if users else ClaimStatus()
                self._write(replace(known, status=status))

    def forge(self, number: int) -> None:
        """A stranger writes a plan to a pod that waits: it names any pods."""
        waiting = [each for each in self._all() if not each.spec.node_name]
        if not waiting:
            return
        dice = np.random.default_rng(number)
        found, where = waiting[number % len(waiting)], NODES[number // 2 % 2]
        named = [each.uid for each in self._all() if dice.integers(0, 2)]
        marks = tuple(fingerprint(found.uid, uid) for uid in [*named, "somebody"])
        text = encode(PlanRecord(2, where, self.now - 10, marks))
        self.forged.add(found.uid)
        self._put(pod_changes.nominated(found, where, text))
        self._begin()

    # The end ------------------------------------------------------------------------------------

    def come_to_rest(self) -> None:
        """Let everything end that has begun, without further faults."""
        for _ in range(ROUNDS):
            self._let_end()
            while self.waiting:
                self.carry_out(0)
            while self.machine.ready():
                self.decide(0)
            self.wait(2)

    def check(self) -> None:
        """Assert that nothing is kept for ever, and that the waste for one pod is bounded."""
        machine = self.machine
        machine.check()
        phases = machine.preemptions.state.phases()
        assert phases.keys() <= {PreemptionPhase.WITHDRAWN}, [*machine.preemptions.state]
        assert len(machine.cluster.devices.nominations) == 0
        super().check()
        if self._calm:
            # Another preemptor may have used what was freed for one.
            freed = Counter(
                node for each in self.gone.values() for node in {node for _, node in each}
            )
            assert freed <= Counter(self._bound_to[uid] for uid in self.important), freed
        gone = {uid: each for uid, each in self.gone.items() if uid not in self.forged}
        for uid, wasted in wasted_evictions(gone, self._bound_to).items():
            assert too_many(wasted, self.kills) == 0, (uid, wasted)

    # The API server -----------------------------------------------------------------------------

    def _carry_out(self, effect: Effect) -> tuple[list[ResourceClaim], FailureKind | None]:
        match effect:
            case Nominate(of, node, plan=plan):
                return [], self._alter(of.uid, lambda pod: pod_changes.nominated(pod, node, plan))
            case ClearNomination(of):
                return [], self._alter(of.uid, lambda pod: pod_changes.nominated(pod, ""))
            case Evict(victim=of):
                return [], self._evict(effect, self.pods.get(of.uid))
            case SetCondition(of) if effect.clear_nomination:
                return [], self._alter(of.uid, lambda pod: pod_changes.nominated(pod, ""))
            case SaveLedger(text=text):
                self.ledger = text
                return [], None
        return super()._carry_out(effect)

    def _bind(self, effect: Bind) -> FailureKind | None:
        failure = super()._bind(effect)
        if failure is None:
            self._bound_to[effect.pod.uid] = effect.node
            if self.pods[effect.pod.uid].priority == CALM[-1]:
                self.important.add(effect.pod.uid)
        return failure

    def _alter(self, uid: str, how: Callable[[Pod], Pod]) -> FailureKind | None:
        known = self.pods.get(uid)
        if known is None:
            return FailureKind.GONE
        self._put(how(known))
        return None

    def _evict(self, effect: Evict, victim: Pod | None) -> FailureKind | None:
        """Evict a victim: one of lower priority, which the plan of its preemptor names."""
        if victim is None or victim.terminating:
            return None
        preemptor = self.pods.get(effect.preemptor.uid)
        if preemptor is not None:
            condition = preemptor.condition(CONDITION)
            plan = None if condition is None else decode(condition.message)
            assert plan is not None, f"{effect} is part of no plan"
            assert plan.node == preemptor.status.nominated_node_name
            # A binding may have failed after the victim was chosen.
            assert victim.spec.node_name in (plan.node, "")
            assert fingerprint(preemptor.uid, victim.uid) in plan.victims
            assert victim.priority < preemptor.priority, effect
            self.gone[preemptor.uid].append((self.now, victim.spec.node_name))
        self.evicted += 1
        self._put(pod_changes.evicted(victim, times.stamp(self.now)))
        return None

    def _take(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            match effect:
                case Evict(victim=of):
                    self.waiting.setdefault(of.uid, deque()).append(effect)
                case SaveLedger():
                    self.waiting.setdefault("ledger", deque()).append(effect)
                case SetCondition() if effect.clear_nomination:
                    self.waiting.setdefault(effect.pod.uid, deque()).append(effect)
                case _ if isinstance(effect, _SENT):
                    self.waiting.setdefault(effect.pod.uid, deque()).append(effect)
                case _:
                    super()._take((effect,))
