"""The document of preemptions, under way and past."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Container, Sequence
from functools import reduce
from typing import Final

from msgspec.structs import replace

from scheduler.core.machine import Machine
from scheduler.model.rest.common import PodView
from scheduler.model.rest.explanations import PodEviction
from scheduler.model.rest.preemptions import (
    PreemptionsDocument,
    PreemptionView,
    Replacement,
    VictimView,
)
from scheduler.model.times import Seconds
from scheduler.observe.api import lists, verdicts
from scheduler.observe.api.costs import Cost
from scheduler.observe.api.history import History
from scheduler.observe.api.past_preemption import PastPreemption, PastVictim
from scheduler.observe.api.preempted_devices import seen_devices
from scheduler.observe.api.requests import (
    ApiRequest,
    NameAccess,
    continue_token,
    continued_number,
    limit_of,
)
from scheduler.observe.api.views import comparison_views, seen_by, stamp

__all__ = ["PreemptionViews"]

#: The name of the list in its `continue`.
_LIST: Final = "preemptions"
_STATES: Final = ("", "active", "past")
#: Preemptions that are looked at in one slice.
_SCANNED: Final = 200


class PreemptionViews:
    """Makes views of preemptions.

    Args:
        machine: The machine that decides.
        history: What it has decided.
    """

    def __init__(self, machine: Machine, history: History) -> None:
        self._machine = machine
        self._history = history

    async def page(self, request: ApiRequest, now: Seconds) -> AsyncGenerator[bytes]:
        """Return preemptions, newest first.

        Of those that the caller may not see there is only one total, whatever the query says.

        Raises:
            ValueError: A parameter of the query is malformed.
        """
        query, history = request.query, self._history
        limit, state = limit_of(query), query.get("state", "")
        if state not in _STATES:
            raise ValueError("state must be active or past")
        below = continued_number(query, _LIST)
        await lists.paced(history.changing(now), 100)
        known, revision = history.newest(now), history.revision(now)
        visible = await request.names.visible(await _namespaces(known))
        shown = await self._shown(known, visible)
        wanted = [
            past
            for past in shown
            if (below is None or past.number < below)
            and (not state or (past.ended_at is None) == (state == "active"))
        ]
        page, remaining = wanted[:limit], max(0, len(wanted) - limit)

        def views(part: Sequence[PastPreemption]) -> list[PreemptionView]:
            return [self.view(past, visible, now) for past in part]

        def rest() -> PreemptionsDocument:
            return PreemptionsDocument(
                revision,
                hidden=len(known) - len(shown),
                continue_=continue_token(_LIST, page[-1].number) if remaining else "",
                remaining=remaining,
            )

        return lists.document(page, views, rest)

    async def changes(
        self, since: int, names: NameAccess, now: Seconds
    ) -> tuple[int, Sequence[bytes]] | None:
        """Return the revision of now, and the preemptions that changed since another, newest first.

        Of changes that the caller may not see there is no trace, not even a number.

        Args:
            since: A revision that this process has returned; 0 for all preemptions.
            names: Which pods the caller may know by name.
            now: The time.

        Returns:
            `None` if the revision is of another process. The document is empty if nothing changed.
        """
        history = self._history
        if since and not history.is_known(since):
            return None
        await lists.paced(history.changing(now), 100)
        known, revision = history.newest(now), history.revision(now)
        changed = [past for past in known if past.revision > since]
        visible = await names.visible(await _namespaces(changed))
        shown = await self._shown(changed, visible)
        if since and not shown:
            return revision, ()
        rest = PreemptionsDocument(revision, hidden=0 if since else len(changed) - len(shown))
        parts = lists.document(
            shown, lambda part: [self.view(past, visible, now) for past in part], lambda: rest
        )
        return revision, (b"".join([part async for part in parts]),)

    async def _shown(
        self, page: Sequence[PastPreemption], visible: Container[str]
    ) -> list[PastPreemption]:
        shown: list[PastPreemption] = []
        for part in lists.slices(page, _SCANNED):
            shown += [past for past in part if self.is_shown(past, visible)]
            await asyncio.sleep(0)
        return shown

    @staticmethod
    def is_shown(past: PastPreemption, visible: Container[str]) -> bool:
        """Return whether a caller may know the preemptor or a victim."""
        return any(namespace in visible for namespace in past.namespaces)

    def view(self, past: PastPreemption, visible: Container[str], now: Seconds) -> PreemptionView:
        """Return the view of a preemption."""
        compared = comparison_views(past.comparison, past.node)
        seen = [victim for victim in past.victims if victim.pod.namespace in visible]
        everything = all(namespace in visible for namespace in past.namespaces)
        violating = [victim for victim in past.victims if victim.violates_pdb]
        view = PreemptionView(
            id=past.name,
            revision=past.revision,
            preemptor=seen_by(past.preemptor, visible),
            node=past.node,
            phase=past.phase.value,
            decided_at=stamp(past.decided_at),
            ended_at=stamp(past.ended_at),
            outcome=past.outcome,
            # The text may name a victim.
            problem=past.problem if everything else "",
            would_refuse=past.would_refuse,
            victims=tuple(self._victim(victim, now) for victim in seen),
            hidden_victims=len(past.victims) - len(seen),
            pdb_violations=len(violating),
            devices=seen_devices(past.devices, past.preemptor.namespace, visible.__contains__),
            criteria=compared.criteria,
            candidates=compared.candidates,
            candidates_total=compared.candidates_total,
            criterion=compared.criterion,
            cost=reduce(Cost.plus, (victim.cost for victim in seen), Cost()).amounts(),
        )
        verdict, impact = verdicts.of_preemption(
            view,
            evicted=sum(victim.lost for victim in past.victims),
            violated=sum(victim.lost or not victim.is_spared for victim in violating),
        )
        return replace(view, verdict=verdict, impact=impact)

    def eviction(
        self, past: PastPreemption, victim: PastVictim, visible: Container[str], now: Seconds
    ) -> PodEviction:
        """Return the view of the eviction of one pod, which the caller may see."""
        return PodEviction(self._victim(victim, now), self.view(past, visible, now))

    async def victims(
        self, wanted: Callable[[PastVictim], bool], now: Seconds
    ) -> list[tuple[PastPreemption, PastVictim]]:
        """Return the victims that a function wants, of the newest preemptions first."""
        await lists.paced(self._history.changing(now), 100)
        found: list[tuple[PastPreemption, PastVictim]] = []
        for part in lists.slices(reversed(self._history.known()), _SCANNED):
            found += [(past, each) for past in part for each in past.victims if wanted(each)]
            await asyncio.sleep(0)
        return found

    async def of_preemptor(self, uid: str) -> PastPreemption | None:
        """Return the last preemption for a pod; `None` if none is known."""
        for part in lists.slices(reversed(self._history.known()), _SCANNED):
            for past in part:
                if past.preemptor_uid == uid:
                    return past
            await asyncio.sleep(0)
        return None

    def _victim(self, victim: PastVictim, now: Seconds) -> VictimView:
        replacement = victim.replacement
        return VictimView(
            pod=victim.pod,
            ran_seconds=round(victim.ran_seconds(now), 1),
            state=victim.state,
            violates_pdb=victim.violates_pdb,
            wasted=victim.in_vain,
            budgets=victim.budgets,
            evicted_at=stamp(victim.evicted_at),
            replacement=self._replacement(replacement) if replacement else None,
        )

    def _replacement(self, pod: PodView) -> Replacement:
        machine = self._machine
        node, queued = machine.cluster.node_of(pod.uid) or "", machine.queue.get(pod.uid)
        condition = None if queued is None else queued.reported_condition
        if not node and queued is None:
            return Replacement(pod, "", verdicts.NEITHER)
        message = "" if condition is None or node else condition[1]
        return Replacement(pod, node, message)


async def _namespaces(page: Sequence[PastPreemption]) -> frozenset[str]:
    found: set[str] = set()
    for part in lists.slices(page, _SCANNED):
        found.update(*(past.namespaces for past in part))
        await asyncio.sleep(0)
    return frozenset(found)
