"""Plans a preemption: whether it may be tried, which node, which victims. Nothing is changed.

Source: kube-scheduler v1.36.3 framework/preemption.Evaluator.Preempt.

Axes: N rows, C candidate rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.core import message
from scheduler.core.preemption import choose
from scheduler.core.preemption.choose import Candidate
from scheduler.core.preemption.outlook import Criteria, Outlook
from scheduler.framework.plugin import Predicate
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.objects import Pod
from scheduler.state.arrays import Bool, Codes, Rows
from scheduler.state.cluster import Cluster

__all__ = ["Refused", "candidates", "plan"]

NO_VICTIMS: Final = Verdict(
    "DefaultPreemption", ("No preemption victims found for incoming pod",), resolvable=False
)
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."


@dataclass(frozen=True, slots=True)
class Refused:
    """Preemption is not tried, or does not help."""

    message: str
    #: Whether a nomination that the pod has stays in force.
    keeps_nomination: bool
    #: Whether it is an error, which no other post filter can cure.
    failed: bool = False


def plan(
    pod: Pod,
    cluster: Cluster,
    predicates: Sequence[tuple[str, Predicate]],
    codes: Codes,
    verdicts: Verdicts,
    outlook: Outlook,
) -> Candidate | Refused:
    """Plan the preemption for a pod that fits nowhere.

    Args:
        pod: The preemptor.
        cluster: As it is.
        predicates: The filters that have something to say about it.
        codes: (N,) why it fits nowhere.
        verdicts: The table of the codes.
        outlook: What is known of its class.
    """
    seen = _look(pod, cluster, predicates, codes, verdicts, outlook)
    if isinstance(seen, Refused):
        return seen
    rows, found, criteria = seen
    row = choose.best(rows, found, criteria, pod.uid, cluster)
    if row is None:
        return _none(rows, found, cluster, verdicts)
    only: Rows = np.array([row], dtype=np.int64)
    (candidate,) = choose.candidates(only, pod, cluster, predicates)
    return candidate


def candidates(
    pod: Pod,
    cluster: Cluster,
    predicates: Sequence[tuple[str, Predicate]],
    codes: Codes,
    verdicts: Verdicts,
    outlook: Outlook,
) -> dict[str, Candidate] | Refused:
    """Return all candidates by node, for others to choose among; for the arguments see `plan`."""
    seen = _look(pod, cluster, predicates, codes, verdicts, outlook)
    if isinstance(seen, Refused):
        return seen
    rows, found, criteria = seen
    left = rows[(found == 0) & (criteria.victims > 0)]
    if not left.shape[0]:
        return _none(rows, found, cluster, verdicts)
    names = cluster.columns.names
    return {names[each.row]: each for each in choose.candidates(left, pod, cluster, predicates)}


def _look(
    pod: Pod,
    cluster: Cluster,
    predicates: Sequence[tuple[str, Predicate]],
    codes: Codes,
    verdicts: Verdicts,
    outlook: Outlook,
) -> tuple[Rows, Codes, Criteria] | Refused:
    """Return the rows that evicting pods could help, (C,), and what it would mean on each."""
    resolvable = verdicts.resolvable(codes)
    refusal = _not_eligible(pod, cluster, resolvable)
    if refusal is not None:
        return Refused(refusal, keeps_nomination=True)
    rows = np.flatnonzero(resolvable)
    return rows, *outlook.look(pod, predicates, rows, verdicts.code(NO_VICTIMS))


def _none(rows: Rows, found: Codes, cluster: Cluster, verdicts: Verdicts) -> Refused:
    """Return why there is no candidate.

    Source: kube-scheduler v1.36.3 framework/preemption.DryRunPreemption: a node on which the pod
    fits without a victim, because only an extender has rejected it, is an error.
    """
    if not found.all():
        names = sorted(cluster.columns.names[row] for row in rows[found == 0].tolist())
        errors = [f'expected at least one victim pod on node "{name}"' for name in names]
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return Refused(text, keeps_nomination=True, failed=True)
    reasons = message.counted(found, verdicts)
    nodes = cluster.columns.node_count
    rest = nodes - int(np.count_nonzero(found))
    if rest:
        reasons[NOT_HELPFUL] += rest
    return Refused(message.fit_error(nodes, reasons.items()), keeps_nomination=False)


def _not_eligible(pod: Pod, cluster: Cluster, resolvable: Bool) -> str | None:
    """Return why the pod must not preempt, `None` when it may.

    Source: kube-scheduler v1.36.3 defaultpreemption.PodEligibleToPreemptOthers. Differs: a victim
    counts as leaving from the moment at which its eviction was accepted.
    """
    if pod.spec.preemption_policy == "Never":
        return NEVER
    node = cluster.nominations.node(pod.uid)
    row = None if node is None else cluster.columns.row(node)
    if row is None or not resolvable[row]:
        return None
    for slot in cluster.pods.on_row(row):
        other = cluster.pods.pod(slot)
        if other.priority < pod.priority and cluster.leaves_by_preemption(other):
            return TERMINATING
    return None
