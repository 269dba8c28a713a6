"""What an attempt found about each node: verdict, scores, and vetoes against preemption.

Axes: N rows, F feasible nodes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, overload

import numpy as np

from scheduler.core.preemption.dry_run_result import EvictionOutcome
from scheduler.core.preemption.policy.vetoes import Veto
from scheduler.framework.verdicts import NO_NODE, Verdict, Verdicts
from scheduler.model.decisions import NodeTrace
from scheduler.state.columns.arrays import Codes, Rows, Scores
from scheduler.state.columns.node_columns import NodeColumns

__all__ = ["NodeResult", "NodeResults", "node_traces"]


class NodeResult(NamedTuple):
    """What an attempt found about one node."""

    name: str
    #: Why the pod does not fit; `None` if it does.
    verdict: Verdict | None
    #: Weighted, normalised score by plugin; empty if nothing was scored.
    scores: dict[str, int]
    #: Why no pods of it were evicted.
    vetoes: tuple[Veto, ...]
    #: What evictions there would mean; `None` where they were not tried.
    outcome: EvictionOutcome | None = None


class NodeResults(Sequence[NodeResult]):
    """The results of an attempt about all nodes, in name order.

    The arrays are copied when it is made, which takes microseconds. An item is made when it is
    read, so that readers can do it in parts while the cluster changes.
    """

    __slots__ = ("_codes", "_extra", "_names", "_outcome", "_rows", "_scored", "_table", "_vetoes")

    def __init__(
        self,
        codes: Codes,
        verdicts: Verdicts,
        weighted: Callable[[Rows], dict[str, Scores]],
        extra: Mapping[str, Mapping[str, int]],
        columns: NodeColumns,
        vetoes: Callable[[int], tuple[Veto, ...]],
        outcome: Callable[[int], EvictionOutcome | None],
    ) -> None:
        """Copy what may change.

        Args:
            codes: (N,) the verdict on every row.
            verdicts: The table of the codes.
            weighted: Returns the scores of feasible rows; called only with two or more of them.
            extra: The scores that extenders gave, by extender and node.
            columns: Has the names of the nodes.
            vetoes: Returns why pods of a row were not evicted.
            outcome: Returns what evictions on a row would mean.
        """
        feasible: Rows = np.flatnonzero(codes == 0)
        self._codes = codes.copy()
        self._names = columns.names.copy()
        # Codes are used again for other verdicts.
        self._table = {code: verdicts[code] for code in np.unique(codes[codes != NO_NODE]).tolist()}
        scored = weighted(feasible) if feasible.shape[0] > 1 else {}
        self._scored = (feasible, scored)
        self._extra = extra
        self._vetoes = vetoes
        self._outcome = outcome
        self._rows: list[int] | None = None

    def __len__(self) -> int:
        return int(np.count_nonzero(self._codes != NO_NODE))

    @overload
    def __getitem__(self, index: int) -> NodeResult: ...

    @overload
    def __getitem__(self, index: slice) -> list[NodeResult]: ...

    def __getitem__(self, index: int | slice) -> NodeResult | list[NodeResult]:
        rows = self._in_order()
        if isinstance(index, slice):
            return [self._result(row) for row in rows[index]]
        return self._result(rows[index])

    def of(self, name: str) -> NodeResult | None:
        """Return the result about one node; `None` if the node was not evaluated."""
        try:
            row = self._names.index(name)
        except ValueError:
            return None
        return None if self._codes[row] == NO_NODE else self._result(row)

    def __iter__(self) -> Iterator[NodeResult]:
        return map(self._result, self._in_order())

    def _in_order(self) -> list[int]:
        """Return the rows in the order of their names, which takes a millisecond at 5,000."""
        if self._rows is None:
            rows = np.flatnonzero(self._codes != NO_NODE).tolist()
            self._rows = sorted(rows, key=self._names.__getitem__)
        return self._rows

    def _result(self, row: int) -> NodeResult:
        name, code = self._names[row], int(self._codes[row])
        if code:
            verdict = self._table[code]
            return NodeResult(name, verdict, {}, self._vetoes(row), self._outcome(row))
        feasible, scored = self._scored
        position = int(np.searchsorted(feasible, row))
        scores = {plugin: int(values[position]) for plugin, values in scored.items()}
        scores |= {extender: of[name] for extender, of in self._extra.items() if name in of}
        return NodeResult(name, None, scores, self._vetoes(row))


def node_traces(results: Iterable[NodeResult]) -> tuple[NodeTrace, ...]:
    """Return the trace of each node."""
    return tuple(
        NodeTrace(
            result.name,
            None if result.verdict is None else str(result.verdict),
            result.scores,
            tuple(map(str, result.vetoes)),
        )
        for result in results
    )
