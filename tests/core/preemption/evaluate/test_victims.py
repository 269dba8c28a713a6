"""The victims on a node where another package filters; scenarios/victims.yaml has the rest."""

from scheduler.model.decisions import Preempting
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.custom_plugins import OnePodPerNode, with_filters


def test_a_node_filter_runs_for_each_pod_that_is_added_back():
    running = [pod(name).on("n1").cpu("1").priority(rank) for name, rank in (("a", 2), ("b", 1))]
    cluster = Cluster(node("n1").cpu("9"), *running, using=with_filters(OnePodPerNode()))

    decision = cluster.schedule(pod("p").cpu("1").priority(100))

    assert isinstance(decision, Preempting)
    assert decision.victims == cluster.refs("a", "b")
