"""The cluster events of a new state of an object."""

import pytest

from scheduler.framework import event_diff
from scheduler.framework.cluster_events import Action, Resource
from scheduler.model.api.objects import (
    ContainerStatus,
    PodResourceClaim,
    ResourceClaimStatus,
    ResourceRequirements,
)
from scheduler.model.releases import V1_36, V1_37
from tests.support.builders import node, pod

APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
NODE = node("n1").cpu("1").label("zone", "a").taint("t").condition("Ready", "True")

NODE_CHANGES = {
    "nothing": (NODE, NODE, []),
    "a heartbeat": (NODE, NODE.condition("Ready", "True"), []),
    "allocatable": (NODE, NODE.cpu("2"), [Action.UPDATE_NODE_ALLOCATABLE]),
    "a label": (NODE, NODE.label("zone", "b"), [Action.UPDATE_NODE_LABEL]),
    "a taint": (NODE, NODE.taint("u"), [Action.UPDATE_NODE_TAINT]),
    "uncordoned": (NODE.cordoned(), NODE, [Action.UPDATE_NODE_TAINT]),
    "cordoned": (NODE, NODE.cordoned(), []),
    "a condition": (NODE, NODE.condition("Ready", "False"), [Action.UPDATE_NODE_CONDITION]),
    "an annotation": (NODE, NODE.annotation("a", "b"), [Action.UPDATE_NODE_ANNOTATION]),
    "an annotation that is not kept": (
        NODE.annotation(APPLIED, "a"),
        NODE.annotation(APPLIED, "b"),
        [Action.UPDATE_NODE_ANNOTATION],
    ),
    "an annotation that is not kept goes": (
        NODE.annotation(APPLIED, "a"),
        NODE,
        [Action.UPDATE_NODE_ANNOTATION],
    ),
    "nothing, where an annotation is not kept": (
        NODE.annotation(APPLIED, "a"),
        NODE.annotation(APPLIED, "a"),
        [],
    ),
    "a feature": (NODE, NODE.declares("X"), [Action.UPDATE_NODE_DECLARED_FEATURE]),
    "much at once, in order": (
        NODE.cordoned(),
        NODE.annotation("a", "b").taint("u").label("zone", "b").cpu("2"),
        [
            Action.UPDATE_NODE_TAINT,
            Action.UPDATE_NODE_ALLOCATABLE,
            Action.UPDATE_NODE_LABEL,
            Action.UPDATE_NODE_TAINT,
            Action.UPDATE_NODE_ANNOTATION,
        ],
    ),
}


@pytest.mark.parametrize(("old", "new", "want"), NODE_CHANGES.values(), ids=NODE_CHANGES)
def test_a_new_state_of_a_node_becomes_one_event_per_change(old, new, want):
    found = event_diff.node_changes(old.build(), new.build())

    assert [event.action for event in found] == want
    assert all(event.resource is Resource.NODE for event in found)


POD = pod("p").requests(cpu="2", memory="1Gi").tolerates("a").gated("g")
STATUS = ContainerStatus("main", ResourceRequirements({"cpu": "3"}), {"cpu": "3"})
SHRUNK = ContainerStatus("main", ResourceRequirements({"cpu": "2"}), {"cpu": "3"})
FREED = ContainerStatus("main", ResourceRequirements({"cpu": "2"}), {"cpu": "2"})


def with_status(status):
    return POD.status(container_statuses=[status])


POD_CHANGES = {
    "a label": (POD, POD.label("a", "b"), [Action.UPDATE_POD_LABEL]),
    "a smaller request": (POD, POD.cpu("1"), [Action.UPDATE_POD_SCALE_DOWN]),
    "a request that is gone": (
        POD,
        pod("p").cpu("2").tolerates("a").gated("g"),
        [Action.UPDATE_POD_SCALE_DOWN],
    ),
    "a larger request": (POD, POD.cpu("3"), [Action.UPDATE_OTHER]),
    "another spelling": (POD, POD.cpu("2000m"), [Action.UPDATE_OTHER]),
    "one of two gates removed": (POD.gated("g", "h"), POD, [Action.UPDATE_OTHER]),
    "the last gate removed": (
        POD,
        POD.gated(),
        [Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED],
    ),
    "one more toleration": (POD, POD.tolerates("b"), [Action.UPDATE_POD_TOLERATION]),
    "a claim": (
        POD.spec(resource_claims=[PodResourceClaim("c")]),
        POD.spec(resource_claims=[PodResourceClaim("c")]).status(
            resource_claim_statuses=[ResourceClaimStatus("c", "made")]
        ),
        [Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM],
    ),
    "a condition": (POD, POD.condition("Ready", "True"), [Action.UPDATE_OTHER]),
    "what the kubelet granted": (
        with_status(STATUS),
        with_status(FREED),
        [Action.UPDATE_POD_SCALE_DOWN],
    ),
    "what is in force, but not what is allocated": (
        with_status(STATUS),
        with_status(SHRUNK),
        [Action.UPDATE_OTHER],
    ),
    "only what is allocated": (
        with_status(SHRUNK),
        with_status(FREED),
        [Action.UPDATE_POD_SCALE_DOWN],
    ),
    "a resize that turns out infeasible": (
        POD.cpu("4").granted(cpu="1").condition("PodResizePending", "True", "Deferred"),
        POD.cpu("4").granted(cpu="1").condition("PodResizePending", "True", "Infeasible"),
        [Action.UPDATE_POD_SCALE_DOWN],
    ),
    "what a sidecar was granted": (
        POD.status(init_container_statuses=[STATUS]),
        POD.status(init_container_statuses=[FREED]),
        [Action.UPDATE_OTHER],
    ),
    "much at once, in order": (
        POD,
        POD.gated().cpu("1").label("a").tolerates("b"),
        [
            Action.UPDATE_POD_LABEL,
            Action.UPDATE_POD_SCALE_DOWN,
            Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
            Action.UPDATE_POD_TOLERATION,
        ],
    ),
}


RESIZED = {
    "a larger request": (POD, POD.cpu("3"), [Action.UPDATE_POD_SCALE_UP]),
    "a new request": (pod("p").cpu("2"), pod("p").requests(cpu="2", memory="1"), [
        Action.UPDATE_POD_SCALE_UP,
    ]),
    "one up, one down": (POD, POD.requests(cpu="3", memory="1"), [
        Action.UPDATE_POD_SCALE_DOWN, Action.UPDATE_POD_SCALE_UP,
    ]),
    "neither": (POD, POD.cpu("2000m"), [Action.UPDATE_OTHER]),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new", "want"), RESIZED.values(), ids=RESIZED)
def test_v1_37_has_an_event_for_larger_requests(old, new, want):
    found = event_diff.pod_changes(old.build(), new.build(), V1_37)

    assert [event.action for event in found] == want


@pytest.mark.parametrize(
    ("builder", "reference", "label"),
    [
        pytest.param(POD, V1_36, "UnschedulablePodUpdatePodLabel", id="waiting, v1.36"),
        pytest.param(POD, V1_37, "TargetPodUpdatePodLabel", id="waiting, v1.37"),
        pytest.param(POD.on("n"), V1_36, "AssignedPodUpdatePodLabel", id="on a node, v1.36"),
        pytest.param(POD.on("n"), V1_37, "AssignedPodUpdatePodLabel", id="on a node, v1.37"),
    ],
)
def test_the_label_of_a_change_of_a_pod(builder, reference, label):
    (event,) = event_diff.pod_changes(builder.build(), builder.label("a").build(), reference)

    assert event.label == label


@pytest.mark.parametrize(("old", "new", "want"), POD_CHANGES.values(), ids=POD_CHANGES)
def test_a_new_state_of_a_pod_becomes_one_event_per_change(old, new, want):
    found = event_diff.pod_changes(old.build(), new.build())

    assert [event.action for event in found] == want
