"""The plugins against a small cluster, without a scheduler around them."""

import pytest
from headroom import Headroom, Maintenance

from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import (
    Container,
    Node,
    NodeMeta,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from scheduler.state.cluster import Cluster


def node(name: str, cpu: str, **labels: str) -> Node:
    return Node(NodeMeta(name=name, labels=labels), status=NodeStatus({"cpu": cpu, "pods": "9"}))


def pod(name: str, cpu: str, on: str = "") -> Pod:
    wanted = ResourceRequirements(requests={"cpu": cpu})
    metadata = ObjectMeta(name=name, namespace="default", uid=name)
    return Pod(metadata, PodSpec(node_name=on, containers=[Container("main", resources=wanted)]))


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.write_node(node("full", "4"))
    cluster.write_node(node("empty", "4"))
    cluster.place(pod("other", "2", on="full"), "full")
    return cluster


def test_a_node_that_would_keep_too_little_free_is_rejected(cluster: Cluster):
    verdicts = Verdicts()
    compiled_filter = Headroom({"percent": 50}).compile_filter(pod("p", "1"), cluster, verdicts)

    codes = compiled_filter.codes(cluster.nodes()).tolist()

    assert [verdicts[code].reasons for code in codes] == [
        ("node(s) would keep less than 50% of cpu free",),
        (),
    ]


def test_the_more_stays_free_the_better(cluster: Cluster):
    compiled_score = Headroom({}).compile_score(pod("p", "1"), cluster)

    assert compiled_score.scores(cluster.nodes()).tolist() == [25, 75]


def test_a_pod_that_asks_for_nothing_is_not_looked_at(cluster: Cluster):
    assert Headroom({}).compile_filter(Pod(), cluster, Verdicts()) is None


@pytest.mark.parametrize("percent", [-1, 100, "many"])
def test_a_share_that_cannot_be_meant_is_refused(percent: object):
    with pytest.raises(ValueError, match="percent"):
        Headroom({"percent": percent})


def test_nodes_in_maintenance_are_rejected_and_those_that_soon_will_be_disliked():
    maintenance, asking = Maintenance({}), pod("p", "1")
    labelled = {"planned": [0, 0], "running": [1, 100], "": [0, 100]}

    for state, want in labelled.items():
        there = node("n", "4", **{Maintenance.LABEL: state})
        assert [
            maintenance.filter_node(asking, there, []),
            maintenance.score_node(asking, there, []),
        ] == want
