"""All preemption is stopped on a real API server, while many preemptions are under way."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.demo import installation
from scheduler.kubectl import main
from scheduler.service.clock import Clock
from tests.integration.objects import condition, is_bound, pod
from tests.integration.scene import Scene
from tests.integration.test_leadership import ELECTION, forget_lease
from tests.integration.test_policies_live import POLICIES, start, undefine
from tests.support.live import PATIENCE_SECONDS

pytestmark = pytest.mark.cluster

STOP = "emergency-stop"
PATH = f"{POLICIES}/{STOP}"
EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "stop.yaml"
#: Pods of each kind: on their way when the stop comes, nominated then, and created later.
EACH = 4


@pytest.fixture
def stoppable(plane: ControlPlane) -> Iterator[ControlPlane]:
    """A cluster that knows what policies are, and has none, before and after."""
    undefine(plane)
    plane.api.apply(installation.BASE / "preemption-policies.yaml")
    yield plane
    undefine(plane)


@pytest.fixture
def plugin(stoppable: ControlPlane) -> Iterator[Callable[..., Future[int]]]:
    """Runs a command of the plugin; its future has the exit code."""
    with ThreadPoolExecutor(1) as pool:
        yield lambda *argv: pool.submit(
            main.main, [*argv, "--kubeconfig", str(stoppable.admin_kubeconfig)]
        )


def says(status: str) -> Callable[[Any], bool]:
    """Return whether the policy says that nothing is evicted any more."""
    return lambda found: found and condition(found, "Stopped").get("status") == status


def is_held(found: Any) -> bool:
    """Return whether a pod waits, not nominated, and says that the stop is why."""
    status = (found or {}).get("status", {})
    message = condition(found or {}, "PodScheduled").get("message", "")
    return not status.get("nominatedNodeName") and f'"{STOP}" refuses: all preemption' in message


def fill(scene: Scene, group: str, count: int = EACH) -> None:
    """Create nodes of a group, each with a low pod that fills it."""
    nodes = scene.nodes(count, cpu="2", labels={"group": group})
    scene.create(*(pod(f"low-{group}-{i}", "2", "low", on=at) for i, at in enumerate(nodes)))
    scene.wait_running(*(f"low-{group}-{i}" for i in range(count)))


def demand(scene: Scene, group: str, count: int = EACH) -> list[str]:
    """Create high pods that need the nodes of a group; return their names."""
    made = [pod(f"high-{group}-{i}", "2", "high", nodeSelector={"group": group})
            for i in range(count)]  # fmt: skip
    scene.create(*made)
    return [each["metadata"]["name"] for each in made]


def wait_all(scene: Scene, predicate: Callable[[Any], bool], *names: str) -> None:
    """Wait until each of some pods satisfies a predicate."""
    for name in names:
        scene.wait(name, predicate)


class Watched:
    """The resource version at which each low pod began to terminate, and when that was seen."""

    def __init__(self, scene: Scene, now: Callable[[], float]) -> None:
        self.at: dict[str, int] = {}
        self.seen: dict[str, float] = {}
        self._scene, self._now = scene, now
        path = f"/api/v1/namespaces/{scene.namespace}/pods"
        version = scene.api.get(path)["metadata"]["resourceVersion"]
        self._events = scene.api.watch(path, version)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Read until now."""
        self._scene.create(pod("end", by="no-scheduler"))
        self._thread.join()
        self._events.close()

    def _read(self) -> None:
        for _, each in self._events:
            metadata = each["metadata"]
            if metadata["name"] == "end":
                return
            if "deletionTimestamp" in metadata and metadata["name"].startswith("low"):
                self.at.setdefault(metadata["name"], int(metadata["resourceVersion"]))
                self.seen.setdefault(metadata["name"], self._now())


def test_no_eviction_is_sent_after_the_status_says_that_all_are_stopped(
    scene, schedulers, plugin, proxy
):
    now = Clock().elapsed
    for group in ("sent", "nominated", "later"):
        fill(scene, group)
    start(schedulers, kubeconfig=proxy.kubeconfig)
    deletes = proxy.hold("DELETE", "/pods/low-sent")
    nominations = proxy.hold("PATCH", "/pods/high-nominated-.*/status")
    demand(scene, "sent")
    deletes.wait(EACH)
    nominated = demand(scene, "nominated")
    nominations.wait(EACH)
    watched = Watched(scene, now)

    begun = now()
    command = plugin("stop", "--reason", "incident 4711")
    scene.api.wait_for(PATH, says("False"))
    assert not command.done()
    later = demand(scene, "later")
    wait_all(scene, is_held, *later)
    deletes.release()
    nominations.release()
    stopped = scene.api.wait_for(PATH, says("True"))

    assert command.result(PATIENCE_SECONDS) == 0
    assert len(proxy.passed("DELETE", "/pods/low")) == EACH
    wait_all(scene, is_held, *nominated)
    scene.wait_bound_count(3 * EACH)  # the low pods of two groups, and those that took the third
    watched.close()
    assert sorted(watched.at) == [f"low-sent-{i}" for i in range(EACH)]
    assert max(watched.at.values()) < int(stopped["metadata"]["resourceVersion"])
    sys.stdout.write(
        f"last eviction {max(watched.seen.values()) - begun:.2f} s after the command\n"
    )

    assert plugin("resume").result(PATIENCE_SECONDS) == 0
    wait_all(scene, is_bound, *nominated, *later)
    assert len(scene.history().evicted()) == 3 * EACH


def test_a_restarted_scheduler_obeys_a_stop_before_it_evicts_anything(
    scene, schedulers, stoppable, plugin, proxy
):
    fill(scene, "a", 2)
    scheduler = start(schedulers, kubeconfig=proxy.kubeconfig)
    held = proxy.hold("PATCH", "/pods/low-a-.*/status")
    names = demand(scene, "a", 2)
    held.wait(2)
    scheduler.kill()
    held.drop()
    stoppable.api.apply(EXAMPLE)

    start(schedulers)

    scene.api.wait_for(PATH, says("True"))
    wait_all(scene, is_held, *names)
    assert scene.history().doomed() == []
    scene.api.delete(PATH)
    wait_all(scene, is_bound, *names)


def test_a_standby_whose_watch_lags_lists_policies_before_it_decides(
    scene, schedulers, stoppable, proxy
):
    forget_lease(stoppable)
    fill(scene, "a", 1)
    leader = schedulers.start(config=ELECTION)
    leader.wait_log("became_leader")
    standby = schedulers.start(config=ELECTION, kubeconfig=proxy.kubeconfig)
    blind = proxy.hold("GET", "/preemptionpolicies")
    proxy.cut()
    blind.wait(1)
    stoppable.api.apply(EXAMPLE)
    scene.api.wait_for(PATH, says("True"))
    leader.kill()
    demand(scene, "a", 1)
    standby.wait_log("became_leader")
    assert standby.logged("pod_unschedulable") == []

    blind.release()

    scene.wait("high-a-0", is_held)
    assert scene.history().doomed() == []


def test_a_stop_is_in_force_whatever_other_policies_there_are(scene, schedulers, stoppable, plugin):
    kind = {"apiVersion": "preemptive-scheduler.io/v1alpha1", "kind": "PreemptionPolicy"}
    rules = {f"p{i:02}": {"maxVictimsPerPreemption": 3} for i in range(64)}
    rules[STOP] = {"maxVictims": 3}  # no such field
    for name, spec in rules.items():
        stoppable.api.post(POLICIES, {**kind, "metadata": {"name": name}, "spec": spec})
    fill(scene, "a", 1)
    scheduler = start(schedulers)

    assert plugin("stop").result(PATIENCE_SECONDS) == 0

    demand(scene, "a", 1)
    scene.wait("high-a-0", is_held)
    assert scheduler.metric("scheduler_preemption_stopped") == 1
    assert plugin("resume").result(PATIENCE_SECONDS) == 0
    scene.wait("high-a-0", is_bound)
    assert scene.api.get(PATH)["spec"]["maxVictims"] == 3
