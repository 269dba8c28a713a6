"""Resource claims: the newest known state of each, and the allocations that are being written.

The newest state is the one with the highest resource version, whether it came by the watch or as
the response to a write of this scheduler. An allocation is *in flight* from the moment at which it
is decided until it is known whether it was written. Where the outcome of the write leaves that in
doubt, a later state of the claim shows it. No timer ever ends that.

Source: kube-scheduler v1.36.3 util/assumecache, dynamicresources.claimTracker. Differs: the answer
to a write is a state like any other, so it is never taken back.
"""

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from scheduler.model.api.devices import (
    DELETE_PROTECTION,
    EXTENDED_RESOURCE_CLAIM,
    Allocation,
    ResourceClaim,
)
from scheduler.state.devices.claim_consumers import ClaimConsumers, ClaimUses

__all__ = ["ClaimTracker"]

_encode: Final = msgspec.msgpack.Encoder().encode

#: More than are deleted while one write is under way.
_MOST_GONE: Final = 10_000

#: Takes the former allocation of a claim, and the present one; an allocation in flight counts.
AllocationChanged = Callable[[Allocation | None, Allocation | None], None]


class ClaimTracker:
    """All resource claims by key."""

    def __init__(self, allocation_changed: AllocationChanged) -> None:
        self._allocation_changed: Final = allocation_changed
        self._claims: dict[str, ResourceClaim] = {}
        self._keys: dict[str, str] = {}
        #: By uid.
        self._in_flight: dict[str, Allocation] = {}
        #: Uids of claims whose next state shows whether the allocation in flight was written.
        self._in_doubt: set[str] = set()
        #: An allocation in flight that came to nothing, until it is taken.
        self._freed: Allocation | None = None
        #: Uids of claims whose known state is an answer that the watch has not reported yet.
        self._unreported: set[str] = set()
        self._counting: dict[str, Allocation] = {}
        #: The encoded `spec.devices` of claims; by key, with the state of the claim.
        self._specs: dict[str, tuple[ResourceClaim, bytes]] = {}
        #: Keys of the claims for the extended resources of pods, by uid of the pod.
        self._of_extended: dict[str, dict[str, None]] = {}
        self.consumers: Final = ClaimConsumers()
        #: Keys of the claims whose newest known state has an allocation.
        self.allocated: Final[set[str]] = set()
        #: The uids of claims that are gone: an answer that comes late does not bring one back.
        self._gone: dict[str, None] = {}

    def __iter__(self) -> Iterator[ResourceClaim]:
        return iter(self._claims.values())

    def __len__(self) -> int:
        return len(self._claims)

    @property
    def in_flight(self) -> int:
        """How many allocations are being written."""
        return len(self._in_flight)

    def get(self, key: str) -> ResourceClaim | None:
        """Return the newest known state of a claim."""
        return self._claims.get(key)

    def with_uid(self, uid: str) -> ResourceClaim | None:
        """Return the newest known state of a claim, by its uid."""
        return self._claims.get(self._keys.get(uid, ""))

    def encoded_spec(self, claim: ResourceClaim) -> bytes:
        """Return the encoded `spec.devices` of a claim: equal for claims of one template."""
        cached = self._specs.get(claim.key)
        if cached is None or cached[0] is not claim:
            encoded = _encode(claim.spec.devices)
            if self._claims.get(claim.key) is not claim:
                return encoded
            cached = self._specs[claim.key] = (claim, encoded)
        return cached[1]

    def extended_resource_claim_of(self, uid: str) -> ResourceClaim | None:
        """Return the claim for the extended resources of a pod, by the uid of the pod."""
        keys = self._of_extended.get(uid)
        return self._claims[min(keys)] if keys else None

    def write(self, claim: ResourceClaim) -> tuple[ResourceClaim | None, bool]:
        """Store an observed state of a claim; return the previous one, and whether it is newer."""
        before, is_newer = self._store(claim)
        if not is_newer and (before is None or _version(claim) != _version(before)):
            return before, False
        if claim.uid in self._unreported:
            self._unreported.remove(claim.uid)
        elif not is_newer:
            self._settle(claim.uid)  # it was listed again, and nothing was written
        return before, is_newer

    def _store(self, claim: ResourceClaim) -> tuple[ResourceClaim | None, bool]:
        before = self._claims.get(claim.key)
        if before is not None and _is_older(claim, before):
            return before, False
        if before is not None and before.uid != claim.uid:
            self.erase(claim.key)
            before = None
        self._claims[claim.key] = claim
        self._keys[claim.uid] = claim.key
        self._index(before, claim)
        self._count(claim.uid)
        if claim.status.allocation is not None or not _gets_protected(before, claim):
            self._settle(claim.uid)
        return before, True

    def answer(self, claim: ResourceClaim, *, created: bool) -> tuple[ResourceClaim | None, bool]:
        """Store the answer to a write, unless the claim is gone meanwhile; see `write`.

        Args:
            claim: The answer.
            created: Whether the write may have created the claim, so that it need not be known.
        """
        known = self._claims.get(claim.key)
        is_new = known is None and created and claim.uid not in self._gone
        if not is_new and (known is None or known.uid != claim.uid):
            return known, False
        before, is_newer = self._store(claim)
        if is_newer:
            self._unreported.add(claim.uid)
        self._settle(claim.uid)
        return before, is_newer

    def erase(self, key: str) -> ResourceClaim | None:
        """Remove a claim; return its last state."""
        before = self._claims.pop(key, None)
        self._specs.pop(key, None)
        if before is not None:
            self._keys.pop(before.uid, None)
            self._remember_gone(before.uid)
            self._index(before, None)
            self._count(before.uid)
            self._unreported.discard(before.uid)
            self._settle(before.uid)
        return before

    def _remember_gone(self, uid: str) -> None:
        self._gone[uid] = None
        if len(self._gone) > _MOST_GONE:
            del self._gone[next(iter(self._gone))]

    def begin(self, uid: str, allocation: Allocation) -> Allocation | None:
        """Record that an allocation of a claim is being written; return the one that was before."""
        before = self._in_flight.get(uid)
        self._in_flight[uid] = allocation
        self._count(uid)
        return before

    def take_back(self, uid: str, before: Allocation | None) -> None:
        """Undo `begin`: nothing was written, and nobody has to be told.

        Args:
            uid: Of the claim.
            before: What `begin` returned.
        """
        if before is None:
            del self._in_flight[uid]
        else:
            self._in_flight[uid] = before
        self._count(uid)

    def end(self, uid: str, *, written: bool = False) -> None:
        """Record that the allocation in flight was not written, or is known by now."""
        self._in_doubt.discard(uid)
        allocation = self._in_flight.pop(uid, None)
        if allocation is not None:
            self._count(uid)
            if uid not in self._counting and not written:
                self._freed = allocation

    def await_state(self, uid: str) -> None:
        """Record that only a later state shows whether the allocation in flight was written."""
        claim = self.with_uid(uid)
        if claim is None or claim.status.allocation is not None:
            self.end(uid)
        elif uid in self._in_flight:
            self._in_doubt.add(uid)

    def _settle(self, uid: str) -> None:
        """End an allocation in flight: a state shows whether it was written."""
        if uid in self._in_doubt:
            self.end(uid)

    def take_freed(self) -> Allocation | None:
        """Return and forget an allocation in flight that came to nothing; `None` for none."""
        freed, self._freed = self._freed, None
        return freed

    def counting(self) -> Iterator[tuple[ResourceClaim | None, Allocation]]:
        """Yield the claims with an allocation, known or in flight; `None` for an unknown claim."""
        for uid, allocation in self._counting.items():
            yield self.with_uid(uid), allocation

    def is_in_flight(self, uid: str) -> bool:
        """Return whether an allocation of a claim is being written."""
        return uid in self._in_flight

    def _count(self, uid: str) -> None:
        """Count the known allocation of a claim, or the one that is in flight."""
        claim = self.with_uid(uid)
        known = None if claim is None else claim.status.allocation
        before, now = self._counting.get(uid), known or self._in_flight.get(uid)
        if before is now:
            return
        if now is None:
            del self._counting[uid]
        else:
            self._counting[uid] = now
        if before != now:
            self._allocation_changed(before, now)

    def _index(self, before: ResourceClaim | None, now: ResourceClaim | None) -> None:
        """Index the pod that a claim was made for, and those that it is reserved for."""
        known = before or now
        if known is not None:
            uses = _uses(now)
            self.consumers.replace(known.key, _uses(before), uses)
            (self.allocated.discard if uses[1] is None else self.allocated.add)(known.key)
        if before is not None and (owner := _extended_resource_owner(before)):
            keys = self._of_extended.get(owner, {})
            keys.pop(before.key, None)
            if not keys:
                self._of_extended.pop(owner, None)
        if now is not None and (owner := _extended_resource_owner(now)):
            self._of_extended.setdefault(owner, {})[now.key] = None

    def check(self) -> None:
        """Assert the invariants: the allocations that count are known or in flight."""
        known = {claim.uid: claim.status.allocation for claim in self._claims.values()}
        for uid in {*known, *self._in_flight, *self._counting}:
            assert self._counting.get(uid) == (known.get(uid) or self._in_flight.get(uid))
        assert self._in_doubt <= known.keys() & self._in_flight.keys()
        assert self._unreported <= known.keys()
        self.consumers.check(self._claims.values())
        assert self.allocated == {
            claim.key for claim in self._claims.values() if claim.status.allocation is not None
        }


def _uses(claim: ResourceClaim | None) -> ClaimUses:
    return ((), None) if claim is None else (claim.status.reserved_for, claim.status.allocation)


def _extended_resource_owner(claim: ResourceClaim) -> str:
    """Return the uid of the pod whose extended resources a claim is for; empty for none."""
    if claim.metadata.annotations.get(EXTENDED_RESOURCE_CLAIM) != "true":
        return ""
    owners = (owner.uid for owner in claim.metadata.owner_references if owner.controller)
    return next(owners, "")


def _gets_protected(before: ResourceClaim | None, now: ResourceClaim) -> bool:
    """Return whether a state may be the first of the two writes that allocate a claim.

    Any other state without an allocation shows that there is none: the second write names the
    version of a protected state, so it fails where another change has come between.
    """
    protected = DELETE_PROTECTION in now.metadata.finalizers
    return protected and before is not None and DELETE_PROTECTION not in before.metadata.finalizers


def _version(claim: ResourceClaim) -> str:
    return claim.metadata.resource_version


def _is_older(claim: ResourceClaim, known: ResourceClaim) -> bool:
    """Return whether a state is not newer than the known one; versions are increasing integers."""
    new, old = _version(claim), _version(known)
    comparable = new.isascii() and old.isascii() and new.isdecimal() and old.isdecimal()
    if not comparable:
        return False
    # Shorter numbers are smaller; huge ones are not converted.
    new, old = new.lstrip("0"), old.lstrip("0")
    return (len(new), new) <= (len(old), old)
