"""A cluster in memory around the real machine: the tests' stand-in for API server and informers.

    cluster = Cluster(node("n1").cpu("4"), pod("low").on("n1").cpu("2").priority(1))
    decision = cluster.schedule(pod("high").cpu("4").priority(10))

Effects are carried out at once and come back as outcomes, and every change is observed at once,
unless a test says otherwise: `hold` keeps effects of a kind until they are `done` or `fail`,
`lag` delays watch events until `catch_up`. Extenders answer at once by `extender`, or are held like
any effect until `answer`. After every call the machine checks its invariants.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import singledispatchmethod
from textwrap import dedent
from typing import Any

from msgspec.structs import replace

from scheduler.config import load
from scheduler.core.machine import Machine
from scheduler.core.outbox import Bound
from scheduler.framework.profile import Profile
from scheduler.model.api.devices import (
    ClaimStatus,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
)
from scheduler.model.api.objects import (
    LocalObject,
    Node,
    Pod,
    PodDisruptionBudget,
)
from scheduler.model.decisions import Attempt, Decision, Detail, Waiting
from scheduler.model.effects import (
    Ask,
    ClaimRef,
    Effect,
    Evict,
    Nominate,
    PodRef,
    Question,
)
from scheduler.model.events import (
    Answered,
    BudgetGone,
    BudgetObserved,
    DeviceClassObserved,
    DevicesGone,
    DevicesObserved,
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
    LedgerLoaded,
    NamespaceObserved,
    NodeGone,
    NodeObserved,
    PodGone,
    PodObserved,
    PolicyGone,
    PolicyObserved,
)
from scheduler.model.extender_answers import ExtenderAnswer, NoAnswer
from scheduler.model.policies import PreemptionPolicy
from scheduler.model.releases import V1_36, Reference
from scheduler.observe.api.history import History
from scheduler.plugins import registry
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.queue.phases import QueuePhase
from scheduler.sim.virtual_cluster import VirtualCluster
from tests.support.builders import EPOCH, NodeBuilder, PodBuilder

__all__ = ["Cluster", "failure", "profiles"]

Something = Any  # a builder, or an API object
_HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def profiles(config: str = "", reference: Reference = V1_36) -> dict[str, Profile]:
    """Return the profiles of a configuration, given without its first two lines."""
    settings = load.parse(_HEAD + dedent(config), source="test", server=reference)
    return registry.profiles(settings)


def failure(kind: FailureKind = FailureKind.REFUSED, message: str = "no") -> Failure:
    """Return a reason why an effect did not happen."""
    return Failure(kind, message)


def without_plan(effect: Effect) -> Effect:
    """Return an effect without the plan that is written with a nomination."""
    return replace(effect, plan="") if isinstance(effect, Nominate) else effect


class Cluster(VirtualCluster):
    """What there is, the machine that decides about it, and everything that it asked for."""

    def __init__(
        self,
        *objects: Something,
        config: str = "",
        using: Mapping[str, Profile] | None = None,
        backoff: PodBackoff | None = None,
        evict_only: bool = False,
        compares: bool = False,
        reference: Reference = V1_36,
    ) -> None:
        self._settings = (using or profiles(config, reference), backoff or PodBackoff(), evict_only)
        self._compares = compares
        super().__init__(self._made(), EPOCH + 1000.0)
        #: What the service remembers for its pages, if a test sets it.
        self.history: History | None = None
        self.attempts: list[Attempt] = []
        #: All effects that were asked for, in order.
        self.effects: list[Effect] = []
        self.bound: list[Bound] = []
        #: Effects that wait for the test to say how they end.
        self.held: list[Effect] = []
        self.nodes: dict[str, Node] = {}
        #: What extenders answer.
        self.extender: Callable[[Question], ExtenderAnswer] = lambda _: NoAnswer(
            "no extender is there"
        )
        #: Why the last observed object was ignored.
        self.refused = ""
        self._holding: tuple[type[Effect], ...] = ()
        self._news: list[Event] | None = None
        self._version = 0
        self._device_events: list[DeviceClassObserved | DevicesObserved] = []
        self.add(*objects)

    def _made(self) -> Machine:
        using, backoff, evict_only = self._settings
        detail = Detail.COMPARISON if self._compares else Detail.NONE
        return Machine(using, backoff, evict_only=evict_only, detail=detail)

    @property
    def now(self) -> float:
        """The time, which a test may set."""
        return self.clock.now

    @now.setter
    def now(self, moment: float) -> None:
        self.clock.now = moment

    # What happens outside -----------------------------------------------------------------------

    def add(self, *objects: Something) -> None:
        """Create objects, or replace them by their new states."""
        for each in objects:
            self._take(each.build() if hasattr(each, "build") else each)

    update = add

    @singledispatchmethod
    def _take(self, thing: object) -> None:
        raise TypeError(f"no API object: {thing!r}")

    @_take.register
    def _(self, thing: Pod) -> None:
        self._version += 1
        given = thing.metadata.resource_version or str(self._version)
        super().put(replace(thing, metadata=replace(thing.metadata, resource_version=given)))

    def put(self, pod: Pod) -> None:
        """Write a pod, with a new version."""
        self._take(replace(pod, metadata=replace(pod.metadata, resource_version="")))

    @_take.register
    def _(self, thing: Node) -> None:
        self.nodes[thing.metadata.name] = thing
        self._report(NodeObserved(thing))

    @_take.register
    def _(self, thing: PodDisruptionBudget) -> None:
        self._report(BudgetObserved(thing))

    @_take.register
    def _(self, thing: DeviceClass) -> None:
        self._report_devices(DeviceClassObserved(thing))

    @_take.register
    def _(self, thing: ResourceClaim) -> None:
        self._report(DevicesObserved(self.claims.store(thing)))

    @_take.register(ResourceSlice)
    @_take.register(DeviceTaintRule)
    def _(self, thing: ResourceSlice | DeviceTaintRule) -> None:
        self._report_devices(DevicesObserved(thing))

    def _report_devices(self, event: DeviceClassObserved | DevicesObserved) -> None:
        """Report what the next process observes again, in its order."""
        self._device_events.append(event)
        self._report(event)

    @_take.register
    def _(self, thing: LocalObject) -> None:
        self._report(NamespaceObserved(thing))

    @_take.register
    def _(self, thing: PreemptionPolicy) -> None:
        self._report(PolicyObserved(thing))

    def change(self, name: str, how: Callable[[PodBuilder], PodBuilder]) -> None:
        """Change a pod as another client would."""
        old = self.pod(name)
        self.put(how(PodBuilder(old)).build())

    def delete(self, name: str) -> None:
        """Delete a pod at once."""
        gone = self.pods.pop(self.pod(name).uid)
        self._report(PodGone(gone.key, gone.uid))

    def finish(self, *names: str) -> None:
        """Delete pods at once, and let the controller of claims take their devices back."""
        for uid in [self.pod(name).uid for name in names]:
            self.remove(uid)

    def deallocate(self, name: str) -> None:
        """Take the devices of a claim back, as its controller does when its pods are gone."""
        self.add(replace(self.claim(name), status=ClaimStatus()))

    def delete_claim(self, name: str) -> None:
        """Delete a resource claim."""
        self.claims.delete(ClaimRef("default", name, ""))
        self._report(DevicesGone("ResourceClaim", f"default/{name}"))

    def claim(self, name: str) -> ResourceClaim:
        """Return a resource claim as the API server has it."""
        return self.claims.get(f"default/{name}")

    def delete_node(self, name: str) -> None:
        """Delete a node; its pods stay."""
        self.nodes.pop(name, None)
        self._report(NodeGone(name))

    def delete_budget(self, key: str) -> None:
        """Delete a budget."""
        self._report(BudgetGone(key))

    def delete_policy(self, name: str) -> None:
        """Delete a preemption policy."""
        self._report(PolicyGone(name))

    def finish_terminating(self) -> None:
        """Remove every terminating pod."""
        for each in [each for each in self.pods.values() if each.terminating]:
            self.delete(each.key)

    def restart(self) -> None:
        """Let the process end at once, and another one begin; what was not done is lost."""
        self.machine = self._made()
        self.held.clear()
        self._holding, self._news = (), None
        for node in self.nodes.values():
            self.observe(NodeObserved(node))
        for event in self._device_events:
            self.observe(event)
        for claim in self.claims:
            self.observe(DevicesObserved(claim))
        for pod in self.pods.values():
            self.observe(PodObserved(pod))
        if self.ledger:
            self.observe(LedgerLoaded(self.ledger))

    # Time ---------------------------------------------------------------------------------------

    def wait(self, seconds: float) -> None:
        """Let time pass, and the machine move what has waited long enough."""
        self.advance(self.now + seconds)
        self.machine.check()

    # Decisions ----------------------------------------------------------------------------------

    def schedule(self, wanted: Something) -> Decision:
        """Create a pod and decide until it was tried; return the decision about it."""
        self.add(wanted)
        uid = (wanted.build() if hasattr(wanted, "build") else wanted).uid
        while (attempt := self.step()) is not None:
            if attempt.pod.uid == uid and not isinstance(attempt.decision, Waiting):
                return attempt.decision
        raise AssertionError("the pod had no turn")

    def step(self, *, explain: bool = False) -> Attempt | None:
        """Decide for the next pod and carry out what it takes."""
        attempt = self.machine.step(self.now, explain=explain)
        if attempt is not None:
            self.attempts.append(attempt)
            if self.history is not None:
                self.history.attempted(attempt, self.now)
            self.carry_out(attempt.effects)
        self.machine.check()
        return attempt

    def drain(self, most: int = 1000) -> list[Attempt]:
        """Decide until no pod is active."""
        before = len(self.attempts)
        for _ in range(most):
            if self.step() is None:
                return self.attempts[before:]
        raise AssertionError(f"still not quiet after {most} attempts")

    # Effects ------------------------------------------------------------------------------------

    def hold(self, *kinds: type[Effect]) -> None:
        """Keep effects of these kinds from now on until the test says how they end."""
        self._holding = kinds

    def done(self, effect: Effect | None = None, *, changed: bool = True) -> None:
        """Let a delayed effect happen, the oldest if none is named."""
        effect = self._released(effect)
        if changed:
            self.change_objects(effect)
        self.observe(EffectDone(effect, changed=changed))

    def fail(self, effect: Effect | None = None, kind: FailureKind = FailureKind.REFUSED) -> None:
        """Let a delayed effect fail, the oldest if none is named."""
        self.observe(EffectFailed(self._released(effect), failure(kind)))

    def answer(self, *answers: ExtenderAnswer, ask: Ask | None = None) -> None:
        """Answer a held question, the oldest if none is named; by `extender` without answers."""
        effect = self._released(ask)
        assert isinstance(effect, Ask)
        said = answers or tuple(map(self.extender, effect.questions))
        self.observe(Answered(effect.pod, effect.number, said))

    def _released(self, effect: Effect | None) -> Effect:
        chosen = self.held[0] if effect is None else effect
        self.held.remove(chosen)
        return chosen

    def lag(self) -> None:
        """Delay watch events from now on; outcomes still arrive."""
        self._news = [] if self._news is None else self._news

    def catch_up(self) -> None:
        """Deliver the delayed watch events."""
        news, self._news = self._news or [], None
        for event in news:
            self.observe(event)

    def _report(self, event: Event) -> None:
        if self._news is None:
            self.observe(event)
        else:
            self._news.append(event)

    def observe(self, event: Event) -> None:
        """Hand an event to the machine and carry out what it asks for."""
        if self.history is not None:
            self.history.observed(event, self.now)
            self.history.outcome(event, self.now)
        reaction = self.machine.observe(event, self.now)
        if self.history is not None:
            self.history.applied(event, self.now)
        self.bound += reaction.bound
        self.refused = reaction.problem
        self.machine.check()
        self.carry_out(reaction.effects)

    def carry_out(self, effects: Iterable[Effect]) -> None:
        """Carry out what is not held."""
        self.effects += effects
        super().carry_out(effects)

    def _execute(self, effect: Effect) -> None:
        if isinstance(effect, self._holding):
            self.held.append(effect)
        else:
            super()._execute(effect)

    def _asked(self, effect: Ask) -> Event:
        return Answered(effect.pod, effect.number, tuple(map(self.extender, effect.questions)))

    def _bound(self, pod: Pod, node: str) -> Pod:
        return PodBuilder(pod).on(node).not_started().nominated("").build()

    # Questions ----------------------------------------------------------------------------------

    def pod(self, name: str) -> Pod:
        """Return a pod by name, or by namespace and name, as the API server has it."""
        key = name if "/" in name else f"default/{name}"
        return next(each for each in self.pods.values() if each.key == key)

    def ref(self, name: str) -> PodRef:
        """Return the reference to a pod, there or not."""
        key = name if "/" in name else f"default/{name}"
        return PodRef(*key.split("/"), f"uid:{key}")

    def refs(self, *names: str) -> tuple[PodRef, ...]:
        """Return the references to some pods."""
        return tuple(self.ref(name) for name in names)

    def phase(self, name: str) -> QueuePhase | None:
        """Return where a pod waits; `None` when it is not in the queue."""
        queued = self.machine.queue.get(self.ref(name).uid)
        return None if queued is None else queued.phase

    def nominations(self) -> dict[str, str]:
        """Return the nominated nodes by name of the pod."""
        found = self.machine.cluster.nominations
        return {each.pod.metadata.name: each.node for each in found}

    def asked(self, *kinds: type[Effect]) -> list[Effect]:
        """Return the effects of some kinds that were asked for, in order."""
        return [effect for effect in self.effects if isinstance(effect, kinds)]

    def evicted(self) -> list[str]:
        """Return the names of the evicted pods, in order."""
        return [effect.victim.name for effect in self.effects if isinstance(effect, Evict)]

    def forget_effects(self) -> None:
        """Forget the effects recorded so far."""
        self.effects.clear()

    def woken_by(self, *changed: NodeBuilder | PodBuilder) -> list[str]:
        """Return the names of the unschedulable pods that these new states wake, in name order."""
        before = self._unschedulable()
        self.add(*changed)
        return sorted(before - self._unschedulable())

    def _unschedulable(self) -> set[str]:
        return {
            queued.pod.metadata.name
            for queued in self.machine.queue
            if queued.phase is QueuePhase.UNSCHEDULABLE
        }
