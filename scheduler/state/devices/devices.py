"""Devices as the scheduler knows them: claims, slices and pools, and the allocated state.

Readers that cache values by row learn from `changes` on which rows devices or allocations changed,
and from `version` that something changed for all rows. A pool whose slices all name nodes changes
single rows; every other pool changes all of them.

Source: kube-scheduler v1.36.3 dynamicresources.DefaultDRAManager.
"""

from collections.abc import Iterator, Sequence
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
from scheduler.state.columns.change_log import ChangeCount, ChangeLog
from scheduler.state.columns.node_columns import NodeColumns
from scheduler.state.devices.allocated_state import AllocatedState, DeviceId
from scheduler.state.devices.claim_users import ClaimUsers
from scheduler.state.devices.device_classes import DeviceClasses
from scheduler.state.devices.device_nominations import DeviceNominations
from scheduler.state.devices.pools import GatherPoolsError, Pool, PoolGatherer
from scheduler.state.devices.resource_claims import ClaimTracker
from scheduler.state.devices.signatures import UNDETERMINED, Signatures
from scheduler.state.devices.slices import DeviceWithId, PoolId, ResourceSliceTracker

__all__ = ["Devices"]


class Devices:
    """All objects of dynamic resource allocation. Only the machine changes them.

    A decided allocation goes through `claims.begin`, and `claims.end` or `claims.await_state`.
    """

    def __init__(self, columns: NodeColumns, reference: Reference = OLDEST) -> None:
        self._columns: Final = columns
        self.reference: Final = reference
        self.classes: Final = DeviceClasses()
        self.allocated_state: Final = AllocatedState()
        self.claims: Final = ClaimTracker(self._allocation_changed)
        self.nominations: Final = DeviceNominations(self._allocation_changed)
        self.slices: Final = ResourceSliceTracker(reference)
        self.users: Final = ClaimUsers()
        #: Rows whose devices or allocations changed.
        self.changes: Final = ChangeLog()
        #: Changes of all rows.
        self.changes_of_all_rows: Final = ChangeCount()
        #: Grows with each change of a device class.
        self.classes_version = 0
        self._signatures: Final = Signatures(columns, self.allocated_state, self.changes)
        self._gatherer: Final = PoolGatherer(self.slices, reference)
        self._pools: dict[str, tuple[dict[str, str], tuple[Pool, ...] | GatherPoolsError]] = {}
        #: Pools with counters that are incomplete or invalid for nodes without devices of them.
        self._unusable_elsewhere: dict[PoolId, None] = {}

    @property
    def version(self) -> int:
        """Grows with each change of all rows."""
        return self.changes_of_all_rows.position

    def pools(self, node: Node) -> tuple[Pool, ...]:
        """Return the pools of a node, in the order of the search.

        Raises:
            GatherPoolsError: They cannot be determined.
        """
        name, labels = node.metadata.name, node.metadata.labels
        cached = self._pools.get(name)
        if cached is None or cached[0] != labels:
            pools: tuple[Pool, ...] | GatherPoolsError
            try:
                pools = self._gatherer.gather_pools(name, labels, self._unusable_elsewhere)
            except GatherPoolsError as error:
                pools = error
            cached = self._pools[name] = (labels, pools)
        if isinstance(cached[1], GatherPoolsError):
            raise cached[1]
        return cached[1]

    def devices_of(self, node: Node) -> Iterator[DeviceWithId]:
        """Yield the devices of a node, whatever state their pools are in.

        Raises:
            GatherPoolsError: They cannot be determined.
        """
        return self._gatherer.devices_of(node.metadata.name, node.metadata.labels)

    def signatures(self) -> Int:
        """Return, (N,), the signature of each row: equal ones give the same result."""
        return self._signatures.refreshed(self.version, self.pools)

    def waits_on(self, uid: str, node: str | None) -> bool:
        """Return whether a preemptor waits for devices of a node to be free, or to be its own."""
        nomination = self.nominations.get(uid)
        if nomination is None or nomination.node != node:
            return False
        return bool(nomination.claims) or any(map(self.claims.is_in_flight, nomination.devices))

    def begin_attempt(self) -> None:
        """Begin an attempt: signatures keep their meaning until the next one."""
        self._signatures.begin_attempt()

    def signature_without(self, node: Node, allocations: Sequence[Allocation]) -> int:
        """Return the signature of a node as if some allocations were gone."""
        try:
            seen = self.pools(node)
        except GatherPoolsError:
            return UNDETERMINED
        freed: dict[PoolId, list[tuple[DeviceId, str]]] = {}
        for allocation in allocations:
            for result in allocation.devices.results:
                if not result.admin_access:
                    key = (result.id, result.share_id or "")
                    freed.setdefault((result.driver, result.pool), []).append(key)
        keys = {pool: tuple(sorted(of_pool)) for pool, of_pool in freed.items()}
        state = self.allocated_state.without(allocations)
        return self._signatures.hypothetical(seen, state, keys)

    def signature_without_whole(self, node: Node, devices: int) -> int:
        """Return the signature of a node as if whole devices were freed.

        Args:
            node: The node, whose pools have no counters.
            devices: Each has a bit, by its position in all pools; one claim has it alone.
        """
        return self._signatures.without_whole(self.pools(node), devices)

    def state_without_whole(self, node: Node, devices: int) -> AllocatedState:
        """Return the allocated state as if whole devices were freed; see the method above."""
        all_devices = (each for pool in self.pools(node) for each in pool.devices)
        ids = [each.id for at, each in enumerate(all_devices) if devices >> at & 1]
        return self.allocated_state.without_whole(ids)

    def free_signature(self, node: Node) -> int:
        """Return the signature of a node as if all devices were free."""
        try:
            seen = self.pools(node)
        except GatherPoolsError:
            return UNDETERMINED
        return self._signatures.hypothetical(seen, AllocatedState(), {pool.id: () for pool in seen})

    def prepare(self) -> bool:
        """Do a part of the work that the next decision needs; return whether more is left.

        Without it the first decision after a change of all rows would do all of that at once.
        """
        return len(self.slices) > 0 and self._signatures.advance(self.version, self.pools)

    @property
    def signature_space(self) -> tuple[int, int]:
        """The generation of the signatures, and how many there are."""
        return self._signatures.generation, len(self._signatures)

    def forget_node(self, name: str) -> None:
        """Forget a node that is gone."""
        self._pools.pop(name, None)

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
                    self._slice_changed(state)
                return before, True
            case _:
                rule, pools = self.slices.write_rule(item)
                self._taints_changed(pools)
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
            self._slice_changed(before)
            return before, True
        if kind == DeviceTaintRule.__name__:
            rule, pools = self.slices.erase_rule(key)
            self._taints_changed(pools)
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

    def _allocation_changed(self, before: Allocation | None, now: Allocation | None) -> None:
        """Replace an allocation of a claim, or for a preemptor, in the allocated state."""
        for pool in dict.fromkeys(self.allocated_state.change(before, now)):
            self._signatures.allocation_changed(pool)
            self._record_pool(pool, gathers=False)

    def _slice_changed(self, item: ResourceSlice | None) -> None:
        """Forget the pool of a slice that was added, removed or changed."""
        if item is None:
            return
        pool = (item.spec.driver, item.spec.pool.name)
        self._gatherer.forget(pool)
        if pool not in self.slices.pools:
            self._signatures.forget(pool)
        unusable = self._is_unusable_elsewhere(pool)
        if unusable != (pool in self._unusable_elsewhere):
            if unusable:
                self._unusable_elsewhere[pool] = None
            else:
                del self._unusable_elsewhere[pool]
            self._record_all()
        elif unusable or not item.spec.node_name:
            self._record_all()
        else:
            self._record_pool(pool, gathers=True)
            self._record_node(item.spec.node_name, gathers=True)

    def _is_unusable_elsewhere(self, pool: PoolId) -> bool:
        """Return whether nodes without devices of a pool see that it cannot be used."""
        seen = self._gatherer.seen_elsewhere(pool)
        return seen is not None and (seen.is_incomplete or seen.is_invalid)

    def _taints_changed(self, pools: set[PoolId]) -> None:
        for pool in pools:
            self._gatherer.forget(pool)
            self._record_pool(pool, gathers=True)

    def _record_pool(self, pool: PoolId, *, gathers: bool) -> None:
        """Record the rows that see a pool as changed; `gathers`: their pools are gathered again."""
        if pool in self.slices.shared:
            if gathers:
                self._pools.clear()
            self.changes_of_all_rows.record()
            return
        entries = self.slices.pools.get(pool, {}).values()
        for node in dict.fromkeys(entry.node for entry in entries):
            self._record_node(node, gathers=gathers)

    def _record_node(self, node: str, *, gathers: bool) -> None:
        if gathers:
            self._pools.pop(node, None)
        row = self._columns.row(node)
        if row is not None:
            self.changes.record(row)

    def _record_all(self) -> None:
        self._pools.clear()
        self.changes_of_all_rows.record()

    def check(self) -> None:
        """Assert the invariants: the allocated state is the sum over what counts as allocated."""
        self.claims.check()
        expected = AllocatedState()
        for _, allocation in self.claims.counting():
            list(expected.change(None, allocation))
        for nomination in self.nominations:
            for allocation in nomination.allocations:
                list(expected.change(None, allocation))
        assert expected == self.allocated_state
