"""A profile: which plugins run, in which order, and which events requeue pods."""

from collections.abc import Sequence

import numpy as np

from scheduler.framework.cluster_events import Action, ClusterEventWithHint, Resource
from scheduler.framework.node_adapters import NodeFilterAdapter
from scheduler.framework.plugin import CompiledFilter, Reads
from scheduler.framework.profile import build_queueing_hints
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Node, Pod
from scheduler.state.cluster import Cluster
from tests.support.builders import node, pod


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


def test_a_plugin_registered_for_taints_keeps_its_own_hint_for_them():
    wakes = [
        ClusterEventWithHint(Resource.NODE, Action.ADD),
        ClusterEventWithHint(Resource.NODE, Action.UPDATE_NODE_TAINT, lambda *_: False),
    ]

    assert len(actions(Waiting("A", *wakes))) == 2
