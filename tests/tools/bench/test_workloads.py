"""The workloads hold together: pods that run fit, names are found, calls are the right ones."""

import json
from collections import Counter

import pytest

from deploy.tools.bench import cases, ceiling, measure, snapshots, targets, verify
from deploy.tools.bench.cases import UnknownWorkload
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
def test_pods_that_run_break_no_rule(name: str):
    _, cluster = created(name)

    assert verify.problems(cluster, set()) == []


@each_case
def test_measured_pods_wait_for_the_contender(name: str):
    workload, cluster = created(name)

    waiting = {
        (pod["metadata"]["namespace"], pod["metadata"]["name"])
        for pod in cluster.pods
        if "nodeName" not in pod["spec"] and "schedulingGates" not in pod["spec"]
    }

    assert waiting == workload.measured_keys()
    assert {pod["spec"]["schedulerName"] for pod in cluster.pods} == {SCHEDULER}


@each_case
def test_no_two_pods_have_one_name(name: str):
    _, cluster = created(name)

    names = Counter((p["metadata"]["namespace"], p["metadata"]["name"]) for p in cluster.pods)

    assert max(names.values()) == 1


@each_case
def test_the_full_size_is_larger_and_of_the_same_kind(name: str):
    small, full = cases.workload(name, "small"), cases.workload(name, "full")

    assert small.name == full.name == name
    assert small.kind == full.kind
    assert small.pod_count() < full.pod_count() or small.kind == "idle"


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
def test_workloads_are_chosen_by_name(text: str, size: cases.Size, want: list[str]):
    assert cases.chosen(text, size) == want


def test_every_workload_with_a_target_is_among_them():
    assert set(cases.TARGETED) == {*targets.RATES, *targets.IDLE, "ColdStart"}


def test_an_unknown_workload_is_refused():
    with pytest.raises(UnknownWorkload, match="no workload Nonsense; there are Basic, "):
        cases.chosen("Nonsense", "full")


def test_churn_creates_and_deletes_in_turn():
    (churn,) = cases.workload("MixedChurn", "small").churns

    assert [[call.method for call in churn.calls(tick)] for tick in (0, 1, 2)] == [
        ["POST"] * 3,
        ["DELETE"] * 3,
        ["POST"] * 3,
    ]
    assert churn.calls(0)[0].body != churn.calls(2)[0].body


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


def test_the_ceiling_binds_to_the_nodes_in_turn():
    pods = [{"metadata": {"namespace": "ns", "name": name}} for name in "abc"]

    plans = ceiling.placements(pods, ["n", "m"], {}, victims=0)

    assert [plan.node for plan in plans] == ["n", "m", "n"]


def test_cpu_time_is_read_behind_a_name_with_brackets():
    stat = "17 (a) b) (c) S " + " ".join(["0"] * 10) + " 150 50 0 0"

    assert measure.parse_cpu_seconds(stat) == pytest.approx(200 / measure._TICKS_PER_SECOND)


def test_a_machine_is_busy_when_it_neither_idles_nor_waits():
    stat = "cpu  1 2 4 1000 1000 8 16 32 1000 1000\ncpu0 7 7 7 7 7 7 7 7 7 7\n"

    busy = measure.parse_machine_seconds(stat)

    assert busy == pytest.approx(63 / measure._TICKS_PER_SECOND)


def test_what_the_host_gave_to_others_is_told_apart():
    stat = "cpu  1 2 4 1000 1000 8 16 32 1000 1000\ncpu0 7 7 7 7 7 7 7 7 7 7\n"

    stolen = measure.parse_stolen_seconds(stat)

    assert stolen == pytest.approx(32 / measure._TICKS_PER_SECOND)


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
