"""What the answers to writes mean: which are worth another attempt, and what the others tell."""

from typing import Final

import msgspec

from scheduler.kube.errors import (
    ApiError,
    Conflict,
    ConnectionSettingsError,
    Forbidden,
    KubeError,
    NotFound,
    ServerUnavailable,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from scheduler.kube.watch.decoding import Identity
from scheduler.model.events import FailureKind

__all__ = [
    "PLACEMENT",
    "TRANSIENT",
    "Abandoned",
    "Placement",
    "Protected",
    "Replaced",
    "kind_of",
    "of_a_pod_that_is_there",
    "perhaps_executed",
    "raise_for_good",
]

#: Answers that may come out differently next time.
TRANSIENT: Final = (
    Unauthorized,
    TooManyRequests,
    ServerUnavailable,
    Unreachable,
    ConnectionSettingsError,
)

#: What API servers say when a pod of that name exists, but with another uid.
OTHER_IDENTITY: Final = ("UID in precondition", "UID in the precondition", "metadata.uid")


#: What API servers say when disruption budgets do not let a pod be evicted.
#: Source: kube-apiserver v1.36.3 pkg/registry/core/pod/storage/eviction.go.
PROTECTED: Final = (
    "violate the pod's disruption budget",
    "more than one PodDisruptionBudget",
)


class Abandoned(KubeError):
    """The write must not happen any more."""


class Protected(ApiError):
    """A disruption budget keeps a pod from being evicted."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.status, error.reason, error.message)


class Replaced(KubeError):
    """The pod is another one of the same name."""


class _Where(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class Placement(msgspec.Struct):
    """Where a pod is."""

    metadata: Identity = Identity()
    spec: _Where = _Where()


PLACEMENT: Final = msgspec.json.Decoder(Placement)


def perhaps_executed(error: KubeError) -> bool:
    """Whether the server may have done what was asked.

    "Not found" does not tell: a binding that was executed, and whose pod is gone by now, ends so.
    """
    if isinstance(error, Unreachable):
        return error.sent
    return isinstance(error, ServerUnavailable | NotFound)


def of_a_pod_that_is_there(error: KubeError) -> KubeError:
    """Return what an error means where the pod was looked up: that it is gone is not so."""
    return Unreachable(str(error)) if isinstance(error, NotFound) else error


def raise_for_good(error: ApiError) -> None:
    """Raise what an answer means that comes out the same each time, though its status does not.

    Raises:
        Replaced: There is another pod of that name.
        Protected: A disruption budget is in the way.
    """
    if any(phrase in error.message for phrase in OTHER_IDENTITY):
        raise Replaced(str(error)) from error
    if any(phrase in error.message for phrase in PROTECTED):
        raise Protected(error) from error


def kind_of(error: KubeError) -> FailureKind:
    """Return what an error means to the machine."""
    match error:
        case Abandoned():
            return FailureKind.ABANDONED
        case NotFound() | Replaced():
            return FailureKind.GONE
        case Conflict():
            return FailureKind.CONFLICT
        case Forbidden():
            return FailureKind.FORBIDDEN
        case ApiError() if not isinstance(error, TRANSIENT):
            return FailureKind.REFUSED
        case _:
            return FailureKind.UNAVAILABLE
