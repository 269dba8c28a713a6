"""Claims from the gate to the bound pod: what is held in memory, written, and taken back."""

import pytest
from msgspec.structs import replace

from scheduler.model.api.devices import AllocatedDevice, ClaimStatus
from scheduler.model.api.objects import Condition, PodResourceClaim, ResourceClaimStatus
from scheduler.model.base import OwnerReference
from scheduler.model.decisions import Placed, Unschedulable
from scheduler.model.effects import (
    Bind,
    BindClaims,
    DeallocateClaim,
    DeleteClaim,
    RecordEvent,
    ReleaseClaims,
)
from scheduler.model.events import FailureKind
from scheduler.model.releases import V1_36, V1_37, Reference
from scheduler.plugins.dynamic_resources.dynamic_resources import DynamicResources
from scheduler.queue.phases import QueuePhase
from tests.support.builders import PodBuilder, node, pod
from tests.support.cluster import Cluster
from tests.support.devices import (
    DRIVER,
    allocated,
    claim,
    claiming,
    device,
    device_class,
    devices_of,
    gpus,
    wants,
)
from tests.support.plugin_checks import state_of

GPU = "example.com/gpu"


def cluster_of(*objects) -> Cluster:
    return Cluster(node("n1"), device_class(), gpus("n1", "a", "b"), *objects)


def generated(name: str, claim_name: str | None):
    """Return a pod whose claim is made from a template, and what its status says of it."""
    spec = [PodResourceClaim("dev", None, "template")]
    status = [] if claim_name is None else [ResourceClaimStatus("dev", claim_name or None)]
    return pod(name).spec(resource_claims=spec).status(resource_claim_statuses=status)


def owned(name: str, owner: str):
    made = claim(name, wants())
    owners = [OwnerReference("v1", "Pod", owner, f"uid:default/{owner}", controller=True)]
    return replace(made, metadata=replace(made.metadata, owner_references=owners))


@pytest.mark.parametrize(
    ("there", "waiting", "cure"),
    [
        ([], claiming("p", "c"), claim("c", wants())),
        ([owned("c", "p")], generated("p", None), generated("p", "c")),
        ([], generated("p", "d"), owned("d", "p")),
    ],
    ids=["a claim", "the name of the claim", "the generated claim"],
)
def test_a_pod_is_gated_until_its_claims_exist(there, waiting, cure):
    cluster = cluster_of(*there, waiting)
    before = cluster.phase("p")

    cluster.add(cure)

    assert before is QueuePhase.GATED
    assert cluster.phase("p") is QueuePhase.ACTIVE
    assert cluster.drain()[-1].decision == Placed("n1")


FREE, TAKEN = claim("c", wants()), allocated("c", "n1/a", on="n1")
OTHER, OTHER_TAKEN = claim("d", wants()), allocated("d", "n1/a", on="n1")


@pytest.mark.parametrize(
    ("old", "new", "v1_36", "v1_37"),
    [
        pytest.param(TAKEN, None, False, True, id="an allocated claim is deleted"),
        pytest.param(FREE, None, False, False, id="a claim without an allocation is deleted"),
        pytest.param(OTHER_TAKEN, OTHER, True, True, id="another claim is deallocated"),
        pytest.param(None, OTHER, False, False, id="another claim is created"),
        pytest.param(None, FREE, True, True, id="its claim is created"),
        pytest.param(FREE, TAKEN, True, True, id="the status of its claim changes"),
        pytest.param(FREE, FREE, False, False, id="the status of its claim stays"),
    ],
)
@pytest.mark.parametrize("usable", [True, False], ids=["usable claims", "an unusable claim"])
def test_which_claims_wake_a_pod(old, new, v1_36, v1_37, usable):
    """A pod with a claim that cannot be used is woken only by devices that become free."""
    waiting = claiming("p", "c") if usable else claiming("p", "c", "missing")
    for reference, wakes in ((V1_36, v1_36), (V1_37, v1_37)):
        hint = listening(reference, waiting)[1].hint

        frees = new is None or (old is not None and new is OTHER)
        assert hint(waiting.build(), old, new) is (wakes and (usable or frees)), reference.version


def listening(reference: Reference, waiting: PodBuilder):
    """Return what wakes a pod of a cluster that has the claim `c` alone."""
    state, plugin = state_of(), DynamicResources(reference=reference)
    state.devices.write(FREE)
    plugin.pre_enqueue(waiting.build(), state)
    return plugin.events_to_register()


@pytest.mark.parametrize(
    ("changed", "wakes"),
    [(claiming("p", "c"), True), (claiming("p", "c", "missing"), False), (claiming("q"), False)],
    ids=["its claims can be used", "one of its claims cannot be used", "another pod"],
)
def test_which_change_of_its_generated_claims_wakes_a_pod(changed, wakes):
    waiting = claiming("p", "c")
    hint = listening(V1_37, waiting)[2].hint

    assert hint(waiting.build(), waiting.build(), changed.build()) is wakes


def test_a_pod_is_bound_after_its_claims_are_written():
    cluster = cluster_of(claim("c", wants()))

    cluster.schedule(claiming("p", "c"))

    order = [type(each) for each in cluster.asked(BindClaims, Bind)]
    assert order == [BindClaims, Bind]
    (write,) = cluster.asked(BindClaims)[0].claims  # type: ignore[attr-defined]
    assert write.claim.key == "default/c"
    assert write.allocation is not None


def test_a_binding_that_fails_takes_the_reservation_back_and_keeps_the_allocation():
    cluster = cluster_of(claim("c", wants()))
    cluster.hold(Bind)
    cluster.schedule(claiming("p", "c"))

    cluster.fail(kind=FailureKind.REFUSED)

    assert len(cluster.asked(ReleaseClaims)) == 1
    assert cluster.claim("c").status.reserved_for == []
    assert devices_of(cluster.claim("c")) == ["r=n1/a"]


def test_a_claim_that_keeps_the_pod_from_its_only_node_is_deallocated():
    cluster = Cluster(
        node("n1"), node("n2").cordoned(), device_class(), gpus("n1", "a"), gpus("n2", "a"),
        allocated("c", "n2/a", on="n2"),
    )  # fmt: skip

    first = cluster.schedule(claiming("p", "c"))
    cluster.wait(60)
    second = cluster.drain()[-1].decision

    assert isinstance(first, Unschedulable)
    assert "deallocation of ResourceClaim completed" in first.message
    assert second == Placed("n1")
    assert devices_of(cluster.claim("c")) == ["r=n1/a"]


def test_a_deallocation_that_fails_is_tried_again():
    cluster = Cluster(
        node("n1"), node("n2").cordoned(), device_class(), allocated("c", "n2/a", on="n2")
    )
    cluster.hold(DeallocateClaim)
    cluster.schedule(claiming("p", "c"))

    cluster.fail(kind=FailureKind.CONFLICT)

    assert cluster.phase("p") is QueuePhase.BACKOFF


SLOW = gpus("n1", device("a", binding_conditions=["Ready"], binding_failure_conditions=["Broken"]))


def conditional(*conditions: Condition) -> Cluster:
    """Return a cluster in which a pod waits for a device, and what its driver says then."""
    cluster = Cluster(node("n1"), device_class(), SLOW, claim("c", wants()))
    cluster.schedule(claiming("p", "c"))
    assert cluster.asked(Bind) == []
    known = cluster.claim("c")
    said = AllocatedDevice(DRIVER, "n1", "a", None, list(conditions))
    cluster.add(replace(known, status=replace(known.status, devices=[said])))
    return cluster


def test_a_pod_is_bound_when_its_devices_are_ready():
    assert len(conditional(Condition("Ready", "True")).asked(Bind)) == 1
    assert conditional(Condition("Ready", "False")).asked(Bind) == []


def test_a_pod_that_waits_for_a_device_says_so():
    events = conditional(Condition("Ready", "False")).asked(RecordEvent)

    assert [(each.reason, each.note) for each in events] == [  # type: ignore[attr-defined]
        ("BindingConditionsPending", "waiting for binding conditions for device on node n1")
    ]


def test_a_claim_for_extended_resources_of_an_earlier_attempt_is_deleted_first():
    owner = OwnerReference("v1", "Pod", "p", "uid:default/p", controller=True)
    marked = {"resource.kubernetes.io/extended-resource-claim": "true"}
    stale = claim("stale", wants())
    metadata = replace(stale.metadata, annotations=marked, owner_references=[owner])
    cluster = Cluster(node("n1"), device_class(resource=GPU), gpus("n1", "a"))
    cluster.add(replace(stale, metadata=metadata))

    first = cluster.schedule(pod("p").requests({GPU: "1"}))
    cluster.wait(60)

    assert isinstance(first, Unschedulable)
    assert "1 cannot schedule extended resource claim." in first.message
    assert "deletion of ResourceClaim completed" in first.message
    assert cluster.drain()[-1].decision == Placed("n1")


def test_a_failed_device_ends_the_binding_and_its_claim_is_deallocated_next():
    cluster = conditional(Condition("Broken", "True", "Cable", 'no "link"'))
    given_up = cluster.asked(ReleaseClaims)
    cluster.wait(60)
    decision = cluster.drain()[0].decision

    assert len(given_up) == 1
    assert isinstance(decision, Unschedulable)
    assert "deallocation of ResourceClaim completed" in decision.message


def test_a_pod_that_others_bind_while_it_waits_keeps_its_reservation():
    cluster = conditional(Condition("Ready", "False"))

    cluster.change("p", lambda pod: pod.on("n1"))

    assert cluster.asked(ReleaseClaims) == []
    assert cluster.claim("c").reserved_by("uid:default/p")


def test_a_device_that_is_not_ready_in_time_ends_the_binding():
    cluster = conditional(Condition("Ready", "False"))

    cluster.wait(599)
    before = cluster.asked(ReleaseClaims)
    cluster.wait(2)

    assert before == []
    assert len(cluster.asked(ReleaseClaims)) == 1


def test_an_extended_resource_gets_a_claim_of_its_own():
    cluster = Cluster(node("n1"), device_class(resource=GPU), gpus("n1", "a", "b"))

    decision = cluster.schedule(pod("p").requests({GPU: "2"}))

    (effect,) = cluster.asked(BindClaims)
    (write,) = effect.claims  # type: ignore[attr-defined]
    assert decision == Placed("n1")
    assert write.claim.name == ""
    assert [(each.resource_name, each.request_name) for each in write.mappings] == [
        (GPU, "container-0-request-0")
    ]
    assert devices_of(cluster.claim("p-extended-resources")) == [
        "container-0-request-0=n1/a", "container-0-request-0=n1/b",
    ]  # fmt: skip


def test_the_claim_of_an_attempt_that_failed_is_deleted():
    cluster = Cluster(node("n1"), device_class(resource=GPU), gpus("n1", "a"))
    cluster.hold(Bind)
    cluster.schedule(pod("p").requests({GPU: "1"}))

    cluster.fail(kind=FailureKind.REFUSED)
    cluster.hold()
    cluster.wait(60)

    assert len(cluster.asked(DeleteClaim)) == 1
    assert cluster.drain()[-1].decision == Placed("n1")


def test_an_older_state_of_a_claim_changes_nothing():
    table = cluster_of().machine.cluster.devices.claims
    newer = claim("c", wants(), allocation=allocated("c", "n1/a", on="n1").status.allocation)
    newer = replace(newer, metadata=replace(newer.metadata, resource_version="10"))
    older = replace(
        newer, status=ClaimStatus(), metadata=replace(newer.metadata, resource_version="9")
    )

    table.write(newer)
    _, matters = table.write(older)

    assert not matters
    assert table.get("default/c") == newer
    table.check()


def test_a_new_node_with_devices_requeues_pods_that_lack_their_extended_resource():
    cluster = Cluster(node("n1").has({GPU: "1"}), device_class(resource=GPU))
    cluster.schedule(pod("other").requests({GPU: "1"}))
    lacking = cluster.schedule(pod("p").requests({GPU: "1"}))

    cluster.add(gpus("n2", "a"), node("n2"))
    cluster.wait(30)

    assert isinstance(lacking, Unschedulable)
    assert cluster.drain()[-1].decision == Placed("n2")


NO_WRITES = """
profiles:
- schedulerName: preemptive-scheduler
  pluginConfig: [{name: PreemptiveScheduler, args: {allocateDevices: false}}]
"""


@pytest.mark.parametrize("needs", ["a claim", "a claim that has devices", "an extended resource"])
def test_a_pod_that_needs_devices_is_refused_where_none_are_allocated(needs: str):
    elsewhere = "has devices" in needs
    made = allocated("c", "n2/a", on="n2") if elsewhere else claim("c", wants())
    objects = (node("n1"), device_class(resource=GPU), gpus("n1", "a", "b"), made)
    cluster = Cluster(*objects, config=NO_WRITES)
    waiting = pod("p").requests({GPU: "1"}) if "extended" in needs else claiming("p", "c")

    decision = cluster.schedule(waiting)

    assert isinstance(decision, Unschedulable)
    assert "pod needs devices, and this scheduler is configured with allocateDevices: false" in (
        decision.message
    )
    assert cluster.asked(BindClaims, DeallocateClaim, DeleteClaim, ReleaseClaims) == []
    assert cluster.schedule(pod("other")) == Placed("n1")
