"""Rates, percentiles and what lies between two samples."""

import pytest

from deploy.tools.bench import statistics


@pytest.mark.parametrize(
    ("values", "percent", "want"),
    [
        ([7.0], 50, 7.0),
        ([4.0, 1.0, 3.0, 2.0], 50, 2.0),
        ([4.0, 1.0, 3.0, 2.0], 51, 3.0),
        ([float(each) for each in range(1, 101)], 99, 99.0),
        ([float(each) for each in range(1, 11)], 99, 10.0),
    ],
    ids=[
        "of one value",
        "the lower middle of an even number",
        "just above it",
        "of a hundred",
        "of ten, the highest",
    ],
)
def test_a_percentile_is_the_nearest_rank(values, percent, want):
    assert statistics.percentile(values, percent) == want


@pytest.mark.parametrize(
    ("bound", "want"),
    [
        ([], []),
        ([0.1, 0.2, 0.9], []),
        ([0.1, 0.2, 1.1, 1.2, 1.3, 2.0], [4.0]),
        ([0.5, 1.5, 1.6, 2.5, 3.0], [2.0, 2.0]),
        ([0.5, 3.5, 3.6, 3.7, 4.0, 4.5], [4 / 3, 4 / 3, 4 / 3]),
        ([5.5, 6.5, 7.0], [2.0]),
    ],
    ids=[
        "nothing was bound",
        "all before the first tick sets the base only",
        "what a tick sees counts for it",
        "one sample for each tick",
        "a tick without progress gets the rate of the next one with some",
        "ticks before the first pod do not count",
    ],
)
def test_rates_are_sampled_as_upstream_samples_them(bound, want):
    assert statistics.rates(bound) == pytest.approx(want)


def test_a_summary_has_mean_percentiles_and_maximum():
    want = {"mean": 2.5, "p50": 2.0, "p90": 4.0, "p95": 4.0, "p99": 4.0, "max": 4.0}

    assert statistics.summary([1.0, 2.0, 3.0, 4.0]) == want
    assert statistics.summary([]) == {}


@pytest.mark.parametrize(
    ("at", "want"),
    [(0.0, 1.0), (1.0, 1.0), (2.0, 2.0), (2.5, 2.5), (9.0, 3.0)],
    ids=["before the first", "at the first", "between", "nearer to the last", "after the last"],
)
def test_what_was_used_is_interpolated_between_samples(at, want):
    series = [(1.0, {"etcd": 1.0}), (3.0, {"etcd": 3.0})]

    assert statistics.interpolated(series, at) == {"etcd": want}
