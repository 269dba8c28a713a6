"""A world in which pods change while they are scheduled, preempt and terminate.

In addition to what happens in `world`, pods get other labels, tolerations, sizes, owners and claims
and lose gates; policies are created, changed and deleted; the process ends and another one begins
with what the first has written: nominations, plans and the ledger. Each answer of the machine is
compared with that of attempts without cached state (`comparing`).
"""

from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.api import pod_changes
from scheduler.model.api.objects import Pod
from scheduler.model.api.storage import Storage
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.decisions import Attempt, Decision, Preempting
from scheduler.model.effects import (
    Effect,
    Evict,
)
from scheduler.model.events import (
    BudgetObserved,
    Event,
    LedgerLoaded,
    NodeObserved,
    PodObserved,
    PolicyGone,
    PolicyObserved,
    StorageGone,
    StorageObserved,
)
from scheduler.model.policies import ForeignVictims, PreemptionPolicy
from tests.properties.comparing import ComparingMachine
from tests.properties.world import PROFILES, World
from tests.support import oracle_policies
from tests.support.builders import node

#: Longer than any pause, window or back-off of this world, and than the periodic flush: what is
#: possible then is found.
LONG: Final = 4000.0
#: Decisions until a world must have come to rest; it takes some hundreds.
PATIENCE: Final = 5000


class Changing(World):
    """Everything there is, and the machine of the process that leads.

    Args:
        foreign: Whether others bind, and nodes shrink or go.
        policed: Whether there are preemption policies.
        restarts: Whether the process ends now and then.
    """

    def __init__(self, *, foreign: bool, policed: bool, restarts: bool) -> None:
        super().__init__(foreign=foreign)
        self.policed = policed
        self.restarts = restarts
        self.policies: dict[str, PreemptionPolicy] = {}
        self.known_policies: dict[str, PreemptionPolicy] = {}
        self.storage: dict[tuple[str, str], Storage] = {}
        #: Pods that were resized: their nodes may hold more than they have.
        self.resized: set[str] = set()
        self.met: Counter[str] = Counter()
        #: How many victims one preemption had at most.
        self.largest = 0
        #: How many decisions more it may take to come to rest; `None` while things happen.
        self.patience: int | None = None
        self.begin()

    def begin(self) -> None:
        """Begin with another process: what was asked for and not done is lost."""
        self.machine = self.new_machine()
        self.waiting, self.late = [], []
        self.streams = [deque() for _ in range(5)]
        self.known_policies = {}
        for event in self.everything():
            self.hear(event)

    def new_machine(self) -> Machine:
        """Return the machine of another process."""
        return ComparingMachine(PROFILES)

    def everything(self) -> list[Event]:
        """Return all objects that a new process observes."""
        told: list[Event] = [NodeObserved(each) for each in self.nodes.values()]
        told += [BudgetObserved(each) for each in self.budgets.values()]
        told += [PolicyObserved(each) for each in self.policies.values()]
        told += [StorageObserved(each) for each in self.storage.values()]
        told += [PodObserved(each) for each in self.pods.values()]
        return [*told, LedgerLoaded(self.ledger)] if self.ledger else told

    # Writing --------------------------------------------------------------------------------------

    def store(self, kind: str, item: Storage, key: str) -> None:
        """Write a volume or a claim."""
        self.storage[kind, key] = item
        self.streams[4].append(StorageObserved(item))

    def unstore(self, kind: str, key: str) -> None:
        """Remove a volume or a claim."""
        if self.storage.pop((kind, key), None) is not None:
            self.streams[4].append(StorageGone(kind, key))

    def hear(self, event: Event) -> None:
        match event:
            case PolicyObserved(policy):
                self.known_policies[policy.name] = policy
            case PolicyGone(name):
                self.known_policies.pop(name, None)
        super().hear(event)

    # Effects --------------------------------------------------------------------------------------

    def carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Evict):
                self._is_lower(effect)
        self.effects += effects
        self.waiting += effects

    def _is_lower(self, effect: Evict) -> None:
        """Assert that a pod is only evicted for a more important one."""
        victim, preemptor = (
            self.pods.get(effect.victim.uid), self.pods.get(effect.preemptor.uid)
        )  # fmt: skip
        if victim is not None and preemptor is not None:
            assert victim.priority < preemptor.priority, effect
            assert preemptor.spec.preemption_policy != "Never", effect

    def _evicted(self, pod: Pod) -> Pod:
        stamp = times.stamp(self.now + 5)
        return pod if pod.terminating else pod_changes.evicted(pod, stamp)

    def _has_capacity(self, where: str) -> None:
        there = {each.uid for each in self.pods.values() if each.spec.node_name == where}
        if not self.resized & there:
            super()._has_capacity(where)

    # Decisions ------------------------------------------------------------------------------------

    def decided(self) -> Attempt | None:
        """Let the machine decide; its decision is compared where it is made."""
        if self.patience is not None:
            self.patience -= 1
            assert self.patience > 0, "the world does not come to rest"
        return super().decided()

    def note(self, decision: Decision, wanted: Pod) -> None:
        super().note(decision, wanted)
        self.met[type(decision).__name__] += 1
        if isinstance(decision, Preempting):
            self.largest = max(self.largest, len(decision.victims))

    def may_go(self, victim: Pod, wanted: Pod) -> None:
        """Assert that no policy protects a victim, either."""
        super().may_go(victim, wanted)
        for policy in oracle_policies.binding(self.known_policies.values(), wanted):
            stays = oracle_policies.must_stay(policy, wanted, victim, self.now)
            assert not stays, (policy, victim.key)
            if policy.foreign_victims is ForeignVictims.NEVER:
                assert not oracle_policies.counted(policy, [victim]) or (
                    victim.spec.scheduler_name in PROFILES
                )

    def take_due(self) -> None:
        """Take what the machine asks for because time has passed."""
        self.carry_out(self.machine.flushed_effects())

    def check(self) -> None:
        """Assert what holds after each happening."""
        self.machine.check()
        for queued in self.machine.queue:
            assert queued.key == ClassifiedPod(queued.pod).key, queued.pod.key

    # The end --------------------------------------------------------------------------------------

    def quiesce(self) -> None:
        """Let everything come to rest; a world that decides for ever fails with its seed."""
        if not self.nodes:
            # Without any node all pods back off, again and again.
            self.nodes["n0"] = node("n0").cpu("2").build()
            self.streams[1].append(NodeObserved(self.nodes["n0"]))
        self.patience = PATIENCE
        super().quiesce()
        self.patience = None

    def ends_well(self) -> None:
        """Assert that all comes to rest, and that no pod waits that fits."""
        self.quiesce()
        self.now += LONG
        self.quiesce()
        assert self.left_behind() == []
        self.check()
