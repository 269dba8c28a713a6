"""The document of preemption policies: what each allows, has spent and has refused."""

import asyncio
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Final

from scheduler.core.machine import Machine
from scheduler.model.api.owners import namespace_of
from scheduler.model.policies import (
    EVERY_POD,
    Budget,
    BudgetScope,
    DisruptionBudgets,
    ForeignVictims,
    PodSelection,
    PolicyMode,
    PolicyState,
    PreemptionPolicy,
    VictimsFrom,
)
from scheduler.model.rest.preemptions import (
    BoundView,
    BudgetUse,
    BudgetView,
    PoliciesDocument,
    PolicyView,
)
from scheduler.model.times import Seconds
from scheduler.observe.api.history import History
from scheduler.observe.api.lists import slices
from scheduler.observe.api.requests import NameAccess
from scheduler.observe.api.views import stamp
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
#: What fields with fixed values say in words.
_CHOICES: Final[Mapping[ForeignVictims | VictimsFrom, str]] = {
    ForeignVictims.NEVER: "pods of other schedulers are never victims",
    ForeignVictims.NON_LOOPING: (
        "pods of other schedulers are not victims if a preemption between the same two owners was"
        " wasted recently"
    ),
    VictimsFrom.SAME_NAMESPACE: "victims are in the namespace of the preemptor",
    VictimsFrom.SAME_OWNER: "victims have the controller of the preemptor",
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
        visible = await names.visible(keys)
        figures = self._machine.policies.figures(now)
        items = []
        for name, state in sorted(known.items()):
            refusals = figures[name].refusals if name in figures else {}
            items.append(self._view(state, uses[name], refusals, visible))
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
            view = BudgetView("preemptor", limit.max_preemptions, limit.window)
            counted = ledger.counted_by_owner(policy.name)
            budgets.append((view, await _since(counted, now - limit.window)))
        return budgets

    def _view(
        self,
        state: PolicyState,
        uses: list[tuple[BudgetView, dict[str, int]]],
        refusals: Mapping[str, int],
        visible: Container[str],
    ) -> PolicyView:
        policy = state.in_force
        return PolicyView(
            name=state.name,
            generation=state.generation,
            accepted=not state.problem,
            message=state.problem,
            generation_in_force=0 if policy is None else policy.generation,
            stops=policy is not None and policy.stop is not None,
            stop_reason="" if policy is None else policy.stop or "",
            rules=() if policy is None else tuple(rules(policy)),
            budgets=tuple(_spent(budget, spent, visible) for budget, spent in uses),
            refusals=dict(refusals),
            last_refusal=stamp(self._history.last_refusals.get(state.name)),
        )

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


async def _since(counted: Iterable[tuple[str, EventTimes]], moment: Seconds) -> dict[str, int]:
    """Return how often each key was counted since a moment, without those that were not."""
    found: dict[str, int] = {}
    for part in slices(counted, _SCANNED):
        numbers = ((key, times.count_since(moment)) for key, times in part)
        found.update((key, number) for key, number in numbers if number)
        await asyncio.sleep(0)
    return found


def _budget(budget: Budget) -> BudgetView:
    return BudgetView(budget.scope.value.lower(), budget.max_victims, budget.window)


def _spent(budget: BudgetView, spent: Mapping[str, int], visible: Container[str]) -> BudgetView:
    """Return a budget with what is spent of it."""
    everywhere = spent.get(ANY, 0)
    if budget.scope == BudgetScope.CLUSTER.lower():
        return BudgetView(budget.scope, budget.limit, budget.window_seconds, everywhere)
    counts = Counter({key: everywhere + number for key, number in spent.items() if key != ANY})
    shown = (
        BudgetUse(key, number)
        for key, number in counts.most_common()
        if budget.scope == "node" or _namespace(budget.scope, key) in visible
    )
    top = tuple(use for use, _ in zip(shown, range(_TOP), strict=False))
    most = max(counts.values(), default=everywhere)
    return BudgetView(budget.scope, budget.limit, budget.window_seconds, most, top)


def _namespace(scope: str, key: str) -> str:
    """Return the namespace that a key of a budget belongs to; empty for a node and for all."""
    if key == ANY or scope in ("node", "cluster"):
        return ""
    return key if scope == "namespace" else namespace_of(key)


def rules(policy: PreemptionPolicy) -> Iterator[str]:
    """Yield the rules of a policy, one line each."""
    if policy.stop is not None:
        why = f": {policy.stop}" if policy.stop else ""
        yield f"all preemption is stopped, whatever other rules say{why}"
    if policy.mode is PolicyMode.AUDIT:
        yield "audit: it refuses nothing, and counts what it would refuse"
    if policy.preemptors != EVERY_POD:
        yield f"applies to preemptors selected by {_selection(policy.preemptors)}"
    if policy.victims != EVERY_POD:
        yield f"its rules about victims apply to pods selected by {_selection(policy.victims)}"
    if policy.disruption_budgets is DisruptionBudgets.STRICT:
        yield "disruption budgets are never violated"
    elif policy.disruption_budgets is DisruptionBudgets.STRICT_BELOW:
        yield f"disruption budgets are never violated below priority {policy.strict_below}"
    for budget in policy.budgets:
        each = "in the cluster" if budget.scope is BudgetScope.CLUSTER else (
            f"for each {budget.scope.value.lower()}"
        )  # fmt: skip
        yield f"at most {budget.max_victims} victims within {_duration(budget.window)} {each}"
    yield from _limits(policy)


def _limits(policy: PreemptionPolicy) -> Iterator[str]:
    if policy.max_victims_per_preemption is not None:
        yield f"at most {policy.max_victims_per_preemption} victims in one preemption"
    if policy.victim_min_runtime:
        yield f"victims must have run for {_duration(policy.victim_min_runtime)}"
    limit = policy.max_preemptions_per_owner
    if limit is not None:
        within = _duration(limit.window)
        yield f"at most {limit.max_preemptions} preemptions within {within} for pods of one owner"
    if policy.preemptor_delay:
        yield f"preemptors must have waited for {_duration(policy.preemptor_delay)}"
    for choice in (policy.foreign_victims, policy.victims_from):
        if choice in _CHOICES:
            yield _CHOICES[choice]


def _selection(selection: PodSelection) -> str:
    parts = []
    if selection.namespaces is not None:
        parts.append("namespace labels")
    if selection.pods is not None:
        parts.append("pod labels")
    if selection.min_priority is not None:
        parts.append(f"priority of at least {selection.min_priority}")
    if selection.max_priority is not None:
        parts.append(f"priority of at most {selection.max_priority}")
    if selection.priority_classes:
        parts.append(f"priority class {' or '.join(sorted(selection.priority_classes))}")
    return " and ".join(parts)


def _duration(seconds: Seconds) -> str:
    for size, unit in ((3600, "h"), (60, "m")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
