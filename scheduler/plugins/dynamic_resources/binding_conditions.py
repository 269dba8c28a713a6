"""Whether the devices of an allocated claim are ready: their binding conditions.

Source: kube-scheduler v1.36.3 dynamicresources.isClaimReadyForBinding, isClaimTimeout.
"""

import json

from scheduler.model import times
from scheduler.model.api.devices import AllocatedDevice, ResourceClaim
from scheduler.model.api.objects import Condition
from scheduler.model.times import Seconds

__all__ = ["is_ready_for_binding", "is_timed_out"]


def is_ready_for_binding(claim: ResourceClaim) -> bool | str:
    """Return whether all devices are ready, or why one of them failed.

    Failures of devices behind the first one that is not ready yet are not seen.
    """
    allocation = claim.status.allocation
    if allocation is None:
        return False
    status = {device.id: device for device in claim.status.devices}
    for result in allocation.devices.results:
        if not result.binding_conditions:
            continue
        device = status.get(result.id)
        if device is None:
            return False
        for kind in result.binding_failure_conditions:
            failed = _condition(device, kind)
            if failed is not None and failed.status == "True":
                message = json.dumps(failed.message, ensure_ascii=False)
                name, reason = claim.metadata.name, failed.reason
                return f"device binding failed: claim={name}, reason={reason}, message={message}"
        conditions = (_condition(device, kind) for kind in result.binding_conditions)
        if not all(item is not None and item.status == "True" for item in conditions):
            return False
    return True


def is_timed_out(claim: ResourceClaim, now: Seconds, timeout_seconds: Seconds) -> bool:
    """Return whether the devices of a claim that is not ready had enough time to become ready.

    Args:
        claim: The claim.
        now: The time by the API server's clock.
        timeout_seconds: How long they may take.
    """
    allocation = claim.status.allocation
    if allocation is None:
        return False
    since = times.parse(allocation.allocation_timestamp)
    return since is not None and since + timeout_seconds < now


def _condition(device: AllocatedDevice, kind: str) -> Condition | None:
    return next((item for item in device.conditions if item.type == kind), None)
