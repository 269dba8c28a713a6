"""Binds pods to nodes, and never leaves it open whether a pod is bound.

When it is unknown whether a binding happened, the pod is looked up until the result is known,
however long that takes: no timer may end the reservation that depends on it. One look-up that finds
the pod unbound is not enough, because the API server may still be working on a request whose
connection was cut. The API server aborts a request after a minute, so the binding has failed only
when a look-up finds the pod unbound more than a minute after the last unanswered request. Until the
retry time of the effect ends, the binding is also sent again, which usually gives the result
sooner.
"""

from typing import Final

import msgspec

from scheduler.kube.client import requests
from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import ApiError, Conflict, KubeError, NotFound, Unreachable
from scheduler.kube.extenders import ExtenderError, Extenders
from scheduler.kube.watch.decoding import UNREADABLE, Identity
from scheduler.kube.write.retry import (
    TRANSIENT,
    Abandoned,
    Replaced,
    RetryAttempt,
    RetryPolicy,
    may_have_executed,
    not_found_is_transient,
)
from scheduler.model.effects import Bind

__all__ = ["Bindings"]


class Bindings:
    """Carries out bindings."""

    def __init__(self, client: Client, retry: RetryPolicy, extenders: Extenders | None) -> None:
        self._client = client
        self._retry = retry
        self._extenders = extenders

    async def bind(self, effect: Bind, attempt: RetryAttempt) -> None:
        """Bind a pod to its node.

        Raises:
            KubeError: The pod is not bound to it, and no request that was sent will bind it.
        """
        if effect.extender is not None and await self._bind_by_extender(effect, attempt):
            return
        try:
            await self._bind(effect, attempt)
        except (Abandoned, NotFound, Replaced):
            raise  # we stop or do not lead, or the pod is gone: the rest does not matter
        except KubeError:
            if attempt.uncertain_until is None or not await self._becomes_bound(effect, attempt):
                raise

    async def _bind(self, effect: Bind, attempt: RetryAttempt) -> None:
        request = requests.bind(effect)
        while True:
            self._retry.check(attempt)
            try:
                await self._retry.call(request, attempt)
            except Conflict:
                if not await self._is_bound(effect, attempt):
                    raise
            except (NotFound, *TRANSIENT) as error:
                # A pod that is gone leaves the queue permanently, so the pod itself is looked up.
                if may_have_executed(error):
                    self._retry.mark_uncertain(attempt)
                    if await self._is_bound(effect, attempt):
                        return
                await self._retry.pause(request, not_found_is_transient(error), attempt)
                continue
            return

    async def _becomes_bound(self, effect: Bind, attempt: RetryAttempt) -> bool:
        """Look the pod up until no request of ours can bind it any more; return whether one has."""
        return await self._retry.await_outcome(attempt, lambda: self._is_bound(effect, attempt))

    async def _bind_by_extender(self, effect: Bind, attempt: RetryAttempt) -> bool:
        """Have an extender bind a pod; return false where we must, because it may be ignored.

        Differs from kube-scheduler v1.36.3: when the extender fails, the pod is looked up. Perhaps
        it was bound, and only the answer was lost.
        """
        extenders = self._extenders
        if extenders is None or effect.extender is None:
            return False
        self._retry.check(attempt)
        try:
            await extenders.bind(effect)
        except ExtenderError:
            if await self._is_bound(effect, attempt):
                return True
            if not extenders.may_ignore(effect.extender):
                raise
            return False
        return True

    async def _is_bound(self, effect: Bind, attempt: RetryAttempt) -> bool:
        """Look up whether the pod is bound to our node; return false while it has no node.

        Raises:
            NotFound: The pod is gone.
            Replaced: It is another pod of the same name.
            Conflict: It is bound to another node.
        """
        finishing = RetryAttempt(attempt.entry, self._retry.backoff(), None, finishing=True)
        placement = await self._placement(requests.get_pod(effect.pod), finishing)
        if placement.metadata.uid != effect.pod.uid:
            raise Replaced(
                f"pod {effect.pod} was deleted and re-created: its UID is not that of the"
                " scheduled pod"
            )
        node = placement.spec.node_name
        if node and node != effect.node:
            message = f'pod {effect.pod} is already assigned to node "{node}"'
            raise Conflict(409, "Conflict", message)
        return bool(node)

    async def _placement(self, request: Request, attempt: RetryAttempt) -> "_Placement":
        while True:
            try:
                placement = _PLACEMENT.decode(await self._client.call(request))
                if not placement.metadata.uid:
                    raise Unreachable("the response is no pod")
            except NotFound:
                raise
            except (ApiError, *TRANSIENT) as error:
                # A refusal, such as a right that was revoked for a while, says nothing of the pod.
                await self._retry.pause(request, error, attempt)
            except UNREADABLE as error:
                await self._retry.pause(request, Unreachable(str(error)), attempt)
            else:
                return placement


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class _Placement(msgspec.Struct):
    """The fields of a pod that say where it is."""

    metadata: Identity = Identity()
    spec: _Spec = _Spec()


_PLACEMENT: Final = msgspec.json.Decoder(_Placement)
