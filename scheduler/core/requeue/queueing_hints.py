"""Whether an event can help a waiting pod, by the hints of the plugins that rejected it.

`core/requeue/wakeups` calls this module, and moves the pods with
`SchedulingQueue.move_all_to_active_or_backoff`.

Source: kube-scheduler v1.36.3 backend/queue.isPodWorthRequeuing.
"""

from collections.abc import Callable, Mapping
from typing import Final

from scheduler.framework.cluster_events import ClusterEvent, Hint
from scheduler.framework.profile import Profile
from scheduler.model.api.objects import Pod
from scheduler.model.api.quantity import QuantityError
from scheduler.queue.waiting_sets import ConcernCheck, HintCheck

__all__ = ["QueueingHints"]

#: In place of a plugin: every event can help a pod that no plugin rejected.
_ANY_PLUGIN: Final = "*"


class QueueingHints:
    """The plugins of all profiles, by the events that they listen to."""

    def __init__(self, profiles: Mapping[str, Profile]) -> None:
        self._profiles: Final = profiles
        self._hints: dict[tuple[str, ClusterEvent], tuple[tuple[str, Hint], ...]] = {}
        self._plugins: dict[ClusterEvent, frozenset[str]] = {}

    def is_registered(self, event: ClusterEvent) -> bool:
        """Return whether some plugin of some profile listens to an event at all."""
        return bool(self.registered_plugins(event))

    def concern_check(self, event: ClusterEvent) -> ConcernCheck:
        """Return a function that says whether any of some plugins listens to an event."""
        audience = self.registered_plugins(event)
        return lambda rejectors: not rejectors or not rejectors.isdisjoint(audience)

    def registered_plugins(self, event: ClusterEvent) -> frozenset[str]:
        """Return the plugins of all profiles that listen to an event."""
        audience = self._plugins.get(event)
        if audience is None:
            listening = (self._hints_for(name, event) for name in self._profiles)
            audience = frozenset(plugin for hints in listening for plugin, _ in hints)
            self._plugins[event] = audience
        return audience

    def hint_check(self, event: ClusterEvent, old: object, new: object) -> HintCheck:
        """Return a function that names the plugin whose hint says that the event helps a pod.

        The function returns an empty text where no plugin says so.
        """
        # Many pods are checked, and few differ in the hints that they need.
        relevant: dict[tuple[str, frozenset[str]], list[tuple[str, Hint]]] = {}

        def helped_by(pod: Pod, rejectors: frozenset[str]) -> str:
            if not rejectors:
                return _ANY_PLUGIN
            key = (pod.spec.scheduler_name, rejectors)
            hints = relevant.get(key)
            if hints is None:
                listening = self._hints_for(key[0], event)
                hints = relevant[key] = [item for item in listening if item[0] in rejectors]
            for plugin, hint in hints:
                if _can_help(hint, pod, old, new):
                    return plugin
            return ""

        return helped_by

    def _hints_for(
        self, scheduler_name: str, event: ClusterEvent
    ) -> tuple[tuple[str, Callable[..., bool]], ...]:
        key = (scheduler_name, event)
        listeners = self._hints.get(key)
        if listeners is None:
            profile = self._profiles.get(scheduler_name)
            wakes = profile.queueing_hints if profile is not None else ()
            listeners = self._hints[key] = tuple(
                (plugin, wake.hint)
                for plugin, wake in wakes
                if event.matched_by(wake.resource, wake.action)
            )
        return listeners


def _can_help(hint: Hint, pod: Pod, old: object, new: object) -> bool:
    """Call a hint; one that fails on a quantity counts as *it can help*."""
    try:
        return hint(pod, old, new)
    except QuantityError:
        return True
