"""The allocation of a claim, as it is written, from the devices of a solution.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.Allocator.Allocate,
createNodeSelector. Differs: as in v0.37.2 a configuration is added once, however many requests it
names. A share has an id that follows from the claim and the device, instead of a random one.
"""

import hashlib
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from scheduler.model.api.devices import Allocation, AllocationConfig, DeviceResult, Results
from scheduler.model.api.objects import NodeSelector, NodeSelectorTerm, Requirement
from scheduler.model.api.selectors import NAME_FIELD
from scheduler.model.releases import Reference
from scheduler.plugins.dynamic_resources.structured.allocating_devices import InternalDeviceResult
from scheduler.plugins.dynamic_resources.structured.allocator import InternalAllocationResult
from scheduler.plugins.dynamic_resources.structured.claims import (
    CompiledClaim,
    RequestAccessor,
)

__all__ = ["allocation_results"]


def allocation_results(
    claims: Sequence[CompiledClaim],
    result: InternalAllocationResult,
    uids: Sequence[str],
    node: str,
    reference: Reference,
) -> list[Allocation]:
    """Return the allocation of each claim.

    Args:
        claims: The claims.
        result: Their devices.
        uids: Of the claims.
        node: The name of the node.
        reference: The release.
    """
    allocations = []
    for index, (claim, uid) in enumerate(zip(claims, uids, strict=True)):
        # The requests, and of those with subrequests the selected one.
        requests = [
            request.alternatives[result.selected_sub_requests.get((index, position), 0)]
            for position, request in enumerate(claim.requests)
        ]
        config = [*_class_configs(requests), *_claim_configs(claim, requests)]
        if reference.configuration_for_all_names_none:
            config = [_without_all_requests(item, requests) for item in config]
        devices = result.devices[index]
        results = [_device_result(item, f"{uid}/{at}") for at, item in enumerate(devices)]
        allocations.append(Allocation(Results(results, config), _node_selector(devices, node)))
    return allocations


def _device_result(result: InternalDeviceResult, share: str) -> DeviceResult:
    request, device, consumed = result
    driver, pool, name = device.id
    identity = f"{share}/{driver}/{pool}/{name}"
    return DeviceResult(
        request=request.request_name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if request.admin_access else None,
        tolerations=request.api.tolerations,
        binding_conditions=device.device.binding_conditions,
        binding_failure_conditions=device.device.binding_failure_conditions,
        share_id=None if consumed is None else _uuid(identity),
        consumed_capacity={name: amount.text for name, amount in (consumed or {}).items()},
    )


def _uuid(identity: str) -> str:
    """Return a UUID of version 8 that follows from a text."""
    digest = hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()
    parts = (digest[:8], digest[8:12], f"8{digest[13:16]}", f"8{digest[17:20]}", digest[20:])
    return "-".join(parts)


def _class_configs(requests: Sequence[RequestAccessor]) -> Iterator[AllocationConfig]:
    """Yield the configurations of the classes, each once, with the requests that it applies to."""
    by_class: dict[str, list[RequestAccessor]] = {}
    for request in requests:
        by_class.setdefault(request.api.device_class_name, []).append(request)
    for of_class in by_class.values():
        device_class = of_class[0].device_class
        for config in () if device_class is None else device_class.spec.config:
            names = [request.request_name for request in of_class]
            yield AllocationConfig("FromClass", names, config.opaque)


def _claim_configs(
    claim: CompiledClaim, requests: Sequence[RequestAccessor]
) -> Iterator[AllocationConfig]:
    names = {name for request in requests for name in (request.base_name, request.request_name)}
    for config in claim.spec.config:
        if not config.requests or not names.isdisjoint(config.requests):
            yield AllocationConfig("FromClaim", config.requests, config.opaque)


def _without_all_requests(
    config: AllocationConfig, requests: Sequence[RequestAccessor]
) -> AllocationConfig:
    """Return a configuration, without its requests if they are all requests of the claim."""
    names = config.requests
    applies_to_all = all(
        request.base_name in names or request.request_name in names for request in requests
    )
    return replace(config, requests=[]) if applies_to_all else config


def _node_selector(results: Sequence[InternalDeviceResult], node: str) -> NodeSelector | None:
    """Return the nodes on which the devices are available; `None` for all nodes.

    Source: createNodeSelector.
    """
    expressions: list[Requirement] = []
    fields: list[Requirement] = []
    for _, device, _ in results:
        spec = device.slice.item.spec
        target = device.device if spec.per_device_node_selection else spec
        if target.node_name is not None or device.device.binds_to_node:
            name = Requirement(NAME_FIELD, "In", [node])
            return NodeSelector([NodeSelectorTerm([], [name])])
        for term in target.node_selector.node_selector_terms[:1] if target.node_selector else ():
            _add_new_requirements(expressions, term.match_expressions)
            _add_new_requirements(fields, term.match_fields)
    if not expressions and not fields:
        return None
    return NodeSelector([NodeSelectorTerm(expressions, fields)])


def _add_new_requirements(known: list[Requirement], more: Sequence[Requirement]) -> None:
    for requirement in more:
        same = (
            (other.key, other.operator) == (requirement.key, requirement.operator)
            and set(other.values) == set(requirement.values)
            for other in known
        )
        if not any(same):
            known.append(requirement)
