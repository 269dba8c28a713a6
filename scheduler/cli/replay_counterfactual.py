"""`preemptive-scheduler replay` with other policies or another configuration: what would differ."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from scheduler.model import times
from scheduler.observe.logs import escape

if TYPE_CHECKING:
    from scheduler.model.policies import PreemptionPolicy
    from scheduler.model.recording_lines import Decided
    from scheduler.sim.counterfactual import CounterfactualDecision
    from scheduler.sim.replay import NewMachine

__all__ = ["run", "said", "show"]

_OWN = "own simulation"


def said(decision: "Decided | None", of: str) -> str:
    """Return a decision as it is printed on a line of a pod."""
    if decision is None:
        return "nothing, as no pod is ready"
    text = decision.decision if decision.pod == of else f"{decision.pod} {decision.decision}"
    if decision.node:
        text += f" on {decision.node}"
    if decision.victims:
        text += f" evicting {', '.join(decision.victims)}"
    return f"{text} ({decision.message})" if decision.message else text


def show(text: str, *, is_problem: bool = False) -> None:
    """Print one line; what a recording says in it must not control a terminal."""
    print(escape.printable(text), file=sys.stderr if is_problem else sys.stdout)


@dataclass(slots=True)
class _Recorded:
    """All recorded decisions."""

    by_pod: "dict[str, list[tuple[float, Decided]]]" = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> "_Recorded":
        from scheduler.model.recording_lines import Decided
        from scheduler.observe.recorder.reading import Entry, recording

        found = cls()
        for part in recording(path):
            if isinstance(part, Entry) and isinstance(part.line, Decided):
                found.by_pod.setdefault(part.line.pod, []).append((part.at, part.line))
        return found

    def has_alike(self, decision: "Decided") -> bool:
        """Return whether the pod had the same result at some time."""
        from scheduler.sim.counterfactual import alike

        return any(alike(each, decision) for _, each in self.by_pod.get(decision.pod, ()))

    def last(self, pod: str) -> str:
        """Return the last decision for a pod as it is printed."""
        decisions = self.by_pod.get(pod)
        if not decisions:
            return "nothing"
        at, decision = decisions[-1]
        return f"{said(decision, pod)} at {times.stamp(at)}"


@dataclass(slots=True)
class _Sums:
    """What some decisions come to, by keys of pods."""

    placed: set[str] = field(default_factory=set)
    waiting: set[str] = field(default_factory=set)
    victims: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, decisions: "Iterable[Decided]") -> "_Sums":
        """Add decisions up, in their order."""
        sums = cls()
        for decision in decisions:
            placed = decision.decision == "Scheduled"
            (sums.placed if placed else sums.waiting).add(decision.pod)
            (sums.waiting if placed else sums.placed).discard(decision.pod)
            sums.victims.update(decision.victims)
        return sums


@dataclass(slots=True)
class _Report:
    """Prints what differs, and counts."""

    recorded: _Recorded
    common: int = 0
    #: The decisions from the moment on at which the histories diverge.
    decisions: "list[Decided]" = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    diverged_at: float | None = None
    _printed: "set[Decided]" = field(default_factory=set)

    def take(self, found: "CounterfactualDecision") -> None:
        """Take one decision."""
        if found.now is not None:
            self.refused.update(veto.policy for veto in found.vetoes)
        if found.then is not None and not found.diverges:
            self.common += 1
            return
        at = times.stamp(found.at)
        if found.then is not None:
            self.diverged_at, pod = found.at, found.then.pod
            both = f"recorded {said(found.then, pod)}; with the change {said(found.now, pod)}"
            show(f"{at} {pod}: {both}")
            show(f"{at} the histories diverge here; the rest is simulated")
        if found.now is None:
            return
        self.decisions.append(found.now)
        if found.then is None and not self.recorded.has_alike(found.now):
            self._print_own(at, found.now)

    def _print_own(self, at: str, now: "Decided") -> None:
        # A pod that is tried again and again with the same result is printed once.
        if now not in self._printed:
            self._printed.add(now)
            was = self.recorded.last(now.pod)
            show(f"{at} {now.pod}: with the change {said(now, now.pod)}; recorded {was} ({_OWN})")

    def end(self) -> None:
        """Print what pods have at the end, and the sums."""
        if self.diverged_at is None:
            show(f"{self.common} decisions, 0 different")
            return
        then = _Sums.of(
            decision
            for decisions in self.recorded.by_pod.values()
            for at, decision in decisions
            if at >= self.diverged_at
        )
        now = _Sums.of(self.decisions)
        for pod in sorted(then.placed - now.placed):
            show(f"{pod}: recorded {self.recorded.last(pod)}; not placed at the end ({_OWN})")
        for victim in sorted(then.victims - now.victims):
            show(f"{victim}: recorded as a victim; not evicted ({_OWN})")
        show(
            f"{self.common} decisions are the same; then {len(now.placed)} pods are placed "
            f"(recorded {len(then.placed)}), {len(now.victims)} evicted "
            f"(recorded {len(then.victims)}), {len(now.waiting)} wait (recorded "
            f"{len(then.waiting)}) ({_OWN})"
        )
        for policy, number in sorted(self.refused.items()):
            show(f"attempts in which policy {policy} refuses evictions: {number}")


def run(
    path: Path,
    new_machine: "NewMachine",
    policies: "Sequence[PreemptionPolicy]",
    *,
    restarted: bool,
) -> int:
    """Print what would have been different; return the exit code.

    Args:
        path: Of the recording.
        new_machine: Returns a fresh machine with the configuration to decide with.
        policies: They replace recorded ones of the same names.
        restarted: Whether the configuration is another one than the recorded one.

    Raises:
        RecordingError: A part cannot be read.
        OSError: The recording cannot be read.
    """
    from scheduler.observe.recorder.reading import Notice, recording
    from scheduler.sim.counterfactual import CounterfactualReplay

    report = _Report(_Recorded.read(path))
    for found in CounterfactualReplay(recording(path), new_machine, policies, restarted).run():
        if isinstance(found, Notice):
            show(f"warning: {found.place}: {found.text}", is_problem=True)
        else:
            report.take(found)
    report.end()
    return 0 if report.diverged_at is None else 1
