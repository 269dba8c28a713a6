"""What preemption cost in a span of time: the sums over the history.

What a caller may not see is counted as on the page of preemptions: of a preemption of which the
caller may see a pod, the hidden victims count; of others there is only one total, whatever the
span is.
"""

import asyncio
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from scheduler.model import times
from scheduler.model.messages import count, spent
from scheduler.model.rest.common import Impact, OwnerView
from scheduler.model.rest.report import (
    NamespaceReport,
    PolicyReport,
    PreemptorReport,
    ReportDocument,
)
from scheduler.model.times import Seconds
from scheduler.observe.api import lists
from scheduler.observe.api.costs import Cost
from scheduler.observe.api.history import History
from scheduler.observe.api.past_preemption import PastPreemption, PastVictim
from scheduler.observe.api.requests import ApiRequest

__all__ = ["Reports"]

#: The span without parameters.
_USUAL: Final[Seconds] = 24 * 3600.0
#: Preemptions that are looked at in one slice.
_SCANNED: Final = 25
#: How many owners of preemptors are named.
_TOP: Final = 20


@dataclass(slots=True)
class _Sums:
    """What was lost by somebody, or for somebody."""

    cost: Cost = field(default_factory=Cost)
    wasted: Cost = field(default_factory=Cost)
    #: Preemptors, by uid.
    preemptors: set[str] = field(default_factory=set)

    def add(self, cost: Cost, *, wasted: bool) -> None:
        self.cost = self.cost.plus(cost)
        if wasted:
            self.wasted = self.wasted.plus(cost)


class _Report:
    """The sums of one report."""

    def __init__(self, since: Seconds, until: Seconds, visible: Container[str]) -> None:
        self.since, self.until, self.visible = since, until, visible
        self.all = _Sums()
        self.lost_by: dict[str, _Sums] = {}
        self.lost_for: dict[str, _Sums] = {}
        self.owners: dict[tuple[str, OwnerView], _Sums] = {}
        self.violations = 0
        self.hidden = 0

    def add(self, past: PastPreemption) -> None:
        """Count the evictions of a preemption that are in the span."""
        if not any(namespace in self.visible for namespace in past.namespaces):
            self.hidden += 1
            return
        for victim in past.victims:
            if victim.evicted_at is not None and self.since <= victim.evicted_at < self.until:
                self._count(past, victim)

    def _count(self, past: PastPreemption, victim: PastVictim) -> None:
        by, preemptor = self._seen(victim.pod.namespace), past.preemptor
        cost, on = victim.cost, self._seen(preemptor.namespace)
        if not by:
            cost = Cost(victims=1)
        sums = [self.all, self.lost_by.setdefault(by, _Sums())]
        sums.append(self.lost_for.setdefault(on, _Sums()))
        if on:
            owner = preemptor.owner or OwnerView("Pod", preemptor.name)
            sums.append(self.owners.setdefault((on, owner), _Sums()))
        for each in sums:
            each.add(cost, wasted=victim.in_vain)
            each.preemptors.add(preemptor.uid)
        self.violations += victim.violates_pdb

    def _seen(self, namespace: str) -> str:
        """Return a namespace, if the caller may see its pods; empty for all others together."""
        return namespace if namespace in self.visible else ""

    def namespaces(self) -> Iterator[NamespaceReport]:
        """Yield what each namespace lost, and what was lost for it; the hidden ones come last."""
        names = {*self.lost_by, *self.lost_for}
        none = _Sums()

        def rank(name: str) -> tuple[bool, float, int, str]:
            cost = self.lost_by.get(name, none).cost
            return not name, -cost.cpu, -cost.victims, name

        for name in sorted(names, key=rank):
            own, gained = self.lost_by.get(name, none), self.lost_for.get(name, none)
            yield NamespaceReport(
                namespace=name,
                victims=own.cost.victims,
                wasted_victims=own.wasted.victims,
                cost=own.cost.amounts(),
                wasted_cost=own.wasted.amounts(),
                preemptors=len(gained.preemptors),
                evicted=gained.cost.victims,
                # It would tell what hidden pods request, or at whose cost they run.
                caused_cost=gained.cost.amounts() if name else {},
            )

    def preemptors(self) -> Iterator[PreemptorReport]:
        """Yield the owners for whose pods most was lost."""

        def rank(each: tuple[tuple[str, OwnerView], _Sums]) -> tuple[float, int, str, str]:
            (namespace, owner), sums = each
            return -sums.cost.cpu, -sums.cost.victims, namespace, owner.name

        for (namespace, owner), sums in sorted(self.owners.items(), key=rank)[:_TOP]:
            yield PreemptorReport(
                namespace=namespace,
                owner=owner,
                preemptors=len(sums.preemptors),
                victims=sums.cost.victims,
                wasted_victims=sums.wasted.victims,
                cost=sums.cost.amounts(),
            )


class Reports:
    """Makes reports.

    Args:
        history: What was decided.
    """

    def __init__(self, history: History) -> None:
        self._history = history

    async def document(self, request: ApiRequest, now: Seconds) -> ReportDocument:
        """Return the report about a span.

        Raises:
            ValueError: A parameter of the query is malformed.
        """
        since, until = _span(request.query, now)
        history = self._history
        await lists.paced(history.changing(now), 50)
        known = history.known()
        namespaces: set[str] = set()
        for part in lists.slices(known, _SCANNED):
            namespaces.update(*(past.namespaces for past in part if not past.is_new))
            await asyncio.sleep(0)
        report = _Report(since, until, await request.names.visible(namespaces))
        for part in lists.slices(known, _SCANNED):
            for past in part:
                if not past.is_new:
                    report.add(past)
            await asyncio.sleep(0)
        return self._made(report, now)

    def _made(self, report: _Report, now: Seconds) -> ReportDocument:
        history, sums = self._history, report.all
        impact: Impact = "none" if not sums.cost.victims else "evictions"
        refusals = history.refusals
        return ReportDocument(
            verdict=_verdict(report, history.known_since),
            impact="budgets" if report.violations else impact,
            now=times.stamp(now),
            since=times.stamp(report.since),
            until=times.stamp(report.until),
            known_since=times.stamp(history.known_since),
            notes=tuple(_notes(report, history.known_since)),
            preemptors=len(sums.preemptors),
            victims=sums.cost.victims,
            wasted_victims=sums.wasted.victims,
            pdb_violations=report.violations,
            cost=sums.cost.amounts(),
            wasted_cost=sums.wasted.amounts(),
            namespaces=tuple(report.namespaces()),
            top_preemptors=tuple(report.preemptors()),
            policies=tuple(
                PolicyReport(policy, mode, number)
                for (policy, mode), number in refusals.between(report.since, report.until)
            ),
            known_refusals_since=times.stamp(refusals.known_since),
            hidden=report.hidden,
        )


def _span(query: Mapping[str, str], now: Seconds) -> tuple[Seconds, Seconds]:
    """Return the span that a query asks for.

    Raises:
        ValueError: It is malformed, or ends before it begins.
    """
    until = _moment(query, "until", now)
    since = _moment(query, "since", until - _USUAL)
    if since >= until:
        raise ValueError("since must be before until")
    return since, until


def _moment(query: Mapping[str, str], name: str, usual: Seconds) -> Seconds:
    text = query.get(name, "")
    if not text:
        return usual
    moment = times.parse(text[:40])
    if moment is None or not 0 <= moment <= times.LATEST:
        raise ValueError(f"{name} must be a time as 2026-01-02T15:04:05Z")
    return moment


def _verdict(report: _Report, known_since: Seconds) -> str:
    """Return the answer in one sentence."""
    sums = report.all
    victims, preemptors = sums.cost.victims, len(sums.preemptors)
    end = f"{_when(report.until)} UTC"
    if not victims and report.until < known_since:
        return f"It is not known what was evicted between {_when(report.since)} and {end}."
    began = min(max(report.since, known_since), report.until)
    span = f"Between {_when(began)} and {end}"
    if not victims:
        return f"{span}, no pod was evicted."
    spaces = sum(1 for name in report.lost_for if name)
    of = f" of {count(spaces, 'namespace')}" if spaces and "" not in report.lost_for else ""
    were = "pod was" if victims == 1 else "pods were"
    sentence = f"{span}, {victims} {were} evicted for {count(preemptors, 'pod')}{of}"
    # Work is told in one unit.
    unit = "cpu" if sums.cost.cpu else "pods"
    lost, wasted = (each.amounts().get(unit, 0.0) for each in (sums.cost, sums.wasted))
    if lost:
        share = f"{100 * wasted / lost:.1f} %" if wasted else "none"
        sentence += f"; {spent({unit: lost})} of work were lost, {share} of it for nothing"
    if report.violations:
        violated = count(report.violations, "eviction")
        sentence += f"; {violated} violated a disruption budget"
    return f"{sentence}."


def _when(moment: Seconds) -> str:
    return times.stamp(moment)[:16].replace("T", " ")


def _notes(report: _Report, known_since: Seconds) -> Iterator[str]:
    if report.since < known_since:
        yield (
            f"The history begins at {times.stamp(known_since)}: what was evicted before is not"
            " known."
        )
    if report.hidden:
        yield f"{count(report.hidden, 'preemption')} of pods that you may not see do not count."
    if "" in report.lost_by:
        yield "The work of victims that you may not see does not count as lost."
