"""Says why there is no candidate for a preemption, as kube-scheduler does.

Axes: C candidate rows.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.core.feasibility.fit_error import count_reasons, fit_error
from scheduler.core.preemption.dry_run_result import VETOED
from scheduler.core.preemption.policy.vetoes import VetoTally
from scheduler.framework.verdicts import Verdicts
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Rows

__all__ = ["NoCandidate", "no_candidate", "vetoed"]

NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"


@dataclass(frozen=True, slots=True)
class NoCandidate:
    """Preemption is not tried, or does not help."""

    message: str
    #: Whether a nomination that the pod has stays in force.
    keeps_nomination: bool
    #: Whether it is an error, after which no other post filter runs.
    failed: bool = False
    #: Whether a veto that may end later is among the reasons.
    blocked: bool = False
    #: When the first of the vetoes ends; `None` where time ends none.
    until: Seconds | None = None


def vetoed(tally: VetoTally) -> NoCandidate:
    """Return why the pod must not preempt at all now."""
    text = ", ".join(reason for reason, _ in tally.reasons())
    return NoCandidate(f"{text}.", keeps_nomination=False, blocked=True, until=tally.until)


def no_candidate(
    rows: Rows, codes: Codes, cluster: Cluster, verdicts: Verdicts, tally: VetoTally | None = None
) -> NoCandidate:
    """Return why there is no candidate.

    Args:
        rows: (C,) rows that were evaluated.
        codes: (C,) the verdict on each; `VETOED` where there is a veto.
        cluster: Has the names of the nodes.
        verdicts: The table of the codes.
        tally: The vetoes.

    Source: kube-scheduler v1.36.3 framework/preemption.DryRunPreemption: a node on which the pod
    fits without a victim, because only an extender has rejected it, is an error.
    """
    errors = _errors(rows, codes, cluster, verdicts)
    if errors:
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return NoCandidate(text, keeps_nomination=True, failed=True)
    reasons = count_reasons(codes, verdicts)
    nodes = cluster.columns.node_count
    not_helpful = nodes - int(np.count_nonzero(codes))
    if not_helpful:
        reasons[NOT_HELPFUL] += not_helpful
    vetoes = [] if tally is None else tally.reasons()
    text = fit_error(nodes, [*reasons.items(), *vetoes])
    until = None if tally is None else tally.until
    return NoCandidate(text, keeps_nomination=False, blocked=bool(vetoes), until=until)


def _errors(rows: Rows, codes: Codes, cluster: Cluster, verdicts: Verdicts) -> list[str]:
    """Return the errors of a dry run, each once; for the arguments see `no_candidate`."""
    names = sorted(cluster.columns.names[row] for row in rows[codes == 0].tolist())
    errors = [f'expected at least one victim pod on node "{name}"' for name in names]
    for code in dict.fromkeys(codes.tolist()):
        if code not in (0, VETOED) and verdicts[code].failed:
            errors += verdicts[code].reasons
    return errors
