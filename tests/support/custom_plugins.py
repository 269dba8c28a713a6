"""Plugins for tests, and profiles with them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from scheduler.framework.cluster_events import ClusterEventWithHint
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.node_adapters import NodeFilterAdapter
from scheduler.framework.plugin import (
    PASS,
    CompiledFilter,
    CompiledScore,
    PostFilterMessage,
    Prepared,
    Reads,
    Rejected,
)
from scheduler.framework.profile import Profile
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Node, Pod
from scheduler.state.cluster import Cluster as State
from scheduler.state.columns.arrays import Codes, Scores
from scheduler.state.views.node_view import NodeView
from tests.support.builders import OURS
from tests.support.cluster import profiles


class Refuses:
    """Rejects nodes by name, with its own reason; if resolvable, preemption considers them."""

    def __init__(
        self,
        *nodes: str,
        name: str = "Refuses",
        resolvable: bool = False,
        wakes: ClusterEventWithHint | None = None,
    ) -> None:
        self.name = name
        self.reason = f"node(s) did not please {name}"
        self._nodes = nodes
        self._resolvable = resolvable
        self._wakes = () if wakes is None else (wakes,)

    def compile_filter(
        self, _pod: Pod, _cluster: State, verdicts: Verdicts
    ) -> CompiledFilter | None:
        code = verdicts.code(Verdict(self.name, (self.reason,), self._resolvable))
        return _Refusal(self._nodes, code)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return self._wakes


class _Refusal(CompiledFilter):
    def __init__(self, nodes: tuple[str, ...], code: int) -> None:
        self._nodes = nodes
        self._code = code

    def codes(self, nodes: NodeView) -> Codes:
        refused = [nodes.name(position) in self._nodes for position in range(len(nodes))]
        return np.array(refused, dtype=np.uint16) * np.uint16(self._code)


class Prepares:
    """Returns a fixed result from `prepare`, before any node is evaluated."""

    def __init__(self, result: Prepared | Verdict = PASS, *, name: str = "Prepares") -> None:
        self.name = name
        self._result = Rejected(result) if isinstance(result, Verdict) else result

    def compile_filter(
        self, _pod: Pod, _cluster: State, verdicts: Verdicts
    ) -> CompiledFilter | None:
        return _Preparation(self._result, verdicts.code(Verdict(self.name, ("never",), False)))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()


class _Preparation(CompiledFilter):
    reads = Reads.CLUSTER

    def __init__(self, result: Prepared, code: int) -> None:
        self._result = result
        self._code = code

    def prepare(self, _state: AttemptState, /) -> Prepared:
        return self._result

    def codes(self, nodes: NodeView) -> Codes:
        return np.full(len(nodes), self._code if self._result != PASS else 0, dtype=np.uint16)


class Only:
    """Limits the pod to nodes by name."""

    def __init__(self, *nodes: str, name: str) -> None:
        self.name = name
        self._nodes = frozenset(nodes)

    def compile_filter(
        self, _pod: Pod, _cluster: State, _verdicts: Verdicts
    ) -> CompiledFilter | None:
        return _Narrowing(self._nodes)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()


class _Narrowing(CompiledFilter):
    def __init__(self, nodes: frozenset[str]) -> None:
        self.node_names = nodes

    def codes(self, nodes: NodeView) -> Codes:
        return np.zeros(len(nodes), dtype=np.uint16)


class OnePodPerNode:
    """A filter in the simple form: at most one pod on a node."""

    name = "OnePodPerNode"
    reasons = ("", "node(s) had a pod")

    def compile_filter(self, pod: Pod, cluster: State, verdicts: Verdicts) -> CompiledFilter:
        return NodeFilterAdapter(self, pod, cluster, verdicts)

    def filter_node(self, _pod: Pod, _node: Node, pods: Sequence[Pod]) -> int:
        return int(bool(pods))

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()


class Likes:
    """Scores nodes by name."""

    def __init__(self, by_node: Mapping[str, int], *, name: str = "Scores") -> None:
        self.name = name
        self._by_node = by_node

    def compile_score(self, _pod: Pod, _cluster: State) -> CompiledScore | None:
        return _ByName(self._by_node)

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()


class _ByName(CompiledScore):
    def __init__(self, by_node: Mapping[str, int]) -> None:
        self._by_node = by_node

    def scores(self, nodes: NodeView) -> Scores:
        return np.array(
            [self._by_node.get(nodes.name(position), 0) for position in range(len(nodes))],
            dtype=np.int64,
        )


class Breaks:
    """Raises when its filter is compiled for a pod."""

    name = "Breaks"

    def __init__(self, when: Callable[[Pod], bool] = lambda _: True) -> None:
        self._when = when

    def compile_filter(
        self, pod: Pod, _cluster: State, _verdicts: Verdicts
    ) -> CompiledFilter | None:
        if self._when(pod):
            raise RuntimeError("the rule broke")
        return None

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()


class Says:
    """A PostFilter plugin that only returns a message."""

    def __init__(self, text: str, *, ends: bool = False, name: str = "Says") -> None:
        self.name = name
        self._result = PostFilterMessage(text, ends)

    def post_filter(
        self, _state: AttemptState, *, prefilter_rejected_by: str | None
    ) -> PostFilterMessage:
        return self._result

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()


def with_filters(*more: object) -> dict[str, Profile]:
    """Return the default profile with more filters after its own."""
    own = profiles()[OURS]
    wakes = [(each.name, event) for each in more for event in each.events_to_register()]
    return {
        OURS: replace(
            own, filters=(*own.filters, *more), queueing_hints=(*own.queueing_hints, *wakes)
        )
    }


def with_post_filters(*cures: object) -> dict[str, Profile]:
    """Return the default profile with other PostFilter plugins."""
    return {OURS: replace(profiles()[OURS], post_filters=cures)}


def with_scores(*scores: tuple[object, int]) -> dict[str, Profile]:
    """Return the default profile with other scores."""
    return {OURS: replace(profiles()[OURS], scores=scores)}
