"""An eviction that admission control denies costs no more than the bounds allow."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from deploy.tools.controlplane.api import ApiClient, ApiError
from scheduler.state.preemption.wasted_evictions import FIRST_PAUSE
from tests.integration.objects import Json, is_running, pod
from tests.integration.scene import Scene
from tests.support.live import PATIENCE_SECONDS, PROBE_SECONDS

pytestmark = pytest.mark.cluster

ADMISSION: Final = "/apis/admissionregistration.k8s.io/v1"
SCHEDULER: Final = "system:serviceaccount:preemptive-scheduler:preemptive-scheduler"
GUARDED: Final = {"example.com/guarded": "yes"}
SAYS: Final = "guarded pods stay"
#: Between the time of the proxy and that of the scheduler, for one request.
SLACK_SECONDS: Final = 0.5


@pytest.fixture
def guard(scene: Scene, kubeconfig: Path) -> Iterator[None]:
    """Denies the scheduler, and no other user, to delete guarded pods of this namespace."""
    name = f"guard-{scene.namespace}"
    policy = {
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {
                "namespaceSelector": {
                    "matchLabels": {"kubernetes.io/metadata.name": scene.namespace}
                },
                "resourceRules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["DELETE"],
                        "resources": ["pods"],
                    }
                ],
            },
            "matchConditions": [
                {"name": "scheduler", "expression": f"request.userInfo.username == '{SCHEDULER}'"}
            ],
            "validations": [
                {
                    "expression": "!has(oldObject.metadata.labels) || "
                    "!('example.com/guarded' in oldObject.metadata.labels)",
                    "message": SAYS,
                }
            ],
        },
    }
    binding = {
        "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]},
    }
    kinds = {
        "validatingadmissionpolicies": policy,
        "validatingadmissionpolicybindings": binding,
    }
    for kind, body in kinds.items():
        scene.api.post(f"{ADMISSION}/{kind}", body)
    with ApiClient.from_kubeconfig(kubeconfig) as client:
        await_denial(scene, client)
    yield
    for kind in kinds:
        scene.api.delete(f"{ADMISSION}/{kind}/{name}")


def await_denial(scene: Scene, client: ApiClient) -> None:
    """Wait until the API server enforces the policy, which no condition shows."""
    probe = pod("probe", by="another")
    probe["metadata"]["labels"] = GUARDED
    scene.create(probe)
    pause = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / PROBE_SECONDS)):
        try:
            client.delete(scene.path("probe"), dryRun="All")
        except ApiError as error:
            if SAYS in error.message:
                scene.remove("probe")
                return
        pause.wait(PROBE_SECONDS)
    raise TimeoutError("the policy is not in force")


def guarded(name: str, cpu: str, priority: str, node: str) -> Json:
    return pod(name, cpu, priority, on=node, labels=GUARDED)


def test_where_admission_control_denies_an_eviction_another_node_is_used(
    scene, schedulers, proxy, guard
):
    first, second = scene.nodes(2, cpu="2")
    scene.run(
        pod("free", "1", "low", on=first),
        guarded("kept", "1", "low", first),
        pod("other", "2", "middle", on=second),
    )
    schedulers.start(kubeconfig=proxy.kubeconfig)

    scene.create(pod("high", "2", "high"))

    assert scene.wait_running("high") == {"high": second}
    assert scene.history().nominations("high") == ["", first, "", second]
    assert set(scene.history().evicted()) <= {"free", "other"}
    assert scene.wait("kept", is_running)
    assert len(proxy.passed("DELETE", "/pods/kept")) == 1
    notes = [each["note"] for each in scene.events("high", "FailedScheduling", count=2)]
    assert any(SAYS in note and f"{scene.namespace}/kept" in note for note in notes), notes


def test_each_node_is_tried_once_in_its_back_off_where_admission_denies_all_evictions(
    scene, schedulers, proxy, guard
):
    nodes = scene.nodes(2, cpu="2")
    scene.run(*(guarded(f"kept-{i}", "2", "low", node) for i, node in enumerate(nodes)))
    scheduler = schedulers.start(kubeconfig=proxy.kubeconfig)

    scene.create(pod("high", "2", "high"))

    scene.wait_rejected("high", "2 node(s) where preemption has failed")
    asked = [(each.path, each.at) for each in proxy.passed("DELETE", "/pods/kept")]
    assert len({path for path, _ in asked[:2]}) == 2
    for number, (path, at) in enumerate(asked):
        before = (then for other, then in asked[:number] if other == path)
        assert all(at - then > FIRST_PAUSE - SLACK_SECONDS for then in before), asked
    assert scene.history().evicted() == []
    assert scheduler.metric("scheduler_preemption_victims_wasted_total") == 0
    scheduler.wait_ready()
