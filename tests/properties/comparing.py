"""A machine that compares each of its answers with that of attempts without cached state.

What the machine keeps by class and by row must never show: a decision, and each look at a plan, is
the one that new attempts find with the same cluster.
"""

from collections.abc import Mapping

from scheduler.core.attempt.extenders import Conversation
from scheduler.core.attempt.scheduling_attempt import AttemptResult, SchedulingAlgorithm
from scheduler.core.machine import Machine
from scheduler.framework.profile import Profile
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.devices import Allocation
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.decisions import Detail
from scheduler.model.times import Seconds
from scheduler.queue.backoff_duration import PodBackoff
from scheduler.state.views.node_view import NOBODY, GonePods

__all__ = ["ComparingMachine", "found_afresh", "told"]


class Compared(SchedulingAlgorithm):
    """Attempts that are compared with fresh ones, answer by answer."""

    profiles: Mapping[str, Profile]

    def fresh(self) -> SchedulingAlgorithm:
        """Return attempts without cached state."""
        return SchedulingAlgorithm(self.profiles, self._cluster, Verdicts(), self._policies)

    def decide(
        self, classified: ClassifiedPod, *, now: Seconds, since: Seconds, detail: Detail
    ) -> Conversation[AttemptResult]:
        same_key(classified)
        mine = yield from super().decide(classified, now=now, since=since, detail=detail)
        theirs = _last(self.fresh().decide(classified, now=now, since=since, detail=detail))
        assert told(mine) == told(theirs), f"\nkept:  {told(mine)}\nfresh: {told(theirs)}"
        return mine

    def still_needed(
        self,
        classified: ClassifiedPod,
        node: str,
        victims: frozenset[str],
        now: Seconds,
        terminating: frozenset[str] = frozenset(),
        gone: GonePods = NOBODY,
    ) -> frozenset[str] | None:
        same_key(classified)
        mine = super().still_needed(classified, node, victims, now, terminating, gone)
        fresh = self.fresh()
        assert mine == fresh.still_needed(classified, node, victims, now, terminating, gone)
        return mine

    def fits_without(
        self,
        classified: ClassifiedPod,
        node: str,
        victims: frozenset[str],
        now: Seconds,
        gone: GonePods = NOBODY,
    ) -> bool:
        same_key(classified)
        mine = super().fits_without(classified, node, victims, now, gone)
        assert mine == self.fresh().fits_without(classified, node, victims, now, gone)
        return mine

    def expected_devices(
        self,
        classified: ClassifiedPod,
        node: str,
        victims: frozenset[str],
        now: Seconds,
        gone: GonePods = NOBODY,
    ) -> Mapping[str, Allocation]:
        same_key(classified)
        mine = super().expected_devices(classified, node, victims, now, gone)
        assert mine == self.fresh().expected_devices(classified, node, victims, now, gone)
        return mine

    def fits(self, classified: ClassifiedPod, node: str, now: Seconds) -> bool:
        same_key(classified)
        mine = super().fits(classified, node, now)
        assert mine == self.fresh().fits(classified, node, now)
        return mine


class ComparingMachine(Machine):
    """A machine whose attempts are compared."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        super().__init__(profiles, PodBackoff())
        # In place: preemptions that are carried out ask the same object.
        self._attempts.__class__ = Compared
        compared = self._attempts
        assert isinstance(compared, Compared)
        compared.profiles = profiles


def same_key(classified: ClassifiedPod) -> None:
    """Assert that a pod's key is the key of its class as the pod is."""
    assert classified.key == ClassifiedPod(classified.pod).key, classified.pod.key


def told(outcome: AttemptResult) -> tuple[object, ...]:
    """Return what of an outcome has an effect."""
    return (
        outcome.node,
        outcome.candidate,
        outcome.message,
        outcome.rejectors,
        outcome.post_filter.keeps_nomination,
        outcome.post_filter.blocked,
        outcome.post_filter.until,
    )


def found_afresh(
    profiles: Mapping[str, Profile],
    machine: Machine,
    classified: ClassifiedPod,
    now: Seconds,
    since: Seconds,
) -> AttemptResult:
    """Return what a fresh attempt for a pod of a machine finds."""
    attempts = SchedulingAlgorithm(profiles, machine.cluster, Verdicts(), machine.policies)
    return _last(attempts.decide(classified, now=now, since=since, detail=Detail.NONE))


def _last(talk: Conversation[AttemptResult]) -> AttemptResult:
    """Return how a talk ends in which no extender is asked."""
    try:
        asked = next(talk)
    except StopIteration as end:
        outcome: AttemptResult = end.value
        return outcome
    raise AssertionError(f"an extender is asked: {asked}")
