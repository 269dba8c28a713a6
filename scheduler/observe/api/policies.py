"""The document of preemption policies: what each allows, has spent and has refused."""

import asyncio
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from scheduler.core.machine import Machine
from scheduler.model.api.owners import namespace_of
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    PolicyFigures,
    PolicyMode,
    PolicyState,
    PreemptionPolicy,
)
from scheduler.model.rest.common import PodView
from scheduler.model.rest.preemptions import (
    BoundView,
    BudgetUse,
    BudgetView,
    PoliciesDocument,
    PolicyView,
)
from scheduler.model.times import Seconds
from scheduler.observe.api.history import History, LastRefusal
from scheduler.observe.api.lists import slices
from scheduler.observe.api.policy_words import budget_words, limit_words, named_namespaces, rules
from scheduler.observe.api.requests import NameAccess
from scheduler.observe.api.views import seen_by, stamp
from scheduler.state.preemption.event_times import EventTimes
from scheduler.state.preemption.ledger_entries import ANY
from scheduler.state.preemption.wasted_evictions import (
    MAX_VICTIMS,
    WINDOW,
    WasteScope,
    WasteUse,
)

__all__ = ["PolicyViews"]

#: How many keys of a budget are named.
_TOP: Final = 10
#: Keys of a budget that are looked at in one slice.
_SCANNED: Final = 500
_BOUND_SCOPES: Final[Mapping[WasteScope, str]] = {
    WasteScope.POD: "preemptor",
    WasteScope.OWNER: "owner",
    WasteScope.NAMESPACE: "namespace",
    WasteScope.NODE: "node",
    WasteScope.CLUSTER: "cluster",
}


class PolicyViews:
    """Makes views of policies.

    Args:
        machine: The machine that applies them.
        history: Knows when each has last refused something.
        states: Returns the policies as the API server has them; empty where it has none.
    """

    def __init__(
        self, machine: Machine, history: History, states: Callable[[], Iterable[PolicyState]]
    ) -> None:
        self._machine = machine
        self._history = history
        self._states = states

    async def document(self, names: NameAccess, now: Seconds) -> PoliciesDocument:
        """Return all policies, and the bounds on wasted evictions; without a revision."""
        known = {state.name: state for state in self._states()}
        for policy in self._machine.cluster.policies:
            known.setdefault(policy.name, PolicyState(policy.name, policy.generation, "", policy))
        uses = {name: await self._uses(state.in_force, now) for name, state in known.items()}
        waste = list(self._machine.ledger.wasted_evictions.usage(now))
        await asyncio.sleep(0)
        keys = {
            namespace
            for budgets in uses.values()
            for budget, spent in budgets
            for key in spent
            if (namespace := _namespace(budget.scope, key))
        }
        keys |= {namespace_of(use.owner) for use in waste}
        for state in known.values():
            keys |= set() if state.in_force is None else named_namespaces(state.in_force)
        last = self._history.last_refusals
        keys |= {last[name].pod.namespace for name in known if name in last}
        visible = await names.visible(keys)
        figures = self._machine.policies.figures(now)
        items = []
        for name, state in sorted(known.items()):
            counted = figures.get(name, PolicyFigures())
            items.append(_view(state, uses[name], counted, last.get(name), visible))
            await asyncio.sleep(0)
        return PoliciesDocument(0, tuple(items), tuple(self._bounds(waste, visible)))

    async def _uses(
        self, policy: PreemptionPolicy | None, now: Seconds
    ) -> list[tuple[BudgetView, dict[str, int]]]:
        """Return the budgets of a policy, each with what is spent by key."""
        if policy is None:
            return []
        ledger = self._machine.ledger
        budgets: list[tuple[BudgetView, dict[str, int]]] = []
        for budget in policy.budgets:
            counted = ledger.counted(policy.name, budget.scope)
            budgets.append((_budget(budget), await _since(counted, now - budget.window)))
        limit = policy.max_preemptions_per_owner
        if limit is not None:
            text = limit_words(limit)
            view = BudgetView("preemptor", limit.max_preemptions, limit.window, text=text)
            counted = ledger.counted_by_owner(policy.name)
            budgets.append((view, await _since(counted, now - limit.window)))
        return budgets

    def _bounds(self, waste: Iterable[WasteUse], visible: Container[str]) -> Iterator[BoundView]:
        by_scope: dict[WasteScope, list[WasteUse]] = {}
        for use in waste:
            by_scope.setdefault(use.scope, []).append(use)
        for scope, name in _BOUND_SCOPES.items():
            uses = sorted(by_scope.get(scope, ()), key=lambda use: -use.spent)
            named = ((self._key(use, visible), use.spent) for use in uses)
            top = [BudgetUse(key, spent) for key, spent in named if key and spent][:_TOP]
            yield BoundView(
                scope=name,
                limit=MAX_VICTIMS[scope],
                window_seconds=WINDOW,
                spent=max((use.spent for use in uses), default=0),
                top=tuple(top),
                stopped=sum(use.stopped for use in uses),
            )

    def _key(self, use: WasteUse, visible: Container[str]) -> str:
        """Return by what name a limit is shown; empty if the caller may not know it."""
        if use.scope is WasteScope.NODE:
            return use.key
        if use.scope is WasteScope.CLUSTER or namespace_of(use.owner) not in visible:
            return ""
        if use.scope is WasteScope.POD:
            queued = self._machine.queue.get(use.key)
            return "" if queued is None else queued.pod.key
        return use.key


def _view(
    state: PolicyState,
    uses: list[tuple[BudgetView, dict[str, int]]],
    counted: PolicyFigures,
    last: LastRefusal | None,
    visible: Container[str],
) -> PolicyView:
    policy = state.in_force
    return PolicyView(
        name=state.name,
        generation=state.generation,
        accepted=not state.problem,
        message=state.problem,
        generation_in_force=0 if policy is None else policy.generation,
        mode=(PolicyMode.ENFORCE if policy is None else policy.mode).value,
        stops=policy is not None and policy.stop is not None,
        stop_reason="" if policy is None else policy.stop or "",
        rules=() if policy is None else tuple(rules(policy, visible)),
        budgets=tuple(_spent(budget, spent, visible) for budget, spent in uses),
        refusals=counted.refusals,
        would_refuse=counted.would_refuse,
        last_refusal=stamp(None if last is None else last.moment),
        last_refusal_mode="" if last is None else last.mode.value,
        last_refused=None if last is None else _pod(last, visible),
        changed_at=state.change.at,
        changes=state.change.lines,
        previous_generation=state.change.former,
    )


def _pod(last: LastRefusal, visible: Container[str]) -> PodView:
    pod = last.pod
    return seen_by(PodView(namespace=pod.namespace, name=pod.name, uid=pod.uid), visible)


async def _since(counted: Iterable[tuple[str, EventTimes]], moment: Seconds) -> dict[str, int]:
    """Return how often each key was counted since a moment, without those that were not."""
    found: dict[str, int] = {}
    for part in slices(counted, _SCANNED):
        numbers = ((key, times.count_since(moment)) for key, times in part)
        found.update((key, number) for key, number in numbers if number)
        await asyncio.sleep(0)
    return found


def _budget(budget: Budget) -> BudgetView:
    scope, text = budget.scope.value.lower(), budget_words(budget)
    return BudgetView(scope, budget.max_victims, budget.window, text=text)


def _spent(budget: BudgetView, spent: Mapping[str, int], visible: Container[str]) -> BudgetView:
    """Return a budget with what is spent of it."""
    everywhere = spent.get(ANY, 0)
    if budget.scope == BudgetScope.CLUSTER.lower():
        return replace(budget, spent=everywhere)
    counts = Counter({key: everywhere + number for key, number in spent.items() if key != ANY})
    shown = (
        BudgetUse(key, number)
        for key, number in counts.most_common()
        if budget.scope == "node" or _namespace(budget.scope, key) in visible
    )
    top = tuple(use for use, _ in zip(shown, range(_TOP), strict=False))
    most = max(counts.values(), default=everywhere)
    return replace(budget, spent=most, top=top)


def _namespace(scope: str, key: str) -> str:
    """Return the namespace that a key of a budget belongs to; empty for a node and for all."""
    if key == ANY or scope in ("node", "cluster"):
        return ""
    return key if scope == "namespace" else namespace_of(key)
