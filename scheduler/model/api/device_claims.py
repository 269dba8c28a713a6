"""What a resource claim asks for, and what it got: the parts that effects carry, too.

Source: api v0.36.3 resource/v1.
"""

from typing import Any, Final

import msgspec

from scheduler.model.api.pod_spec import NodeSelector
from scheduler.model.base import Int64, Quantities, Value

__all__ = [
    "ALL_DEVICES",
    "EXACT_COUNT",
    "MAX_RESULTS",
    "MAX_SUB_REQUESTS",
    "Allocation",
    "AllocationConfig",
    "CapacityRequests",
    "CelSelector",
    "ConfigOfClaim",
    "Consumer",
    "DeviceConstraint",
    "DeviceRequest",
    "DeviceRequests",
    "DeviceResult",
    "DeviceSelector",
    "DeviceToleration",
    "ExactRequest",
    "OpaqueConfig",
    "Results",
    "SubRequest",
]

#: Modes of a request.
EXACT_COUNT: Final = "ExactCount"
ALL_DEVICES: Final = "All"
#: The number of devices that one claim may have.
MAX_RESULTS: Final = 32
#: The number of subrequests that one request may have.
MAX_SUB_REQUESTS: Final = 8


class CelSelector(Value, frozen=True):
    """A selector in the Common Expression Language."""

    expression: str = ""


class DeviceSelector(Value, frozen=True):
    """A selector of devices; kinds other than CEL are not known yet."""

    cel: CelSelector | None = None


class OpaqueConfig(Value, frozen=True):
    """What a driver gets with the devices; only the driver reads the parameters."""

    driver: str = ""
    parameters: Any = None


class DeviceToleration(Value, frozen=True):
    """The taints of devices that a request tolerates."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class CapacityRequests(Value, frozen=True):
    """The capacity that a request needs of each device, by name."""

    requests: Quantities = {}


class ExactRequest(Value, frozen=True):
    """A request for devices of one class."""

    device_class_name: str = ""
    selectors: list[DeviceSelector] = []
    allocation_mode: str = ""
    count: Int64 = 0
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] = []
    capacity: CapacityRequests | None = None
    #: Only read to tell that there are some.
    derived_attributes: list[Any] = []


class SubRequest(ExactRequest, frozen=True):
    """One choice of a request; the API knows no admin access here."""

    name: str = ""


class DeviceRequest(Value, frozen=True):
    """A request of a claim: exactly one of both is set."""

    name: str = ""
    exactly: ExactRequest | None = None
    first_available: list[SubRequest] = []


class DeviceConstraint(Value, frozen=True):
    """What the devices of some requests must have in common, or in what they must differ."""

    #: Names of requests, or `request/subrequest`; empty for all.
    requests: list[str] = []
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class ConfigOfClaim(Value, frozen=True):
    """A configuration for the devices of some requests."""

    requests: list[str] = []
    opaque: OpaqueConfig | None = None


class DeviceRequests(Value, frozen=True):
    """What a claim asks for. The API server writes an empty list of requests as null."""

    nullable_requests: list[DeviceRequest] | None = msgspec.field(
        name="requests", default_factory=list
    )
    constraints: list[DeviceConstraint] = []
    config: list[ConfigOfClaim] = []

    @property
    def requests(self) -> list[DeviceRequest]:
        """The requests in their order."""
        return self.nullable_requests or []


class DeviceResult(Value, frozen=True):
    """One allocated device."""

    #: `request`, or `request/subrequest`.
    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: list[DeviceToleration] = []
    binding_conditions: list[str] = []
    binding_failure_conditions: list[str] = []
    #: Of a device that several claims share: identifies this share.
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: Quantities = {}
    #: Operations that the kubelet leaves out for the device.
    skip_node_operations: list[str] = []

    @property
    def id(self) -> tuple[str, str, str]:
        """The device: driver, pool and name."""
        return (self.driver, self.pool, self.device)


class AllocationConfig(Value, frozen=True):
    """A configuration of an allocation: `FromClass` or `FromClaim`."""

    source: str = ""
    requests: list[str] = []
    opaque: OpaqueConfig | None = None


class Results(Value, frozen=True):
    """The devices of an allocation, and their configuration."""

    results: list[DeviceResult] = []
    config: list[AllocationConfig] = []


class Allocation(Value, frozen=True):
    """The devices of a claim."""

    devices: Results = Results()
    #: Where pods that use the claim may run; `None` for everywhere.
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None

    @property
    def device_count(self) -> int:
        """How many devices it takes; with admin access, a pod takes none."""
        return sum(not each.admin_access for each in self.devices.results)

    @property
    def only_node(self) -> str | None:
        """The only node where pods that use the claim may run; `None` where there may be more."""
        terms = [] if self.node_selector is None else self.node_selector.node_selector_terms
        for term in terms if len(terms) == 1 else ():
            for each in term.match_fields:
                if (each.key, each.operator, len(each.values)) == ("metadata.name", "In", 1):
                    return each.values[0]
        return None


class Consumer(Value, frozen=True):
    """What uses a claim: a pod, as a rule."""

    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""

    @property
    def is_pod(self) -> bool:
        """Whether it is a pod."""
        return not self.api_group and self.resource == "pods"
