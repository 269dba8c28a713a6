"""Devices as the scheduler knows them: claims, slices and pools, and what is taken.

Readers that keep something by row learn from `changes` which rows have other devices or other
usage, and from `version` when anything that concerns all rows has changed. What concerns one node
is a pool all of whose slices name nodes; all others concern every row.
"""

from collections.abc import Iterator
from typing import Final

from scheduler.model.api import quantity
from scheduler.model.api.devices import (
    Allocation,
    DeviceClass,
    DeviceObject,
    DeviceTaintRule,
    ResourceClaim,
    ResourceSlice,
    amounts,
)
from scheduler.model.api.objects import Node
from scheduler.model.releases import OLDEST, Reference
from scheduler.state.columns.arrays import Int
from scheduler.state.columns.change_log import ChangeLog
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.devices.claim_users import ClaimUsers
from scheduler.state.devices.device_classes import DeviceClasses
from scheduler.state.devices.pools import NodePool, PoolError, PoolGatherer
from scheduler.state.devices.resource_claims import ClaimTable
from scheduler.state.devices.signatures import Signatures
from scheduler.state.devices.slices import DeviceEntry, PoolId, SliceTable
from scheduler.state.devices.usage import Usage

__all__ = ["Devices"]


class Devices:
    """All objects of dynamic resource allocation. Only the machine changes them.

    A decided allocation goes through `claims.begin`, and `claims.end` or `claims.doubt`.
    """

    def __init__(self, columns: NodeColumns, reference: Reference = OLDEST) -> None:
        self._columns: Final = columns
        self.reference: Final = reference
        self.classes: Final = DeviceClasses()
        self.usage: Final = Usage()
        self.claims: Final = ClaimTable(self._counted)
        self.slices: Final = SliceTable(reference)
        self.users: Final = ClaimUsers()
        #: Rows whose devices or whose usage changed.
        self.changes: Final = ChangeLog()
        #: Grows with each change that concerns all rows.
        self.version = 0
        #: Grows with each change of a device class.
        self.classes_version = 0
        self._signatures: Final = Signatures(columns, self.usage, self.changes)
        self._gatherer: Final = PoolGatherer(self.slices, reference)
        self._pools: dict[str, tuple[dict[str, str], tuple[NodePool, ...] | PoolError]] = {}
        #: Pools with counters that are incomplete or invalid for nodes without devices of them.
        self._bad_elsewhere: dict[PoolId, None] = {}

    def pools(self, node: Node) -> tuple[NodePool, ...]:
        """Return the pools of a node, in the order of the search.

        Raises:
            PoolError: They cannot be determined.
        """
        name, labels = node.metadata.name, node.metadata.labels
        known = self._pools.get(name)
        if known is None or known[0] != labels:
            known = self._pools[name] = (labels, self._gathered(name, labels))
        if isinstance(known[1], PoolError):
            raise known[1]
        return known[1]

    def entries(self, node: Node) -> Iterator[DeviceEntry]:
        """Yield the devices of a node, whatever state their pools are in.

        Raises:
            PoolError: They cannot be determined.
        """
        return self._gatherer.entries(node.metadata.name, node.metadata.labels)

    def signatures(self) -> Int:
        """Return, (N,), the signature of each row: equal ones give the same result."""
        return self._signatures.refreshed(self.version, self.pools)

    def prepare(self) -> bool:
        """Do a part of the work that the next decision needs; return whether more is left.

        Without it the first decision after a change of all rows would do all of that at once.
        """
        return len(self.slices) > 0 and self._signatures.advance(self.version, self.pools)

    @property
    def signature_space(self) -> tuple[int, int]:
        """The generation of the signatures, and how many there are."""
        return self._signatures.generation, len(self._signatures)

    def available(self, pool: NodePool) -> dict[tuple[str, str], int]:
        """Return what is left of the counters of a pool, in billionths; it may be negative."""
        return self._signatures.available(pool)

    def forget_node(self, name: str) -> None:
        """Forget a node that is gone."""
        self._pools.pop(name, None)

    def _gathered(self, name: str, labels: dict[str, str]) -> tuple[NodePool, ...] | PoolError:
        try:
            return self._gatherer.pools(name, labels, self._bad_elsewhere)
        except PoolError as error:
            return error

    def write(self, item: DeviceObject) -> tuple[DeviceObject | None, bool]:
        """Store the state of an object; return the previous one, and whether that matters.

        It does not where a newer state is known, or where a rule changes no taints.

        Raises:
            QuantityError: An amount is not a quantity; nothing is changed then.
        """
        for amount in amounts(item):
            quantity.exact(amount)
        match item:
            case ResourceClaim():
                return self.claims.write(item)
            case ResourceSlice():
                before = self.slices.write(item)
                for state in (before, item):
                    self._repool(state)
                return before, True
            case _:
                rule, pools = self.slices.write_rule(item)
                self._restructured(pools)
                return rule, bool(pools)

    def answer(
        self, claim: ResourceClaim, *, created: bool = False
    ) -> tuple[ResourceClaim | None, bool]:
        """Store the answer to a write of a claim, which may have created it; see `write`."""
        return self.claims.answer(claim, created=created)

    def erase(self, kind: str, key: str) -> tuple[DeviceObject | None, bool]:
        """Remove an object; return its last state, and whether that matters."""
        if kind == ResourceClaim.__name__:
            return self.claims.erase(key), True
        if kind == ResourceSlice.__name__:
            before = self.slices.erase(key)
            self._repool(before)
            return before, True
        if kind == DeviceTaintRule.__name__:
            rule, pools = self.slices.erase_rule(key)
            self._restructured(pools)
            return rule, bool(pools)
        raise ValueError(f"{kind} is no kind of devices")

    def write_class(self, device_class: DeviceClass) -> DeviceClass | None:
        """Store the state of a device class; return its previous state."""
        self.classes_version += 1
        return self.classes.write(device_class)

    def erase_class(self, name: str) -> DeviceClass | None:
        """Remove a device class; return its last state."""
        self.classes_version += 1
        return self.classes.erase(name)

    def _counted(self, before: Allocation | None, now: Allocation | None) -> None:
        """Count another allocation of a claim."""
        for pool in dict.fromkeys(self.usage.change(before, now)):
            self._signatures.touch(pool)
            self._touch(pool, restructured=False)

    def _repool(self, item: ResourceSlice | None) -> None:
        """Look again at the pool of a slice that was added, removed or changed."""
        if item is None:
            return
        pool = (item.spec.driver, item.spec.pool.name)
        self._gatherer.forget(pool)
        if pool not in self.slices.pools:
            self._signatures.forget(pool)
        bad = self._is_bad_elsewhere(pool)
        if bad != (pool in self._bad_elsewhere):
            if bad:
                self._bad_elsewhere[pool] = None
            else:
                del self._bad_elsewhere[pool]
            self._restructure_all()
        elif bad or not item.spec.node_name:
            self._restructure_all()
        else:
            self._touch(pool, restructured=True)
            self._touch_node(item.spec.node_name, restructured=True)

    def _is_bad_elsewhere(self, pool: PoolId) -> bool:
        """Return whether nodes without devices of a pool see that it cannot be used."""
        seen = self._gatherer.elsewhere(pool)
        return seen is not None and (seen.incomplete or seen.invalid)

    def _restructured(self, pools: set[PoolId]) -> None:
        for pool in pools:
            self._gatherer.forget(pool)
            self._touch(pool, restructured=True)

    def _touch(self, pool: PoolId, *, restructured: bool) -> None:
        """Note the rows that see a pool."""
        if pool in self.slices.elsewhere:
            if restructured:
                self._pools.clear()
            self.version += 1
            return
        entries = self.slices.pools.get(pool, {}).values()
        for node in dict.fromkeys(entry.node for entry in entries):
            self._touch_node(node, restructured=restructured)

    def _touch_node(self, node: str, *, restructured: bool) -> None:
        if restructured:
            self._pools.pop(node, None)
        row = self._columns.row(node)
        if row is not None:
            self.changes.record(row)

    def _restructure_all(self) -> None:
        self._pools.clear()
        self.version += 1

    def check(self) -> None:
        """Assert the invariants: usage is the sum over the allocations that count."""
        self.claims.check()
        counted = Usage()
        for allocation in self.claims.counting():
            list(counted.change(None, allocation))
        assert counted == self.usage
