"""Pods take devices from less important ones, with `preemptForDevices`; no device has two owners.

Claims are made and deallocated by the real controller, which some tests pause.
"""

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.demo import installation
from scheduler.core.preemption.evaluate.evaluator import ALLOCATED
from tests.integration.devices import (
    Devices,
    claim_of,
    consumer,
    extended,
    generating,
    is_free,
    using,
)
from tests.integration.objects import HANGS, Json, is_nominated, is_terminating
from tests.integration.scene import Scene
from tests.integration.test_api import until
from tests.integration.test_policies_live import ONE_VICTIM, Policy, undefine
from tests.support.fault_proxy import FaultProxy
from tests.support.live import Scheduler, Schedulers

pytestmark = pytest.mark.cluster

NO_DEVICE = "cannot allocate all claims"

#: What a preemption sends, by its phase.
REQUESTS = {
    "nominating": ("PATCH", "/pods/high/status"),
    "recording": ("(PATCH|POST)", "/configmaps"),
    "evicting": ("DELETE", "/pods/low$"),
}

#: How pods ask for a device.
ASKS = [
    pytest.param("generated", id="a claim that is made from a template"),
    pytest.param("named", id="a claim of its own"),
    pytest.param(
        "extended",
        id="an extended resource",
        marks=pytest.mark.needs_server("1.36", "older API servers drop extended resources"),
    ),
]


class Contest:
    """Pods that need a device each, on nodes that have one each."""

    def __init__(self, scene: Scene, devices: Devices, schedulers: Schedulers) -> None:
        self.scene, self.devices = scene, devices
        self._schedulers = schedulers
        self.slices: dict[str, str] = {}
        devices.device_class()
        devices.template()

    def start(self, proxy: FaultProxy | None = None) -> Scheduler:
        """Start a scheduler with the option."""
        args = [{"name": "PreemptiveScheduler", "args": {"preemptForDevices": True}}]
        profile = {"schedulerName": self._schedulers.name, "pluginConfig": args}
        kubeconfig = None if proxy is None else proxy.kubeconfig
        return self._schedulers.start(config={"profiles": [profile]}, kubeconfig=kubeconfig)

    def node(self) -> str:
        """Create a node with a device; return its name."""
        name = self.scene.node()
        self.slices[name] = self.devices.slice(name, "d0")
        return name

    def pod(self, name: str, priority: str, asks: str = "generated", **spec: object) -> Json:
        """Return a pod that asks for a device in one of three ways."""
        kind = self.devices.name
        match asks:
            case "generated":
                return generating(name, kind, priority=priority, **spec)
            case "extended":
                return extended(name, kind, priority=priority, **spec)
            case _:
                self.devices.claim(name)
                return using(name, name, priority=priority, **spec)

    def fill(self, name: str, priority: str, asks: str = "generated", **spec: object) -> str:
        """Create a node whose device a pod has; return its name."""
        node = self.node()
        self.scene.create(self.pod(name, priority, asks, **spec))
        assert self.scene.wait_running(name) == {name: node}
        return node

    def has(self, name: str) -> list[tuple[str, str]]:
        """Return node and name of each device that a pod has."""
        return self.devices.allocated(claim_of(self.scene.pod(name)))

    def await_phase(self, scheduler: Scheduler, phase: str) -> None:
        """Wait until the only preemption that goes on is in a phase, as the pages say."""

        def reached(found: Json) -> bool:
            return [each["phase"] for each in found["items"]] == [phase]

        until(scheduler, "/api/v1/preemptions?state=active", reached)

    def await_end(self, scheduler: Scheduler, outcome: str) -> None:
        """Wait until the only preemption has ended in a way."""

        def ended(found: Json) -> bool:
            return [each.get("outcome") for each in found["items"]] == [outcome]

        until(scheduler, "/api/v1/preemptions", ended)
        self.scene.wait("high", is_nominated(""))

    def check_taken(self, victim: str, node: str) -> None:
        """Check that `high` gets the device of its victim, the only one, and `equal` does not."""
        assert self.scene.wait_running("high") == {"high": node}
        assert self.has("high") == [(node, "d0")]
        self.scene.wait_rejected("equal", NO_DEVICE)
        history = self.scene.history()
        assert history.evicted() == history.doomed() == [victim]


class Controllers:
    """The controllers of the control plane, which are paused at times."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane

    def pause(self) -> None:
        self._plane.pause("kube-controller-manager")

    def resume(self) -> None:
        self._plane.resume("kube-controller-manager")


@pytest.fixture
def contest(scene: Scene, devices: Devices, schedulers: Schedulers) -> Contest:
    return Contest(scene, devices, schedulers)


@pytest.fixture
def controllers(contest: Contest) -> Iterator[Controllers]:
    """They go on when the test has ended."""
    made = Controllers(contest.scene.plane)
    yield made
    made.resume()


@pytest.fixture
def budgeted(scene: Scene) -> Iterator[Callable[[], None]]:
    """A function that makes a policy which counts victims, so that the ledger is written."""
    undefine(scene.plane)

    def make() -> None:
        scene.plane.api.apply(installation.BASE / "preemption-policies.yaml")
        Policy(scene).create(ONE_VICTIM)

    yield make
    undefine(scene.plane)


@pytest.mark.parametrize("asks", ASKS)
def test_a_pod_gets_the_device_of_a_less_important_one(contest, asks):
    contest.start()
    first = contest.fill("low", "low", asks)
    second = contest.fill("middle", "middle", asks)

    contest.scene.create(contest.pod("high", "high", asks))

    assert contest.scene.wait_running("high") == {"high": first}
    assert contest.has("high") == [(first, "d0")]
    assert contest.has("middle") == [(second, "d0")]
    assert contest.scene.history().evicted() == ["low"]


@pytest.mark.parametrize(("third", "evicted"), [("low", ["a", "b", "c"]), ("high", [])])
def test_all_pods_that_share_a_claim_are_evicted_or_none(contest, third, evicted):
    contest.start()
    node = contest.node()
    contest.devices.claim("c")
    users = {"a": "low", "b": "middle", "c": third}
    contest.scene.create(*(using(name, "c", priority=of) for name, of in users.items()))
    contest.scene.wait_running(*users)

    contest.scene.create(contest.pod("high", "high"))

    if evicted:
        assert contest.scene.wait_running("high") == {"high": node}
    else:
        contest.scene.wait_rejected("high", NO_DEVICE)
    assert contest.scene.history().evicted() == evicted


@pytest.mark.parametrize("freed_by", ["controller", "scheduler"])
def test_a_pod_waits_for_the_claim_of_its_victim_and_takes_no_other_device(
    contest, controllers, freed_by
):
    scene, devices, scheduler = contest.scene, contest.devices, contest.start()
    first = contest.fill("low", "low", annotations=HANGS)
    second = contest.fill("middle", "middle")
    claim = claim_of(scene.pod("low"))
    scene.create(contest.pod("high", "high"))
    scene.wait("low", is_terminating)
    controllers.pause()

    scene.let_go("low")
    contest.await_phase(scheduler, "deallocating")
    scene.patch_node(second, {"metadata": {"labels": {"tried": "again"}}})

    scene.wait_rejected("high", ALLOCATED)
    assert devices.allocated(claim) == [(first, "d0")]
    if freed_by == "controller":
        controllers.resume()
    else:
        devices.write_status(claim, reservedFor=None)
    assert scene.wait_running("high") == {"high": first}
    assert contest.has("high") == [(first, "d0")]
    assert scene.history().doomed() == ["low"]


def test_nobody_is_evicted_for_a_device_that_its_driver_has_withdrawn(contest, proxy):
    scene, scheduler = contest.scene, contest.start(proxy)
    node = contest.fill("low", "low")
    held = proxy.hold("PATCH", "/pods/high/status")
    scene.create(contest.pod("high", "high"))
    held.wait(1)

    contest.devices.withdraw(contest.slices[node])
    seen = contest.fill("seen", "urgent")  # so the scheduler knows what was published before
    held.release()

    contest.await_end(scheduler, "given up")
    scene.wait_rejected("high", NO_DEVICE)
    assert scene.history().doomed() == []
    assert contest.has("seen") == [(seen, "d0")]


def test_a_device_that_its_driver_withdraws_after_the_eviction_is_kept_for_nobody(contest):
    scene, scheduler = contest.scene, contest.start()
    node = contest.fill("low", "low", annotations=HANGS)
    here = {"kubernetes.io/hostname": node}
    scene.create(contest.pod("high", "high", nodeSelector=here))
    scene.wait("low", is_terminating)

    contest.devices.withdraw(contest.slices[node])
    contest.fill("seen", "urgent")  # so the scheduler knows what was published before
    scene.let_go("low")

    contest.await_end(scheduler, "given up")
    scene.create(contest.pod("equal", "urgent", nodeSelector=here))
    for name in ("equal", "high"):
        scene.wait_rejected(name, NO_DEVICE)
    contest.slices[node] = contest.devices.slice(node, "d0")
    assert len(scene.wait_bound_count(2)) == 1
    assert scene.history().evicted() == ["low"]


def test_a_claim_that_another_pod_shares_meanwhile_is_not_waited_for(contest):
    scene, scheduler = contest.scene, contest.start()
    contest.fill("low", "low", "named", annotations=HANGS)
    scene.create(contest.pod("high", "high"), using("theirs", "low", by="other"))
    scene.wait("low", is_terminating)

    users = [consumer(scene.pod(name)) for name in ("low", "theirs")]
    contest.devices.write_status("low", reservedFor=users)
    scene.let_go("low")

    contest.await_end(scheduler, "given up")
    scene.wait_rejected("high", NO_DEVICE)
    scene.remove("theirs")
    scene.wait_running("high")
    assert scene.history().evicted() == ["low"]


def test_a_device_that_another_scheduler_takes_is_not_taken_back(contest):
    scene, devices = contest.scene, contest.devices
    killed = contest.start()
    node = contest.fill("low", "low", "named", annotations=HANGS)
    scene.create(contest.pod("high", "high"), using("theirs", "theirs", by="other"))
    scene.wait("high", is_nominated(node))
    scene.wait("low", is_terminating)

    killed.kill()
    scene.let_go("low")
    devices.wait("low", is_free)
    devices.claim("theirs")
    devices.give("theirs", node, "d0", scene.pod("theirs"))
    contest.start()

    scene.wait("high", is_nominated(""))
    scene.wait_rejected("high", NO_DEVICE)
    assert devices.allocated("theirs") == [(node, "d0")]
    scene.remove("theirs")
    assert scene.wait_running("high") == {"high": node}
    assert scene.history().evicted() == ["low"]


@pytest.fixture
def equal(contest: Contest) -> Callable[[], None]:
    """A function that lets a pod in which is as important, and older: so it is tried first."""
    gates = [{"name": "example.com/later"}]
    contest.scene.create(contest.pod("equal", "urgent", "named", schedulingGates=gates))
    path, open_ = contest.scene.path("equal"), {"spec": {"schedulingGates": None}}
    return lambda: contest.scene.api.patch(path, open_)


@pytest.mark.parametrize("phase", REQUESTS)
def test_killed_before_the_eviction_the_next_one_evicts_as_planned(
    contest, proxy, budgeted, equal, phase
):
    if phase == "recording":
        budgeted()
    killed = contest.start(proxy)
    node = contest.fill("low", "low")
    contest.fill("middle", "middle")
    held = proxy.hold(*REQUESTS[phase])
    contest.scene.create(contest.pod("high", "high"))
    held.wait(1)
    contest.await_phase(killed, phase)

    killed.kill()
    held.drop()
    equal()
    contest.start(proxy)

    contest.check_taken("low", node)


@pytest.mark.parametrize("phase", ["awaiting", "deallocating"])
def test_killed_after_the_eviction_the_next_one_keeps_the_device(
    contest, controllers, equal, phase
):
    killed = contest.start()
    node = contest.fill("low", "low", annotations=HANGS)
    contest.fill("middle", "middle")
    contest.scene.create(contest.pod("high", "high"))
    contest.scene.wait("low", is_terminating)
    go_on: Callable[[], None] = partial(contest.scene.let_go, "low")
    if phase == "deallocating":
        controllers.pause()
        go_on()
        go_on = controllers.resume
    contest.await_phase(killed, phase)

    killed.kill()
    equal()
    started = contest.start()
    contest.scene.wait_rejected("equal", NO_DEVICE)
    contest.await_phase(started, phase)
    go_on()

    contest.check_taken("low", node)
