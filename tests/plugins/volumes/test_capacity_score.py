"""VolumeBinding from v1.37 on: nodes with more capacity for the volumes of a pod score higher."""

import pytest

from scheduler.model.releases import V1_36, V1_37, Reference
from tests.support.builders import node, pod
from tests.support.storage import (
    DRIVER,
    StorageCluster,
    capacity,
    claim,
    csi_driver,
    storage_class,
    using,
    volume,
)

LOCAL = storage_class("local").waits()
MADE = storage_class("made").waits().made_by(DRIVER)
TELLS = csi_driver(DRIVER, tells_capacity=True)
SHAPED = """
profiles:
- schedulerName: preemptive-scheduler
  pluginConfig:
  - name: VolumeBinding
    args: {shape: [{utilization: 0, score: 0}, {utilization: 40, score: 8}]}
"""


def scores(
    *objects: object,
    claims: tuple[str, ...] = ("c",),
    reference: Reference = V1_37,
    config: str = "",
) -> list[int]:
    """Return what VolumeBinding scores on n1 and n2 for a pod with claims."""
    nodes = (node(name).label("host", name) for name in ("n1", "n2"))
    cluster = StorageCluster(*nodes, *objects, reference=reference, config=config)
    cluster.add(using(pod("p"), *claims))
    attempt = cluster.step(explain=True)
    assert attempt is not None
    return [each.scores.get("VolumeBinding", 0) for each in attempt.trace]


def room(amount: str, host: str, name: str = "") -> object:
    return capacity(name or f"on-{host}", "made").room(amount).for_nodes(host=host).build()


def test_the_more_capacity_is_left_the_better():
    objects = (MADE, TELLS, claim("c").size("2Gi").of_class("made"), room("4Gi", "n1"))

    assert scores(*objects, room("8Gi", "n2")) == [50, 75]


def test_v1_36_does_not_score_capacity():
    objects = (MADE, TELLS, claim("c").size("2Gi").of_class("made"), room("4Gi", "n1"))

    assert scores(*objects, room("8Gi", "n2"), reference=V1_36) == [0, 0]


def test_an_existing_volume_is_compared_with_the_claim():
    assert scores(
        LOCAL,
        volume("exact").size("1Gi").of_class("local").reached_by(host="n1"),
        volume("large").size("4Gi").of_class("local").reached_by(host="n2"),
        claim("c").size("1Gi").of_class("local"),
    ) == [0, 75]


def test_a_volume_to_be_provisioned_does_not_count_next_to_an_existing_one():
    assert scores(
        LOCAL, MADE, TELLS, room("8Gi", "n1"), room("8Gi", "n2"),
        volume("large").size("4Gi").of_class("local"),
        claim("c").size("1Gi").of_class("local"), claim("d").size("8Gi").of_class("made"),
        claims=("c", "d"),
    ) == [75, 75]  # fmt: skip


def test_claims_of_one_class_add_up():
    objects = [claim(name).size("1Gi").of_class("made") for name in ("c", "d")]

    found = scores(MADE, TELLS, *objects, room("4Gi", "n1"), room("8Gi", "n2"), claims=("c", "d"))

    assert found == [50, 75]


def test_claims_that_take_more_than_there_is_score_nothing():
    objects = [claim(name).size("3Gi").of_class("made") for name in ("c", "d")]

    found = scores(MADE, TELLS, *objects, room("4Gi", "n1"), room("8Gi", "n2"), claims=("c", "d"))

    assert found == [0, 25]


def test_classes_count_alike_and_their_mean_is_rounded():
    half = storage_class("half").waits().made_by(DRIVER)
    pool = capacity("half", "half").room("8Gi").for_nodes().build()
    objects = (claim("c").size("1Gi").of_class("made"), claim("d").size("1Gi").of_class("half"))

    found = scores(
        MADE, half, TELLS, *objects, pool, room("2Gi", "n1"), room("4Gi", "n2"), claims=("c", "d")
    )

    assert found == [69, 82]  # the means of 50 and 88, and of 75 and 88, of which halves go up


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param((csi_driver(DRIVER),), id="a driver that does not tell its capacity"),
        pytest.param((TELLS, capacity("c", "made").at_most("8Gi").for_nodes()), id="no total"),
    ],
)
def test_capacity_that_is_not_known_scores_nothing(objects: tuple[object, ...]):
    assert scores(MADE, claim("c").of_class("made"), *objects) == [0, 0]


def test_bound_claims_score_nothing():
    assert scores(volume("v"), claim("c").bound_to("v")) == [0, 0]


def test_of_several_pools_the_first_by_name_counts():
    objects = (MADE, TELLS, claim("c").size("2Gi").of_class("made"), room("8Gi", "n2"))

    assert scores(*objects, room("8Gi", "n1", "b"), room("4Gi", "n1", "a")) == [50, 75]


def test_the_shape_of_the_score_can_be_set():
    objects = (MADE, TELLS, claim("c").size("1Gi").of_class("made"))

    found = scores(*objects, room("8Gi", "n1"), room("2Gi", "n2"), config=SHAPED)

    assert found == [24, 80]
