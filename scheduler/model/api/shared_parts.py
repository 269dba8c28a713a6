"""Holds equal parts of pods, and images that several nodes have, once.

The pods of one owner have equal containers, labels, affinities and so on, and these are most of
what a pod takes in memory. So a decoded pod gets the parts that an equal pod has already. Parts are
compared as they were decoded: in JSON, the containers of two pods differ by the name of the volume
with the token.
"""

from collections.abc import Callable, Sized
from operator import attrgetter
from sys import getrefcount
from typing import Any, Final, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from scheduler.model.api.objects import (
    Condition,
    ContainerImage,
    Node,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodStatus,
    ResourceClaimStatus,
)
from scheduler.model.api.pod_spec import PodSpec, Volume

__all__ = ["SharedParts"]

T = TypeVar("T")

#: Bytes of keys from which on a table drops what few pods have: that many are lost if all pods are
#: different.
_CROWDED: Final = 1 << 20
#: References to a value that few pods have: those of the table and of the call that counts them,
#: that of a pod, and another one, of a second pod or of an index of the state.
_FEW: Final = 4

#: Names of nodes and namespaces that are known at a time.
_MANY_NAMES: Final = 1 << 15
_NO_CLAIMS: Final[list[ResourceClaimStatus]] = []
_encode = msgspec.msgpack.Encoder().encode


class SharedParts:
    """The parts of all pods and nodes that passed through."""

    def __init__(self) -> None:
        # One table for each type: labels may be spelled like a condition.
        self._specs: Final[_Table[PodSpec]] = _Table(attrgetter("containers"))
        self._statuses: Final[_Table[PodStatus]] = _Table(attrgetter("container_statuses"))
        self._labels: Final[_Table[dict[str, str]]] = _Table()
        self._owners: Final[_Table[list[OwnerReference]]] = _Table()
        self._volumes: Final[_Table[list[Volume]]] = _Table()
        self._conditions: Final[_Table[Condition]] = _Table()
        self._images: Final[_Table[ContainerImage]] = _Table()
        self._names: Final[dict[str, str]] = {}

    def __len__(self) -> int:
        """How many parts are in the tables."""
        tables: tuple[Sized, ...] = (
            self._specs, self._statuses, self._labels, self._owners, self._volumes,
            self._conditions, self._images, self._names,
        )  # fmt: skip
        return sum(map(len, tables))

    def pod(self, pod: Pod) -> Pod:
        """Return an equal pod, whose parts are those of other pods where these are equal."""
        return Pod(
            self._metadata_of(pod.metadata), self._spec_of(pod.spec), self._status_of(pod.status)
        )

    def node(self, node: Node) -> Node:
        """Return an equal node, whose images are those of other nodes where these are equal."""
        images = [self._images.shared(image) for image in node.status.images]
        return replace(node, status=replace(node.status, images=images))

    def _metadata_of(self, metadata: ObjectMeta) -> ObjectMeta:
        return replace(
            metadata,
            namespace=self._name(metadata.namespace),
            labels=self._labels.shared(metadata.labels),
            owner_references=self._owners.shared(metadata.owner_references),
        )

    def _spec_of(self, spec: PodSpec) -> PodSpec:
        return replace(
            self._specs.shared(spec, _COMMON_SPEC(spec)),
            node_name=self._name(spec.node_name),
            volumes=self._volumes.shared(spec.volumes),
        )

    def _status_of(self, status: PodStatus) -> PodStatus:
        return replace(
            self._statuses.shared(status, _COMMON_STATUS(status)),
            start_time=status.start_time,
            conditions=[self._condition(condition) for condition in status.conditions],
            resource_claim_statuses=status.resource_claim_statuses or _NO_CLAIMS,
            extended_resource_claim_status=status.extended_resource_claim_status,
        )

    def _name(self, name: str) -> str:
        names = self._names
        if len(names) > _MANY_NAMES:
            names.clear()
        return names.setdefault(name, name)

    def _condition(self, condition: Condition) -> Condition:
        if condition.last_transition_time is not None:
            return condition
        return self._conditions.shared(condition)


class _Table(Generic[T]):
    """Values by key; what few pods have is dropped whenever the keys have doubled in size."""

    __slots__ = ("_counted", "_crowded", "_size", "_values")

    def __init__(self, counted: Callable[[T], object] = lambda value: value) -> None:
        """Create an empty table.

        Args:
            counted: Returns the part of a value whose references tell how many pods have it.
        """
        self._counted = counted
        self._values: dict[bytes, T] = {}
        self._size = 0
        self._crowded = _CROWDED

    def __len__(self) -> int:
        return len(self._values)

    def shared(self, value: T, compared: object = None) -> T:
        """Return a value that is equal to the given one, which is that one if there is no other.

        Args:
            value: Any value of the type of this table.
            compared: What of it has to be equal; all of it by default.
        """
        key = _encode(value if compared is None else compared)
        known = self._values.setdefault(key, value)
        if known is value:
            self._size += len(key)
            if self._size > self._crowded:
                self._drop_rare()
        return known

    def _drop_rare(self) -> None:
        values, counted = self._values, self._counted
        for key in [*values]:
            if getrefcount(counted(values[key])) <= _FEW:
                del values[key]
        self._size = sum(map(len, values))
        self._crowded = max(_CROWDED, 2 * self._size)


def _common(kind: type[msgspec.Struct], *own: str) -> Callable[[Any], tuple[Any, ...]]:
    """Return what gets the fields of a type, without those that differ between equal pods."""
    return attrgetter(*(name for name in kind.__struct_fields__ if name not in own))


_COMMON_SPEC: Final = _common(PodSpec, "node_name", "volumes")
_COMMON_STATUS: Final = _common(
    PodStatus,
    "start_time",
    "conditions",
    "resource_claim_statuses",
    "extended_resource_claim_status",
)
