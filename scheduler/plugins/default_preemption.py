"""DefaultPreemption: evicts pods of lower priority when a pod fits nowhere.

`core.preemption` does the work; the plugin enables it for a profile.

Source: kube-scheduler v1.36.3 plugins/defaultpreemption.
"""

from collections.abc import Sequence
from typing import ClassVar

from scheduler.framework.cluster_events import ClusterEventWithHint

__all__ = ["DefaultPreemption"]


class DefaultPreemption:
    """Enables preemption for pods that fit nowhere."""

    name: ClassVar[str] = "DefaultPreemption"

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()
