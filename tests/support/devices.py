"""Objects of dynamic resource allocation for tests, each in one call.

gpus("n1", "d0", device("d1", model="a100"))          a slice of a node
claim("c", wants("r", count=2))                       a claim with one request
pod("p").spec(resource_claims=[PodResourceClaim("x", "c")])  or  claiming("p", "c")
"""

from typing import Any

from scheduler.model.api.device_claims import (
    Allocation,
    CapacityRequests,
    CelSelector,
    Consumer,
    DeviceConstraint,
    DeviceRequest,
    DeviceRequests,
    DeviceResult,
    DeviceSelector,
    DeviceToleration,
    ExactRequest,
    Results,
    SubRequest,
)
from scheduler.model.api.devices import (
    AttributeValue,
    Capacity,
    ClaimMeta,
    ClaimStatus,
    Counter,
    CounterConsumption,
    CounterSet,
    Device,
    DeviceClass,
    DeviceClassSpec,
    DeviceTaint,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from scheduler.model.api.objects import (
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    PodResourceClaim,
    Requirement,
)
from tests.support.builders import PodBuilder, pod

DRIVER = "gpu.example.com"


def device_class(name: str = "gpu", *selectors: str, resource: str | None = None) -> DeviceClass:
    """Return a class with CEL selectors, and perhaps an extended resource."""
    return DeviceClass(ObjectMeta(name=name), DeviceClassSpec(resource, _selectors(selectors)))


def _selectors(expressions: tuple[str, ...]) -> list[DeviceSelector]:
    return [DeviceSelector(CelSelector(expression)) for expression in expressions]


def value(given: Any) -> AttributeValue:
    """Return an attribute: a truth value, an integer, a string or a list of strings."""
    if isinstance(given, list):
        return AttributeValue(strings=given)
    if isinstance(given, bool):
        return AttributeValue(bool_=given)
    return AttributeValue(int_=given) if isinstance(given, int) else AttributeValue(string=given)


def device(name: str, *, capacity: dict[str, Any] | None = None, **more: Any) -> Device:
    """Return a device; keywords that no field has are attributes of the driver."""
    fields = {key: more.pop(key) for key in list(more) if key in Device.__struct_fields__}
    amounts = {
        key: amount if isinstance(amount, Capacity) else Capacity(amount)
        for key, amount in (capacity or {}).items()
    }
    attributes = {key: value(given) for key, given in more.items()}
    return Device(name, attributes, amounts, **fields)


def tainted(name: str, effect: str = "NoSchedule", key: str = "example.com/broken") -> Device:
    """Return a device with a taint."""
    return device(name, taints=[DeviceTaint(key, "", effect)])


def consuming(name: str, of: str = "set", **counters: str) -> Device:
    """Return a device that consumes counters of a set."""
    used = {counter: Counter(amount) for counter, amount in counters.items()}
    return device(name, consumes_counters=[CounterConsumption(of, used)])


def gpus(node: str, *devices: Device | str, **more: Any) -> ResourceSlice:
    """Return the slice of a node; `more` are fields of the spec, and name, driver, pool, count."""
    name, driver = more.pop("name", f"{node}-slice"), more.pop("driver", DRIVER)
    generation, count = more.pop("generation", 1), more.pop("count", 1)
    pool = ResourcePool(more.pop("pool", node or name), generation, count)
    made = [device(each) if isinstance(each, str) else each for each in devices]
    spec = ResourceSliceSpec(driver, pool, node or None, devices=made, **more)
    return ResourceSlice(ObjectMeta(name=name), spec)


def counters(node: str, of: str = "set", *, count: int = 2, **amounts: str) -> ResourceSlice:
    """Return the slice with the shared counters of a node's pool."""
    shared = CounterSet(of, {name: Counter(amount) for name, amount in amounts.items()})
    return gpus(node, name=f"{node}-counters", count=count, shared_counters=[shared])


def wants(name: str = "r", of: str = "gpu", *selectors: str, **more: Any) -> DeviceRequest:
    """Return a request for an exact number of devices, unless `mode` says otherwise."""
    return DeviceRequest(name, _request(ExactRequest, of, selectors, more))


def one_of(name: str, *choices: SubRequest) -> DeviceRequest:
    """Return a request with choices."""
    return DeviceRequest(name, first_available=list(choices))


def choice(name: str, of: str = "gpu", *selectors: str, **more: Any) -> SubRequest:
    """Return a choice of a request."""
    return _request(SubRequest, of, selectors, {**more, "name": name})


def _request(kind: Any, of: str, selectors: tuple[str, ...], more: dict[str, Any]) -> Any:
    capacity = more.pop("capacity", None)
    return kind(
        device_class_name=of,
        selectors=_selectors(selectors),
        allocation_mode=more.pop("mode", "ExactCount"),
        count=more.pop("count", 1),
        admin_access=more.pop("admin", None),
        tolerations=more.pop("tolerations", []),
        capacity=None if capacity is None else CapacityRequests(capacity),
        **more,
    )


def tolerating(key: str = "", operator: str = "Exists") -> list[DeviceToleration]:
    """Return one toleration."""
    return [DeviceToleration(key, operator)]


def same(attribute: str, *requests: str) -> DeviceConstraint:
    """Return a constraint: devices agree in an attribute."""
    return DeviceConstraint(list(requests), match_attribute=attribute)


def different(attribute: str, *requests: str) -> DeviceConstraint:
    """Return a constraint: devices differ in an attribute."""
    return DeviceConstraint(list(requests), distinct_attribute=attribute)


def claim(
    name: str,
    *requests: DeviceRequest,
    constraints: list[DeviceConstraint] | None = None,
    **status: Any,
) -> ResourceClaim:
    """Return a claim of the namespace `default`; keywords are fields of its status."""
    spec = ResourceClaimSpec(DeviceRequests(list(requests), constraints or []))
    metadata = ClaimMeta(name=name, namespace="default", uid=f"uid:{name}")
    return ResourceClaim(metadata, spec, ClaimStatus(**status))


def allocated(
    name: str, *devices: str, on: str, by: tuple[str, ...] = (), **fields: Any
) -> ResourceClaim:
    """Return a claim with devices `pool/device` of a node, reserved for some pods."""
    results = [DeviceResult("r", DRIVER, *each.split("/"), **fields) for each in devices]
    where = NodeSelectorTerm([], [Requirement("metadata.name", "In", [on])])
    allocation = Allocation(Results(results), NodeSelector([where]))
    consumers = [Consumer(resource="pods", name=each, uid=f"uid:default/{each}") for each in by]
    return claim(name, wants(count=len(devices)), allocation=allocation, reserved_for=consumers)


def claiming(name: str, *claims: str) -> PodBuilder:
    """Return a pod that names claims."""
    return pod(name).spec(resource_claims=[PodResourceClaim(each, each) for each in claims])


def devices_of(known: ResourceClaim) -> list[str]:
    """Return the devices of a claim as `request=pool/device`."""
    allocation = known.status.allocation
    results = [] if allocation is None else allocation.devices.results
    return [f"{each.request}={each.pool}/{each.device}" for each in results]
