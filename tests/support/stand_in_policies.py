"""A document of preemption policies as the scheduler serves it, for tests of clients.

One policy protects pods, one has budgets, and the newest generation of one is refused.
"""

from typing import Final

from scheduler.config.policies import PolicyError, read
from scheduler.model import times
from scheduler.model.policies import PolicyMode, PreemptionPolicy
from scheduler.model.policy_vetoes import Rule, RuleVeto
from scheduler.model.rest.common import PodView
from scheduler.model.rest.preemptions import (
    BoundView,
    BudgetUse,
    BudgetView,
    PoliciesDocument,
    PolicyView,
)
from scheduler.observe.api.policy_words import budget_words, rules
from scheduler.state.preemption.wasted_evictions import MAX_VICTIMS, WINDOW, WasteScope

__all__ = ["DATABASES", "document", "veto"]

#: Protects databases that have started lately.
DATABASES: Final = read(
    {
        "metadata": {"name": "protect-databases"},
        "spec": {
            "victims": {"podSelector": {"matchLabels": {"app": "database"}}},
            "victimMinRuntime": "10m",
            "foreignVictims": "Never",
        },
    }
)
NIGHT: Final = read(
    {
        "metadata": {"name": "night-budget"},
        "spec": {
            "mode": "Audit",
            "budgets": [
                {"scope": "Namespace", "maxVictims": 20, "window": "1h"},
                {"scope": "Cluster", "maxVictims": 200, "window": "1h"},
            ],
        },
    }
)
TEAM: Final = read(
    {
        "metadata": {"name": "team-b"},
        "spec": {
            "preemptors": {"namespaceSelector": {"matchLabels": {"team": "b"}}},
            "budgets": [{"scope": "Owner", "maxVictims": 5, "window": "30m"}],
        },
    }
)


def veto(now: float) -> str:
    """Return why a database that has started lately is not evicted."""
    reason = "victims have run for less than 10m"
    refusal = RuleVeto(
        DATABASES.name, Rule.MIN_RUNTIME, PolicyMode.ENFORCE, reason, until=now + 120
    )
    return str(refusal)


def _refused() -> str:
    """Return why a policy is refused whose field is misspelt."""
    try:
        read({"metadata": {"name": TEAM.name}, "spec": {"maxVictimPerPreemption": 5}})
    except PolicyError as error:
        return str(error)
    raise AssertionError("the policy is valid")


def _rules(policy: PreemptionPolicy) -> tuple[str, ...]:
    return tuple(rules(policy, ()))


def _budget(policy: PreemptionPolicy, number: int, spent: int, *top: BudgetUse) -> BudgetView:
    budget = policy.budgets[number]
    scope, text = budget.scope.value.lower(), budget_words(budget)
    return BudgetView(scope, budget.max_victims, budget.window, spent, top, text)


def document(now: float) -> PoliciesDocument:
    """Return the document of policies at a moment."""
    top = (BudgetUse("batch", 18), BudgetUse("team-a", 4))
    owner = BudgetUse("ReplicaSet/team-b/web", 5)
    batch = BudgetUse("batch", 256)
    return PoliciesDocument(
        revision=1,
        items=(
            PolicyView(
                DATABASES.name, 3, generation_in_force=3, rules=_rules(DATABASES),
                refusals={"victimMinRuntime": 12, "foreignVictims": 3},
                last_refusal=times.stamp(now - 95),
                last_refused=PodView(namespace="prod", name="api-0", uid="uid-api-0"),
                changed_at=times.stamp(now - 7_200), previous_generation=2,
                changes=("victimMinRuntime: 1h \u2192 10m", "foreignVictims: Never is new"),
            ),
            PolicyView(
                NIGHT.name, 1, generation_in_force=1, mode="Audit", rules=_rules(NIGHT),
                would_refuse={"budgets": 4}, last_refusal=times.stamp(now - 400),
                last_refusal_mode="Audit",
                last_refused=PodView(namespace="batch", name="etl-1", uid="uid-etl-1"),
                budgets=(_budget(NIGHT, 0, 18, *top), _budget(NIGHT, 1, 22)),
            ),
            PolicyView(
                TEAM.name, 5, accepted=False, generation_in_force=4, message=_refused(),
                rules=_rules(TEAM), budgets=(_budget(TEAM, 0, 5, owner),),
                refusals={"budgets": 7}, last_refusal=times.stamp(now - 11),
                last_refused=PodView(hidden=True, priority=100), previous_generation=4,
            ),
        ),
        bounds=(
            _bound("preemptor", WasteScope.POD, 2),
            _bound("owner", WasteScope.OWNER, 3),
            _bound("namespace", WasteScope.NAMESPACE, 256, batch),
            _bound("node", WasteScope.NODE, 1),
            _bound("cluster", WasteScope.CLUSTER, 290),
        ),
    )  # fmt: skip


def _bound(name: str, scope: WasteScope, spent: int, *top: BudgetUse) -> BoundView:
    limit = MAX_VICTIMS[scope]
    return BoundView(name, limit, WINDOW, spent, top, stopped=int(spent >= limit))
