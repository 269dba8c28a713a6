"""What a pod asks for: effective requests over all its containers.

Requests are mappings from resource name to integers in column units: milli-units for cpu, whole
units for the rest. Sums and maxima are exact, in billionths: two containers with `memory: 500m`
need one byte together. What a pod needs is rounded up to column units once, at the end.

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

#: What a container that names no request counts for in scores (milli-cpu, bytes).
#: Source: kube-scheduler v1.36.3 util.DefaultMilliCPURequest, DefaultMemoryRequest.
DEFAULTS: Final = {CPU: 100, MEMORY: 200 * 1024 * 1024}

_NATIVE: Final = frozenset({CPU, MEMORY, EPHEMERAL_STORAGE})

_DEVICE_CLASS_PREFIX: Final = "deviceclass.resource.kubernetes.io/"

#: Pods that name more resources are not scheduled: each name costs every attempt, and the API
#: server takes tens of thousands in one pod.
MOST_RESOURCES: Final = 128

Requests = dict[str, int]

#: Billionths in one column unit.
_MILLI: Final = 10**6
_WHOLE: Final = 10**9


@dataclass(frozen=True, slots=True)
class _Rule:
    """How the requests of one pod are read."""

    #: Count what the kubelet granted during an in-place resize as well.
    status_aware: bool = False
    #: Let `spec.resources` replace the sum of the containers.
    pod_level: bool = True
    #: Apply defaults, in column units, to containers that name no request for these resources.
    defaults: Mapping[str, int] | None = None
    #: Whether only resources with a default in `DEFAULTS` are wanted.
    defaulted_only: bool = False

    def amounts(self, quantities: Quantities) -> Requests:
        """Return the quantities that count, in billionths."""
        if self.defaulted_only:
            few = [(name, quantities[name]) for name in DEFAULTS if name in quantities]
            return {name: quantity.exact(text) for name, text in few}
        return {name: quantity.exact(text) for name, text in quantities.items() if counted(name)}

    def pod_level_amounts(self, quantities: Quantities) -> Requests:
        """Return those that can be set for a whole pod."""
        return {
            name: each
            for name, each in self.amounts(quantities).items()
            if name in (CPU, MEMORY) or name.startswith("hugepages-")
        }


def counted(name: str) -> bool:
    """Tell whether a resource takes part in scheduling; others are ignored.

    Source: kube-scheduler v1.36.3 util.IsScalarResourceName, framework.Resource.Add.
    """
    return (
        name in _NATIVE
        or is_extended(name)
        or name.startswith(("hugepages-", "attachable-volumes-"))
        or "kubernetes.io/" in name
    )


def is_extended(name: str) -> bool:
    """Tell whether a name is an extended resource: with a domain that is not Kubernetes' own.

    Source: component-helpers v0.36.3 scheduling/corev1.IsExtendedResourceName.
    """
    domain, slash, _ = name.partition("/")
    if not slash or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return len(domain) + len("requests.") <= 253


def device_class_resource(name: str) -> str:
    """Return the resource under which every pod may ask for the devices of a class.

    Source: api v0.36.3 resource/v1.ResourceDeviceClassPrefix.
    """
    return _DEVICE_CLASS_PREFIX + name


def may_be_devices(name: str) -> bool:
    """Tell whether a device class could provide a resource.

    Source: kube-scheduler v1.36.3 util.IsDRAExtendedResourceName.
    """
    return is_extended(name) or name.startswith(_DEVICE_CLASS_PREFIX)


def amounts(quantities: Quantities) -> Requests:
    """Return quantities as integers in column units, uncounted resources left out.

    Raises:
        QuantityError: One of them is no quantity.
    """
    return {
        name: quantity.milli_value(text) if name == CPU else quantity.value(text)
        for name, text in quantities.items()
        if counted(name) or name == PODS
    }


def too_many(pod: Pod) -> bool:
    """Tell whether a pod names more than `MOST_RESOURCES` resources."""
    counts = [len(each) for each in _requests(pod)]
    if sum(counts) <= MOST_RESOURCES:
        return False
    return max(counts) > MOST_RESOURCES or number_of_names(pod) > MOST_RESOURCES


def number_of_names(pod: Pod) -> int:
    """Return how many resources a pod names."""
    return len(frozenset[str]().union(*_requests(pod)))


def _requests(pod: Pod) -> list[Quantities]:
    spec = pod.spec
    requests = [each.resources.requests for each in (*spec.containers, *spec.init_containers)]
    requests.append(spec.overhead)
    return requests


def pod_requests(pod: Pod, *, status_aware: bool = False) -> Requests:
    """Return the effective requests of a pod.

    With `status_aware` a container in the middle of an in-place resize counts for the larger of
    what it wants and what it has; that is how pods on nodes are counted.

    Raises:
        QuantityError: A request is no quantity.
    """
    return _aggregate(pod, _Rule(status_aware=status_aware))


def non_zero_requests(pod: Pod) -> Requests:
    """Return cpu and memory as scores count pods on nodes: missing requests at their defaults.

    Source: kube-scheduler v1.36.3 framework.PodInfo.CalculateResource.
    """
    defaults = DEFAULTS
    spec = pod.spec
    rule = _Rule(status_aware=True, defaulted_only=True)
    if spec.resources is not None and _Rule().pod_level_amounts(spec.resources.requests):
        named = _aggregate(pod, rule)
        defaults = {name: each for name, each in DEFAULTS.items() if name not in named}
    found = _aggregate(pod, replace(rule, defaults=defaults))
    return {name: found.get(name, 0) for name in DEFAULTS}


def scored_requests(pod: Pod) -> Requests:
    """Return what the fit score counts for the pod that is being placed.

    Defaults apply to cpu and memory of every container, and `spec.resources` is ignored: upstream's
    score never hears of pod-level requests.

    Source: kube-scheduler v1.36.3 noderesources.calculatePodResourceRequest.
    """
    return _aggregate(pod, _Rule(pod_level=False, defaults=DEFAULTS))


def _aggregate(pod: Pod, rule: _Rule) -> Requests:
    """Sum containers and sidecars, cover init containers, apply pod level and overhead.

    Returns:
        Column units, rounded up; all below is in billionths.
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
            # Of what it does not name, the peak has covered all sidecars before.
            beside = {} if always else need
            wanted = {name: sidecars.get(name, 0) + beside.get(name, 0) for name in need}
            _raise_to(peak, wanted)
        _raise_to(total, peak)
    if rule.pod_level and spec.resources is not None:
        total |= _pod_requests_at_pod_level(pod, rule, infeasible=infeasible)
    _add(total, rule.amounts(spec.overhead))
    return {name: quantity.ceil_capped(each, _unit(name)) for name, each in total.items()}


def _unit(name: str) -> int:
    """Return how many billionths the column unit of a resource has."""
    return _MILLI if name == CPU else _WHOLE


def _pod_requests_at_pod_level(pod: Pod, rule: _Rule, *, infeasible: bool) -> Requests:
    resources = pod.spec.resources
    found = rule.pod_level_amounts(resources.requests) if resources else {}
    status = pod.status
    if rule.status_aware and status.resources is not None:
        have = [
            rule.pod_level_amounts(status.resources.requests),
            rule.pod_level_amounts(status.allocated_resources),
        ]
        found = _largest(have if infeasible else [found, *have])
    return found


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
    """Tell whether the kubelet will not grant the resize that a pod waits for."""
    pending = pod.condition("PodResizePending")
    return pending is not None and pending.reason == "Infeasible"


def _add(total: Requests, more: Requests) -> None:
    for name, each in more.items():
        total[name] = total.get(name, 0) + each


def _raise_to(total: Requests, floor: Requests) -> None:
    for name, each in floor.items():
        if each > total.get(name, -1):
            total[name] = each


def _largest(all_of: Iterable[Requests]) -> Requests:
    largest: Requests = {}
    for each in all_of:
        _raise_to(largest, each)
    return largest
