"""The workloads hold together: pods that run fit, names are found, calls are the right ones."""

import json
from collections import Counter

import pytest

from deploy.tools.bench import cases, ceiling, measure, snapshots, verify
from deploy.tools.bench.verify import Cluster
from deploy.tools.bench.workloads import SCHEDULER

each_case = pytest.mark.parametrize("name", cases.CASES)


def created(name):
    """Return the nodes and pods that the small workload begins with."""
    workload = cases.workload(name, "small")
    nodes = workload.node_bodies()
    for node in nodes:
        node["status"]["allocatable"] = node["status"]["capacity"]
    calls = [
        job[-1] for job in snapshots.pod_jobs(workload, [n["metadata"]["name"] for n in nodes])
    ]
    pods = [json.loads(call.body) for call in calls]
    spaces = [
        {"metadata": {"name": space, "labels": dict(workload.namespaces.get(space, {}))}}
        for space in workload.namespace_names()
    ]
    return workload, Cluster(nodes=nodes, pods=pods, namespaces=spaces)


@each_case
def test_a_workload_is_sound(name):
    workload, cluster = created(name)
    full = cases.workload(name, "full")

    assert verify.problems(cluster, set()) == []
    keys = [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in cluster.pods]
    assert len({*keys}) == len(keys)
    waiting = {
        key
        for key, pod in zip(keys, cluster.pods, strict=True)
        if "nodeName" not in pod["spec"] and "schedulingGates" not in pod["spec"]
    }
    assert waiting == workload.measured_keys()
    assert {pod["spec"]["schedulerName"] for pod in cluster.pods} == {SCHEDULER}
    assert (workload.name, workload.kind) == (full.name, full.kind)
    assert workload.pod_count() < full.pod_count() or workload.kind == "idle"


def test_preemptors_need_three_victims_each():
    _, cluster = created("PreemptionBasic")
    nodes = {node["metadata"]["name"]: 0 for node in cluster.nodes}
    for pod in cluster.pods:
        if "nodeName" in pod["spec"]:
            nodes[pod["spec"]["nodeName"]] += 900

    assert set(nodes.values()) == {3600}
    assert 3600 - 2 * 900 + 3000 > 4000 >= 3600 - 3 * 900 + 3000


@pytest.mark.parametrize(
    ("text", "size", "want"),
    [
        ("", "small", list(cases.CORE)),
        ("", "full", list(cases.CASES)),
        ("all", "small", list(cases.CASES)),
        ("Idle, basic SchedulingBasic", "full", ["Idle", "Basic"]),
        ("PreemptionLarge core", "full", ["PreemptionLarge", *cases.CORE]),
        ("targets", "full", list(cases.TARGETED)),
    ],
    ids=[
        "nothing, in small",
        "nothing, in full",
        "all",
        "each once, however it is written",
        "one and the core",
        "those with a target",
    ],
)
def test_workloads_are_chosen_by_name(text, size, want):
    assert cases.chosen(text, size) == want


def test_every_pod_that_is_in_the_way_is_deleted_once_all_others_were_tried():
    workload = cases.workload("EventHandling", "small")

    deleted = {
        call.path
        for churn in workload.churns
        for tick in range(churn.ticks or 0)
        for call in churn.calls(tick)
    }

    assert {churn.after for churn in workload.churns} == {"attempted"}
    assert len(deleted) == sum(batch.count for batch in workload.existing) == 72


def test_the_ceiling_of_preemption_makes_thirteen_writes_for_three_victims():
    pods = [
        {"metadata": {"namespace": "ns", "name": name, "uid": name}}
        for name in ("p", "x", "y", "z")
    ]
    (plan,) = ceiling.placements(pods[:1], ["n"], {"n": pods[1:]}, victims=3)

    calls = ceiling.preemption(plan) + ceiling.events(plan)

    assert len(calls) == 13
    assert [call.method for call in ceiling.preemption(plan)] == [
        "PATCH", *["PATCH", "DELETE"] * 3, "POST",
    ]  # fmt: skip


def test_cpu_time_is_read_behind_a_name_with_brackets():
    stat = "17 (a) b) (c) S " + " ".join(["0"] * 10) + " 150 50 0 0"

    assert measure.parse_cpu_seconds(stat) == pytest.approx(200 / measure._TICKS_PER_SECOND)


def test_idle_waiting_and_stolen_time_are_not_busy_time():
    stat = "cpu  1 2 4 1000 1000 8 16 32 1000 1000\ncpu0 7 7 7 7 7 7 7 7 7 7\n"

    assert measure.parse_machine_seconds(stat) == pytest.approx(63 / measure._TICKS_PER_SECOND)
    assert measure.parse_stolen_seconds(stat) == pytest.approx(32 / measure._TICKS_PER_SECOND)


def test_requests_are_counted_by_what_they_do():
    metrics = """
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="a",dry_run="",group="",resource="pods",scope="r",\
subresource="binding",verb="POST",version="v1"} 7
apiserver_request_total{code="200",resource="pods",subresource="",verb="LIST"} 1e+01
apiserver_request_total{code="200",resource="pods",subresource="",verb="LIST",dry_run="x"} 1
apiserver_other_total{code="200",resource="pods",subresource="",verb="POST"} 3
"""

    calls = measure.parse_api_calls(metrics)

    assert calls == Counter({"POST pods/binding 201": 7, "LIST pods 200": 11})
    assert measure.writes(calls) == 7
