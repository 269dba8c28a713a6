"""A counterfactual replay decides a recording with other policies, or another configuration.

Up to the first decision that differs, both histories are the same. From there on the machine goes
on by itself (`diverged_history`). With other policies it begins in the recorded state; with another
configuration as if the scheduler had been restarted with it when the recording begins. What the
recorded scheduler saved of its ledger is not what this one has to save, so a write of the ledger
succeeds at once.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from scheduler.core.machine import Machine
from scheduler.model.api import pod_changes
from scheduler.model.effects import Effect, SaveLedger
from scheduler.model.events import (
    ClockAhead,
    EffectDone,
    EffectFailed,
    Event,
    LedgerLoaded,
    PodObserved,
    PolicyGone,
    PolicyObserved,
)
from scheduler.model.policies import PreemptionPolicy
from scheduler.model.policy_vetoes import RuleVeto
from scheduler.model.recording_lines import Decided, Flushed, Line, decided
from scheduler.model.times import Seconds
from scheduler.observe.recorder.reading import Entry, Notice, SegmentStart
from scheduler.queue.phases import QueuePhase
from scheduler.sim.diverged_history import DivergedHistory, effect_key
from scheduler.sim.replay import NewMachine, fitting, restored
from scheduler.sim.what_if_cluster import events_of, objects_of

__all__ = ["CounterfactualDecision", "CounterfactualReplay"]


@dataclass(frozen=True, slots=True)
class CounterfactualDecision:
    """A decision of the counterfactual history, and the recorded one at this point."""

    at: Seconds
    #: `None` where the recorded scheduler has decided and this one has no pod to decide for.
    now: Decided | None
    #: The recorded decision at this point; `None` after the histories have diverged.
    then: Decided | None
    #: Policies that refused evictions.
    vetoes: tuple[RuleVeto, ...] = ()

    @property
    def diverges(self) -> bool:
        """Whether the histories diverge here: the recorded decision is another one."""
        return self.then is not None and not alike(self.then, self.now)


def alike(one: Decided, other: Decided | None) -> bool:
    """Return whether two decisions have the same consequences; their words may differ."""
    return other is not None and _consequences(one) == _consequences(other)


def _consequences(decision: Decided) -> tuple[str, str, str, tuple[str, ...]]:
    return decision.pod, decision.decision, decision.node, decision.victims


@dataclass(slots=True)
class CounterfactualReplay:
    """Decides one recording with other policies or another configuration.

    Args:
        parts: What the recording has.
        new_machine: Returns a fresh machine with the other configuration.
        policies: They replace recorded policies of the same names.
        restarted: Whether the configuration differs from the recorded one.
    """

    parts: Iterable[SegmentStart | Entry | Notice]
    new_machine: NewMachine
    policies: Sequence[PreemptionPolicy] = ()
    restarted: bool = False
    machine: Machine | None = None
    #: `None` before the histories diverge.
    diverged: DivergedHistory | None = None
    _names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._names = frozenset(policy.name for policy in self.policies)

    def run(self) -> Iterator[CounterfactualDecision | Notice]:
        """Yield each decision of this history; it ends where the recording has a gap.

        Raises:
            RecordingError: A part cannot be read.
            OSError: The recording cannot be read.
        """
        for part in self.parts:
            match part:
                case SegmentStart() if self.machine is None:
                    self._start(part)
                case SegmentStart() if not part.continues:
                    yield Notice(part.place, "the recording has a gap; this history ends here")
                    return
                case Notice():
                    yield part
                    if self.machine is not None:
                        return
                case Entry(place, line, at) if self.machine is not None:
                    with fitting(place):
                        yield from self._entry(self.machine, line, at)

    def _start(self, start: SegmentStart) -> None:
        header = start.header
        machine = self.new_machine(header)
        restored(machine, start, decides=not self.restarted)
        with fitting(start.place):
            if self.restarted and not header.fresh:
                events = [*_relisted(machine, header.at)]
                machine = self.new_machine(header)
                for event in events:
                    machine.observe(event, header.at)
            for policy in self.policies:
                machine.observe(PolicyObserved(policy), header.at)
        self.machine = machine

    def _entry(self, machine: Machine, line: Line, at: Seconds) -> Iterator[CounterfactualDecision]:
        if self.diverged is not None:
            event = None if isinstance(line, Flushed | Decided) else line
            for attempt in self.diverged.go_on(event, at):
                yield CounterfactualDecision(at, decided(attempt), None, attempt.vetoes)
        elif isinstance(line, Decided):
            yield from self._decide(machine, line, at)
        elif isinstance(line, Flushed):
            machine.flush(at)
            _save_ledger(machine, machine.flushed_effects(), at)
        elif not self._is_replaced(line):
            _save_ledger(machine, machine.observe(line, at).effects, at)

    def _decide(
        self, machine: Machine, then: Decided, at: Seconds
    ) -> Iterator[CounterfactualDecision]:
        attempt = machine.step(at)
        now = None if attempt is None else decided(attempt)
        found = CounterfactualDecision(at, now, then, () if attempt is None else attempt.vetoes)
        yield found
        effects = () if attempt is None else attempt.effects
        if not found.diverges:
            _save_ledger(machine, effects, at)
        else:
            expected = Counter(map(effect_key, machine.outstanding()))
            expected.subtract(map(effect_key, effects))
            self.diverged = DivergedHistory(machine, at, expected, self._names)
            self.diverged.carry_out(effects)

    def _is_replaced(self, event: Event) -> bool:
        """Return whether an event is about a policy that was replaced, or a write of the ledger."""
        match event:
            case EffectDone(SaveLedger()) | EffectFailed(SaveLedger()):
                return True
            case PolicyObserved(policy):
                return policy.name in self._names
            case PolicyGone(name):
                return name in self._names
            case _:
                return False


def _save_ledger(machine: Machine, effects: Iterable[Effect], at: Seconds) -> None:
    """Answer writes of the ledger; the outcomes of all other effects are recorded."""
    writes = deque(effect for effect in effects if isinstance(effect, SaveLedger))
    while writes:
        further = machine.observe(EffectDone(writes.popleft()), at).effects
        writes.extend(effect for effect in further if isinstance(effect, SaveLedger))


def _relisted(machine: Machine, at: Seconds) -> Iterator[Event]:
    """Yield what a scheduler observes that is started in the state of a machine."""
    cluster = machine.cluster
    yield from events_of(objects_of(cluster))
    waiting = [queued for queued in machine.queue if queued.phase is not QueuePhase.BINDING]
    ours = {queued.uid for queued in waiting}
    yield from (PodObserved(pod) for pod in cluster.pods if pod.uid not in ours)
    for queued in sorted(waiting, key=lambda queued: (queued.timestamp, queued.sequence)):
        node = cluster.nominations.node(queued.uid) or ""
        yield PodObserved(pod_changes.nominated(queued.pod, node))
    yield ClockAhead(cluster.clock_ahead)
    yield LedgerLoaded(machine.ledger.text(at))
