"""Computes the effective resource requests of a pod over all its containers.

Requests are mappings from resource name to integers in column units: milli-units for cpu, whole
units for the rest. Sums and maxima are exact, in billionths: two containers with `memory: 500m`
need one byte together. The total of a pod is rounded up to column units once, at the end.

Source: component-helpers v0.36.3 resource.PodRequests, AggregateContainerRequests.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from scheduler.model.api import quantity
from scheduler.model.api.objects import Container, ContainerStatus, Pod, Quantities

__all__ = [
    "CPU",
    "EPHEMERAL_STORAGE",
    "MEMORY",
    "MOST_RESOURCES",
    "PODS",
    "Requests",
    "amounts",
    "counted",
    "device_class_resource",
    "is_extended",
    "may_be_devices",
    "non_zero_requests",
    "number_of_names",
    "pod_requests",
    "resize_infeasible",
    "scored_requests",
    "too_many",
]

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"

#: The requests that scores assume for a container without requests (milli-cpu, bytes).
#: Source: kube-scheduler v1.36.3 util.DefaultMilliCPURequest, DefaultMemoryRequest.
DEFAULTS: Final = {CPU: 100, MEMORY: 200 * 1024 * 1024}

_NATIVE: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})

_DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"

#: Pods that name more resources are not scheduled: each name makes every attempt slower, and the
#: API server accepts tens of thousands in one pod.
MOST_RESOURCES: Final = 128

Requests = dict[str, int]

#: Billionths in one column unit.
_MILLI: Final = 10**6
_WHOLE: Final = 10**9


@dataclass(frozen=True, slots=True)
class _Rule:
    """Which requests of a pod count."""

    #: Also count what the kubelet granted during an in-place resize.
    status_aware: bool = False
    #: `spec.resources` replaces the sum of the containers.
    pod_level: bool = True
    #: Apply defaults, in column units, to containers that name no request for these resources.
    defaults: Mapping[str, int] | None = None
    #: Count only resources with a default in `DEFAULTS`.
    defaulted_only: bool = False

    def amounts(self, quantities: Quantities) -> Requests:
        """Return the quantities that count, in billionths."""
        if self.defaulted_only:
            named = [(name, quantities[name]) for name in DEFAULTS if name in quantities]
            return {name: quantity.exact(text) for name, text in named}
        return {name: quantity.exact(text) for name, text in quantities.items() if counted(name)}

    def pod_level_amounts(self, quantities: Quantities) -> Requests:
        """Return the quantities that can be set at pod level, in billionths."""
        return {
            name: amount
            for name, amount in self.amounts(quantities).items()
            if name in (CPU, MEMORY) or name.startswith("hugepages-")
        }


def counted(name: str) -> bool:
    """Return whether a resource takes part in scheduling; others are ignored.

    Source: kube-scheduler v1.36.3 util.IsScalarResourceName, framework.Resource.Add.
    """
    return (
        name in _NATIVE
        or is_extended(name)
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
    )


def is_extended(name: str) -> bool:
    """Return whether a name is an extended resource: with a domain that is not Kubernetes' own.

    Source: component-helpers v0.36.3 scheduling/corev1.IsExtendedResourceName.
    """
    domain, slash, _ = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return len(domain) + len("requests.") <= 253


def device_class_resource(name: str) -> str:
    """Return the resource by which every pod may request devices of a class.

    Source: api v0.36.3 resource/v1.ResourceDeviceClassPrefix.
    """
    return _DEVICE_CLASS_PREFIX + name


def may_be_devices(name: str) -> bool:
    """Return whether a device class could provide a resource.

    Source: kube-scheduler v1.36.3 util.IsDRAExtendedResourceName.
    """
    return is_extended(name) or name.startswith(_DEVICE_CLASS_PREFIX)


def amounts(quantities: Quantities) -> Requests:
    """Return quantities as integers in column units, without resources that do not count.

    Raises:
        QuantityError: One of them is not a quantity.
    """
    return {
        name: quantity.milli_value(text) if name == CPU else quantity.value(text)
        for name, text in quantities.items()
        if counted(name) or name == PODS
    }


def too_many(pod: Pod) -> bool:
    """Return whether a pod names more than `MOST_RESOURCES` resources."""
    counts = [len(quantities) for quantities in _requests(pod)]
    if sum(counts) <= MOST_RESOURCES:
        return False
    return max(counts) > MOST_RESOURCES or number_of_names(pod) > MOST_RESOURCES


def number_of_names(pod: Pod) -> int:
    """Return the number of resources that a pod names."""
    return len(frozenset[str]().union(*_requests(pod)))


def _requests(pod: Pod) -> list[Quantities]:
    spec = pod.spec
    containers = (*spec.containers, *spec.init_containers)
    requests = [container.resources.requests for container in containers]
    requests.append(spec.overhead)
    return requests


def pod_requests(pod: Pod, *, status_aware: bool = False) -> Requests:
    """Return the effective requests of a pod.

    With `status_aware` a container during an in-place resize counts with the larger of what it
    requests and what it has; pods on nodes are counted so.

    Raises:
        QuantityError: A request is not a quantity.
    """
    return _aggregate(pod, _Rule(status_aware=status_aware))


def non_zero_requests(pod: Pod) -> Requests:
    """Return cpu and memory of a pod on a node for scores, with defaults for missing requests.

    Source: kube-scheduler v1.36.3 framework.PodInfo.CalculateResource.
    """
    defaults = DEFAULTS
    spec = pod.spec
    rule = _Rule(status_aware=True, defaulted_only=True)
    if spec.resources is not None and _Rule().pod_level_amounts(spec.resources.requests):
        named = _aggregate(pod, rule)
        defaults = {name: amount for name, amount in DEFAULTS.items() if name not in named}
    requests = _aggregate(pod, replace(rule, defaults=defaults))
    return {name: requests.get(name, 0) for name in DEFAULTS}


def scored_requests(pod: Pod) -> Requests:
    """Return the requests of the incoming pod for the fit score.

    Defaults apply to cpu and memory of every container, and `spec.resources` is ignored: upstream's
    score does not take pod-level requests into account.

    Source: kube-scheduler v1.36.3 noderesources.calculatePodResourceRequest.
    """
    return _aggregate(pod, _Rule(pod_level=False, defaults=DEFAULTS))


def _aggregate(pod: Pod, rule: _Rule) -> Requests:
    """Sum containers and sidecars, cover init containers, apply pod level and overhead.

    Returns:
        Column units, rounded up; the functions below use billionths.
    """
    spec, status = pod.spec, pod.status
    infeasible = rule.status_aware and resize_infeasible(pod)
    granted = _granted(status.container_statuses) if rule.status_aware else {}
    total: Requests = {}
    for container in spec.containers:
        _add(total, _container(container, granted, rule, infeasible=infeasible))
    if spec.init_containers:
        granted = _granted(status.init_container_statuses) if rule.status_aware else {}
        peak: Requests = {}
        sidecars: Requests = {}
        for container in spec.init_containers:
            always = container.restart_policy == "Always"
            need = _container(container, granted if always else {}, rule, infeasible=infeasible)
            if always:
                _add(total, need)
                _add(sidecars, need)
            # The peak already covers all sidecars in resources that this container does not name.
            own = {} if always else need
            _raise_to(peak, {name: sidecars.get(name, 0) + own.get(name, 0) for name in need})
        _raise_to(total, peak)
    if rule.pod_level and spec.resources is not None:
        total |= _pod_requests_at_pod_level(pod, rule, infeasible=infeasible)
    _add(total, rule.amounts(spec.overhead))
    return {name: quantity.ceil_capped(amount, _unit(name)) for name, amount in total.items()}


def _unit(name: str) -> int:
    """Return the column unit of a resource in billionths."""
    return _MILLI if name == CPU else _WHOLE


def _pod_requests_at_pod_level(pod: Pod, rule: _Rule, *, infeasible: bool) -> Requests:
    resources = pod.spec.resources
    need = rule.pod_level_amounts(resources.requests) if resources else {}
    status = pod.status
    if rule.status_aware and status.resources is not None:
        have = [
            rule.pod_level_amounts(status.resources.requests),
            rule.pod_level_amounts(status.allocated_resources),
        ]
        need = _largest(have if infeasible else [need, *have])
    return need


def _container(
    container: Container, granted: Mapping[str, ContainerStatus], rule: _Rule, *, infeasible: bool
) -> Requests:
    need = rule.amounts(container.resources.requests)
    status = granted.get(container.name)
    if status is not None and status.resources is not None:
        have = [
            rule.amounts(status.resources.requests),
            rule.amounts(status.allocated_resources),
        ]
        need = _largest(have if infeasible else [need, *have])
    for name, default in (rule.defaults or {}).items():
        need.setdefault(name, default * _unit(name))
    return need


def _granted(statuses: Iterable[ContainerStatus]) -> dict[str, ContainerStatus]:
    return {status.name: status for status in statuses if status.resources is not None}


def resize_infeasible(pod: Pod) -> bool:
    """Return whether the kubelet has reported that the pod's pending resize is infeasible."""
    pending = pod.condition("PodResizePending")
    return pending is not None and pending.reason == "Infeasible"


def _add(total: Requests, more: Requests) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Requests, floor: Requests) -> None:
    for name, amount in floor.items():
        if amount > total.get(name, -1):
            total[name] = amount


def _largest(alternatives: Iterable[Requests]) -> Requests:
    largest: Requests = {}
    for requests in alternatives:
        _raise_to(largest, requests)
    return largest
