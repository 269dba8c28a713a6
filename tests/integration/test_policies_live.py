"""Policies on a real API server: they take effect while the scheduler runs, and survive its end.

Policies are of the whole cluster, so each is limited to the preemptors of one test's namespace.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from deploy.tools.controlplane.api import ApiError
from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.demo import installation
from scheduler.kubectl import main
from tests.integration.objects import condition, is_gone, pod
from tests.integration.scene import Scene
from tests.support.live import Scheduler, Schedulers

pytestmark = pytest.mark.cluster

Json = dict[str, Any]

POLICIES: Final = "/apis/preemptive-scheduler.io/v1alpha1/preemptionpolicies"
DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION: Final = f"{DEFINITIONS}/preemptionpolicies.preemptive-scheduler.io"
NO_VICTIMS: Final = {"budgets": [{"maxVictims": 0, "window": "1h"}]}
ONE_VICTIM: Final = {"budgets": [{"maxVictims": 1, "window": "1h"}]}
#: Gets past the API server and not past the scheduler.
MISTYPED: Final = {"budget": [{"maxVictims": 1, "window": "1h"}]}


class Policy:
    """A policy for the preemptors of a scene."""

    def __init__(self, scene: Scene) -> None:
        self.name = f"policy-{scene.namespace}"
        self._api = scene.api
        self._path = f"{POLICIES}/{self.name}"
        labels = {"kubernetes.io/metadata.name": scene.namespace}
        self._preemptors = {"namespaceSelector": {"matchLabels": labels}}

    def create(self, rules: Json) -> None:
        self._api.post(POLICIES, self._object(rules))

    def change(self, rules: Json) -> None:
        self.replace(self._object(rules))

    def replace(self, changed: Json) -> None:
        """Write the whole object, as `kubectl replace` does."""
        version = self._api.get(self._path)["metadata"]["resourceVersion"]
        changed["metadata"]["resourceVersion"] = version
        self._api.put(self._path, changed)

    def delete(self) -> None:
        self._api.delete(self._path)

    def wait(self, says: Callable[[Json], bool]) -> Json:
        """Wait for a state; return it."""
        return self._api.wait_for(self._path, lambda found: found is not None and says(found)) or {}

    def wait_accepted(self, generation: int, value: str = "True") -> Json:
        """Wait until the status says whether a generation was accepted; return the status."""

        def says(found: Json) -> bool:
            said = condition(found, "Accepted")
            return (said.get("status"), said.get("observedGeneration")) == (value, generation)

        status: Json = self.wait(lambda found: "status" in found and says(found))["status"]
        return status

    def _object(self, rules: Json) -> Json:
        return {
            "apiVersion": "preemptive-scheduler.io/v1alpha1",
            "kind": "PreemptionPolicy",
            "metadata": {"name": self.name},
            "spec": {"preemptors": self._preemptors, **rules},
        }


@pytest.fixture
def undefined(plane: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster without the definition; whatever the test does, it has none afterwards."""
    undefine(plane)
    yield plane
    undefine(plane)


@pytest.fixture
def policy(undefined: ControlPlane, scene: Scene) -> Policy:
    """A policy that does not exist yet, in a cluster that knows what policies are."""
    undefined.api.apply(installation.BASE / "preemption-policies.yaml")
    return Policy(scene)


def undefine(plane: ControlPlane) -> None:
    with contextlib.suppress(ApiError):
        plane.api.delete(DEFINITION)
    plane.api.wait_for(DEFINITION, is_gone)


def start(
    schedulers: Schedulers,
    ahead: float | None = None,
    kubeconfig: Path | None = None,
    **election: Any,
) -> Scheduler:
    """Start a scheduler that writes its ledger where it may; its clock may be ahead."""
    place = {"resourceNamespace": installation.NAME, "resourceName": installation.NAME}
    config = {"leaderElection": {"leaderElect": False, **place, **election}}
    return schedulers.start(config=config, ahead=ahead, kubeconfig=kubeconfig)


def contested(scene: Scene) -> str:
    """Fill a node with a low pod, and create a high one that needs all of it."""
    node = scene.node(cpu="2")
    scene.run(pod("low", "2", "low", on=node))
    scene.create(pod("high", "2", "high"))
    return node


def wait_held(scene: Scene, policy: Policy) -> None:
    """Wait until the high pod waits because of the policy; no pod was evicted."""
    scene.wait(
        "high",
        lambda found: policy.name in condition(found or {}, "PodScheduled").get("message", ""),
    )
    assert scene.history().doomed() == []


def test_a_policy_blocks_a_preemptor_until_it_is_changed(scene, schedulers, policy):
    start(schedulers)
    policy.create(NO_VICTIMS)
    policy.wait_accepted(1)
    contested(scene)
    wait_held(scene, policy)

    policy.change(ONE_VICTIM)

    scene.wait_bound("high")
    assert scene.history().evicted() == ["low"]
    told = policy.wait(lambda found: "lastVictim" in found["status"])["status"]
    assert told["victims"] == 1
    assert told["accepted"]["generation"] == 2
    assert told["lastVictim"]["name"] == "low"
    assert told["lastVictim"]["preemptor"] == f"{scene.namespace}/high"


def test_a_fast_clock_evicts_no_pod_that_has_just_started(scene, schedulers, policy):
    scheduler = start(schedulers, ahead=3600.0)
    policy.create({"victimMinRuntime": "10m"})
    policy.wait_accepted(1)

    contested(scene)

    wait_held(scene, policy)
    assert scheduler.logged("clock_ahead_of_api_server", seconds=lambda told: 3595 < told < 3605)


def test_a_refused_generation_keeps_the_old_one_in_force_even_across_a_kill(
    scene, schedulers, policy
):
    scheduler = start(schedulers)
    policy.create(NO_VICTIMS)
    policy.wait_accepted(1)
    policy.change(MISTYPED)
    status = policy.wait_accepted(2, "False")
    said = condition({"status": status}, "Accepted")["message"]
    assert said.startswith('generation 1 is in force: spec.budget: unknown field "budget"')
    contested(scene)
    wait_held(scene, policy)

    scheduler.kill()
    restarted = start(schedulers)

    assert restarted.logged("policy_accepted", policy=policy.name, generation="1")
    assert restarted.logged("policy_refused", policy=policy.name)
    restarted.wait_log("pod_unschedulable", message=lambda said: policy.name in said)
    assert scene.history().doomed() == []
    policy.change(ONE_VICTIM)
    scene.wait_bound("high")


def test_the_generation_before_is_put_in_force_again(undefined, scene, schedulers, policy, capsys):
    scheduler = start(schedulers)
    policy.create(NO_VICTIMS)
    policy.wait_accepted(1)
    policy.change(MISTYPED)
    policy.wait_accepted(2, "False")
    policy.change(ONE_VICTIM)
    policy.wait_accepted(3)
    scheduler.kill()
    start(schedulers)

    main.main(["policies", "undo", policy.name, "--kubeconfig", str(undefined.admin_kubeconfig)])
    policy.replace(yaml.safe_load(capsys.readouterr().out))

    history = policy.wait_accepted(4)["history"]
    assert [each["generation"] for each in history] == [4, 3, 1]
    assert history[0]["spec"] == history[2]["spec"]
    contested(scene)
    wait_held(scene, policy)


def test_the_definition_can_be_created_and_deleted_while_the_scheduler_runs(
    undefined, scene, schedulers
):
    scheduler = start(schedulers)
    assert scheduler.get("/readyz")[0] == 200
    policy = Policy(scene)

    undefined.api.apply(installation.BASE / "preemption-policies.yaml")
    policy.create(NO_VICTIMS)
    policy.wait_accepted(1)
    contested(scene)
    wait_held(scene, policy)
    undefine(undefined)

    scene.wait_bound("high")
    assert scheduler.get("/readyz")[0] == 200
    assert scheduler.logged("watch_interrupted") == []
