"""The rules about other pods in plain loops: the expected results of the counters.

Everything is counted again for each question, pod by pod and node by node, as kube-scheduler
v1.36.3 does it in interpodaffinity and podtopologyspread. Nothing here is fast, and nothing is
shared with the rules under test but the API objects and the matching of one selector.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from scheduler.model.api import selectors
from scheduler.model.api.objects import (
    LabelSelector,
    Node,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from scheduler.model.api.selectors import Selector, Tolerations

__all__ = ["Affinity", "Spread", "World", "affinity_scores", "spread_scores"]

HOSTNAME = "kubernetes.io/hostname"
FITS = ""
NO_AFFINITY = "node(s) didn't match pod affinity rules"
NO_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REFUSED = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEWED = "node(s) didn't match pod topology spread constraints"
NO_LABEL = f"{SKEWED} (missing required label)"


@dataclass
class World:
    """All objects there are."""

    nodes: dict[str, Node] = field(default_factory=dict)
    #: Pods by uid, each with the name of its node, which need not exist.
    pods: dict[str, tuple[Pod, str]] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)

    def on(self, node: Node) -> list[Pod]:
        return [pod for pod, name in self.pods.values() if name == node.metadata.name]

    def everyone(self) -> Iterator[tuple[Pod, Node]]:
        for node in self.nodes.values():
            for pod in self.on(node):
                yield pod, node


def _selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    return selector is not None and Selector.of(selector).matches(labels)


def _terms(pod: Pod, kind: str, strength: str) -> list[tuple[PodAffinityTerm, int]]:
    affinity = pod.spec.affinity
    found: PodAffinity | None = getattr(affinity, kind) if affinity else None
    if found is None:
        return []
    if strength == "required":
        return [(term, 1) for term in found.required]
    return [(each.pod_affinity_term, each.weight) for each in found.preferred]


def _required(pod: Pod, kind: str) -> list[PodAffinityTerm]:
    return [term for term, _ in _terms(pod, kind, "required")]


def _listed(term: PodAffinityTerm, owner: Pod) -> set[str]:
    if not term.namespaces and term.namespace_selector is None:
        return {owner.metadata.namespace}
    return set(term.namespaces)


def _incoming_term_is_about(term: PodAffinityTerm, owner: Pod, other: Pod, world: World) -> bool:
    names = _listed(term, owner)
    if term.namespace_selector not in (None, LabelSelector()):
        names |= {
            name
            for name, labels in world.namespaces.items()
            if _selects(term.namespace_selector, labels)
        }
    there = other.metadata.namespace in names or _selects(term.namespace_selector, {})
    return there and _selects(term.label_selector, other.metadata.labels)


def _carried_term_is_about(term: PodAffinityTerm, owner: Pod, pod: Pod, world: World) -> bool:
    labels = world.namespaces.get(pod.metadata.namespace, {})
    there = pod.metadata.namespace in _listed(term, owner)
    there = there or _selects(term.namespace_selector, labels)
    return there and _selects(term.label_selector, pod.metadata.labels)


class Affinity:
    """The state of InterPodAffinity's filter for one pod."""

    def __init__(self, pod: Pod, world: World) -> None:
        self.pod = pod
        self.world = world
        self.near = _required(pod, "pod_affinity")
        self.away = _required(pod, "pod_anti_affinity")
        self.existing_anti: Counter[tuple[str, str]] = Counter()
        self.affinity: Counter[tuple[str, str]] = Counter()
        self.anti: Counter[tuple[str, str]] = Counter()
        for other, node in world.everyone():
            self.count(other, node, +1)
        self.skipped = not any(self.existing_anti.values()) and not self.near and not self.away

    def count(self, other: Pod, node: Node, sign: int) -> None:
        """Count a pod in (+1) or out (-1)."""
        for term in _required(other, "pod_anti_affinity"):
            if _carried_term_is_about(term, other, self.pod, self.world):
                _add(self.existing_anti, term.topology_key, node, sign)
        if self._all_near(other):
            for term in self.near:
                _add(self.affinity, term.topology_key, node, sign)
        for term in self.away:
            if _incoming_term_is_about(term, self.pod, other, self.world):
                _add(self.anti, term.topology_key, node, sign)

    def _all_near(self, other: Pod) -> bool:
        return bool(self.near) and all(
            _incoming_term_is_about(term, self.pod, other, self.world) for term in self.near
        )

    def judge(self, node: Node) -> str:
        """Return the reason against a node."""
        labels = node.metadata.labels
        if self.skipped:
            return FITS
        if self.near and not self._attracted(labels):
            return NO_AFFINITY
        keys = [term.topology_key for term in self.away]
        if any(key in labels and self.anti[key, labels[key]] > 0 for key in keys):
            return NO_ANTI_AFFINITY
        if any(self.existing_anti[pair] > 0 for pair in labels.items()):
            return REFUSED
        return FITS

    def _attracted(self, labels: Mapping[str, str]) -> bool:
        keys = [term.topology_key for term in self.near]
        if any(key not in labels for key in keys):
            return False
        if all(self.affinity[key, labels[key]] > 0 for key in keys):
            return True
        return not any(self.affinity.values()) and self._all_near(self.pod)


def _add(counts: Counter[tuple[str, str]], key: str, node: Node, number: int) -> None:
    if key in node.metadata.labels:
        counts[key, node.metadata.labels[key]] += number


def affinity_scores(pod: Pod, world: World, hard_weight: int = 1) -> dict[str, int]:
    """Return InterPodAffinity's raw score of each node, by name."""
    sums: Counter[tuple[str, str]] = Counter()
    for other, node in world.everyone():
        for term, weight in _liked(pod):
            if _incoming_term_is_about(term, pod, other, world):
                _add(sums, term.topology_key, node, weight)
        required = [(term, hard_weight) for term in _required(other, "pod_affinity")]
        for term, weight in [*_liked(other), *required]:
            if _carried_term_is_about(term, other, pod, world):
                _add(sums, term.topology_key, node, weight)
    return {
        name: sum(sums[pair] for pair in node.metadata.labels.items())
        for name, node in world.nodes.items()
    }


def _liked(pod: Pod) -> list[tuple[PodAffinityTerm, int]]:
    disliked = _terms(pod, "pod_anti_affinity", "preferred")
    return [
        *_terms(pod, "pod_affinity", "preferred"),
        *((term, -weight) for term, weight in disliked),
    ]


class Spread:
    """The state of PodTopologySpread's filter for one pod."""

    def __init__(
        self, pod: Pod, constraints: Iterable[TopologySpreadConstraint], world: World
    ) -> None:
        self.pod = pod
        self.constraints = [each for each in constraints if _action(each) == "DoNotSchedule"]
        self.counts: list[dict[str, int]] = [{} for _ in self.constraints]
        for node in world.nodes.values():
            for each, counts in zip(self.constraints, self.counts, strict=True):
                if _has_keys(node, self.constraints) and _eligible(each, pod, node):
                    value = node.metadata.labels[each.topology_key]
                    number = _matching(each, pod, world.on(node))
                    counts[value] = counts.get(value, 0) + number

    def count(self, other: Pod, node: Node, sign: int) -> None:
        """Count a pod in (+1) or out (-1) as AddPod and RemovePod do."""
        if other.metadata.namespace != self.pod.metadata.namespace:
            return
        for each, counts in zip(self.constraints, self.counts, strict=True):
            selected = _selects(_selector(each, self.pod), other.metadata.labels)
            if selected and _has_keys(node, self.constraints) and _eligible(each, self.pod, node):
                counts[node.metadata.labels[each.topology_key]] += sign

    def judge(self, node: Node) -> str:
        """Return the reason against a node."""
        for each, counts in zip(self.constraints, self.counts, strict=True):
            if each.topology_key not in node.metadata.labels:
                return NO_LABEL
            least = min(counts.values(), default=2**31 - 1)
            if len(counts) < (1 if each.min_domains is None else each.min_domains):
                least = 0
            itself = int(_selects(_selector(each, self.pod), self.pod.metadata.labels))
            there = counts.get(node.metadata.labels[each.topology_key], 0)
            if there + itself - least > each.max_skew:
                return SKEWED
        return FITS


def spread_scores(
    pod: Pod,
    constraints: Iterable[TopologySpreadConstraint],
    world: World,
    feasible: list[str],
    *,
    every_key: bool,
) -> tuple[list[int], list[int]]:
    """Return PodTopologySpread's raw and normalised scores of the feasible nodes."""
    soft = [each for each in constraints if _action(each) == "ScheduleAnyway"]
    nodes = [world.nodes[name] for name in feasible]
    ignored = [every_key and not _has_keys(node, soft) for node in nodes]
    scored = [node for node, left_out in zip(nodes, ignored, strict=True) if not left_out]
    raw = []
    for node, left_out in zip(nodes, ignored, strict=True):
        score = 0.0
        for each in [] if left_out else soft:
            key = each.topology_key
            if key not in node.metadata.labels:
                continue
            value = node.metadata.labels[key]
            if key == HOSTNAME:
                size, there = len(scored), _matching(each, pod, world.on(node))
            else:
                size = len({other.metadata.labels.get(key, "") for other in scored})
                there = sum(
                    _matching(each, pod, world.on(other))
                    for other in world.nodes.values()
                    if not (every_key and not _has_keys(other, soft))
                    and _eligible(each, pod, other)
                    and other.metadata.labels.get(key, "") == value
                )
            score += float(there) * math.log(size + 2) + float(each.max_skew - 1)
        raw.append(math.floor(score) + (score - math.floor(score) >= 0.5))
    return raw, _spread_normalised(raw, ignored)


def _spread_normalised(raw: list[int], ignored: list[bool]) -> list[int]:
    kept = [score for score, left_out in zip(raw, ignored, strict=True) if not left_out]
    most, least = max(kept, default=0), min(kept, default=0)
    return [
        0 if left_out else 100 if most == 0 else 100 * (most + least - score) // most
        for score, left_out in zip(raw, ignored, strict=True)
    ]


def _action(constraint: TopologySpreadConstraint) -> str:
    return constraint.when_unsatisfiable


def _selector(constraint: TopologySpreadConstraint, pod: Pod) -> LabelSelector | None:
    if constraint.label_selector is None:
        return None
    labels = pod.metadata.labels
    added = [
        selectors.Requirement(key, "In", [labels[key]])
        for key in constraint.match_label_keys
        if key in labels
    ]
    given = constraint.label_selector
    return LabelSelector(given.match_labels, [*given.match_expressions, *added])


def _has_keys(node: Node, constraints: Iterable[TopologySpreadConstraint]) -> bool:
    return all(each.topology_key in node.metadata.labels for each in constraints)


def _eligible(constraint: TopologySpreadConstraint, pod: Pod, node: Node) -> bool:
    if constraint.node_affinity_policy != "Ignore" and not selectors.matches_node_selection(
        pod.spec, node
    ):
        return False
    hard = frozenset({"NoSchedule", "NoExecute"})
    return (
        constraint.node_taints_policy != "Honor"
        or selectors.untolerated(node.spec.taints, Tolerations(pod.spec.tolerations), hard) is None
    )


def _matching(constraint: TopologySpreadConstraint, pod: Pod, others: list[Pod]) -> int:
    selector = _selector(constraint, pod)
    if selector is None or selector == LabelSelector():
        return 0
    return sum(
        not other.terminating
        and other.metadata.namespace == pod.metadata.namespace
        and _selects(selector, other.metadata.labels)
        for other in others
    )
