"""Counters, gauges and histograms that cost a fraction of a microsecond to record.

The values are plain numbers owned by the one loop, so there are no locks; a family passes them to
prometheus_client only when it is scraped. `metrics` makes one family for each row of `catalogue`.

A series with labels is created at its first use. A metric without labels is zero from the start.
Values that another object keeps anyway, such as the lengths of queues, are not copied here: they
are read at each scrape (`NumberFamily.provide`).
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate
from typing import Any, Generic, TypeAlias, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector, CollectorRegistry

from scheduler.observe.metrics.catalogue import MetricType, Row

__all__ = ["Family", "Histogram", "HistogramFamily", "Number", "NumberFamily", "Read"]

#: Returns all values of a family by their label values. A family with one label may use bare
#: strings, one without labels uses the empty tuple.
Read: TypeAlias = Callable[[], Mapping[Any, float]]


class Number:
    """The value of a counter or a gauge."""

    __slots__ = ("value",)

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def inc(self, amount: float = 1.0) -> None:
        """Add an amount, which for a counter must not be negative."""
        self.value += amount


class Histogram:
    """How many observations fell into each bucket, and their sum."""

    __slots__ = ("_bounds", "_counts", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        #: The sum of all observed values.
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a value in the first bucket whose upper bound is not below it."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self.sum += value

    def buckets(self) -> list[tuple[str, float]]:
        """Return the cumulative counts by upper bound, as the exposition format has them."""
        bounds = (*map(str, self._bounds), "+Inf")
        return list(zip(bounds, map(float, accumulate(self._counts)), strict=True))


Child = TypeVar("Child", Number, Histogram)


class Family(Collector, ABC, Generic[Child]):
    """All series of one metric, by their label values."""

    def __init__(self, row: Row, registry: CollectorRegistry) -> None:
        self.row = row
        self._children: dict[tuple[str, ...], Child] = {}
        if not row.labels:
            self.child()
        registry.register(self)

    def child(self, *labels: str) -> Child:
        """Return the series with these label values; cheap enough to call each time."""
        try:
            return self._children[labels]
        except KeyError:
            return self._children.setdefault(self._checked(labels), self._new())

    def describe(self) -> Iterable[Metric]:
        """Return the metric without its values; the registry rejects a duplicate name."""
        return [self._exposed({})]

    def collect(self) -> Iterable[Metric]:
        """Return the metric with its current values."""
        return [self._exposed(self._children)]

    @abstractmethod
    def _new(self) -> Child:
        """Return a value of zero."""

    @abstractmethod
    def _exposed(self, children: Mapping[tuple[str, ...], Child]) -> Metric:
        """Return the metric with these values, in the form of prometheus_client."""

    def _checked(self, labels: tuple[str, ...]) -> tuple[str, ...]:
        if len(labels) != len(self.row.labels):
            raise ValueError(f"{self.row.name} has the labels {self.row.labels}, not {labels}")
        return labels


class NumberFamily(Family[Number]):
    """A counter or a gauge."""

    _read: Read | None = None

    def provide(self, read: Read) -> None:
        """Take all values from here at each scrape; the family keeps none of its own."""
        self._read = read

    def collect(self) -> Iterable[Metric]:
        """Return the metric with its current values."""
        if self._read is None:
            return super().collect()
        values: dict[tuple[str, ...], Number] = {}
        for key, value in self._read().items():
            labels = (key,) if isinstance(key, str) else key
            values[self._checked(labels)] = Number(value)
        return [self._exposed(values)]

    def _new(self) -> Number:
        return Number()

    def _exposed(self, children: Mapping[tuple[str, ...], Number]) -> Metric:
        row = self.row
        kind = CounterMetricFamily if row.kind is MetricType.COUNTER else GaugeMetricFamily
        metric = kind(row.name, row.text, labels=row.labels)
        for labels, child in children.items():
            metric.add_metric(labels, child.value)
        return metric


class HistogramFamily(Family[Histogram]):
    """Histograms that share their bounds."""

    def _new(self) -> Histogram:
        return Histogram(self.row.buckets)

    def _exposed(self, children: Mapping[tuple[str, ...], Histogram]) -> Metric:
        row = self.row
        metric = HistogramMetricFamily(row.name, row.text, labels=row.labels)
        for labels, child in children.items():
            metric.add_metric(labels, child.buckets(), child.sum)
        return metric
