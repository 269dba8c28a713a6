"""Candidates and victims of a preemption that frees devices, by brute force from its rules.

R2  A node is a candidate if some pods of lower priority on it can be removed so that the preemptor
    passes all filters: also one whose only reason is `cannot allocate all claims`.
R3  A claim loses its devices if it is reserved for somebody, and only for pods that are removed.
    Other nodes' pods, consumers that are no pods and pods that are no longer there keep it.
R4  A claim that the preemptor uses itself keeps its devices.
R5  All pods of lower priority are removed; then they are reprieved one by one while the preemptor
    fits: first those whose eviction violates a budget, then the others, most important first.
R6  Claims of extended resources are claims.
R7  Other nodes are no candidates.
R8  Nobody is evicted if the preemptor fits on some node without, nor if it would fit without one
    of the victims less.
R9  Other verdicts of DynamicResources are final; an error on a node ends the attempt.

Nothing about devices is computed here. Whether the preemptor fits on a node without some of its
pods is asked of kube-scheduler's own filters, for every set of pods that may be evicted there; all
questions about a cluster go out in one request.

R2 and R5 contradict each other where more evictions help less. R5 holds there, as for all other
resources, and the node is marked as irregular. It happens where errors depend on what is free, and
where devices in use consume more than their pool has.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Protocol

from tests.oracle.generating.dice import Object

__all__ = ["Candidates", "Expected", "Fits", "Verdicts", "compare", "expected"]

#: The victims on each node, by namespace and name; `None` where evicting pods does not help.
Candidates = dict[str, frozenset[str] | None]
#: Pods of a node.
_Some = frozenset[str]

_NO_DEVICES = ("DynamicResources", ["cannot allocate all claims"])
#: Upstream's words for a status.
_FITS, _RESOLVABLE, _ERROR = "Success", "Unschedulable", "Error"


class Verdicts(Protocol):
    """Who answers whether the pending pod fits on nodes without some pods."""

    def verdicts(self, objects: list[Object], hypotheses: list[Object]) -> list[Object]:
        """Return the status of each hypothesis; see `Upstream.verdicts`."""


@dataclass(frozen=True)
class Fits:
    """The statuses on one node, by the pods that are removed."""

    lower: tuple[str, ...]
    statuses: dict[_Some, Object]

    def __call__(self, removed: Iterable[str]) -> bool:
        """Return whether the preemptor fits without some pods."""
        return bool(self.statuses[frozenset(removed)]["code"] == _FITS)

    def is_resolvable(self, *, frees: bool) -> bool:
        """Return whether evictions may change that the node rejects the preemptor."""
        status = self.statuses[frozenset()]
        no_devices = (status["plugin"], status["reasons"]) == _NO_DEVICES
        return status["code"] == _RESOLVABLE or (frees and no_devices)

    def victims(self) -> frozenset[str] | None:
        """Return the pods that stay removed when others are reprieved in their order."""
        removed = set(self.lower)
        if not removed or not self(removed):
            return None
        for pod in self.lower:
            if self(removed - {pod}):
                removed.remove(pod)
        return frozenset(removed)

    def is_monotone(self) -> bool:
        """Return whether the preemptor fits without more pods wherever it fits without fewer."""
        return all(
            self(removed | {pod})
            for removed in self.statuses
            if self(removed)
            for pod in self.lower
        )

    def is_minimal(self, victims: _Some) -> bool:
        """Return whether the preemptor does not fit if any of the victims stays."""
        return not any(self(kept) for kept in _subsets(sorted(victims)) if kept != victims)


@dataclass(frozen=True)
class Expected:
    """What a preemption has to find."""

    candidates: Candidates
    #: Nodes where the preemptor fits without some pods, but not without these and others.
    irregular: frozenset[str]


def expected(objects: list[Object], upstream: Verdicts, *, frees: bool = True) -> Expected:
    """Return what the preemption of the pending pod has to find.

    Args:
        objects: A cluster with one pending pod.
        upstream: Answers whether the pod fits.
        frees: Whether preemption frees devices.

    Raises:
        AssertionError: Somebody is evicted without whom the pod would fit as well.
    """
    cluster = _Cluster(objects)
    removals = {node: [*_subsets(lower)] for node, lower in cluster.lower.items()}
    hypotheses = [
        {"node": node, "without": sorted(removed), "freed": cluster.freed(removed) if frees else []}
        for node, each in removals.items()
        for removed in each
    ]
    answers = iter(upstream.verdicts(objects, hypotheses))
    nodes = {
        node: Fits(cluster.lower[node], {removed: next(answers) for removed in each})
        for node, each in removals.items()
    }
    fits = any(found(()) for found in nodes.values())
    fails = any(found.statuses[frozenset()]["code"] == _ERROR for found in nodes.values())
    candidates: Candidates = dict.fromkeys(nodes)
    irregular = {node for node, found in nodes.items() if not found.is_monotone()}
    for node, found in nodes.items():
        if not fits and not fails and found.is_resolvable(frees=frees):
            candidates[node] = victims = found.victims()
            if node not in irregular:
                assert (victims is not None) == any(map(found, found.statuses)), node
                assert victims is None or found.is_minimal(victims), node
    return Expected(candidates, frozenset(irregular))


def compare(found: Candidates, rules: Expected) -> list[str]:
    """Return how candidates differ from what the rules say, a line for each node."""
    return [
        f"{node}: {_told(found, node)}, upstream {_told(rules.candidates, node)}"
        for node in sorted(found.keys() | rules.candidates.keys())
        if found.get(node) != rules.candidates.get(node)
    ]


def _told(candidates: Candidates, node: str) -> str:
    victims = candidates.get(node)
    return "no candidate" if victims is None else f"candidate without {sorted(victims)}"


def _subsets(pods: Iterable[str]) -> Iterator[_Some]:
    pods = tuple(pods)
    sizes = range(len(pods) + 1)
    return map(frozenset, chain.from_iterable(combinations(pods, size) for size in sizes))


def _key(item: Object) -> str:
    return f"{item['metadata'].get('namespace', 'default')}/{item['metadata']['name']}"


def _priority(pod: Object) -> int:
    return int(pod["spec"].get("priority", 0))


class _Cluster:
    """The objects of a cluster, and what evictions mean."""

    def __init__(self, objects: list[Object]) -> None:
        kinds: dict[str, list[Object]] = {}
        for item in objects:
            kinds.setdefault(item["kind"], []).append(item)
        self._budgets = kinds.get("PodDisruptionBudget", [])
        pods = kinds["Pod"]
        (preemptor,) = (pod for pod in pods if "nodeName" not in pod["spec"])
        self._uids = {_key(pod): pod["metadata"]["uid"] for pod in pods}
        own = _claims_of(preemptor)
        self._claims = [claim for claim in kinds.get("ResourceClaim", []) if _key(claim) not in own]
        #: The pods of each node that may be evicted, in the order in which they are reprieved.
        self.lower: dict[str, tuple[str, ...]] = {}
        for node in kinds["Node"]:
            name = node["metadata"]["name"]
            lower = [
                pod
                for pod in pods
                if pod["spec"].get("nodeName") == name
                and pod["status"].get("phase") not in ("Succeeded", "Failed")
                and _priority(pod) < _priority(preemptor)
            ]
            self.lower[name] = self._ranked(lower)

    def freed(self, removed: _Some) -> list[str]:
        """Return the claims that lose their devices without some pods.

        All consumers are removed pods, and there is one. A claim of the preemptor is not touched.
        """
        uids = {self._uids[pod] for pod in removed}
        return [_key(claim) for claim in self._claims if _falls(claim.get("status", {}), uids)]

    def _ranked(self, pods: list[Object]) -> tuple[str, ...]:
        """Return pods by importance, first those whose eviction would violate a budget."""
        pods = sorted(pods, key=lambda pod: (-_priority(pod), pod["status"]["startTime"]))
        left = {
            _key(budget): budget["status"].get("disruptionsAllowed", 0) for budget in self._budgets
        }
        violating = []
        for pod in pods:
            mine = [_key(each) for each in self._budgets if _protects(each, pod)]
            for budget in mine:
                left[budget] -= 1
            if any(left[budget] < 0 for budget in mine):
                violating.append(pod)
        others = (pod for pod in pods if pod not in violating)
        return tuple(_key(pod) for pod in [*violating, *others])


def _falls(status: Object, removed: set[str]) -> bool:
    consumers = status.get("reservedFor", [])
    return (
        status.get("allocation") is not None
        and bool(consumers)
        and all(
            not each.get("apiGroup") and each["resource"] == "pods" and each["uid"] in removed
            for each in consumers
        )
    )


def _claims_of(pod: Object) -> set[str]:
    """Return the claims that a pod uses."""
    generated = pod.get("status", {}).get("resourceClaimStatuses", [])
    names = {each["name"]: each.get("resourceClaimName") for each in generated}
    namespace = pod["metadata"].get("namespace", "default")
    return {
        f"{namespace}/{each.get('resourceClaimName') or names.get(each['name'])}"
        for each in pod["spec"].get("resourceClaims", [])
    }


def _protects(budget: Object, pod: Object) -> bool:
    """Return whether the eviction of a pod counts against a budget."""
    metadata, selector = pod["metadata"], budget["spec"].get("selector")
    if (
        selector is None
        or budget["metadata"]["namespace"] != metadata["namespace"]
        or metadata["name"] in budget["status"].get("disruptedPods", {})
    ):
        return False
    labels = metadata.get("labels", {})
    return all(
        labels.get(name) == value for name, value in selector.get("matchLabels", {}).items()
    ) and all(_meets(each, labels) for each in selector.get("matchExpressions", []))


def _meets(requirement: Object, labels: dict[str, str]) -> bool:
    value = labels.get(requirement["key"])
    has = value is not None
    return {
        "In": has and value in requirement.get("values", []),
        "NotIn": value not in requirement.get("values", []),
        "Exists": has,
        "DoesNotExist": not has,
    }[requirement["operator"]]
