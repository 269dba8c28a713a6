"""Why evictions do not free enough devices on a node, for explanations.

What holds devices of a node is freed in thought, first what evictions could free, and then kind by
kind. The kind with which the claims of the pod could be allocated is the reason.

Axes: N rows, n rows that lack devices.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.framework.verdicts import EvictionOutcome
from scheduler.model.api.devices import Allocation, ResourceClaim
from scheduler.plugins.dynamic_resources.allocation_cache import AllocationStatus, NodeDevices
from scheduler.plugins.dynamic_resources.hypothetical_devices import NodesWithout
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Int, Rows
from scheduler.state.devices.pools import GatherPoolsError
from scheduler.state.devices.slices import PoolId
from scheduler.state.views.held_devices import Holders
from scheduler.state.views.node_view import NodeView

__all__ = ["why_held"]

#: Who holds devices, in the order in which they are freed; pods of lower priority come before.
_KINDS: Final = (
    EvictionOutcome.DEVICES_HELD_BY_HIGHER,
    EvictionOutcome.DEVICES_HELD_ELSEWHERE,
    EvictionOutcome.DEVICES_UNRESERVED,
    EvictionOutcome.DEVICES_HELD_BY_OTHERS,
)
_Held = list[tuple[ResourceClaim | None, Allocation]]
#: Returns, (n,), an `AllocationStatus` per node; see `filtering`.
Statuses = Callable[[NodeView, NodeDevices], Int]


def why_held(
    rows: Rows, priority: int, kept: Collection[str], cluster: Cluster, statuses: Statuses
) -> Mapping[int, EvictionOutcome]:
    """Return why evictions do not free enough devices, by row.

    Args:
        rows: (n,) the rows.
        priority: Of the preemptor.
        kept: The keys of claims that it has devices of already.
        cluster: The cluster.
        statuses: Tells whether its claims can be allocated.

    Raises:
        PluginError: The allocator met an error.
    """
    found: dict[int, EvictionOutcome] = {}
    by_pool = _by_pool(cluster, kept)
    held = {row: _held_on(row, priority, cluster, by_pool) for row in rows.tolist()}
    freed = {row: list(of_row[0]) for row, of_row in held.items()}
    for kind, outcome in enumerate(_KINDS, 1):
        more = [row for row in freed if held[row][kind]]
        for row in more:
            freed[row] += held[row][kind]
        nodes = NodeView(cluster.columns).take(np.array(more, dtype=np.int64))
        without = [freed[row] for row in more]
        nothing = np.zeros(len(more), dtype=np.bool_)
        devices = NodesWithout(cluster.devices, nodes, without.__getitem__, nothing, int)
        signatures = [devices.signature(position) for position in range(len(more))]
        devices.free(np.arange(len(more)), np.array(signatures, dtype=np.int64))
        for row, status in zip(more, statuses(nodes, devices).tolist(), strict=True):
            if status != AllocationStatus.NOT_ALLOCATABLE:
                del freed[row]
            if status == AllocationStatus.ALLOCATABLE:
                found[row] = outcome
    return found | dict.fromkeys(freed, EvictionOutcome.TOO_FEW_DEVICES)


def _by_pool(cluster: Cluster, kept: Collection[str]) -> dict[PoolId, _Held]:
    """Return what holds devices, by pool."""
    by_pool: dict[PoolId, _Held] = {}
    for claim, allocation in cluster.devices.claims.counting():
        if claim is None or claim.key not in kept:
            results = (each for each in allocation.devices.results if not each.admin_access)
            for pool in {(each.driver, each.pool) for each in results}:
                by_pool.setdefault(pool, []).append((claim, allocation))
    return by_pool


def _held_on(
    row: int, priority: int, cluster: Cluster, by_pool: Mapping[PoolId, _Held]
) -> Sequence[list[Allocation]]:
    """Return the allocations that hold devices of a node, by kind; first what may be evicted."""
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
                kinds[_kind(claim, row, priority, cluster)].append(allocation)
    return kinds


def _kind(claim: ResourceClaim | None, row: int, priority: int, cluster: Cluster) -> int:
    """Return the index of a kind, plus one; 0 for what may be evicted.

    What is in flight is not reserved yet.
    """
    if claim is None or not claim.status.reserved_for:
        return 3
    holders = Holders.of(claim, row, cluster.pods)
    if holders.others:
        return 4
    if holders.elsewhere:
        return 2
    slots = np.array([*holders.slots], dtype=np.int64)
    return int((cluster.pods.priorities(slots) >= priority).any())
