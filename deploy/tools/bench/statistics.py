"""Rates and percentiles as in kube-scheduler's benchmark.

Source: kube-scheduler v1.36.3 test/integration/scheduler_perf/util.go, throughputCollector.
"""

import bisect
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Final

__all__ = ["PERCENTILES", "percentile", "rates", "summary"]

PERCENTILES: Final = (50, 90, 95, 99)

TICK_SECONDS: Final = 1.0


def percentile(values: Sequence[float], percent: int) -> float:
    """Return the nearest-rank percentile.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("no values")
    return sorted(values)[max(math.ceil(len(values) * percent / 100), 1) - 1]


def rates(bound: Sequence[float], start: float = 0.0) -> list[float]:
    """Return samples of pods per second, one for each second.

    Pods that are bound until the first tick with a bound pod are not counted. Ticks without
    progress get the mean rate up to the next tick with progress. Pods after the last tick are not
    counted.

    Args:
        bound: when each pod was bound, ascending.
        start: when the clock was started, at the latest at the first binding.
    """
    if not bound:
        return []
    samples: list[float] = []
    base = skipped = 0
    for tick in range(1, int((bound[-1] - start) // TICK_SECONDS) + 1):
        count = bisect.bisect_right(bound, start + tick * TICK_SECONDS)
        if base == 0:
            base = count
        elif count == base:
            skipped += 1
        else:
            seconds = (skipped + 1) * TICK_SECONDS
            samples += [(count - base) / seconds] * (skipped + 1)
            base, skipped = count, 0
    return samples


def summary(values: Sequence[float]) -> dict[str, float]:
    """Return mean, percentiles and maximum; empty without values."""
    if not values:
        return {}
    shares = {f"p{percent}": percentile(values, percent) for percent in PERCENTILES}
    return {"mean": statistics.fmean(values), **shares, "max": max(values)}


def middle(values: Sequence[float]) -> float:
    """Return the median."""
    return statistics.median(values)


def share(part: float, whole: float) -> float:
    """Return the ratio of a part to the whole, 0 if the whole is 0."""
    return part / whole if whole else 0.0


def interpolated(
    series: Sequence[tuple[float, Mapping[str, float]]], at: float
) -> dict[str, float]:
    """Return growing quantities at a time, interpolated between samples.

    Args:
        series: pairs of time, ascending, and quantities; at least one.
        at: the time; before the first and after the last sample their values are returned.
    """
    after = bisect.bisect_left(series, at, key=lambda sample: sample[0])
    if after == 0:
        return dict(series[0][1])
    if after == len(series):
        return dict(series[-1][1])
    (began, low), (ended, high) = series[after - 1], series[after]
    part = (at - began) / (ended - began)
    return {name: low[name] + (high[name] - low[name]) * part for name in low}
