"""Figures of one run, and of several runs of one contender, worked out from the raw records."""

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
    """What a run amounts to."""

    #: Pods a second from the first write to the last binding.
    rate: float
    #: The same until the last event.
    rate_with_events: float
    #: Both by what the machine could do meanwhile: pods for a million turns of a fixed loop.
    binding_by_turns: float
    rate_by_turns: float
    #: Mean and percentiles of the rate by the second, as kube-scheduler's benchmark has them;
    #: empty of runs that are too short.
    sampled: Mapping[str, float]
    #: Seconds from the start of the process to the first write.
    start: float
    #: Seconds from the start of the process until pods were bound: percentiles.
    latency: Mapping[str, float]
    #: CPU milliseconds per pod by component, from the first write to the last event.
    cpu: Mapping[str, float]
    #: CPU time of the scheduler per pod, in turns of a fixed loop.
    cpu_turns: float
    #: CPU seconds of the scheduler before the first write.
    start_cpu: float
    peak_rss_mib: float
    writes_per_pod: float
    #: Events that exist at the end; fewer than others write means that some were dropped.
    events_per_pod: float
    deleted_per_pod: float


@dataclass(frozen=True)
class Spread:
    """A figure over several runs."""

    median: float
    low: float
    high: float


def figures(result: Result) -> Figures:
    """Work out the figures of a run."""
    pods, last = len(result.bound), max(result.bound, default=result.finished)
    counted = pods - 1 if result.bound and result.first_write == result.bound[0] else pods
    rate = statistics.share(counted, last - result.first_write)
    with_events = statistics.share(counted, result.finished - result.first_write)
    cpu = {name: statistics.share(result.cpu[name].work * 1e3, pods) for name in COMPONENTS}
    return Figures(
        rate=rate,
        rate_with_events=with_events,
        binding_by_turns=statistics.share(rate * 1e6, power(result)),
        rate_by_turns=statistics.share(with_events * 1e6, power(result)),
        sampled=statistics.summary(statistics.rates(result.bound)),
        start=result.first_write,
        latency=statistics.summary(result.bound),
        cpu=cpu,
        cpu_turns=cpu["scheduler"] / 1e3 * speed(result),
        start_cpu=result.cpu["scheduler"].start,
        peak_rss_mib=result.peak_rss_bytes / 2**20,
        writes_per_pod=statistics.share(result.writes, pods),
        events_per_pod=statistics.share(result.events, pods),
        deleted_per_pod=statistics.share(result.deleted, pods),
    )


def speed(result: Result) -> float:
    """Return how many turns of a fixed loop a processor did in a second of its time."""
    return statistics.share(measure.TURNS, result.loop_seconds)


def power(result: Result) -> float:
    """Return how many turns the machine could do in a second, without what its host has stolen."""
    seconds = result.finished - result.first_write
    stolen = statistics.share(result.stolen_seconds, seconds)
    return speed(result) * (result.environment.cores - stolen)


def busy(result: Result) -> float:
    """Return the share of a core that the scheduler took."""
    seconds = result.finished - result.first_write
    return statistics.share(result.cpu["scheduler"].work, seconds)


def disturbance(result: Result) -> float:
    """Return how many cores others took meanwhile: other processes, the kernel, the host."""
    ours = sum(result.cpu[name].work for name in (*COMPONENTS, "benchmark"))
    seconds = result.finished - result.first_write
    return statistics.share(max(result.cpu["machine"].work - ours, 0.0), seconds)


def spread(values: Iterable[float]) -> Spread:
    """Return median and range of a figure; it must have values."""
    ordered: Sequence[float] = sorted(values)
    return Spread(statistics.middle(ordered), ordered[0], ordered[-1])


def line(result: Result) -> str:
    """Return a run in one line."""
    found = figures(result)
    head = f"{result.contender:<22}{result.run:>3}"
    if not result.pods:
        return f"{head}  {busy(result):6.1%} of a core  {found.peak_rss_mib:5.0f} MiB"
    cpu = " + ".join(f"{found.cpu[name]:.2f}" for name in COMPONENTS)
    return (
        f"{head} {found.rate:7.0f} pods/s, {found.rate_with_events:6.0f} with events,"
        f" first after {found.start:5.2f} s, CPU {cpu} ms/pod,"
        f" {found.writes_per_pod:.2f} writes/pod, {found.events_per_pod:.2f} events/pod,"
        f" {found.peak_rss_mib:.0f} MiB, {found.rate_by_turns:.2f} pods/Mturn,"
        f" others took {disturbance(result):.1f} cores"
    )


def size_of(workload: Workload) -> str:
    """Return the size of a workload for people."""
    nodes = sum(group.count for group in workload.nodes)
    existing = sum(batch.count for batch in workload.existing)
    return f"{nodes} nodes, {existing} pods; {workload.pod_count()} to schedule"
