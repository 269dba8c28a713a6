"""Runs one plugin against a small cluster, and checks that it evaluates nodes one by one."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEvent, Resource
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.plugin import (
    PASS,
    SKIP,
    CompiledFilter,
    CompiledScore,
    PreFilter,
    Rejected,
)
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Node, Pod
from scheduler.state.cluster import Cluster
from scheduler.state.views.node_view import NodeView
from tests.support.builders import NodeBuilder, PodBuilder, pod

__all__ = ["ATTEMPT", "hint", "in_attempt", "rejections", "scored", "state_of", "verdicts_of"]


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


def scored(plugin: Any, wanted: PodBuilder, state: Cluster) -> dict[str, int] | None:
    """Return the score of each node, normalised; `None` when the plugin does not score the pod."""
    compiled_score: CompiledScore | None = plugin.compile_score(wanted.build(), state)
    if compiled_score is None:
        return None
    rows = np.flatnonzero(state.columns.exists())
    raw = compiled_score.scores(NodeView(state.columns, rows))
    for place, row in enumerate(rows.tolist()):
        alone = compiled_score.scores(NodeView(state.columns, np.array([row])))
        one = compiled_score.score_row(row)
        assert alone.tolist() == [raw[place]]
        assert one is None or one == raw[place]
    scores = compiled_score.normalise(raw) if compiled_score.needs_normalising else raw
    return {state.columns.names[row]: int(score) for row, score in zip(rows, scores, strict=True)}


def hint(
    plugin: Any,
    event: tuple[Resource, Action],
    waiting: PodBuilder,
    old: NodeBuilder | PodBuilder | None,
    new: NodeBuilder | PodBuilder | None,
) -> bool:
    """Return whether a hint of a plugin says that a change may help a waiting pod."""
    objects: Sequence[Node | Pod | None] = [each and each.build() for each in (old, new)]
    cluster_event = ClusterEvent(*event)
    hints: list[Callable[..., bool]] = [
        event.hint
        for event in plugin.events_to_register()
        if cluster_event.matched_by(event.resource, event.action)
    ]
    return any(each(waiting.build(), *objects) for each in hints)
