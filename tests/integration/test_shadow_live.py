"""Shadow mode beside a real kube-scheduler: it compares, and no write of it reaches the API server.

Its ServiceAccount has the rights of shadow mode alone, and a proxy notes every request.
"""

import itertools
import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.manifests import documents
from deploy.tools.demo import installation
from tests.integration.access import RBAC, subject
from tests.integration.objects import Json, is_gone, pod
from tests.integration.peers import COMMON, KubeScheduler
from tests.integration.scene import Scene
from tests.support.fault_proxy import FaultProxy
from tests.support.live import (
    COMMAND,
    LOOPBACK,
    PATIENCE_SECONDS,
    PROBE_SECONDS,
    Scheduler,
    Schedulers,
)

pytestmark = pytest.mark.cluster

POLICIES = "/apis/preemptive-scheduler.io/v1alpha1/preemptionpolicies"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{DEFINITIONS}/preemptionpolicies.preemptive-scheduler.io"
#: Short, but long enough for a machine that is busy with other things.
ELECTION = {
    "leaderElect": True, "leaseDuration": "4s", "renewDeadline": "3s", "retryPeriod": "500ms",
}  # fmt: skip
READS = {"get", "list", "watch"}
#: What shadow mode may write: the lease, and questions about callers of pages.
MAY_WRITE = re.compile(
    r"/namespaces/[^/]+/leases(/preemptive-scheduler-shadow)?$|/(tokenreviews|subjectaccessreviews)$"
)


@pytest.fixture
def reader(plane: ControlPlane, namespace: str) -> Iterator[Path]:
    """The kubeconfig of a ServiceAccount that may read as the scheduler does, and hold a lease."""
    (shipped,) = (
        each
        for each in documents(installation.BASE / "rbac.yaml")
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] == installation.NAME
    )
    rules = [
        {**rule, "verbs": verbs}
        for rule in shipped["rules"]
        if (verbs := sorted(READS & set(rule["verbs"])))
    ]
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
             "verbs": ["create", "get", "update"]}  # fmt: skip
    name, api = f"shadow-{namespace}", plane.api
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.post(account, {"metadata": {"name": "shadow"}})
    for kind, path, granted in (
        ("ClusterRole", RBAC, rules),
        ("Role", f"{RBAC}/namespaces/{namespace}", [lease]),
    ):
        plural = f"{kind.lower()}s"
        api.post(f"{path}/{plural}", {"metadata": {"name": name}, "rules": granted})
        api.post(
            f"{path}/{kind.lower()}bindings",
            {
                "metadata": {"name": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
                "subjects": [subject("shadow", namespace)],
            },
        )
    yield plane.service_account_kubeconfig(namespace, "shadow")
    for kind in ("clusterroles", "clusterrolebindings"):
        api.delete(f"{RBAC}/{kind}/{name}")


def named(scene: Scene, made: Json) -> Json:
    """Return a pod of the other scheduler."""
    made["metadata"]["namespace"] = scene.namespace
    made["spec"]["schedulerName"] = scene.scheduler_name
    return made


class Shadowed:
    """kube-scheduler, the shadow beside it, and what is between the shadow and the API server."""

    def __init__(self, scene: Scene, start: Callable[[], Scheduler], proxy: FaultProxy) -> None:
        self.scene, self.start, self.proxy = scene, start, proxy
        self.folder = proxy.kubeconfig.parent
        self.shadow = start()
        self.shadow.wait_log("became_leader", lease="preemptive-scheduler-shadow")

    def document(self, path: str) -> Json:
        """Return a document that it serves; outcomes as numbers by name."""
        status, text = self.shadow.get(path)
        assert status == 200, text
        found: Json = json.loads(text)
        outcomes = found.get("outcomes", ())
        counts = {each["name"]: each["count"] for each in outcomes if each.get("count")}
        return {**found, "outcomes": counts}

    def until(self, predicate: Callable[[Json], Any], path: str = "/api/v1/shadow") -> Json:
        """Return a document as soon as it is so."""
        pause = threading.Event()
        for _ in range(int(PATIENCE_SECONDS / PROBE_SECONDS)):
            if predicate(found := self.document(path)):
                return found
            pause.wait(PROBE_SECONDS)
        raise TimeoutError(str(found))

    def plugin(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of the plugin."""
        server = f"--server=https://{LOOPBACK}:{self.shadow.port}"
        program = COMMAND.with_name("kubectl-preemptive")
        return subprocess.run(
            [program, *arguments, server], capture_output=True, text=True, check=False, timeout=60
        )

    def writes(self) -> list[str]:
        """Return the requests that write, but for those that shadow mode may send."""
        sent = self.proxy.passed("(?!GET).*", "")
        return [f"{each.method} {each.path}" for each in sent if not MAY_WRITE.search(each.path)]


@pytest.fixture
def config() -> Json:
    """The configuration of the shadow, over ours: its lease is in its own namespace."""
    return {}


@pytest.fixture
def shadowed(
    plane: ControlPlane, namespace: str, reader: Path, tmp_path: Path, config: Json
) -> Iterator[Shadowed]:
    name = f"kube-{namespace}"
    scene = Scene(plane, namespace, name)
    theirs = KubeScheduler(plane, tmp_path, {**COMMON, "profiles": [{"schedulerName": name}]})
    with FaultProxy(tmp_path, reader) as proxy, Schedulers(tmp_path, reader) as schedulers:
        election = {**ELECTION, "resourceNamespace": namespace}

        def start() -> Scheduler:
            return schedulers.start(
                f"--shadow={name}",
                kubeconfig=proxy.kubeconfig,
                config={"leaderElection": election, **config},
            )

        try:
            yield (made := Shadowed(scene, start, proxy))
            assert made.writes() == []
            assert [each.path for each in proxy.passed(".*", "") if each.status == 403] == []
        finally:
            theirs.close()
            scene.clear()


@pytest.fixture
def policies(plane: ControlPlane) -> Iterator[Callable[[Shadowed, Json], None]]:
    """Create a policy for the preemptors of a scene, and wait until the shadow knows it."""
    plane.api.apply(installation.BASE / "preemption-policies.yaml")

    def create(shadowed: Shadowed, rules: Json) -> None:
        scene = shadowed.scene
        labels = {"kubernetes.io/metadata.name": scene.namespace}
        policy = {
            "apiVersion": "preemptive-scheduler.io/v1alpha1",
            "kind": "PreemptionPolicy",
            "metadata": {"name": scene.namespace},
            "spec": {"preemptors": {"namespaceSelector": {"matchLabels": labels}}, **rules},
        }
        plane.api.post(POLICIES, policy)
        shadowed.until(lambda found: found.get("items"), "/api/v1/policies")

    yield create
    plane.api.delete(DEFINITION)
    plane.api.wait_for(DEFINITION, is_gone)


def test_pods_that_kube_scheduler_places_are_compared_and_nothing_is_written(shadowed):
    scene = shadowed.scene
    scene.nodes(3)

    scene.create(*(pod(f"p-{i}") for i in range(9)))
    scene.wait_bound_count(9)

    found = shadowed.until(lambda found: found.get("placements") == 9)
    assert found["agreeing"] == 9, found
    assert found["verdict"] == (
        f"Of 9 pods of {scene.scheduler_name}, 9 (100.0 %) were placed on the same or an equally"
        " good node."
    )
    assert found["impact"] == "none"
    printed = shadowed.plugin("shadow")
    assert printed.stdout.startswith(f"{found['verdict']}\n")
    assert printed.stderr == ""


def test_a_preemption_of_kube_scheduler_is_compared(shadowed):
    scene = shadowed.scene
    (node,) = scene.nodes(1, cpu="4")
    scene.run(pod("low-0", "2", on=node), pod("peer", "2", "high", on=node))

    scene.create(pod("vip", "2", "high"))
    scene.wait_bound("vip")

    found = shadowed.until(lambda found: sum(found["outcomes"].values()) == 1)
    assert found["outcomes"] == {"same_preemption": 1}, found
    assert found["theirVictims"] == found["ourVictims"] == 1
    for side in ("theirs", "ours"):
        assert shadowed.shadow.metric("scheduler_shadow_victims_total", side=side) == 1


def test_pods_that_wait_are_compared_once(shadowed):
    scene = shadowed.scene
    scene.nodes(1, cpu="4")

    scene.create(pod("large", "8"))
    scene.wait_rejected("large")

    found = shadowed.until(lambda found: found["outcomes"])
    assert found["outcomes"] == {"both_unschedulable": 1}
    assert found["verdict"] == (
        f"No pod of {scene.scheduler_name} was placed yet, so no placement is compared."
    )
    # The other commands go on, about the pods of the other scheduler, and say so.
    wanted = shadowed.folder / "wanted.yaml"
    wanted.write_text(json.dumps({"apiVersion": "v1", "kind": "Pod", **named(scene, pod("small"))}))
    for command, expected in (
        (("why", "large", "-n", scene.namespace), "Insufficient cpu"),
        (("plan", "-f", str(wanted), "-n", scene.namespace), "small"),
        (("top", "--once"), "1 nodes"),
    ):
        printed = shadowed.plugin(*command)
        assert printed.returncode == 0, printed
        assert expected in printed.stdout
        assert printed.stderr.startswith("note: this scheduler runs in shadow mode")
    assert json.loads(shadowed.shadow.get("/api/v1")[1])["shadow"] is True
    assert shadowed.shadow.metric("scheduler_shadow_acts_total", outcome="both_unschedulable") == 1


@pytest.fixture
def lenient(config: Json) -> None:
    """A profile of any name, which does not look at node selectors."""
    filters = {"disabled": [{"name": "NodeAffinity"}]}
    config["profiles"] = [{"schedulerName": "trial", "plugins": {"filter": filters}}]


@pytest.mark.usefixtures("lenient")
def test_a_pod_that_only_this_scheduler_would_place_is_named(shadowed):
    scene = shadowed.scene
    node = scene.node()

    scene.create(pod("picky", nodeSelector={"none": "such"}))
    scene.wait_rejected("picky")

    found = shadowed.until(lambda found: found["outcomes"])
    (item,) = found["items"]
    assert (item["outcome"], item["ourNode"], item.get("theirNode")) == ("would_place", node, None)
    assert item["pod"]["name"] == "picky"
    assert "; 1 pending pod would have been placed." in found["verdict"]


def test_a_preemption_that_a_policy_forbids_would_have_been_avoided(shadowed, policies):
    scene = shadowed.scene
    node = scene.node(cpu="4")
    scene.run(pod("low-0", "2", on=node), pod("low-1", "2", on=node))
    policies(shadowed, {"maxVictimsPerPreemption": 1})

    scene.create(pod("vip", "4", "high"))
    scene.wait_bound("vip")

    found = shadowed.until(lambda found: found["outcomes"])
    assert found["outcomes"] == {"preemption_avoided": 1}
    (item,) = found["items"]
    assert (item["theirNode"], item["theirVictimsTotal"]) == (node, 2)
    assert {victim["name"] for victim in item["theirVictims"]} == {"low-0", "low-1"}
    assert "preemption: 0/1 nodes are available" in item["why"]
    assert found["verdict"].endswith("; 1 preemption would have been avoided.")
    # Policies are read, and their status is not written.
    assert "status" not in scene.api.get(f"{POLICIES}/{scene.namespace}")


def test_other_victims_are_compared_with_what_they_cost(shadowed, policies):
    scene = shadowed.scene
    first, second = scene.nodes(2, cpu="4")
    scene.run(
        pod("cheap", "4", on=first, labels={"keep": "yes"}), pod("dear", "4", "middle", on=second)
    )
    selector = {"podSelector": {"matchLabels": {"keep": "yes"}}}
    policies(shadowed, {"victims": selector, "victimMinRuntime": "1h"})

    scene.create(pod("vip", "4", "high"))
    scene.wait_bound("vip")

    found = shadowed.until(lambda found: found["outcomes"])
    assert found["outcomes"] == {"other_preemption": 1}, found
    (item,) = found["items"]
    assert [victim["name"] for victim in item["theirVictims"]] == ["cheap"]
    assert [victim["name"] for victim in item["ourVictims"]] == ["dear"]


def test_a_lost_api_server_costs_only_what_happens_meanwhile(shadowed):
    scene, proxy = shadowed.scene, shadowed.proxy
    scene.nodes(2)
    scene.create(pod("before"))
    shadowed.until(lambda found: found.get("placements") == 1)

    outage = proxy.refuse("GET", "/pods", 503)
    proxy.cut()
    scene.create(pod("meanwhile"))
    scene.wait_bound("meanwhile")
    outage.drop()

    scene.create(pod("after"))
    found = shadowed.until(lambda found: found.get("placements", 0) >= 2)
    assert found["agreeing"] == found["placements"]


def test_the_next_leader_compares_from_then_on(shadowed):
    scene, standby = shadowed.scene, shadowed.start()
    scene.nodes(2)
    shadowed.shadow.kill()
    standby.wait_log("became_leader")

    # It lists everything again before it compares.
    numbers = itertools.count()

    def compared(found: Json) -> bool:
        if not found.get("placements"):
            scene.create(pod(f"p-{next(numbers)}", "10m"))
        return bool(found.get("placements"))

    shadowed.shadow = standby
    found = shadowed.until(compared)
    assert found["agreeing"] == found["placements"]
