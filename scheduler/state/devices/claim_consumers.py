"""Indexes claims by the pods that they are reserved for: what an eviction may free."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from scheduler.model.api.device_claims import Allocation, Consumer
from scheduler.model.api.devices import ResourceClaim

__all__ = ["ClaimConsumers", "ClaimUses"]

#: Who uses a claim, and its allocation.
ClaimUses: TypeAlias = tuple[Sequence[Consumer], Allocation | None]
_KEEP: Final = 65_536


class ClaimConsumers:
    """The keys of claims by the uid of each pod in their `status.reservedFor`, and what changed."""

    def __init__(self) -> None:
        self._keys: dict[str, dict[str, None]] = {}
        self._changed: list[str] = []
        self._start = 0

    def replace(self, key: str, before: ClaimUses, now: ClaimUses) -> None:
        """Replace the consumers of a claim."""
        if before == now:
            return
        for consumer in before[0]:
            keys = self._keys.get(consumer.uid, {})
            keys.pop(key, None)
            if not keys:
                self._keys.pop(consumer.uid, None)
        for consumer in now[0]:
            if consumer.is_pod:
                self._keys.setdefault(consumer.uid, {})[key] = None
        if len(self._changed) >= 2 * _KEEP:
            self._start += _KEEP
            del self._changed[:_KEEP]
        self._changed += (consumer.uid for consumer in (*before[0], *now[0]))

    def __iter__(self) -> Iterator[str]:
        """Yield the uids of all pods that claims are reserved for."""
        return iter(self._keys)

    def of(self, uid: str) -> Collection[str]:
        """Return the keys of the claims that are reserved for a pod."""
        return self._keys.get(uid, ())

    @property
    def position(self) -> int:
        """The position after the last change."""
        return self._start + len(self._changed)

    def since(self, position: int) -> Sequence[str] | None:
        """Return the uids whose claims changed since a position; `None` if that is too old."""
        return None if position < self._start else self._changed[position - self._start :]

    def check(self, claims: Iterable[ResourceClaim]) -> None:
        """Assert the invariant: the claims of each pod are those that are reserved for it."""
        expected: dict[str, set[str]] = {}
        for claim in claims:
            for consumer in claim.status.reserved_for:
                if consumer.is_pod:
                    expected.setdefault(consumer.uid, set()).add(claim.key)
        assert {uid: {*keys} for uid, keys in self._keys.items()} == expected
