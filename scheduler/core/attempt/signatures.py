"""Whom the rejection of a pod speaks for: its class, or all that differ in nothing that matters.

Pods of an indexed Job or a StatefulSet have labels of their own, and many have claims of their own:
each of them is a class. Where every plugin that rejected one looks at nothing but the spec, and at
claims only for the volumes that they would bring, all that wait with such a spec are rejected like
it, so they are one kin.

Differs from kube-scheduler, which tries each of them.
"""

from collections.abc import Collection

import msgspec
from msgspec.structs import replace

from scheduler.model.api.objects import Pod
from scheduler.model.api.pod_spec import ClaimVolume
from scheduler.model.classified_pod import nameless
from scheduler.queue.queued_pod import QueuedPod
from scheduler.state.storage.csi_translation import inline_plugin
from scheduler.state.storage.mounts import claims_of
from scheduler.state.storage.volumes import Volumes

__all__ = ["brought", "shape", "strangers"]

_encode = msgspec.msgpack.Encoder().encode

_CLAIM = ClaimVolume()


def shape(pod: Pod) -> bytes:
    """Return what is equal for pods in one namespace whose specs differ in the names of claims."""
    volumes = [
        each
        if each.persistent_volume_claim is None
        else replace(each, persistent_volume_claim=_CLAIM)
        for each in nameless(pod.spec).volumes
    ]
    return _encode((pod.metadata.namespace, replace(pod.spec, volumes=volumes)))


def brought(pod: Pod, volumes: Volumes) -> bytes | None:
    """Return of which drivers a pod would bring volumes to whichever node it went to.

    The text is no beginning of another such text.

    Returns:
        `None` where that depends on the node or on more than its claims.
    """
    names, mounted = claims_of(pod), pod.spec.volumes
    if names and len(names) < len(mounted) and any(map(inline_plugin, mounted)):
        return None  # one of them may be the volume of a claim
    found = set()
    for name in names:
        key = f"{pod.metadata.namespace}/{name}"
        if volumes.claims.observed(key) is None:
            return None
        volume = volumes.csi_volume(key)
        if volume is not None:
            if volumes.counts.is_held(volume):
                return None
            found.add(volume)
    return _encode(sorted(each.driver for each in found))


def strangers(pods: Collection[QueuedPod], volumes: Volumes) -> list[QueuedPod]:
    """Return those of some pods of one kin whose claims have set them apart from it meanwhile."""
    first = next(iter(pods), None)
    if first is None or first.group_key == first.key or not claims_of(first.pod):
        return []
    return [each for each in pods if not _is_akin(each, volumes)]


def _is_akin(queued: QueuedPod, volumes: Volumes) -> bool:
    now = brought(queued.pod, volumes)
    return now is not None and queued.group_key.startswith(now)
