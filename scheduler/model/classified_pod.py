"""A pod together with the key of its class, as one value, so that the two always match.

Two pods are of one class if namespace, labels, controller and every field of the spec that a rule
reads are equal. The controller matters for default spread constraints; names of volumes do not
matter, nor do those of resource claims. A pod with an ephemeral volume is in a class of its own:
the claims of such volumes have the pod's name and belong to it alone.
"""

from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.model.api.objects import Pod
from scheduler.model.api.pod_spec import PodResourceClaim, PodSpec

__all__ = ["ClassifiedPod", "without_volume_names"]

_encode = msgspec.msgpack.Encoder().encode

_SOME_CLAIM = PodResourceClaim()


class ClassifiedPod:
    """One state of a pod and the class of that state. A changed pod is a new value."""

    __slots__ = ("key", "pod")

    def __init__(self, pod: Pod) -> None:
        self.pod: Final = pod
        #: Equal for pods of one class only.
        self.key: Final = _class_key(pod)


def without_volume_names(spec: PodSpec) -> PodSpec:
    """Return a spec without the names of its volumes.

    Names of resource claims are left out, too: each pod of a class is asked for its own claims.
    """
    if spec.resource_claims:
        spec = replace(spec, resource_claims=[_SOME_CLAIM])
    if not spec.volumes:
        return spec
    return replace(spec, volumes=[replace(volume, name="") for volume in spec.volumes])


def _class_key(pod: Pod) -> bytes:
    metadata, spec = pod.metadata, pod.spec
    owner = next((owner for owner in metadata.owner_references if owner.controller), None)
    controller = None if owner is None else (owner.api_version, owner.kind, owner.name)
    key = _encode((metadata.namespace, metadata.labels, controller, without_volume_names(spec)))
    if any(volume.ephemeral is not None for volume in spec.volumes):
        key += f" {metadata.name} {pod.uid}".encode(errors="surrogatepass")
    return key
