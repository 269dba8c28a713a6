"""What an attempt found about all nodes together.

Axes: N rows.
"""

import heapq
from typing import Final

import numpy as np

from scheduler.framework.verdicts import NO_NODE, Verdicts
from scheduler.model.decisions import Rejection
from scheduler.state.columns.arrays import Codes
from scheduler.state.columns.node_columns import NodeColumns

__all__ = ["rejections"]

#: How many nodes are named for each verdict.
_EXAMPLES: Final = 5


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
