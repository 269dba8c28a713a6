"""From node selection to binding: assume, write, wait; and all failures."""

import pytest

from scheduler.model.api.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.model.decisions import Placed, Preempting, Unschedulable
from scheduler.model.effects import (
    Bind,
    BindVolumes,
    Evict,
    Nominate,
    RecordEvent,
    ReserveVolume,
    SelectNode,
    SetCondition,
)
from scheduler.model.events import FailureKind
from scheduler.queue.phases import QueuePhase
from tests.support.builders import OURS, node, pod
from tests.support.storage import StorageCluster, claim, storage_class, using, volume

STATIC = (
    storage_class("local").waits(),
    volume("v").of_class("local").version(1007),
    claim("c").of_class("local").version(1008),
)
MADE = (
    storage_class("made").waits().made_by("csi.example.com"),
    claim("m").of_class("made").version(1009),
)
RUNNING = 'running PreBind plugin "VolumeBinding": '


@pytest.fixture
def cluster() -> StorageCluster:
    """Give a cluster whose controllers sleep, with a claim for a volume and one to be made."""
    made = StorageCluster(node("n1").cpu("2"), *STATIC, *MADE)
    made.sleep()
    return made


def written(cluster: StorageCluster) -> BindVolumes:
    (effect,) = cluster.asked(BindVolumes)
    assert isinstance(effect, BindVolumes)
    return effect


def reason(cluster: StorageCluster, name: str = "p") -> str:
    """Return the message of the last condition of a pod."""
    said = [each for each in cluster.asked(SetCondition) if each.pod.name == name]
    assert isinstance(said[-1], SetCondition)
    assert (said[-1].reason, said[-1].clear_nomination) == ("SchedulerError", True)
    return said[-1].message


# Success --------------------------------------------------------------------------------------


def test_the_volume_is_reserved_and_the_node_selected_before_the_pod_is_bound(cluster):
    assert cluster.schedule(using(pod("p"), "c", "m")) == Placed("n1")

    reserve = ReserveVolume(
        "v", "1007", "default", "c", "uid:claim:default/c", "1008", by_controller=True
    )
    select = SelectNode("default", "m", "1009")
    assert written(cluster) == BindVolumes(cluster.ref("p"), "n1", (reserve,), (select,))
    assert cluster.asked(Bind) == []
    assert cluster.phase("p") is QueuePhase.BINDING


def test_a_volume_that_was_reserved_by_hand_is_not_marked(cluster):
    cluster.add(volume("v").of_class("local").for_claim("c"))

    cluster.schedule(using(pod("p"), "c"))

    assert [each.by_controller for each in written(cluster).volumes] == [False]


def test_the_pod_is_bound_when_all_its_claims_are(cluster):
    cluster.schedule(using(pod("p"), "c", "m"))

    cluster.awake()

    assert cluster.asked(Bind) == [Bind(cluster.ref("p"), "n1", OURS)]
    assert cluster.phase("p") is None
    assert cluster.volume("v").spec.claim_ref.uid == cluster.claim("c").metadata.uid


def test_the_watch_may_confirm_before_the_answer(cluster):
    cluster.hold(BindVolumes)
    cluster.schedule(using(pod("p"), "c"))
    (effect,) = cluster.held
    cluster.change_objects(effect)
    cluster.awake()
    assert cluster.asked(Bind) == []

    cluster.done(changed=False)

    assert len(cluster.asked(Bind)) == 1


def test_the_answer_may_arrive_before_the_watch(cluster):
    cluster.add(using(pod("p"), "c", "m"))
    cluster.lag()
    cluster.step()
    cluster.awake()
    assert cluster.asked(Bind) == []

    cluster.catch_up()

    assert len(cluster.asked(Bind)) == 1


def test_what_others_say_about_the_volume_before_the_write_decides_nothing(cluster):
    cluster.hold(BindVolumes)
    cluster.schedule(using(pod("p"), "c"))
    cluster.done(changed=False)

    # The state that was looked at has no reservation yet, and is no sign that it was released.
    cluster.add(node("n1").cpu("2").label("x", "y"))

    assert cluster.phase("p") is QueuePhase.BINDING


# What others see meanwhile ----------------------------------------------------------------------


def test_a_volume_that_was_chosen_is_not_assigned_twice(cluster):
    cluster.hold(BindVolumes)
    cluster.schedule(using(pod("p"), "c"))
    cluster.add(claim("d").of_class("local"))

    assert isinstance(cluster.schedule(using(pod("q"), "d")), Unschedulable)


def test_another_pod_with_the_claim_shares_what_was_chosen(cluster):
    cluster.add(node("n2").cpu("2"))
    cluster.hold(BindVolumes)
    first = cluster.schedule(using(pod("p"), "c", "m"))

    assert cluster.schedule(using(pod("q"), "c", "m")) == first

    assert len(cluster.held) == 2
    assert cluster.held[0].volumes == cluster.held[1].volumes


def test_a_volume_that_was_reserved_before_is_waited_for_without_writing(cluster):
    cluster.add(volume("v").of_class("local").for_claim("c", "uid:claim:default/c"))

    cluster.schedule(using(pod("p"), "c"))

    assert written(cluster).volumes == ()
    assert cluster.asked(Bind) == []
    cluster.awake()
    assert len(cluster.asked(Bind)) == 1


# Failures ---------------------------------------------------------------------------------------


def test_a_refused_write_releases_every_reservation(cluster):
    cluster.hold(BindVolumes)
    cluster.schedule(using(pod("p").cpu("2"), "c", "m"))

    cluster.fail(kind=FailureKind.CONFLICT)

    assert reason(cluster) == f"{RUNNING}no"
    assert cluster.phase("p") is QueuePhase.BACKOFF
    assert cluster.machine.cluster.assumed == 0
    volumes = cluster.machine.cluster.volumes
    assert (volumes.volumes.assumed, volumes.claims.assumed) == (0, 0)
    cluster.add(claim("d").of_class("local"))
    assert cluster.schedule(using(pod("q").cpu("2"), "d")) == Placed("n1")


def test_a_volume_that_is_free_again_wakes_the_pods_that_lack_it(cluster):
    cluster.hold(BindVolumes)
    cluster.schedule(using(pod("p"), "c"))
    cluster.add(claim("d").of_class("local"))
    lacking = cluster.schedule(using(pod("q"), "d"))

    cluster.delete("p")
    cluster.wait(30)

    assert isinstance(lacking, Unschedulable)
    assert [attempt.decision for attempt in cluster.drain()] == [Placed("n1")]


def test_a_failure_is_reported_and_frees_the_capacity_for_others(cluster):
    cluster.hold(BindVolumes)
    cluster.schedule(using(pod("p").cpu("2"), "c"))
    assert isinstance(cluster.schedule(pod("q").cpu("2")), Unschedulable)

    cluster.fail()

    notes = [each.note for each in cluster.asked(RecordEvent) if each.regarding.name == "p"]
    assert notes == [f"{RUNNING}no"]
    assert cluster.phase("q") is not QueuePhase.UNSCHEDULABLE


def test_a_pod_is_tried_again_and_finds_what_was_written(cluster):
    cluster.schedule(using(pod("p"), "c"))
    cluster.wait(601)
    cluster.forget_effects()
    cluster.wait(20)

    assert cluster.step().decision == Placed("n1")

    assert written(cluster).volumes == ()
    cluster.awake()
    assert len(cluster.asked(Bind)) == 1


def test_a_binding_fails_when_volumes_are_not_provisioned_in_time(cluster):
    cluster.schedule(using(pod("p"), "c"))
    assert cluster.machine.next_wakeup() == cluster.now + 600

    cluster.wait(599.9)
    assert cluster.phase("p") is QueuePhase.BINDING
    cluster.wait(0.1)
    cluster.add(node("n2"))

    assert reason(cluster) == f"{RUNNING}binding volumes: context deadline exceeded"
    assert cluster.machine.cluster.assumed == 0


def test_the_longest_wait_is_configured():
    config = """
    profiles:
    - schedulerName: preemptive-scheduler
      pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: 5}}]
    """
    cluster = StorageCluster(node("n1"), *STATIC, config=config)
    cluster.sleep()
    cluster.schedule(using(pod("p"), "c"))

    assert cluster.machine.next_wakeup() == cluster.now + 5


LOST = [
    pytest.param(
        lambda c: c.change_stored(PersistentVolume, "v", lambda v: v.spec(claim_ref=None)),
        'ClaimRef got reset for pv "v"',
        id="the reservation",
    ),
    pytest.param(
        lambda c: c.remove_stored(PersistentVolume, "v"),
        'failed to check binding: persistentvolumes "v" not found',
        id="the volume",
    ),
    pytest.param(
        lambda c: c.remove_stored(PersistentVolumeClaim, "default/c"),
        'failed to check binding: persistentvolumeclaims "default/c" not found',
        id="the claim",
    ),
    pytest.param(
        lambda c: c.remove_stored(PersistentVolumeClaim, "default/m"),
        'failed to check provisioning pvc: persistentvolumeclaims "default/m" not found',
        id="the claim to be served",
    ),
    pytest.param(
        lambda c: c.change_stored(
            PersistentVolumeClaim, "default/m", lambda m: m.annotation("x").on("elsewhere")
        ),
        'provisioning failed for PVC "m"',
        id="the selected node",
    ),
    pytest.param(
        lambda c: c.change_stored(
            PersistentVolumeClaim, "default/m", lambda m: m.meta(annotations={})
        ),
        'selectedNode annotation reset for PVC "m"',
        id="all annotations",
    ),
    pytest.param(
        lambda c: c.change_stored(
            PersistentVolumeClaim, "default/m", lambda m: m.meta(annotations={"any": "other"})
        ),
        'provisioning failed for PVC "m"',
        id="all annotations but one that no rule reads",
    ),
    pytest.param(
        lambda c: c.delete_node("n1"),
        'failed to get node "n1": node "n1" not found',
        id="the node",
    ),
    pytest.param(
        lambda c: c.change_stored(PersistentVolume, "v", lambda v: v.reached_by(zone="a")),
        'pv "v" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms',
        id="the reach",
    ),
]


@pytest.mark.parametrize(("lose", "text"), LOST)
def test_what_is_waited_for_can_be_lost(cluster, lose, text):
    bound = claim("c").of_class("local").bound_to("v")
    cluster.schedule(using(pod("p"), "c", "m"))
    if " m" in text or '"m"' in text or "/m" in text:
        cluster.add(volume("v").of_class("local").for_claim("c", "uid:claim:default/c"), bound)

    lose(cluster)

    assert reason(cluster) == f"{RUNNING}binding volumes: {text}"
    assert cluster.phase("p") is QueuePhase.BACKOFF


def test_a_binding_fails_when_a_volume_is_provisioned_where_the_node_cannot_reach_it(cluster):
    cluster.schedule(using(pod("p"), "m"))

    cluster.add(
        volume("w").for_claim("m", "uid:claim:default/m").reached_by(zone="x"),
        claim("m").of_class("made").on("n1").bound_to("w"),
    )

    text = 'pv "w" node affinity doesn\'t match node "n1": no matching NodeSelectorTerms'
    assert reason(cluster) == f"{RUNNING}binding volumes: {text}"


def test_a_provisioned_volume_may_be_observed_after_its_claim(cluster):
    cluster.schedule(using(pod("p"), "m"))

    cluster.add(claim("m").of_class("made").on("n1").bound_to("w"))
    assert cluster.asked(Bind) == []
    cluster.add(volume("w").for_claim("m", "uid:claim:default/m"))

    assert len(cluster.asked(Bind)) == 1


@pytest.mark.parametrize("early", [True, False], ids=["before the answer", "after the answer"])
def test_a_deleted_pod_releases_every_reservation(cluster, early):
    cluster.hold(BindVolumes)
    cluster.schedule(using(pod("p"), "c"))
    if not early:
        cluster.done(changed=False)

    cluster.delete("p")

    assert cluster.machine.cluster.volumes.volumes.assumed == 0
    assert cluster.machine.cluster.assumed == 0
    if early:
        cluster.done(changed=False)
    assert cluster.asked(Bind, SetCondition) == []


def test_a_pod_that_is_being_deleted_is_not_waited_for(cluster):
    cluster.schedule(using(pod("p").cpu("2"), "c"))

    cluster.change("p", lambda own: own.terminating())

    assert cluster.phase("p") is None
    assert cluster.machine.cluster.assumed == 0
    assert cluster.asked(SetCondition) == []


def test_a_pod_that_another_scheduler_binds_is_not_bound_again(cluster):
    cluster.schedule(using(pod("p"), "c"))

    cluster.change("p", lambda own: own.on("n1"))

    assert cluster.machine.cluster.node_of(cluster.ref("p").uid) == "n1"
    assert cluster.asked(Bind, SetCondition) == []


def test_a_pod_that_waits_for_volumes_is_preempted_without_being_deleted(cluster):
    cluster.schedule(using(pod("p").cpu("2").priority(1), "c"))

    decision = cluster.schedule(pod("important").cpu("2").priority(10))

    assert isinstance(decision, Preempting)
    assert decision.victims == cluster.refs("p")
    assert cluster.asked(Evict) == []
    assert len(cluster.asked(Nominate)) == 1
    assert reason(cluster) == "preempted by DefaultPreemption"
    notes = [each.note for each in cluster.asked(RecordEvent) if each.reason == "Preempted"]
    uid = cluster.ref("important").uid
    assert notes == [f"Preempted by pod {uid} on node n1 (in kube-scheduler memory)."]
    assert cluster.phase("p") is QueuePhase.BACKOFF
    # Nothing has to terminate, so the preemptor does not wait.
    decisions = {each.pod.name: each.decision for each in cluster.drain()}
    assert decisions["important"] == Placed("n1")
