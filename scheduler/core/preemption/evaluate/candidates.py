"""Picks one of the candidate nodes by kube-scheduler's criteria in order, over all candidates.

Source: kube-scheduler v1.36.3 framework/preemption.pickOneNodeForPreemption. Differs: all
candidates are compared, none is sampled away, and the last tie is not left to chance: the node that
the preemptor is nominated to wins it, so that an interrupted plan is resumed, else a hash of the
preemptor's uid with the node's name decides.

Axes: V potential victims of a row, most important first; C candidate rows.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from scheduler.core.feasibility import tie_breaking
from scheduler.core.preemption.dry_run_result import DryRunResult
from scheduler.core.preemption.evaluate.candidate_cache import SHIFT, Criteria
from scheduler.core.preemption.evaluate.victims import Pinned, Sparing, dry_run_preemption
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.core.preemption.policy.veto_table import VetoTable
from scheduler.core.preemption.policy.vetoes import CandidateVetoes
from scheduler.framework.plugin import CompiledFilter
from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.model.comparisons import Comparison
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Int, Rows

__all__ = [
    "Candidate",
    "Prefer",
    "allowed",
    "best_of",
    "candidates_of",
    "candidates_on",
    "cost",
    "pick_one_node",
]

_NONE: Final[Rows] = np.zeros(0, dtype=np.int64)


class Candidate(NamedTuple):
    """A node, and the victims to evict from it."""

    row: int
    #: Most important first.
    victims: tuple[Pod, ...]
    #: How many of them can only be evicted in violation of a disruption budget.
    violations: int
    #: Their uids, as far as they are known.
    violating: frozenset[str] = frozenset()
    #: How it compared with other candidates; `None` if that was not wanted.
    comparison: Comparison | None = None


#: Returns those of some equally good rows that are better by a further criterion; at least one.
Prefer = Callable[[Rows], Rows]


def pick_one_node(
    rows: Rows,
    codes: Codes,
    criteria: Criteria,
    uid: str,
    cluster: Cluster,
    prefer: Prefer | None = None,
) -> int | None:
    """Return the row of the best candidate, `None` when there is none.

    Args:
        rows: (C,) rows that were evaluated.
        codes: (C,) 0 where evicting pods helps.
        criteria: The criteria by which candidates compare.
        uid: The preemptor's uid.
        cluster: Has the names of the nodes.
        prefer: The criterion that comes before the hash; `None` for none.
    """
    best = np.flatnonzero((codes == 0) & (criteria.victims > 0))
    if not best.shape[0]:
        return None
    for criterion in criteria:
        values = criterion[best]
        best = best[values == values.min()]
    return _break_tie(rows[best], uid, cluster, prefer)


def candidates_on(
    rows: Rows,
    pod: Pod,
    cluster: Cluster,
    predicates: Sequence[tuple[str, CompiledFilter]],
    rules: PolicyRules | None = None,
    pinned: Pinned | None = None,
) -> list[Candidate]:
    """Return the candidates on some rows with their victims, by a dry run; (C,) rows."""
    runs = dry_run_preemption(pod, cluster, predicates, rows, 0, Sparing(rules, pinned))
    return [candidate for run in runs for candidate in candidates_of(run, cluster)]


def candidates_of(run: DryRunResult, cluster: Cluster, without: Rows = _NONE) -> list[Candidate]:
    """Return the candidates of a dry run with their victims, without those on some rows."""
    found = []
    for column in np.flatnonzero(np.isin(run.rows, without, invert=True)).tolist():
        protected = run.slots[run.pdb_violations[:, column], column]
        violating = frozenset(pod.uid for pod in _pods(protected, cluster))
        victims = _victims(run, column, cluster)
        found.append(Candidate(int(run.rows[column]), victims, protected.shape[0], violating))
    return found


def _victims(run: DryRunResult, column: int, cluster: Cluster) -> tuple[Pod, ...]:
    """Return the victims on a row, most important first.

    Source: kube-scheduler v1.36.3 defaultpreemption.SelectVictimsOnNode. Where PDBs protect some
    of the potential victims and not others, it sorts the victims once more, starting with the
    protected ones. There a pod that has not started counts as starting when it is compared, so each
    sort reverses equal ones. In v1.37.2 its start is fixed, so the order is that of the first sort.
    """
    if not cluster.reference.latest_unstarted_is_most_important:
        return _pods(run.slots[run.chosen[:, column], column], cluster)
    chosen, protected = run.chosen[:, column], run.protected[:, column]
    present = run.slots[:, column] >= 0
    if not (present & protected).any() or not (present & ~protected).any():
        return _pods(run.slots[chosen, column], cluster)
    unsorted = _pods(run.slots[chosen & protected, column], cluster)
    unsorted += _pods(run.slots[chosen & ~protected, column], cluster)
    victims: list[Pod] = []
    for pod in unsorted:
        index = len(victims)
        while index and _more_important(pod, victims[index - 1]):
            index -= 1
        victims.insert(index, pod)
    return tuple(victims)


def _pods(slots: Int, cluster: Cluster) -> tuple[Pod, ...]:
    return tuple(cluster.pods.pod(slot) for slot in slots.tolist())


def _more_important(pod: Pod, other: Pod) -> bool:
    """Return whether a pod sorts before another one that was inserted earlier.

    Source: kube-scheduler v1.36.3 util.MoreImportantPod.
    """
    if pod.priority != other.priority:
        return pod.priority > other.priority
    start, other_start = times.parse(pod.status.start_time), times.parse(other.status.start_time)
    return other_start is None or (start is not None and start < other_start)


def allowed(
    candidates: Sequence[Candidate], vetoes: CandidateVetoes | None
) -> tuple[Sequence[Candidate], VetoTable | None]:
    """Return the candidates without a veto, whoever has chosen their victims, and the vetoes."""
    if vetoes is None or not candidates:
        return candidates, None
    table = vetoes.table_of({candidate.row: candidate.victims for candidate in candidates})
    return [each for each in candidates if each.row not in table.vetoed], table


def best_of(candidates: Iterable[Candidate], uid: str, cluster: Cluster) -> Candidate | None:
    """Return the best of some candidates whose victims need not come from a dry run.

    Args:
        candidates: The candidates, each with at least one victim.
        uid: The preemptor's uid.
        cluster: Has the names of the nodes.
    """
    keyed = [(cost(candidate), candidate) for candidate in candidates]
    if not keyed:
        return None
    least = min(key for key, _ in keyed)
    ties = {candidate.row: candidate for key, candidate in keyed if key == least}
    return ties[_break_tie(np.array(sorted(ties), dtype=np.int64), uid, cluster)]


def _break_tie(tied: Rows, uid: str, cluster: Cluster, prefer: Prefer | None = None) -> int:
    """Return one of some equally good rows: the nominated node, if it is among them."""
    nominated = cluster.nominations.node(uid)
    row = None if nominated is None else cluster.columns.row(nominated)
    if row is not None and row in tied:
        return row
    if prefer is not None and tied.shape[0] > 1:
        tied = prefer(tied)
    return tie_breaking.pick(tied, uid, cluster.columns)


def cost(candidate: Candidate) -> tuple[float, ...]:
    """Return the criteria of a candidate as a sort key; smaller is better.

    Source: kube-scheduler v1.36.3 defaultpreemption.OrderedScoreFuncs: the first victim counts as
    the most important one, except for the start.
    """
    victims = candidate.victims
    priorities = [pod.priority for pod in victims]
    highest = max(priorities)
    starts = [times.parse(pod.status.start_time) for pod in victims if pod.priority == highest]
    earliest = min(np.inf if start is None else start for start in starts)
    total = sum(priority + SHIFT for priority in priorities)
    return candidate.violations, priorities[0], total, len(priorities), -earliest
