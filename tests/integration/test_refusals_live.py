"""What the API server refuses with 403 is told apart, and only a missing right is called one."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import pytest

from deploy.tools.controlplane.api import ApiError
from scheduler.model.events import FailureKind
from tests.integration.objects import Json, condition, is_gone, is_rejected, pod
from tests.integration.scene import Scene
from tests.support.live import Scheduler

pytestmark = pytest.mark.cluster

ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
SAYS: Final = "nothing is bound here"


def failures(scheduler: Scheduler, effect: str) -> dict[str, int]:
    """Return how many effects of a kind have failed, by outcome."""
    counts = {
        kind.value: int(
            scheduler.metric("scheduler_effects_total", effect=effect, outcome=kind.value)
        )
        for kind in FailureKind
    }
    return {kind: count for kind, count in counts.items() if count}


@pytest.fixture
def leaving(scene: Scene) -> Iterator[str]:
    """A namespace of its own; controllers that a test has paused go on, and delete it."""
    name = f"{scene.namespace}-leaving"
    scene.plane.create_namespace(name)
    yield name
    scene.plane.resume("kube-controller-manager")
    scene.api.wait_for(f"/api/v1/namespaces/{name}", is_gone)


def test_pods_whose_namespace_is_being_deleted_are_tried_once_and_left_alone(
    scene, schedulers, leaving
):
    scheduler = schedulers.start("-v", "4")
    node, names = scene.node(cpu="4"), [f"p-{i}" for i in range(3)]
    pods = f"/api/v1/namespaces/{leaving}/pods"
    bodies = [pod(name, by=scheduler.name, nodeSelector={"free": "yes"}) for name in names]
    scene.api.post_all(pods, bodies)
    before = [scene.api.wait_for(f"{pods}/{name}", is_rejected("")) for name in names]

    scene.plane.pause("kube-controller-manager")
    scene.api.delete(f"/api/v1/namespaces/{leaving}")
    scene.patch_node(node, {"metadata": {"labels": {"free": "yes"}}})
    for name in names:
        refused = scheduler.wait_log("bind_failed", pod=f"{leaving}/{name}")
        assert (refused["cause"], refused["level"]) == ("gone", "debug")
    scene.create(pod("later", "4"))

    assert scene.wait_running("later") == {"later": node}
    assert failures(scheduler, "Bind") == {"gone": 3}
    assert failures(scheduler, "RecordEvent").keys() <= {"gone"}
    assert [scene.api.get(f"{pods}/{name}")["status"] for name in names] == [
        each["status"] for each in before
    ]


@contextmanager
def policy(scene: Scene) -> Iterator[None]:
    """A ValidatingAdmissionPolicy that denies all bindings of this namespace, as `Forbidden`."""
    name = f"unbound-{scene.namespace}"
    here = {"matchLabels": {"kubernetes.io/metadata.name": scene.namespace}}
    bindings = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"]}
    kinds: dict[str, Json] = {
        "validatingadmissionpolicies": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": here,
                "resourceRules": [{**bindings, "operations": ["CREATE"]}],
            },
            "validations": [{"expression": "false", "message": SAYS, "reason": "Forbidden"}],
        },
        "validatingadmissionpolicybindings": {"policyName": name, "validationActions": ["Deny"]},
    }
    for kind, spec in kinds.items():
        scene.api.post(f"{ADMISSION}/{kind}", {"metadata": {"name": name}, "spec": spec})
    yield
    for kind in kinds:
        scene.api.delete(f"{ADMISSION}/{kind}/{name}")


def denied(bind: Callable[[], Any]) -> bool:
    try:
        bind()
    except ApiError as error:
        return SAYS in error.message
    return False


def test_a_policy_that_denies_bindings_is_quoted_and_is_no_missing_right(scene, schedulers):
    node = scene.node()
    with policy(scene):
        # The API server enforces a policy a little later, which no condition shows.
        for attempt in range(100):
            probe = f"probe-{attempt}"
            scene.create(pod(probe, "1m", by="nobody"))
            if denied(lambda name=probe: scene.bind(name, node)):
                break
            scene.wait_running(probe)
        scheduler = schedulers.start()
        scene.create(pod("a"))
        scheduler.wait_log("bind_failed", cause="refused")
        told = condition(
            scene.wait("a", lambda found: bool(condition(found or {}, "PodScheduled"))),
            "PodScheduled",
        )

        assert told["reason"] == "SchedulerError"
        assert f"ValidatingAdmissionPolicy 'unbound-{scene.namespace}'" in told["message"]
        assert SAYS in told["message"]
        assert failures(scheduler, "Bind").keys() == {"refused"}
