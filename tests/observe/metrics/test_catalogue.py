import re
from itertools import pairwise
from pathlib import Path

import pytest

from deploy.tools.pages import metrics
from scheduler.observe.metrics.absent import ABSENT
from scheduler.observe.metrics.catalogue import CATALOGUE, MetricType, Origin, Stability

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"

rows = pytest.mark.parametrize("row", CATALOGUE, ids=lambda row: row.name)


def test_the_page_in_the_documentation_is_the_one_that_the_catalogue_makes():
    want = metrics.page()

    assert PAGE.read_text() == want, "run: python -m deploy.tools.pages.metrics > " + str(PAGE)


def test_every_name_is_listed_once():
    names = [row.name for row in CATALOGUE] + [name for each in ABSENT for name in each.names]

    assert len(names) == len(set(names))


@rows
def test_metric_names_follow_the_prometheus_conventions(row):
    assert re.fullmatch(r"[a-z][a-z0-9_]*", row.name)
    assert row.name.endswith("_total") == (row.kind is MetricType.COUNTER)
    if row.origin is Origin.OURS:
        assert row.name.startswith("scheduler_")
        assert row.stability is not Stability.STABLE


@rows
def test_buckets_are_those_of_a_histogram_and_ascend(row):
    assert bool(row.buckets) == (row.kind is MetricType.HISTOGRAM)
    assert all(low < high for low, high in pairwise(row.buckets))


@rows
def test_no_label_names_an_object_of_a_tenant(row):
    assert not {"pod", "node", "namespace", "uid"} & set(row.labels)
    if any("namespace" in label for label in row.labels):
        assert row.name.startswith(("scheduler_preemption_lost_", "scheduler_preemption_wasted_"))


@pytest.mark.parametrize(
    ("name", "first", "last", "count"),
    [
        ("scheduler_scheduling_attempt_duration_seconds", 0.001, 16.384, 15),
        ("scheduler_scheduling_algorithm_duration_seconds", 0.001, 16.384, 15),
        ("scheduler_pod_scheduling_sli_duration_seconds", 0.01, 5242.88, 20),
        ("scheduler_pod_scheduling_attempts", 1, 16, 5),
        ("scheduler_preemption_victims", 1, 64, 7),
        ("scheduler_event_handling_duration_seconds", 0.0001, 0.2048, 12),
    ],
)
def test_buckets_are_those_of_kube_scheduler(name, first, last, count):
    row = next(row for row in CATALOGUE if row.name == name)

    assert (row.buckets[0], row.buckets[-1], len(row.buckets)) == (first, last, count)
