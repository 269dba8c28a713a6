import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from scheduler import __version__
from scheduler.model.decisions import (
    Attempt,
    Decision,
    Failed,
    Gated,
    Placed,
    Preempting,
    Unschedulable,
)
from scheduler.model.effects import Bind, Evict, PodRef
from scheduler.model.events import Answered, EffectDone, EffectFailed, Failure, FailureKind
from scheduler.observe.metrics.catalogue import CATALOGUE
from scheduler.observe.metrics.metrics import Metrics

POD = PodRef("shop", "web", "uid-1")
VICTIMS = (PodRef("shop", "low-1", "uid-2"), PodRef("shop", "low-2", "uid-3"))
EVICT = Evict(VICTIMS[0], "n1", POD, "p", 1)
LABELS = {"profile": "p"}


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry)


def attempt(decision: Decision, number: int = 1, **more) -> Attempt:
    return Attempt(POD, "p", 0, decision, more.pop("effects", ()), number, 10, 3, **more)


def test_a_placed_pod_counts_when_it_is_bound(registry, metrics):
    placed = attempt(Placed("n1"), number=3)

    metrics.record_attempt(placed, 0.002, 0.0004, 0.0)
    before = registry.get_sample_value(
        "scheduler_schedule_attempts_total", {"result": "scheduled", **LABELS}
    )
    metrics.record_bound(placed, 0.01, 7.5)

    value = registry.get_sample_value
    assert before is None
    assert value("scheduler_schedule_attempts_total", {"result": "scheduled", **LABELS}) == 1
    assert value(
        "scheduler_scheduling_attempt_duration_seconds_sum", {"result": "scheduled", **LABELS}
    ) == pytest.approx(0.01)
    assert value("scheduler_scheduling_algorithm_duration_seconds_sum") == pytest.approx(0.0004)
    assert value("scheduler_pod_scheduling_attempts_sum") == 3
    assert value(
        "scheduler_pod_scheduling_sli_duration_seconds_sum", {"attempts": "3"}
    ) == pytest.approx(7.5)


def test_many_attempts_share_one_label_value(registry, metrics):
    for number in (14, 15, 16, 400):
        metrics.record_bound(attempt(Placed("n1"), number=number), 0.01, 1.0)

    value = registry.get_sample_value
    name = "scheduler_pod_scheduling_sli_duration_seconds_count"
    assert value(name, {"attempts": "14"}) == 1
    assert value(name, {"attempts": "15+"}) == 3
    assert value(name, {"attempts": "15"}) is None


@pytest.mark.parametrize(
    ("decision", "want"),
    [
        pytest.param(Unschedulable("full"), {"unschedulable": 1}, id="a pod that fits nowhere"),
        pytest.param(Failed("boom"), {"error": 1}, id="an attempt that failed"),
        pytest.param(
            Preempting("n1", VICTIMS, 0, "full"), {"unschedulable": 1}, id="a pod that preempts"
        ),
        pytest.param(Gated("gates"), {}, id="a gated pod was not attempted"),
        pytest.param(Placed("n1"), {}, id="a placed pod is not bound yet"),
    ],
)
def test_an_attempt_counts_by_its_result(registry, metrics, decision, want):
    metrics.record_attempt(attempt(decision), 0.002, 0.001, 0.0)

    counted = {
        result: registry.get_sample_value(
            "scheduler_schedule_attempts_total", {"result": result, **LABELS}
        )
        for result in ("scheduled", "unschedulable", "error")
    }
    assert {result: count for result, count in counted.items() if count} == want
    assert registry.get_sample_value("scheduler_scheduling_algorithm_duration_seconds_count") == 1


def test_a_preemption_counts_its_victims_and_violations(registry, metrics):
    preempting = Preempting("n1", VICTIMS, 1, "full")

    metrics.record_attempt(
        attempt(preempting, effects=(EVICT,), preemption_tried=True), 0.002, 0.001, 0.0005
    )

    value = registry.get_sample_value
    assert value("scheduler_preemption_attempts_total") == 1
    assert value("scheduler_preemption_victims_bucket", {"le": "1.0"}) == 0
    assert value("scheduler_preemption_victims_bucket", {"le": "2.0"}) == 1
    assert value("scheduler_preemption_pdb_violations_total", {"preemptor": "pod"}) == 1
    assert value(
        "scheduler_preemption_evaluation_duration_seconds_sum",
        {"preemptor": "pod", "result": "Success"},
    ) == pytest.approx(0.0005)


def test_effects_count_by_how_they_ended(registry, metrics):
    bind = Bind(POD, "n1", "p")

    metrics.record_outcome(EffectDone(bind))
    metrics.record_outcome(EffectFailed(bind, Failure(FailureKind.CONFLICT, "is bound already")))
    metrics.record_outcome(EffectFailed(EVICT, Failure(FailureKind.GONE, "not found")))

    value = registry.get_sample_value
    assert value("scheduler_effects_total", {"effect": "Bind", "outcome": "done"}) == 1
    assert value("scheduler_effects_total", {"effect": "Bind", "outcome": "conflict"}) == 1
    assert value("scheduler_effects_total", {"effect": "Evict", "outcome": "gone"}) == 1


def test_the_shell_counts_what_it_reads_and_writes(registry, metrics):
    metrics.handling("NodeObserved").observe(0.0003)
    metrics.record_request("POST", "10.0.0.1:6443", "201", 0.003)
    metrics.record_request("POST", "10.0.0.1:6443", "<error>", 30.0)
    metrics.record_watch_restart("pods", "expired")
    metrics.record_undecodable("pods")
    metrics.record_loop_lag(0.0007)

    value = registry.get_sample_value
    host = {"host": "10.0.0.1:6443"}
    assert value("scheduler_event_handling_duration_seconds_count", {"event": "NodeObserved"}) == 1
    assert value("rest_client_requests_total", {"code": "201", "method": "POST", **host}) == 1
    assert value("rest_client_requests_total", {"code": "<error>", "method": "POST", **host}) == 1
    assert value("rest_client_request_duration_seconds_count", {"verb": "POST", **host}) == 2
    labels = {"resource": "pods", "reason": "expired"}
    assert value("scheduler_watch_restarts_total", labels) == 1
    assert value("scheduler_undecodable_objects_total", {"resource": "pods"}) == 1
    assert value("scheduler_loop_lag_seconds_bucket", {"le": "0.001"}) == 1
    assert value("scheduler_loop_lag_seconds_bucket", {"le": "0.0005"}) == 0


def test_gauges_are_read_when_they_are_scraped(registry, metrics):
    lengths = {"active": 1}
    metrics.provide("scheduler_pending_pods", lambda: lengths)
    metrics.provide("scheduler_nominations", lambda: {(): 4})
    metrics.provide("scheduler_unschedulable_pods", lambda: {("NodePorts", "p"): 2})

    lengths["active"] = 5

    value = registry.get_sample_value
    assert value("scheduler_pending_pods", {"queue": "active"}) == 5
    assert value("scheduler_nominations") == 4
    assert value("scheduler_unschedulable_pods", {"plugin": "NodePorts", **LABELS}) == 2


def test_what_is_read_must_have_the_labels_of_the_catalogue(metrics):
    metrics.provide("scheduler_unschedulable_pods", lambda: {"NodePorts": 2})

    with pytest.raises(ValueError, match="scheduler_unschedulable_pods has the labels"):
        metrics.exposition()


def test_the_build_is_exposed(registry, metrics):
    text = metrics.exposition()[0].decode()

    assert f'version="{__version__}"' in text


def test_the_exposition_has_every_row_of_the_catalogue_with_its_stability(metrics):
    text, content_type = metrics.exposition()

    families = {each.name: each for each in text_string_to_metric_families(text.decode())}
    assert content_type.startswith("text/plain; version=0.0.4")
    for row in CATALOGUE:
        family = families[row.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (row.kind, row.text)


def test_the_exposition_has_only_series_of_the_catalogue_and_the_process(metrics):
    metrics.record_bound(attempt(Placed("n1")), 0.01, 1.0)

    text = metrics.exposition()[0].decode()

    names = {row.name.removesuffix("_total") for row in CATALOGUE}
    families = {each.name for each in text_string_to_metric_families(text)}
    assert {name for name in families - names if not name.startswith("process_")} == set()


@pytest.mark.parametrize(("succeeded", "status"), [(True, "success"), (False, "failure")])
def test_a_claim_that_is_created_counts_under_the_names_of_both_releases(
    registry, metrics, succeeded, status
):
    metrics.record_claim_creation(succeeded=succeeded)

    value = registry.get_sample_value
    assert value("scheduler_resourceclaim_creates_total", {"status": status}) == 1
    assert value(
        "dynamic_resource_allocation_resourceclaim_creates_total",
        {"status": status, "admin_access": "false", "owner_api_group": "", "owner_api_kind": "Pod"},
    ) == 1  # fmt: skip


def test_a_wait_for_devices_counts_for_each_device(registry, metrics):
    metrics.record_device_wait("p", [("gpu", True), ("gpu", True), ("nic", False)], "success", 2.0)

    waits = "scheduler_dra_bindingconditions_wait_duration_seconds"
    allocations = "scheduler_dra_bindingconditions_allocations_total"
    of = {driver: {"driver": driver, "status": "success", **LABELS} for driver in ("gpu", "nic")}
    value = registry.get_sample_value
    assert (value(f"{waits}_count", of["gpu"]), value(f"{waits}_sum", of["gpu"])) == (2, 4.0)
    assert value(f"{waits}_count", of["nic"]) == 1
    assert (value(allocations, of["gpu"]), value(allocations, of["nic"])) == (2, None)


def test_a_failed_binding_is_an_error(registry, metrics):
    metrics.record_bind_failed(attempt(Placed("n1")), 0.02)

    labels = {"result": "error", **LABELS}
    assert registry.get_sample_value("scheduler_schedule_attempts_total", labels) == 1


def test_answered_questions_count_as_done(registry, metrics):
    metrics.record_outcome(Answered(PodRef("shop", "web", "uid-1"), 1, ()))

    labels = {"effect": "Ask", "outcome": "done"}
    assert registry.get_sample_value("scheduler_effects_total", labels) == 1
