"""Which objects of a resource were told of, and what is to be told next."""

from typing import Generic, TypeVar

from scheduler.kube.client.hooks import ClientHooks
from scheduler.kube.watch.decoding import Known, Odd
from scheduler.kube.watch.resources import ApiObject, ApiResource
from scheduler.model.events import Event

__all__ = ["KnownObjects"]

ObjectT = TypeVar("ObjectT", bound=ApiObject)


class KnownObjects(Generic[ObjectT]):
    """The objects that were told as observed and not yet as gone, and those that cannot be read."""

    def __init__(self, resource: ApiResource[ObjectT], observer: ClientHooks) -> None:
        self._resource = resource
        self._observer = observer
        self._states: dict[str, Known] = {}
        self._undecodable: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._states)

    @property
    def undecodable(self) -> int:
        """How many objects cannot be read."""
        return len(self._undecodable)

    def states(self) -> dict[str, Known]:
        """Return which state of each object was told last, by key, as a copy."""
        return self._states.copy()

    def unreadable(self, key: str) -> bool:
        """Tell whether an object is left out, or kept as it was, because it cannot be read."""
        return key in self._undecodable

    def observe(self, each: ObjectT, events: list[Event]) -> str:
        """Tell of the state of an object, unless it was told already; return its key."""
        metadata = each.metadata
        key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
        uid, version = metadata.uid, metadata.resource_version
        known = self._states.get(key)
        if known is not None:
            if known.uid != uid:
                self.forget(key, events)
            elif known.version == version:
                return key
        self._states[key] = Known(uid, version)
        if self._undecodable:
            self._undecodable.pop(key, None)
        events.append(self._resource.observed(each))
        return key

    def skip(self, odd: Odd, events: list[Event]) -> str:
        """Leave out an object that cannot be read; return its key."""
        key = odd.identity.key
        known = self._states.get(key)
        if known is not None and known.uid != odd.identity.uid:
            self.forget(key, events)
        if key not in self._undecodable:
            self._undecodable[key] = odd.problem
            self._observer.undecodable(self._resource.name, key, odd.problem)
        return key

    def forget(self, key: str, events: list[Event]) -> None:
        """Tell that an object is gone, if it was told of."""
        self._undecodable.pop(key, None)
        known = self._states.pop(key, None)
        if known is not None:
            events.append(self._resource.gone(key, known.uid))

    def keep_only(self, seen: set[str], events: list[Event]) -> None:
        """Tell that all others are gone, after everything was listed."""
        for key in [key for key in self._states if key not in seen]:
            self.forget(key, events)
        for key in [key for key in self._undecodable if key not in seen]:
            del self._undecodable[key]
