"""Allocates, reserves, releases and deallocates resource claims.

Every answer of the API server becomes an event of its own, which comes before the outcome of the
effect. So whatever was written is known when the allocation is no longer in flight. Where it is
unknown whether a status was written, the claim is read until no request that was sent can change it
any more.

Source: kube-scheduler v1.36.3 dynamicresources.bindClaim, deleteClaim. Differs: the claim is read
before its first write, because the scheduler keeps only the fields that its rules read.
"""

import contextlib
from collections.abc import Callable
from typing import Any, Final

import msgspec

from scheduler.kube.client import claim_requests, requests
from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import ApiError, Conflict, KubeError, NotFound, Unreachable, classified
from scheduler.kube.watch.decoding import UNREADABLE
from scheduler.kube.write.retry import (
    TRANSIENT,
    Abandoned,
    RetryAttempt,
    RetryPolicy,
    may_have_executed,
)
from scheduler.model import times
from scheduler.model.api.devices import DELETE_PROTECTION, ResourceClaim
from scheduler.model.effects import (
    BindClaims,
    ClaimRef,
    ClaimWrite,
    DeallocateClaim,
    DeleteClaim,
    PodRef,
    ReleaseClaims,
)
from scheduler.model.times import Seconds

__all__ = ["Claims"]

#: How often a write is tried on the newest state after a conflict.
#: Source: client-go v0.36.3 retry.DefaultRetry.
_MAX_CONFLICTS: Final = 5

_CLAIM: Final = msgspec.json.Decoder(ResourceClaim)

#: A claim with all its fields.
_Raw = dict[str, Any]


class Claims:
    """Carries out the effects on resource claims."""

    def __init__(self, client: Client, retry: RetryPolicy, clock: Callable[[], Seconds]) -> None:
        self._client = client
        self._retry = retry
        self._clock = clock

    async def carry_out(
        self,
        effect: BindClaims | ReleaseClaims | DeallocateClaim | DeleteClaim,
        attempt: RetryAttempt,
    ) -> None:
        """Carry out an effect.

        Raises:
            KubeError: It was not carried out, and no request that was sent will do it.
        """
        match effect:
            case BindClaims():
                await self._bind(effect, attempt)
            case ReleaseClaims(pod, claims):
                for claim in claims:
                    await self._release(claim, pod, attempt)
            case DeallocateClaim(claim=claim):
                await self._deallocate(claim, attempt)
            case DeleteClaim(claim=claim):
                await self._delete(claim, attempt)

    async def _bind(self, effect: BindClaims, attempt: RetryAttempt) -> None:
        """Allocate and reserve claims in their order. Completed writes stay."""
        self._retry.check(attempt)
        with contextlib.suppress(KubeError):
            # It shows others where the pod will be; nothing depends on it.
            await self._client.call(requests.nominate_for_binding(effect))
        for write in effect.claims:
            claim = write.claim
            if write.created_for is not None:
                claim = await self._created(effect.pod, write, attempt)
            try:
                await self._bind_claim(effect.pod, claim, write, attempt)
            except (Abandoned, NotFound):
                raise
            except KubeError:
                if attempt.uncertain_until is None or not await self._bound_late(
                    effect.pod, claim, attempt
                ):
                    raise
            if write.created_for is not None:
                await self._map(effect.pod, claim.name, write, attempt)

    async def _bind_claim(
        self, pod: PodRef, claim: ClaimRef, write: ClaimWrite, attempt: RetryAttempt
    ) -> None:
        conflicts = 0
        while True:
            self._retry.check(attempt)
            try:
                await self._try_to_bind(pod, claim, write, attempt)
            except Conflict as error:
                conflicts += 1
                if error.reason == _ELSEWHERE or conflicts >= _MAX_CONFLICTS:
                    raise
            except TRANSIENT as error:
                await self._retry.pause(claim_requests.look_up(claim), error, attempt)
            else:
                return

    async def _try_to_bind(
        self, pod: PodRef, claim: ClaimRef, write: ClaimWrite, attempt: RetryAttempt
    ) -> None:
        """Bind a claim in its present state."""
        raw = await self._read(claim, attempt)
        if _is_reserved(raw, pod):
            return  # by an earlier attempt whose answer was lost
        _check(raw, claim, write)
        text = f"add reservation to claim {claim.key}"
        try:
            if write.allocation is not None:
                text = f"add finalizer to claim {claim.key}"
                raw = await self._protected(raw, claim, attempt)
                text = f"add allocation and reservation to claim {claim.key}"
            await self._put_status(claim, self._reserved(raw, pod, write), attempt)
        except (Conflict, NotFound, *TRANSIENT):
            raise
        except ApiError as error:
            raise classified(error.status, error.reason, f"{text}: {error.message}") from error

    async def _put_status(self, claim: ClaimRef, body: _Raw, attempt: RetryAttempt) -> None:
        request = claim_requests.put_status(claim, body)
        try:
            answer = await self._client.call(request)
        except TRANSIENT as error:
            if may_have_executed(error):
                self._retry.mark_uncertain(attempt)
            raise
        self._answered(answer, attempt)

    def _reserved(self, raw: _Raw, pod: PodRef, write: ClaimWrite) -> _Raw:
        """Return a claim with the allocation, and the pod among its consumers."""
        status = dict(raw.get("status") or {})
        if write.allocation is not None:
            status["allocation"] = msgspec.to_builtins(write.allocation)
        status["allocation"].setdefault("allocationTimestamp", times.stamp(self._clock()))
        consumer = {"resource": "pods", "name": pod.name, "uid": pod.uid}
        status["reservedFor"] = [*status.get("reservedFor", ()), consumer]
        return {**raw, "status": status}

    async def _protected(self, raw: _Raw, claim: ClaimRef, attempt: RetryAttempt) -> _Raw:
        """Return the claim with its finalizer, which is written if it is missing."""
        metadata = raw["metadata"]
        finalizers = metadata.get("finalizers") or []
        if DELETE_PROTECTION in finalizers:
            return raw
        body = {**raw, "metadata": {**metadata, "finalizers": [*finalizers, DELETE_PROTECTION]}}
        return self._answered(await self._client.call(claim_requests.put(claim, body)), attempt)

    async def _bound_late(self, pod: PodRef, claim: ClaimRef, attempt: RetryAttempt) -> bool:
        """Read a claim until no request of ours can change it; return whether one has."""
        patient = RetryAttempt(attempt.job, self._retry.backoff(), None, finishing=True)

        async def is_reserved() -> bool:
            return _is_reserved(await self._read_patiently(claim, patient, attempt), pod)

        return await self._retry.await_outcome(attempt, is_reserved)

    async def _read_patiently(
        self, claim: ClaimRef, patient: RetryAttempt, attempt: RetryAttempt
    ) -> _Raw:
        while True:
            try:
                return await self._read(claim, attempt)
            except NotFound:
                raise
            except (ApiError, *TRANSIENT) as error:
                await self._retry.pause(claim_requests.look_up(claim), error, patient)

    async def _created(self, pod: PodRef, write: ClaimWrite, attempt: RetryAttempt) -> ClaimRef:
        """Create the claim for extended resources, or find the one of an earlier attempt."""
        request = claim_requests.create(pod, write)
        name = claim_requests.extended_claim_name(pod)
        reference = ClaimRef(pod.namespace, name, "")
        text = f"create claim for extended resources {name}"
        try:
            answer = await self._send(request, text, attempt)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            raw = await self._read(reference, attempt, created=True)
        else:
            raw = self._answered(answer, attempt, created=True)
        return ClaimRef(pod.namespace, name, str(raw["metadata"].get("uid", "")))

    async def _map(self, pod: PodRef, claim: str, write: ClaimWrite, attempt: RetryAttempt) -> None:
        request = claim_requests.mapped(pod, claim, write)
        text = f"update pod {pod.key} ExtendedResourceClaimStatus"
        await self._send(request, text, attempt)

    async def _release(self, claim: ClaimRef, pod: PodRef, attempt: RetryAttempt) -> None:
        request = claim_requests.release(claim, pod)
        with contextlib.suppress(NotFound):
            answer = await self._send(request, f"release claim {claim.key}", attempt)
            self._answered(answer, attempt)

    async def _deallocate(self, claim: ClaimRef, attempt: RetryAttempt) -> None:
        """Take the devices of a claim, if it is in the state that was decided on.

        Raises:
            Conflict: It has changed.
        """
        raw = await self._read(claim, attempt)
        metadata = raw["metadata"]
        if (metadata.get("uid"), metadata.get("resourceVersion")) != (claim.uid, claim.version):
            raise Conflict(409, "Conflict", f"claim {claim.key} has changed")
        body = {**raw, "status": {}}
        request = claim_requests.put_status(claim, body)
        answer = await self._send(request, f"deallocate claim {claim.key}", attempt)
        self._answered(answer, attempt)

    async def _delete(self, claim: ClaimRef, attempt: RetryAttempt) -> None:
        """Take the finalizer off a claim, and delete it; nothing is done if it is gone."""
        for _ in range(_MAX_CONFLICTS):
            try:
                raw = await self._read(claim, attempt)
                metadata = raw["metadata"]
                if metadata.get("uid") != claim.uid:
                    return
                finalizers = metadata.get("finalizers") or []
                if DELETE_PROTECTION in finalizers:
                    kept = [each for each in finalizers if each != DELETE_PROTECTION]
                    body = {**raw, "metadata": {**metadata, "finalizers": kept}}
                    text = f"update resourceclaim {claim.key}"
                    await self._send(claim_requests.put(claim, body), text, attempt)
                await self._send(claim_requests.delete(claim), f"delete {claim.key}", attempt)
            except NotFound:
                return
            except Conflict:
                continue
            return
        raise Conflict(409, "Conflict", f"claim {claim.key} changes all the time")

    async def _read(self, claim: ClaimRef, attempt: RetryAttempt, *, created: bool = False) -> _Raw:
        """Return the present state of a claim.

        Raises:
            NotFound: It is gone, or another one of that name exists.
        """
        raw = self._answered(
            await self._client.call(claim_requests.look_up(claim)), attempt, created=created
        )
        if claim.uid and raw["metadata"].get("uid") != claim.uid:
            raise NotFound(404, "NotFound", f"claim {claim.key} got deleted in the meantime")
        return raw

    async def _send(self, request: Request, text: str, attempt: RetryAttempt) -> bytes:
        """Send a request until it succeeds or fails permanently."""
        while True:
            self._retry.check(attempt)
            try:
                return await self._client.call(request)
            except TRANSIENT as error:
                await self._retry.pause(request, error, attempt)
            except (Conflict, NotFound):
                raise
            except ApiError as error:
                raise classified(error.status, error.reason, f"{text}: {error.message}") from error

    def _answered(self, answer: bytes, attempt: RetryAttempt, *, created: bool = False) -> _Raw:
        """Keep an answer for the machine, and return it with all its fields.

        Raises:
            Unreachable: It is no claim.
        """
        try:
            claim = _CLAIM.decode(answer)
            raw = msgspec.json.decode(answer, type=dict[str, Any])
        except UNREADABLE as error:
            raise Unreachable(f"unreadable resource claim: {error}") from error
        if not isinstance(raw.get("metadata"), dict):
            raise Unreachable("unreadable resource claim: it has no metadata")
        attempt.job.claims.append((claim, created))
        return raw


#: The reason of conflicts that another try cannot resolve.
_ELSEWHERE: Final = "Elsewhere"


def _is_reserved(raw: _Raw, pod: PodRef) -> bool:
    status = raw.get("status") or {}
    return any(each.get("uid") == pod.uid for each in status.get("reservedFor") or ())


def _check(raw: _Raw, claim: ClaimRef, write: ClaimWrite) -> None:
    """Make sure that a claim can still be bound.

    Raises:
        Conflict: It is being deleted, or was allocated or deallocated by others.
    """
    allocated = (raw.get("status") or {}).get("allocation") is not None
    problem = ""
    if raw["metadata"].get("deletionTimestamp") is not None:
        problem = "got deleted"
    elif write.allocation is not None and allocated:
        problem = "got allocated elsewhere"
    elif write.allocation is None and not allocated:
        problem = "got deallocated elsewhere"
    if problem:
        raise Conflict(409, _ELSEWHERE, f"claim {claim.key} {problem} in the meantime")
