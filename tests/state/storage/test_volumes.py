"""Storage: assumed states, the claims of volumes, their users, and the counts of nodes."""

from collections.abc import Iterator

import pytest

from scheduler.model.api.quantity import QuantityError
from scheduler.model.api.storage import (
    CSINode,
    PersistentVolume,
)
from scheduler.state.cluster import Cluster
from scheduler.state.storage.csi_counts import NO_LIMIT
from tests.support.builders import node
from tests.support.storage import (
    attachment,
    capacity,
    claim,
    csi_node,
    volume,
)

DRIVER = "csi.a"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Return two nodes, a volume of the claim `c`, and one without a claim."""
    made = Cluster()
    for name in ("n1", "n2"):
        made.write_node(node(name).build())
    for each in (
        volume("v").of_class("x").csi(DRIVER, "h").for_claim("c", "uid:claim:default/c"),
        volume("w").of_class("x").csi(DRIVER, "g"),
        claim("c").of_class("x").bound_to("v"),
    ):
        made.volumes.write(each.build())
    yield made
    made.check()


def names(found: tuple[list[PersistentVolume], ...]) -> list[list[str]]:
    return [[each.metadata.name for each in part] for part in found]


def attached(cluster: Cluster, node_name: str, driver: str = DRIVER) -> int:
    row = cluster.columns.row(node_name)
    counts = cluster.volumes.counts.attached(driver)
    assert row is not None
    return 0 if counts is None else int(counts[row])


# Observed and assumed ---------------------------------------------------------------------------


def test_an_assumed_state_is_kept_until_a_newer_one_is_observed(cluster):
    volumes = cluster.volumes
    reserved = volume("w").of_class("x").csi(DRIVER, "g").for_claim("d").build()

    volumes.assume(reserved)
    assert volumes.volumes.get("w") is reserved
    assert volumes.volumes.observed("w") is not reserved

    news = volume("w").of_class("x").version(5).build()
    volumes.write(news)
    assert volumes.volumes.get("w") is news


def test_a_repeated_observation_does_not_end_an_assumed_state(cluster):
    reserved = volume("w").of_class("x").for_claim("d").build()
    cluster.volumes.assume(reserved)

    cluster.volumes.write(volume("w").of_class("x").csi(DRIVER, "g").build())

    assert cluster.volumes.volumes.get("w") is reserved


def test_an_assumed_state_can_be_dropped_unless_a_newer_one_was_observed(cluster):
    volumes = cluster.volumes
    reserved = volume("w").of_class("x").for_claim("d").build()
    volumes.assume(reserved)
    volumes.restore(reserved)
    assert names(volumes.candidates(claim("d").of_class("x").build())) == [[], ["w"]]

    volumes.assume(reserved)
    volumes.write(volume("w").of_class("x").for_claim("d").version(5).build())
    volumes.restore(reserved)

    assert names(volumes.candidates(claim("d").of_class("x").build())) == [["w"], []]


def test_an_assumed_state_must_be_derived_from_the_last_observed_one(cluster):
    with pytest.raises(ValueError, match="out of sync"):
        cluster.volumes.assume(volume("w").version(4).build())
    with pytest.raises(ValueError, match="out of sync"):
        cluster.volumes.assume(claim("unknown").build())


def test_a_deleted_object_has_no_assumed_state(cluster):
    cluster.volumes.assume(volume("w").of_class("x").for_claim("d").build())

    cluster.volumes.erase("PersistentVolume", "w")

    assert cluster.volumes.volumes.get("w") is None


def test_an_invalid_amount_changes_nothing(cluster):
    for odd in (volume("v").size("much"), claim("c").size("?"), capacity("r", "x").room("-")):
        with pytest.raises(QuantityError):
            cluster.volumes.write(odd.build())

    assert cluster.volumes.volumes.get("v").capacity == "1Gi"
    assert cluster.volumes.capacities("x") == []


# Counts of nodes --------------------------------------------------------------------------------


def test_counts_and_limits_follow_a_node_whose_row_changes(cluster):
    cluster.volumes.write(csi_node("n3").driver(DRIVER, 3).build())
    cluster.volumes.write(attachment("a", "v", "n3", DRIVER))
    cluster.erase_node("n1")
    cluster.write_node(node("n3").build())

    row = cluster.columns.row("n3")
    limits = cluster.volumes.nodes.limits(DRIVER)
    assert attached(cluster, "n3") == 1
    assert limits is not None
    assert limits[row] == 3
    assert limits[cluster.columns.row("n2")] == NO_LIMIT


def test_limits_and_migrated_plugins_are_removed_with_their_csi_node(cluster):
    plugin = "kubernetes.io/aws-ebs"
    cluster.volumes.write(csi_node("n1").driver(DRIVER, 3).migrated(plugin, "x").build())
    assert cluster.volumes.nodes.is_migrated(plugin, "n1")

    cluster.volumes.erase(CSINode.__name__, "n1")

    limits, migrated = cluster.volumes.nodes.limits(DRIVER), cluster.volumes.nodes.migrated(plugin)
    assert limits is not None
    assert migrated is not None
    row = cluster.columns.row("n1")
    assert (limits[row], migrated[row]) == (NO_LIMIT, 0)
    assert cluster.volumes.nodes.limits("unknown") is None
