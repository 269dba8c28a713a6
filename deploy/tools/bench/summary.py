"""Figures of runs, computed from the records."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from deploy.tools.bench import measure, statistics
from deploy.tools.bench.results import Result
from deploy.tools.bench.workloads import Workload

__all__ = [
    "Figures",
    "Spread",
    "busy",
    "disturbance",
    "figures",
    "line",
    "power",
    "size_of",
    "speed",
    "spread",
]

COMPONENTS: Final = ("scheduler", "kube-apiserver", "etcd")


@dataclass(frozen=True)
class Figures:
    """The figures of one run."""

    #: Pods per second from the first write to the last binding.
    rate: float
    #: The same until the last Event.
    rate_with_events: float
    #: Both by the speed of the machine: pods per million iterations of the reference loop.
    binding_by_iterations: float
    rate_by_iterations: float
    #: Mean and percentiles of the rate in each second, as in kube-scheduler's benchmark; empty
    #: for runs that are too short.
    sampled: Mapping[str, float]
    #: Seconds from the start of the process to the first write.
    start: float
    #: Percentiles of the seconds from the start of the process to the bindings.
    latency: Mapping[str, float]
    #: CPU milliseconds per pod by component, from the first write to the last event.
    cpu: Mapping[str, float]
    #: CPU time of the scheduler per pod, in iterations of the reference loop.
    cpu_iterations: float
    #: CPU seconds of the scheduler before the first write.
    start_cpu: float
    peak_rss_mib: float
    writes_per_pod: float
    #: Number of Events at the end per pod; fewer than others if some were dropped.
    events_per_pod: float
    deleted_per_pod: float


@dataclass(frozen=True)
class Spread:
    """A figure of several runs."""

    median: float
    low: float
    high: float


def figures(result: Result) -> Figures:
    """Return the figures of a run."""
    pods, last = len(result.bound), max(result.bound, default=result.finished)
    counted = pods - 1 if result.bound and result.first_write == result.bound[0] else pods
    rate = statistics.share(counted, last - result.first_write)
    with_events = statistics.share(counted, result.finished - result.first_write)
    cpu = {name: statistics.share(result.cpu[name].work * 1e3, pods) for name in COMPONENTS}
    return Figures(
        rate=rate,
        rate_with_events=with_events,
        binding_by_iterations=statistics.share(rate * 1e6, power(result)),
        rate_by_iterations=statistics.share(with_events * 1e6, power(result)),
        sampled=statistics.summary(statistics.rates(result.bound)),
        start=result.first_write,
        latency=statistics.summary(result.bound),
        cpu=cpu,
        cpu_iterations=cpu["scheduler"] / 1e3 * speed(result),
        start_cpu=result.cpu["scheduler"].start,
        peak_rss_mib=result.peak_rss_bytes / 2**20,
        writes_per_pod=statistics.share(result.writes, pods),
        events_per_pod=statistics.share(result.events, pods),
        deleted_per_pod=statistics.share(result.deleted, pods),
    )


def speed(result: Result) -> float:
    """Return the iterations of the reference loop in a second of CPU time."""
    return statistics.share(measure.ITERATIONS, result.loop_seconds)


def power(result: Result) -> float:
    """Return the iterations per second that the machine could do, without stolen time."""
    seconds = result.finished - result.first_write
    stolen = statistics.share(result.stolen_seconds, seconds)
    return speed(result) * (result.environment.cores - stolen)


def busy(result: Result) -> float:
    """Return the share of a core that the scheduler used."""
    seconds = result.finished - result.first_write
    return statistics.share(result.cpu["scheduler"].work, seconds)


def disturbance(result: Result) -> float:
    """Return the number of cores that other processes, the kernel and the hypervisor used."""
    ours = sum(result.cpu[name].work for name in (*COMPONENTS, "benchmark"))
    seconds = result.finished - result.first_write
    return statistics.share(max(result.cpu["machine"].work - ours, 0.0), seconds)


def spread(values: Iterable[float]) -> Spread:
    """Return median and range of a figure; there must be values."""
    ordered: Sequence[float] = sorted(values)
    return Spread(statistics.middle(ordered), ordered[0], ordered[-1])


def line(result: Result) -> str:
    """Return the figures of a run as one line."""
    found = figures(result)
    head = f"{result.contender:<22}{result.run:>3}"
    if not result.pods:
        return f"{head}  {busy(result):6.1%} of a core  {found.peak_rss_mib:5.0f} MiB"
    cpu = " + ".join(f"{found.cpu[name]:.2f}" for name in COMPONENTS)
    return (
        f"{head} {found.rate:7.0f} pods/s, {found.rate_with_events:6.0f} with events,"
        f" first after {found.start:5.2f} s, CPU {cpu} ms/pod,"
        f" {found.writes_per_pod:.2f} writes/pod, {found.events_per_pod:.2f} events/pod,"
        f" {found.peak_rss_mib:.0f} MiB, {found.rate_by_iterations:.2f} pods/million iterations,"
        f" others used {disturbance(result):.1f} cores"
    )


def size_of(workload: Workload) -> str:
    """Return the size of a workload as text."""
    nodes = sum(group.count for group in workload.nodes)
    existing = sum(batch.count for batch in workload.existing)
    return f"{nodes} nodes, {existing} pods; {workload.pod_count()} to schedule"
