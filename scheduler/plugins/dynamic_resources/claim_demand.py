"""The requests in the claims of a pod, prepared for the search.

A demand depends on the requests of claims and on the classes, not on the names of the claims, so
pods with equal claims share it.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.requestAccessor.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from scheduler.model.api.devices import (
    ALL_DEVICES,
    Constraint,
    DeviceClass,
    DeviceRequests,
    DeviceTaint,
    DeviceToleration,
    ExactRequest,
    Selector,
    SubRequest,
)
from scheduler.model.api.objects import Quantities
from scheduler.plugins.dynamic_resources.device_selectors import Expression, Expressions
from scheduler.state.devices.device_classes import DeviceClasses

__all__ = ["ClaimDemand", "RequestDemand", "Want", "demand_of"]


class Want:
    """A request, or one choice of a request."""

    __slots__ = (
        "_expressions",
        "admin",
        "all",
        "api",
        "capacity",
        "class_selectors",
        "device_class",
        "name",
        "request",
        "selectors",
        "shown",
    )

    def __init__(
        self, request: str, api: ExactRequest, classes: DeviceClasses, expressions: Expressions
    ) -> None:
        sub = api.name if isinstance(api, SubRequest) else ""
        self.api: Final = api
        #: The name of the request.
        self.request: Final = request
        #: The name in results: `request`, or `request/subrequest`.
        self.name: Final = f"{request}/{sub}" if sub else request
        #: The name in errors.
        self.shown: Final = sub or request
        self.device_class: Final[DeviceClass | None] = classes.get(api.device_class_name)
        self.admin: Final = bool(api.admin_access)
        self.all: Final = api.allocation_mode == ALL_DEVICES
        self.capacity: Final[Quantities] = {} if api.capacity is None else api.capacity.requests
        of_class = [] if self.device_class is None else self.device_class.spec.selectors
        self._expressions = expressions
        self.class_selectors: Final = self._compiled(of_class)
        self.selectors: Final = self._compiled(api.selectors)

    def _compiled(self, selectors: Sequence[Selector]) -> tuple[Expression, ...]:
        return tuple(
            self._expressions.get("" if each.cel is None else each.cel.expression)
            for each in selectors
        )

    def tolerates(self, taint: DeviceTaint) -> bool:
        """Return whether it may have a device with a taint."""
        return any(_tolerates(toleration, taint) for toleration in self.api.tolerations)


class RequestDemand(NamedTuple):
    """A request of a claim."""

    name: str
    #: One, or the choices in their order.
    wants: tuple[Want, ...]
    #: Whether one of the choices is enough.
    optional: bool


class ClaimDemand(NamedTuple):
    """What one claim asks for."""

    devices: DeviceRequests
    requests: tuple[RequestDemand, ...]

    @property
    def constraints(self) -> Sequence[Constraint]:
        """The constraints on the devices of the claim."""
        return self.devices.constraints


def demand_of(
    devices: DeviceRequests, classes: DeviceClasses, expressions: Expressions
) -> ClaimDemand:
    """Return what a claim asks for."""
    requests = []
    for request in devices.requests:
        choices: Sequence[ExactRequest] = request.first_available
        if not choices and request.exactly is not None:
            choices = [request.exactly]
        wants = tuple(Want(request.name, each, classes, expressions) for each in choices)
        requests.append(RequestDemand(request.name, wants, bool(request.first_available)))
    return ClaimDemand(devices, tuple(requests))


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Return whether a toleration covers a taint; its duration does not matter here.

    Source: dynamic-resource-allocation v0.36.3 resourceclaim.ToleratesTaint.
    """
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
