"""The devices of a preemption, as documents have them, and what a caller may see of them.

A device is named with the claim of a victim that has it, as far as that is known. The names of
claims and pods are for those who may see their namespace. Lists are limited: a claim may have many
devices, and a preemptor many claims.
"""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec.structs import replace

from scheduler.core.eviction.freed_devices import undeallocated
from scheduler.core.eviction.plan import Placement
from scheduler.model.api.devices import ResourceClaim
from scheduler.model.rest.preemptions import DeviceView, PreemptionDevices, UndeallocatedClaim
from scheduler.state.cluster import Cluster

__all__ = ["MAX_DEVICES", "devices_of", "seen_devices", "with_claims"]

#: How many devices of a preemption, and how many claims, documents have.
MAX_DEVICES: Final = 16


def devices_of(placement: Placement, cluster: Cluster) -> PreemptionDevices | None:
    """Return the devices that a preemptor waits for; `None` if evictions free none for it.

    To be called while the victims have them.
    """
    if not placement.devices:
        return None
    holders: dict[tuple[str, str, str], ResourceClaim] = {}
    for freed in placement.freed_claims:
        claim = cluster.devices.claims.get(freed.key)
        if claim is not None and claim.status.allocation is not None:
            holders |= {each.id: claim for each in claim.status.allocation.devices.results}
    results = (each for one in placement.devices.values() for each in one.devices.results)
    ids = [each.id for each in results if not each.admin_access]
    items = tuple(_device(*each, holders.get(each)) for each in ids[:MAX_DEVICES])
    return PreemptionDevices(items, more=len(ids) - len(items))


def _device(driver: str, pool: str, device: str, holder: ResourceClaim | None) -> DeviceView:
    view = DeviceView(driver, pool, device)
    if holder is None:
        return view
    pods = [each.name for each in holder.status.reserved_for if each.is_pod]
    return replace(
        view,
        namespace=holder.metadata.namespace,
        claim=holder.metadata.name,
        pod=pods[0] if pods else "",
        more_pods=max(0, len(pods) - 1),
    )


def with_claims(
    devices: PreemptionDevices, placement: Placement | None, since: str, cluster: Cluster
) -> PreemptionDevices:
    """Return devices with the claims that have to be deallocated before the preemptor gets them.

    Args:
        devices: The devices.
        placement: That of the preemptor, if its victims are gone and it waits for their claims.
        since: When the last victim was gone.
        cluster: The cluster as it is.
    """
    claims = [] if placement is None else undeallocated(placement, cluster)
    views = tuple(map(_claim, claims[:MAX_DEVICES]))
    more = len(claims) - len(views)
    return replace(devices, victims_gone_at=since, claims=views, more_claims=more)


def _claim(claim: ResourceClaim) -> UndeallocatedClaim:
    pods = (each.name for each in claim.status.reserved_for if each.is_pod)
    return UndeallocatedClaim(claim.metadata.namespace, claim.metadata.name, next(pods, ""))


def seen_devices(
    devices: PreemptionDevices | None, preemptor: str, may_see: Callable[[str], bool]
) -> PreemptionDevices | None:
    """Return devices as a caller may see them, by the names of namespaces.

    Who sees the preemptor sees its devices, and who sees a claim sees what it has.
    """
    if devices is None:
        return None
    items = tuple(_seen(devices.items, may_see(preemptor), may_see))
    claims = tuple(each for each in devices.claims if may_see(each.namespace))
    return replace(
        devices,
        items=items,
        more=devices.more + len(devices.items) - len(items),
        claims=claims,
        more_claims=devices.more_claims + len(devices.claims) - len(claims),
    )


def _seen(
    items: Iterable[DeviceView], sees_preemptor: bool, may_see: Callable[[str], bool]
) -> Iterable[DeviceView]:
    for each in items:
        if each.namespace and may_see(each.namespace):
            yield each
        elif sees_preemptor:
            yield DeviceView(each.driver, each.pool, each.device)
