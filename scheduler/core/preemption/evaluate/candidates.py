"""Picks one of the candidate nodes by the criteria of an objective, over all candidates.

Source: kube-scheduler v1.36.3 framework/preemption.pickOneNodeForPreemption. Differs: all
candidates are compared, none is sampled away, and the last tie is not left to chance: the node that
the preemptor is nominated to wins it, so that an interrupted plan is resumed, else a hash of the
preemptor's uid with the node's name decides.

Axes: V potential victims of a row, most important first; C candidate rows; K criteria.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.core.feasibility import tie_breaking
from scheduler.core.preemption.dry_run_result import DryRunResult
from scheduler.core.preemption.evaluate.objective import (
    HASH,
    NOMINATED_NODE,
    RELOCATION,
    Objective,
    VictimArrays,
)
from scheduler.core.preemption.evaluate.victims import Pinned, Sparing, dry_run_preemption
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.core.preemption.policy.veto_table import VetoTable
from scheduler.core.preemption.policy.vetoes import CandidateVetoes
from scheduler.framework.plugin import CompiledFilter
from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.model.comparisons import Comparison
from scheduler.model.rest.common import CriterionView
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Float, Int, Rows

__all__ = [
    "Candidate",
    "Choice",
    "TieBreak",
    "allowed",
    "best_of",
    "candidates_of",
    "candidates_on",
    "keys_of",
    "pick_one_node",
    "tie_breaks",
]


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


class TieBreak(NamedTuple):
    """What decides between candidates that are equal by the objective."""

    label: CriterionView
    #: Returns the better ones of some rows, at least one.
    better: Callable[[Rows], Rows]


class Choice(NamedTuple):
    """The best candidate."""

    row: int
    #: The rows that were as good as it by the objective after each tie break, in order.
    tied: tuple[tuple[CriterionView, Rows], ...] = ()

    def tie_break(self, other: int) -> CriterionView:
        """Return what decided against another row that is equal by the objective."""
        return next(label for label, rows in self.tied if other not in rows)


def pick_one_node(rows: Rows, keys: Float, tie_breaks: Sequence[TieBreak]) -> Choice | None:
    """Return the best candidate, `None` when there is none.

    Args:
        rows: (C,) the rows of the candidates.
        keys: (K, C) the sort keys of the objective.
        tie_breaks: Decide in order between equal ones; the last one leaves one row.
    """
    if not rows.shape[0]:
        return None
    best = np.arange(rows.shape[0])
    for key in keys:
        values = key[best]
        best = best[values == values.min()]
    tied, steps = rows[best], []
    for each in tie_breaks:
        if tied.shape[0] > 1:
            tied = each.better(tied)
            steps.append((each.label, tied))
    return Choice(int(tied[0]), tuple(steps))


def tie_breaks(
    uid: str, cluster: Cluster, relocation: Callable[[Rows], Rows] | None = None
) -> list[TieBreak]:
    """Return what decides between equal candidates: the nominated node first, a hash last.

    Args:
        uid: The preemptor's uid.
        cluster: Has its nomination, and the names of the nodes.
        relocation: Returns the rows whose victims lose least; `None` where that does not count.
    """
    columns, nominated = cluster.columns, cluster.nominations.node(uid)
    row = None if nominated is None else columns.row(nominated)

    def nominated_one(tied: Rows) -> Rows:
        return tied[tied == row] if row in tied else tied

    def hashed(tied: Rows) -> Rows:
        return np.array([tie_breaking.pick(tied, uid, columns)], dtype=np.int64)

    first = [] if row is None else [TieBreak(NOMINATED_NODE, nominated_one)]
    second = [] if relocation is None else [TieBreak(RELOCATION, relocation)]
    return [*first, *second, TieBreak(HASH, hashed)]


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


def candidates_of(run: DryRunResult, cluster: Cluster) -> list[Candidate]:
    """Return the candidates of a dry run with their victims."""
    found = []
    for column, row in enumerate(run.rows.tolist()):
        protected = run.slots[run.pdb_violations[:, column], column]
        violating = frozenset(pod.uid for pod in _pods(protected, cluster))
        victims = _victims(run, column, cluster)
        found.append(Candidate(row, victims, protected.shape[0], violating))
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


def best_of(
    candidates: Sequence[Candidate], uid: str, cluster: Cluster, objective: Objective
) -> Candidate | None:
    """Return the best of some candidates whose victims need not come from a dry run.

    Args:
        candidates: The candidates, each with at least one victim.
        uid: The preemptor's uid.
        cluster: Has the names of the nodes.
        objective: How they compare.
    """
    if not candidates:
        return None
    ordered = sorted(candidates, key=lambda candidate: candidate.row)
    rows: Rows = np.array([candidate.row for candidate in ordered], dtype=np.int64)
    keys = keys_of(ordered, cluster, objective)
    choice = pick_one_node(rows, keys, tie_breaks(uid, cluster))
    return next((each for each in ordered if choice and each.row == choice.row), None)


def keys_of(candidates: Sequence[Candidate], cluster: Cluster, objective: Objective) -> Float:
    """Return, (K, C), the sort keys of some candidates; smaller is better."""
    victims = [candidate.victims for candidate in candidates]
    violations = [candidate.violations for candidate in candidates]
    return objective.keys(VictimArrays.of_victims(victims, violations, cluster))
