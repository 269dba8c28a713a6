"""Storage as the scheduler believes it to be: volumes, claims, classes, drivers, and who uses them.

A volume that was chosen for a claim, and a claim for which a node was chosen, are *assumed* from
then on: later attempts see them as they will be once the API server knows. News of the object
replaces what was assumed of it; so does a withdrawal.
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
from scheduler.state.storage.assume_cache import AssumeCache
from scheduler.state.storage.attachments import Attachments
from scheduler.state.storage.csi_counts import CsiNodes, VolumeCounts
from scheduler.state.storage.csi_translation import CsiVolume, TranslationError
from scheduler.state.storage.mounts import VolumeUse, mounts_of

__all__ = ["Volumes"]

#: Begins the handle of a volume that is not made yet: no driver has such a one.
_UNMADE: Final = "\0unmade/"


class Volumes:
    """All storage. Only the machine changes it; what is assumed goes through `assume`."""

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
        #: What claims come down to, as far as it was asked for since anything changed.
        self._csi_volumes: dict[str, CsiVolume | None] = {}
        self._capacities: dict[str, dict[str, CSIStorageCapacity]] = {}
        self._attachments = Attachments(self.volumes, self.counts)
        #: By name of the volume: the claims that name it.
        self._naming: dict[str, set[str]] = {}
        #: Names of volumes that nobody has, by class, and of those that a claim has, by claim.
        self._free: dict[str, dict[str, None]] = {}
        self._taken: dict[str, dict[str, None]] = {}
        self._filed: dict[str, tuple[dict[str, dict[str, None]], str]] = {}
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

    # What is asked --------------------------------------------------------------------------

    def candidates(self, claim: PersistentVolumeClaim) -> tuple[list[PersistentVolume], ...]:
        """Return the volumes of a claim's class that it has already, and those that nobody has.

        Both in name order.
        """
        mine = [self._believed(name) for name in sorted(self._taken.get(claim.key, ()))]
        free = self._free.get(claim.class_name, ())
        return (
            [each for each in mine if each.class_name == claim.class_name],
            [self._believed(name) for name in sorted(free)],
        )

    def __iter__(self) -> Iterator[Storage]:
        """Yield all objects, as they are believed to be."""
        yield from self.classes.values()
        yield from self.drivers.values()
        yield from self.nodes
        for found in self._capacities.values():
            yield from found.values()
        yield from self.volumes
        yield from self.claims
        yield from self._attachments

    def capacities(self, class_name: str) -> Sequence[CSIStorageCapacity]:
        """Return what is known of the room for volumes of a class."""
        return list(self._capacities.get(class_name, {}).values())

    def csi_volume(self, key: str) -> CsiVolume | None:
        """Return which volume of a CSI driver a claim comes down to; `None` for none.

        A claim without a volume counts for one of its own, of the driver of its class.

        Source: kube-scheduler v1.36.3 nodevolumelimits.getCSIDriverInfo.
        """
        if key not in self._csi_volumes:
            self._csi_volumes[key] = self._come_down_to(key)
        return self._csi_volumes[key]

    def _come_down_to(self, key: str) -> CsiVolume | None:
        claim = self.claims.observed(key)
        if claim is None:
            return None
        volume = self.volumes.observed(claim.spec.volume_name)
        if volume is None:
            return self._unmade(claim)
        try:
            return csi_translation.of_volume(volume)
        except TranslationError:
            return None

    def _unmade(self, claim: PersistentVolumeClaim) -> CsiVolume | None:
        found = self.classes.get(claim.class_name)
        if found is None:
            return None
        driver: str | None = found.provisioner
        if driver in csi_translation.MIGRATABLE:
            driver = csi_translation.DRIVERS.get(found.provisioner)
        return None if not driver else CsiVolume(driver, _UNMADE + claim.key)

    # What is assumed ------------------------------------------------------------------------

    def assume(self, item: PersistentVolume | PersistentVolumeClaim) -> None:
        """Assume a state of a volume or a claim until there is news of it."""
        self.version += 1
        if isinstance(item, PersistentVolume):
            self.volumes.assume(item.metadata.name, item)
            self._file(item.metadata.name)
        else:
            self.claims.assume(item.key, item)

    def restore(self, item: PersistentVolume | PersistentVolumeClaim) -> None:
        """Take back what was assumed, unless there was news since."""
        self.version += 1
        if isinstance(item, PersistentVolume):
            self.volumes.restore(item.metadata.name, item)
            self._file(item.metadata.name)
        else:
            self.claims.restore(item.key, item)

    # What is observed -----------------------------------------------------------------------

    def write(self, item: Storage) -> Storage | None:
        """Take over the state of an object; return its last one.

        Raises:
            QuantityError: An amount is no quantity; nothing is changed then.
        """
        for amount in storage.amounts(item):
            quantity.exact(amount)
        self._observe_change()
        return self._writers[type(item)](item)

    def erase(self, kind: str, key: str) -> Storage | None:
        """Forget an object; return its last state."""
        self._observe_change()
        return self._erasers[kind](key)

    def _observe_change(self) -> None:
        self.version += 1
        self._csi_volumes.clear()

    def enter(self, slot: int, pod: Pod, node: str) -> None:
        """Take note of the mounts of a pod that has got a slot, on a node or, if empty, on none."""
        mounts = mounts_of(pod, node)
        if mounts is None:
            return
        self.use.enter(slot, mounts)
        if node:
            self.counts.enter(node, mounts.claims, mounts.inline)

    def leave(self, slot: int) -> None:
        """Forget the mounts of a pod that loses its slot."""
        mounts = self.use.leave(slot)
        if mounts is not None and mounts.node:
            self.counts.leave(mounts.node, mounts.claims, mounts.inline)

    def _write_volume(self, item: PersistentVolume) -> PersistentVolume | None:
        name = item.metadata.name
        before = self.volumes.write(name, item)
        self._file(name)
        self._volume_changed(name)
        return before

    def _erase_volume(self, name: str) -> PersistentVolume | None:
        before = self.volumes.erase(name)
        self._file(name)
        self._volume_changed(name)
        return before

    def _write_claim(self, item: PersistentVolumeClaim) -> PersistentVolumeClaim | None:
        before = self.claims.write(item.key, item)
        self._name(item.key, before, item)
        return before

    def _erase_claim(self, key: str) -> PersistentVolumeClaim | None:
        before = self.claims.erase(key)
        self._name(key, before, None)
        return before

    def _name(
        self, key: str, before: PersistentVolumeClaim | None, now: PersistentVolumeClaim | None
    ) -> None:
        """Note which volume a claim names, and find out what it comes down to."""
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
        key = storage.key(item)
        before = self._erase_capacity(key)
        self._capacities.setdefault(item.storage_class_name, {})[key] = item
        return before

    def _erase_capacity(self, key: str) -> CSIStorageCapacity | None:
        for class_name, found in self._capacities.items():
            before = found.pop(key, None)
            if before is not None:
                if not found:
                    del self._capacities[class_name]
                return before
        return None

    # What follows from it -------------------------------------------------------------------

    def _volume_changed(self, name: str) -> None:
        """Find out anew what counts for what because of a volume."""
        self.counts.resolve_again(tuple(self._naming.get(name, ())))
        self._attachments.volume_changed(name)

    def _file(self, name: str) -> None:
        """File a volume under its class while nobody has it, else under the claim that has it."""
        filed = self._filed.pop(name, None)
        if filed is not None:
            index, key = filed
            del index[key][name]
            if not index[key]:
                del index[key]
        now = self.volumes.get(name)
        if now is None:
            return
        claim = now.spec.claim_ref
        index, key = (self._free, now.class_name) if claim is None else (self._taken, claim.key)
        index.setdefault(key, {})[name] = None
        self._filed[name] = (index, key)

    def _believed(self, name: str) -> PersistentVolume:
        found = self.volumes.get(name)
        if found is None:
            raise LookupError(f"there is no volume {name}")
        return found

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
        assert len(self._filed) == len(self.volumes)
        for index in (self._free, self._taken):
            for key, names in index.items():
                assert names
                for name in names:
                    assert self._filed[name] == (index, key)


def _drop(index: dict[str, set[str]], key: str, value: str) -> None:
    values = index.get(key, set())
    values.discard(value)
    if not values:
        index.pop(key, None)
