"""The performance targets, and which of them are reached.

Ratios are those of medians of alternating runs on the same machine. The targets are for the rate to
the last binding, which kube-scheduler's own benchmark measures. The rate to the last Event is shown
next to it, because later Events have to be written as well. In brackets are the ratios relative to
the speed of the machine.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from deploy.tools.bench import summary
from deploy.tools.bench.results import Result
from deploy.tools.bench.summary import Figures

__all__ = ["CPU_SHARE", "IDLE", "RATES", "Rate", "table"]

_OURS, _THEIRS, _CEILING = "preemptive-scheduler", "kube-scheduler", "ceiling"

#: CPU time of a plain pod as a share of kube-scheduler's: 0.3 ms of 2.3 ms.
CPU_SHARE: Final = 0.3 / 2.3
#: Milliseconds of CPU time for a pod with one claim.
CLAIM_CPU_MS: Final = 1.0
#: Rate on 15,000 nodes as a share of that on 5,000.
LARGE_SHARE: Final = 0.75
LARGE_RSS_MIB: Final = 2048.0
LARGE_START_SECONDS: Final = 30.0
#: Shares of a core.
IDLE: Final[Mapping[str, float]] = {"Idle": 0.03, "Quiet": 0.005}


class Rate(NamedTuple):
    """The targets for the rate on a workload; `None` for no target."""

    times_theirs: float
    of_ceiling: float | None = None
    #: Whether reaching the share of the ceiling is enough.
    either: bool = False


RATES: Final[Mapping[str, Rate]] = {
    "Basic": Rate(2.3, 0.85),
    "PodAntiAffinity": Rate(6, 0.8),
    "PodAffinity": Rate(12, 0.8),
    "TopologySpreading": Rate(4, 0.8),
    "PreferredPodAntiAffinity": Rate(10, 0.8),
    "RequiredPodAntiAffinityWithNSSelector": Rate(10, 0.75),
    "RequiredPodAffinityWithNSSelector": Rate(10, 0.75),
    "PreemptionBasic": Rate(4, 0.8, either=True),
    "PreemptionLarge": Rate(12, 0.8, either=True),
    "Unschedulable": Rate(2),
    "MixedChurn": Rate(2),
    "EventHandling": Rate(2),
    "ResourceClaimTemplate": Rate(5, 0.75),
}

#: Figures of the runs that count, by workload and contender.
Found = Mapping[str, Mapping[str, Sequence[Figures]]]
Runs = Sequence[Figures] | None

_YES, _NO = "yes", "**no**"


class _Window(NamedTuple):
    """The end of the measured time."""

    title: str
    #: The rate, and the rate relative to the speed of the machine.
    rate: Callable[[Figures], float]
    by_iterations: Callable[[Figures], float]


_WINDOWS: Final = (
    _Window("to the last binding", attrgetter("rate"), attrgetter("binding_by_iterations")),
    _Window("to the last event", attrgetter("rate_with_events"), attrgetter("rate_by_iterations")),
)


class _Ratio(NamedTuple):
    """The ratio of two contenders."""

    rate: float
    by_iterations: float


def table(found: Found, results: Sequence[Result]) -> list[list[str]]:
    """Return the table of the targets that were measured."""
    rows = [
        *_rates(found),
        *_plain(found),
        *_claims(found),
        *_large(found),
        *_idle(results),
    ]
    head = ["what", "wanted", *(each.title for each in _WINDOWS), "reached"]
    return [head, *rows] if rows else []


def _rates(found: Found) -> Iterator[list[str]]:
    for workload, wanted in RATES.items():
        runs = found.get(workload, {})
        ours, theirs, ceiling = (runs.get(each) for each in (_OURS, _THEIRS, _CEILING))
        shares = _ratios(ours, ceiling)
        least = wanted.of_ceiling
        enough = [least is not None and each.rate >= least for each in shares]
        times = _ratios(ours, theirs)
        if times:
            alternative = " or the share of the ceiling" if wanted.either else ""
            yield [
                f"{workload}: times kube-scheduler",
                f"at least {wanted.times_theirs:g}{alternative}",
                *(f"{each.rate:.1f} ({each.by_iterations:.1f})" for each in times),
                _reached(
                    each.rate >= wanted.times_theirs or (wanted.either and enough[place])
                    for place, each in enumerate(times)
                ),
            ]
        if shares and least is not None:
            yield _share(f"{workload}: share of the ceiling", least, shares)


def _ratios(ours: Runs, theirs: Runs) -> list[_Ratio]:
    """Return the ratios in each window; empty if one of both was not run."""
    if not ours or not theirs:
        return []

    def ratio(read: Callable[[Figures], float]) -> float:
        mine, its = (_median([read(run) for run in each]) for each in (ours, theirs))
        return mine / its

    return [_Ratio(ratio(each.rate), ratio(each.by_iterations)) for each in _WINDOWS]


def _reached(answers: Iterable[bool]) -> str:
    """Return the windows in which a target is reached."""
    met = [window.title for window, yes in zip(_WINDOWS, answers, strict=True) if yes]
    if not met:
        return _NO
    return _YES if len(met) == len(_WINDOWS) else f"**only {met[0]}**"


def _plain(found: Found) -> Iterator[list[str]]:
    runs = found.get("Basic", {})
    ours, theirs = runs.get(_OURS), runs.get(_THEIRS)
    if not ours or not theirs:
        return
    cpu, their_cpu = (_median([run.cpu["scheduler"] for run in each]) for each in (ours, theirs))
    loops, their_loops = (_median([run.cpu_iterations for run in each]) for each in (ours, theirs))
    yield _row(
        "Basic: CPU of the scheduler per pod, share of kube-scheduler's",
        f"at most {CPU_SHARE:.0%}",
        f"{cpu / their_cpu:.0%} ({loops / their_loops:.0%}): {cpu:.2f} ms of {their_cpu:.2f} ms",
        cpu <= CPU_SHARE * their_cpu,
    )
    rss, their_rss = (_median([run.peak_rss_mib for run in each]) for each in (ours, theirs))
    yield _row(
        "Basic: peak RSS", f"at most {their_rss:.0f} MiB", f"{rss:.0f} MiB", rss <= their_rss
    )


def _claims(found: Found) -> Iterator[list[str]]:
    ours = found.get("ResourceClaimTemplate", {}).get(_OURS)
    if ours:
        cpu = _median([run.cpu["scheduler"] for run in ours])
        yield _row(
            "ResourceClaimTemplate: CPU of the scheduler per pod",
            f"at most {CLAIM_CPU_MS:g} ms",
            f"{cpu:.2f} ms",
            cpu <= CLAIM_CPU_MS,
        )


def _large(found: Found) -> Iterator[list[str]]:
    ours = found.get("ColdStart", {}).get(_OURS)
    if not ours:
        return
    what = "15,000 nodes, 150,000 pods"
    start = _median([run.start for run in ours])
    rss = _median([run.peak_rss_mib for run in ours])
    yield _row(
        f"{what}: start to first binding",
        f"at most {LARGE_START_SECONDS:g} s",
        f"{start:.1f} s",
        start <= LARGE_START_SECONDS,
    )
    yield _row(
        f"{what}: peak RSS",
        f"at most {LARGE_RSS_MIB:.0f} MiB",
        f"{rss:.0f} MiB",
        rss <= LARGE_RSS_MIB,
    )
    shares = _ratios(ours, found.get("Basic", {}).get(_OURS))
    if shares:
        yield _share(f"{what}: rate, share of that of Basic", LARGE_SHARE, shares)


def _idle(results: Sequence[Result]) -> Iterator[list[str]]:
    for workload, most in IDLE.items():
        shares = [
            summary.busy(run)
            for run in results
            if run.counts() and run.workload == workload and run.contender == _OURS
        ]
        if shares:
            share = _median(shares)
            yield _row(
                f"{workload}: share of a core", f"at most {most:.1%}", f"{share:.1%}", share <= most
            )


def _median(values: Sequence[float]) -> float:
    return summary.spread(values).median


def _share(what: str, least: float, shares: Sequence[_Ratio]) -> list[str]:
    """Return the row of a target for the share of another rate."""
    return [
        what,
        f"at least {least:.0%}",
        *(f"{each.rate:.0%} ({each.by_iterations:.0%})" for each in shares),
        _reached(each.rate >= least for each in shares),
    ]


def _row(what: str, wanted: str, measured: str, reached: object) -> list[str]:
    return [what, wanted, measured, "", _YES if reached else _NO]
