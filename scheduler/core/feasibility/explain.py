"""What an attempt found about all nodes together.

Axes: N rows.
"""

import heapq
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import numpy as np

from scheduler.framework.verdicts import NO_NODE, Verdicts
from scheduler.model.decisions import Rejection
from scheduler.state.columns.arrays import Codes, Rows
from scheduler.state.columns.node_columns import NodeColumns

__all__ = ["rejections"]

#: How many nodes are named for each verdict.
_EXAMPLES: Final = 5

OutcomesOn: TypeAlias = Callable[[Rows], Mapping[str, int]]


def rejections(
    codes: Codes, verdicts: Verdicts, columns: NodeColumns, outcomes: OutcomesOn
) -> tuple[Rejection, ...]:
    """Return on how many nodes each verdict rejects the pod, most nodes first.

    Args:
        codes: (N,) the verdict on every row.
        verdicts: The table of the codes.
        columns: Has the names of the nodes.
        outcomes: Returns what evictions would mean on some rows, as in `Rejection.outcomes`.
    """
    found = []
    for code in np.unique(codes[(codes != 0) & (codes != NO_NODE)]).tolist():
        at = np.flatnonzero(codes == code)
        rows = at.tolist()
        verdict = verdicts[code]
        examples = heapq.nsmallest(_EXAMPLES, (columns.names[row] for row in rows))
        found.append(
            Rejection(
                verdict.plugin or verdict.shown_as,
                verdict.reasons,
                len(rows),
                verdict.resolvable,
                tuple(examples),
                outcomes(at),
            )
        )
    return tuple(sorted(found, key=lambda each: (-each.nodes, each.plugin, each.reasons)))
