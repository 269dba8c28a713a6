"""Storage as the scheduler knows it: volumes, claims, classes, drivers, and the pods that use them.

A volume that was chosen for a claim, and a claim for which a node was chosen, are *assumed* from
then on: later attempts see the state that they will have in the API server. An observed state
replaces the assumed one; `restore` drops it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from scheduler.model.api import quantity, storage
from scheduler.model.api.objects import Pod
from scheduler.model.api.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    Storage,
    StorageClass,
    VolumeAttachment,
)
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.storage import csi_translation
from scheduler.state.storage.assumed_storage import AssumeCache
from scheduler.state.storage.attachments import Attachments
from scheduler.state.storage.csi_counts import CsiNodes, VolumeCounts
from scheduler.state.storage.csi_translation import CsiVolume, TranslationError
from scheduler.state.storage.mounts import VolumeUse, mounts_of

__all__ = ["Volumes"]

#: Begins the handle of a volume that is not provisioned yet; no driver uses such handles.
_UNPROVISIONED: Final = "\0unmade/"


class Volumes:
    """All storage objects. Only the machine changes them; assumed states go through `assume`."""

    def __init__(self, columns: NodeColumns) -> None:
        self.volumes: Final[AssumeCache[PersistentVolume]] = AssumeCache()
        self.claims: Final[AssumeCache[PersistentVolumeClaim]] = AssumeCache()
        self.classes: Final[dict[str, StorageClass]] = {}
        self.drivers: Final[dict[str, CSIDriver]] = {}
        self.nodes: Final = CsiNodes(columns)
        self.use: Final = VolumeUse(columns)
        self.counts: Final = VolumeCounts(columns, self.csi_volume)
        #: Grows with every change of an object, observed or assumed.
        self.version = 0
        #: The CSI volumes of claims, cached until the next change.
        self._csi_volumes: dict[str, CsiVolume | None] = {}
        self._capacities: dict[str, dict[str, CSIStorageCapacity]] = {}
        self._attachments = Attachments(self.volumes, self.counts)
        #: By name of a volume, the claims that name it.
        self._naming: dict[str, set[str]] = {}
        #: Names of volumes without a claim, by class, and of volumes with one, by claim.
        self._free: dict[str, dict[str, None]] = {}
        self._claimed: dict[str, dict[str, None]] = {}
        self._indexed: dict[str, tuple[dict[str, dict[str, None]], str]] = {}
        self._writers: Final[dict[type, Callable[[Any], Storage | None]]] = {
            PersistentVolume: self._write_volume,
            PersistentVolumeClaim: self._write_claim,
            StorageClass: self._write_class,
            CSINode: self.nodes.write,
            CSIDriver: self._write_driver,
            CSIStorageCapacity: self._write_capacity,
            VolumeAttachment: self._attachments.write,
        }
        self._erasers: Final[dict[str, Callable[[str], Storage | None]]] = {
            PersistentVolume.__name__: self._erase_volume,
            PersistentVolumeClaim.__name__: self._erase_claim,
            StorageClass.__name__: self._erase_class,
            CSINode.__name__: self.nodes.erase,
            CSIDriver.__name__: self._erase_driver,
            CSIStorageCapacity.__name__: self._erase_capacity,
            VolumeAttachment.__name__: self._attachments.erase,
        }

    # Queries --------------------------------------------------------------------------------

    def candidates(self, claim: PersistentVolumeClaim) -> tuple[list[PersistentVolume], ...]:
        """Return the volumes of a claim's class that refer to the claim, and those without a claim.

        Both in name order.
        """
        own = [self._volume(name) for name in sorted(self._claimed.get(claim.key, ()))]
        free = self._free.get(claim.class_name, ())
        return (
            [volume for volume in own if volume.class_name == claim.class_name],
            [self._volume(name) for name in sorted(free)],
        )

    def __iter__(self) -> Iterator[Storage]:
        """Yield all objects, in their assumed state if they have one."""
        yield from self.classes.values()
        yield from self.drivers.values()
        yield from self.nodes
        for capacities in self._capacities.values():
            yield from capacities.values()
        yield from self.volumes
        yield from self.claims
        yield from self._attachments

    @property
    def assumed(self) -> int:
        """How many volumes and claims have an assumed state."""
        return self.volumes.assumed + self.claims.assumed

    def capacities(self, class_name: str) -> Sequence[CSIStorageCapacity]:
        """Return the known storage capacities for volumes of a class."""
        return list(self._capacities.get(class_name, {}).values())

    def csi_volume(self, key: str) -> CsiVolume | None:
        """Return the CSI volume of a claim; `None` if it has none.

        A claim without a volume counts as a volume of its own, of the driver of its class.

        Source: kube-scheduler v1.36.3 nodevolumelimits.getCSIDriverInfo.
        """
        if key not in self._csi_volumes:
            self._csi_volumes[key] = self._resolve(key)
        return self._csi_volumes[key]

    def _resolve(self, key: str) -> CsiVolume | None:
        claim = self.claims.observed(key)
        if claim is None:
            return None
        volume = self.volumes.observed(claim.spec.volume_name)
        if volume is None:
            return self._unprovisioned(claim)
        try:
            return csi_translation.of_volume(volume)
        except TranslationError:
            return None

    def _unprovisioned(self, claim: PersistentVolumeClaim) -> CsiVolume | None:
        storage_class = self.classes.get(claim.class_name)
        if storage_class is None:
            return None
        driver: str | None = storage_class.provisioner
        if driver in csi_translation.MIGRATABLE:
            driver = csi_translation.DRIVERS.get(storage_class.provisioner)
        return None if not driver else CsiVolume(driver, _UNPROVISIONED + claim.key)

    # Assumed states -------------------------------------------------------------------------

    def assume(self, item: PersistentVolume | PersistentVolumeClaim) -> None:
        """Assume a state of a volume or a claim until a newer one is observed."""
        self.version += 1
        if isinstance(item, PersistentVolume):
            self.volumes.assume(item.metadata.name, item)
            self._index_volume(item.metadata.name)
        else:
            self.claims.assume(item.key, item)

    def restore(self, item: PersistentVolume | PersistentVolumeClaim) -> None:
        """Drop an assumed state, unless a newer one was observed since."""
        self.version += 1
        if isinstance(item, PersistentVolume):
            self.volumes.restore(item.metadata.name, item)
            self._index_volume(item.metadata.name)
        else:
            self.claims.restore(item.key, item)

    # Observed states ------------------------------------------------------------------------

    def write(self, item: Storage) -> Storage | None:
        """Store the state of an object; return its previous state.

        Raises:
            QuantityError: An amount is not a quantity; nothing is changed then.
        """
        for amount in storage.amounts(item):
            quantity.exact(amount)
        self._observe_change()
        return self._writers[type(item)](item)

    def erase(self, kind: str, key: str) -> Storage | None:
        """Remove an object; return its last state."""
        self._observe_change()
        return self._erasers[kind](key)

    def _observe_change(self) -> None:
        self.version += 1
        self._csi_volumes.clear()

    def add_pod(self, slot: int, pod: Pod, node: str) -> None:
        """Add the mounts of a pod that got a slot; `node` is empty for a pod on no node."""
        mounts = mounts_of(pod, node)
        if mounts is None:
            return
        self.use.add(slot, mounts)
        if node:
            self.counts.add_pod(node, mounts.claims, mounts.inline)

    def remove_pod(self, slot: int) -> None:
        """Remove the mounts of a pod that loses its slot."""
        mounts = self.use.remove(slot)
        if mounts is not None and mounts.node:
            self.counts.remove_pod(mounts.node, mounts.claims, mounts.inline)

    def _write_volume(self, item: PersistentVolume) -> PersistentVolume | None:
        name = item.metadata.name
        before = self.volumes.write(name, item)
        self._index_volume(name)
        self._volume_changed(name)
        return before

    def _erase_volume(self, name: str) -> PersistentVolume | None:
        before = self.volumes.erase(name)
        self._index_volume(name)
        self._volume_changed(name)
        return before

    def _write_claim(self, item: PersistentVolumeClaim) -> PersistentVolumeClaim | None:
        before = self.claims.write(item.key, item)
        self._index_claim(item.key, before, item)
        return before

    def _erase_claim(self, key: str) -> PersistentVolumeClaim | None:
        before = self.claims.erase(key)
        self._index_claim(key, before, None)
        return before

    def _index_claim(
        self, key: str, before: PersistentVolumeClaim | None, now: PersistentVolumeClaim | None
    ) -> None:
        """Index the volume that a claim names, and update its CSI volume."""
        if before is not None and before.spec.volume_name:
            _drop(self._naming, before.spec.volume_name, key)
        if now is not None and now.spec.volume_name:
            self._naming.setdefault(now.spec.volume_name, set()).add(key)
        self.counts.resolve_again((key,))

    def _write_class(self, item: StorageClass) -> StorageClass | None:
        before = self.classes.get(item.metadata.name)
        self.classes[item.metadata.name] = item
        self.counts.resolve_again()
        return before

    def _erase_class(self, name: str) -> StorageClass | None:
        before = self.classes.pop(name, None)
        self.counts.resolve_again()
        return before

    def _write_driver(self, item: CSIDriver) -> CSIDriver | None:
        before = self.drivers.get(item.metadata.name)
        self.drivers[item.metadata.name] = item
        return before

    def _erase_driver(self, name: str) -> CSIDriver | None:
        return self.drivers.pop(name, None)

    def _write_capacity(self, item: CSIStorageCapacity) -> CSIStorageCapacity | None:
        key = item.metadata.key
        before = self._erase_capacity(key)
        self._capacities.setdefault(item.storage_class_name, {})[key] = item
        return before

    def _erase_capacity(self, key: str) -> CSIStorageCapacity | None:
        for class_name, capacities in self._capacities.items():
            before = capacities.pop(key, None)
            if before is not None:
                if not capacities:
                    del self._capacities[class_name]
                return before
        return None

    # Indices --------------------------------------------------------------------------------

    def _volume_changed(self, name: str) -> None:
        """Update the counts of claims and attachments that name a volume."""
        self.counts.resolve_again(tuple(self._naming.get(name, ())))
        self._attachments.volume_changed(name)

    def _index_volume(self, name: str) -> None:
        """Index a volume by its class if it has no claim, else by its claim."""
        entry = self._indexed.pop(name, None)
        if entry is not None:
            index, key = entry
            del index[key][name]
            if not index[key]:
                del index[key]
        now = self.volumes.get(name)
        if now is None:
            return
        claim = now.spec.claim_ref
        index, key = (self._free, now.class_name) if claim is None else (self._claimed, claim.key)
        index.setdefault(key, {})[name] = None
        self._indexed[name] = (index, key)

    def _volume(self, name: str) -> PersistentVolume:
        volume = self.volumes.get(name)
        if volume is None:
            raise LookupError(f"there is no volume {name}")
        return volume

    def check(self, slots: Sequence[int]) -> None:
        """Assert the invariants: indices and counts follow from objects and mounts.

        Args:
            slots: All slots in use.
        """
        self.use.check(slots)
        used: dict[str, Counter[str]] = {}
        for slot in slots:
            mounts = self.use.get(slot)
            if mounts is not None and mounts.node:
                for claim in mounts.claims:
                    used.setdefault(claim, Counter())[mounts.node] += 1
        self.counts.check(used)
        assert len(self._indexed) == len(self.volumes)
        for index in (self._free, self._claimed):
            for key, names in index.items():
                assert names
                for name in names:
                    assert self._indexed[name] == (index, key)


def _drop(index: dict[str, set[str]], key: str, value: str) -> None:
    values = index.get(key, set())
    values.discard(value)
    if not values:
        index.pop(key, None)
