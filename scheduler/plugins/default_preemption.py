"""DefaultPreemption: make room by evicting pods of lower priority.

The work is done by `core.preemption`; the plugin says that a profile wants it.

Source: kube-scheduler v1.36.3 plugins/defaultpreemption.
"""

from collections.abc import Sequence
from typing import ClassVar

from scheduler.framework.cluster_events import ClusterEventWithHint

__all__ = ["DefaultPreemption"]


class DefaultPreemption:
    """Preemption for pods that fit nowhere."""

    name: ClassVar[str] = "DefaultPreemption"

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()
