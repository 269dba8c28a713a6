"""Preemption policies of an operator, checked and frozen.

A policy applies to a preemption if `preemptors` selects the preemptor. Its rules then apply to the
victims that `victims` selects. If several policies apply, all must allow the preemption.

In the API it is the cluster-scoped `PreemptionPolicy` of group `preemptive-scheduler.io`;
`scheduler.config.policies` reads it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from scheduler.model.api.selectors import Selector
from scheduler.model.times import Seconds

__all__ = [
    "EVERY_POD",
    "Budget",
    "BudgetScope",
    "DisruptionBudgets",
    "ForeignVictims",
    "LastVictim",
    "PodSelection",
    "PolicyFigures",
    "PolicyMode",
    "PolicyState",
    "PreemptionLimit",
    "PreemptionPolicy",
    "VictimsFrom",
]


class PolicyMode(StrEnum):
    """Whether a policy refuses preemptions, or only counts what it would refuse."""

    ENFORCE = "Enforce"
    AUDIT = "Audit"


class DisruptionBudgets(StrEnum):
    """How much a `PodDisruptionBudget` protects a victim."""

    #: As in kube-scheduler: violated only if there is no other way.
    BEST_EFFORT = "BestEffort"
    #: Never violated; victims are evicted through the eviction API and not deleted.
    STRICT = "Strict"
    #: Strict for preemptors of a lower priority than a given one.
    STRICT_BELOW = "StrictBelow"


class ForeignVictims(StrEnum):
    """Whether pods of other schedulers may be victims."""

    NEVER = "Never"
    #: As long as no preemption for the same pair of owners was wasted.
    NON_LOOPING = "NonLooping"
    ALWAYS = "Always"


class VictimsFrom(StrEnum):
    """Which pods may be victims, by how they are related to the preemptor."""

    ANY = "Any"
    SAME_NAMESPACE = "SameNamespace"
    #: Of the same namespace, with the same controller; a pod without one has no such victims.
    SAME_OWNER = "SameOwner"


class BudgetScope(StrEnum):
    """The scope of a budget of victims: each object of this kind has one."""

    CLUSTER = "Cluster"
    NAMESPACE = "Namespace"
    OWNER = "Owner"
    NODE = "Node"


@dataclass(frozen=True, slots=True)
class PodSelection:
    """A selection of pods: those that match all fields that are set."""

    #: Labels of the namespace; `None` for every namespace.
    namespaces: Selector | None = None
    #: Labels of the pod; `None` for every pod.
    pods: Selector | None = None
    #: Lowest and highest priority, inclusive; `None` for no bound.
    min_priority: int | None = None
    max_priority: int | None = None
    #: Names of priority classes; empty for any, and for pods without one.
    priority_classes: frozenset[str] = frozenset()


EVERY_POD: Final = PodSelection()


@dataclass(frozen=True, slots=True)
class Budget:
    """A maximum number of victims within any window of time, for each object of its scope."""

    max_victims: int
    window: Seconds
    scope: BudgetScope = BudgetScope.CLUSTER


@dataclass(frozen=True, slots=True)
class PreemptionLimit:
    """A maximum number of preemptions within any window of time, for the pods of one owner."""

    max_preemptions: int
    window: Seconds


@dataclass(frozen=True, slots=True)
class PreemptionPolicy:
    """One policy in force."""

    name: str
    uid: str = ""
    #: `metadata.generation` of the spec that is in force.
    generation: int = 0
    mode: PolicyMode = PolicyMode.ENFORCE
    preemptors: PodSelection = EVERY_POD
    victims: PodSelection = EVERY_POD
    disruption_budgets: DisruptionBudgets = DisruptionBudgets.BEST_EFFORT
    #: With `StrictBelow`: budgets are strict for preemptors of a lower priority than this.
    strict_below: int = 0
    #: All of them apply.
    budgets: tuple[Budget, ...] = field(default=())
    max_victims_per_preemption: int | None = None
    #: How long a victim must have run, since its `status.startTime`.
    victim_min_runtime: Seconds = 0.0
    max_preemptions_per_owner: PreemptionLimit | None = None
    #: How long a preemptor must have waited, since it was first seen unschedulable.
    preemptor_delay: Seconds = 0.0
    foreign_victims: ForeignVictims = ForeignVictims.ALWAYS
    victims_from: VictimsFrom = VictimsFrom.ANY
    #: Why all preemption is stopped, perhaps empty; `None` where the policy does not stop it. A
    #: policy that does is not limited by its mode and its selections.
    stop: str | None = None


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """The last change of a policy, as far as its generations are kept."""

    #: When it was accepted, as in RFC 3339, and what differs, one field in each line.
    at: str = ""
    lines: tuple[str, ...] = ()
    #: The generation that undoing it puts in force; 0 if none is kept.
    former: int = 0


@dataclass(frozen=True, slots=True)
class PolicyState:
    """A policy as the API server has it, accepted or not."""

    name: str
    #: The newest generation.
    generation: int
    #: Why that generation is refused; empty if it is accepted.
    problem: str
    #: The policy in force, perhaps of an older generation; `None` if none is.
    in_force: PreemptionPolicy | None
    change: PolicyChange = PolicyChange()


@dataclass(frozen=True, slots=True)
class LastVictim:
    """The last pod that was evicted under a policy."""

    namespace: str
    name: str
    node: str
    #: Namespace and name of the preemptor, joined by a slash.
    preemptor: str
    moment: Seconds


@dataclass(frozen=True, slots=True)
class PolicyFigures:
    """Statistics of a policy in force, for its status."""

    #: Victims that its budgets count, within the longest of their windows.
    victims: int = 0
    #: The number of preemptions that each rule refused, by the name of its field.
    refusals: Mapping[str, int] = field(default_factory=dict)
    last_victim: LastVictim | None = None
    #: The number that each rule would have refused, had the mode not been Audit.
    would_refuse: Mapping[str, int] = field(default_factory=dict)
