"""The page that is made of records."""

import xml.etree.ElementTree as ET

import pytest

from deploy.tools.bench import report, summary
from tests.support.bench_results import result

OURS = "preemptive-scheduler"


def table(text, title):
    """Return the rows of a table, without its head."""
    section = text.split(f"## {title}\n\n")[1].split("\n\n")[0]
    rows = [line.split("|")[1:-1] for line in section.splitlines()]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def test_the_clock_runs_from_the_first_write_to_the_last():
    found = summary.figures(result())

    assert found.rate == 2.0  # the first of five pods starts the clock
    assert found.rate_with_events == 1.0
    assert found.cpu == pytest.approx({"scheduler": 2.0, "kube-apiserver": 4.0, "etcd": 6.0})
    assert found.writes_per_pod == 2.0
    assert found.latency["p50"] == 2.0


def test_with_preemption_every_pod_is_bound_after_the_first_write():
    assert summary.figures(result(first_write=0.5)).rate == 2.0


def test_what_others_took_is_what_the_machine_did_beyond_the_benchmark():
    assert summary.disturbance(result()) == pytest.approx(0.5)  # 2 of 4 seconds


def test_the_median_is_shown_with_the_range():
    runs = [result(run=run, finished=finished) for run, finished in enumerate((2.0, 3.0, 5.0), 1)]

    (row,) = table(report.tables(runs), "Throughput")

    assert row[:3] == ["Basic", "kube-scheduler", "3"]
    assert (row[3], row[6]) == ("2 (2 to 2)", "2 (1 to 4)")


def test_we_are_compared_with_kube_scheduler_and_the_ceiling():
    runs = [
        result(contender="ceiling", bound=[1.0, 1.5, 2.0]),
        result(contender="kube-scheduler", bound=[1.0, 1.5, 9.0]),
        result(contender=OURS, bound=[1.0, 1.5, 3.0]),
    ]

    ceiling, theirs, ours = table(report.tables(runs), "Throughput")

    assert ceiling[4:6] == ["", ""]
    assert theirs[4:6] == ["12%", ""]
    assert ours[4:6] == ["50%", "4.0"]


def test_the_page_begins_with_the_figures_that_both_have():
    runs = [
        result(contender="kube-scheduler"),
        result(contender=OURS, finished=3.0),
        result(contender=OURS, workload="PodAffinity"),
    ]

    shown = report.page(runs).split("\n\n")[2]

    assert shown.splitlines() == [
        "| medians | preemptive-scheduler | kube-scheduler |",
        "| --- | --- | --- |",
        "| plain pods on 5,000 nodes (*Basic*) | 2 pods/s | 1 pods/s |",
        "| CPU of the scheduler for a plain pod (*Basic*) | 2.00 ms | 2.00 ms |",
    ]


def test_an_invalid_run_is_listed_and_left_out_of_the_mean():
    runs = [result(run=1), result(run=2, bound=[1.0, 1.1], problems=["ns/a has no node"])]

    text = report.tables(runs)

    assert table(text, "Throughput")[0][2] == "1"
    assert table(text, "Runs that do not count") == [
        ["Basic", "kube-scheduler", "2", "ns/a has no node"]
    ]


def test_by_iterations_a_slow_moment_of_the_machine_does_not_count_against_who_met_it():
    quick = summary.figures(result())
    slow = summary.figures(result(loop_seconds=0.002, finished=9.0))

    assert quick.rate_with_events == 2 * slow.rate_with_events
    assert quick.rate_by_iterations == slow.rate_by_iterations == pytest.approx(1.0 / 40)


def test_what_the_host_has_stolen_was_not_there_to_be_used():
    half = result(stolen_seconds=4.0)  # one of two cores, 4 seconds

    assert summary.power(half) == summary.power(result()) / 2


def test_what_is_reached_is_told_with_what_is_wanted():
    slow = {"bound": [1.0, 2.0, 3.0, 4.0, 11.0], "finished": 11.0}
    runs = [
        result(contender="ceiling", finished=4.0),
        result(contender="kube-scheduler", **slow),
        result(contender=OURS, finished=4.5),
        result("Quiet", OURS, pods=0, bound=[], first_write=1.0, finished=2.0),
    ]

    assert table(report.tables(runs), "Targets") == [
        ["Basic: times kube-scheduler", "at least 2.3", "5.0 (5.0)", "2.9 (2.9)", "yes"],
        ["Basic: share of the ceiling", "at least 85%", "100% (100%)", "86% (86%)", "yes"],
        [
            "Basic: CPU of the scheduler per pod, share of kube-scheduler's",
            "at most 13%",
            "100% (100%): 2.00 ms of 2.00 ms",
            "",
            "**no**",
        ],
        ["Basic: peak RSS", "at most 100 MiB", "100 MiB", "", "yes"],
        ["Quiet: share of a core", "at most 0.5%", "1.0%", "", "**no**"],
    ]


def test_on_a_large_cluster_the_rate_is_compared_with_that_of_basic_in_both_windows():
    runs = [
        result("Basic", OURS, bound=[1.0, 1.5, 3.0], finished=4.0),
        result("ColdStart", OURS, bound=[1.0, 1.5, 3.5], finished=5.5, loop_seconds=0.002),
    ]

    assert table(report.tables(runs), "Targets")[-1] == [
        "15,000 nodes, 150,000 pods: rate, share of that of Basic",
        "at least 75%",
        "80% (160%)",
        "67% (133%)",
        "**only to the last binding**",
    ]


def test_where_room_must_be_made_the_share_of_the_ceiling_is_enough():
    runs = [
        result("PreemptionLarge", name, finished=4.0)
        for name in ("ceiling", "kube-scheduler", OURS)
    ]

    assert table(report.tables(runs), "Targets")[0] == [
        "PreemptionLarge: times kube-scheduler",
        "at least 12 or the share of the ceiling",
        "1.0 (1.0)",
        "1.0 (1.0)",
        "yes",
    ]


@pytest.mark.parametrize(
    ("bound", "finished", "reached"),
    [
        pytest.param(3.0, 4.0, "yes", id="everywhere"),
        pytest.param(3.0, 9.0, "**only to the last binding**", id="bindings"),
        pytest.param(4.0, 4.0, "**only to the last event**", id="events"),
        pytest.param(9.0, 9.0, "**no**", id="nowhere"),
    ],
)
def test_postponing_events_cannot_flatter(bound, finished, reached):
    runs = [
        result(contender="ceiling", bound=[1.0, 1.5, 3.0], finished=4.0),
        result(contender=OURS, bound=[1.0, 1.5, bound], finished=finished),
    ]

    (row,) = table(report.tables(runs), "Targets")

    assert row[-1] == reached


def test_the_page_and_its_plots_are_written(tmp_path):
    runs = [result(contender=name) for name in ("ceiling", "kube-scheduler", OURS)]

    report.write(runs, tmp_path / "page.md", tmp_path / "img")

    page = (tmp_path / "page.md").read_text()
    assert "2 cores (a processor)" in page
    assert "<!--" not in page
    for name in ("throughput.svg", "cpu.svg"):
        assert f"img/{name}" in page
        ET.fromstring((tmp_path / "img" / name).read_text())
