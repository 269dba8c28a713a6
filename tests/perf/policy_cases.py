"""Refused preemptions: policies, evictions in flight and wasted evictions, at 30,000 pods.

Before each decision something changes that all refusals depend on, so that none is remembered: as
in a busy cluster, each attempt evaluates every node.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from scheduler.core.machine import Machine
from scheduler.model.api.objects import LabelSelector, Pod, PodDisruptionBudget, Requirement
from scheduler.model.api.selectors import Selector
from scheduler.model.decisions import Unschedulable
from scheduler.model.events import BudgetObserved, PodObserved, PolicyObserved
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    DisruptionBudgets,
    PodSelection,
    PreemptionPolicy,
)
from scheduler.state.preemption.ledger import MAX_COUNTS, EvictionEntry
from tests.perf.core_cases import Case, machine

__all__ = ["CASES"]

NODES: Final = 5000
PODS: Final = 6
APPS: Final = 100
OWNERS: Final = 1000
NOW: Final = 10_000.0
#: So many policies are accepted at once.
POLICIES: Final = 64


def running_pod(index: int) -> Pod:
    """Return one of six pods on a node, of one of many applications and owners."""
    owner = {"kind": "StatefulSet", "name": f"set-{index % OWNERS}", "controller": True}
    metadata = {
        "name": f"low-{index}", "namespace": "default", "uid": f"low-{index}",
        "labels": {"app": f"app-{index % APPS}"}, "ownerReferences": [owner],
    }  # fmt: skip
    return _pod(metadata, "5", {"nodeName": f"node-{index // PODS}", "priority": 0})


def _pod(metadata: dict[str, Any], cpu: str, spec: dict[str, Any]) -> Pod:
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    runs = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    body = {
        "metadata": metadata,
        "spec": {"schedulerName": "preemptive-scheduler", "containers": [container], **spec},
        "status": runs if "nodeName" in spec else {"phase": "Pending"},
    }
    return msgspec.convert(body, Pod)


def wanting(serial: int) -> Pod:
    """Return a replica that needs most of a node."""
    owner = {"kind": "Job", "name": "big", "controller": True}
    metadata = {
        "name": f"high-{serial}", "namespace": "default", "uid": f"high-{serial}",
        "ownerReferences": [owner],
    }  # fmt: skip
    return _pod(metadata, "20", {"priority": 10})


def budget(app: int, allowed: int) -> PodDisruptionBudget:
    """Return the disruption budget of an application."""
    body = {
        "metadata": {"name": f"budget-{app}", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": f"app-{app}"}}},
        "status": {"disruptionsAllowed": allowed},
    }
    return msgspec.convert(body, PodDisruptionBudget)


def refusing(
    prepare: Callable[[Machine], None], change: Callable[[Machine, int], None], *, budgets: int
) -> Callable[[int], None]:
    """Return what refuses to preempt on all nodes, after a change each time."""
    made = machine(NODES)
    for app in range(budgets):
        made.observe(BudgetObserved(budget(app, 0)), NOW)
    for index in range(NODES * PODS):
        made.observe(PodObserved(running_pod(index)), NOW)
    prepare(made)
    serial = itertools.count()

    def decide(count: int) -> None:
        for number in itertools.islice(serial, count):
            change(made, number)
            made.observe(PodObserved(wanting(number)), NOW)
            attempt = made.step(NOW)
            assert attempt is not None
            assert isinstance(attempt.decision, Unschedulable), attempt.decision
            assert f"{NODES} " in attempt.decision.message.partition("preemption: ")[2]

    return decide


def in_flight(made: Machine) -> None:
    """Let a policy be strict, and 400 evictions be in flight."""
    strict = DisruptionBudgets.STRICT
    made.observe(PolicyObserved(PreemptionPolicy("p", disruption_budgets=strict)), NOW)
    terminating = [made.cluster.find_pod(f"low-{index}") for index in range(400)]
    preemptor = wanting(-1)
    made.cluster.nominate(preemptor, "node-0")
    made.policies.in_flight.add(preemptor, filter(None, terminating), NOW)


def another_status(made: Machine, number: int) -> None:
    """Let the status of a disruption budget change, which allows nothing still."""
    made.observe(BudgetObserved(budget(number % APPS, -number)), NOW)


def policies(made: Machine, *, many: int, selects: bool) -> None:
    """Let many policies count victims, and each owner have had some."""
    every = tuple(Budget(1, 3600.0, scope) for scope in BudgetScope if scope is not _CLUSTER)
    for number in range(many):
        victims = PodSelection(min_priority=-number - 1) if selects else PodSelection()
        policy = PreemptionPolicy(
            f"p{number}", budgets=every, max_victims_per_preemption=2, victims=victims
        )
        made.observe(PolicyObserved(policy), NOW)
    names = frozenset(f"p{number}" for number in range(many))
    for number in range(4096 // many):
        whose = f"StatefulSet/default/set-{number % OWNERS}"
        made.ledger.count_victim(
            EvictionEntry(NOW - number, f"e{number}", "default", whose, f"node-{number}", names)
        )


_CLUSTER: Final = BudgetScope.CLUSTER


def another_victim(made: Machine, number: int) -> None:
    """Let the ledger count one more."""
    made.ledger.count_victim(
        EvictionEntry(NOW, f"more{number}", "default", "Pod/default/x", "n", frozenset({"p0"}))
    )


def unlike_policies(made: Machine) -> None:
    """Let as many policies as there may be count victims of their own, in a full ledger."""
    scopes = [scope for scope in BudgetScope if scope is not _CLUSTER]
    every = tuple(Budget(1, 3600.0 - place, scope) for place, scope in enumerate(scopes))
    for number in range(POLICIES):
        others = Requirement("app", "NotIn", [f"app-{number}"])
        victims = PodSelection(pods=Selector.of(LabelSelector(match_expressions=[others])))
        policy = PreemptionPolicy(
            f"p{number}", budgets=every, max_victims_per_preemption=2, victims=victims
        )
        made.observe(PolicyObserved(policy), NOW)
    for number in range(MAX_COUNTS // POLICIES - 20):
        names = frozenset(f"p{each}" for each in range(POLICIES) if (number + each) % 63)
        whose, where = f"StatefulSet/default/set-{number}", f"node-{number * 9}"
        made.ledger.count_victim(
            EvictionEntry(NOW - number, f"e{number}", "default", whose, where, names)
        )


def loops(made: Machine) -> None:
    """Let preemption between one owner and all others be stopped."""
    victims = [f"StatefulSet/default/set-{number}" for number in range(OWNERS)]
    for _ in range(5):
        made.ledger.record_failure("Job/default/big", "gone", victims, NOW - 1, lost=True)


def another_loop(made: Machine, number: int) -> None:
    """Remember one more, of others."""
    made.ledger.record_failure("Job/default/x", "gone", [f"Job/default/{number}"], NOW, lost=True)


def _case(
    prepare: Callable[[Machine], None],
    change: Callable[[Machine, int], None],
    budgets: int = 0,
) -> Case:
    return Case(lambda: refusing(prepare, change, budgets=budgets), 1)


CASES: Final[Mapping[str, Case]] = {
    "strict, 100 budgets, 400 in flight, 30000 pods": _case(in_flight, another_status, APPS),
    "5 policies, 30000 pods": _case(
        lambda made: policies(made, many=5, selects=False), another_victim
    ),
    "64 policies, 30000 pods": _case(
        lambda made: policies(made, many=POLICIES, selects=True), another_victim
    ),
    "64 policies of other victims each and a full ledger, 30000 pods": _case(
        unlike_policies, another_victim
    ),
    "1000 loops, 30000 pods": _case(loops, another_loop),
}
