"""Which candidate node: kube-scheduler's criteria in order, over all candidates.

Source: kube-scheduler v1.36.3 framework/preemption.pickOneNodeForPreemption. Differs: all
candidates are compared, none is sampled away, and the last tie is not left to chance: the node that
the preemptor is nominated to wins it, so that a plan which was interrupted is taken up again, else
a hash of the preemptor's uid with the node's name decides.

Axes: V pods that could go, C candidate rows.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scheduler.core import select
from scheduler.core.preemption.outlook import Criteria
from scheduler.core.preemption.victims import dry_run
from scheduler.framework.plugin import Predicate
from scheduler.model.objects import Pod
from scheduler.state.arrays import Codes, Rows
from scheduler.state.cluster import Cluster

__all__ = ["Candidate", "best", "candidate"]


class Candidate(NamedTuple):
    """A node, and who has to leave it."""

    row: int
    #: Most important first.
    victims: tuple[Pod, ...]
    #: How many of them a budget would have protected.
    violations: int


def best(rows: Rows, codes: Codes, criteria: Criteria, uid: str, cluster: Cluster) -> int | None:
    """Return the row of the best candidate, `None` when there is none.

    Args:
        rows: (C,) rows that were looked at.
        codes: (C,) 0 where evicting pods makes room.
        criteria: By which candidates compare.
        uid: The preemptor's.
        cluster: Where the names of the nodes are.
    """
    left = np.flatnonzero((codes == 0) & (criteria.victims > 0))
    if not left.shape[0]:
        return None
    for key in criteria:
        of_left = key[left]
        left = left[of_left == of_left.min()]
    tied = rows[left]
    nominated = cluster.nominations.node(uid)
    row = None if nominated is None else cluster.columns.row(nominated)
    return row if row in tied else select.among(tied, uid, cluster.columns)


def candidate(
    row: int, pod: Pod, cluster: Cluster, predicates: Sequence[tuple[str, Predicate]]
) -> Candidate:
    """Return who has to leave one node for a pod, by a dry run on that node alone."""
    rows: Rows = np.array([row], dtype=np.int64)
    (run,) = dry_run(pod, cluster, predicates, rows, no_victims=0)
    slots = run.slots[run.chosen[:, 0], 0].tolist()
    victims = tuple(cluster.pods.pod(slot) for slot in slots)
    return Candidate(row, victims, int(np.count_nonzero(run.violating)))
