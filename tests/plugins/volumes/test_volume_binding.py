"""VolumeBinding: which nodes can give a pod its volumes."""

import pytest

from scheduler.model.api.objects import Requirement
from scheduler.model.decisions import Failed, Placed, Unschedulable
from scheduler.model.effects import BindVolumes
from tests.support.builders import node, pod
from tests.support.storage import (
    StorageCluster,
    capacity,
    claim,
    csi_driver,
    csi_node,
    ebs_disk,
    gce_disk,
    storage_class,
    using,
    volume,
    with_ephemeral,
)

UNREACHABLE = "node(s) didn't match PersistentVolume's node affinity"
NO_VOLUME = "node(s) didn't find available persistent volumes to bind"
NO_ROOM = "node(s) did not have enough free storage"
NO_SUCH = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
#: Upstream's zone rule would complain first about volumes that do not exist.
NO_ZONES = """
profiles:
- schedulerName: preemptive-scheduler
  plugins: {multiPoint: {disabled: [{name: VolumeZone}]}}
"""
#: For installations without the permission to write volumes.
NO_WRITES = """
profiles:
- schedulerName: preemptive-scheduler
  pluginConfig: [{name: PreemptiveScheduler, args: {bindVolumes: false}}]
"""

LOCAL = storage_class("local").waits()
MADE = storage_class("made").waits().made_by("csi.example.com")
A, B = node("a").label("zone", "a"), node("b").label("zone", "b")


def said(cluster: StorageCluster, *, of: str = "p") -> str:
    """Return the reason on the only node, or on the pod."""
    cluster.drain()
    decision = next(each.decision for each in cluster.attempts if each.pod.name == of)
    assert isinstance(decision, Unschedulable | Failed)
    reasons = decision.message.removeprefix("0/1 nodes are available: ")
    return reasons.split(". no new claims", 1)[0].removesuffix(". not found")


# Claims that are bound --------------------------------------------------------------------------


def test_a_bound_volume_ties_the_pod_to_the_nodes_that_reach_it():
    cluster = StorageCluster(A, B, volume("v").reached_by(zone="b"), claim("c").bound_to("v"))

    assert cluster.schedule(using(pod("p"), "c")) == Placed("b")


def test_several_ways_to_reach_a_volume_are_alternatives():
    bound = volume("v").reached_by(zone="x").reached_by(zone="b")
    cluster = StorageCluster(A, B, bound, claim("c").bound_to("v"))

    assert cluster.schedule(using(pod("p"), "c")) == Placed("b")


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param(Requirement("zone", "NotIn", ["a"]), id="not there"),
        pytest.param(Requirement("size", "Gt", ["3"]), id="greater"),
        pytest.param(Requirement("size", "Exists"), id="exists"),
    ],
)
def test_every_operator_counts(expression):
    cluster = StorageCluster(
        A, B.label("size", "5"), volume("v").reached_by(expression), claim("c").bound_to("v")
    )

    assert cluster.schedule(using(pod("p"), "c")) == Placed("b")


def test_a_volume_with_an_empty_term_is_reachable_from_no_node():
    cluster = StorageCluster(A, volume("v").reached_by(), claim("c").bound_to("v"))
    cluster.add(using(pod("p"), "c"))

    assert said(cluster) == f"1 {UNREACHABLE}"


def test_a_deleted_volume_is_missing_on_every_node():
    cluster = StorageCluster(A, claim("c").bound_to("v"), config=NO_ZONES)
    cluster.add(using(pod("p"), "c"))

    assert said(cluster) == f"1 {NO_SUCH}"


def test_every_reason_is_named_in_order():
    cluster = StorageCluster(
        A, LOCAL, volume("v").reached_by(zone="b"), claim("c").bound_to("v"),
        claim("d").of_class("local"), using(pod("p"), "c", "d"),
    )  # fmt: skip

    attempt = cluster.step(explain=True)

    assert attempt.trace[0].rejection == f"VolumeBinding: {UNREACHABLE}, {NO_VOLUME}"


def test_an_in_tree_volume_is_reached_by_the_key_of_the_driver_that_took_over():
    key = "topology.ebs.csi.aws.com/zone"
    in_tree = volume("v").reached_by(**{"topology.kubernetes.io/zone": "z"})
    in_tree = in_tree.spec(aws_elastic_block_store=ebs_disk("vol-1").aws_elastic_block_store)
    cluster = StorageCluster(
        node("old").label("topology.kubernetes.io/zone", "z"),
        node("new").label(key, "z"),
        csi_node("old").migrated("kubernetes.io/aws-ebs"),
        csi_node("new").migrated("kubernetes.io/gce-pd", "kubernetes.io/aws-ebs"),
        in_tree,
        claim("c").bound_to("v"),
    )

    assert cluster.schedule(using(pod("p"), "c")) == Placed("new")


def test_an_in_tree_volume_that_cannot_be_translated_is_an_error():
    zones = "topology.kubernetes.io/zone"
    odd = volume("v").label(zones, "no-such-zone-at-all__b-b-b")
    odd = odd.spec(gce_persistent_disk=gce_disk("d").gce_persistent_disk)
    cluster = StorageCluster(
        A, csi_node("a").migrated("kubernetes.io/gce-pd"), odd, claim("c").bound_to("v"),
        using(pod("p"), "c"),
    )  # fmt: skip

    decision = cluster.step().decision

    assert isinstance(decision, Failed)
    start = 'running "VolumeBinding" filter plugin: could not translate pv: failed to get region'
    assert decision.message.startswith(start)


# Claims that cannot be looked at ----------------------------------------------------------------

WAITING = "waiting for ephemeral volume controller to create the persistentvolumeclaim"
ILLEGAL = [
    pytest.param(
        claim("c").phase("Lost").spec(volume_name="v"),
        'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        id="lost",
    ),
    pytest.param(claim("c").deleting(), 'persistentvolumeclaim "c" is being deleted', id="going"),
    pytest.param(
        claim("c").of_class("now"),
        "pod has unbound immediate PersistentVolumeClaims",
        id="of a class that binds at once",
    ),
    pytest.param(
        claim("c").of_class("local").spec(volume_name="v"),
        "pod has unbound immediate PersistentVolumeClaims",
        id="with a volume, not complete",
    ),
    pytest.param(claim("c"), "pod has unbound immediate PersistentVolumeClaims", id="no class"),
]


@pytest.mark.parametrize(("wanted", "reason"), ILLEGAL)
def test_a_claim_that_has_to_change_first_rejects_the_pod(wanted, reason):
    cluster = StorageCluster(A, LOCAL, storage_class("now"), wanted, using(pod("p"), "c"))

    assert said(cluster) == reason


def test_a_class_without_binding_mode_is_an_error():
    odd = storage_class("odd").having(volume_binding_mode=None)
    cluster = StorageCluster(A, odd, claim("c").of_class("odd"), using(pod("p"), "c"))

    text = 'running PreFilter plugin "VolumeBinding": VolumeBindingMode not set for StorageClass'
    assert cluster.step().decision == Failed(f'{text} "odd"')


def test_the_claim_of_an_ephemeral_volume_must_exist_and_belong_to_the_pod():
    wanted = with_ephemeral(pod("p"), "scratch")
    cluster = StorageCluster(A, MADE, wanted)
    assert said(cluster) == f'{WAITING} "p-scratch"'

    cluster.add(claim("p-scratch").of_class("made").owned_by(pod("another")))
    cluster.attempts.clear()
    cluster.wait(20)
    mine = "PVC default/p-scratch was not created for pod default/p (pod is not owner)"
    assert said(cluster) == mine

    cluster.add(claim("p-scratch").of_class("made").owned_by(wanted))
    cluster.wait(20)
    assert cluster.step().decision == Placed("a")


def test_pods_with_separate_volumes_are_distinguished():
    pods = [with_ephemeral(pod(name), "scratch") for name in ("p", "q")]
    claims = [
        claim(f"{each.object.metadata.name}-scratch").of_class("made").owned_by(each)
        for each in pods
    ]
    cluster = StorageCluster(A, MADE, claims[1], *pods)

    decisions = {each.pod.name: each.decision for each in cluster.drain()}

    assert isinstance(decisions["p"], Unschedulable)
    assert decisions["q"] == Placed("a")


# Claims that wait for their first consumer: volumes that exist ----------------------------------


def chosen(cluster: StorageCluster) -> list[str]:
    (effect,) = cluster.asked(BindVolumes)
    assert isinstance(effect, BindVolumes)
    return [each.volume for each in effect.volumes]


def test_the_smallest_volume_that_is_large_enough_is_taken():
    sizes = {"v1": "10Gi", "v2": "5Gi", "v3": "4Gi", "v4": "5Gi"}
    volumes = [volume(name).size(size).of_class("local") for name, size in sizes.items()]
    cluster = StorageCluster(A, LOCAL, *volumes, claim("c").size("5Gi").of_class("local"))

    assert cluster.schedule(using(pod("p"), "c")) == Placed("a")

    assert chosen(cluster) == ["v2"]


UNSUITABLE = [
    pytest.param(lambda v: v.size("1Gi"), id="too small"),
    pytest.param(lambda v: v.of_class("other"), id="of another class"),
    pytest.param(lambda v: v.modes("ReadOnlyMany"), id="without an access mode"),
    pytest.param(lambda v: v.phase("Released"), id="not available"),
    pytest.param(lambda v: v.deleting(), id="being deleted"),
    pytest.param(lambda v: v.spec(volume_mode="Block"), id="of another volume mode"),
    pytest.param(lambda v: v.spec(volume_attributes_class_name="x"), id="of other attributes"),
    pytest.param(lambda v: v.for_claim("other"), id="reserved for another claim"),
    pytest.param(lambda v: v.for_claim("c", "old"), id="reserved for a claim that was replaced"),
    pytest.param(lambda v: v.reached_by(zone="b"), id="out of reach"),
    pytest.param(lambda v: v.label("disk", "hdd"), id="not selected"),
]


@pytest.mark.parametrize("how", UNSUITABLE)
def test_a_volume_that_does_not_match_is_not_chosen(how):
    wanted = claim("c").size("5Gi").of_class("local").selects(disk="ssd")
    good = volume("v").size("5Gi").of_class("local").label("disk", "ssd")
    cluster = StorageCluster(A, LOCAL, how(good), wanted, using(pod("p"), "c"))

    assert said(cluster) == f"1 {NO_VOLUME}"
    cluster.add(good)
    cluster.wait(20)
    assert cluster.step().decision == Placed("a")


def test_a_volume_reserved_for_the_claim_is_taken_before_all_others():
    cluster = StorageCluster(
        A, B, LOCAL, claim("c").of_class("local"),
        volume("v1").of_class("local"),
        volume("v2").size("9Gi").of_class("local").for_claim("c").reached_by(zone="b"),
    )  # fmt: skip

    assert cluster.schedule(using(pod("p"), "c")) == Placed("b")

    assert chosen(cluster) == ["v2"]


def test_two_claims_of_a_pod_get_two_volumes_the_smaller_claim_first():
    volumes = [volume(n).size(s).of_class("local") for n, s in (("v1", "5Gi"), ("v2", "2Gi"))]
    claims = [claim("big").size("2Gi").of_class("local"), claim("small").of_class("local")]
    cluster = StorageCluster(A, LOCAL, *volumes, *claims)

    assert cluster.schedule(using(pod("p"), "big", "small")) == Placed("a")

    (effect,) = cluster.asked(BindVolumes)
    pairs = {each.claim_name: each.volume for each in effect.volumes}
    assert pairs == {"small": "v2", "big": "v1"}


def test_two_claims_and_one_volume_do_not_fit():
    cluster = StorageCluster(
        A, LOCAL, volume("v").of_class("local"), claim("c").of_class("local"),
        claim("d").of_class("local"), using(pod("p"), "c", "d"),
    )  # fmt: skip

    assert said(cluster) == f"1 {NO_VOLUME}"


def test_volumes_of_many_nodes_are_kept_apart():
    nodes = [node(f"n{i}").label("host", f"n{i}") for i in range(20)]
    volumes = [
        volume(f"v{i}-{size}").size(f"{size}Gi").of_class("local").reached_by(host=f"n{i}")
        for i in range(0, 20, 2)
        for size in (1, 3)
    ]
    claims = [claim(f"c{i}").size("2Gi").of_class("local") for i in range(12)]
    cluster = StorageCluster(*nodes, LOCAL, *volumes, *claims)

    for i in range(12):
        cluster.add(using(pod(f"p{i}"), f"c{i}"))
    placed = [each.decision for each in cluster.drain()]

    where = [each.node for each in placed if isinstance(each, Placed)]
    assert sorted(where) == sorted(f"n{i}" for i in range(0, 20, 2))
    assert sum(isinstance(each, Unschedulable) for each in placed) == 2


# Claims that wait for their first consumer: volumes to be made ----------------------------------


def test_a_volume_is_made_where_there_is_none():
    cluster = StorageCluster(A, MADE, claim("c").of_class("made"))

    assert cluster.schedule(using(pod("p"), "c")) == Placed("a")


def test_volumes_are_made_only_where_the_class_allows_it():
    zonal = MADE.allows(zone="b", other="x").allows(zone=("b", "c"))
    cluster = StorageCluster(A, B, zonal, claim("c").of_class("made"))

    assert cluster.schedule(using(pod("p"), "c")) == Placed("b")


def test_other_pods_with_the_claim_follow_the_node_that_was_selected():
    cluster = StorageCluster(A, B, MADE, claim("c").of_class("made").on("b"))

    assert cluster.schedule(using(pod("p"), "c")) == Placed("b")


@pytest.mark.parametrize(
    ("room", "fits"),
    [
        pytest.param(capacity("r", "made").room("5Gi").for_nodes(zone="a"), True, id="enough"),
        pytest.param(capacity("r", "made").room("4Gi").for_nodes(zone="a"), False, id="too little"),
        pytest.param(
            capacity("r", "made").for_nodes(zone="a"), False, id="a capacity without an amount"
        ),
        pytest.param(capacity("r", "made").room("9Gi"), False, id="out of reach of all"),
        pytest.param(capacity("r", "made").room("9Gi").for_nodes(zone="b"), False, id="elsewhere"),
        pytest.param(capacity("r", "made").room("9Gi").for_nodes(), True, id="within all reach"),
        pytest.param(
            capacity("r", "made").room("9Gi").at_most("4Gi").for_nodes(), False, id="too large"
        ),
        pytest.param(capacity("r", "x").room("9Gi").for_nodes(), False, id="of another class"),
    ],
)
def test_a_driver_that_reports_its_capacity_provisions_what_fits(room, fits):
    driver = csi_driver("csi.example.com", tells_capacity=True)
    cluster = StorageCluster(A, MADE, driver, room, claim("c").size("5Gi").of_class("made"))
    cluster.add(using(pod("p"), "c"))

    if fits:
        assert cluster.step().decision == Placed("a")
    else:
        assert said(cluster) == f"1 {NO_ROOM}"


def test_capacity_does_not_matter_to_drivers_that_do_not_report_it():
    room = capacity("r", "made").room("1Gi")
    wanted = claim("c").size("5Gi").of_class("made")
    cluster = StorageCluster(A, MADE, csi_driver("csi.example.com"), room, wanted)

    assert cluster.schedule(using(pod("p"), "c")) == Placed("a")


# Without writes ----------------------------------------------------------------------------------


def test_a_claim_that_waits_for_its_first_consumer_is_refused_where_no_volumes_are_bound():
    free = volume("v").of_class("local").reached_by(zone="a")
    cluster = StorageCluster(A, LOCAL, free, claim("c").of_class("local"), config=NO_WRITES)
    cluster.add(using(pod("p"), "c"))

    assert said(cluster) == (
        "pod has PersistentVolumeClaims that wait for their first consumer, and this scheduler is"
        " configured with bindVolumes: false"
    )
    assert cluster.asked(BindVolumes) == []


def test_bound_claims_are_used_where_no_volumes_are_bound():
    bound = volume("v").reached_by(zone="b")
    cluster = StorageCluster(A, B, bound, claim("c").bound_to("v"), config=NO_WRITES)

    assert cluster.schedule(using(pod("p"), "c")) == Placed("b")
