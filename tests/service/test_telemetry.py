"""What the live scheduler reports to metrics and log."""

import asyncio
import contextlib
import io
import json
from collections import Counter

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from scheduler.core.eviction.transitions import DEALLOCATE_AFTER
from scheduler.kube.watch.cache_comparer import Drift
from scheduler.model.api.devices import DeviceClass, ResourceClaim
from scheduler.model.api.objects import Service
from scheduler.model.api.storage import StorageClass
from scheduler.model.decisions import AttemptPhase
from scheduler.model.effects import Nominate
from scheduler.model.events import (
    DeviceClassObserved,
    DevicesObserved,
    NodeObserved,
    PodObserved,
    StorageObserved,
    WorkloadObserved,
)
from scheduler.model.policies import Budget, BudgetScope, PodSelection
from scheduler.model.releases import V1_36, V1_37
from scheduler.observe.logs.logs import Logs
from scheduler.observe.metrics.metrics import Metrics
from scheduler.queue.phases import PendingReason
from scheduler.service.clock import Clock
from scheduler.service.loop import Loop
from scheduler.service.release_watch import Agreement
from scheduler.service.telemetry import (
    ApiTelemetry,
    Telemetry,
    provide,
    provide_agreement,
    provide_recording,
)
from tests.core.eviction.test_freed_devices import preempting
from tests.support.builders import node, pod
from tests.support.cluster import Cluster
from tests.support.policies import labelled, policy


class NoWriter:
    """A writer that has nothing to write."""

    def lengths(self):
        return {}


class Ticking(Clock):
    """A clock that is a tenth of a millisecond later at each look."""

    looks = 0

    def perf(self) -> float:
        self.looks += 1
        return self.looks / 10_000


class NoPolicies:
    """Policies of which there are none."""

    stops = False

    def count_by_state(self):
        return {"current": 0, "behind": 0, "none": 1}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry) -> Metrics:
    return Metrics(registry)


@pytest.fixture
def logs() -> Logs:
    return Logs(io.BytesIO(), lambda: 0.0)


@pytest.mark.parametrize(
    ("event", "resource"),
    [
        (PodObserved(pod("p").build()), "pods"),
        (NodeObserved(node("n").build()), "nodes"),
        (StorageObserved(StorageClass()), "storageclasses"),
        (WorkloadObserved(Service()), "services"),
        (DeviceClassObserved(DeviceClass()), "deviceclasses"),
        (DevicesObserved(ResourceClaim()), "resourceclaims"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_an_object_that_is_refused_is_counted_under_its_resource(
    registry, metrics, logs, event, resource
):
    Telemetry(metrics, logs).event_rejected(event, "no quantity")

    labels = {"resource": resource}
    assert registry.get_sample_value("scheduler_undecodable_objects_total", labels) == 1


def test_wasted_wake_ups_are_read_from_the_queue(registry, metrics, logs):
    taken = pod("there").on("n1").cpu("8").priority(9)
    cluster = Cluster(node("n1").cpu("1"), taken, pod("p").cpu("8"))
    provide(metrics, cluster.machine, [], NoPolicies(), NoWriter(), logs)
    cluster.drain()

    cluster.add(node("n1").cpu("9"))
    cluster.wait(60)
    cluster.drain()

    labels = {"plugin": "NodeResourcesFit", "event": "NodeUpdateNodeAllocatable"}
    assert registry.get_sample_value("scheduler_wasted_wakeups_total", labels) == 1


def test_a_pending_pod_counts_once_by_why_it_is_pending(registry, metrics, logs):
    cluster = Cluster(
        node("n1").cpu("4").label("zone", "a"),
        node("n2").cpu("4").label("zone", "b"),
        pod("old").on("n1").cpu("4").priority(50),
        pod("low").on("n2").cpu("4").priority(1),
        policy(
            preemptors=PodSelection(pods=labelled(app="held")),
            budgets=(Budget(0, 3600.0, BudgetScope.CLUSTER),),
        ),
    )
    provide(metrics, cluster.machine, [], NoPolicies(), NoWriter(), logs)
    cluster.hold(Nominate)
    for wanted in (
        pod("huge").cpu("9"),
        pod("busy").cpu("4").priority(1),
        pod("held").cpu("4").priority(9).label("app", "held"),
        pod("preemptor").cpu("4").priority(8).selects(zone="b"),
        pod("waits").gated("g"),
    ):
        cluster.add(wanted)
        cluster.drain()
    cluster.add(pod("next"))

    found = {
        reason.value: registry.get_sample_value(
            "scheduler_pending_pods_by_reason", {"reason": reason.value}
        )
        for reason in PendingReason
    }

    assert found == {
        "never_fits": 1, "busy": 1, "policy": 1, "preempting": 1, "gated": 1, "not_tried": 1,
        "paused": 0, "error": 0,
    }  # fmt: skip
    assert sum(found.values()) == len(cluster.machine.queue)


def test_devices_of_preemptions_are_counted(registry, metrics, logs):
    cluster = preempting()
    provide(metrics, cluster.machine, [], NoPolicies(), NoWriter(), logs)

    read = registry.get_sample_value
    freed = "scheduler_preemption_devices_freed_total"
    waited = "scheduler_preemption_devices_deallocation_duration_seconds"

    def values() -> list[float | None]:
        return [
            read("scheduler_preemption_devices_kept"),
            *(read(freed, {"result": result}) for result in ("taken", "lost")),
            read("scheduler_preemption_devices_deallocations_total"),
            read(f"{waited}_sum"),
        ]

    before = values()
    cluster.delete("low-n1")
    known = cluster.claim("low-n1-claim")
    cluster.add(replace(known, status=replace(known.status, reserved_for=[])))
    cluster.wait(DEALLOCATE_AFTER)
    cluster.drain()
    for seconds in cluster.machine.preemptions.devices.waits:
        Telemetry(metrics, logs).claims_deallocated(seconds)

    assert before == [1, 0, 0, 0, 0]
    assert values() == [0, 1, 0, 1, DEALLOCATE_AFTER]


async def test_the_phases_of_attempts_are_timed(registry, metrics, logs):
    cluster = Cluster(
        node("n1").cpu("4"), pod("low").on("n1").cpu("2"), pod("fits").cpu("1").priority(9)
    )
    cluster.hold(Nominate)
    loop = Loop(cluster.machine, lambda _: None, Ticking(), Telemetry(metrics, logs))
    cluster.add(pod("high").cpu("3").priority(5))
    loop.start_deciding()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.1):
            await loop.run()

    def value(of: str, phase: str) -> float | None:
        name = f"scheduler_attempt_phase_duration_seconds_{of}"
        return registry.get_sample_value(name, {"phase": phase})

    # A look when the pod is popped, one at each phase, one after the decision, one at the end.
    assert [value("count", phase.value) for phase in AttemptPhase] == [2, 1, 1, 2]
    assert [value("sum", phase.value) for phase in AttemptPhase] == pytest.approx(
        [4e-4, 1e-4, 1e-4, 4e-4]
    )
    evaluation = "scheduler_preemption_evaluation_duration_seconds_sum"
    labels = {"preemptor": "pod", "result": "Success"}
    assert registry.get_sample_value(evaluation, labels) == pytest.approx(1e-4)


class Pausing:
    """An informer that pauses."""

    resumed = 0

    def resume(self):
        self.resumed += 1


def test_pauses_end_once_when_an_outage_does(metrics, logs):
    telemetry = ApiTelemetry(metrics, logs, "host")
    telemetry.informers = [Pausing(), Pausing()]

    for code in ("200", "unreachable", "503", "201", "200"):
        telemetry.request_ended("get", "pods", code, 0.1)

    assert [each.resumed for each in telemetry.informers] == [1, 1]


def told(registry, resource, difference):
    labels = {"resource": resource, "difference": difference}
    return registry.get_sample_value("scheduler_cache_drift", labels)


def test_what_a_comparison_finds_is_counted_and_the_objects_are_logged(registry, metrics):
    log = io.BytesIO()
    logs = Logs(log, lambda: 0.0)
    telemetry = ApiTelemetry(metrics, logs, "host")

    telemetry.compared("pods", Drift(missing=("a/b",), stale=("a/c", "a/d")))
    logs.flush()

    assert [told(registry, "pods", each) for each in ("missing", "surplus", "stale")] == [1, 0, 2]
    line = json.loads(log.getvalue())
    assert line["event"] == "cache_drift"
    assert line["objects"] == {"missing": ["a/b"], "stale": ["a/c", "a/d"]}
    telemetry.compared("pods", Drift())
    telemetry.not_compared("pods", "no answer")
    assert told(registry, "pods", "stale") == 0
    counts = {
        result: registry.get_sample_value(
            "scheduler_cache_comparisons_total", {"resource": "pods", "result": result}
        )
        for result in ("same", "drift", "failed")
    }
    assert counts == {"same": 1, "drift": 1, "failed": 1}


class Full(io.RawIOBase):
    """A disk that takes nothing."""

    def write(self, _):
        raise OSError("no space")


def test_lines_that_cannot_be_written_are_counted(registry, metrics):
    logs = Logs(Full(), lambda: 0.0)
    provide(metrics, Cluster().machine, [], NoPolicies(), NoWriter(), logs)

    logs.logger.warning("lost")
    logs.flush()

    assert registry.get_sample_value("scheduler_log_lines_lost_total") == 1


class Recorder:
    """A recorder whose disk was full twice."""

    def __init__(self):
        self.size = 4096
        self.gap_counts = Counter(disk=2)


class Recorded:
    """A recording of which two parts are missing."""

    recorder = Recorder()


def test_gaps_of_the_recording_are_counted(registry, metrics):
    provide_recording(metrics, Recorded())

    gaps = {
        reason: registry.get_sample_value("scheduler_recording_gaps_total", {"reason": reason})
        for reason in ("behind", "disk", "size", "defect")
    }
    assert gaps == {"behind": 0, "disk": 2, "size": 0, "defect": 0}
    assert registry.get_sample_value("scheduler_recording_bytes") == 4096


class Busy:
    """A writer with effects that wait."""

    def lengths(self):
        return {"bind": 3, "announce": 0}


def test_effects_that_wait_are_counted_by_lane(registry, metrics, logs):
    provide(metrics, Cluster().machine, [], NoPolicies(), Busy(), logs)

    value = registry.get_sample_value
    assert value("scheduler_effect_queue_length", {"lane": "bind"}) == 3
    assert value("scheduler_effect_queue_length", {"lane": "announce"}) == 0


def test_an_answer_of_another_release_is_a_mismatch_until_none_comes(registry, metrics):
    agreement = Agreement(V1_36)
    provide_agreement(metrics, agreement)
    found = []

    for answers in ([V1_36], [V1_36, V1_37], [V1_36]):
        agreement.observe(answers, 0.0)
        found.append(registry.get_sample_value("scheduler_reference_mismatch"))

    assert found == [0, 1, 0]
