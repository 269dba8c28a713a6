"""Whether an event can help a waiting pod: asks the plugins that rejected it, and names one.

Source: kube-scheduler v1.36.3 backend/queue.isPodWorthRequeuing.
"""

from collections.abc import Callable, Mapping
from typing import Final

from scheduler.framework.cluster_events import ClusterEvent, Hint
from scheduler.framework.profile import Profile
from scheduler.model.api.objects import Node, Pod
from scheduler.model.api.quantity import QuantityError
from scheduler.queue.waiting_groups import Hears, Judge

__all__ = ["QueueingHints"]

#: Says that an event can help a pod that no plugin rejected.
_ANYONE: Final = "*"


class QueueingHints:
    """Knows which plugins of which profile listen to which events."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self._profiles: Final = profiles
        self._listeners: dict[tuple[str, ClusterEvent], tuple[tuple[str, Hint], ...]] = {}
        self._audiences: dict[ClusterEvent, frozenset[str]] = {}

    def anyone_listens(self, event: ClusterEvent) -> bool:
        """Tell whether some plugin of some profile listens to an event at all."""
        return bool(self._audience(event))

    def hears(self, event: ClusterEvent) -> Hears:
        """Return a function that tells of plugins whether any of them listens to an event."""
        audience = self._audience(event)
        return lambda rejectors: not rejectors or not rejectors.isdisjoint(audience)

    def _audience(self, event: ClusterEvent) -> frozenset[str]:
        """Return the plugins of all profiles that listen to an event."""
        found = self._audiences.get(event)
        if found is None:
            listening = (self._listening(name, event) for name in self._profiles)
            found = frozenset(plugin for each in listening for plugin, _ in each)
            self._audiences[event] = found
        return found

    def judge(self, event: ClusterEvent, old: Node | Pod | None, new: Node | Pod | None) -> Judge:
        """Return a function that names the plugin that sees hope for a rejected pod in the event.

        It returns an empty text where none does.
        """
        # Many pods are judged, and few differ in whose hints they need.
        relevant: dict[tuple[str, frozenset[str]], list[tuple[str, Hint]]] = {}

        def helped_by(pod: Pod, rejectors: frozenset[str]) -> str:
            if not rejectors:
                return _ANYONE
            key = (pod.spec.scheduler_name, rejectors)
            hints = relevant.get(key)
            if hints is None:
                listening = self._listening(key[0], event)
                hints = relevant[key] = [each for each in listening if each[0] in rejectors]
            for plugin, hint in hints:
                if _asked(hint, pod, old, new):
                    return plugin
            return ""

        return helped_by

    def _listening(
        self, scheduler_name: str, event: ClusterEvent
    ) -> tuple[tuple[str, Callable[..., bool]], ...]:
        key = (scheduler_name, event)
        found = self._listeners.get(key)
        if found is None:
            profile = self._profiles.get(scheduler_name)
            wakes = profile.queueing_hints if profile is not None else ()
            found = self._listeners[key] = tuple(
                (plugin, wake.hint)
                for plugin, wake in wakes
                if event.matched_by(wake.resource, wake.action)
            )
        return found


def _asked(hint: Hint, pod: Pod, old: Node | Pod | None, new: Node | Pod | None) -> bool:
    """Ask a hint; one that cannot tell counts as *it can help*."""
    try:
        return hint(pod, old, new)
    except QuantityError:
        return True
