"""Extended resources of a pod that devices provide: which ones, and the requests for them.

Source: kube-scheduler v1.36.3 dynamicresources.filterExtendedResources,
createRequestsAndMappings.
"""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.model.api import quantity, resources
from scheduler.model.api.devices import EXACT_COUNT, DeviceRequest, DeviceRequests, ExactRequest
from scheduler.model.api.objects import Container, Pod
from scheduler.model.effects import RequestMapping

__all__ = [
    "SPECIAL_CLAIM_IN_MEMORY_NAME",
    "RequestsAndMappings",
    "create_requests_and_mappings",
    "requested_resources",
]

#: The name of the claim as long as it exists in memory only; no claim can have it.
SPECIAL_CLAIM_IN_MEMORY_NAME: Final = "<extended-resources>"


class RequestsAndMappings(NamedTuple):
    """The claim spec for the extended resources that one node provides by devices."""

    spec: DeviceRequests
    #: The request for each container and resource.
    mappings: tuple[RequestMapping, ...]


#: The name of a request of one container for one resource, and its number of devices.
_CountedRequest = tuple[str, int]


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


def create_requests_and_mappings(pod: Pod, class_names: Mapping[str, str]) -> RequestsAndMappings:
    """Return the requests of the claim for extended resources, and their containers.

    Args:
        pod: The pod.
        class_names: The class by resource, for the resources that the node provides by devices.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    short_lived = {
        number
        for number, container in enumerate(pod.spec.init_containers)
        if container.restart_policy != "Always"
    }
    requests: list[DeviceRequest] = []
    mappings: list[RequestMapping] = []
    for resource in sorted(class_names):
        of_resource, its_mappings = _requests_for_resource(resource, containers, short_lived)
        mappings += its_mappings
        for name, count in of_resource:
            exactly = ExactRequest(class_names[resource], allocation_mode=EXACT_COUNT, count=count)
            requests.append(DeviceRequest(name, exactly))
    requests.sort(key=lambda request: request.name)
    return RequestsAndMappings(DeviceRequests(requests), tuple(mappings))


def _requests_for_resource(
    resource: str, containers: Sequence[Container], short_lived: set[int]
) -> tuple[list[_CountedRequest], list[RequestMapping]]:
    """Return the requests for one resource, and which container uses which of them.

    Args:
        resource: Its name.
        containers: Init containers, then containers.
        short_lived: The numbers of containers that end before the next one starts.
    """
    long_lived: dict[int, _CountedRequest] = {}
    mappings: list[RequestMapping] = []
    for number, container in enumerate(containers):
        if number not in short_lived:
            request, its_mappings = _request_and_mappings(number, container, resource, ())
            mappings += its_mappings
            if request is not None:
                long_lived[number] = request
    largest: _CountedRequest | None = None
    short_lived_names: set[str] = set()
    short_lived_mappings: list[RequestMapping] = []
    for number in sorted(short_lived):
        reusable = [long_lived[later] for later in sorted(long_lived) if later >= number]
        container = containers[number]
        request, its_mappings = _request_and_mappings(number, container, resource, reusable)
        short_lived_mappings += its_mappings
        if request is not None:
            short_lived_names.add(request[0])
            if largest is None or largest[1] < request[1]:
                largest = request
    if largest is None:
        return [*long_lived.values()], mappings + short_lived_mappings
    mappings += [
        RequestMapping(mapping.container_name, mapping.resource_name, largest[0])
        if mapping.request_name in short_lived_names
        else mapping
        for mapping in short_lived_mappings
    ]
    return [largest, *long_lived.values()], mappings


def _request_and_mappings(
    number: int, container: Container, resource: str, reusable: Sequence[_CountedRequest]
) -> tuple[_CountedRequest | None, list[RequestMapping]]:
    """Return the request of a container, and the mappings to it and to the requests it reuses.

    Source: createResourceRequestAndMappings.
    """
    count, total = _count(container, resource), 0
    mappings: list[RequestMapping] = []
    if not count:
        return None, mappings
    for name, reusable_count in reusable:
        total += reusable_count
        mappings.append(RequestMapping(container.name, resource, name))
        if total >= count:
            return None, mappings
    position = sorted(container.resources.requests).index(resource)
    name = f"container-{number}-request-{position}"
    mappings.append(RequestMapping(container.name, resource, name))
    return (name, count - total), mappings


def _count(container: Container, resource: str) -> int:
    amount = container.resources.requests.get(resource)
    return 0 if amount is None else quantity.value(amount)
