"""Why evictions do not free enough devices on a node, for explanations.

What holds devices of a node is freed in thought, first what all its pods have, whatever their
priority, and then kind by kind. The kind with which the claims of the pod could be allocated is the
reason.

Axes: N rows, n rows that lack devices.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import Final

import numpy as np

from scheduler.framework.verdicts import EvictionOutcome
from scheduler.model.api.devices import Allocation, ResourceClaim
from scheduler.plugins.dynamic_resources.allocation_cache import AllocationStatus, NodeDevices
from scheduler.plugins.dynamic_resources.hypothetical_devices import (
    HypotheticalDevices,
    NodesWithout,
)
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Int, Rows
from scheduler.state.devices.allocated_state import AllocatedState
from scheduler.state.devices.device_nominations import DeviceNomination
from scheduler.state.devices.devices import Devices
from scheduler.state.devices.pools import GatherPoolsError
from scheduler.state.devices.slices import PoolId
from scheduler.state.views.held_devices import Holders
from scheduler.state.views.node_view import NodeView

__all__ = ["why_held"]

#: Who else holds devices, in the order in which they are freed.
_KINDS: Final = (
    EvictionOutcome.DEVICES_NOMINATED,
    EvictionOutcome.DEVICES_HELD_ELSEWHERE,
    EvictionOutcome.DEVICES_UNRESERVED,
    EvictionOutcome.DEVICES_HELD_BY_OTHERS,
)
#: For so many rows at most it is found out which of these it is, as each of them takes a search of
#: its own: others have no outcome.
_MOST_ROWS: Final = 200
#: With the claim, or with the preemptor that it is expected for.
_Held = list[tuple[ResourceClaim | DeviceNomination | None, Allocation]]
#: Returns, (n,), an `AllocationStatus` per node; see `filtering`.
Statuses = Callable[[NodeView, NodeDevices], Int]


class _FreeNodes(NodeDevices):
    """The devices of some nodes as if all of them were free."""

    def __init__(self, devices: Devices, nodes: NodeView) -> None:
        super().__init__(devices, nodes)
        # Nodes of equal signatures are equal as well when all is free.
        _, first, inverse = np.unique(self.signatures, return_index=True, return_inverse=True)
        free = [devices.free_signature(node) for at in first.tolist() if (node := self.node(at))]
        self._signatures = np.array(free, dtype=np.int64)[inverse]

    def allocated_state(self, _position: int) -> AllocatedState:
        return AllocatedState()


def why_held(
    rows: Rows,
    kept: Collection[str],
    cluster: Cluster,
    hypothetical: HypotheticalDevices,
    statuses: Statuses,
) -> Mapping[int, EvictionOutcome]:
    """Return why evictions do not free enough devices, by row.

    Args:
        rows: (n,) rows with a node, where they do not.
        kept: The keys of claims that the preemptor has devices of already.
        cluster: The cluster.
        hypothetical: The devices of hypothetical views.
        statuses: Tells whether its claims can be allocated.

    Raises:
        PluginError: The allocator met an error.
    """
    found: dict[int, EvictionOutcome] = {}
    lacking = []
    for positions, ranked in cluster.pods.ranked(rows):
        view = cluster.hypothetical_view(rows[positions])
        for rank in ranked:
            view.change(rank, -1)
        everywhere = np.ones(len(view), dtype=np.bool_)
        status = statuses(view, hypothetical.of(view, everywhere))
        held = view.rows[status == AllocationStatus.ALLOCATABLE].tolist()
        found |= dict.fromkeys(held, EvictionOutcome.DEVICES_HELD_BY_HIGHER)
        lacking.append(view.rows[status == AllocationStatus.NOT_ALLOCATABLE])
    left = np.concatenate(lacking)
    if not kept:
        nodes = NodeView(cluster.columns, left)
        status = statuses(nodes, _FreeNodes(cluster.devices, nodes))
        too_few = left[status == AllocationStatus.NOT_ALLOCATABLE].tolist()
        found |= dict.fromkeys(too_few, EvictionOutcome.TOO_FEW_DEVICES)
        left = left[status == AllocationStatus.ALLOCATABLE]
    if left.shape[0]:
        freed = hypothetical.visible.freed
        found.update(_kinds_of_holders(left[:_MOST_ROWS], kept, cluster, freed, statuses))
    return found


def _kinds_of_holders(
    rows: Rows,
    kept: Collection[str],
    cluster: Cluster,
    nominated: Mapping[int, Sequence[Allocation]],
    statuses: Statuses,
) -> Mapping[int, EvictionOutcome]:
    """Return what holds the devices of nodes beside their pods, by row.

    What is nominated and does not count for the preemptor is free.
    """
    found: dict[int, EvictionOutcome] = {}
    by_pool = _by_pool(cluster, kept)
    held = {row: _held_on(row, cluster, by_pool) for row in rows.tolist()}
    freed = {row: [*of_row[0], *nominated.get(row, ())] for row, of_row in held.items()}
    counts = {id(each) for of_row in nominated.values() for each in of_row}
    for kind, outcome in enumerate(_KINDS, 1):
        more = [row for row in freed if held[row][kind]]
        for row in more:
            freed[row] += (each for each in held[row][kind] if id(each) not in counts)
        without = [freed[row] for row in more]
        nodes = NodeView(cluster.columns, np.array(more, dtype=np.int64))
        nothing = np.zeros(len(more), dtype=np.bool_)
        devices = NodesWithout(cluster.devices, nodes, without.__getitem__, nothing, int)
        devices.free_each(range(len(more)))
        for row, status in zip(more, statuses(nodes, devices).tolist(), strict=True):
            if status != AllocationStatus.NOT_ALLOCATABLE:
                del freed[row]
            if status == AllocationStatus.ALLOCATABLE:
                found[row] = outcome
    return found | dict.fromkeys(freed, EvictionOutcome.TOO_FEW_DEVICES)


def _by_pool(cluster: Cluster, kept: Collection[str]) -> dict[PoolId, _Held]:
    """Return what holds devices, by pool."""
    by_pool: dict[PoolId, _Held] = {}
    nominated = ((each, one) for each in cluster.devices.nominations for one in each.allocations)
    for claim, allocation in chain(cluster.devices.claims.counting(), nominated):
        if not isinstance(claim, ResourceClaim) or claim.key not in kept:
            results = (each for each in allocation.devices.results if not each.admin_access)
            for pool in {(each.driver, each.pool) for each in results}:
                by_pool.setdefault(pool, []).append((claim, allocation))
    return by_pool


def _held_on(
    row: int, cluster: Cluster, by_pool: Mapping[PoolId, _Held]
) -> Sequence[list[Allocation]]:
    """Return the allocations that hold devices of a node, by kind; first those of its pods."""
    kinds: list[list[Allocation]] = [[] for _ in range(len(_KINDS) + 1)]
    node = cluster.columns.nodes[row]
    if node is None:
        return kinds
    try:
        pools = cluster.devices.pools(node)
    except GatherPoolsError:
        return kinds
    seen: set[int] = set()
    for pool in pools:
        for claim, allocation in by_pool.get(pool.id, ()):
            if id(allocation) not in seen:
                seen.add(id(allocation))
                kinds[_kind(claim, row, cluster)].append(allocation)
    return kinds


def _kind(claim: ResourceClaim | DeviceNomination | None, row: int, cluster: Cluster) -> int:
    """Return the index of a kind, plus one; 0 for the pods of the row.

    What is in flight is not reserved yet.
    """
    if isinstance(claim, DeviceNomination):
        return 1
    if claim is None or not claim.status.reserved_for:
        return 3
    holders = Holders.of(claim, row, cluster.pods)
    return 4 if holders.others else 2 * holders.elsewhere
