"""What another scheduler does with its pods, as the watch shows it.

Its acts follow from two states of a pod. A preemption has several: the victims get the condition
`DisruptionTarget` before they are deleted, and the preemptor is nominated, in any order.

Source: kube-scheduler v1.36.3 framework/preemption.Executor.PreemptPod, schedule_one.go
handleSchedulingFailure.
"""

from collections import OrderedDict
from collections.abc import Collection
from typing import Final, TypeAlias

from scheduler.model.api.objects import DISRUPTION_TARGET, SCHEDULED, Pod
from scheduler.model.base import Record
from scheduler.model.times import Seconds

__all__ = [
    "Act",
    "SeenBinding",
    "SeenEviction",
    "SeenEvictions",
    "SeenNomination",
    "SeenRejection",
    "act_of",
    "is_turned_down",
]

#: How many evicted pods are remembered, and for how long, until the preemptor is known.
_MAX_EVICTED: Final = 5000
_MAX_AGE: Final[Seconds] = 600.0
_UNSCHEDULABLE: Final = "Unschedulable"


class SeenBinding(Record, frozen=True):
    """The pod was bound."""

    node: str


class SeenNomination(Record, frozen=True):
    """The pod was nominated to a node, as a preemptor is."""

    node: str


class SeenRejection(Record, frozen=True):
    """The pod was found to fit on no node."""


Act: TypeAlias = SeenBinding | SeenNomination | SeenRejection


def act_of(before: Pod, pod: Pod) -> Act | None:
    """Return what a scheduler has done between two states of a pending pod; `None` for nothing."""
    if pod.spec.node_name:
        return SeenBinding(pod.spec.node_name)
    nominated = pod.status.nominated_node_name
    if nominated and nominated != before.status.nominated_node_name:
        return SeenNomination(nominated)
    if not nominated and _is_rejected(pod) and not _is_rejected(before):
        return SeenRejection()
    return None


def is_turned_down(pod: Pod) -> bool:
    """Return whether a scheduler has tried a pending pod before, and it did not fit."""
    return bool(pod.status.nominated_node_name) or _is_rejected(pod)


def _is_rejected(pod: Pod) -> bool:
    found = pod.condition(SCHEDULED)
    return found is not None and found.status == "False" and found.reason == _UNSCHEDULABLE


class SeenEviction(Record, frozen=True):
    """A pod that a scheduler preempts."""

    #: Its state before that.
    pod: Pod
    node: str
    at: Seconds


class SeenEvictions:
    """Pods that were preempted, until it is known for whom.

    Args:
        schedulers: The names of the schedulers whose preemptions count.
    """

    def __init__(self, schedulers: Collection[str]) -> None:
        # The message begins with the name of the scheduler.
        self._prefixes = tuple(f"{name}: " for name in schedulers)
        #: By uid, oldest first; and the same by node.
        self._evicted: OrderedDict[str, SeenEviction] = OrderedDict()
        self._by_node: dict[str, dict[str, SeenEviction]] = {}

    def __len__(self) -> int:
        return len(self._evicted)

    def note(self, before: Pod, pod: Pod, now: Seconds) -> None:
        """Note a pod that is preempted from now on.

        Args:
            before: Its last state, on its node.
            pod: Its new state.
            now: The time.
        """
        found = pod.condition(DISRUPTION_TARGET)
        if found is None or not pod.preempted or before.preempted:
            return
        if not found.message.startswith(self._prefixes):
            return
        self._forget(pod.uid)
        noted = SeenEviction(before, before.spec.node_name, now)
        self._evicted[pod.uid] = noted
        self._by_node.setdefault(noted.node, {})[pod.uid] = noted
        while self._evicted:
            oldest = next(iter(self._evicted.values()))
            if len(self._evicted) <= _MAX_EVICTED and oldest.at > now - _MAX_AGE:
                break
            self._forget(oldest.pod.uid)

    def for_preemptor(self, pod: Pod, node: str, since: Seconds) -> list[SeenEviction]:
        """Return what may have been evicted from a node for a pod that waits since some time."""
        return [
            each
            for each in self._by_node.get(node, {}).values()
            if each.at >= since and each.pod.priority < pod.priority
        ]

    def take(self, evicted: list[SeenEviction]) -> None:
        """Forget pods whose preemptor is known."""
        for each in evicted:
            self._forget(each.pod.uid)

    def _forget(self, uid: str) -> None:
        known = self._evicted.pop(uid, None)
        if known is not None:
            there = self._by_node[known.node]
            del there[uid]
            if not there:
                del self._by_node[known.node]
