"""A profile: which plugins run, in which order, and which events requeue pods."""

from collections.abc import Sequence

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.node_adapters import NodeFilterAdapter
from scheduler.framework.plugin import (
    CompiledFilter,
    CompiledScore,
    Filter,
    NodeFilter,
    PostFilter,
    PreEnqueue,
    Reads,
    Score,
    normalise_to_max,
)
from scheduler.framework.profile import Profile, build_queueing_hints
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Node, Pod
from scheduler.model.releases import V1_37
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Scores
from scheduler.state.views.node_view import NodeView
from tests.support.builders import node, pod
from tests.support.plugin_checks import ATTEMPT


class Everywhere(CompiledFilter):
    def codes(self, nodes: NodeView) -> Codes:
        return np.zeros(len(nodes), dtype=np.uint16)


class Rule:
    """A filter for pods that have its name as a label."""

    def __init__(self, name: str) -> None:
        self.name = name

    def compile_filter(
        self, pod: Pod, _cluster: Cluster, _verdicts: Verdicts
    ) -> CompiledFilter | None:
        return Everywhere() if self.name in pod.metadata.labels else None


class Constant(CompiledScore):
    def scores(self, nodes: NodeView) -> Scores:
        return np.full(len(nodes), 7, dtype=np.int64)


class Liking:
    def __init__(self, name: str) -> None:
        self.name = name

    def compile_score(self, pod: Pod, _cluster: Cluster) -> CompiledScore | None:
        return Constant() if self.name in pod.metadata.labels else None


class Gate:
    def __init__(self, name: str) -> None:
        self.name = name

    def pre_enqueue(self, pod: Pod, _cluster: Cluster) -> str | None:
        return "not yet" if self.name in pod.metadata.labels else None


class Crowded:
    """The simple form of a filter: one node at a time."""

    name = "Crowded"
    reasons = ("", "node(s) had company", "node(s) were not mine")

    def filter_node(self, _pod: Pod, node: Node, pods: Sequence[Pod]) -> int:
        if node.metadata.name == "other":
            return 2
        return 1 if pods else 0


class Waiting:
    """A plugin that registers events."""

    def __init__(self, name: str, *wakes: ClusterEventWithHint) -> None:
        self.name = name
        self._wakes = wakes

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return self._wakes


def test_filters_are_compiled_in_order_without_those_that_say_nothing():
    profile = Profile("x", filters=(Rule("c"), Rule("a"), Rule("b")))
    wanted = pod("p").label("a").label("c").build()

    found = [name for name, _ in profile.compile_filters(wanted, Cluster(), Verdicts())]

    assert found == ["c", "a"]


def test_scores_are_compiled_with_their_weights():
    profile = Profile("x", scores=((Liking("a"), 3), (Liking("b"), 2)))

    found = [
        (name, weight)
        for name, weight, _ in profile.compile_scores(pod("p").label("a").build(), Cluster())
    ]

    assert found == [("a", 3)]


def test_the_first_gatekeeper_that_objects_is_named():
    profile = Profile("x", pre_enqueue=(Gate("a"), Gate("b"), Gate("c")))

    wanted = pod("p").label("b").label("c").build()

    assert profile.run_pre_enqueue(wanted, Cluster()) == ("b", "not yet")
    assert profile.run_pre_enqueue(pod("p").build(), Cluster()) is None


def adapted(cluster: Cluster, verdicts: Verdicts) -> CompiledFilter:
    return NodeFilterAdapter(Crowded(), pod("p").build(), cluster, verdicts)


def test_a_node_filter_is_called_for_each_node():
    cluster, verdicts = Cluster(), Verdicts()
    for name in ("empty", "full", "other"):
        cluster.write_node(node(name).build())
    cluster.place(pod("q").build(), "full")
    cluster.place(pod("r").build(), "imaginary")

    codes = adapted(cluster, verdicts).codes(cluster.nodes()).tolist()

    assert codes[0] == codes[3] == 0
    assert verdicts[codes[1]] == Verdict("Crowded", ("node(s) had company",), resolvable=True)
    assert verdicts[codes[2]] == Verdict("Crowded", ("node(s) were not mine",), resolvable=True)


def test_a_filter_of_the_simple_form_sees_the_pods_that_would_be_there():
    cluster, verdicts = Cluster(), Verdicts()
    cluster.write_node(node("full").build())
    cluster.place(pod("q").build(), "full")
    compiled_filter = adapted(cluster, verdicts)
    there = cluster.hypothetical_view(np.array([0]))

    there.change(np.array([cluster.pods.slot("uid:default/q")]), -1)

    assert compiled_filter.codes(there).tolist() == [0]
    assert not compiled_filter.fits(cluster.nodes()).any()


def test_a_filter_of_the_simple_form_may_read_anything():
    compiled_filter = adapted(Cluster(), Verdicts())

    assert compiled_filter.reads is Reads.CLUSTER
    assert not compiled_filter.monotone


# Registrations


def actions(plugin: Waiting) -> list[tuple[Resource, Action]]:
    return [(wake.resource, wake.action) for _, wake in build_queueing_hints([plugin])]


def test_what_a_plugin_waits_for_is_registered_under_its_name():
    wakes = (
        ClusterEventWithHint(Resource.POD, Action.DELETE),
        ClusterEventWithHint(Resource.NODE, Action.UPDATE_NODE_LABEL),
    )

    assert build_queueing_hints([Waiting("A", *wakes), Waiting("B")]) == (
        ("A", wakes[0]),
        ("A", wakes[1]),
    )


def test_v1_37_adds_nothing_to_what_a_plugin_waits_for():
    plugin = Waiting("A", ClusterEventWithHint(Resource.NODE, Action.ADD))

    found = build_queueing_hints([plugin], V1_37)

    assert [(wake.resource, wake.action) for _, wake in found] == [(Resource.NODE, Action.ADD)]


def test_a_plugin_registered_for_new_nodes_also_gets_taint_events():
    assert actions(
        Waiting("A", ClusterEventWithHint(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL))
    ) == [
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        (Resource.NODE, Action.UPDATE_NODE_TAINT),
    ]


def test_a_plugin_registered_for_taints_keeps_its_own_hint_for_them():
    wakes = [
        ClusterEventWithHint(Resource.NODE, Action.ADD),
        ClusterEventWithHint(Resource.NODE, Action.UPDATE_NODE_TAINT, lambda *_: False),
    ]

    assert len(actions(Waiting("A", *wakes))) == 2


def test_a_plugin_not_registered_for_new_nodes_gets_no_taint_events():
    assert (
        len(
            actions(
                Waiting("A", ClusterEventWithHint(Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE))
            )
        )
        == 1
    )
    assert len(actions(Waiting("A", ClusterEventWithHint(Resource.POD, Action.ADD)))) == 1


# The forms of a plugin


def test_a_plugin_is_known_by_what_it_can_do():
    kinds = (Filter, NodeFilter, Score, PreEnqueue, PostFilter)

    def can(plugin: object) -> list[type]:
        return [kind for kind in kinds if isinstance(plugin, kind)]

    assert can(Rule("a")) == [Filter]
    assert can(Crowded()) == [NodeFilter]
    assert can(Liking("a")) == [Score]
    assert can(Gate("a")) == [PreEnqueue]


def test_a_predicate_that_says_no_more_passes_prepares_nothing_and_fits_where_it_has_no_code():
    cluster = Cluster()
    cluster.write_node(node("n1").build())

    assert Everywhere().prepare(ATTEMPT) == 0
    assert Everywhere().node_names is None
    assert Everywhere().fits(cluster.nodes()).tolist() == [True]


def test_a_priority_that_says_no_more_keeps_its_raw_scores():
    raw = np.array([3, 9])

    assert Constant().normalise(raw).tolist() == [3, 9]
    assert Constant().cache_key() is None
    assert Constant().prepare(ATTEMPT) == 0


def scaled(*raw: int, reverse: bool = False) -> list[int]:
    return normalise_to_max(np.array(raw, dtype=np.int64), reverse=reverse).tolist()


def test_the_best_score_becomes_100_the_others_their_share_rounded_down():
    assert scaled(0, 1, 2, 3) == [0, 33, 66, 100]


def test_reversed_scores_are_the_difference_to_100():
    assert scaled(0, 1, 2, 3, reverse=True) == [100, 67, 34, 0]


def test_scores_of_0_stay_or_become_100_when_reversed():
    assert scaled(0, 0) == [0, 0]
    assert scaled(0, 0, reverse=True) == [100, 100]


def test_no_scores_stay_no_scores():
    assert scaled() == []
