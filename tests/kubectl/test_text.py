"""Ages, amounts and tables."""

import pytest

from scheduler.kubectl import text
from scheduler.model.rest.common import PodView


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0s"), (0, "0s"), (119, "119s"), (120, "2m"), (125, "2m5s"), (599, "9m59s"),
        (600, "10m"), (10_799, "179m"), (10_800, "3h"), (12_000, "3h20m"), (28_800, "8h"),
        (172_800, "2d"), (180_000, "2d2h"), (691_200, "8d"), (63_072_000, "2y"),
    ],
)  # fmt: skip
def test_ages_are_those_of_kubectl(seconds, shown):
    assert text.age(seconds) == shown


@pytest.mark.parametrize(
    ("requests", "shown"),
    [
        pytest.param({"cpu": 250, "memory": 2**29}, "cpu 250m, memory 512Mi", id="parts"),
        pytest.param({"cpu": 2_000, "memory": 3 * 2**29}, "cpu 2, memory 1.5Gi", id="wholes"),
        pytest.param({"nvidia.com/gpu": 1}, "nvidia.com/gpu 1", id="devices"),
        pytest.param({"memory": 100}, "memory 100", id="bytes"),
        pytest.param({"cpu": 0}, "nothing", id="nothing"),
    ],
)
def test_amounts_are_as_in_a_manifest(requests, shown):
    assert text.amounts(requests) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(3_600, "1h"), (90, "90s"), (1_800, "30m")])
def test_periods_are_as_in_a_policy(seconds, shown):
    assert text.window(seconds) == shown


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        pytest.param(30, "a/web-0  Preempting  one two …", id="a text, down to eight cells"),
        pytest.param(80, "a/web-0  Preempting  one two three four five six seven", id="nothing"),
    ],
)
def test_texts_are_cut_first_and_short_cells_last(width, shown):
    row = ["a/web-0", "Preempting", "one two three four five six seven"]

    assert text.table(["POD", "DECISION", "WHY"], [row], width)[1].replace("   ", "  ") == shown


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (46, "preemption-example/report-79c9b8c8f5-xk2p4  ok"),
        (37, "preemption-example/report-…-xk2p4  ok"),
        (32, "preemption-e…/report-…-xk2p4  ok"),
        (20, "preemption…xk2p4  ok"),
    ],
)
def test_a_name_keeps_its_owner_and_its_end(width, shown):
    row = ["preemption-example/report-79c9b8c8f5-xk2p4", "ok"]

    assert text.table(["POD", "S"], [row], width)[1] == shown


def test_a_table_without_a_width_is_not_cut():
    assert text.table(["WHY"], [["x" * 300]], None)[1] == "x" * 300


def test_a_name_with_control_characters_is_escaped():
    assert text.pod_name(PodView("a", "b\x1b[2J")) == "a/b\\x1b[2J"


def test_a_hidden_pod_has_no_name():
    assert text.pod_name(PodView(hidden=True)) == "<hidden>"
