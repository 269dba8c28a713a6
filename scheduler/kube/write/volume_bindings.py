"""Binds volumes to claims, before their pod is bound. Completed writes stay if a later one fails.

Source: kube-scheduler v1.36.3 plugins/volumebinding.BindPodVolumes, bindAPIUpdate.
"""

import contextlib

from scheduler.kube.client import requests
from scheduler.kube.client.client import Client
from scheduler.kube.errors import Conflict, KubeError, Unreachable
from scheduler.kube.watch.decoding import UNREADABLE
from scheduler.kube.write.retry import TRANSIENT, RetryAttempt, RetryPolicy
from scheduler.model.effects import BindVolumes

__all__ = ["VolumeBindings"]


class VolumeBindings:
    """Carries out the writes of volumes and claims."""

    def __init__(self, client: Client, retry: RetryPolicy) -> None:
        self._client = client
        self._retry = retry

    async def bind(self, effect: BindVolumes, attempt: RetryAttempt) -> None:
        """Begin to bind the volumes of a pod.

        Raises:
            KubeError: A write failed, and the writes after it were not sent.
        """
        self._retry.check(attempt)
        with contextlib.suppress(KubeError):
            # It shows others where the pod will be; nothing depends on it.
            await self._client.call(requests.nominate_for_binding(effect))
        for part in requests.volume_writes(effect):
            await self._write_versioned(part, attempt)

    async def _write_versioned(self, part: requests.Versioned, attempt: RetryAttempt) -> None:
        while True:
            self._retry.check(attempt)
            try:
                await self._client.call(part.write)
            except Conflict:
                # Perhaps an earlier attempt did it, and the answer was lost.
                if not await self._has_happened(part):
                    raise
            except TRANSIENT as error:
                await self._retry.pause(part.write, error, attempt)
                continue
            return

    async def _has_happened(self, part: requests.Versioned) -> bool:
        try:
            return part.has_happened(await self._client.call(part.look_up))
        except UNREADABLE as error:
            raise Unreachable(f"cannot {part.look_up}: {error}") from error
