"""Claims compiled for the allocator: device classes are looked up, selectors are compiled.

A compiled claim depends on the requests and on the classes, not on the name of the claim, so pods
with equal claims share it.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.requestAccessor.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from scheduler.model.api.devices import (
    ALL_DEVICES,
    DeviceClass,
    DeviceRequests,
    DeviceSelector,
    DeviceTaint,
    DeviceToleration,
    ExactRequest,
    SubRequest,
)
from scheduler.model.api.objects import Quantities
from scheduler.plugins.dynamic_resources.structured.selectors import (
    CelCache,
    CompiledSelector,
)
from scheduler.state.devices.device_classes import DeviceClasses

__all__ = ["CompiledClaim", "RequestAccessor", "RequestIndices", "compile_claim", "request_indices"]


class RequestAccessor:
    """A request without subrequests, or a subrequest."""

    def __init__(
        self, base_name: str, api: ExactRequest, classes: DeviceClasses, cel_cache: CelCache
    ) -> None:
        sub_request = api.name if isinstance(api, SubRequest) else ""
        self.api: Final = api
        #: The name of the request; of a subrequest the name of its parent.
        self.base_name: Final = base_name
        #: The name in results: `request`, or `request/subrequest`.
        self.request_name: Final = f"{base_name}/{sub_request}" if sub_request else base_name
        #: The name in errors: `request`, or `subrequest`.
        self.name: Final = sub_request or base_name
        self.device_class: Final[DeviceClass | None] = classes.get(api.device_class_name)
        self.admin_access: Final = bool(api.admin_access)
        self.wants_all_devices: Final = api.allocation_mode == ALL_DEVICES
        self.capacities: Final[Quantities] = {} if api.capacity is None else api.capacity.requests
        of_class = [] if self.device_class is None else self.device_class.spec.selectors
        self.class_selectors: Final = _compiled(of_class, cel_cache)
        self.selectors: Final = _compiled(api.selectors, cel_cache)

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Return whether a device with a taint can be allocated for the request."""
        return any(_tolerates(toleration, taint) for toleration in self.api.tolerations)


class CompiledRequest(NamedTuple):
    """A request of a claim."""

    name: str
    #: The request itself, or its subrequests in the order of preference.
    alternatives: tuple[RequestAccessor, ...]
    has_sub_requests: bool


class CompiledClaim(NamedTuple):
    """The requests, constraints and configuration of a claim."""

    spec: DeviceRequests
    requests: tuple[CompiledRequest, ...]


class RequestIndices(NamedTuple):
    """A request or subrequest, by its claim and its position."""

    claim: int
    #: Of the request, or of its parent, in the claim.
    position: int
    request: RequestAccessor


def request_indices(
    claims: Sequence[CompiledClaim], start: tuple[int, int] = (0, 0)
) -> Iterator[RequestIndices]:
    """Yield the requests and subrequests, from one of a claim and a position on."""
    for index, claim in enumerate(claims):
        for position, compiled in enumerate(claim.requests):
            if (index, position) >= start:
                for request in compiled.alternatives:
                    yield RequestIndices(index, position, request)


def compile_claim(
    spec: DeviceRequests, classes: DeviceClasses, cel_cache: CelCache
) -> CompiledClaim:
    """Return a claim compiled, from its `spec.devices`."""
    requests = []
    for request in spec.requests:
        apis: Sequence[ExactRequest] = request.first_available
        if not apis and request.exactly is not None:
            apis = [request.exactly]
        alternatives = tuple(RequestAccessor(request.name, api, classes, cel_cache) for api in apis)
        requests.append(CompiledRequest(request.name, alternatives, bool(request.first_available)))
    return CompiledClaim(spec, tuple(requests))


def _compiled(selectors: list[DeviceSelector], cel_cache: CelCache) -> tuple[CompiledSelector, ...]:
    return tuple(
        cel_cache.get("" if selector.cel is None else selector.cel.expression)
        for selector in selectors
    )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Return whether a toleration matches a taint; its duration does not matter here.

    Source: dynamic-resource-allocation v0.36.3 resourceclaim.ToleratesTaint.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
