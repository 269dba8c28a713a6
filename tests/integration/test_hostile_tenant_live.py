"""A user with the role `edit` in one namespace cannot turn preemption against other namespaces.

The user is a real ServiceAccount, and the API server authorizes each of its writes.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from deploy.tools.controlplane.api import ApiClient, ApiError
from deploy.tools.controlplane.cluster import ControlPlane
from scheduler.model.plan_record import CONDITION, VERSION, PlanRecord, encode, fingerprint
from tests.integration.objects import (
    Json,
    condition,
    is_gone,
    is_nominated,
    is_running,
    is_terminating,
    pod,
)
from tests.integration.scene import Scene
from tests.support.live import PATIENCE_SECONDS, PROBE_SECONDS, Scheduler, Schedulers

pytestmark = pytest.mark.cluster

SYSTEM: Final = "/api/v1/namespaces/kube-system/pods"
#: Where plans were written before they were a condition.
OLD_ANNOTATION: Final = "preemptive-scheduler.io/plan"
#: Later than any clock of a scheduler shows.
LATER: Final = 1e15
FINALIZER: Final = "example.com/hold"


class Tenant:
    """A ServiceAccount that is bound to the ClusterRole `edit` in the namespace of a scene."""

    def __init__(self, scene: Scene, plane: ControlPlane) -> None:
        self.pods: Final = f"/api/v1/namespaces/{scene.namespace}/pods"
        self._scene = scene
        account = {"kind": "ServiceAccount", "name": "tenant", "namespace": scene.namespace}
        plane.api.apply(
            [
                {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": _named(account)},
                {
                    "apiVersion": "rbac.authorization.k8s.io/v1",
                    "kind": "RoleBinding",
                    "metadata": _named(account),
                    "roleRef": {
                        "apiGroup": "rbac.authorization.k8s.io",
                        "kind": "ClusterRole",
                        "name": "edit",
                    },
                    "subjects": [account],
                },
            ]
        )
        kubeconfig = plane.service_account_kubeconfig(scene.namespace, "tenant")
        self.api: Final = ApiClient.from_kubeconfig(kubeconfig)
        self._await_rights()

    def create(self, *pods: Json) -> None:
        """Create pods for the scheduler under test."""
        for each in pods:
            each["spec"].setdefault("schedulerName", self._scene.scheduler_name)
            self.api.post(self.pods, each)

    def path(self, name: str) -> str:
        """Return the API path of one of its pods."""
        return f"{self.pods}/{name}"

    def said_to_it(self) -> str:
        """Return all that it can read about its pods: the pods, and the events."""
        events = f"/apis/events.k8s.io/v1/namespaces/{self._scene.namespace}/events"
        return json.dumps([self.api.items(self.pods), self.api.items(events)])

    def _await_rights(self) -> None:
        """Wait until the API server has seen the RoleBinding, which no watch shows."""
        pause = threading.Event()
        for _ in range(int(PATIENCE_SECONDS / PROBE_SECONDS)):
            with contextlib.suppress(ApiError):
                self.api.items(self.pods)
                return
            pause.wait(PROBE_SECONDS)
        raise TimeoutError("the tenant may not list its pods")


@pytest.fixture
def tenant(scene: Scene, plane: ControlPlane) -> Iterator[Tenant]:
    """The hostile tenant; its finalizers are removed at the end."""
    made = Tenant(scene, plane)
    yield made
    made.api.close()
    for each in scene.api.items(made.pods):
        if each["metadata"].get("finalizers"):
            release(scene, each["metadata"]["name"])


@pytest.fixture
def critical(scene: Scene) -> Iterator[Callable[[str], Json]]:
    """Creates a critical pod in kube-system on a node; it is removed at the end."""
    name = f"critical-{scene.namespace}"

    def create(node: str) -> Json:
        wanted = pod(name, "2", "system-cluster-critical", on=node)
        scene.api.post(SYSTEM, wanted)
        found = scene.api.wait_for(f"{SYSTEM}/{name}", is_running)
        assert found is not None
        assert found["spec"]["priority"] == 2_000_000_000
        return found

    yield create
    with contextlib.suppress(ApiError):
        scene.api.delete(f"{SYSTEM}/{name}", gracePeriodSeconds="0")
    scene.api.wait_for(f"{SYSTEM}/{name}", is_gone)


@pytest.fixture
def others(scene: Scene, plane: ControlPlane) -> Iterator[str]:
    """A namespace of another tenant; it is removed at the end."""
    name = f"others-{scene.namespace}"
    plane.create_namespace(name)
    yield name
    plane.api.delete(f"/api/v1/namespaces/{name}/pods", gracePeriodSeconds="0")
    plane.api.delete(f"/api/v1/namespaces/{name}")


def release(scene: Scene, name: str) -> None:
    """Take the finalizers off a pod."""
    scene.api.patch(scene.path(name), {"metadata": {"finalizers": None}})


def hung(name: str, node: str) -> Json:
    """Return a low pod that stays in termination until its finalizer is taken off."""
    held = pod(name, "1", "low", on=node)
    held["metadata"]["finalizers"] = [FINALIZER]
    return held


def forged_condition(attacker: str, node: str, *victims: str) -> Json:
    """Return the condition of a plan that names some pods, by uid."""
    marks = tuple(fingerprint(attacker, each) for each in victims)
    return {
        "type": CONDITION,
        "status": "True",
        "reason": "Preempting",
        "message": encode(PlanRecord(VERSION, node, LATER, marks)),
    }


def old_plan(node: str, *victims: Json) -> str:
    """Return the plan as it was written into the annotation by earlier versions."""
    named = [
        [found["namespace"], found["name"], found["uid"], "x"]
        for found in (each["metadata"] for each in victims)
    ]
    plan = {"version": 1, "node": node, "begun": 0.0, "deadline": LATER, "victims": named}
    return json.dumps(plan)


def write_everything(tenant: Tenant, forged: Json, annotation: str) -> None:
    """Have the tenant write to its pod `attacker` whatever the API server lets it write."""
    path = tenant.path("attacker")
    status = {"conditions": [forged]}
    marked = {"metadata": {"annotations": {OLD_ANNOTATION: annotation}}, "status": status}
    tenant.api.patch(path, marked)
    tenant.api.patch(path, marked, "strategic")
    tenant.api.patch(
        path,
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "attacker"}, "status": status},
        "apply",
        fieldManager="kubelet",
        force="true",
    )
    whole = tenant.api.get(path)
    # The scheduler may write a condition meanwhile.
    del whole["metadata"]["resourceVersion"]
    whole["status"] |= status
    whole["metadata"]["labels"] = {"k8s-app": "kube-dns"}
    tenant.api.put(path, whole)
    assert tenant.api.get(path)["metadata"]["annotations"][OLD_ANNOTATION] == annotation
    for write in (
        lambda: tenant.api.patch(f"{path}/status", {"status": status}),
        lambda: tenant.api.put(f"{path}/status", whole),
        lambda: tenant.api.patch(f"{path}/resize", {"status": status}, "strategic"),
        lambda: tenant.api.patch(f"{path}/ephemeralcontainers", {"status": status}, "strategic"),
    ):
        assert refusal(write) == 403


def refusal(write: Callable[[], Any]) -> int:
    """Return the status with which the API server refuses a write."""
    with pytest.raises(ApiError) as caught:
        write()
    return caught.value.status


def besiege(scene: Scene, tenant: Tenant, node: str) -> None:
    """Have the tenant's pod `attacker` nominated to a node where it never gets the capacity.

    The nomination is legitimate. One victim is deleted and its capacity is taken; the other hangs.
    """
    tenant.create(pod("mine-a", "1", "low", on=node), hung("mine-b", node))
    scene.wait_running("mine-a", "mine-b")
    tenant.create(pod("attacker", "2", "middle"))
    scene.wait("attacker", is_nominated(node))
    scene.wait("mine-b", is_terminating)
    scene.wait("mine-a", is_gone)
    tenant.create(pod("filler", "1", "low", on=node))
    scene.wait_running("filler")


def replaced(scene: Scene, schedulers: Schedulers, leader: Scheduler) -> Scheduler:
    """Kill a leader and start another; return it when it has tried the attacker."""
    leader.kill()
    started = schedulers.start()
    said = started.wait_log(
        lambda event: event in {"pod_unschedulable", "preemption_planned"},
        pod=f"{scene.namespace}/attacker",
    )
    assert not any(each.startswith("kube-system/") for each in said.get("victims", ())), said
    return started


def test_a_tenant_has_no_right_to_evict_a_critical_pod(scene, tenant, critical):
    path = f"{SYSTEM}/{critical(scene.node(cpu='4'))['metadata']['name']}"

    assert refusal(lambda: tenant.api.delete(path)) == 403
    assert refusal(lambda: tenant.api.post(f"{path}/eviction", {})) == 403
    assert refusal(lambda: tenant.api.patch(f"{path}/status", {"status": {}})) == 403


def test_a_status_that_a_tenant_creates_a_pod_with_is_dropped(scene, tenant):
    forged = pod("forged", "2", "middle")
    status = {"conditions": [forged_condition("x", "n", "y")], "nominatedNodeName": "n"}
    tenant.create({**forged, "status": status})

    created = scene.pod("forged")
    assert condition(created, CONDITION) == {}
    assert "nominatedNodeName" not in created["status"]


def test_a_tenant_cannot_have_a_critical_pod_evicted_by_the_next_leader(
    scene, schedulers, tenant, critical
):
    node = scene.node(cpu="4")
    system = critical(node)
    scheduler = schedulers.start()
    besiege(scene, tenant, node)
    attacker, hanging = scene.pod("attacker"), scene.pod("mine-b")
    uids = (system["metadata"]["uid"], hanging["metadata"]["uid"])
    forged = forged_condition(attacker["metadata"]["uid"], node, *uids)

    for _ in range(2):
        told = condition(scene.pod("attacker"), CONDITION)
        write_everything(tenant, forged, old_plan(node, system, hanging))
        assert condition(scene.pod("attacker"), CONDITION) == told
        scheduler = replaced(scene, schedulers, scheduler)
    # Without its own obstacles the attacker is scheduled: all that was planned is over then.
    tenant.api.delete(tenant.path("filler"), gracePeriodSeconds="0")
    release(scene, "mine-b")

    assert scene.wait_running("attacker") == {"attacker": node}
    survivor = scene.api.get(f"{SYSTEM}/{system['metadata']['name']}")
    assert survivor["metadata"]["uid"] == system["metadata"]["uid"]
    assert "deletionTimestamp" not in survivor["metadata"]
    assert condition(survivor, "DisruptionTarget") == {}
    assert set(scene.history().evicted()) <= {"mine-a", "mine-b", "filler"}


def test_a_tenant_cannot_see_which_pods_of_other_namespaces_its_pod_preempts(
    scene, schedulers, tenant, others, proxy
):
    node = scene.node(cpu="2")
    path = f"/api/v1/namespaces/{others}/pods"
    scene.api.post(path, pod("secret-migration", "2", "low", on=node, by="another"))
    victim = scene.api.wait_for(f"{path}/secret-migration", is_running)
    schedulers.start(kubeconfig=proxy.kubeconfig)
    held = proxy.hold("PATCH", "/pods/secret-migration/status")

    tenant.create(pod("high", "2", "high"))
    held.wait(1)
    found = scene.wait("high", is_nominated(node))
    before = tenant.said_to_it()
    held.release()
    scene.wait_running("high")
    after = tenant.said_to_it()

    assert condition(found, CONDITION)["message"]
    for secret in (others, "secret-migration", victim["metadata"]["uid"]):
        assert secret not in before
        assert secret not in after


def _named(account: Json) -> Json:
    return {"name": account["name"], "namespace": account["namespace"]}
