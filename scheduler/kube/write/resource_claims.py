"""Allocates, reserves, releases and deallocates resource claims.

Every response of the API server becomes a separate event, which comes before the outcome of the
effect. So whatever was written is known when the allocation is no longer in flight. Where it is
unknown whether a status was written, the claim is read until no request that was sent can change it
any more.

Source: kube-scheduler v1.36.3 dynamicresources.bindClaim, deleteClaim. Differs: claims are patched
instead of put back whole, because the scheduler keeps only the fields that its rules read; the
version that must match is the same.
"""

import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeVar

import msgspec

from scheduler.kube.client import claim_requests, requests
from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import ApiError, Conflict, KubeError, NotFound, Unreachable, prefixed
from scheduler.kube.watch.decoding import UNREADABLE, Identity
from scheduler.kube.write.effect_queue import QueuedEffect
from scheduler.kube.write.retry import (
    TRANSIENT,
    Abandoned,
    Replaced,
    RetryAttempt,
    RetryPolicy,
    may_have_executed,
    raise_permanent,
)
from scheduler.model import times
from scheduler.model.api.device_claims import Allocation, DeviceRequests
from scheduler.model.api.devices import (
    DELETE_PROTECTION,
    EXTENDED_RESOURCE_CLAIM,
    ResourceClaim,
)
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


class _Versioned(msgspec.Struct):
    """The part of a claim that its next write needs."""

    metadata: Identity = Identity()


_VERSIONED: Final = msgspec.json.Decoder(_Versioned)
_Answer = TypeVar("_Answer", ResourceClaim, _Versioned)


def _decoded(decoder: "msgspec.json.Decoder[_Answer]", answer: bytes) -> _Answer:
    try:
        return decoder.decode(answer)
    except UNREADABLE as error:
        raise Unreachable(f"unreadable resource claim: {error}") from error


@dataclass(frozen=True, slots=True)
class _State:
    """What a write is based on: a claim at its version, which is empty where it is not known."""

    claim: ClaimRef
    is_protected: bool = False


def _state(claim: ClaimRef, found: ResourceClaim) -> _State:
    metadata = found.metadata
    return _State(
        ClaimRef(claim.namespace, claim.name, metadata.uid, metadata.resource_version),
        DELETE_PROTECTION in metadata.finalizers,
    )


def _next_claim(effect: BindClaims, entry: QueuedEffect) -> tuple[ClaimWrite, _State]:
    """Return the first claim that is not written yet, and the state that its write is based on."""
    write = effect.claims[entry.claims_written]
    if entry.claim_protected is not None:
        return write, _State(entry.claim_protected, is_protected=True)
    return write, _State(write.claim, write.is_protected)


def _must_be_protected(state: _State, write: ClaimWrite) -> bool:
    """Return whether a claim needs its finalizer first, without which it may vanish allocated."""
    return write.allocation is not None and not state.is_protected


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
                await self._release_all(claims, pod, attempt)
            case DeallocateClaim(claim=claim):
                await self._deallocate(claim, attempt)
            case DeleteClaim(claim=claim):
                await self._delete(claim, attempt)

    def first_request(self, effect: BindClaims, entry: QueuedEffect) -> Request | None:
        """Return the first request for claims; `None` where `carry_out` must do all of it.

        It nominates the pod, creates claims, and reads those whose version is not known.
        """
        if effect.awaits_devices:
            return None
        if any(each.created_for is not None or not each.claim.version for each in effect.claims):
            return None
        return self.next_request(effect, entry)

    def next_request(self, effect: BindClaims, entry: QueuedEffect) -> Request | None:
        """Return the next request for claims that no request has failed for; `None` after the last.

        When one fails, `carry_out` goes on from there.
        """
        if entry.claims_written == len(effect.claims):
            return None
        write, state = _next_claim(effect, entry)
        if _must_be_protected(state, write):
            return claim_requests.protect(state.claim)
        return self._reservation(effect.pod, state.claim, write)

    def written(self, effect: BindClaims, entry: QueuedEffect, answer: bytes) -> None:
        """Record that the next request has succeeded.

        Raises:
            Unreachable: The answer is not a claim.
        """
        write, state = _next_claim(effect, entry)
        if _must_be_protected(state, write):
            entry.claim_protected = self._protected(state.claim, answer)
        else:
            entry.claims.append((_decoded(_CLAIM, answer), False))
            entry.claims_written += 1
            entry.claim_protected = None

    async def _bind(self, effect: BindClaims, attempt: RetryAttempt) -> None:
        """Allocate and reserve claims in their order. Completed writes stay."""
        self._retry.check(attempt)
        if effect.awaits_devices:
            with contextlib.suppress(KubeError):
                # It shows others where the pod will be; nothing depends on it.
                await self._client.call(requests.nominate_for_binding(effect))
        entry = attempt.entry
        while entry.claims_written < len(effect.claims):
            write, state = _next_claim(effect, entry)
            if write.created_for is not None:
                state = await self._created(effect.pod, write, attempt)
            try:
                await self._bind_claim(effect.pod, state, write, attempt)
            except (Abandoned, NotFound):
                raise
            except KubeError:
                if attempt.uncertain_until is None or not await self._bound_late(
                    effect.pod, state.claim, write, attempt
                ):
                    raise
            if write.created_for is not None:
                await self._map(effect.pod, state.claim.name, write, attempt)
            entry.claims_written += 1
            entry.claim_protected = None

    async def _bind_claim(
        self, pod: PodRef, decided_on: _State, write: ClaimWrite, attempt: RetryAttempt
    ) -> None:
        """Bind a claim in the state that was decided on; after a failure, in its newest state."""
        claim, state, conflicts = decided_on.claim, decided_on, 0
        while True:
            self._retry.check(attempt)
            try:
                if not state.claim.version:
                    found = await self._read(claim, attempt)
                    if _is_bound(found, pod, write):
                        return  # by an earlier attempt whose answer was lost
                    _check(found, write)
                    state = _state(claim, found)
                await self._try_to_bind(pod, state, write, attempt)
            except Conflict as error:
                conflicts += 1
                if error.reason == _ELSEWHERE or conflicts >= _MAX_CONFLICTS:
                    raise
            except TRANSIENT as error:
                await self._retry.pause(claim_requests.look_up(claim), error, attempt)
            else:
                return
            state = _State(ClaimRef(claim.namespace, claim.name, claim.uid))

    async def _try_to_bind(
        self, pod: PodRef, state: _State, write: ClaimWrite, attempt: RetryAttempt
    ) -> None:
        """Bind a claim, unless it has changed since the state that is given."""
        claim, text = state.claim, f"add reservation to claim {state.claim.key}"
        try:
            if _must_be_protected(state, write):
                text = f"add finalizer to claim {claim.key}"
                answer = await self._retry.call(claim_requests.protect(claim), attempt)
                claim = self._protected(claim, answer)
            if write.allocation is not None:
                text = f"add allocation and reservation to claim {claim.key}"
            await self._reserve(pod, claim, write, attempt)
        except (Conflict, NotFound, *TRANSIENT):
            raise
        except ApiError as error:
            raise prefixed(error, text) from error

    async def _reserve(
        self, pod: PodRef, claim: ClaimRef, write: ClaimWrite, attempt: RetryAttempt
    ) -> None:
        request = self._reservation(pod, claim, write)
        try:
            answer = await self._retry.call(request, attempt)
        except TRANSIENT as error:
            if may_have_executed(error):
                self._retry.mark_uncertain(attempt)
            raise
        self._answered(answer, attempt)

    def _reservation(self, pod: PodRef, claim: ClaimRef, write: ClaimWrite) -> Request:
        stamp = times.stamp(self._clock())
        return claim_requests.reserve(claim, pod, write.allocation, stamp)

    async def _bound_late(
        self, pod: PodRef, claim: ClaimRef, write: ClaimWrite, attempt: RetryAttempt
    ) -> bool:
        """Read a claim until no request of ours can change it; return whether one has."""
        patient = RetryAttempt(attempt.entry, self._retry.backoff(), None, finishing=True)

        async def is_bound() -> bool:
            return _is_bound(await self._read_patiently(claim, patient, attempt), pod, write)

        return await self._retry.await_outcome(attempt, is_bound)

    async def _read_patiently(
        self, claim: ClaimRef, patient: RetryAttempt, attempt: RetryAttempt
    ) -> ResourceClaim:
        while True:
            try:
                return await self._read(claim, attempt)
            except NotFound:
                raise
            except (ApiError, *TRANSIENT) as error:
                await self._retry.pause(claim_requests.look_up(claim), error, patient)

    async def _created(self, pod: PodRef, write: ClaimWrite, attempt: RetryAttempt) -> _State:
        """Create the claim for extended resources, or find the one of an earlier attempt.

        The latter is read again before it is written: it may have been allocated.
        """
        request = claim_requests.create(pod, write)
        name = claim_requests.extended_claim_name(pod)
        text = f"create claim for extended resources {name}"
        try:
            answer = await self._send(request, text, attempt)
        except ApiError as error:
            if not isinstance(error, Conflict) or error.reason != "AlreadyExists":
                raise
            earlier = ClaimRef(pod.namespace, name, "")
            found = await self._read(earlier, attempt, created=True)
            if not _is_made_for(found, pod, write):
                text = f"{text}: claim {found.key} is not the one that the pod needs"
                raise Conflict(409, _ELSEWHERE, text) from error
            return _State(ClaimRef(pod.namespace, name, found.uid))
        made = self._answered(answer, attempt, created=True).metadata
        return _State(ClaimRef(pod.namespace, name, made.uid, made.resource_version))

    async def _map(self, pod: PodRef, claim: str, write: ClaimWrite, attempt: RetryAttempt) -> None:
        request = claim_requests.mapped(pod, claim, write)
        text = f"update pod {pod.key} ExtendedResourceClaimStatus"
        await self._send(request, text, attempt)

    async def _release_all(
        self, claims: Iterable[ClaimRef], pod: PodRef, attempt: RetryAttempt
    ) -> None:
        """Release each claim; one that is refused does not keep the others."""
        refused: ApiError | None = None
        for claim in claims:
            try:
                await self._release(claim, pod, attempt)
            except TRANSIENT:
                raise
            except ApiError as error:
                refused = refused or error
        if refused is not None:
            raise refused

    async def _release(self, claim: ClaimRef, pod: PodRef, attempt: RetryAttempt) -> None:
        request = claim_requests.release(claim, pod)
        with contextlib.suppress(NotFound, Replaced):
            answer = await self._send(request, f"release claim {claim.key}", attempt)
            self._answered(answer, attempt)

    async def _deallocate(self, claim: ClaimRef, attempt: RetryAttempt) -> None:
        """Take the devices of a claim, if it is in the state that was decided on.

        Raises:
            Conflict: It has changed.
        """
        request = claim_requests.deallocate(claim)
        answer = await self._send(request, f"deallocate claim {claim.key}", attempt)
        self._answered(answer, attempt)

    async def _delete(self, claim: ClaimRef, attempt: RetryAttempt) -> None:
        """Take the finalizer off a claim, and delete it; nothing is done if it is gone."""
        for _ in range(_MAX_CONFLICTS):
            try:
                known = await self._read(claim, attempt)
                if DELETE_PROTECTION in known.metadata.finalizers:
                    text = f"update resourceclaim {claim.key}"
                    await self._send(
                        claim_requests.unprotect(_state(claim, known).claim), text, attempt
                    )
                await self._send(claim_requests.delete(claim), f"delete {claim.key}", attempt)
            except NotFound:
                return
            except Conflict:
                continue
            return
        text = f"gave up deleting claim {claim.key}: it was modified {_MAX_CONFLICTS} times"
        raise Conflict(409, "Conflict", text)

    async def _read(
        self, claim: ClaimRef, attempt: RetryAttempt, *, created: bool = False
    ) -> ResourceClaim:
        """Return the present state of a claim.

        Raises:
            NotFound: It is gone, or another one of that name exists.
        """
        answer = await self._client.call(claim_requests.look_up(claim))
        found = self._answered(answer, attempt, created=created)
        if claim.uid and found.uid != claim.uid:
            raise NotFound(404, "NotFound", f"claim {claim.key} got deleted in the meantime")
        return found

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
                # Without a version API servers say that the uid of an object cannot be changed.
                raise_permanent(error)
                raise prefixed(error, text) from error

    def _answered(
        self, answer: bytes, attempt: RetryAttempt, *, created: bool = False
    ) -> ResourceClaim:
        """Keep an answer for the machine, and return it.

        Raises:
            Unreachable: It is not a claim.
        """
        claim = _decoded(_CLAIM, answer)
        attempt.entry.claims.append((claim, created))
        return claim

    @staticmethod
    def _protected(claim: ClaimRef, answer: bytes) -> ClaimRef:
        """Return the state of a claim that has got its finalizer.

        Raises:
            Unreachable: The answer is not a claim. Without a version no write would be refused.
        """
        version = _decoded(_VERSIONED, answer).metadata.resource_version
        if not version:
            raise Unreachable("unreadable resource claim: it has no version")
        return ClaimRef(claim.namespace, claim.name, claim.uid, version)


#: The reason of conflicts that another try cannot settle.
_ELSEWHERE: Final = "Elsewhere"


def _is_made_for(known: ResourceClaim, pod: PodRef, write: ClaimWrite) -> bool:
    """Return whether a claim is for these extended resources of a pod; its name can be guessed."""
    owned = any(each.controller and each.uid == pod.uid for each in known.metadata.owner_references)
    marked = known.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) == "true"
    wanted = write.created_for
    return owned and marked and wanted is not None and _asks(known.spec.devices) == _asks(wanted)


def _asks(devices: DeviceRequests) -> tuple[object, ...]:
    return (devices.requests, devices.constraints, devices.config)


def _is_bound(known: ResourceClaim, pod: PodRef, write: ClaimWrite) -> bool:
    """Return whether a claim is reserved for a pod, with the devices that were decided on.

    An earlier leader may have reserved it for the same pod, with the devices of another node.
    """
    found, wanted = known.status.allocation, write.allocation
    if found is None or not known.reserved_by(pod.uid):
        return False
    return wanted is None or _identity(found) == _identity(wanted)


def _identity(allocation: Allocation) -> tuple[object, ...]:
    """Return what tells allocations apart; the API server rewrites quantities, for example."""
    results = allocation.devices.results
    devices = [(each.request, each.id, each.share_id) for each in results]
    return (devices, allocation.node_selector)


def _check(known: ResourceClaim, write: ClaimWrite) -> None:
    """Make sure that a claim can still be bound.

    Raises:
        Conflict: It is being deleted, or was allocated or deallocated by others.
    """
    allocated = known.status.allocation is not None
    problem = ""
    if known.metadata.deletion_timestamp is not None:
        problem = "got deleted"
    elif write.allocation is not None and allocated:
        problem = "got allocated elsewhere"
    elif write.allocation is None and not allocated:
        problem = "got deallocated elsewhere"
    if problem:
        raise Conflict(409, _ELSEWHERE, f"claim {known.key} {problem} in the meantime")
