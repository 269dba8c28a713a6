"""The trace of an attempt: verdict, scores and preemption vetoes of each node, or of all together.

Axes: N rows, F feasible nodes.
"""

import heapq
from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.core.feasibility.scores import ClassScores
from scheduler.framework.verdicts import NO_NODE, Verdict, Verdicts
from scheduler.model.decisions import NodeTrace, Rejection
from scheduler.state.columns.arrays import Codes, Rows
from scheduler.state.columns.node_columns import NodeColumns

__all__ = ["node_traces", "rejections", "verdicts_by_node"]

#: How many nodes are named for each verdict.
_EXAMPLES: Final = 5


def node_traces(
    codes: Codes,
    verdicts: Verdicts,
    scoring: ClassScores,
    extra: Mapping[str, Mapping[str, int]],
    columns: NodeColumns,
    vetoes: Mapping[int, Sequence[object]],
) -> tuple[NodeTrace, ...]:
    """Return the trace of each node, in name order.

    Args:
        codes: (N,) the verdict on every row.
        verdicts: The table of the codes.
        scoring: The scores of the pod's class; computed only with two or more feasible nodes.
        extra: The scores that extenders gave, by extender and node.
        columns: Has the names of the nodes.
        vetoes: Why pods of a row were not evicted, by row; their texts have all details.
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
        traces.append(NodeTrace(name, rejection, scores, tuple(map(str, vetoes.get(row, ())))))
    return tuple(sorted(traces, key=lambda trace: trace.name))


def verdicts_by_node(codes: Codes, verdicts: Verdicts, columns: NodeColumns) -> dict[str, Verdict]:
    """Return the verdict on each node that rejects the pod; for the arguments see `node_traces`."""
    rows = np.flatnonzero((codes != 0) & (codes != NO_NODE))
    return {columns.names[row]: verdicts[int(codes[row])] for row in rows.tolist()}


def rejections(codes: Codes, verdicts: Verdicts, columns: NodeColumns) -> tuple[Rejection, ...]:
    """Return on how many nodes each verdict rejects the pod, most nodes first.

    Args:
        codes: (N,) the verdict on every row.
        verdicts: The table of the codes.
        columns: Has the names of the nodes.
    """
    found = []
    for code in np.unique(codes[(codes != 0) & (codes != NO_NODE)]).tolist():
        rows = np.flatnonzero(codes == code).tolist()
        verdict = verdicts[code]
        examples = heapq.nsmallest(_EXAMPLES, (columns.names[row] for row in rows))
        found.append(
            Rejection(
                verdict.plugin or verdict.shown_as,
                verdict.reasons,
                len(rows),
                verdict.resolvable,
                tuple(examples),
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.nodes, each.plugin, each.reasons)))
