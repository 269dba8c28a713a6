"""Score: nodes where earlier subrequests of prioritized lists can be allocated.

Source: kube-scheduler v1.36.3 dynamicresources.Score, computeScore.

Axes: n rows of a view.
"""

import numpy as np

from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import (
    SKIP,
    CompiledScore,
    PrepareStatus,
    Reads,
    normalise_to_max,
)
from scheduler.model.api.device_claims import MAX_SUB_REQUESTS
from scheduler.model.api.devices import ResourceClaim
from scheduler.plugins.dynamic_resources.claim_allocator import ClaimAllocator
from scheduler.plugins.dynamic_resources.state_data import StateData, get_state_data
from scheduler.state.columns.arrays import Scores
from scheduler.state.views.node_view import NodeView

__all__ = ["SubRequestScore"]


class SubRequestScore(CompiledScore):
    """Prefers nodes where earlier subrequests are allocated."""

    reads = Reads.CLUSTER
    needs_normalising = True

    def __init__(self, allocator: ClaimAllocator, data: StateData | None = None) -> None:
        self._allocator = allocator
        self._data = data

    def prepare(self, state: AttemptState, /) -> PrepareStatus | CompiledScore:
        """Skip pods without subrequests."""
        data = get_state_data(state)
        if data is None or not _has_sub_requests(data):
            return SKIP
        return SubRequestScore(self._allocator, data)

    def scores(self, nodes: NodeView) -> Scores:
        """Return, (n,), the sums over the selected subrequests; 0 if nothing is to be allocated.

        Raises:
            PluginError: The allocator met an error.
        """
        scores: Scores = np.zeros(len(nodes), dtype=np.int64)
        if self._data is None:
            return scores
        allocated = sum(map(_score_of_allocation, self._data.user_claims))
        devices = self._allocator.visible_devices(self._data).of(nodes)
        for positions, claims in self._allocator.claims_by_node(self._data, nodes):
            of_claims = self._allocator.cache.scores(claims, devices.take(positions))
            scores[positions] = allocated + of_claims
        return scores

    def normalise(self, raw: Scores) -> Scores:
        return normalise_to_max(raw)


def _has_sub_requests(data: StateData) -> bool:
    return any(
        request.first_available
        for claim in data.user_claims
        for request in claim.spec.devices.requests
    )


def _score_of_allocation(claim: ResourceClaim) -> int:
    """Return the score of the subrequests in an allocation that was made before."""
    allocation, total = claim.status.allocation, 0
    if allocation is None:
        return 0
    results = {result.request for result in allocation.devices.results}
    for request in claim.spec.devices.requests:
        names = [f"{request.name}/{sub.name}" for sub in request.first_available]
        selected = next((at for at, name in enumerate(names) if name in results), None)
        total += 0 if selected is None else MAX_SUB_REQUESTS - selected
    return total
