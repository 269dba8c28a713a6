"""The claims and disks that pods mount, with indices by claim and by disk.

Every pod with a slot and a volume is included, also a nominated pod: plugins need it for
hypothetical views.

Axes: S slots of the pod table.
"""

from collections.abc import Collection, Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from scheduler.model.api.objects import Pod, Volume
from scheduler.state.columns.arrays import Bool, Int, grown
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.storage.csi_translation import CsiVolume, TranslationError, of_inline

__all__ = [
    "Disk",
    "Disks",
    "Mounts",
    "VolumeUse",
    "claim_name",
    "claims_of",
    "disks_of",
    "mounts_of",
]

K = TypeVar("K", str, tuple[str, ...])

#: One slot, or several: most claims are mounted by one pod, and a set takes two hundred bytes.
_Slots: TypeAlias = int | set[int]

NO_MONITORS: Final[frozenset[str]] = frozenset()
_NO_INLINE: Final[frozenset[CsiVolume]] = frozenset()


class Disk(NamedTuple):
    """A network disk in the spec of a pod, without a claim."""

    #: Equal for mounts of the same disk; without the monitors.
    identity: tuple[str, ...]
    #: Servers; two mounts of the same disk share at least one. Empty for disks without servers.
    monitors: frozenset[str]
    read_only: bool


class Disks:
    """The disks of one pod, by identity; finds conflicts without comparing all pairs."""

    __slots__ = ("_read", "_written")

    def __init__(self, disks: Iterable[Disk]) -> None:
        #: By identity, the monitors of the read-only mounts, and of those that write.
        self._read: dict[tuple[str, ...], Set[str]] = {}
        self._written: dict[tuple[str, ...], Set[str]] = {}
        #: The sets of `_read` and `_written` that were created here.
        merged: dict[tuple[bool, tuple[str, ...]], set[str]] = {}
        for identity, monitors, read_only in disks:
            kind = self._read if read_only else self._written
            known = kind.get(identity)
            if known is None:
                kind[identity] = monitors
            elif monitors:
                key = (read_only, identity)
                if key not in merged:
                    kind[identity] = merged[key] = set(known)
                merged[key] |= monitors

    @property
    def identities(self) -> Set[tuple[str, ...]]:
        """The identities of all disks."""
        return self._read.keys() | self._written.keys()

    def conflict(self, other: "Disks") -> bool:
        """Return whether one node cannot mount the disks of two pods.

        Source: kube-scheduler v1.36.3 volumerestrictions.isVolumeConflict.
        """
        return any(
            identity[0] != "rbd" or not mine[identity].isdisjoint(its[identity])
            for mine, its in (
                (self._written, other._written),
                (self._written, other._read),
                (self._read, other._written),
            )
            for identity in mine.keys() & its.keys()
        )


_NO_DISKS: Final = Disks(())


@dataclass(frozen=True, slots=True)
class Mounts:
    """The volumes of one pod."""

    #: The node of the pod, empty for a nominated pod.
    node: str
    namespace: str
    #: Names of its claims, repeated as in the spec; without ephemeral volumes.
    names: tuple[str, ...]
    #: Keys of all its claims, each once.
    claims: tuple[str, ...]
    disks: Disks
    #: CSI volumes in the spec of the pod.
    inline: frozenset[CsiVolume]


class VolumeUse:
    """The mounts of all pods, by slot, claim and disk."""

    def __init__(self, columns: NodeColumns) -> None:
        self._columns = columns
        self._mounts: dict[int, Mounts] = {}
        self._by_name: dict[str, _Slots] = {}
        self._by_claim: dict[str, _Slots] = {}
        self._by_disk: dict[tuple[str, ...], _Slots] = {}
        # The last element is never given to a pod: it is what index -1 reads.
        self._attaches: Bool = np.zeros(16, dtype=np.bool_)

    def get(self, slot: int) -> Mounts | None:
        """Return the mounts of the pod in a slot, if it has any."""
        return self._mounts.get(slot)

    def add(self, slot: int, mounts: Mounts) -> None:
        """Add the mounts of the pod in a slot."""
        self._mounts[slot] = mounts
        self._attaches = grown(self._attaches, slot + 2)
        self._attaches[slot] = bool(mounts.claims or mounts.inline)
        for name in mounts.names:
            _add(self._by_name, name, slot)
            _add(self._by_claim, f"{mounts.namespace}/{name}", slot)
        for identity in mounts.disks.identities:
            _add(self._by_disk, identity, slot)

    def remove(self, slot: int) -> Mounts | None:
        """Remove and return the mounts of the pod in a slot."""
        mounts = self._mounts.pop(slot, None)
        if mounts is None:
            return None
        self._attaches[slot] = False
        for name in set(mounts.names):
            _drop(self._by_name, name, slot)
            _drop(self._by_claim, f"{mounts.namespace}/{name}", slot)
        for identity in mounts.disks.identities:
            _drop(self._by_disk, identity, slot)
        return mounts

    def attaches(self, slots: Int) -> Bool:
        """Return which of some slots have a pod whose volumes may be attached; -1 has none."""
        last = self._attaches.shape[0] - 1
        return self._attaches[np.where(slots < last, slots, last)]

    def is_used(self, claim: str) -> bool:
        """Return whether a pod on an existing node mounts a claim; without ephemeral volumes."""
        nodes = (self._mounts[slot].node for slot in _slots(self._by_claim, claim))
        return any(self._columns.node(node) is not None for node in nodes)

    def naming(self, names: Collection[str]) -> dict[int, int]:
        """Return, by slot, how often a pod mounts claims of these names, in any namespace."""
        slots = {slot for name in names for slot in _slots(self._by_name, name)}
        return {slot: sum(name in names for name in self._mounts[slot].names) for slot in slots}

    def conflicting(self, wanted: Disks) -> set[int]:
        """Return the slots of pods whose disks conflict with these."""
        sharing: set[int] = set()
        for identity in wanted.identities & self._by_disk.keys():
            sharing.update(_slots(self._by_disk, identity))
        return {slot for slot in sharing if wanted.conflict(self._mounts[slot].disks)}

    def check(self, slots: Collection[int]) -> None:
        """Assert the invariants: the indices match the mounts, of known slots only."""
        assert set(self._mounts) <= set(slots)
        names: dict[str, _Slots] = {}
        disks: dict[tuple[str, ...], _Slots] = {}
        for slot, mounts in self._mounts.items():
            for name in mounts.names:
                _add(names, name, slot)
            for identity in mounts.disks.identities:
                _add(disks, identity, slot)
        assert _sets(self._by_name) == _sets(names)
        assert _sets(self._by_disk) == _sets(disks)
        assert set(np.flatnonzero(self._attaches)) == {
            slot for slot, mounts in self._mounts.items() if mounts.claims or mounts.inline
        }


def mounts_of(pod: Pod, node: str) -> Mounts | None:
    """Return the mounts of a pod; `None` if it has no volume that a plugin reads."""
    volumes, namespace = pod.spec.volumes, pod.metadata.namespace
    if not volumes or not any(map(_is_relevant, volumes)):
        return None
    claims = [volume.persistent_volume_claim for volume in volumes]
    return Mounts(
        node=node,
        namespace=namespace,
        names=tuple([claim.claim_name for claim in claims if claim is not None]),
        claims=tuple([f"{namespace}/{name}" for name in dict.fromkeys(claims_of(pod))]),
        disks=Disks(disks) if (disks := disks_of(pod)) else _NO_DISKS,
        inline=frozenset(filter(None, map(_inline, volumes))) or _NO_INLINE,
    )


def claim_name(pod: Pod, volume: Volume) -> str | None:
    """Return the name of the claim of a volume; `None` if it has none.

    Source: component-helpers v0.36.3 storage/ephemeral.VolumeClaimName.
    """
    if volume.persistent_volume_claim is not None:
        return volume.persistent_volume_claim.claim_name
    return None if volume.ephemeral is None else f"{pod.metadata.name}-{volume.name}"


def claims_of(pod: Pod) -> list[str]:
    """Return the names of all claims of a pod, in the order of its volumes."""
    names = (claim_name(pod, volume) for volume in pod.spec.volumes)
    return [name for name in names if name is not None]


def disks_of(pod: Pod) -> list[Disk]:
    """Return the network disks in the spec of a pod."""
    return [disk for volume in pod.spec.volumes for disk in _disks(volume)]


def _disks(volume: Volume) -> Iterable[Disk]:
    none = NO_MONITORS
    gce, ebs = volume.gce_persistent_disk, volume.aws_elastic_block_store
    iscsi, rbd = volume.iscsi, volume.rbd
    if gce is not None:
        yield Disk(("gce", gce.pd_name), none, gce.read_only)
    if ebs is not None:
        # Two mounts of such a volume conflict even if both are read-only.
        yield Disk(("ebs", ebs.volume_id), none, read_only=False)
    if iscsi is not None:
        yield Disk(("iscsi", iscsi.iqn), none, iscsi.read_only)
    if rbd is not None:
        yield Disk(("rbd", rbd.pool, rbd.image), frozenset(rbd.monitors), rbd.read_only)


def _is_relevant(volume: Volume) -> bool:
    return bool(
        volume.persistent_volume_claim
        or volume.ephemeral
        or volume.gce_persistent_disk
        or volume.aws_elastic_block_store
        or volume.iscsi
        or volume.rbd
    )


def _inline(volume: Volume) -> CsiVolume | None:
    try:
        return of_inline(volume)
    except TranslationError:
        return None


def _slots(index: Mapping[K, _Slots], key: K) -> Collection[int]:
    slots = index.get(key, ())
    return (slots,) if isinstance(slots, int) else slots


def _sets(index: Mapping[K, _Slots]) -> dict[K, set[int]]:
    return {key: slots if isinstance(slots, set) else {slots} for key, slots in index.items()}


def _add(index: dict[K, _Slots], key: K, slot: int) -> None:
    slots = index.setdefault(key, slot)
    if isinstance(slots, set):
        slots.add(slot)
    elif slots != slot:
        index[key] = {slots, slot}


def _drop(index: dict[K, _Slots], key: K, slot: int) -> None:
    slots = index[key]
    if not isinstance(slots, set):
        del index[key]
        return
    slots.discard(slot)
    if len(slots) == 1:
        (index[key],) = slots
