"""Equivalence of pods: classes of equal pods, and sets that are rejected together.

Everything that depends on the specs of a class is compiled once. `model/classified_pod` says which
pods are equal. Classes are kept in order of use within a bound on memory.

When one pod of an *equivalence set* is rejected, the others are certain to be rejected too. A
set may have pods of several classes: pods of an indexed Job or a StatefulSet have labels of their
own, and many have claims of their own. Where every plugin that rejected a pod depends on nothing
but the spec, and on claims only for the volumes that they would attach, all waiting pods with such
a spec are one set.

Differs from kube-scheduler, which tries each of them.
"""

from collections import OrderedDict
from collections.abc import Collection, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler.config.settings import Extender
from scheduler.core.feasibility.filters import ClassFilters
from scheduler.core.feasibility.scores import ClassScores
from scheduler.core.preemption.evaluate.candidate_cache import CandidateCache
from scheduler.core.preemption.evaluate.objective import KUBE_SCHEDULER
from scheduler.framework.extender_protocol import interested
from scheduler.framework.profile import CLAIMS, PREEMPTION, Profile
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.api.pod_spec import ClaimVolume
from scheduler.model.classified_pod import ClassifiedPod, without_volume_names
from scheduler.queue.queued_pod import QueuedPod
from scheduler.state.cluster import Cluster
from scheduler.state.storage.csi_translation import inline_plugin
from scheduler.state.storage.mounts import claims_of
from scheduler.state.storage.volumes import Volumes

__all__ = [
    "MAX_BYTES",
    "EquivalenceClasses",
    "PodClass",
    "claim_drivers",
    "no_longer_equivalent",
    "spec_signature",
]

#: Bytes that all classes together may take.
MAX_BYTES: Final = 192 * 1024 * 1024
#: What a class takes beside its arrays, measured with `tracemalloc`: the objects of its plugins,
#: and what is compiled from a byte of its key.
_BYTES_PER_CLASS: Final = 17 * 1024
_BYTES_PER_BYTE: Final = 24

_encode = msgspec.msgpack.Encoder().encode

_CLAIM: Final = ClaimVolume()


class PodClass:
    """One class of equal pods, compiled."""

    __slots__ = ("_signature", "candidate_cache", "counted_bytes", "extenders", "filters", "key",
                 "pod", "profile", "scores")  # fmt: skip

    def __init__(
        self, classified: ClassifiedPod, profile: Profile, cluster: Cluster, verdicts: Verdicts
    ) -> None:
        pod = classified.pod
        #: Any pod of the class.
        self.pod = pod
        self.key = classified.key
        self.profile = profile
        self.filters = ClassFilters(cluster, profile.compile_filters(pod, cluster, verdicts))
        self.candidate_cache = CandidateCache(cluster, KUBE_SCHEDULER)
        self.scores = ClassScores(cluster, profile.compile_scores(pod, cluster))
        #: The extenders that are interested in such pods, with their indices in the profile.
        self.extenders: tuple[tuple[int, Extender], ...] = tuple(
            (index, extender)
            for index, extender in enumerate(profile.extenders)
            if interested(extender, pod)
        )
        self._signature: bytes | None = None
        #: `size_bytes` when it was last computed.
        self.counted_bytes = 0

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes now: arrays are made when they are first needed."""
        candidates = self.candidate_cache.size_bytes
        arrays = self.filters.size_bytes + self.scores.size_bytes + candidates
        return _BYTES_PER_CLASS + _BYTES_PER_BYTE * len(self.key) + arrays

    @property
    def signature(self) -> bytes:
        """What its pods have in common with those of other classes; see `spec_signature`."""
        if self._signature is None:
            self._signature = spec_signature(self.pod)
        return self._signature

    def equivalence_key(self, pod: Pod, rejectors: frozenset[str], cluster: Cluster) -> bytes:
        """Return the key of the set that is rejected with a pod; empty for the pod alone.

        Where pods could be evicted, more than the spec may decide whether that would help.
        """
        if self.extenders or cluster.nominations.get(pod.uid) is not None:
            return b""
        if CLAIMS in rejectors and pod.spec.resource_claims:
            return b""  # each pod of the class may have claims of its own
        if rejectors <= self.filters.spec_only and not self._may_evict(pod, cluster):
            drivers = claim_drivers(pod, cluster.volumes)
            return self.key if drivers is None else drivers + self.signature
        return self.key

    def _may_evict(self, pod: Pod, cluster: Cluster) -> bool:
        if PREEMPTION not in self.profile.post_filters or pod.spec.preemption_policy == "Never":
            return False
        return cluster.pods.lowest_priority() < pod.priority


class EquivalenceClasses:
    """The classes in use."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        cluster: Cluster,
        verdicts: Verdicts,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        """Start without classes; beyond `max_bytes` the oldest go, but not the one in use."""
        self._max_bytes = max_bytes
        self._profiles = profiles
        self._cluster = cluster
        self._verdicts = verdicts
        self._classes: OrderedDict[bytes, PodClass] = OrderedDict()
        #: The class that was used last: its arrays may have grown since they were counted.
        self._last: PodClass | None = None
        #: About how much memory all classes take.
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._classes)

    def get(self, classified: ClassifiedPod) -> PodClass:
        """Return the class of a pod, compiled for the first pod of the class."""
        if self._verdicts.is_full:
            self._forget_all()
        key = classified.key
        pod_class = self._classes.get(key)
        if pod_class is not None and pod_class is self._last:
            return pod_class
        if self._last is not None:
            self._count(self._last)
        if pod_class is None:
            profile = self._profiles[classified.pod.spec.scheduler_name]
            pod_class = PodClass(classified, profile, self._cluster, self._verdicts)
            self._classes[key] = pod_class
            self._count(pod_class)
        else:
            self._classes.move_to_end(key)
        self._last = pod_class
        while len(self._classes) > 1 and self.size_bytes > self._max_bytes:
            _, oldest = self._classes.popitem(last=False)
            self.size_bytes -= oldest.counted_bytes
        return pod_class

    def _forget_all(self) -> None:
        """Forget all classes and all verdicts, whose codes the classes keep."""
        self._verdicts.switch_half()
        self._classes.clear()
        self._last = None
        self.size_bytes = 0

    def _count(self, pod_class: PodClass) -> None:
        size = pod_class.size_bytes
        self.size_bytes += size - pod_class.counted_bytes
        pod_class.counted_bytes = size


def spec_signature(pod: Pod) -> bytes:
    """Return the spec without names of claims, encoded; equal for replicas of one namespace."""
    volumes = [
        volume
        if volume.persistent_volume_claim is None
        else replace(volume, persistent_volume_claim=_CLAIM)
        for volume in without_volume_names(pod.spec).volumes
    ]
    return _encode((pod.metadata.namespace, replace(pod.spec, volumes=volumes)))


def claim_drivers(pod: Pod, volumes: Volumes) -> bytes | None:
    """Return the CSI drivers of a pod's claims, one for each volume, encoded prefix-free.

    Returns:
        `None` where the volumes that the pod would attach depend on the node, or on more than its
        claims.
    """
    names, mounted = claims_of(pod), pod.spec.volumes
    if names and len(names) < len(mounted) and any(map(inline_plugin, mounted)):
        return None  # one of them may be the volume of a claim
    attached = set()
    for name in names:
        key = f"{pod.metadata.namespace}/{name}"
        if volumes.claims.observed(key) is None:
            return None
        volume = volumes.csi_volume(key)
        if volume is not None:
            if volumes.counts.is_attached(volume):
                return None
            attached.add(volume)
    return _encode(sorted(volume.driver for volume in attached))


def no_longer_equivalent(pods: Collection[QueuedPod], volumes: Volumes) -> list[QueuedPod]:
    """Return the pods of a set whose claims have changed so that they do not belong to it."""
    first = next(iter(pods), None)
    if first is None or first.equivalence_key == first.key or not claims_of(first.pod):
        return []
    return [queued for queued in pods if not _is_equivalent(queued, volumes)]


def _is_equivalent(queued: QueuedPod, volumes: Volumes) -> bool:
    drivers = claim_drivers(queued.pod, volumes)
    return drivers is not None and queued.equivalence_key.startswith(drivers)
