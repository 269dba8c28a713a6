"""Computes the effective resource requests of a pod over all its containers.

Requests are mappings from resource name to integers in column units: milli-units for cpu, whole
units for the rest. Sums and maxima are exact, in billionths: two containers with `memory: 500m`
need one byte together. The total of a pod is rounded up to column units once, at the end.

Source: component-helpers v0.36.3 resource.PodRequests, AggregateContainerRequests.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from scheduler.model.api import quantity
from scheduler.model.api.objects import Container, ContainerStatus, Pod, Quantities
from scheduler.model.releases import OLDEST, Reference

__all__ = [
    "CPU",
    "EPHEMERAL_STORAGE",
    "MAX_RESOURCES",
    "MEMORY",
    "PODS",
    "Requests",
    "amounts",
    "counted",
    "device_class_resource",
    "is_extended",
    "may_be_devices",
    "names",
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
MAX_RESOURCES: Final = 128

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
    #: The release of kube-scheduler whose rule for resizes holds.
    reference: Reference = OLDEST

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
    """Return whether a pod names more than `MAX_RESOURCES` resources."""
    counts = [len(quantities) for quantities in _requests(pod)]
    if sum(counts) <= MAX_RESOURCES:
        return False
    return max(counts) > MAX_RESOURCES or number_of_names(pod) > MAX_RESOURCES


def number_of_names(pod: Pod) -> int:
    """Return the number of resources that a pod names."""
    return len(frozenset(names(pod)))


def names(pod: Pod) -> Iterator[str]:
    """Yield the names of the resources of the containers and the overhead, some more than once."""
    return itertools.chain.from_iterable(_requests(pod))


def _requests(pod: Pod) -> list[Quantities]:
    spec = pod.spec
    containers = (*spec.containers, *spec.init_containers)
    requests = [container.resources.requests for container in containers]
    requests.append(spec.overhead)
    return requests


def pod_requests(
    pod: Pod, *, status_aware: bool = False, reference: Reference = OLDEST
) -> Requests:
    """Return the effective requests of a pod.

    With `status_aware` a pod during an in-place resize counts with the larger of what it requests
    and what it has, as the release has it; pods on nodes are counted so.

    Raises:
        QuantityError: A request is not a quantity.
    """
    return _aggregate(pod, _Rule(status_aware=status_aware, reference=reference))


def non_zero_requests(pod: Pod, reference: Reference = OLDEST) -> Requests:
    """Return cpu and memory of a pod on a node for scores, with defaults for missing requests.

    Source: kube-scheduler v1.36.3 framework.PodInfo.CalculateResource.
    """
    defaults = DEFAULTS
    spec = pod.spec
    rule = _Rule(status_aware=True, defaulted_only=True, reference=reference)
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
    """Sum the containers, apply pod level and overhead.

    Returns:
        Column units, rounded up; the functions below use billionths.
    """
    spec = pod.spec
    infeasible = rule.status_aware and resize_infeasible(pod)
    if not rule.status_aware:
        total = _sum(pod, _Need(rule, {}))
    elif rule.reference.resizes_by_container:
        total = _sum(pod, _LargestOfContainer(pod, rule, infeasible=infeasible))
    else:
        total = _largest_sum(pod, rule, infeasible=infeasible)
    if rule.pod_level and spec.resources is not None:
        total |= _pod_requests_at_pod_level(pod, rule, infeasible=infeasible)
    _add(total, rule.amounts(spec.overhead))
    return {name: quantity.ceil_capped(amount, _unit(name)) for name, amount in total.items()}


def _sum(pod: Pod, needs: "_Need") -> Requests:
    """Return the requests of all containers: sum containers and sidecars, cover init containers."""
    total: Requests = {}
    for container in pod.spec.containers:
        _add(total, needs.of(container))
    peak: Requests = {}
    sidecars: Requests = {}
    for container in pod.spec.init_containers:
        need = needs.of(container)
        always = _is_sidecar(container)
        if always:
            _add(total, need)
            _add(sidecars, need)
        # The peak already covers all sidecars in resources that this container does not name.
        own = {} if always else need
        _raise_to(peak, {name: sidecars.get(name, 0) + own.get(name, 0) for name in need})
    _raise_to(total, peak)
    return total


def _largest_sum(pod: Pod, rule: _Rule, *, infeasible: bool) -> Requests:
    """Return the largest of what a pod requests, what it was allocated and what it has.

    Source: component-helpers v0.37.2 resource.AggregateContainerRequests.
    """
    status = pod.status
    spec = [] if infeasible else [_sum(pod, _Need(rule, {}))]
    if status.allocated_resources and status.resources and status.resources.requests:
        # The kubelet has summed the containers already.
        have = [status.resources.requests, status.allocated_resources]
        return _largest([*spec, *map(rule.amounts, have)])
    return _largest(
        [
            *spec,
            _sum(pod, _Actual(pod, rule, infeasible=infeasible)),
            _sum(pod, _Allocated(pod, rule, infeasible=infeasible)),
        ]
    )


class _Need:
    """What each container needs: its requests."""

    def __init__(self, rule: _Rule, statuses: Mapping[str, ContainerStatus]) -> None:
        self._rule = rule
        self._statuses = statuses

    def of(self, container: Container) -> Requests:
        """Return what a container needs, with defaults, in billionths."""
        need = self._without_defaults(container, self._statuses.get(container.name))
        for name, default in (self._rule.defaults or {}).items():
            need.setdefault(name, default * _unit(name))
        return need

    def _without_defaults(self, container: Container, _: ContainerStatus | None) -> Requests:
        return self._rule.amounts(container.resources.requests)


class _LargestOfContainer(_Need):
    """The largest of what a container requests, was allocated and has.

    Init containers that end before the others start count with their requests.

    Source: component-helpers v0.36.3 resource.determineEffectiveRequests.
    """

    def __init__(self, pod: Pod, rule: _Rule, *, infeasible: bool) -> None:
        sidecars = {each.name for each in pod.spec.init_containers if _is_sidecar(each)}
        init = (each for each in pod.status.init_container_statuses if each.name in sidecars)
        super().__init__(rule, _by_name(*init, *pod.status.container_statuses))
        self._infeasible = infeasible

    def _without_defaults(self, container: Container, status: ContainerStatus | None) -> Requests:
        amounts = self._rule.amounts
        need = amounts(container.resources.requests)
        if status is None or status.resources is None:
            return need
        have = [amounts(status.resources.requests), amounts(status.allocated_resources)]
        return _largest(have if self._infeasible else [need, *have])


class _Allocated(_Need):
    """What the kubelet allocated to each container; what it requests if that is not known.

    Source: component-helpers v0.37.2 resource.containerAllocatedRequests.
    """

    def __init__(self, pod: Pod, rule: _Rule, *, infeasible: bool) -> None:
        statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
        super().__init__(rule, _by_name(*statuses))
        self._infeasible = infeasible

    def _without_defaults(self, container: Container, status: ContainerStatus | None) -> Requests:
        if status is not None and status.allocated_resources:
            return self._rule.amounts(status.allocated_resources)
        return {} if self._infeasible else self._rule.amounts(container.resources.requests)


class _Actual(_Allocated):
    """What each container has; what it was allocated if that is not known.

    Source: component-helpers v0.37.2 resource.containerActuatedRequests.
    """

    def _without_defaults(self, container: Container, status: ContainerStatus | None) -> Requests:
        if status is not None and status.resources is not None and status.resources.requests:
            return self._rule.amounts(status.resources.requests)
        return super()._without_defaults(container, status)


def _is_sidecar(container: Container) -> bool:
    return container.restart_policy == "Always"


def _by_name(*statuses: ContainerStatus) -> dict[str, ContainerStatus]:
    return {status.name: status for status in statuses}


def _unit(name: str) -> int:
    """Return the column unit of a resource in billionths."""
    return _MILLI if name == CPU else _WHOLE


def _pod_requests_at_pod_level(pod: Pod, rule: _Rule, *, infeasible: bool) -> Requests:
    resources = pod.spec.resources
    need = rule.pod_level_amounts(resources.requests) if resources else {}
    status = pod.status
    if not need or not rule.status_aware or status.resources is None:
        return need
    have = [
        rule.pod_level_amounts(status.resources.requests),
        rule.pod_level_amounts(status.allocated_resources),
    ]
    largest = _largest(have if infeasible else [need, *have])
    if rule.reference.resizes_by_container:
        return {name: largest.get(name, 0) for name in need}
    return largest


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
