"""Makes the allocation of a claim from the devices that a search has found.

Source: dynamic-resource-allocation v0.36.3 structured/internal/incubating.Allocator.Allocate,
createNodeSelector. Differs: as in v0.37.2 a configuration is added once, however many requests it
names. A share has an id that follows from the claim and the device, instead of a random one.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from scheduler.model.api.devices import (
    Allocation,
    AllocationConfig,
    DeviceResult,
    Results,
)
from scheduler.model.api.objects import NodeSelector, NodeSelectorTerm, Requirement
from scheduler.model.api.selectors import NAME_FIELD
from scheduler.model.releases import Reference
from scheduler.plugins.dynamic_resources.allocator import Found
from scheduler.plugins.dynamic_resources.claim_demand import ClaimDemand, Want
from scheduler.plugins.dynamic_resources.taken_devices import TakenDevice

__all__ = ["allocations"]


def allocations(
    claims: Sequence[ClaimDemand],
    found: Found,
    uids: Sequence[str],
    node: str,
    reference: Reference,
) -> list[Allocation]:
    """Return the allocation of each claim.

    Args:
        claims: What was asked for.
        found: The devices.
        uids: Of the claims.
        node: The name of the node.
        reference: The release.
    """
    unnamed = reference.configuration_for_all_names_none
    return [
        _allocation(_Chosen(claim, found, index), uid, node, unnamed=unnamed)
        for index, (claim, uid) in enumerate(zip(claims, uids, strict=True))
    ]


class _Chosen(NamedTuple):
    """One claim of a solution."""

    claim: ClaimDemand
    found: Found
    at: int

    @property
    def wants(self) -> list[Want]:
        """The requests, each in the choice that was taken."""
        chosen = self.found.chosen
        return [
            request.wants[chosen.get((self.at, position), 0)]
            for position, request in enumerate(self.claim.requests)
        ]


def _allocation(chosen: _Chosen, uid: str, node: str, *, unnamed: bool) -> Allocation:
    taken, wants = chosen.found.devices[chosen.at], chosen.wants
    config = [*_of_classes(wants), *_of_claim(chosen.claim, wants)]
    if unnamed:
        config = [_for_all(each, wants) for each in config]
    results = [_result(each, f"{uid}/{at}") for at, each in enumerate(taken)]
    return Allocation(Results(results, config), _node_selector(taken, node))


def _result(taken: TakenDevice, share: str) -> DeviceResult:
    want, entry, consumed = taken
    driver, pool, name = entry.id
    shared = consumed is not None
    identity = f"{share}/{driver}/{pool}/{name}"
    return DeviceResult(
        request=want.name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if want.admin else None,
        tolerations=want.api.tolerations,
        binding_conditions=entry.device.binding_conditions,
        binding_failure_conditions=entry.device.binding_failure_conditions,
        share_id=_uuid(identity) if shared else None,
        consumed_capacity={name: amount.text for name, amount in (consumed or {}).items()},
    )


def _uuid(identity: str) -> str:
    """Return a UUID of version 8 that follows from a text."""
    digest = hashlib.blake2b(identity.encode(), digest_size=16).hexdigest()
    parts = (digest[:8], digest[8:12], f"8{digest[13:16]}", f"8{digest[17:20]}", digest[20:])
    return "-".join(parts)


def _of_classes(wants: Sequence[Want]) -> Iterator[AllocationConfig]:
    """Yield the configurations of the classes, each once, with the requests that it is for."""
    by_class: dict[str, list[Want]] = {}
    for want in wants:
        by_class.setdefault(want.api.device_class_name, []).append(want)
    for of_class in by_class.values():
        device_class = of_class[0].device_class
        for config in () if device_class is None else device_class.spec.config:
            names = [want.name for want in of_class]
            yield AllocationConfig("FromClass", names, config.opaque)


def _of_claim(claim: ClaimDemand, wants: Sequence[Want]) -> Iterator[AllocationConfig]:
    names = {name for want in wants for name in (want.request, want.name)}
    for config in claim.devices.config:
        if not config.requests or not names.isdisjoint(config.requests):
            yield AllocationConfig("FromClaim", config.requests, config.opaque)


def _for_all(config: AllocationConfig, wants: Sequence[Want]) -> AllocationConfig:
    """Return a configuration without its requests where they are all requests of the claim."""
    named = config.requests
    covers = all(want.request in named or want.name in named for want in wants)
    return replace(config, requests=[]) if covers else config


def _node_selector(taken: Sequence[TakenDevice], node: str) -> NodeSelector | None:
    """Return where the devices can be used; `None` for everywhere."""
    expressions: list[Requirement] = []
    fields: list[Requirement] = []
    for _, entry, _ in taken:
        spec, device = entry.slice.item.spec, entry.device
        place = device if spec.per_device_node_selection else spec
        if place.node_name is not None or device.binds_to_node:
            name = Requirement(NAME_FIELD, "In", [node])
            return NodeSelector([NodeSelectorTerm([], [name])])
        for term in place.node_selector.node_selector_terms[:1] if place.node_selector else ():
            _add_new(expressions, term.match_expressions)
            _add_new(fields, term.match_fields)
    if not expressions and not fields:
        return None
    return NodeSelector([NodeSelectorTerm(expressions, fields)])


def _add_new(known: list[Requirement], more: Sequence[Requirement]) -> None:
    for requirement in more:
        same = (
            (each.key, each.operator) == (requirement.key, requirement.operator)
            and set(each.values) == set(requirement.values)
            for each in known
        )
        if not any(same):
            known.append(requirement)
