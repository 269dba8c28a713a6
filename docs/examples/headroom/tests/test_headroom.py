"""Tests of the plugins against a small cluster, without a scheduler."""

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
    requirements = ResourceRequirements(requests={"cpu": cpu})
    metadata = ObjectMeta(name=name, namespace="default", uid=name)
    return Pod(
        metadata, PodSpec(node_name=on, containers=[Container("main", resources=requirements)])
    )


@pytest.fixture
def cluster() -> Cluster:
    cluster = Cluster()
    cluster.write_node(node("full", "4"))
    cluster.write_node(node("empty", "4"))
    cluster.place(pod("other", "2", on="full"), "full")
    return cluster


def test_nodes_with_too_little_headroom_are_rejected(cluster: Cluster):
    verdicts = Verdicts()
    compiled_filter = Headroom({"percent": 50}).compile_filter(pod("p", "1"), cluster, verdicts)

    codes = compiled_filter.codes(cluster.nodes()).tolist()

    assert [verdicts[code].reasons for code in codes] == [
        ("node(s) would keep less than 50% of cpu free",),
        (),
    ]


def test_nodes_with_more_headroom_score_higher(cluster: Cluster):
    compiled_score = Headroom({}).compile_score(pod("p", "1"), cluster)

    assert compiled_score.scores(cluster.nodes()).tolist() == [25, 75]


def test_pods_without_a_request_are_not_filtered(cluster: Cluster):
    assert Headroom({}).compile_filter(Pod(), cluster, Verdicts()) is None


@pytest.mark.parametrize("percent", [-1, 100, "many"])
def test_invalid_percentages_are_rejected(percent: object):
    with pytest.raises(ValueError, match="percent"):
        Headroom({"percent": percent})


def test_nodes_in_maintenance_are_rejected_and_planned_ones_score_lower():
    maintenance, incoming = Maintenance({}), pod("p", "1")
    by_label = {"planned": [0, 0], "running": [1, 100], "": [0, 100]}

    for state, want in by_label.items():
        labelled_node = node("n", "4", **{Maintenance.LABEL: state})
        assert [
            maintenance.filter_node(incoming, labelled_node, []),
            maintenance.score_node(incoming, labelled_node, []),
        ] == want
