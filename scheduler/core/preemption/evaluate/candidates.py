"""Which candidate node: kube-scheduler's criteria in order, over all candidates.

Source: kube-scheduler v1.36.3 framework/preemption.pickOneNodeForPreemption. Differs: all
candidates are compared, none is sampled away, and the last tie is not left to chance: the node that
the preemptor is nominated to wins it, so that a plan which was interrupted is taken up again, else
a hash of the preemptor's uid with the node's name decides.

Axes: V pods that could go, C candidate rows.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.core.feasibility import tie_breaking
from scheduler.core.preemption.dry_run import DryRun
from scheduler.core.preemption.evaluate.candidate_cache import SHIFT, Criteria
from scheduler.core.preemption.evaluate.victims import dry_run
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.framework.plugin import CompiledFilter
from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Int, Rows

__all__ = ["Candidate", "Prefer", "best", "candidates", "one_of"]


class Candidate(NamedTuple):
    """A node, and who has to leave it."""

    row: int
    #: Most important first.
    victims: tuple[Pod, ...]
    #: How many of them a budget would have protected.
    violations: int


#: Returns those of some equally good rows that are better in another respect; at least one.
Prefer = Callable[[Rows], Rows]


def best(
    rows: Rows,
    codes: Codes,
    criteria: Criteria,
    uid: str,
    cluster: Cluster,
    prefer: Prefer | None = None,
) -> int | None:
    """Return the row of the best candidate, `None` when there is none.

    Args:
        rows: (C,) rows that were looked at.
        codes: (C,) 0 where evicting pods makes room.
        criteria: By which candidates compare.
        uid: The preemptor's.
        cluster: Where the names of the nodes are.
        prefer: What decides before the hash does; `None` for nothing.
    """
    left = np.flatnonzero((codes == 0) & (criteria.victims > 0))
    if not left.shape[0]:
        return None
    for key in criteria:
        of_left = key[left]
        left = left[of_left == of_left.min()]
    return _among(rows[left], uid, cluster, prefer)


def candidates(
    rows: Rows,
    pod: Pod,
    cluster: Cluster,
    predicates: Sequence[tuple[str, CompiledFilter]],
    bounds: PolicyRules | None = None,
) -> list[Candidate]:
    """Return who has to leave some nodes for a pod, by a dry run on them; (C,) candidate rows."""
    found = []
    for run in dry_run(pod, cluster, predicates, rows, no_victims=0, rules=bounds):
        for column, row in enumerate(run.rows.tolist()):
            violations = int(np.count_nonzero(run.violating[:, column]))
            found.append(Candidate(row, _victims(run, column, cluster), violations))
    return found


def _victims(run: DryRun, column: int, cluster: Cluster) -> tuple[Pod, ...]:
    """Return who must leave a row, most important first.

    Source: kube-scheduler v1.36.3 defaultpreemption.SelectVictimsOnNode. Where budgets protect some
    of the pods that could go and others not, it puts the victims in order once more, from the
    protected ones on. A pod that has not started counts as starting when it is looked at, so
    each time equal ones turn round.
    """
    chosen, protected = run.chosen[:, column], run.protected[:, column]
    there = run.slots[:, column] >= 0
    if not (there & protected).any() or not (there & ~protected).any():
        return _pods(run.slots[chosen, column], cluster)
    in_turn = _pods(run.slots[chosen & protected, column], cluster)
    in_turn += _pods(run.slots[chosen & ~protected, column], cluster)
    victims: list[Pod] = []
    for pod in in_turn:
        place = len(victims)
        while place and _more_important(pod, victims[place - 1]):
            place -= 1
        victims.insert(place, pod)
    return tuple(victims)


def _pods(slots: Int, cluster: Cluster) -> tuple[Pod, ...]:
    return tuple(cluster.pods.pod(slot) for slot in slots.tolist())


def _more_important(pod: Pod, other: Pod) -> bool:
    """Tell whether a pod goes before another one that was looked at later.

    Source: kube-scheduler v1.36.3 util.MoreImportantPod.
    """
    if pod.priority != other.priority:
        return pod.priority > other.priority
    start, other_start = times.parse(pod.status.start_time), times.parse(other.status.start_time)
    return other_start is None or (start is not None and start < other_start)


def one_of(found: Iterable[Candidate], uid: str, cluster: Cluster) -> Candidate | None:
    """Return the best of some candidates whose victims need not be those of a dry run.

    Args:
        found: The candidates, each with a victim.
        uid: The preemptor's.
        cluster: Where the names of the nodes are.
    """
    keyed = [(_key(each), each) for each in found]
    if not keyed:
        return None
    least = min(key for key, _ in keyed)
    ties = {each.row: each for key, each in keyed if key == least}
    return ties[_among(np.array(sorted(ties), dtype=np.int64), uid, cluster)]


def _among(tied: Rows, uid: str, cluster: Cluster, prefer: Prefer | None = None) -> int:
    """Return one of some equally good rows: that of the nomination, if it is among them."""
    nominated = cluster.nominations.node(uid)
    row = None if nominated is None else cluster.columns.row(nominated)
    if row is not None and row in tied:
        return row
    if prefer is not None and tied.shape[0] > 1:
        tied = prefer(tied)
    return tie_breaking.among(tied, uid, cluster.columns)


def _key(each: Candidate) -> tuple[float, ...]:
    """Return by what a candidate compares; smaller is better.

    Source: kube-scheduler v1.36.3 defaultpreemption.OrderedScoreFuncs: the first victim counts as
    the most important one, except for the start.
    """
    priorities = [pod.priority for pod in each.victims]
    highest = max(priorities)
    starts = [times.parse(pod.status.start_time) for pod in each.victims if pod.priority == highest]
    earliest = min(np.inf if start is None else start for start in starts)
    total = sum(priority + SHIFT for priority in priorities)
    return each.violations, priorities[0], total, len(priorities), -earliest
