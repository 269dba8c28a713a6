"""Reads and validates `PreemptionPolicy` objects, beyond what the schema of the CRD can express.

Everything is checked, including what the schema checks: `plan` reads files that no API server has
validated, and an object may be older than the schema.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar

from scheduler.config import document, durations, names
from scheduler.config.document import Scalar, Sequence, Tree
from scheduler.config.field_errors import ConfigError, ErrorReport, Problem, child
from scheduler.config.policy_spec import (
    POLICY,
    LimitSpec,
    PolicyBudgetSpec,
    PolicySpec,
    SelectionSpec,
)
from scheduler.model.api.objects import LabelSelector, Requirement
from scheduler.model.api.selectors import Selector, SelectorError
from scheduler.model.policies import (
    Budget,
    BudgetScope,
    DisruptionBudgets,
    ForeignVictims,
    PodSelection,
    PolicyMode,
    PreemptionLimit,
    PreemptionPolicy,
    VictimsFrom,
)

__all__ = [
    "API_VERSION",
    "KIND",
    "MAX_BUDGETS",
    "MAX_CLASSES",
    "MAX_REASON",
    "MAX_SECONDS",
    "MAX_VICTIMS",
    "PolicyError",
    "read",
    "stop_reason",
]

API_VERSION: Final = "preemptive-scheduler.io/v1alpha1"
KIND: Final = "PreemptionPolicy"

#: The longest window, thirty days: counted events are kept for as long, also across restarts.
MAX_SECONDS: Final = 30 * 24 * 3600.0
#: The largest number of victims; a larger one is no real limit, and each counted victim is kept.
MAX_VICTIMS: Final = 10_000
MAX_BUDGETS: Final = 16
MAX_CLASSES: Final = 64
#: Characters of the reason of a stop; conditions and Events of all pods that it holds have it.
MAX_REASON: Final = 256

_PRIORITIES: Final = range(-(2**31), 2**31)
_WordT = TypeVar("_WordT", bound=StrEnum)


class PolicyError(Exception):
    """An invalid policy; `problems` holds all errors, each with its path."""

    def __init__(self, name: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(name, problems)
        self.name = name
        self.problems = problems

    def __str__(self) -> str:
        return "; ".join(map(str, self.problems))


def read(policy: Mapping[str, Any]) -> PreemptionPolicy:
    """Return the policy that an API object describes.

    Raises:
        PolicyError: The policy is invalid.
    """
    metadata = policy.get("metadata")
    identity = metadata if isinstance(metadata, Mapping) else {}
    name = str(identity.get("name") or "")
    report = ErrorReport(name)
    try:
        frozen = _frozen(POLICY.read(_tree(policy), "", report).spec, identity, report)
        report.finish()
    except ConfigError as error:
        raise PolicyError(name, error.problems) from error
    except RecursionError as error:
        raise PolicyError(name, (Problem("", None, "nested too deeply"),)) from error
    return frozen


def stop_reason(stop: object, reason: object) -> str | None:
    """Return why all preemption is stopped, in one line; `None` where it is not.

    No reason is refused: a mistake in it must not keep a stop from being in force.

    Args:
        stop: `spec.stop` of a policy.
        reason: `spec.stopReason`.
    """
    if stop is not True:
        return None
    words = reason.split() if isinstance(reason, str) else []
    return "".join(filter(str.isprintable, " ".join(words)))[:MAX_REASON]


def _tree(value: object) -> Tree:
    if isinstance(value, Mapping):
        entries = {str(key): _tree(entry) for key, entry in value.items()}
        return document.Mapping(entries, None, dict.fromkeys(entries))
    if isinstance(value, list | tuple):
        return Sequence(tuple(map(_tree, value)), None)
    if value is None or isinstance(value, bool | int | float | str):
        return Scalar(value, None)
    return Scalar(str(value), None)


def _frozen(
    spec: PolicySpec | None, identity: Mapping[str, Any], report: ErrorReport
) -> PreemptionPolicy:
    if spec is None:
        report.required("spec")
        spec = PolicySpec()
    generation = identity.get("generation")
    policy = PreemptionPolicy(
        name=str(identity.get("name") or ""),
        uid=str(identity.get("uid") or ""),
        generation=generation if isinstance(generation, int) else 0,
        mode=_word(PolicyMode, spec.mode, "spec.mode", report),
        preemptors=_selection(spec.preemptors, "spec.preemptors", report),
        victims=_selection(spec.victims, "spec.victims", report),
        disruption_budgets=_word(
            DisruptionBudgets, spec.disruption_budgets, "spec.podDisruptionBudgets", report
        ),
        strict_below=_strict_below(spec, report),
        budgets=_budgets(spec.budgets, report),
        max_victims_per_preemption=_most_victims(spec, report),
        victim_min_runtime=_delay(spec.victim_min_runtime_seconds, "spec.victimMinRuntime", report),
        max_preemptions_per_owner=_limit(spec.max_preemptions_per_owner, report),
        preemptor_delay=_delay(spec.preemptor_delay_seconds, "spec.preemptorDelay", report),
        foreign_victims=_word(ForeignVictims, spec.foreign_victims, "spec.foreignVictims", report),
        victims_from=_word(VictimsFrom, spec.victims_from, "spec.victimsFrom", report),
        stop=stop_reason(spec.stop, spec.stop_reason),
    )
    _check_ranks(spec, report)
    if len(spec.stop_reason) > MAX_REASON:
        detail = f"may not be more than {MAX_REASON} characters"
        report.invalid("spec.stopReason", f"{spec.stop_reason[:MAX_REASON]}…", detail)
    return policy


# --- Words and numbers ------------------------------------------------------------------------


def _word(words: type[_WordT], text: str, path: str, report: ErrorReport) -> _WordT:
    if text in set(words):
        return words(text)
    report.unsupported(path, text, words)
    return next(iter(words))


def _priority(value: int | None, path: str, report: ErrorReport) -> None:
    if value is not None and value not in _PRIORITIES:
        report.invalid(path, value, "must be a 32-bit integer")


def _count(value: int | None, path: str, report: ErrorReport) -> int:
    if value is None:
        if report.is_whole(path):
            report.required(path)
        return 0
    if not 0 <= value <= MAX_VICTIMS:
        report.invalid(path, value, f"not in valid range [0, {MAX_VICTIMS}]")
    return value


def _window(seconds: float | None, path: str, report: ErrorReport) -> float:
    if seconds is None:
        if report.is_whole(path):
            report.required(path, 'a duration like "30m" or "24h"')
        return 0.0
    if seconds < 1:
        report.invalid(path, durations.text(seconds), "must be at least 1 second")
    _check_length(seconds, path, report)
    return seconds


def _delay(seconds: float, path: str, report: ErrorReport) -> float:
    if seconds < 0:
        report.invalid(path, durations.text(seconds), "must not be negative")
    _check_length(seconds, path, report)
    return seconds


def _check_length(seconds: float, path: str, report: ErrorReport) -> None:
    if seconds > MAX_SECONDS:
        longest = f"{MAX_SECONDS / 3600:g}h"
        report.invalid(path, durations.text(seconds), f"must be at most {longest}")


# --- Rules ------------------------------------------------------------------------------------


def _strict_below(spec: PolicySpec, report: ErrorReport) -> int:
    path = "spec.strictBelowPriority"
    priority, wanted = spec.strict_below_priority, spec.disruption_budgets
    if wanted == DisruptionBudgets.STRICT_BELOW and priority is None and report.is_whole(path):
        report.required(path, "podDisruptionBudgets is StrictBelow")
    if wanted != DisruptionBudgets.STRICT_BELOW and priority is not None:
        report.forbidden(path, f"podDisruptionBudgets is {wanted}, not StrictBelow")
    _priority(priority, path, report)
    return priority or 0


def _most_victims(spec: PolicySpec, report: ErrorReport) -> int | None:
    most = spec.max_victims_per_preemption
    return None if most is None else _count(most, "spec.maxVictimsPerPreemption", report)


def _budgets(specs: tuple[PolicyBudgetSpec, ...], report: ErrorReport) -> tuple[Budget, ...]:
    if len(specs) > MAX_BUDGETS:
        report.invalid("spec.budgets", len(specs), f"must have at most {MAX_BUDGETS} items")
    budgets: list[Budget] = []
    seen: set[tuple[BudgetScope, float]] = set()
    for i, spec in enumerate(specs):
        path = f"spec.budgets[{i}]"
        budget = Budget(
            max_victims=_count(spec.max_victims, f"{path}.maxVictims", report),
            window=_window(spec.window_seconds, f"{path}.window", report),
            scope=_word(BudgetScope, spec.scope, f"{path}.scope", report),
        )
        if (budget.scope, budget.window) in seen and report.is_whole(path):
            shown = f"{budget.scope} within {durations.text(budget.window)}"
            report.duplicate(path, shown, "another budget has the same scope and window")
        seen.add((budget.scope, budget.window))
        budgets.append(budget)
    return tuple(budgets)


def _limit(spec: LimitSpec | None, report: ErrorReport) -> PreemptionLimit | None:
    if spec is None:
        return None
    path = "spec.maxPreemptionsPerOwner"
    return PreemptionLimit(
        max_preemptions=_count(spec.max_preemptions, f"{path}.maxPreemptions", report),
        window=_window(spec.window_seconds, f"{path}.window", report),
    )


def _check_ranks(spec: PolicySpec, report: ErrorReport) -> None:
    """Report victims that no preemptor can have: they must have a lower priority."""
    lowest, highest = spec.victims.min_priority, spec.preemptors.max_priority
    if lowest is not None and highest is not None and lowest >= highest:
        detail = f"must be less than spec.preemptors.maxPriority, which is {highest}"
        report.invalid("spec.victims.minPriority", lowest, detail)


# --- Selections -------------------------------------------------------------------------------


def _selection(spec: SelectionSpec, path: str, report: ErrorReport) -> PodSelection:
    lowest, highest = spec.min_priority, spec.max_priority
    _priority(lowest, f"{path}.minPriority", report)
    _priority(highest, f"{path}.maxPriority", report)
    if lowest is not None and highest is not None and lowest > highest:
        detail = f"must not be greater than maxPriority, which is {highest}"
        report.invalid(f"{path}.minPriority", lowest, detail)
    return PodSelection(
        namespaces=_selector(spec.namespace_selector, f"{path}.namespaceSelector", report),
        pods=_selector(spec.pod_selector, f"{path}.podSelector", report),
        min_priority=lowest,
        max_priority=highest,
        priority_classes=_classes(spec.priority_class_names, path, report),
    )


def _classes(classes: tuple[str, ...], path: str, report: ErrorReport) -> frozenset[str]:
    path = f"{path}.priorityClassNames"
    if len(classes) > MAX_CLASSES:
        report.invalid(path, len(classes), f"must have at most {MAX_CLASSES} items")
    for i, name in enumerate(classes):
        if name in classes[:i]:
            report.duplicate(f"{path}[{i}]", name)
        for detail in names.subdomain(name):
            report.invalid(f"{path}[{i}]", name, detail)
    return frozenset(classes)


def _selector(selector: LabelSelector | None, path: str, report: ErrorReport) -> Selector | None:
    if selector is None:
        return None
    for key, value in selector.match_labels.items():
        _check(Requirement(key, "In", [value]), child(f"{path}.matchLabels", key), report)
    for i, expression in enumerate(selector.match_expressions):
        _check(expression, f"{path}.matchExpressions[{i}]", report)
    try:
        return Selector.of(selector)
    except SelectorError:
        return None


def _check(requirement: Requirement, path: str, report: ErrorReport) -> None:
    try:
        Selector.of(LabelSelector(match_expressions=[requirement]))
    except SelectorError as error:
        report.say(path, f"Invalid value: {error}")
