"""A small world in which claims are written for pods while everything about them goes wrong.

Two nodes have two devices each. Pods come with a claim of their own or with a shared one, effects
are carried out in the order of each pod or refused, answers get lost, watches lag and list again,
pods are deleted, claims are deleted and created anew, devices get taints, and the process is killed
at any moment. The API server does here what it does in a cluster: versions ascend, an allocation
that is out of date is refused, and a claim that a pod uses is not deleted.
"""

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from scheduler.core.machine import Machine
from scheduler.model.api.device_claims import Consumer
from scheduler.model.api.devices import DELETE_PROTECTION, ClaimStatus, ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.model.effects import (
    Bind,
    BindClaims,
    ClaimRef,
    ClaimWrite,
    DeallocateClaim,
    Effect,
    PodRef,
    ReleaseClaims,
)
from scheduler.model.events import (
    ClaimAnswered,
    DeviceClassObserved,
    DevicesGone,
    DevicesObserved,
    EffectDone,
    EffectFailed,
    Event,
    Failure,
    FailureKind,
    NodeObserved,
    PodGone,
    PodObserved,
)
from scheduler.queue.backoff_duration import PodBackoff
from tests.support.builders import EPOCH, PodBuilder, node
from tests.support.cluster import profiles
from tests.support.devices import claim, claiming, device_class, gpus, tainted, wants

NODES: Final = ("n1", "n2")
CLAIMS: Final = ("c0", "c1", "c2", "c3", "c4")
PROFILES: Final = profiles()
#: Rounds of 11 seconds until all has come to rest: over before pods are tried again that have
#: waited for five minutes.
PATIENCE: Final = 20

Action = tuple[int, int]


class Claims:
    """The API server, and the machine of the process that leads."""

    #: The methods for what can happen; what happens often is named more than once.
    happenings = (
        "come", "come", "decide", "decide", "carry_out", "carry_out", "hear", "hear", "wait",
        "refuse", "lose", "delete", "recreate", "clean_up", "taint", "relist", "kill",
    )  # fmt: skip

    claim_names: tuple[str, ...] = CLAIMS

    def __init__(self) -> None:
        self.now = float(EPOCH)
        self.pods: dict[str, Pod] = {}
        self.claims: dict[str, ResourceClaim] = {}
        self._tainted = dict.fromkeys(NODES, False)
        self._version = 0
        self._came = 0
        for name in self.claim_names:
            self._create(name)
        self._begin()

    def _begin(self) -> None:
        self.machine = self.new_machine()
        #: What is to be done, in order for each pod.
        self.waiting: dict[str, deque[Effect]] = {}
        #: What the watches of pods and of claims are about to report.
        self.news: tuple[deque[Event], deque[Event]] = (deque(), deque())
        for name in NODES:
            self._tell(NodeObserved(node(name).build()))
            self._publish(name)
        self._tell(DeviceClassObserved(device_class()))
        self._list()

    def new_machine(self) -> Machine:
        """Return the machine of a process that begins."""
        return Machine(PROFILES, PodBackoff())

    def _list(self) -> None:
        for event in (*map(DevicesObserved, self.claims.values()), *map(PodObserved, self._all())):
            self._tell(event)

    def _all(self) -> list[Pod]:
        return list(self.pods.values())

    # What can happen ----------------------------------------------------------------------------

    def act(self, action: Action) -> None:
        """Let one thing happen."""
        kind, number = action
        getattr(self, self.happenings[kind % len(self.happenings)])(number)
        self.machine.check()

    def come(self, number: int) -> None:
        """A pod is created."""
        self._came += 1
        name = f"p{number % 4}"
        if all(each.metadata.name != name for each in self._all()):
            names = CLAIMS[number % 5 : number % 5 + 1 + number % 7 // 6]
            self._put(claiming(name, *names).uid(f"uid-{self._came}").build())

    def decide(self, _: int) -> None:
        """The machine decides for a pod."""
        attempt = self.machine.step(self.now)
        if attempt is not None:
            self._take(attempt.effects)

    def carry_out(self, number: int) -> None:
        """The API server does what it is asked to, and answers."""
        effect = self._next(number)
        if effect is not None:
            answers, failure = self._carry_out(effect)
            for known in answers:
                self._tell(ClaimAnswered(known))
            self._end(effect, failure)

    def refuse(self, number: int) -> None:
        """The API server refuses what it is asked to do."""
        effect = self._next(number)
        if effect is not None:
            self._end(effect, FailureKind.REFUSED)

    def lose(self, number: int) -> None:
        """No answer comes, whether the API server has done what it was asked to or not."""
        effect = self._next(number // 2)
        if effect is not None and number % 2:
            self._carry_out(effect)
        if isinstance(effect, Bind) and self._is_bound(effect.pod.uid):
            self._end(effect, None)  # the writer looks a pod up before it gives up
        elif effect is not None:
            self._end(effect, FailureKind.UNAVAILABLE)

    def hear(self, number: int) -> None:
        """Some events arrive."""
        news = self.news[number % 2]
        for _ in range(min(1 + number // 2 % 4, len(news))):
            self._tell(news.popleft())

    def relist(self, _: int) -> None:
        """Everything is listed again."""
        for news in self.news:
            while news:
                self._tell(news.popleft())
        self._list()

    def delete(self, number: int) -> None:
        """A pod is deleted."""
        if self.pods:
            gone = self.pods.pop(list(self.pods)[number % len(self.pods)])
            self.news[0].append(PodGone(gone.key, gone.uid))

    def recreate(self, number: int) -> None:
        """A claim that no pod uses is deleted, and created again."""
        found = list(self.claims.values())[number % len(self.claims)]
        if not found.status.reserved_for:
            if found.status.allocation is not None:
                self._write(replace(found, status=ClaimStatus()))
            del self.claims[found.key]
            self.news[1].append(DevicesGone(ResourceClaim.__name__, found.key))
            self.news[1].append(DevicesObserved(self._create(found.metadata.name)))

    def clean_up(self, _: int = 0) -> None:
        """The resource claim controller takes devices back that no pod uses any more."""
        for known in list(self.claims.values()):
            users = [each for each in known.status.reserved_for if each.uid in self.pods]
            if len(users) < len(known.status.reserved_for):
                status = replace(known.status, reserved_for=users) if users else ClaimStatus()
                self._write(replace(known, status=status))

    def taint(self, number: int) -> None:
        """A device of a node gets a taint, or loses it."""
        name = NODES[number % 2]
        self._tainted[name] = not self._tainted[name]
        self._publish(name)

    def wait(self, number: int) -> None:
        """Time passes."""
        self.now += (1.0, 3.0, 11.0)[number % 3]
        self.machine.flush(self.now)
        self._take(self.machine.flushed_effects())

    def kill(self, number: int) -> None:
        """The process is killed, and another one begins; one request was on its way perhaps."""
        effect = self._next(number // 2)
        if effect is not None and number % 2:
            self._carry_out(effect)
        self._begin()

    # The end ------------------------------------------------------------------------------------

    def come_to_rest(self) -> None:
        """Let everything end that has begun, without further faults."""
        for _ in range(PATIENCE):
            self.clean_up()
            for number in range(2):
                while self.news[number]:
                    self.hear(number)
            while self.waiting:
                self.carry_out(0)
            while self.machine.ready():
                self.decide(0)
            self.wait(2)

    def check(self) -> None:
        """Assert that a process that begins now would place none of the pods that wait."""
        self.machine.check()
        self._begin()
        while (attempt := self.machine.step(self.now)) is not None:
            kind = type(attempt.decision).__name__
            assert kind == "Unschedulable", f"{attempt.pod.key} waits in vain: {kind}"

    def _check_devices(self) -> None:
        taken = Counter(
            result.id
            for known in self.claims.values()
            if known.status.allocation is not None
            for result in known.status.allocation.devices.results
        )
        assert all(number == 1 for number in taken.values()), taken

    # The API server -----------------------------------------------------------------------------

    def _create(self, name: str) -> ResourceClaim:
        made = claim(name, wants())
        uid = f"uid-{name}-{self._version}"
        return self._write(replace(made, metadata=replace(made.metadata, uid=uid)), tell=False)

    def _write(self, known: ResourceClaim, *, tell: bool = True) -> ResourceClaim:
        self._version += 1
        metadata = replace(known.metadata, resource_version=str(self._version))
        written = self.claims[known.key] = replace(known, metadata=metadata)
        if tell:
            self.news[1].append(DevicesObserved(written))
        self._check_devices()
        return written

    def _put(self, new: Pod) -> None:
        self._version += 1
        metadata = replace(new.metadata, resource_version=str(self._version))
        self.pods[new.uid] = replace(new, metadata=metadata)
        self.news[0].append(PodObserved(self.pods[new.uid]))

    def _publish(self, name: str) -> None:
        first = tainted("a") if self._tainted[name] else "a"
        self._tell(DevicesObserved(gpus(name, first, "b")))

    def _is_bound(self, uid: str) -> bool:
        return uid in self.pods and bool(self.pods[uid].spec.node_name)

    def _carry_out(self, effect: Effect) -> tuple[list[ResourceClaim], FailureKind | None]:
        """Do what an effect asks for; return the claims of the answers, and why it failed."""
        match effect:
            case Bind():
                return [], self._bind(effect)
            case BindClaims():
                return self._bind_claims(effect)
            case ReleaseClaims(pod, claims):
                return list(self._release(pod, claims)), None
            case DeallocateClaim(claim=of):
                found = self._find(of)
                if found is None or found.metadata.resource_version != of.version:
                    return [], FailureKind.CONFLICT
                return [self._write(replace(found, status=ClaimStatus()))], None
            case _:
                return [], None

    def _bind(self, effect: Bind) -> FailureKind | None:
        bound = self.pods.get(effect.pod.uid)
        if bound is None:
            return FailureKind.GONE
        for entry in bound.spec.resource_claims:
            found = self.claims[f"default/{entry.resource_claim_name}"]
            assert found.reserved_by(bound.uid), f"{bound.key} is bound without {found.key}"
        self._put(PodBuilder(bound).on(effect.node).not_started().build())
        return None

    def _bind_claims(self, effect: BindClaims) -> tuple[list[ResourceClaim], FailureKind | None]:
        answers: list[ResourceClaim] = []
        for write in effect.claims:
            found = self._find(write.claim)
            if found is None:
                return answers, FailureKind.GONE
            if found.metadata.resource_version != write.claim.version:
                answers.append(found)
            if not self._has_wanted(found, write, effect.pod):
                if (write.allocation is None) != (found.status.allocation is not None):
                    return answers, FailureKind.CONFLICT
                answers.append(self._reserve(found, write, effect.pod))
        return answers, None

    @staticmethod
    def _has_wanted(found: ResourceClaim, write: ClaimWrite, pod: PodRef) -> bool:
        same = write.allocation in (None, found.status.allocation)
        return same and found.status.allocation is not None and found.reserved_by(pod.uid)

    def _reserve(self, found: ResourceClaim, write: ClaimWrite, pod: PodRef) -> ResourceClaim:
        if write.allocation is not None and not found.metadata.finalizers:
            metadata = replace(found.metadata, finalizers=[DELETE_PROTECTION])
            found = self._write(replace(found, metadata=metadata))
        users = [*found.status.reserved_for, Consumer(resource="pods", name=pod.name, uid=pod.uid)]
        allocation = write.allocation or found.status.allocation
        status = replace(found.status, allocation=allocation, reserved_for=users)
        return self._write(replace(found, status=status))

    def _release(self, pod: PodRef, claims: tuple[ClaimRef, ...]) -> Iterator[ResourceClaim]:
        for found in filter(None, map(self._find, claims)):
            users = [each for each in found.status.reserved_for if each.uid != pod.uid]
            status = replace(found.status, reserved_for=users)
            yield found if status == found.status else self._write(replace(found, status=status))

    def _find(self, of: ClaimRef) -> ResourceClaim | None:
        found = self.claims.get(of.key)
        return found if found is not None and found.uid == of.uid else None

    # The machine --------------------------------------------------------------------------------

    def _next(self, number: int) -> Effect | None:
        """Take an effect that no earlier one of the same pod stands before."""
        if not self.waiting:
            return None
        uid = list(self.waiting)[number % len(self.waiting)]
        effects = self.waiting[uid]
        effect = effects.popleft()
        if not effects:
            del self.waiting[uid]
        return effect

    def _end(self, effect: Effect, failure: FailureKind | None) -> None:
        ended = EffectFailed(effect, Failure(failure, "no")) if failure else EffectDone(effect)
        self._tell(ended)

    def _tell(self, event: Event) -> None:
        self._take(self.machine.observe(event, self.now).effects)

    def _take(self, effects: tuple[Effect, ...]) -> None:
        for effect in effects:
            if isinstance(effect, Bind | BindClaims | ReleaseClaims | DeallocateClaim):
                self.waiting.setdefault(effect.pod.uid, deque()).append(effect)
            else:
                self._tell(EffectDone(effect))
