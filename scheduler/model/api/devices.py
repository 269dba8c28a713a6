"""The objects of dynamic resource allocation, with only the fields that some rule reads.

As in `scheduler.model.api.objects`, objects are values: decoded from bytes once, never changed.
Quantities stay as text; `amounts` returns those of an object, so that a damaged one can be refused.

Source: api v0.36.3 resource/v1.
"""

from collections.abc import Iterator
from typing import Final, TypeAlias

import msgspec

from scheduler.model.api.device_claims import (
    ALL_DEVICES,
    EXACT_COUNT,
    MAX_RESULTS,
    Allocation,
    AllocationConfig,
    CapacityRequests,
    CelSelector,
    ConfigOfClaim,
    Consumer,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequests,
    DeviceResult,
    DeviceSelector,
    DeviceToleration,
    ExactRequest,
    OpaqueConfig,
    Results,
    SubRequest,
)
from scheduler.model.api.objects import Condition, NodeSelector
from scheduler.model.base import AnnotatedMeta, Int64, ObjectMeta, Value
from scheduler.model.effects import ClaimRef

__all__ = [
    "ALL_DEVICES",
    "DELETE_PROTECTION",
    "EXACT_COUNT",
    "EXTENDED_RESOURCE_CLAIM",
    "MAX_RESULTS",
    "AllocatedDevice",
    "Allocation",
    "AllocationConfig",
    "AttributeValue",
    "Capacity",
    "CapacityRange",
    "CapacityRequests",
    "CelSelector",
    "ClaimMeta",
    "ClaimStatus",
    "ConfigOfClaim",
    "ConfigOfClass",
    "Consumer",
    "Counter",
    "CounterConsumption",
    "CounterSet",
    "Device",
    "DeviceClass",
    "DeviceClassSpec",
    "DeviceConstraint",
    "DeviceObject",
    "DeviceRequest",
    "DeviceRequests",
    "DeviceResult",
    "DeviceSelection",
    "DeviceSelector",
    "DeviceTaint",
    "DeviceTaintRule",
    "DeviceToleration",
    "ExactRequest",
    "OpaqueConfig",
    "RequestPolicy",
    "ResourceClaim",
    "ResourceClaimSpec",
    "ResourcePool",
    "ResourceSlice",
    "ResourceSliceSpec",
    "Results",
    "SubRequest",
    "TaintRuleSpec",
    "amounts",
]

#: The finalizer of an allocated claim.
DELETE_PROTECTION: Final = "resource.kubernetes.io/delete-protection"
#: The annotation of a claim that a scheduler made for extended resources; its value is `true`.
EXTENDED_RESOURCE_CLAIM: Final = "resource.kubernetes.io/extended-resource-claim"

_READ: Final = frozenset({EXTENDED_RESOURCE_CLAIM})


class ConfigOfClass(Value, frozen=True):
    """A configuration that a class adds to each allocation."""

    opaque: OpaqueConfig | None = None


class DeviceClassSpec(Value, frozen=True):
    """The spec of a device class."""

    #: An additional resource name by which pods request devices.
    extended_resource_name: str | None = None
    selectors: list[DeviceSelector] = []
    config: list[ConfigOfClass] = []


class DeviceClass(Value, frozen=True):
    """A class of devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class ResourceClaimSpec(Value, frozen=True):
    """The spec of a claim, which never changes."""

    devices: DeviceRequests = DeviceRequests()


class AllocatedDevice(Value, frozen=True):
    """What the driver says of an allocated device.

    The API server writes an empty list of conditions as null.
    """

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(name="shareID", default=None)
    nullable_conditions: list[Condition] | None = msgspec.field(
        name="conditions", default_factory=list
    )

    @property
    def conditions(self) -> list[Condition]:
        """The conditions of the device."""
        return self.nullable_conditions or []

    @property
    def id(self) -> tuple[str, str, str]:
        """The device: driver, pool and name."""
        return (self.driver, self.pool, self.device)


class ClaimStatus(Value, frozen=True):
    """The status of a claim."""

    allocation: Allocation | None = None
    reserved_for: list[Consumer] = []
    devices: list[AllocatedDevice] = []


class ClaimMeta(AnnotatedMeta, frozen=True):
    """Metadata of a claim."""

    finalizers: list[str] = []

    def __post_init__(self) -> None:
        self.leave_out(self.annotations.keys() - _READ)


class ResourceClaim(Value, frozen=True):
    """A claim for devices."""

    metadata: ClaimMeta = ClaimMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ClaimStatus = ClaimStatus()

    @property
    def uid(self) -> str:
        """The identity of the claim."""
        return self.metadata.uid

    @property
    def key(self) -> str:
        """Namespace and name, joined by a slash."""
        return self.metadata.key

    @property
    def ref(self) -> ClaimRef:
        """A reference to this state of the claim."""
        metadata = self.metadata
        return ClaimRef(metadata.namespace, metadata.name, metadata.uid, metadata.resource_version)

    def reserved_by(self, uid: str) -> bool:
        """Return whether the claim is reserved for a pod."""
        return any(consumer.uid == uid for consumer in self.status.reserved_for)


class AttributeValue(Value, frozen=True):
    """The value of an attribute: exactly one is set."""

    int_: Int64 | None = msgspec.field(name="int", default=None)
    bool_: bool | None = msgspec.field(name="bool", default=None)
    string: str | None = None
    version: str | None = None
    ints: list[Int64] | None = None
    bools: list[bool] | None = None
    strings: list[str] | None = None
    versions: list[str] | None = None


class CapacityRange(Value, frozen=True):
    """The amounts that may be consumed: from `min` to `max`, in steps."""

    min: str | Int64 | float | None = None
    max: str | Int64 | float | None = None
    step: str | Int64 | float | None = None


class RequestPolicy(Value, frozen=True):
    """How much of a capacity a request consumes."""

    default: str | Int64 | float | None = None
    valid_values: list[str | Int64 | float] = []
    valid_range: CapacityRange | None = None


class Capacity(Value, frozen=True):
    """A capacity of a device."""

    value: str | Int64 | float = "0"
    request_policy: RequestPolicy | None = None


class Counter(Value, frozen=True):
    """An amount of a counter."""

    value: str | Int64 | float = "0"


class CounterSet(Value, frozen=True):
    """Counters that devices of a pool share."""

    name: str = ""
    counters: dict[str, Counter] = {}


class CounterConsumption(Value, frozen=True):
    """What a device consumes of a counter set."""

    counter_set: str = ""
    counters: dict[str, Counter] = {}
    #: Only read to tell that there are some.
    compatibility_groups: list[str] = []


class DeviceTaint(Value, frozen=True):
    """A taint of a device: repels claims that do not tolerate it."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class Device(Value, frozen=True):
    """A device of a slice."""

    name: str = ""
    attributes: dict[str, AttributeValue] = {}
    capacity: dict[str, Capacity] = {}
    consumes_counters: list[CounterConsumption] = []
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    taints: list[DeviceTaint] = []
    binds_to_node: bool | None = None
    binding_conditions: list[str] = []
    binding_failure_conditions: list[str] = []
    allow_multiple_allocations: bool | None = None


class ResourcePool(Value, frozen=True):
    """The pool of a slice; its identity is the driver and the name."""

    name: str = ""
    generation: Int64 = 0
    resource_slice_count: Int64 = 0


class ResourceSliceSpec(Value, frozen=True):
    """Devices of a driver, or the counters that they share, and where they are."""

    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[Device] = []
    shared_counters: list[CounterSet] = []


class ResourceSlice(Value, frozen=True):
    """A part of a pool of devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


class DeviceSelection(Value, frozen=True):
    """The devices that a rule taints: all fields that are set must be equal."""

    driver: str | None = None
    pool: str | None = None
    device: str | None = None


class TaintRuleSpec(Value, frozen=True):
    """A taint and the devices that it is for."""

    device_selector: DeviceSelection | None = None
    taint: DeviceTaint = DeviceTaint()


class DeviceTaintRule(Value, frozen=True):
    """A rule by which an administrator taints devices."""

    metadata: ObjectMeta = ObjectMeta()
    spec: TaintRuleSpec = TaintRuleSpec()


DeviceObject: TypeAlias = ResourceClaim | ResourceSlice | DeviceTaintRule


def amounts(item: DeviceObject) -> Iterator[str | int | float]:
    """Yield all quantities of an object."""
    if isinstance(item, ResourceClaim):
        yield from _amounts_of_claim(item)
    elif isinstance(item, ResourceSlice):
        for shared in item.spec.shared_counters:
            yield from (counter.value for counter in shared.counters.values())
        for device in item.spec.devices:
            yield from _amounts_of_device(device)


def _amounts_of_claim(claim: ResourceClaim) -> Iterator[str | int | float]:
    for request in claim.spec.devices.requests:
        for each in (request.exactly, *request.first_available):
            if each is not None and each.capacity is not None:
                yield from each.capacity.requests.values()
    if claim.status.allocation is not None:
        for result in claim.status.allocation.devices.results:
            yield from result.consumed_capacity.values()


def _amounts_of_device(device: Device) -> Iterator[str | int | float]:
    for consumption in device.consumes_counters:
        yield from (counter.value for counter in consumption.counters.values())
    for capacity in device.capacity.values():
        yield capacity.value
        policy = capacity.request_policy
        if policy is not None:
            yield from policy.valid_values
            limits = policy.valid_range or CapacityRange()
            optional = (policy.default, limits.min, limits.max, limits.step)
            yield from (amount for amount in optional if amount is not None)
