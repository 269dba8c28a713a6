"""A document of preemption policies as the scheduler serves it, for tests of clients.

One policy protects pods, one has budgets, and the newest generation of one is refused.
"""

from typing import Final

from scheduler.config.policies import PolicyError, read
from scheduler.model import times
from scheduler.model.policies import PolicyMode, PreemptionPolicy
from scheduler.model.policy_vetoes import Rule, RuleVeto
from scheduler.model.rest.preemptions import (
    BoundView,
    BudgetUse,
    BudgetView,
    PoliciesDocument,
    PolicyView,
)
from scheduler.observe.api.policies import rules
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
            "budgets": [
                {"scope": "Namespace", "maxVictims": 20, "window": "1h"},
                {"scope": "Cluster", "maxVictims": 200, "window": "1h"},
            ]
        },
    }
)
TEAM: Final = read(
    {
        "metadata": {"name": "team-b"},
        "spec": {"budgets": [{"scope": "Owner", "maxVictims": 5, "window": "30m"}]},
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
    return tuple(rules(policy))


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
            ),
            PolicyView(
                NIGHT.name, 1, generation_in_force=1, rules=_rules(NIGHT),
                budgets=(BudgetView("namespace", 20, 3_600.0, 18, top),
                         BudgetView("cluster", 200, 3_600.0, 22)),
            ),
            PolicyView(
                TEAM.name, 5, accepted=False, generation_in_force=4, message=_refused(),
                rules=_rules(TEAM), budgets=(BudgetView("owner", 5, 1_800.0, 5, (owner,)),),
                refusals={"budgets": 7}, last_refusal=times.stamp(now - 11),
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
