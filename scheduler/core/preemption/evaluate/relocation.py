"""Compares what kube-scheduler's criteria leave tied: whose victims lose least.

Of tied candidates, first come those with the fewest victims that can run on no other node now, then
those whose victims started last. On a candidate, pods that can run on no other node are reprieved
before others of their priority. The victims that this gives are taken if fewer of them can run on
no other node, and if they are no worse by kube-scheduler's criteria, apart from their start.

Each pod is filtered on its own against all other nodes as they are, by the filters of the
preemptor's profile, nominated pods included. A pod that terminates already loses nothing. A profile
has to enable all this.

Axes: V potential victims of a row, C candidate rows, N rows.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from scheduler.core.feasibility import nominated_pods, tie_breaking
from scheduler.core.feasibility.filters import ClassFilters
from scheduler.core.preemption.evaluate.candidates import Candidate, keys_of
from scheduler.core.preemption.evaluate.objective import EARLIEST_START, Objective
from scheduler.core.preemption.evaluate.victims import Pinned
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.profile import Profile
from scheduler.framework.verdicts import Verdicts
from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Int, Rows

__all__ = ["MAX_CLASSES", "MAX_TIED", "RelocationCost", "sampled"]

#: At most this many tied candidates are compared. Of more, the hash that breaks ties picks as many.
MAX_TIED: Final = 16
#: In one attempt at most this many classes of victims are filtered. Others count as if they could
#: run on no other node, so that no victim is replaced by them.
MAX_CLASSES: Final = 32


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

    def __init__(
        self, profile: Profile, cluster: Cluster, verdicts: Verdicts, now: Seconds
    ) -> None:
        self._profile = profile
        self._cluster = cluster
        self._verdicts = verdicts
        self._now = now
        #: (N,) where a pod could run, by its class.
        self._fitting: dict[bytes, Bool] = {}

    def lowest(
        self,
        tied: Sequence[Candidate],
        replaced: Callable[[Sequence[Candidate]], Sequence[Candidate]],
    ) -> Rows:
        """Return the rows of the best candidates, in row order.

        Args:
            tied: The candidates.
            replaced: Returns candidates with the cheaper victims that they may have.
        """
        if all(self._pinned(candidate) for candidate in tied):
            tied = replaced(tied)
        keyed = [(self._key(candidate), candidate.row) for candidate in tied]
        least = min(key for key, _ in keyed)
        return np.array(sorted(row for key, row in keyed if key == least), dtype=np.int64)

    def cheaper(
        self,
        candidates: Sequence[Candidate],
        reprieve: Callable[[Rows, Pinned], Sequence[Candidate]],
        objective: Objective,
    ) -> list[Candidate]:
        """Return candidates with other victims, fewer of which can run on no other node.

        Args:
            candidates: The candidates.
            reprieve: Selects the victims on some rows again, with other pods reprieved first.
            objective: How candidates compare.

        Returns:
            None for those whose other victims would be worse by the objective, apart from their
            start.
        """
        pinned = {each.row: (each, self._pinned(each)) for each in candidates}
        priorities = {
            row: [pod.priority for pod in pods] for row, (_, pods) in pinned.items() if pods
        }
        if not priorities:
            return []
        rows: Rows = np.array(sorted(priorities), dtype=np.int64)
        others = reprieve(rows, lambda slots, rows: self._mask(slots, rows, priorities))
        compared = objective.without(EARLIEST_START)
        keys, usual_keys = (
            keys_of(group, self._cluster, compared).T.tolist()
            for group in (others, [pinned[other.row][0] for other in others])
        )
        return [
            other
            for other, key, usual in zip(others, keys, usual_keys, strict=True)
            if key <= usual and len(self._pinned(other)) < len(pinned[other.row][1])
        ]

    def _key(self, candidate: Candidate) -> tuple[float, ...]:
        """Return the sort key of a candidate; smaller is better."""
        starts = [times.parse(pod.status.start_time) for pod in candidate.victims]
        earliest = min(np.inf if start is None else start for start in starts)
        return len(self._pinned(candidate)), -earliest

    def _pinned(self, candidate: Candidate) -> list[Pod]:
        """Return the victims of a candidate that can run on no other node now."""
        return [pod for pod in candidate.victims if self._is_pinned(pod, candidate.row)]

    def _mask(self, slots: Int, rows: Rows, priorities: Mapping[int, Sequence[int]]) -> Bool:
        """Return, (V, C), the pods that can run on no other node now, of some priorities by row."""
        mask = np.zeros(slots.shape, dtype=np.bool_)
        for column, row in enumerate(rows.tolist()):
            there = self._cluster.pods.priorities(slots[:, column])
            for rank in np.flatnonzero(np.isin(there, priorities[row])).tolist():
                if slots[rank, column] >= 0:
                    pod = self._cluster.pods.pod(int(slots[rank, column]))
                    mask[rank, column] = self._is_pinned(pod, row)
        return mask

    def _is_pinned(self, pod: Pod, row: int) -> bool:
        """Return whether a pod of a row would lose its place if it was evicted."""
        if self._cluster.is_being_deleted(pod):
            return False
        unbound = replace(pod, spec=replace(pod.spec, node_name=""))
        key = ClassifiedPod(unbound).key
        if pod.spec.resource_claims:
            key += pod.uid.encode(errors="surrogatepass")  # the filters read the pod's own claims
        fitting = self._fitting.get(key)
        if fitting is None:
            if len(self._fitting) >= MAX_CLASSES:
                return True
            fitting = self._fitting[key] = self._codes(unbound) == 0
        return int(np.count_nonzero(fitting)) == int(fitting[row])

    def _codes(self, unbound: Pod) -> Codes:
        """Return, (N,), the verdicts on a running pod as if it had no node yet."""
        cluster = self._cluster
        filters = ClassFilters(
            cluster, self._profile.compile_filters(unbound, cluster, self._verdicts)
        )
        prepared = filters.pre_filter(AttemptState(unbound, self._now))
        exists = cluster.columns.exists()
        if prepared.rejected is not None:
            return np.ones(exists.shape[0], dtype=np.uint16)
        codes, _ = filters.run_all(prepared)
        if prepared.only is not None:
            inside = np.zeros(codes.shape[0], dtype=np.bool_)
            inside[cluster.columns.rows_of(prepared.only)] = True
            codes = np.where(inside, codes, 1).astype(np.uint16)
        return nominated_pods.with_nominated_pods(codes, unbound, cluster, prepared.predicates)
