"""One plugin against a small cluster: what it says about each node."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEvent, Resource
from scheduler.framework.plugin import CompiledFilter, CompiledScore, Rejected
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Node, Pod
from scheduler.state.cluster import Cluster
from scheduler.state.views.node_view import NodeView
from tests.support.builders import NodeBuilder, PodBuilder

__all__ = ["hint", "rejections", "scored", "state_of", "verdicts_of"]


def state_of(*objects: NodeBuilder | PodBuilder) -> Cluster:
    """Return a cluster of nodes, and pods on them."""
    state = Cluster()
    for each in objects:
        if isinstance(each, NodeBuilder):
            state.write_node(each.build())
        else:
            state.place(each.build(), each.build().spec.node_name)
    return state


def verdicts_of(plugin: Any, wanted: PodBuilder, state: Cluster) -> dict[str, Verdict | None]:
    """Return what a filter says about each node; asserts that it judges nodes one by one."""
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
    """Return the reasons of a filter, joined, by node; nodes that fit left out."""
    found = verdicts_of(plugin, wanted, state)
    return {name: ", ".join(each.reasons) for name, each in found.items() if each is not None}


def rejected_as_a_whole(plugin: Any, wanted: PodBuilder, state: Cluster) -> Verdict | None:
    """Return what a filter says before any node is looked at."""
    compiled_filter = plugin.compile_filter(wanted.build(), state, Verdicts())
    said = compiled_filter.prepare() if compiled_filter is not None else None
    return said.verdict if isinstance(said, Rejected) else None


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
    """Return whether a plugin sees hope for a waiting pod in a change."""
    objects: Sequence[Node | Pod | None] = [each and each.build() for each in (old, new)]
    happened = ClusterEvent(*event)
    asked: list[Callable[..., bool]] = [
        event.hint
        for event in plugin.events_to_register()
        if happened.matched_by(event.resource, event.action)
    ]
    return any(each(waiting.build(), *objects) for each in asked)
