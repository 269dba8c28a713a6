"""The objects of a resource that an informer has reported, and what it reports next."""

from typing import Generic, TypeVar

from scheduler.kube.instrumentation import Instrumentation
from scheduler.kube.watch.decoding import Known, UndecodableObject, WatchEvent
from scheduler.kube.watch.resources import ApiObject, ApiResource
from scheduler.kube.watch.versions import is_older
from scheduler.model.events import Event

__all__ = ["KnownObjects"]

ObjectT = TypeVar("ObjectT", bound=ApiObject)


class KnownObjects(Generic[ObjectT]):
    """Objects that were reported and are not yet gone, and those that cannot be decoded."""

    def __init__(self, resource: ApiResource[ObjectT], observer: Instrumentation) -> None:
        self._resource = resource
        self._observer = observer
        self._states: dict[str, Known] = {}
        self._undecodable: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._states)

    @property
    def undecodable(self) -> int:
        """How many objects cannot be decoded."""
        return len(self._undecodable)

    def states(self) -> dict[str, Known]:
        """Return the state of each object that was reported last, by key, as a copy."""
        return self._states.copy()

    def unreadable(self, key: str) -> bool:
        """Return whether an object is left out, or kept as it was, because decoding failed."""
        return key in self._undecodable

    def take(self, notice: WatchEvent[ObjectT] | UndecodableObject, events: list[Event]) -> None:
        """Report what a line of a watch says about an object; a bookmark says nothing."""
        if notice.type == "DELETED":
            self.forget(notice.identity.key, events)
        elif notice.type == "BOOKMARK":
            pass
        elif isinstance(notice, UndecodableObject):
            self.skip(notice, events)
        else:
            self.observe(notice.object, events)

    def observe(self, observed: ObjectT, events: list[Event]) -> str:
        """Report the state of an object, unless it was reported already; return its key.

        A version before the known one is of a restored etcd, in which nothing that came later has
        happened: a pod may be without its node again. The object is reported as gone first.
        """
        metadata = observed.metadata
        key = metadata.key
        uid, version = metadata.uid, metadata.resource_version
        known = self._states.get(key)
        if known is not None:
            if known.uid != uid or is_older(version, known.version):
                self.forget(key, events)
            elif known.version == version:
                return key
        self._states[key] = Known(uid, version)
        if self._undecodable:
            self._undecodable.pop(key, None)
        events.append(self._resource.observed(observed))
        return key

    def skip(self, undecodable: UndecodableObject, events: list[Event]) -> str:
        """Leave out an object that cannot be decoded; return its key."""
        key = undecodable.identity.key
        known = self._states.get(key)
        if known is not None and known.uid != undecodable.identity.uid:
            self.forget(key, events)
        if key not in self._undecodable:
            self._undecodable[key] = undecodable.problem
            self._observer.undecodable(self._resource.name, key, undecodable.problem)
        return key

    def forget(self, key: str, events: list[Event]) -> None:
        """Report that an object is gone, if it was reported before."""
        self._undecodable.pop(key, None)
        known = self._states.pop(key, None)
        if known is not None:
            events.append(self._resource.gone(key, known.uid))

    def keep_only(self, seen: set[str], events: list[Event]) -> None:
        """Report all other objects as gone, after everything was listed."""
        for key in [key for key in self._states if key not in seen]:
            self.forget(key, events)
        for key in [key for key in self._undecodable if key not in seen]:
            del self._undecodable[key]
