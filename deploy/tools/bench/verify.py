"""Checks whether the result of a run counts: a fast run with wrong decisions does not.

It checks the objects of the API server after the run, and shares no code with the scheduler. It
supports the pods of the benchmark only: selectors with `matchLabels`, and requirements with `In`.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

from deploy.tools.bench.templates import Json

__all__ = ["Cluster", "lost", "problems", "quantity"]

#: How many problems of each kind are reported.
TOLD: Final = 3

_UNITS: Final = {"m": Fraction(1, 1000), "": Fraction(1)}
_UNITS.update({f"{unit}i": Fraction(1024**power) for power, unit in enumerate("KMGT", 1)})
_UNITS.update({unit: Fraction(1000**power) for power, unit in enumerate("kMGT", 1)})

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True)
class Cluster:
    """The objects after a run, as JSON."""

    nodes: Sequence[Json]
    pods: Sequence[Json]
    namespaces: Sequence[Json] = ()
    csi_nodes: Sequence[Json] = ()
    #: Resource claims.
    claims: Sequence[Json] = ()

    def placed(self) -> Iterator[tuple[Json, Json]]:
        """Yield each bound pod with its node."""
        nodes = {node["metadata"]["name"]: node for node in self.nodes}
        for pod in self.pods:
            name = pod["spec"].get("nodeName")
            if name:
                yield pod, nodes[name]

    def claims_by_key(self) -> Mapping[tuple[str, str], Json]:
        """Return the resource claims by namespace and name."""
        return {_key(claim): claim for claim in self.claims}


def problems(cluster: Cluster, measured: set[tuple[str, str]]) -> list[str]:
    """Return the problems: measured pods without a node, and violated rules."""
    found = lost(cluster, measured)
    for rule in _RULES:
        found += _told(rule(cluster))
    return found


@cache
def quantity(text: str) -> Fraction:
    """Return the value of a quantity such as 100m, 4 or 32Gi.

    Raises:
        KeyError: the benchmark does not use its unit.
    """
    number = text.rstrip("kKMGTim")
    return Fraction(number) * _UNITS[text[len(number) :]]


def _told(found: Iterable[str]) -> list[str]:
    problems = list(found)
    rest = len(problems) - TOLD
    return problems[:TOLD] + ([f"... and {rest} more like that"] if rest > 0 else [])


def _key(pod: Json) -> tuple[str, str]:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _title(pod: Json) -> str:
    return "/".join(_key(pod))


def _labels(thing: Json) -> Mapping[str, str]:
    labels: Mapping[str, str] = thing["metadata"].get("labels") or {}
    return labels


def lost(cluster: Cluster, measured: set[tuple[str, str]]) -> list[str]:
    """Return the problems of measured pods without a node."""
    return _told(_lost(cluster, measured))


# Rules


def _lost(cluster: Cluster, measured: set[tuple[str, str]]) -> Iterator[str]:
    there = {_key(pod): pod["spec"].get("nodeName") for pod in cluster.pods}
    for key in sorted(measured):
        if key not in there:
            yield f"{'/'.join(key)} is gone"
        elif not there[key]:
            yield f"{'/'.join(key)} has no node"


def _over_allocated(cluster: Cluster) -> Iterator[str]:
    used: dict[str, Counter[str]] = defaultdict(Counter)
    for pod, node in cluster.placed():
        taken = used[node["metadata"]["name"]]
        taken["pods"] += 1
        claimed = _claimed(pod)
        for (container, resource), amount in _requests(pod):
            if (container, resource) not in claimed:
                taken[resource] += amount  # type: ignore[assignment]
    for node in cluster.nodes:
        name = node["metadata"]["name"]
        for resource, total in used[name].items():
            room = quantity(node["status"]["allocatable"].get(resource, "0"))
            if total > room:
                yield f"{name} is over-allocated: {resource} {float(total)} of {float(room)}"


def _requests(pod: Json) -> Iterator[tuple[tuple[str, str], Fraction]]:
    """Yield what each container requests, by names of the container and of the resource."""
    for container in pod["spec"]["containers"]:
        requests = (container.get("resources") or {}).get("requests") or {}
        for resource, amount in requests.items():
            yield (container["name"], resource), quantity(amount)


def _claimed(pod: Json) -> Mapping[tuple[str, str], str]:
    """Return the request of its claim by container and extended resource, where it has one."""
    return {
        (each["containerName"], each["resourceName"]): each["requestName"]
        for each in _extended_status(pod).get("requestMappings") or ()
    }


def _extended_status(pod: Json) -> Json:
    """Return the status of a pod's claim for extended resources; empty if it has none."""
    return pod.get("status", {}).get("extendedResourceClaimStatus") or {}


def _same_ports(cluster: Cluster) -> Iterator[str]:
    taken: set[tuple[str, int]] = set()
    for pod, node in cluster.placed():
        for container in pod["spec"]["containers"]:
            for port in container.get("ports") or ():
                place = (node["metadata"]["name"], port.get("hostPort", 0))
                if place[1] and place in taken:
                    yield f"{_title(pod)}: port {place[1]} of {place[0]} was taken"
                taken.add(place)


def _wrong_nodes(cluster: Cluster) -> Iterator[str]:
    for pod, node in cluster.placed():
        if not _wants(pod, node):
            yield f"{_title(pod)} must not be on {node['metadata']['name']}"


def _wants(pod: Json, node: Json) -> bool:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms")
    return terms is None or any(_fits_term(term, node) for term in terms)


def _fits_term(term: Json, node: Json) -> bool:
    fields = {"metadata.name": node["metadata"]["name"]}
    return all(
        wanted["operator"] == "In" and found.get(wanted["key"]) in wanted["values"]
        for found, list_of_wanted in (
            (_labels(node), term.get("matchExpressions") or ()),
            (fields, term.get("matchFields") or ()),
        )
        for wanted in list_of_wanted
    )


def _broken_pod_affinity(cluster: Cluster) -> Iterator[str]:
    """Yield the pods whose required affinity or anti-affinity is violated."""
    company = _Company(cluster)
    for pod, node in cluster.placed():
        affinity = pod["spec"].get("affinity") or {}
        for term in (affinity.get("podAntiAffinity") or {}).get(_REQUIRED) or ():
            others, _ = company.of(pod, node, term)
            if others:
                yield f"{_title(pod)} is beside {others} pods that it must not be beside"
        for term in (affinity.get("podAffinity") or {}).get(_REQUIRED) or ():
            others, elsewhere = company.of(pod, node, term)
            if not others and elsewhere:  # the first pod of a group may be alone
                yield f"{_title(pod)} is not beside any pod that it must be beside"


class _Company:
    """Counts matching pods by topology domain, once for each distinct term."""

    def __init__(self, cluster: Cluster) -> None:
        self._placed = list(cluster.placed())
        self._namespaces = {each["metadata"]["name"]: _labels(each) for each in cluster.namespaces}
        self._counts: dict[str, Counter[str]] = {}

    def of(self, pod: Json, node: Json, term: Json) -> tuple[int, int]:
        """Return the number of other matching pods in the domain of a pod, and elsewhere."""
        own = pod["metadata"]["namespace"]
        key = term["topologyKey"]
        counts = self._counts.get(f"{own} {term}")
        if counts is None:
            counts = Counter(
                _labels(place).get(key, "")
                for each, place in self._placed
                if self._matches(each, term, own)
            )
            self._counts[f"{own} {term}"] = counts
        here = counts[_labels(node).get(key, "")]
        return here - self._matches(pod, term, own), counts.total() - here

    def _matches(self, pod: Json, term: Json, own: str) -> bool:
        namespace = pod["metadata"]["namespace"]
        named: Sequence[str] = term.get("namespaces") or ()
        selector = term.get("namespaceSelector")
        if selector is None:
            inside = namespace in (named or (own,))
        else:
            inside = namespace in named or _selects(selector, self._namespaces[namespace])
        return inside and _selects(term["labelSelector"], _labels(pod))


def _selects(selector: Json, labels: Mapping[str, str]) -> bool:
    if "matchExpressions" in selector:
        raise NotImplementedError("matchExpressions")
    return (selector.get("matchLabels") or {}).items() <= labels.items()


def _uneven(cluster: Cluster) -> Iterator[str]:
    """Yield the violated hard spread constraints, each distinct one once."""
    placed = list(cluster.placed())
    reported: set[str] = set()
    for pod in cluster.pods:
        for constraint in pod["spec"].get("topologySpreadConstraints") or ():
            own = pod["metadata"]["namespace"]
            if (
                constraint["whenUnsatisfiable"] != "DoNotSchedule"
                or f"{own}{constraint}" in reported
            ):
                continue
            reported.add(f"{own}{constraint}")
            key = constraint["topologyKey"]
            counts = Counter({_labels(node).get(key, ""): 0 for node in cluster.nodes})
            counts.update(
                _labels(node)[key]
                for each, node in placed
                if each["metadata"]["namespace"] == own
                and _selects(constraint["labelSelector"], _labels(each))
            )
            skew = max(counts.values()) - min(counts.values())
            if skew > constraint["maxSkew"]:
                yield f"pods of {own} are spread unevenly over {key}: {dict(counts)}"


def _too_many_volumes(cluster: Cluster) -> Iterator[str]:
    limits = {
        each["metadata"]["name"]: sum(
            driver["allocatable"]["count"] for driver in each["spec"]["drivers"]
        )
        for each in cluster.csi_nodes
    }
    used: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for pod, node in cluster.placed():
        for volume in pod["spec"].get("volumes") or ():
            claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
            if claim:
                used[node["metadata"]["name"]].add((pod["metadata"]["namespace"], claim))
    for name, claims in used.items():
        if name in limits and len(claims) > limits[name]:
            yield f"{name} has {len(claims)} volumes of at most {limits[name]}"


def _devices_used_twice(cluster: Cluster) -> Iterator[str]:
    taken: Counter[tuple[str, str, str]] = Counter()
    for claim in cluster.claims:
        for result in _results(claim):
            taken[result["driver"], result["pool"], result["device"]] += 1
    for device, claims in taken.items():
        if claims > 1:
            yield f"device {'/'.join(device)} is allocated to {claims} claims"


def _wrong_devices(cluster: Cluster) -> Iterator[str]:
    """Yield the pods without the devices of their claims; a pool has the name of its node."""
    claims = cluster.claims_by_key()
    for pod, node in cluster.placed():
        statuses = pod.get("status", {}).get("resourceClaimStatuses") or ()
        for status in filter(None, (*statuses, _extended_status(pod))):
            name = status["resourceClaimName"]
            claim = claims.get((pod["metadata"]["namespace"], name))
            pools = set() if claim is None else {each["pool"] for each in _results(claim)}
            if claim is None or not _is_reserved(claim, pod):
                yield f"{_title(pod)} has a node, and its claim {name} is not reserved for it"
            elif pools != {node["metadata"]["name"]}:
                yield f"{_title(pod)} is on another node than the devices of its claim {name}"


def _missing_devices(cluster: Cluster) -> Iterator[str]:
    """Yield the pods without a device for each unit of an extended resource of a class."""
    claims = cluster.claims_by_key()
    for pod, _ in cluster.placed():
        claimed = _claimed(pod)
        name = _extended_status(pod).get("resourceClaimName", "")
        results = _results(claims.get((pod["metadata"]["namespace"], name), {}))
        counts = Counter(each["request"] for each in results)
        for (container, resource), amount in _requests(pod):
            request = claimed.get((container, resource))
            if request is not None and counts[request] != amount:
                yield f"{_title(pod)} has {counts[request]} devices for {amount} {resource}"


def _results(claim: Json) -> Sequence[Json]:
    allocation = claim.get("status", {}).get("allocation") or {}
    results: Sequence[Json] = allocation.get("devices", {}).get("results") or ()
    return results


def _is_reserved(claim: Json, pod: Json) -> bool:
    consumers = claim.get("status", {}).get("reservedFor") or ()
    return any(each["uid"] == pod["metadata"]["uid"] for each in consumers)


_RULES: Final[tuple[Callable[[Cluster], Iterator[str]], ...]] = (
    _over_allocated,
    _same_ports,
    _wrong_nodes,
    _broken_pod_affinity,
    _uneven,
    _too_many_volumes,
    _devices_used_twice,
    _wrong_devices,
    _missing_devices,
)
