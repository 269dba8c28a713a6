"""Lease and ledger are emptied, damaged and deleted under two replicas: one leads, budgets hold."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from deploy.tools.controlplane.api import ApiError
from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.demo import installation
from scheduler.service.clock import Clock
from tests.integration.objects import condition, is_bound, pod
from tests.integration.scene import Scene
from tests.integration.test_leadership import ELECTION
from tests.integration.test_policies_live import Policy, undefine
from tests.support.live import Scheduler, Schedulers

pytestmark = pytest.mark.cluster

Json = dict[str, Any]

NAME: Final = installation.NAME
LEASE: Final = f"/apis/coordination.k8s.io/v1/namespaces/{NAME}/leases/{NAME}"
LEDGER: Final = f"/api/v1/namespaces/{NAME}/configmaps/{NAME}-ledger"
HISTORY: Final = f"/api/v1/namespaces/{NAME}/configmaps/{NAME}-history-0"
DEPLOYMENTS: Final = f"/apis/apps/v1/namespaces/{NAME}/deployments"
OWNED: Final = f"--owner-deployment={NAME}"
TWO_VICTIMS: Final = {"budgets": [{"maxVictims": 2, "window": "1h"}]}
#: Of `ELECTION`: a standby would take a lease that it believes to be free within this time.
RETRIES_SECONDS: Final = 1.2


@pytest.fixture
def deployment(plane: ControlPlane) -> Iterator[Json]:
    """The Deployment of the schedulers, which run on this machine instead; no state from before."""
    for path in (LEASE, LEDGER):
        with contextlib.suppress(ApiError):
            plane.api.delete(path)
    labels = {"app.kubernetes.io/name": NAME}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "scheduler", "image": "none"}]},
    }
    spec = {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}
    yield plane.api.post(DEPLOYMENTS, {"metadata": {"name": NAME}, "spec": spec})
    with contextlib.suppress(ApiError):
        plane.api.delete(f"{DEPLOYMENTS}/{NAME}")
    for path in (LEASE, LEDGER):
        with contextlib.suppress(ApiError):
            plane.api.delete(path)


@pytest.fixture
def policy(plane: ControlPlane, scene: Scene) -> Iterator[Policy]:
    """A policy that does not exist yet; the definition is removed again."""
    plane.api.apply(installation.BASE / "preemption-policies.yaml")
    yield Policy(scene)
    undefine(plane)


@pytest.fixture
def replicas(deployment: Json, scene: Scene, schedulers: Schedulers) -> tuple[Scheduler, Scheduler]:
    """A leader and a standby."""
    leader = schedulers.start(OWNED, config=ELECTION)
    leader.wait_log("became_leader")
    return leader, schedulers.start(OWNED, config=ELECTION)


def emptied(scene: Scene, path: str) -> None:
    """Replace an object by one with metadata only, as `kubectl replace` does with a manifest."""
    while True:
        found = scene.api.get(path)
        version = found["metadata"]["resourceVersion"]
        bare = {"name": found["metadata"]["name"], "namespace": NAME, "resourceVersion": version}
        try:
            scene.api.put(path, {**found, "metadata": bare, "spec": {}, "data": {}})
        except ApiError as error:
            if error.status != 409:  # else it was renewed meanwhile
                raise
        else:
            return


def deleted(scene: Scene, path: str) -> None:
    scene.api.delete(path)


def freed(scene: Scene, path: str) -> None:
    scene.api.patch(path, {"spec": {"holderIdentity": ""}})


def shortened(scene: Scene, path: str) -> None:
    scene.api.patch(path, {"spec": {"leaseDurationSeconds": 1}})


def lengthened(scene: Scene, path: str) -> None:
    scene.api.patch(path, {"spec": {"leaseDurationSeconds": 2**31 - 1}})


ON_THE_LEASE: Final[tuple[Callable[[Scene, str], None], ...]] = (
    emptied, deleted, freed, shortened, lengthened,
)  # fmt: skip


def is_owned(found: Json | None, uid: str) -> bool:
    """Return whether an object belongs to the Deployment."""
    owners = [] if found is None else found["metadata"].get("ownerReferences", [])
    return [owner["uid"] for owner in owners] == [uid]


def holds_victims(found: Json | None) -> bool:
    """Return whether the ledger counts victims."""
    return '"evictions":[[' in ((found or {}).get("data") or {}).get("ledger.json", "")


def preempt_within_a_budget(scene: Scene, policy: Policy) -> None:
    """Have two of four preemptors preempt, so that the budget is used up."""
    policy.create(TWO_VICTIMS)
    policy.wait_accepted(1)
    node = scene.node(cpu="4")
    scene.run(*(pod(f"low-{i}", "1", "low", on=node) for i in range(4)))
    scene.create(*(pod(f"high-{i}", "1", "high") for i in range(4)))
    found = scene.wait_pods(lambda found: len(bound_among(found)) == 2)
    for each in {f"high-{i}" for i in range(4)} - bound_among(found):
        scene.wait(each, lambda found: policy.name in message(found))


def bound_among(found: list[Json]) -> set[str]:
    """Return the names of the high pods that have a node."""
    names = {each["metadata"]["name"] for each in found if is_bound(each)}
    return {name for name in names if name.startswith("high-")}


def message(found: Json | None) -> str:
    return str(condition(found or {}, "PodScheduled").get("message", ""))


def change_the_lease(scene: Scene, replicas: tuple[Scheduler, Scheduler], run: str) -> None:
    """Do everything to the lease, one after the other; the leader leads, and no one else."""
    clock = Clock()
    for happens in ON_THE_LEASE:
        happens(scene, LEASE)
        end = clock.wall() + RETRIES_SECONDS
        name = f"{run}-{happens.__name__}"
        scene.create(pod(name, "20m"))
        while clock.wall() < end:
            leading = [each.metric("leader_election_master_status") for each in replicas]
            assert leading == [1, 0], name
        scene.wait_bound(name)


def test_one_leads_and_budgets_hold_whatever_happens_to_lease_and_ledger(
    scene, policy, deployment, replicas
):
    leader, standby = replicas
    uid = deployment["metadata"]["uid"]
    preempt_within_a_budget(scene, policy)
    scene.node(cpu="500m")
    assert is_owned(scene.api.wait_for(LEDGER, holds_victims), uid)
    assert is_owned(scene.api.get(LEASE), uid)
    assert is_owned(scene.api.wait_for(HISTORY, lambda found: found is not None), uid)

    emptied(scene, LEDGER)
    change_the_lease(scene, replicas, "first")
    assert is_owned(scene.api.wait_for(LEDGER, holds_victims), uid)
    change_the_lease(scene, replicas, "second")
    assert is_owned(scene.api.get(LEASE), uid)
    assert standby.logged("pod_bound") == standby.logged("became_leader") == []

    # Nobody is left who would write it again, but the standby has read it by now.
    deleted(scene, LEDGER)
    leader.kill()
    standby.wait_log("became_leader")
    scene.create(pod("last", "1", "high"))
    scene.wait("last", lambda found: policy.name in message(found))
    assert is_owned(scene.api.wait_for(LEDGER, holds_victims), uid)
    assert len(scene.history().doomed()) == 2


def test_a_leader_that_stops_leaves_a_ledger_to_the_next_one(scene, policy, replicas):
    leader, standby = replicas
    preempt_within_a_budget(scene, policy)
    scene.api.wait_for(LEDGER, holds_victims)
    standby.wait_log("policy_accepted")

    emptied(scene, LEDGER)
    assert leader.terminate() == 0

    standby.wait_log("became_leader")
    assert holds_victims(scene.api.get(LEDGER))
    scene.create(pod("last", "1", "high"))
    scene.wait("last", lambda found: policy.name in message(found))
    assert len(scene.history().doomed()) == 2
