"""Preemption policies in words: whom each limits, and by which rules.

Names and labels are from a policy, so their number in a text is limited. A namespace that a caller
may not see is only counted.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Final

from scheduler.model.api.objects import Requirement
from scheduler.model.messages import count
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    DisruptionBudgets,
    ForeignVictims,
    PodSelection,
    PreemptionLimit,
    PreemptionPolicy,
    VictimsFrom,
)
from scheduler.model.times import Seconds

__all__ = ["budget_words", "limit_words", "named_namespaces", "rules"]

#: The label that each namespace has, with its name.
#: Source: api v0.36.3 core/v1.LabelMetadataName.
_NAME_LABEL: Final = "kubernetes.io/metadata.name"
#: How many requirements of a selection are shown, and how many values of each.
_SHOWN: Final = 4
#: What shares a budget. "In total" is for all preemptors that the policy selects.
_SHARED: Final[Mapping[BudgetScope, str]] = {
    BudgetScope.CLUSTER: "in total",
    BudgetScope.NAMESPACE: "for each namespace of victims",
    BudgetScope.OWNER: "for each owner of victims",
    BudgetScope.NODE: "for each node",
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


def named_namespaces(policy: PreemptionPolicy) -> set[str]:
    """Return the namespaces that the rules of a policy name in words."""
    return {
        value
        for selection in (policy.preemptors, policy.victims)
        if selection.namespaces is not None
        for requirement in selection.namespaces.requirements[:_SHOWN]
        if requirement.key == _NAME_LABEL
        for value in requirement.values[:_SHOWN]
    }


def rules(policy: PreemptionPolicy, visible: Container[str]) -> Iterator[str]:
    """Yield the rules of a policy but its budgets, one line each; whom it limits comes first.

    Args:
        policy: The policy.
        visible: The namespaces that the caller may see, of `named_namespaces`.
    """
    if policy.stop is not None:
        why = f": {policy.stop}" if policy.stop else ""
        yield f"all preemption is stopped, whatever other rules say{why}"
    for role, selection in (("preemptors", policy.preemptors), ("victims", policy.victims)):
        if selected := ", ".join(_selected(selection, visible)):
            yield f"{role}: {selected}"
    yield from _protections(policy)
    if policy.max_victims_per_preemption is not None:
        yield f"at most {count(policy.max_victims_per_preemption, 'victim')} per preemption"
    if policy.preemptor_delay:
        yield f"preemptors must have waited for {_duration(policy.preemptor_delay)}"


def _protections(policy: PreemptionPolicy) -> Iterator[str]:
    """Yield the rules that protect single pods."""
    if policy.disruption_budgets is DisruptionBudgets.STRICT:
        yield "disruption budgets are never violated"
    elif policy.disruption_budgets is DisruptionBudgets.STRICT_BELOW:
        yield f"disruption budgets are never violated below priority {policy.strict_below}"
    if policy.victim_min_runtime:
        yield f"victims must have run for {_duration(policy.victim_min_runtime)}"
    for choice in (policy.foreign_victims, policy.victims_from):
        if choice in _CHOICES:
            yield _CHOICES[choice]


def budget_words(budget: Budget) -> str:
    """Return what a budget of victims allows."""
    within = f"within {_duration(budget.window)} {_SHARED[budget.scope]}"
    return f"at most {count(budget.max_victims, 'victim')} {within}"


def limit_words(limit: PreemptionLimit) -> str:
    """Return what a limit of preemptions allows."""
    within = f"within {_duration(limit.window)} for each owner of preemptors"
    return f"at most {count(limit.max_preemptions, 'preemption')} {within}"


def _selected(selection: PodSelection, visible: Container[str]) -> Iterator[str]:
    """Yield the criteria of a selection; none where it selects every pod."""
    for kind, selector in (("namespace", selection.namespaces), ("pod", selection.pods)):
        requirements = () if selector is None else selector.requirements
        for requirement in requirements[:_SHOWN]:
            named = kind == "namespace" and requirement.key == _NAME_LABEL
            yield f"{kind} {_named(requirement, visible) if named else _labelled(requirement)}"
        if len(requirements) > _SHOWN:
            yield f"{len(requirements) - _SHOWN} more requirements"
    yield from _ranks(selection)


def _ranks(selection: PodSelection) -> Iterator[str]:
    """Yield the criteria about priorities."""
    lowest, highest = selection.min_priority, selection.max_priority
    if lowest is not None and highest is not None:
        yield f"priority {lowest} to {highest}"
    elif lowest is not None:
        yield f"priority {lowest} or higher"
    elif highest is not None:
        yield f"priority {highest} or lower"
    if selection.priority_classes:
        yield f"priority class {_values(sorted(selection.priority_classes), ' or ')}"


def _named(requirement: Requirement, visible: Container[str]) -> str:
    """Return a requirement about the names of namespaces."""
    if requirement.operator not in ("In", "NotIn"):
        return _labelled(requirement)
    values = [value if value in visible else "(hidden)" for value in requirement.values[:_SHOWN]]
    words = _values([*values, *requirement.values[_SHOWN:]], " or ")
    return words if requirement.operator == "In" else f"not {words}"


def _labelled(requirement: Requirement) -> str:
    """Return a requirement about a label, as `kubectl get --selector` takes it."""
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case "In" if len(values) == 1:
            return f"{key}={values[0]}"
        case "In" | "NotIn":
            word = "in" if requirement.operator == "In" else "notin"
            return f"{key} {word} ({_values(values, ', ')})"
        case "Exists":
            return key
        case _:
            return f"!{key}"


def _values(values: Sequence[str], between: str) -> str:
    more = len(values) - _SHOWN
    return between.join((*values[:_SHOWN], *([f"{more} more"] if more > 0 else [])))


def _duration(seconds: Seconds) -> str:
    for size, unit in ((3600, "h"), (60, "m")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:g}{unit}"
    return f"{seconds:g}s"
