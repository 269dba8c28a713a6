"""Events: the only input of the machine.

Observations hold full current states, so a repeated, late or re-ordered one is harmless. The
outcome of an effect is an event too: each effect that the machine requests has exactly one outcome,
`EffectDone` or `EffectFailed`; that of an `Ask` is `Answered` or `EffectFailed`.
"""

from enum import StrEnum
from typing import Final, TypeAlias

from scheduler.model.api.devices import DeviceClass, DeviceObject, ResourceClaim
from scheduler.model.api.objects import (
    LocalObject,
    Node,
    Pod,
    PodDisruptionBudget,
    Workload,
)
from scheduler.model.api.storage import Storage
from scheduler.model.base import Record
from scheduler.model.effects import (
    ClearNomination,
    DeallocateClaim,
    Effect,
    PodRef,
    RecordEvent,
    SetCondition,
)
from scheduler.model.extender_answers import ExtenderAnswer
from scheduler.model.policies import PreemptionPolicy
from scheduler.model.times import Seconds

__all__ = [
    "Answered",
    "BudgetGone",
    "BudgetObserved",
    "ClaimAnswered",
    "ClockAhead",
    "DeviceClassGone",
    "DeviceClassObserved",
    "DevicesGone",
    "DevicesObserved",
    "EffectDone",
    "EffectFailed",
    "Event",
    "Failure",
    "FailureKind",
    "LedgerLoaded",
    "NamespaceGone",
    "NamespaceObserved",
    "NodeGone",
    "NodeObserved",
    "PodGone",
    "PodObserved",
    "PolicyGone",
    "PolicyObserved",
    "StorageGone",
    "StorageObserved",
    "WorkloadGone",
    "WorkloadObserved",
    "changes_nothing",
]

#: Effects whose outcomes change nothing for the machine, and those whose success does not.
_BEST_EFFORT: Final = frozenset({ClearNomination, RecordEvent})
_DONE_FOR_OTHERS: Final = _BEST_EFFORT | {DeallocateClaim, SetCondition}


class PodObserved(Record, frozen=True):
    """A pod of any scheduler, bound or not, exists in this state."""

    pod: Pod


class PodGone(Record, frozen=True):
    """A pod is gone, or has finished and left the watch."""

    #: Namespace and name, joined by a slash.
    key: str
    #: The uid of the pod that is gone; a pod of that name with another uid still exists.
    uid: str


class NodeObserved(Record, frozen=True):
    """A node exists in this state."""

    node: Node


class NodeGone(Record, frozen=True):
    """A node is gone; its pods may still exist."""

    name: str


class BudgetObserved(Record, frozen=True):
    """A pod disruption budget exists in this state."""

    budget: PodDisruptionBudget


class BudgetGone(Record, frozen=True):
    """A pod disruption budget is gone."""

    key: str


class NamespaceObserved(Record, frozen=True):
    """A namespace exists with these labels."""

    namespace: LocalObject


class NamespaceGone(Record, frozen=True):
    """A namespace is gone."""

    name: str


class WorkloadObserved(Record, frozen=True):
    """A service or a controller of pods exists in this state."""

    workload: Workload


class WorkloadGone(Record, frozen=True):
    """A service or a controller of pods is gone."""

    #: `Service`, `ReplicationController`, `ReplicaSet` or `StatefulSet`.
    kind: str
    #: Namespace and name, joined by a slash.
    key: str


class StorageObserved(Record, frozen=True):
    """A volume, a claim, or another storage object exists in this state."""

    item: Storage


class StorageGone(Record, frozen=True):
    """A storage object is gone."""

    #: As the API spells it, `PersistentVolume` for example.
    kind: str
    #: Namespace and name joined by a slash, or the name where there is no namespace.
    key: str


class DeviceClassObserved(Record, frozen=True):
    """A class of devices exists in this state."""

    device_class: DeviceClass


class DeviceClassGone(Record, frozen=True):
    """A class of devices is gone."""

    name: str


class DevicesObserved(Record, frozen=True):
    """A resource claim, a resource slice or a device taint rule exists in this state."""

    item: DeviceObject


class DevicesGone(Record, frozen=True):
    """A resource claim, a resource slice or a device taint rule is gone."""

    #: As the API spells it, `ResourceClaim` for example.
    kind: str
    #: Namespace and name joined by a slash, or the name where there is no namespace.
    key: str


class ClaimAnswered(Record, frozen=True):
    """The API server has answered a write of ours with this state of a claim."""

    claim: ResourceClaim
    #: Whether the write may have created it, so that no informer need know it yet.
    created: bool = False


class PolicyObserved(Record, frozen=True):
    """A preemption policy is in force; a refused policy is never observed."""

    policy: PreemptionPolicy


class PolicyGone(Record, frozen=True):
    """A preemption policy is not in force any more."""

    name: str


class LedgerLoaded(Record, frozen=True):
    """The ledger of an earlier leader was loaded."""

    text: str


class ClockAhead(Record, frozen=True):
    """The scheduler's clock is ahead of the API server's clock.

    A timestamp of the API server compares with `now` minus these seconds. A clock that is behind is
    not reported, and is not corrected.
    """

    #: 0 or more; 0 until the first event of this kind.
    seconds: Seconds


class FailureKind(StrEnum):
    """The cause of the failure of an effect, as far as it matters to the machine."""

    #: The object is gone, or is another one of the same name, or its namespace is being deleted.
    GONE = "gone"
    #: The API server refused: the object is no longer in the state that the effect assumed.
    CONFLICT = "conflict"
    #: The scheduler lacks the right.
    FORBIDDEN = "forbidden"
    #: A quota, admission control or validation refused it, and would refuse it again.
    REFUSED = "refused"
    #: No reliable response, after all retries; or none to an earlier request of an eviction.
    UNAVAILABLE = "unavailable"
    #: Not attempted, or not finished, because the process stops or the effect is not wanted.
    ABANDONED = "abandoned"


class Failure(Record, frozen=True):
    """Why an effect failed."""

    kind: FailureKind
    #: The message of the API server or of the transport.
    message: str


class EffectDone(Record, frozen=True):
    """An effect was carried out."""

    effect: Effect
    #: False if nothing had to be done: a victim was gone before it was evicted.
    changed: bool = True


class EffectFailed(Record, frozen=True):
    """An effect was not carried out, and will not be; unknown if it is `UNAVAILABLE`."""

    effect: Effect
    failure: Failure


class Answered(Record, frozen=True):
    """Extenders have answered about a pod: the outcome of an `Ask`."""

    pod: PodRef
    #: The number of the `Ask`.
    number: int
    #: In the order of its questions.
    answers: tuple[ExtenderAnswer, ...]


Event: TypeAlias = (
    PodObserved
    | PodGone
    | NodeObserved
    | NodeGone
    | BudgetObserved
    | BudgetGone
    | NamespaceObserved
    | NamespaceGone
    | WorkloadObserved
    | WorkloadGone
    | StorageObserved
    | StorageGone
    | DeviceClassObserved
    | DeviceClassGone
    | DevicesObserved
    | DevicesGone
    | ClaimAnswered
    | PolicyObserved
    | PolicyGone
    | LedgerLoaded
    | ClockAhead
    | EffectDone
    | EffectFailed
    | Answered
)


def changes_nothing(outcome: Event) -> bool:
    """Return whether the machine does not need to know an outcome."""
    if isinstance(outcome, EffectDone):
        return type(outcome.effect) in _DONE_FOR_OTHERS
    return isinstance(outcome, EffectFailed) and type(outcome.effect) in _BEST_EFFORT
