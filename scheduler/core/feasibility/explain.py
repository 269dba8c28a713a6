"""What an attempt found on each node, for those who ask why.

Axes: N rows, F feasible nodes.
"""

from collections.abc import Mapping

import numpy as np

from scheduler.core.feasibility.scores import ClassScores
from scheduler.framework.verdicts import NO_NODE, Verdicts
from scheduler.model.decisions import NodeTrace
from scheduler.state.columns.arrays import Codes, Rows
from scheduler.state.columns.node_columns import NodeColumns

__all__ = ["trace"]


def trace(
    codes: Codes,
    verdicts: Verdicts,
    scoring: ClassScores,
    extra: Mapping[str, Mapping[str, int]],
    columns: NodeColumns,
    told: Mapping[int, tuple[str, ...]],
) -> tuple[NodeTrace, ...]:
    """Return what was found on each node, in name order.

    Args:
        codes: (N,) the verdict on every row.
        verdicts: The table of the codes.
        scoring: The scores of the pod's class; asked where there was a choice.
        extra: What extenders gave, by extender and node.
        columns: Where the names of the nodes are.
        told: What was said against evicting pods, by row.
    """
    feasible: Rows = np.flatnonzero(codes == 0)
    scored = scoring.weighted(feasible) if feasible.shape[0] > 1 else {}
    place = {int(row): position for position, row in enumerate(feasible)}
    traces = []
    for row in np.flatnonzero(codes != NO_NODE).tolist():
        name, code = columns.names[row], int(codes[row])
        scores: dict[str, int] = {}
        if row in place:
            scores |= {plugin: int(values[place[row]]) for plugin, values in scored.items()}
            scores |= {extender: each[name] for extender, each in extra.items() if name in each}
        rejection = None if code == 0 else str(verdicts[code])
        traces.append(NodeTrace(name, rejection, scores, told.get(row, ())))
    return tuple(sorted(traces, key=lambda each: each.name))
