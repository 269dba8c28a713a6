"""Classes of equal pods: everything that their specs decide is worked out once.

`state/classified_pod` says which pods are equal. Classes are kept in order of use within a bound on
memory.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

from scheduler.config.settings import Extender
from scheduler.core import kin
from scheduler.core.filtering import Filtering
from scheduler.core.preemption.outlook import Outlook
from scheduler.core.scoring import Scoring
from scheduler.framework.extenders import interested
from scheduler.framework.profile import PREEMPTION, Profile
from scheduler.framework.verdicts import Verdicts
from scheduler.model.objects import Pod
from scheduler.state.classified_pod import ClassifiedPod
from scheduler.state.cluster import Cluster

__all__ = ["Classes", "PodClass"]

#: Bytes that all classes together may take; what a row costs in one, and a byte of its key: what
#: is compiled from a spec is larger than its text.
_BUDGET_BYTES: Final = 192 * 1024 * 1024
_BYTES_PER_ROW: Final = 64
_BYTES_PER_BYTE: Final = 24


class PodClass:
    """One class of equal pods, compiled."""

    __slots__ = ("_shape", "extenders", "filtering", "key", "outlook", "pod", "profile", "scoring")

    def __init__(
        self, classified: ClassifiedPod, profile: Profile, cluster: Cluster, verdicts: Verdicts
    ) -> None:
        pod = classified.pod
        #: Any pod of the class.
        self.pod = pod
        self.key = classified.key
        self.profile = profile
        self.filtering = Filtering(cluster, profile.predicates(pod, cluster, verdicts))
        self.outlook = Outlook(cluster)
        self.scoring = Scoring(cluster, profile.priorities(pod, cluster))
        #: The extenders that want to be asked, with their places.
        self.extenders: tuple[tuple[int, Extender], ...] = tuple(
            (place, each) for place, each in enumerate(profile.extenders) if interested(each, pod)
        )
        self._shape: bytes | None = None

    @property
    def shape(self) -> bytes:
        """What its pods have in common with those of other classes; see `kin.shape`."""
        if self._shape is None:
            self._shape = kin.shape(self.pod)
        return self._shape

    def spoken_for(self, pod: Pod, rejectors: frozenset[str], cluster: Cluster) -> bytes:
        """Return of which kin everybody is rejected with a pod of the class; empty for it alone.

        Where pods could be evicted, more than its spec may decide what that would help.
        """
        if self.extenders or cluster.nominations.get(pod.uid) is not None:
            return b""
        if rejectors <= self.filtering.by_spec and not self._may_evict(pod, cluster):
            brought = kin.brought(pod, cluster.volumes)
            return self.key if brought is None else brought + self.shape
        return self.key

    def _may_evict(self, pod: Pod, cluster: Cluster) -> bool:
        if PREEMPTION not in self.profile.post_filters or pod.spec.preemption_policy == "Never":
            return False
        return cluster.pods.lowest_priority() < pod.priority


class Classes:
    """The classes in use."""

    def __init__(
        self, profiles: Mapping[str, Profile], cluster: Cluster, verdicts: Verdicts
    ) -> None:
        self._profiles = profiles
        self._cluster = cluster
        self._verdicts = verdicts
        self._classes: OrderedDict[bytes, PodClass] = OrderedDict()
        #: Of all keys together.
        self._key_bytes = 0

    def __len__(self) -> int:
        return len(self._classes)

    def get(self, classified: ClassifiedPod) -> PodClass:
        """Return the class of a pod, compiled when it is the first of it."""
        key = classified.key
        found = self._classes.get(key)
        if found is not None:
            self._classes.move_to_end(key)
            return found
        profile = self._profiles[classified.pod.spec.scheduler_name]
        found = PodClass(classified, profile, self._cluster, self._verdicts)
        self._classes[key] = found
        self._key_bytes += len(key)
        while len(self._classes) > 1 and self._bytes() > _BUDGET_BYTES:
            oldest, _ = self._classes.popitem(last=False)
            self._key_bytes -= len(oldest)
        return found

    def _bytes(self) -> int:
        """Return about how much room the classes take."""
        rows = _BYTES_PER_ROW * self._cluster.columns.size * len(self._classes)
        return rows + _BYTES_PER_BYTE * self._key_bytes
