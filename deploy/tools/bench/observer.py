"""Evaluates one watch of pods: when each pod was bound, deleted, or wrongly bound twice.

`Observer` receives every change, in order, with the time of its arrival; it does no I/O.
"""

import asyncio
from typing import Final, TypeAlias

import msgspec

__all__ = ["Change", "Observer", "decode"]

#: Namespace and name.
Key: TypeAlias = tuple[str, str]


class _Struct(msgspec.Struct, rename="camel"):
    pass


class _Metadata(_Struct):
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class _Condition(_Struct):
    type: str = ""


class _Spec(_Struct):
    node_name: str = ""
    priority: int = 0


class _Status(_Struct):
    conditions: list[_Condition] = []
    nominated_node_name: str = ""


class _Pod(_Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    #: A message instead, if this is an error.
    status: _Status | str = msgspec.field(default_factory=_Status)


class Change(msgspec.Struct):
    """A line of the watch."""

    type: str
    object: _Pod


#: Decodes a line.
decode: Final = msgspec.json.Decoder(Change).decode


class Observer:
    """Records the changes of measured pods, and deletions of all pods.

    Attributes:
        bound: when each measured pod was first seen with a node.
        tried: measured pods that have a node or a condition.
        gone: priority of each deleted pod, by its key.
        first_write: when a change of a measured pod or a deletion was first seen.
        problems: errors that must never happen.
        version: resource version of the last change, from which an interrupted watch continues.
        all_bound, all_tried: set when all measured pods are bound, or were attempted.
    """

    def __init__(self, measured: set[Key]) -> None:
        self._measured = measured
        self._nodes: dict[str, str] = {}
        self.bound: dict[Key, float] = {}
        self.tried: set[Key] = set()
        self.gone: dict[Key, int] = {}
        self.first_write: float | None = None
        self.problems: list[str] = []
        self.version = ""
        self.all_bound = asyncio.Event()
        self.all_tried = asyncio.Event()

    def see(self, change: Change, now: float) -> None:
        """Record a change of a pod.

        Raises:
            ConnectionError: the watch has failed.
        """
        if change.type == "ERROR":
            raise ConnectionError(f"the watch of pods failed: {change.object}")
        self.version = change.object.metadata.resource_version
        key = (change.object.metadata.namespace, change.object.metadata.name)
        if change.type == "DELETED":
            self._went(key, change.object.spec.priority, now)
        elif key in self._measured:
            self._changed(key, change.object, now)

    def _went(self, key: Key, priority: int, now: float) -> None:
        self._written(now)
        self.gone[key] = priority
        if key in self._measured:
            self.problems.append(f"{'/'.join(key)} was deleted")

    def _changed(self, key: Key, pod: _Pod, now: float) -> None:
        self._written(now)
        node = pod.spec.node_name
        if node or (isinstance(pod.status, _Status) and pod.status.conditions):
            self.tried.add(key)
        if node:
            before = self._nodes.setdefault(pod.metadata.uid, node)
            if before != node:
                self.problems.append(f"{'/'.join(key)} went from {before} to {node}")
            self.bound.setdefault(key, now)
        if len(self.tried) == len(self._measured):
            self.all_tried.set()
        if len(self.bound) == len(self._measured):
            self.all_bound.set()

    def _written(self, now: float) -> None:
        if self.first_write is None:
            self.first_write = now
