"""The fields of a preemption policy in the API, before validation.

Group `preemptive-scheduler.io`, version `v1alpha1`, kind `PreemptionPolicy`. The meaning of the
fields is in `scheduler.model.policies`, their validation in `scheduler.config.policies`.
"""

# ruff: noqa: RUF009 -- `wire` makes a dataclass field, evaluating it once is the point

from dataclasses import dataclass
from typing import Final

from scheduler.config.codecs import (
    BOOLEAN,
    DURATION,
    INT64,
    STRING,
    Codec,
    array,
    converted,
    optional,
    wrong,
)
from scheduler.config.document import Json, Mapping, Scalar, Tree
from scheduler.config.field_errors import ErrorReport, child
from scheduler.config.object_codec import Fields, Wire, wire
from scheduler.model.api.objects import LabelSelector, Requirement

__all__ = ["POLICY", "LimitSpec", "PolicyBudgetSpec", "PolicySpec", "SelectionSpec"]


class _Labels(Codec[dict[str, str]]):
    """An object whose values are strings."""

    def zero(self) -> dict[str, str]:
        return {}

    def read(self, tree: Tree, path: str, report: ErrorReport) -> dict[str, str]:
        if not isinstance(tree, Mapping):
            raise wrong("an object", tree)
        labels: dict[str, str] = {}
        for key, value in tree.entries.items():
            if isinstance(value, Scalar) and isinstance(value.value, str):
                labels[key] = value.value
            else:
                report.broken(child(path, key), str(wrong("a string", value)))
        return labels

    def write(self, value: dict[str, str]) -> Json:
        return dict(value)


_STRINGS: Final = array(STRING)
_LIST: Final[Codec[list[str]]] = converted(_STRINGS, list, tuple)
_REQUIREMENT: Final = Fields(
    Requirement,
    {
        "key": Wire("key", STRING, ""),
        "operator": Wire("operator", STRING, ""),
        "values": Wire("values", _LIST, []),
    },
)
_REQUIREMENTS: Final[Codec[list[Requirement]]] = converted(array(_REQUIREMENT), list, tuple)
_SELECTOR: Final = Fields(
    LabelSelector,
    {
        "match_labels": Wire("matchLabels", _Labels(), {}),
        "match_expressions": Wire("matchExpressions", _REQUIREMENTS, []),
    },
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionSpec:
    """A selection of pods."""

    namespace_selector: LabelSelector | None = wire("namespaceSelector", optional(_SELECTOR), None)
    pod_selector: LabelSelector | None = wire("podSelector", optional(_SELECTOR), None)
    min_priority: int | None = wire("minPriority", optional(INT64), None)
    max_priority: int | None = wire("maxPriority", optional(INT64), None)
    priority_class_names: tuple[str, ...] = wire("priorityClassNames", _STRINGS, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyBudgetSpec:
    """Victims within a window; `None` if a required field is missing."""

    max_victims: int | None = wire("maxVictims", optional(INT64), None)
    window_seconds: float | None = wire("window", optional(DURATION), None)
    scope: str = wire("scope", STRING, "Cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitSpec:
    """Preemptions within a window; `None` if a required field is missing."""

    max_preemptions: int | None = wire("maxPreemptions", optional(INT64), None)
    window_seconds: float | None = wire("window", optional(DURATION), None)


_SELECTION: Final = Fields.of(SelectionSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySpec:
    """The `spec`."""

    mode: str = wire("mode", STRING, "Enforce")
    preemptors: SelectionSpec = wire("preemptors", _SELECTION, SelectionSpec())
    victims: SelectionSpec = wire("victims", _SELECTION, SelectionSpec())
    disruption_budgets: str = wire("podDisruptionBudgets", STRING, "BestEffort")
    strict_below_priority: int | None = wire("strictBelowPriority", optional(INT64), None)
    budgets: tuple[PolicyBudgetSpec, ...] = wire("budgets", array(Fields.of(PolicyBudgetSpec)), ())
    max_victims_per_preemption: int | None = wire("maxVictimsPerPreemption", optional(INT64), None)
    victim_min_runtime_seconds: float = wire("victimMinRuntime", DURATION, 0.0)
    max_preemptions_per_owner: LimitSpec | None = wire(
        "maxPreemptionsPerOwner", optional(Fields.of(LimitSpec)), None
    )
    preemptor_delay_seconds: float = wire("preemptorDelay", DURATION, 0.0)
    foreign_victims: str = wire("foreignVictims", STRING, "Always")
    victims_from: str = wire("victimsFrom", STRING, "Any")
    stop: bool = wire("stop", BOOLEAN, False)
    stop_reason: str = wire("stopReason", STRING, "")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Policy:
    """The part of the whole object that is read."""

    spec: PolicySpec | None = wire("spec", optional(Fields.of(PolicySpec)), None)


#: Codec of a policy.
POLICY: Final = Fields.of(_Policy, ignored=("apiVersion", "kind", "metadata", "status"))
