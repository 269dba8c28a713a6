"""Every metric of the catalogue moves in a run of the real program, or another test moves it.

A metric that nothing records is worse than none: its panel is empty, and its alert is silent.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.demo import installation
from scheduler.observe.metrics.catalogue import CATALOGUE, MetricType
from tests.integration.devices import Devices, is_allocated, using
from tests.integration.objects import Json, budget, pod
from tests.integration.scene import Scene
from tests.integration.test_policies_live import MISTYPED, Policy, undefine
from tests.support.live import Scheduler

pytestmark = pytest.mark.cluster

ROOT: Final = Path(__file__).parents[2]
COSTS: Final = "tests/observe/api/test_costs.py"
#: Metrics of trouble that this run does not have, and the test in which each moves.
ELSEWHERE: Final = {
    # Effects wait only while some two hundred requests are under way.
    "scheduler_effect_queue_length": "tests/service/test_telemetry.py",
    "scheduler_preemption_loops_total": "tests/integration/test_loops.py",
    "scheduler_preemption_fruitless_total": "tests/integration/test_loops.py",
    "scheduler_preemption_victims_wasted_total": "tests/integration/test_loops.py",
    "scheduler_wasted_wakeups_total": "tests/service/test_telemetry.py",
    # Evictions free no devices here.
    "scheduler_preemption_devices_kept": "tests/service/test_telemetry.py",
    "scheduler_preemption_devices_freed_total": "tests/service/test_telemetry.py",
    "scheduler_preemption_devices_deallocations_total": "tests/service/test_telemetry.py",
    "scheduler_preemption_devices_deallocation_duration_seconds": "tests/service/test_telemetry.py",
    # A gap needs a disk that is full, or a thread that cannot keep up.
    "scheduler_recording_gaps_total": "tests/service/test_telemetry.py",
    "scheduler_undecodable_objects_total": "tests/service/test_telemetry.py",
    "scheduler_cache_drift": "tests/service/test_telemetry.py",
    "scheduler_log_lines_lost_total": "tests/service/test_telemetry.py",
    "scheduler_preemption_stopped": "tests/integration/test_stop_live.py",
    # The pods here request no memory, and no eviction is in vain.
    "scheduler_preemption_lost_gibibyte_seconds_total": COSTS,
    "scheduler_preemption_wasted_pods_total": COSTS,
    "scheduler_preemption_wasted_pod_seconds_total": COSTS,
    "scheduler_preemption_wasted_core_seconds_total": COSTS,
    "scheduler_preemption_wasted_gibibyte_seconds_total": COSTS,
    "scheduler_shadow_acts_total": "tests/integration/test_shadow_live.py",
    "scheduler_shadow_victims_total": "tests/integration/test_shadow_live.py",
    # That needs API servers of two releases.
    "scheduler_reference_mismatch": "tests/service/test_telemetry.py",
}
STATUS: Final = "extendedResourceClaimStatus"
VICTIM: Final = {"pod-delete.stage.kwok.x-k8s.io/delay": "8000ms"}


class Moves:
    """The metrics that were above zero at some scrape."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._pause = threading.Event()
        self.seen: set[str] = set()

    def scrape(self) -> None:
        """Read all metrics."""
        status, text = self._scheduler.get("/metrics")
        assert status == 200, text
        self.seen |= {
            sample.name
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.value > 0
        }

    def wait(self, *names: str) -> None:
        """Read until these have moved."""
        for _ in range(150):
            self.scrape()
            if self.seen.issuperset(names):
                return
            self._pause.wait(0.2)
        raise TimeoutError(f"these do not move: {sorted(set(names) - self.seen)}")


@pytest.fixture
def policies(plane: ControlPlane, scene: Scene) -> Iterator[Policy]:
    """A policy that does not exist yet, in a cluster that knows what policies are."""
    undefine(plane)
    plane.api.apply(installation.BASE / "preemption-policies.yaml")
    yield Policy(scene)
    undefine(plane)


def test_every_metric_moves(scene, schedulers, policies, proxy, devices, tmp_path):
    policies.create(
        {"mode": "Audit", "budgets": [{"maxVictims": 0, "window": "1h"}]},
    )
    node = scene.node(cpu="2")
    victim = pod("victim", "2", "low", labels={"app": "victim"}, on=node, annotations=VICTIM)
    scene.run(victim)
    scene.api.post(
        f"/apis/policy/v1/namespaces/{scene.namespace}/poddisruptionbudgets",
        budget("victims", 1, app="victim"),
    )
    scheduler = schedulers.start(
        "--compare-cache-period",
        "2s",
        "--recording-dir",
        str(tmp_path),
        kubeconfig=proxy.kubeconfig,
    )
    policies.wait_accepted(1)
    moves = Moves(scheduler)
    moves.wait("scheduler_cache_comparisons_total")

    scene.create(pod("preemptor", "2", "high"), pod("huge", "64"))
    moves.wait(
        "scheduler_nominations",
        "scheduler_oldest_nomination_seconds",
        "scheduler_preemption_victims_leaving",
        "scheduler_preemption_oldest_victim_leaving_seconds",
        "scheduler_unschedulable_pods",
    )
    scene.wait_bound("preemptor")
    devices_move(scene, devices)
    proxy.cut()
    moves.wait("scheduler_watch_restarts_total")
    policies.change(MISTYPED)
    policies.wait_accepted(2, "False")
    moves.scrape()

    still = [
        row.name
        for row in CATALOGUE
        if (f"{row.name}_count" if row.kind is MetricType.HISTOGRAM else row.name) not in moves.seen
    ]
    assert [name for name in still if name not in ELSEWHERE] == []
    assert scheduler.metric("scheduler_preemption_policies", in_force="behind") == 1


def devices_move(scene: Scene, devices: Devices) -> None:
    """Let one pod wait until its device is ready, and another one use an extended resource."""
    node, name = scene.node(), devices.device_class()
    conditional = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]}
    devices.slice(node, "d0", "d1", **conditional)
    devices.claim("c")
    scene.create(using("waiting", "c"))
    devices.wait("c", is_allocated)
    devices.report_ready("c")
    scene.wait_bound("waiting")

    amount = {f"deviceclass.resource.kubernetes.io/{name}": "1"}
    scene.create(pod("user", requests=amount))
    scene.api.wait_for(scene.path("user"), has_claim)
    devices.report_ready(scene.pod("user")["status"][STATUS]["resourceClaimName"])
    scene.wait_bound("user")


def has_claim(found: Json | None) -> bool:
    """Tell whether a pod has a claim for its extended resources."""
    return found is not None and STATUS in found["status"]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_does_not_move_here_moves_in_another_test(name):
    assert f'"{name}"' in (ROOT / ELSEWHERE[name]).read_text()
    assert name in {row.name for row in CATALOGUE}
