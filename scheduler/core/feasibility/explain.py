"""The trace of an attempt: verdict, scores and preemption vetoes of each node.

Axes: N rows, F feasible nodes.
"""

from collections.abc import Mapping

import numpy as np

from scheduler.core.feasibility.scores import ClassScores
from scheduler.framework.verdicts import NO_NODE, Verdicts
from scheduler.model.decisions import NodeTrace
from scheduler.state.columns.arrays import Codes, Rows
from scheduler.state.columns.node_columns import NodeColumns

__all__ = ["node_traces"]


def node_traces(
    codes: Codes,
    verdicts: Verdicts,
    scoring: ClassScores,
    extra: Mapping[str, Mapping[str, int]],
    columns: NodeColumns,
    vetoes: Mapping[int, tuple[str, ...]],
) -> tuple[NodeTrace, ...]:
    """Return the trace of each node, in name order.

    Args:
        codes: (N,) the verdict on every row.
        verdicts: The table of the codes.
        scoring: The scores of the pod's class; computed only with two or more feasible nodes.
        extra: The scores that extenders gave, by extender and node.
        columns: Has the names of the nodes.
        vetoes: Why pods of a row were not evicted, by row.
    """
    feasible: Rows = np.flatnonzero(codes == 0)
    scored = scoring.weighted(feasible) if feasible.shape[0] > 1 else {}
    position = {int(row): index for index, row in enumerate(feasible)}
    traces = []
    for row in np.flatnonzero(codes != NO_NODE).tolist():
        name, code = columns.names[row], int(codes[row])
        scores: dict[str, int] = {}
        if row in position:
            scores |= {plugin: int(values[position[row]]) for plugin, values in scored.items()}
            scores |= {extender: given[name] for extender, given in extra.items() if name in given}
        rejection = None if code == 0 else str(verdicts[code])
        traces.append(NodeTrace(name, rejection, scores, vetoes.get(row, ())))
    return tuple(sorted(traces, key=lambda trace: trace.name))
