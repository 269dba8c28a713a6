"""Put pods on nodes, and never leave it open whether a pod has its node.

When it is unknown whether a binding happened, the pod is looked up until the answer is known,
however long that takes: the reservation that hangs on it must not be given up by a clock. A look-up
that says no does not settle it at once, because the API server may still be at work on a request
whose connection was cut. It gives up a request after a minute, so the binding has failed only when
a look-up says no more than a minute after the last request without an answer. Until the patience
ends the binding is asked for again meanwhile, which mostly settles it sooner.
"""

import asyncio

from scheduler.kube.client import requests
from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import ApiError, Conflict, KubeError, NotFound, Unreachable
from scheduler.kube.extenders import ExtenderError, Extenders
from scheduler.kube.watch.decoding import UNREADABLE
from scheduler.kube.write.answers import (
    PLACEMENT,
    TRANSIENT,
    Abandoned,
    Placement,
    Replaced,
    of_a_pod_that_is_there,
    perhaps_executed,
)
from scheduler.kube.write.retry import RetryAttempt, RetryPolicy
from scheduler.model.effects import Bind

__all__ = ["Bindings"]


class Bindings:
    """Carries bindings out."""

    def __init__(self, client: Client, trying: RetryPolicy, extenders: Extenders | None) -> None:
        self._client = client
        self._trying = trying
        self._extenders = extenders

    async def bind(self, effect: Bind, effort: RetryAttempt) -> None:
        """Bind a pod to its node.

        Raises:
            KubeError: It is not bound to it, and will not be by what we have sent.
        """
        if effect.extender is not None and await self._bound_by_extender(effect, effort):
            return
        try:
            await self._bind(effect, effort)
        except (Abandoned, NotFound, Replaced):
            raise  # we stop or do not lead, or there is no such pod: nothing hangs on the rest
        except KubeError:
            if effort.unsettled_until is None or not await self._bound_late(effect, effort):
                raise

    async def _bind(self, effect: Bind, effort: RetryAttempt) -> None:
        request = requests.bind(effect)
        while True:
            self._trying.check(effort)
            try:
                await self._trying.call(request, effort)
            except Conflict:
                if not await self._is_bound(effect, effort):
                    raise
            except (NotFound, *TRANSIENT) as error:
                # A pod leaves the queue for good when it is gone, so the pod itself is asked for.
                if perhaps_executed(error):
                    self._trying.unsettle(effort)
                    if await self._is_bound(effect, effort):
                        return
                await self._trying.pause(request, of_a_pod_that_is_there(error), effort)
                continue
            return

    async def _bound_late(self, effect: Bind, effort: RetryAttempt) -> bool:
        """Look the pod up until no request of ours can bind it any more; whether one has.

        Nothing is written meanwhile, so this ends at once when we stop.
        """
        backoff = self._trying.backoff()
        loop = asyncio.get_running_loop()
        with self._trying.stoppable():
            while effort.unsettled_until is not None and loop.time() < effort.unsettled_until:
                await backoff.wait()
                if await self._is_bound(effect, effort):
                    return True
            return await self._is_bound(effect, effort)

    async def _bound_by_extender(self, effect: Bind, effort: RetryAttempt) -> bool:
        """Have an extender bind a pod; false when we must do it, because it may be ignored.

        Differs from kube-scheduler v1.36.3: when it fails, the pod is looked up. Perhaps it was
        bound, and only the answer was lost.
        """
        extenders = self._extenders
        if extenders is None or effect.extender is None:
            return False
        self._trying.check(effort)
        try:
            await extenders.bind(effect)
        except ExtenderError:
            if await self._is_bound(effect, effort):
                return True
            if not extenders.may_ignore(effect.extender):
                raise
            return False
        return True

    async def _is_bound(self, effect: Bind, effort: RetryAttempt) -> bool:
        """Look up whether the pod has our node; false while it has none.

        Raises:
            NotFound: It is gone.
            Replaced: It is another one.
            Conflict: It has another node.
        """
        finishing = RetryAttempt(effort.job, self._trying.backoff(), None, finishing=True)
        placement = await self._placement(requests.look_up(effect.pod), finishing)
        if placement.metadata.uid != effect.pod.uid:
            raise Replaced(f"pod {effect.pod} is another one than was placed")
        node = placement.spec.node_name
        if node and node != effect.node:
            message = f'pod {effect.pod} is already assigned to node "{node}"'
            raise Conflict(409, "Conflict", message)
        return bool(node)

    async def _placement(self, request: Request, effort: RetryAttempt) -> Placement:
        while True:
            try:
                return PLACEMENT.decode(await self._client.call(request))
            except NotFound:
                raise
            except (ApiError, *TRANSIENT) as error:
                # A refusal (a right that was taken away for a while) says nothing of the pod.
                await self._trying.pause(request, error, effort)
            except UNREADABLE as error:
                await self._trying.pause(request, Unreachable(str(error)), effort)
