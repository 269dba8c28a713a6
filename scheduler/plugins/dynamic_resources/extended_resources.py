"""Extended resources of a pod that devices provide: which ones, and the requests for them.

Source: kube-scheduler v1.36.3 dynamicresources.filterExtendedResources,
createRequestsAndMappings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from scheduler.model.api import quantity, resources
from scheduler.model.api.devices import EXACT_COUNT, DeviceRequests, ExactRequest, Request
from scheduler.model.api.objects import Container, Pod
from scheduler.model.effects import RequestMapping

__all__ = ["IN_MEMORY_NAME", "DeviceBacked", "requested_resources", "requests_for"]

#: The name of the claim as long as it exists in memory only; no claim can have it.
IN_MEMORY_NAME: Final = "<extended-resources>"


class DeviceBacked(NamedTuple):
    """The requests for the extended resources that one node takes from devices."""

    devices: DeviceRequests
    mappings: tuple[RequestMapping, ...]


@dataclass(slots=True)
class _Needed:
    """A request of one container for one resource."""

    name: str
    count: int


def requested_resources(pod: Pod) -> dict[str, int]:
    """Return the extended resources that a pod requests, by name, and that devices may provide."""
    if resources.too_many(pod) or not any(map(resources.may_be_devices, resources.names(pod))):
        return {}
    requests = resources.pod_requests(pod)
    return {
        name: requests[name]
        for name in sorted(requests)
        if requests[name] and resources.may_be_devices(name)
    }


def requests_for(pod: Pod, classes: Mapping[str, str]) -> DeviceBacked:
    """Return the requests of the claim for extended resources.

    Args:
        pod: The pod.
        classes: The class by resource, for the resources that the node takes from devices.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    short = {
        number
        for number, container in enumerate(pod.spec.init_containers)
        if container.restart_policy != "Always"
    }
    requests: list[Request] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(classes):
        needed, mapped = _of_resource(resource, containers, short)
        mappings += mapped
        requests += [
            Request(
                each.name,
                ExactRequest(
                    device_class_name=classes[resource],
                    allocation_mode=EXACT_COUNT,
                    count=each.count,
                ),
            )
            for each in needed
        ]
    requests.sort(key=lambda request: request.name)
    return DeviceBacked(DeviceRequests(requests), tuple(mappings))


def _of_resource(
    resource: str, containers: Sequence[Container], short: set[int]
) -> tuple[list[_Needed], list[RequestMapping]]:
    """Return the requests for one resource, and which container uses which of them.

    Args:
        resource: Its name.
        containers: Init containers, then containers.
        short: The numbers of those that end before the next one starts.
    """
    lasting: dict[int, _Needed] = {}
    mappings: list[RequestMapping] = []
    for number, container in enumerate(containers):
        count = 0 if number in short else _count(container, resource)
        if count:
            needed = lasting[number] = _Needed(_name(number, container, resource), count)
            mappings.append(RequestMapping(container.name, resource, needed.name))
    largest: _Needed | None = None
    own: set[str] = set()
    of_short: list[RequestMapping] = []
    for number in sorted(short):
        container = containers[number]
        reusable = [lasting[later] for later in sorted(lasting) if later >= number]
        more, used = _reusing(number, container, resource, reusable)
        of_short += used
        if more is not None:
            own.add(more.name)
            if largest is None or largest.count < more.count:
                largest = more
    if largest is not None:
        of_short = [
            RequestMapping(each.container_name, each.resource_name, largest.name)
            if each.request_name in own
            else each
            for each in of_short
        ]
    every = [*lasting.values()] if largest is None else [largest, *lasting.values()]
    return every, [*mappings, *of_short]


def _reusing(
    number: int, container: Container, resource: str, reusable: Sequence[_Needed]
) -> tuple[_Needed | None, list[RequestMapping]]:
    """Return what a container needs besides requests of containers that start later."""
    count = _count(container, resource)
    mappings: list[RequestMapping] = []
    if not count:
        return None, mappings
    have = 0
    for other in reusable:
        have += other.count
        mappings.append(RequestMapping(container.name, resource, other.name))
        if have >= count:
            return None, mappings
    needed = _Needed(_name(number, container, resource), count - have)
    mappings.append(RequestMapping(container.name, resource, needed.name))
    return needed, mappings


def _count(container: Container, resource: str) -> int:
    amount = container.resources.requests.get(resource)
    return 0 if amount is None else quantity.value(amount)


def _name(number: int, container: Container, resource: str) -> str:
    position = sorted(container.resources.requests).index(resource)
    return f"container-{number}-request-{position}"
