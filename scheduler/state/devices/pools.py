"""The pools of devices as one node sees them.

A pool is judged by the slices that concern the node first, and only then by all: an old generation
on this node can look complete while the driver publishes a newer one elsewhere.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.GatherPools.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from scheduler.model.api import quantity, selectors
from scheduler.model.api.pod_spec import NodeSelector
from scheduler.model.releases import Reference
from scheduler.state.devices.slices import DeviceEntry, PoolId, SliceEntry, SliceTable
from scheduler.state.devices.usage import DeviceId

__all__ = ["NodePool", "PoolError", "PoolGatherer"]

_encode: Final = msgspec.msgpack.Encoder().encode


class PoolError(Exception):
    """The pools of a node cannot be determined: a node selector is invalid."""


@dataclass(slots=True, eq=False)
class NodePool:
    """A pool as one node sees it."""

    #: Driver and name.
    id: PoolId
    #: In the order of the search; none where the pool must not be used.
    devices: tuple[DeviceEntry, ...] = ()
    #: The amounts of the shared counters in billionths, by counter set and name.
    counters: Mapping[tuple[str, str], int] = field(default_factory=dict)
    #: All devices of the pool that consume counters, those for other nodes included.
    counted: tuple[DeviceEntry, ...] = ()
    #: Devices that say themselves where they are, and are not on the node.
    unreachable: frozenset[DeviceId] = frozenset()
    #: Whether slices of it are missing.
    incomplete: bool = False
    #: Whether names in it are not unique, or counters are missing.
    invalid: bool = False
    #: Of its devices and what is taken of them, with the moment of its computation.
    signature: tuple[tuple[int, int], int] = ((-1, -1), -1)
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


def _is_reachable(
    place: tuple[str | None, bool | None, NodeSelector | None], name: str, labels: Mapping[str, str]
) -> bool:
    """Return whether a place includes a node.

    Args:
        place: A node name, whether it is all nodes, and a node selector; the first one set counts.
        name: Of the node.
        labels: Of the node.

    Raises:
        PoolError: The node selector is invalid.
    """
    node_name, everywhere, selector = place
    if node_name:
        return node_name == name
    if everywhere or selector is None:
        return bool(everywhere)
    for term in selector.node_selector_terms:
        for expression in term.match_expressions:
            if not selectors.valid_node_requirement(expression):
                raise PoolError(f"failed to parse node selector: {expression.operator!r}")
    return any(selectors.matches_term(term, name, labels) for term in selector.node_selector_terms)


class PoolGatherer:
    """Determines the pools of nodes. Nodes that see the same slices of a pool share the result."""

    def __init__(self, slices: SliceTable, reference: Reference) -> None:
        self._slices: Final = slices
        self._reference: Final = reference
        #: By pool, then by the slices that are seen and the devices in them that are not reachable.
        self._shared: dict[PoolId, dict[_Seen, NodePool | None]] = {}
        self._placed: dict[PoolId, _Placed] = {}

    def forget(self, pool: PoolId) -> None:
        """Forget a pool whose slices or taints have changed."""
        self._shared.pop(pool, None)
        self._placed.pop(pool, None)

    def pools(
        self, name: str, labels: Mapping[str, str], elsewhere: Iterable[PoolId]
    ) -> tuple[NodePool, ...]:
        """Return the pools of a node, in the order of the search.

        Args:
            name: Of the node.
            labels: Of the node.
            elsewhere: Pools that the node sees only by their counters.

        Raises:
            PoolError: A node selector is invalid.
        """
        by_pool: dict[PoolId, list[SliceEntry]] = {}
        for entry in self._slices.by_node.get(name, {}).values():
            by_pool.setdefault(entry.pool, []).append(entry)
        found: list[NodePool | None] = []
        for pool in self._slices.elsewhere:
            placed = self._placed_of(pool)
            chosen = placed.concerning(name, labels)
            if pool not in by_pool and chosen and not placed.by_device:
                if chosen not in placed.pools:
                    seen = placed.entries(chosen)
                    placed.pools[chosen] = self._shared_pool(pool, seen, name, labels)
                found.append(placed.pools[chosen])
            elif chosen:
                by_pool.setdefault(pool, []).extend(placed.entries(chosen))
        for pool in elsewhere:
            by_pool.setdefault(pool, [])
        found += [self._shared_pool(pool, seen, name, labels) for pool, seen in by_pool.items()]
        return tuple(sorted(filter(None, found), key=_rank))

    def _placed_of(self, pool: PoolId) -> "_Placed":
        placed = self._placed.get(pool)
        if placed is None:
            placed = self._placed[pool] = _Placed(self._slices.elsewhere[pool].values())
        return placed

    def entries(self, name: str, labels: Mapping[str, str]) -> Iterator[DeviceEntry]:
        """Yield the devices on all slices that concern a node, whatever state their pools are in.

        Raises:
            PoolError: A node selector is invalid.
        """
        slices = [*self._slices.by_node.get(name, {}).values()]
        for of_pool in self._slices.elsewhere.values():
            slices += [entry for entry in of_pool.values() if _concerns(entry, name, labels)]
        unreachable = frozenset(_unreachable(slices, name, labels))
        for entry in slices:
            yield from (device for device in entry.devices if device.id not in unreachable)

    def elsewhere(self, pool: PoolId) -> NodePool | None:
        """Return a pool with counters as nodes see it that have no devices of it.

        Returns:
            `None` if they do not see it: it has no counters, or the release looks only at slices
            of the node.
        """
        if not self._reference.counters_concern_every_node:
            return None
        entries = self._slices.pools.get(pool, {}).values()
        if not any(entry.item.spec.shared_counters for entry in entries):
            return None
        return self._shared_pool(pool, [], "", {})

    def _shared_pool(
        self, pool: PoolId, seen: list[SliceEntry], name: str, labels: Mapping[str, str]
    ) -> NodePool | None:
        everywhere = self._slices.pools[pool]
        if self._reference.counters_concern_every_node:
            known = {entry.name for entry in seen}
            seen = seen + [
                entry
                for entry in everywhere.values()
                if entry.item.spec.shared_counters and entry.name not in known
            ]
        unreachable = frozenset(_unreachable(seen, name, labels))
        key = (tuple(sorted(entry.name for entry in seen)), unreachable)
        shared = self._shared.setdefault(pool, {})
        if key not in shared:
            shared[key] = _pool(pool, seen, everywhere.values(), self._reference, unreachable)
        return shared[key]


_Seen = tuple[tuple[str, ...], frozenset[DeviceId]]


def _unreachable(
    entries: Iterable[SliceEntry], name: str, labels: Mapping[str, str]
) -> Iterator[DeviceId]:
    """Yield the devices that say themselves where they are, and are not on a node."""
    for entry in entries:
        if entry.item.spec.per_device_node_selection:
            for each in entry.devices:
                device = each.device
                place = (device.node_name, device.all_nodes, device.node_selector)
                if not _is_reachable(place, name, labels):
                    yield each.id


def _rank(pool: NodePool) -> tuple[bool, bytes, bytes]:
    return pool.rank


class _Placed:
    """The slices of a pool that name no node, grouped by where they say that their devices are.

    A pool may have thousands of slices for all nodes: one of each group is looked at for a node.
    """

    def __init__(self, entries: Iterable[SliceEntry]) -> None:
        groups: dict[object, list[SliceEntry]] = {}
        for entry in entries:
            spec = entry.item.spec
            place = _encode((spec.all_nodes, spec.node_selector))
            key = entry.name if spec.per_device_node_selection else place
            groups.setdefault(key, []).append(entry)
        self._groups: Final = tuple(groups.values())
        #: Whether devices say themselves where they are, so that nodes differ within a group.
        self.by_device: Final = any(
            group[0].item.spec.per_device_node_selection for group in self._groups
        )
        #: The pool by the positions of the groups that concern a node.
        self.pools: Final[dict[tuple[int, ...], NodePool | None]] = {}

    def concerning(self, name: str, labels: Mapping[str, str]) -> tuple[int, ...]:
        """Return the positions of the groups that concern a node.

        Raises:
            PoolError: A node selector is invalid.
        """
        groups = enumerate(self._groups)
        return tuple(at for at, group in groups if _concerns(group[0], name, labels))

    def entries(self, chosen: Iterable[int]) -> list[SliceEntry]:
        """Return the slices of groups."""
        return [entry for at in chosen for entry in self._groups[at]]


def _concerns(entry: SliceEntry, name: str, labels: Mapping[str, str]) -> bool:
    spec = entry.item.spec
    try:
        if spec.all_nodes or spec.node_selector is not None:
            return _is_reachable((None, spec.all_nodes, spec.node_selector), name, labels)
        return bool(spec.per_device_node_selection) and any(
            _is_reachable((device.node_name, device.all_nodes, device.node_selector), name, labels)
            for device in spec.devices
        )
    except PoolError as error:
        text = f"failed to perform node selection for slice {entry.name}: {error}"
        raise PoolError(f"gather pool information: {text}") from error


def _pool(
    pool: PoolId,
    relevant: list[SliceEntry],
    everywhere: Iterable[SliceEntry],
    reference: Reference,
    unreachable: frozenset[DeviceId],
) -> NodePool | None:
    """Return a pool as a node sees it; `None` if what the node sees is out of date."""
    if reference.ignores_slices_with_compatibility_groups:
        relevant = [entry for entry in relevant if not entry.grouped]
    newest = max((entry.item.spec.pool.generation for entry in relevant), default=None)
    if newest is None:
        return None
    relevant = sorted(
        (entry for entry in relevant if entry.item.spec.pool.generation == newest), key=_name
    )
    # Upstream meets those with the name of the node first; a driver may tell another number there.
    told = min(relevant, key=lambda entry: (not entry.node, _name(entry)))
    count = told.item.spec.pool.resource_slice_count
    every = relevant
    if len(relevant) != count:
        if any(entry.item.spec.pool.generation > newest for entry in everywhere):
            return None
        if reference.ignores_slices_with_compatibility_groups:
            everywhere = [entry for entry in everywhere if not entry.grouped]
        every = sorted(
            (entry for entry in everywhere if entry.item.spec.pool.generation == newest), key=_name
        )
        if len(every) != count:
            return NodePool(pool, incomplete=True)
        if not reference.counters_concern_every_node:
            known = {entry.name for entry in relevant}
            relevant = [
                entry for entry in every if entry.name in known or entry.item.spec.shared_counters
            ]
    return _built(pool, relevant, every, unreachable)


def _built(
    pool: PoolId,
    relevant: list[SliceEntry],
    every: list[SliceEntry],
    unreachable: frozenset[DeviceId],
) -> NodePool:
    """Return a complete pool; invalid if its names are not unique or its counters are missing."""
    devices = [
        device
        for entry in relevant
        if not entry.item.spec.shared_counters
        for device in entry.devices
    ]
    sets = [shared for entry in relevant for shared in entry.item.spec.shared_counters]
    counters = {
        (shared.name, name): quantity.exact(counter.value)
        for shared in sets
        for name, counter in shared.counters.items()
    }
    counted = [device for entry in every for device in entry.devices if device.counters]
    known_sets = Counter(shared.name for shared in sets)
    invalid = (
        len({device.id for device in devices}) < len(devices)
        or any(count > 1 for count in known_sets.values())
        or any(
            consumption.counter_set not in known_sets
            for entry in every
            for device in entry.devices
            for consumption in device.device.consumes_counters
        )
        or any(counter not in counters for device in counted for counter, _ in device.counters)
    )
    if invalid:
        return NodePool(pool, invalid=True)
    return NodePool(pool, tuple(devices), counters, tuple(counted), unreachable)


def _name(entry: SliceEntry) -> bytes:
    return entry.name.encode()
