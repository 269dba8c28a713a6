"""Compares candidates that kube-scheduler's criteria leave tied: whose victims lose least.

First come the candidates with the fewest victims that can run on no other node now. Each victim is
filtered on its own against all other nodes as they are, by the filters of the preemptor's profile,
nominated pods included. Then come the candidates whose victims started last. A profile has to
enable it.

Axes: C candidate rows, N rows.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from scheduler.core.feasibility import nominated_pods, tie_breaking
from scheduler.core.feasibility.filters import ClassFilters
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.framework.profile import Profile
from scheduler.framework.verdicts import Verdicts
from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Rows

__all__ = ["MAX_TIED", "RelocationCost", "sampled"]

#: At most this many tied candidates are compared. Of more, the hash that breaks ties picks as many.
MAX_TIED: Final = 16


def sampled(tied: Rows, uid: str, cluster: Cluster) -> Rows:
    """Return at most `MAX_TIED` of some equally good rows, in row order; the same each time."""
    if tied.shape[0] <= MAX_TIED:
        return tied
    remaining, picked = tied, []
    for _ in range(MAX_TIED):
        row = tie_breaking.pick(remaining, uid, cluster.columns)
        picked.append(row)
        remaining = remaining[remaining != row]
    return np.array(sorted(picked), dtype=np.int64)


class RelocationCost:
    """Compares candidates by what happens to their victims, in one attempt."""

    def __init__(self, profile: Profile, cluster: Cluster, verdicts: Verdicts) -> None:
        self._profile = profile
        self._cluster = cluster
        self._verdicts = verdicts
        #: The rows that `lowest` returned last.
        self.best: Rows = np.zeros(0, dtype=np.int64)

    def lowest(self, tied: Sequence[Candidate]) -> Rows:
        """Return the rows of the best candidates, in row order."""
        keyed = [(self._key(candidate), candidate.row) for candidate in tied]
        least = min(key for key, _ in keyed)
        self.best = np.array(sorted(row for key, row in keyed if key == least), dtype=np.int64)
        return self.best

    def _key(self, candidate: Candidate) -> tuple[float, ...]:
        """Return the sort key of a candidate; smaller is better."""
        stranded = sum(not self._fits_elsewhere(pod, candidate.row) for pod in candidate.victims)
        starts = [times.parse(pod.status.start_time) for pod in candidate.victims]
        earliest = min(np.inf if start is None else start for start in starts)
        return stranded, -earliest

    def _fits_elsewhere(self, pod: Pod, row: int) -> bool:
        """Return whether a pod could run on another row now."""
        codes = self._codes(pod)
        return bool((np.delete(codes, row) == 0).any())

    def _codes(self, pod: Pod) -> Codes:
        """Return, (N,), the verdicts on a running pod as if it had no node yet."""
        unbound = replace(pod, spec=replace(pod.spec, node_name=""))
        cluster = self._cluster
        filters = ClassFilters(
            cluster, self._profile.compile_filters(unbound, cluster, self._verdicts)
        )
        prepared = filters.prepare(unbound)
        exists = cluster.columns.exists()
        if prepared.rejected is not None:
            return np.ones(exists.shape[0], dtype=np.uint16)
        codes = filters.run_all(prepared)
        if prepared.only is not None:
            inside = np.zeros(codes.shape[0], dtype=np.bool_)
            inside[cluster.columns.rows_of(prepared.only)] = True
            codes = np.where(inside, codes, 1).astype(np.uint16)
        return nominated_pods.with_nominated_pods(codes, unbound, cluster, prepared.predicates)
