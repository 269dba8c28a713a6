"""Which events may make a pod schedulable that lacked devices.

Source: kube-scheduler v1.36.3 dynamicresources.isSchedulableAfterClaimChange,
isSchedulableAfterPodChange. Differs: freed devices wake pods whose own claims are missing, too;
these are gated then.
"""

from collections.abc import Callable
from typing import Final

from scheduler.model.api.devices import ResourceClaim
from scheduler.model.api.objects import Pod
from scheduler.plugins.dynamic_resources.pod_claims import UnusableClaimError, claims_of
from scheduler.state.devices.devices import Devices

__all__ = ["DeviceHints"]


class DeviceHints:
    """The hints; they read the claims as they are when the event comes."""

    def __init__(self, devices: Callable[[], Devices | None]) -> None:
        self._devices: Final = devices

    def after_claim(self, pod: Pod, old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
        """Return whether a changed claim may help a pod."""
        devices = self._devices()
        if new is None:
            wakes = devices is not None and devices.reference.wakes_by_deleted_claims
            return wakes and old is not None and old.status.allocation is not None
        if old is not None and _was_freed(old, new):
            return True
        claims = self._resolved(pod)
        if claims is None:
            return False
        if all(claim.uid != new.uid for claim in claims):
            return False
        return old is None or old.status != new.status

    def after_own_change(self, pod: Pod, _old: Pod | None, new: Pod | None) -> bool:
        """Return whether a pod whose generated claims changed can be tried again."""
        return new is not None and new.uid == pod.uid and self._resolved(new) is not None

    def _resolved(self, pod: Pod) -> list[ResourceClaim] | None:
        devices = self._devices()
        try:
            return None if devices is None else claims_of(pod, devices.claims)
        except UnusableClaimError:
            return None


def _was_freed(old: ResourceClaim, new: ResourceClaim) -> bool:
    return old.status.allocation is not None and new.status.allocation is None
