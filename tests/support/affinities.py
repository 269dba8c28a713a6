"""Pods that care about other pods.

near(pod("a"), term(ZONE, app="x"))            required affinity
away(pod("a"), term(ZONE, app="x"), weight=5)  preferred anti-affinity
spread(pod("a"), constraint(ZONE, app="x"))    a topology spread constraint
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from scheduler.model.api.objects import (
    Affinity,
    LabelSelector,
    LabelsSpec,
    ObjectMeta,
    PodAffinity,
    PodAffinityTerm,
    Requirement,
    Service,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from tests.support.builders import PodBuilder

__all__ = ["away", "constraint", "labels", "near", "service", "spread", "term"]


def labels(*expressions: Requirement, **equal: str) -> LabelSelector:
    """Return a label selector."""
    return LabelSelector(equal, list(expressions))


def term(
    topology_key: str,
    *expressions: Requirement,
    namespaces: Sequence[str] = (),
    among: LabelSelector | None = None,
    **equal: str,
) -> PodAffinityTerm:
    """Return a term about pods with some labels; `among` selects their namespaces."""
    return PodAffinityTerm(labels(*expressions, **equal), list(namespaces), topology_key, among)


def near(given: PodBuilder, *terms: PodAffinityTerm, weight: int = 0) -> PodBuilder:
    """Add pod affinity: required, or preferred with a weight."""
    return _with_terms(given, "pod_affinity", terms, weight)


def away(given: PodBuilder, *terms: PodAffinityTerm, weight: int = 0) -> PodBuilder:
    """Add pod anti-affinity: required, or preferred with a weight."""
    return _with_terms(given, "pod_anti_affinity", terms, weight)


def _with_terms(
    given: PodBuilder, kind: str, terms: Sequence[PodAffinityTerm], weight: int
) -> PodBuilder:
    affinity = given.build().spec.affinity or Affinity()
    have = getattr(affinity, kind) or PodAffinity()
    if weight:
        more = [WeightedPodAffinityTerm(weight, each) for each in terms]
        have = replace(have, preferred=[*have.preferred, *more])
    else:
        have = replace(have, required=[*have.required, *terms])
    return given.spec(affinity=replace(affinity, **{kind: have}))


def constraint(
    topology_key: str, *, skew: int = 1, soft: bool = False, **more: Any
) -> TopologySpreadConstraint:
    """Return a spread constraint; what is no field of it is a label of the pods it counts."""
    fields = {key: more.pop(key) for key in list(more) if key in _FIELDS}
    fields.setdefault("label_selector", labels(**more))
    action = "ScheduleAnyway" if soft else "DoNotSchedule"
    return TopologySpreadConstraint(skew, topology_key, action, **fields)


_FIELDS = (
    "label_selector",
    "match_label_keys",
    "min_domains",
    "node_affinity_policy",
    "node_taints_policy",
)


def spread(given: PodBuilder, *constraints: TopologySpreadConstraint) -> PodBuilder:
    """Add spread constraints."""
    have = given.build().spec.topology_spread_constraints
    return given.spec(topology_spread_constraints=[*have, *constraints])


def service(name: str, **equal: str) -> Service:
    """Return a service that selects pods by labels."""
    return Service(ObjectMeta(name=name, namespace="default"), LabelsSpec(equal))
