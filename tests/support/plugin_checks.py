"""Runs one plugin against a small cluster, and checks that it evaluates nodes one by one."""

from typing import Any

import numpy as np

from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import (
    PASS,
    SKIP,
    CompiledFilter,
    PreFilter,
    Rejected,
)
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.state.cluster import Cluster
from scheduler.state.views.node_view import NodeView
from tests.support.builders import NodeBuilder, PodBuilder, pod

__all__ = ["ATTEMPT", "in_attempt", "rejected_as_a_whole", "rejections", "state_of"]


def state_of(*objects: NodeBuilder | PodBuilder) -> Cluster:
    """Return a cluster with nodes, and with pods on them."""
    state = Cluster()
    for each in objects:
        if isinstance(each, NodeBuilder):
            state.write_node(each.build())
        else:
            state.place(each.build(), each.build().spec.node_name)
    return state


#: An attempt for a pod of which the rule needs to know no more than its class.
ATTEMPT = AttemptState(pod("any").build(), 0.0)


class Skipped(PreFilter):
    """Stands for a filter that an attempt skips."""


def in_attempt(compiled_filter: CompiledFilter, state: AttemptState = ATTEMPT) -> CompiledFilter:
    """Return the filter as it applies in an attempt."""
    status = compiled_filter.prepare(state)
    assert not isinstance(status, Rejected)
    if status is SKIP:
        return Skipped()
    return compiled_filter if status is PASS else status


def verdicts_of(plugin: Any, wanted: PodBuilder, state: Cluster) -> dict[str, Verdict | None]:
    """Return the verdict on each node; asserts that it does not depend on the other nodes."""
    verdicts = Verdicts()
    compiled_filter = plugin.compile_filter(wanted.build(), state, verdicts)
    rows = np.flatnonzero(state.columns.exists())
    if compiled_filter is None:
        return {state.columns.names[row]: None for row in rows}
    codes = compiled_filter.codes(state.nodes())[rows].tolist()
    assert codes == [_alone(compiled_filter, state, int(row)) for row in rows]
    assert (compiled_filter.fits(state.nodes())[rows] == (np.array(codes) == 0)).all()
    return {
        state.columns.names[row]: verdicts[code] if code else None
        for row, code in zip(rows.tolist(), codes, strict=True)
    }


def _alone(compiled_filter: CompiledFilter, state: Cluster, row: int) -> int:
    code = int(compiled_filter.codes(NodeView(state.columns, np.array([row])))[0])
    fits = compiled_filter.fits_row(row)
    assert fits is None or fits == (code == 0)
    return code


def rejections(plugin: Any, wanted: PodBuilder, state: Cluster) -> dict[str, str]:
    """Return the joined reasons of a filter by node, without nodes where the pod fits."""
    found = verdicts_of(plugin, wanted, state)
    return {name: ", ".join(each.reasons) for name, each in found.items() if each is not None}


def rejected_as_a_whole(plugin: Any, wanted: PodBuilder, state: Cluster) -> Verdict | None:
    """Return the verdict on the pod from `prepare`, before any node is evaluated."""
    compiled_filter = plugin.compile_filter(wanted.build(), state, Verdicts())
    if compiled_filter is None:
        return None
    result = compiled_filter.prepare(AttemptState(wanted.build(), 0.0))
    return result.verdict if isinstance(result, Rejected) else None
