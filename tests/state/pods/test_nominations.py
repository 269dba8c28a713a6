"""Nominations, and which of them count for a pod."""

from collections.abc import Iterator

import pytest

from scheduler.state.cluster import Cluster
from tests.support.builders import node, pod


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    for name in ("n1", "n2", "n3"):
        made.write_node(node(name).build())
    yield made
    made.check()


def nominate(cluster: Cluster, name: str, where: str, priority: int = 10) -> None:
    cluster.nominate(pod(name).priority(priority).build(), where)


def respected(cluster: Cluster, priority: int, uid: str = "uid:default/p") -> dict[str, list[str]]:
    """Return, by node, the names of the nominated pods that count, oldest first."""
    rows, layers = cluster.nominations.layers(priority, uid)
    return {
        cluster.columns.names[row]: [
            cluster.pods.pod(int(layer[place])).metadata.name
            for layer in layers
            if layer[place] >= 0
        ]
        for place, row in enumerate(rows.tolist())
    }


def test_without_nominations_there_are_no_layers(cluster):
    assert respected(cluster, 0) == {}


def test_nominations_of_higher_and_equal_priority_count(cluster):
    nominate(cluster, "higher", "n1", priority=11)
    nominate(cluster, "equal", "n1", priority=10)
    nominate(cluster, "lower", "n1", priority=9)

    assert respected(cluster, 10) == {"n1": ["higher", "equal"]}


def test_the_own_nomination_does_not_count(cluster):
    nominate(cluster, "p", "n1")
    nominate(cluster, "q", "n1")

    assert respected(cluster, 10) == {"n1": ["q"]}


def test_nominations_are_layered_oldest_first_by_row(cluster):
    for name, where in (("a", "n3"), ("b", "n1"), ("c", "n3"), ("d", "n3"), ("e", "n1")):
        nominate(cluster, name, where)

    rows, layers = cluster.nominations.layers(10, "")

    assert rows.tolist() == [0, 2]
    assert len(layers) == 3
    assert respected(cluster, 10) == {"n1": ["b", "e"], "n3": ["a", "c", "d"]}


def test_a_nomination_that_is_added_again_is_the_latest(cluster):
    nominate(cluster, "a", "n1")
    nominate(cluster, "b", "n1")
    nominate(cluster, "a", "n1")

    assert respected(cluster, 10) == {"n1": ["b", "a"]}
    assert [each.pod.metadata.name for each in cluster.nominations.on_node("n1")] == ["b", "a"]


def test_a_nomination_for_an_unknown_node_counts_when_the_node_is_added(cluster):
    nominate(cluster, "a", "n9")
    assert respected(cluster, 10) == {}

    cluster.write_node(node("n9").build())

    assert respected(cluster, 10) == {"n9": ["a"]}


def test_a_nomination_is_found_by_the_uid_of_its_pod(cluster):
    nominate(cluster, "a", "n1")

    found = cluster.nominations.get("uid:default/a")
    assert found is not None
    assert (found.node, cluster.nominations.node("uid:default/a")) == ("n1", "n1")
    assert cluster.nominations.get("unknown") is None
    assert cluster.nominations.node("unknown") is None


def test_a_removed_nomination_does_not_count(cluster):
    nominate(cluster, "a", "n1")
    assert respected(cluster, 10) == {"n1": ["a"]}

    cluster.withdraw("uid:default/a")

    assert respected(cluster, 10) == {}
    assert len(cluster.nominations) == 0
