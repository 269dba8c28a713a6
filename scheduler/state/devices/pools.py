"""The pools of devices as one node sees them.

Whether a pool is complete is decided from the slices that target the node, and only then from all
slices: an old generation on this node can look complete while the driver publishes a newer one
elsewhere.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.GatherPools.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

import msgspec

from scheduler.model.api import quantity, selectors
from scheduler.model.api.pod_spec import NodeSelector
from scheduler.model.releases import Reference
from scheduler.state.devices.allocated_state import AllocatedState, DeviceId
from scheduler.state.devices.slices import DeviceWithId, PoolId, ResourceSliceTracker, TrackedSlice

__all__ = ["GatherPoolsError", "Pool", "PoolGatherer"]

_encode: Final = msgspec.msgpack.Encoder().encode


class GatherPoolsError(Exception):
    """The pools of a node cannot be determined: a node selector is invalid."""


@dataclass(slots=True, eq=False)
class Pool:
    """A pool as one node sees it."""

    #: Driver and name.
    id: PoolId
    #: Those on the slices that target the node, in the order of the search; none if the pool cannot
    #: be used.
    devices: tuple[DeviceWithId, ...] = ()
    #: The amounts of the shared counters in billionths, by counter set and name.
    counter_sets: Mapping[tuple[str, str], int] = field(default_factory=dict)
    #: All devices of the pool that consume counters, those for other nodes included.
    counter_consumers: tuple[DeviceWithId, ...] = ()
    #: Devices that target nodes one by one, and not this one.
    not_targeting_node: frozenset[DeviceId] = frozenset()
    #: Whether slices of it are missing.
    is_incomplete: bool = False
    #: Whether names in it are not unique, or counters are missing.
    is_invalid: bool = False
    #: The code of its devices and of their allocation, with the revision at which it was computed.
    signature: tuple[tuple[int, int], int] = ((-1, -1), -1)
    #: The code of what is in it, with the generation of the signatures.
    content: tuple[int, int] = (-1, -1)
    #: The positions of the devices, and below zero those of the other consumers of counters; found
    #: when they are needed.
    _positions: dict[DeviceId, int] | None = None
    #: Its place in the order of the search: last where some device has to be made ready first.
    rank: tuple[bool, bytes, bytes] = field(init=False)

    def __post_init__(self) -> None:
        late = any(entry.device.binding_conditions for entry in self.devices)
        driver, name = self.id
        self.rank = (late, driver.encode(), name.encode())

    @property
    def name(self) -> str:
        """Driver and name, joined by a slash."""
        return "/".join(self.id)

    def position(self, device: DeviceId) -> int | None:
        """Return the position of a device, below zero if only its counters matter here."""
        if self._positions is None:
            others = enumerate(self.counter_consumers, 1)
            self._positions = {consumer.id: -number for number, consumer in others}
            self._positions |= {each.id: number for number, each in enumerate(self.devices)}
        return self._positions.get(device)

    def available_counters(self, allocated_state: AllocatedState) -> dict[tuple[str, str], int]:
        """Return what allocations leave of the counters, in billionths; it may be negative.

        Source: dynamic-resource-allocation v0.36.3 incubating.allocator.checkAvailableCounters.
        """
        available = dict(self.counter_sets)
        for device in self.counter_consumers:
            if allocated_state.is_allocated_or_shared(device.id):
                for counter, amount in device.consumes_counters:
                    available[counter] -= amount
        return available


#: A node name, whether all nodes are meant, and a node selector.
_Target = tuple[str | None, bool | None, NodeSelector | None]


def _node_matches(target: _Target, name: str, labels: Mapping[str, str]) -> bool:
    """Return whether a slice or a device targets a node.

    Args:
        target: The first part that is set counts.
        name: Of the node.
        labels: Of the node.

    Raises:
        GatherPoolsError: The node selector is invalid.
    """
    node_name, all_nodes, selector = target
    if node_name:
        return node_name == name
    if all_nodes or selector is None:
        return bool(all_nodes)
    for term in selector.node_selector_terms:
        for expression in term.match_expressions:
            if not selectors.valid_node_requirement(expression):
                raise GatherPoolsError(f"failed to parse node selector: {expression.operator!r}")
    return any(selectors.matches_term(term, name, labels) for term in selector.node_selector_terms)


class PoolGatherer:
    """Determines the pools of nodes. Nodes that see the same slices of a pool share the result."""

    def __init__(self, slices: ResourceSliceTracker, reference: Reference) -> None:
        self._slices: Final = slices
        self._reference: Final = reference
        #: By pool, then by the names of the slices and the devices in them that target other nodes.
        self._pools: dict[
            PoolId, dict[tuple[tuple[str, ...], frozenset[DeviceId]], Pool | None]
        ] = {}
        self._shared_slices: dict[PoolId, _SharedSlices] = {}

    def forget(self, pool: PoolId) -> None:
        """Forget a pool whose slices or taints have changed."""
        self._pools.pop(pool, None)
        self._shared_slices.pop(pool, None)

    def gather_pools(
        self, name: str, labels: Mapping[str, str], elsewhere: Iterable[PoolId]
    ) -> tuple[Pool, ...]:
        """Return the pools of a node, in the order of the search.

        Args:
            name: Of the node.
            labels: Of the node.
            elsewhere: Pools that the node sees only by their counters.

        Raises:
            GatherPoolsError: A node selector is invalid.
        """
        by_pool: dict[PoolId, list[TrackedSlice]] = {}
        for entry in self._slices.by_node.get(name, {}).values():
            by_pool.setdefault(entry.pool, []).append(entry)
        pools: list[Pool | None] = []
        for pool in self._slices.shared:
            shared = self._shared_slices.get(pool)
            if shared is None:
                shared = _SharedSlices(self._slices.shared[pool].values())
                self._shared_slices[pool] = shared
            positions = shared.targeting(name, labels)
            if pool not in by_pool and positions and not shared.per_device:
                if positions not in shared.pools:
                    targeting = shared.slices(positions)
                    shared.pools[positions] = self._pool(pool, targeting, name, labels)
                pools.append(shared.pools[positions])
            elif positions:
                by_pool.setdefault(pool, []).extend(shared.slices(positions))
        for pool in elsewhere:
            by_pool.setdefault(pool, [])
        pools += [self._pool(pool, targeting, name, labels) for pool, targeting in by_pool.items()]
        return tuple(sorted(filter(None, pools), key=attrgetter("rank")))

    def devices_of(self, name: str, labels: Mapping[str, str]) -> Iterator[DeviceWithId]:
        """Yield the devices on all slices that target a node, whatever state their pools are in.

        Raises:
            GatherPoolsError: A node selector is invalid.
        """
        slices = [*self._slices.by_node.get(name, {}).values()]
        for of_pool in self._slices.shared.values():
            slices += [entry for entry in of_pool.values() if _targets_node(entry, name, labels)]
        excluded = frozenset(_not_targeting_node(slices, name, labels))
        for entry in slices:
            yield from (device for device in entry.devices if device.id not in excluded)

    def seen_elsewhere(self, pool: PoolId) -> Pool | None:
        """Return a pool with counters as seen by nodes that have no devices of it.

        Returns:
            `None` if they do not see it: it has no counters, or the release looks only at slices
            of the node.
        """
        if not self._reference.counters_concern_every_node:
            return None
        entries = self._slices.pools.get(pool, {}).values()
        if not any(entry.item.spec.shared_counters for entry in entries):
            return None
        return self._pool(pool, [], "", {})

    def _pool(
        self, pool: PoolId, targeting: list[TrackedSlice], name: str, labels: Mapping[str, str]
    ) -> Pool | None:
        """Return a pool as seen by a node, from the slices that target the node."""
        all_slices = self._slices.pools[pool].values()
        if self._reference.counters_concern_every_node:
            names = {entry.name for entry in targeting}
            targeting = targeting + [
                entry
                for entry in all_slices
                if entry.item.spec.shared_counters and entry.name not in names
            ]
        excluded = frozenset(_not_targeting_node(targeting, name, labels))
        key = (tuple(sorted(entry.name for entry in targeting)), excluded)
        pools = self._pools.setdefault(pool, {})
        if key not in pools:
            pools[key] = _gather_pool(pool, targeting, all_slices, self._reference, excluded)
        return pools[key]


def _not_targeting_node(
    entries: Iterable[TrackedSlice], name: str, labels: Mapping[str, str]
) -> Iterator[DeviceId]:
    """Yield the devices that target nodes one by one, and not this one."""
    for entry in entries:
        if entry.item.spec.per_device_node_selection:
            for device_with_id in entry.devices:
                device = device_with_id.device
                target = (device.node_name, device.all_nodes, device.node_selector)
                if not _node_matches(target, name, labels):
                    yield device_with_id.id


class _SharedSlices:
    """The slices of a pool that name no node, by the nodes that they target.

    A pool may have thousands of slices for all nodes: only one of those with equal targets is
    compared with a node.
    """

    def __init__(self, slices: Iterable[TrackedSlice]) -> None:
        by_target: dict[object, list[TrackedSlice]] = {}
        for entry in slices:
            spec = entry.item.spec
            target = _encode((spec.all_nodes, spec.node_selector))
            key = entry.name if spec.per_device_node_selection else target
            by_target.setdefault(key, []).append(entry)
        self._by_target: Final = tuple(by_target.values())
        #: Whether devices target nodes one by one, so that nodes see different ones of a slice.
        self.per_device: Final = any(
            first.item.spec.per_device_node_selection for first, *_ in self._by_target
        )
        #: The pool by the positions of the targets that include a node.
        self.pools: Final[dict[tuple[int, ...], Pool | None]] = {}

    def targeting(self, name: str, labels: Mapping[str, str]) -> tuple[int, ...]:
        """Return the positions of the targets that include a node.

        Raises:
            GatherPoolsError: A node selector is invalid.
        """
        targets = enumerate(self._by_target)
        return tuple(at for at, same in targets if _targets_node(same[0], name, labels))

    def slices(self, positions: Iterable[int]) -> list[TrackedSlice]:
        """Return the slices with one of the targets."""
        return [entry for at in positions for entry in self._by_target[at]]


def _targets_node(entry: TrackedSlice, name: str, labels: Mapping[str, str]) -> bool:
    spec = entry.item.spec
    try:
        if spec.all_nodes or spec.node_selector is not None:
            return _node_matches((None, spec.all_nodes, spec.node_selector), name, labels)
        return bool(spec.per_device_node_selection) and any(
            _node_matches((device.node_name, device.all_nodes, device.node_selector), name, labels)
            for device in spec.devices
        )
    except GatherPoolsError as error:
        text = f"failed to perform node selection for slice {entry.name}: {error}"
        raise GatherPoolsError(f"gather pool information: {text}") from error


def _gather_pool(
    pool: PoolId,
    targeting: list[TrackedSlice],
    all_slices: Iterable[TrackedSlice],
    reference: Reference,
    not_targeting_node: frozenset[DeviceId],
) -> Pool | None:
    """Return a pool as a node sees it; `None` if the slices that target the node are outdated."""
    if reference.ignores_slices_with_compatibility_groups:
        targeting = [entry for entry in targeting if not entry.uses_compatibility_groups]
    newest = max((entry.item.spec.pool.generation for entry in targeting), default=None)
    if newest is None:
        return None
    targeting = sorted(
        (entry for entry in targeting if entry.item.spec.pool.generation == newest), key=_name
    )
    # Upstream reads the slices with the name of the node first; their count may be another one.
    first = min(targeting, key=lambda entry: (not entry.node, _name(entry)))
    count = first.item.spec.pool.resource_slice_count
    complete = targeting
    if len(targeting) != count:
        if any(entry.item.spec.pool.generation > newest for entry in all_slices):
            return None
        if reference.ignores_slices_with_compatibility_groups:
            all_slices = [entry for entry in all_slices if not entry.uses_compatibility_groups]
        complete = sorted(
            (entry for entry in all_slices if entry.item.spec.pool.generation == newest), key=_name
        )
        if len(complete) != count:
            return Pool(pool, is_incomplete=True)
        if not reference.counters_concern_every_node:
            names = {entry.name for entry in targeting}
            targeting = [
                entry
                for entry in complete
                if entry.name in names or entry.item.spec.shared_counters
            ]
    return _build_pool(pool, targeting, complete, not_targeting_node)


def _build_pool(
    pool: PoolId,
    targeting: list[TrackedSlice],
    complete: list[TrackedSlice],
    not_targeting_node: frozenset[DeviceId],
) -> Pool:
    """Return a complete pool; invalid if its names are not unique or its counters are missing."""
    devices = [
        device
        for entry in targeting
        if not entry.item.spec.shared_counters
        for device in entry.devices
    ]
    sets = [shared for entry in targeting for shared in entry.item.spec.shared_counters]
    counters = {
        (shared.name, name): quantity.exact(counter.value)
        for shared in sets
        for name, counter in shared.counters.items()
    }
    all_devices = [device for entry in complete for device in entry.devices]
    consumers = tuple(device for device in all_devices if device.consumes_counters)
    names = Counter(shared.name for shared in sets)
    invalid = (
        len({device.id for device in devices}) < len(devices)
        or any(count > 1 for count in names.values())
        or any(
            consumption.counter_set not in names
            for device in all_devices
            for consumption in device.device.consumes_counters
        )
        or any(name not in counters for device in consumers for name, _ in device.consumes_counters)
    )
    if invalid:
        return Pool(pool, is_invalid=True)
    return Pool(pool, tuple(devices), counters, consumers, not_targeting_node)


def _name(entry: TrackedSlice) -> bytes:
    return entry.name.encode()
