"""Validation of the settings of single plugins.

Source: kube-scheduler v1.36.3 pkg/scheduler/apis/config/validation/validation_pluginargs.go;
component-helpers v0.36.3 scheduling/corev1/nodeaffinity NewNodeSelector,
NewPreferredSchedulingTerms; apimachinery v0.36.3 labels.NewRequirement.
"""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from scheduler.config import durations, names
from scheduler.config.args import (
    DefaultPreemptionArgs,
    DynamicResourcesArgs,
    InterPodAffinityArgs,
    NodeAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PluginArgs,
    PodTopologySpreadArgs,
    PreemptiveSchedulerArgs,
    ScoringStrategy,
    ShapePoint,
    VolumeBindingArgs,
)
from scheduler.config.field_errors import ErrorReport
from scheduler.model.api.objects import NodeSelectorTerm, Requirement, TopologySpreadConstraint
from scheduler.model.releases import AUTO, REFERENCES, Reference

__all__ = ["check"]

_RATIO: Final = "RequestedToCapacityRatio"
_STRATEGIES: Final = ("LeastAllocated", "MostAllocated", _RATIO)
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_LABEL_OPERATORS: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD_OPERATORS: Final = ("In", "NotIn")
_INTEGER: Final = re.compile(r"[-+]?[0-9]+", re.ASCII)
_INT64: Final = range(-(2**63), 2**63)


def check(args: PluginArgs, path: str, report: ErrorReport, reference: Reference) -> None:
    """Report all errors in the settings of a plugin, as a release has them."""
    if isinstance(args, VolumeBindingArgs):
        _volume_binding(args, path, report, reference)
    rule = _RULES.get(type(args))
    if rule is not None:
        rule(args, path, report)


def _default_preemption(args: DefaultPreemptionArgs, path: str, report: ErrorReport) -> None:
    share, count = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    at_share, at_count = f"{path}.minCandidateNodesPercentage", f"{path}.minCandidateNodesAbsolute"
    if not 0 <= share <= 100:
        report.invalid(at_share, share, "not in valid range [0, 100]")
    if count < 0:
        report.invalid(at_count, count, "not in valid range [0, inf)")
    if share == count == 0:
        detail = "cannot be zero at the same time as"
        report.invalid(at_share, share, f"{detail} minCandidateNodesAbsolute")
        report.invalid(at_count, count, f"{detail} minCandidateNodesPercentage")


def _dynamic_resources(args: DynamicResourcesArgs, path: str, report: ErrorReport) -> None:
    if args.filter_timeout_seconds < 0:
        shown = durations.text(args.filter_timeout_seconds)
        report.invalid(f"{path}.filterTimeout", shown, "must be zero or positive")
    if args.binding_timeout_seconds < 1:
        shown = durations.text(args.binding_timeout_seconds)
        report.invalid(f"{path}.bindingTimeout", shown, "must be at least 1 second")


def _inter_pod_affinity(args: InterPodAffinityArgs, path: str, report: ErrorReport) -> None:
    weight = args.hard_pod_affinity_weight
    if not 0 <= weight <= 100:
        report.invalid(f"{path}.hardPodAffinityWeight", weight, "not in valid range [0, 100]")


def _balanced_allocation(
    args: NodeResourcesBalancedAllocationArgs, path: str, report: ErrorReport
) -> None:
    seen: set[str] = set()
    for i, resource in enumerate(args.resources):
        if resource.name in seen:
            report.duplicate(f"{path}.resources[{i}].name", resource.name)
        seen.add(resource.name)
        if resource.weight != 1:
            report.invalid(f"{path}.resources[{i}].weight", resource.weight, "must be 1")


def _volume_binding(
    args: VolumeBindingArgs, path: str, report: ErrorReport, reference: Reference
) -> None:
    if args.bind_timeout_seconds < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        report.invalid(f"{path}.bindTimeoutSeconds", args.bind_timeout_seconds, detail)
    if args.shape is None:
        return
    if not reference.scores_storage_capacity:
        feature = "it belongs to the feature StorageCapacityScoring, which is off"
        report.forbidden(f"{path}.shape", f"unexpected field `shape`, {feature}")
    elif args.shape:
        _check_shape(args.shape, f"{path}.shape", report)


def _node_resources_fit(args: NodeResourcesFitArgs, path: str, report: ErrorReport) -> None:
    for i, name in enumerate(args.ignored_resources):
        _check_key(f"{path}.ignoredResources[{i}]", name, report)
    for i, name in enumerate(args.ignored_resource_groups):
        at = f"{path}.ignoredResourceGroups[{i}]"
        if "/" in name:
            report.invalid(at, name, "resource group name can't contain '/'")
        _check_key(at, name, report)
    _check_strategy(args.scoring_strategy, f"{path}.scoringStrategy", report)


def _check_strategy(strategy: ScoringStrategy, path: str, report: ErrorReport) -> None:
    if strategy.type not in _STRATEGIES:
        report.unsupported(f"{path}.type", strategy.type, _STRATEGIES)
    for i, resource in enumerate(strategy.resources):
        if not 0 < resource.weight <= 100:
            detail = f"resource weight of {resource.name} not in valid range (0, 100]"
            report.invalid(f"{path}.resources[{i}].weight", resource.weight, detail)
    at = f"{path}.requestedToCapacityRatio"
    if strategy.type != _RATIO:
        if strategy.shape is not None and report.is_whole(f"{path}.type"):
            report.forbidden(at, f"must be nil when type is not {_RATIO}")
    elif strategy.shape is None:
        report.required(at, f"must be specified when type is {_RATIO}")
    else:
        _check_shape(strategy.shape, f"{at}.shape", report)


def _check_shape(shape: Sequence[ShapePoint], path: str, report: ErrorReport) -> None:
    if not shape:
        report.required(path, "at least one point must be specified")
    pairs = itertools.pairwise(shape)
    unsorted = (i for i, (low, high) in enumerate(pairs, 1) if low.utilization >= high.utilization)
    for i in unsorted:
        detail = "values must be sorted in increasing order"
        report.invalid(f"{path}[{i}].utilization", shape[i].utilization, detail)
        break
    for i, point in enumerate(shape):
        if not 0 <= point.utilization <= 100:
            detail = "not in valid range [0, 100]"
            report.invalid(f"{path}[{i}].utilization", point.utilization, detail)
        if not 0 <= point.score <= 10:
            report.invalid(f"{path}[{i}].score", point.score, "not in valid range [0, 10]")


def _pod_topology_spread(args: PodTopologySpreadArgs, path: str, report: ErrorReport) -> None:
    kind, constraints = args.defaulting_type, args.default_constraints
    if kind not in {"List", "System"}:
        report.unsupported(f"{path}.defaultingType", kind, ("List", "System"))
    elif kind == "System" and constraints:
        report.invalid(f"{path}.defaultingType", kind, "when .defaultConstraints are not empty")
    for i, constraint in enumerate(constraints):
        at = f"{path}.defaultConstraints[{i}]"
        _check_constraint(constraint, at, report)
        earlier = {(other.topology_key, other.when_unsatisfiable) for other in constraints[:i]}
        if (constraint.topology_key, constraint.when_unsatisfiable) in earlier and report.is_whole(
            at
        ):
            report.duplicate(at, f"{{{constraint.topology_key}, {constraint.when_unsatisfiable}}}")


def _check_constraint(constraint: TopologySpreadConstraint, path: str, report: ErrorReport) -> None:
    if constraint.max_skew <= 0:
        report.invalid(f"{path}.maxSkew", constraint.max_skew, "not in valid range (0, inf)")
    if constraint.topology_key:
        _check_key(f"{path}.topologyKey", constraint.topology_key, report)
    else:
        report.required(f"{path}.topologyKey", "can not be empty")
    action = constraint.when_unsatisfiable
    if not action:
        report.required(f"{path}.whenUnsatisfiable", "can not be empty")
    elif action not in _ACTIONS:
        report.unsupported(f"{path}.whenUnsatisfiable", action, _ACTIONS)


def _node_affinity(args: NodeAffinityArgs, path: str, report: ErrorReport) -> None:
    affinity = args.added_affinity
    if affinity is None:
        return
    when = "DuringSchedulingIgnoredDuringExecution"
    terms = affinity.required.node_selector_terms if affinity.required else ()
    for i, term in enumerate(terms):
        at = f"{path}.addedAffinity.required{when}.nodeSelectorTerms[{i}]"
        _check_term(term, at, at, report)
    for i, weighted in enumerate(affinity.preferred):
        at = f"{path}.addedAffinity.preferred{when}[{i}]"
        if weighted.weight:
            _check_term(weighted.preference, f"{at}.preference", at, report)


def _check_term(term: NodeSelectorTerm, path: str, outer: str, report: ErrorReport) -> None:
    """Check one term, unless something around it could not be decoded."""
    if not report.is_whole(outer):
        return
    for i, expression in enumerate(term.match_expressions):
        _check_expression(expression, f"{path}.matchExpressions[{i}]", report)
    for i, field in enumerate(term.match_fields):
        at = f"{path}.matchFields[{i}]"
        if field.operator not in _FIELD_OPERATORS:
            report.unsupported(f"{at}.operator", field.operator, _FIELD_OPERATORS)
        elif len(field.values) != 1:
            report.invalid(f"{at}.values", field.values, "must have one element")


def _check_expression(expression: Requirement, path: str, report: ErrorReport) -> None:
    operator, values = expression.operator, expression.values
    if operator not in _LABEL_OPERATORS:
        report.unsupported(f"{path}.operator", operator, _LABEL_OPERATORS)
        return
    _check_key(f"{path}.key", expression.key, report)
    if operator in {"In", "NotIn"} and not values:
        detail = "for 'in', 'notin' operators, values set can't be empty"
        report.invalid(f"{path}.values", values, detail)
    if operator in {"Exists", "DoesNotExist"} and values:
        detail = "values set must be empty for exists and does not exist"
        report.invalid(f"{path}.values", values, detail)
    if operator in {"Gt", "Lt"}:
        _check_bound(f"{path}.values", values, report)
    for i, value in enumerate(values):
        for detail in names.label_value(value):
            report.invalid(f"{path}.values[{i}]", value, detail)


def _check_bound(path: str, values: Sequence[str], report: ErrorReport) -> None:
    if len(values) != 1:
        detail = "for 'Gt', 'Lt' operators, exactly one value is required"
        report.invalid(path, values, detail)
    for i, value in enumerate(values):
        if not (_INTEGER.fullmatch(value) and int(value) in _INT64):
            detail = "for 'Gt', 'Lt' operators, the value must be an integer"
            report.invalid(f"{path}[{i}]", value, detail)


def _check_key(path: str, key: str, report: ErrorReport) -> None:
    for detail in names.label_key(key):
        report.invalid(path, key, detail)


def _preemptive_scheduler(args: PreemptiveSchedulerArgs, path: str, report: ErrorReport) -> None:
    allowed = (AUTO, *REFERENCES)
    if args.reference not in allowed:
        report.unsupported(f"{path}.reference", args.reference, allowed)


_RULES: Final[dict[type, Callable[[Any, str, ErrorReport], None]]] = {
    DefaultPreemptionArgs: _default_preemption,
    DynamicResourcesArgs: _dynamic_resources,
    InterPodAffinityArgs: _inter_pod_affinity,
    NodeAffinityArgs: _node_affinity,
    NodeResourcesBalancedAllocationArgs: _balanced_allocation,
    NodeResourcesFitArgs: _node_resources_fit,
    PodTopologySpreadArgs: _pod_topology_spread,
    PreemptiveSchedulerArgs: _preemptive_scheduler,
}
