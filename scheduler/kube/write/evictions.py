"""Sends evictions to the API server.

A victim is deleted with its uid, after its condition `DisruptionTarget` is written. Where a
disruption budget may refuse it, it is evicted through the eviction API instead. A victim that does
not exist any more counts as evicted. After a request without an answer, neither a refusal of the
next one nor that there is none shows that the victim stays: then it is unknown whether it does.

Source: kube-scheduler v1.36.3 framework/preemption.NewExecutor. Differs: every write names the uid,
and victims may be evicted through the eviction API.
"""

import asyncio
from collections.abc import Callable

from scheduler.kube.client import requests
from scheduler.kube.errors import KubeError, NotFound, Unreachable
from scheduler.kube.write.retry import Replaced, RetryAttempt, RetryPolicy
from scheduler.model import times
from scheduler.model.effects import Evict
from scheduler.model.times import Seconds

__all__ = ["Evictions"]


class Evictions:
    """Carries out evictions."""

    def __init__(
        self, retry: RetryPolicy, clock: Callable[[], Seconds], *, evict_only: bool
    ) -> None:
        """Create it.

        Args:
            retry: Sends the requests.
            clock: Seconds since the epoch, for the time stamps that are written.
            evict_only: Whether every victim is evicted through the eviction API.
        """
        self._retry = retry
        self._clock = clock
        self._evict_only = evict_only
        #: On the loop's clock: until when the API server may still evict these pods, by uid.
        self._uncertain: dict[str, float] = {}

    @property
    def uncertain(self) -> int:
        """How many evictions ended without an answer and may still be carried out."""
        if self._uncertain:
            now = asyncio.get_running_loop().time()
            self._uncertain = {uid: end for uid, end in self._uncertain.items() if end > now}
        return len(self._uncertain)

    async def evict(self, effect: Evict, attempt: RetryAttempt) -> None:
        """Evict a victim.

        Raises:
            Protected: A disruption budget is in the way.
            Unreachable: It is unknown whether the victim was, or will be, evicted.
            KubeError: The victim was not evicted.
        """
        try:
            if effect.strict or self._evict_only:
                # The eviction API sets the condition itself.
                await self._retry.write(requests.evict(effect.victim), attempt, decides=True)
            else:
                await self._delete(effect, attempt)
        except (NotFound, Replaced):
            attempt.entry.unchanged = True
        except KubeError as error:
            if attempt.uncertain_until is None:
                raise
            self._uncertain[effect.victim.uid] = attempt.uncertain_until
            raise Unreachable(f"no answer to an earlier request; now: {error}") from error
        self._uncertain.pop(effect.victim.uid, None)

    async def _delete(self, effect: Evict, attempt: RetryAttempt) -> None:
        disrupt = requests.set_disruption_target(effect, times.stamp(self._clock()))
        await self._retry.write(disrupt, attempt)
        # No pod may stay marked as a victim without being deleted.
        attempt.finishing = True
        await self._retry.write(requests.delete(effect.victim), attempt, decides=True)
