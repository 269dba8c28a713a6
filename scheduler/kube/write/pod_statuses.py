"""Writes `nominatedNodeName` and the condition `PodScheduled`, which share one request.

Source: kube-scheduler v1.36.3 schedule_one.go updatePod,
framework/preemption.clearNominatedNodeName.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from scheduler.kube.client import requests
from scheduler.kube.write.retry import RetryAttempt, RetryPolicy
from scheduler.model import times
from scheduler.model.effects import ClearNomination, Nominate, SetCondition
from scheduler.model.times import Seconds

__all__ = ["PodStatusWriter"]

#: Pods whose condition was written lately; a pod beyond them gets a new transition time.
REMEMBERED_PODS: Final = 16_384


class PodStatusWriter:
    """Carries out nominations, conditions, and the clearing of nominations."""

    def __init__(self, retry: RetryPolicy, clock: Callable[[], Seconds]) -> None:
        """Create it.

        Args:
            retry: Sends the requests.
            clock: Seconds since the epoch, for the time stamps that are written.
        """
        self._retry = retry
        self._clock = clock
        self._with_condition: OrderedDict[str, None] = OrderedDict()

    async def nominate(self, effect: Nominate, attempt: RetryAttempt) -> None:
        """Nominate a pod to a node, with its condition and the plan of its preemption."""
        request = requests.nominate(effect, self._transition(effect.pod.uid))
        await self._retry.write(request, attempt)
        self._remember(effect.pod.uid)

    async def set_condition(self, effect: SetCondition, attempt: RetryAttempt) -> None:
        """Write the condition of a pod, and clear its nomination where the queue says so."""
        clear = attempt.entry.clear_nomination
        transition = self._transition(effect.pod.uid)
        request = requests.set_condition(effect, transition, clear_nomination=clear)
        await self._retry.write(request, attempt)
        self._remember(effect.pod.uid)

    async def clear(self, effect: ClearNomination, attempt: RetryAttempt) -> None:
        """Clear the nomination of a pod."""
        await self._retry.write(requests.clear_nomination(effect), attempt)

    def _transition(self, uid: str) -> str | None:
        """Return the time since which the condition is true; `None` keeps the server's value.

        An effect does not contain it. The first write for a pod sets the current time; later ones
        omit it, and the merge keeps the server's value.
        """
        return None if uid in self._with_condition else times.stamp(self._clock())

    def _remember(self, uid: str) -> None:
        self._with_condition[uid] = None
        if len(self._with_condition) > REMEMBERED_PODS:
            self._with_condition.popitem(last=False)
