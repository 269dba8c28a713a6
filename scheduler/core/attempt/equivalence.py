"""Classes of equal pods: everything that their specs decide is worked out once.

`model/classified_pod` says which pods are equal. Classes are kept in order of use within a
bound on memory.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from scheduler.config.settings import Extender
from scheduler.core.attempt import signatures
from scheduler.core.feasibility.filters import ClassFilters
from scheduler.core.feasibility.scores import ClassScores
from scheduler.core.preemption.evaluate.candidate_cache import CandidateCache
from scheduler.framework.extender_protocol import interested
from scheduler.framework.profile import PREEMPTION, Profile
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.state.cluster import Cluster

__all__ = ["MOST_BYTES", "EquivalenceClasses", "PodClass"]

#: Bytes that all classes together may take.
MOST_BYTES: Final = 192 * 1024 * 1024
#: What a class takes beside its arrays, measured with `tracemalloc`: the objects of its rules, and
#: what is compiled from a byte of its key.
_BYTES_PER_CLASS: Final = 17 * 1024
_BYTES_PER_BYTE: Final = 24


class PodClass:
    """One class of equal pods, compiled."""

    __slots__ = ("_shape", "counted_bytes", "extenders", "filtering", "key", "outlook", "pod",
                 "profile", "scoring")  # fmt: skip

    def __init__(
        self, classified: ClassifiedPod, profile: Profile, cluster: Cluster, verdicts: Verdicts
    ) -> None:
        pod = classified.pod
        #: Any pod of the class.
        self.pod = pod
        self.key = classified.key
        self.profile = profile
        self.filtering = ClassFilters(cluster, profile.compile_filters(pod, cluster, verdicts))
        self.outlook = CandidateCache(cluster)
        self.scoring = ClassScores(cluster, profile.compile_scores(pod, cluster))
        #: The extenders that want to be asked, with their places.
        self.extenders: tuple[tuple[int, Extender], ...] = tuple(
            (place, each) for place, each in enumerate(profile.extenders) if interested(each, pod)
        )
        self._shape: bytes | None = None
        #: What it was found to take when it was looked at last.
        self.counted_bytes = 0

    @property
    def size_bytes(self) -> int:
        """About how much memory it takes now: arrays come when they are first needed."""
        arrays = self.filtering.size_bytes + self.scoring.size_bytes + self.outlook.size_bytes
        return _BYTES_PER_CLASS + _BYTES_PER_BYTE * len(self.key) + arrays

    @property
    def shape(self) -> bytes:
        """What its pods have in common with those of other classes; see `kin.shape`."""
        if self._shape is None:
            self._shape = signatures.shape(self.pod)
        return self._shape

    def spoken_for(self, pod: Pod, rejectors: frozenset[str], cluster: Cluster) -> bytes:
        """Return of which kin everybody is rejected with a pod of the class; empty for it alone.

        Where pods could be evicted, more than its spec may decide what that would help.
        """
        if self.extenders or cluster.nominations.get(pod.uid) is not None:
            return b""
        if rejectors <= self.filtering.spec_only and not self._may_evict(pod, cluster):
            brought = signatures.brought(pod, cluster.volumes)
            return self.key if brought is None else brought + self.shape
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
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """Start without classes; those beyond `most_bytes` go, but for the one in use."""
        self._most_bytes = most_bytes
        self._profiles = profiles
        self._cluster = cluster
        self._verdicts = verdicts
        self._classes: OrderedDict[bytes, PodClass] = OrderedDict()
        #: The class that was used last: its arrays may have grown since it was looked at.
        self._last: PodClass | None = None
        #: About how much memory all classes take.
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._classes)

    def get(self, classified: ClassifiedPod) -> PodClass:
        """Return the class of a pod, compiled when it is the first of it."""
        if self._verdicts.crowded:
            self._forget_all()
        key = classified.key
        found = self._classes.get(key)
        if found is not None and found is self._last:
            return found
        if self._last is not None:
            self._count(self._last)
        if found is None:
            profile = self._profiles[classified.pod.spec.scheduler_name]
            found = PodClass(classified, profile, self._cluster, self._verdicts)
            self._classes[key] = found
            self._count(found)
        else:
            self._classes.move_to_end(key)
        self._last = found
        while len(self._classes) > 1 and self.size_bytes > self._most_bytes:
            _, oldest = self._classes.popitem(last=False)
            self.size_bytes -= oldest.counted_bytes
        return found

    def _forget_all(self) -> None:
        """Forget all classes, since they keep codes of verdicts."""
        self._verdicts.turn()
        self._classes.clear()
        self._last = None
        self.size_bytes = 0

    def _count(self, pod_class: PodClass) -> None:
        size = pod_class.size_bytes
        self.size_bytes += size - pod_class.counted_bytes
        pod_class.counted_bytes = size
