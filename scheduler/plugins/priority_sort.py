"""PrioritySort: higher priority first, then earlier timestamp.

The queue itself keeps this order; the plugin exists so that a configuration can name it.

Source: kube-scheduler v1.36.3 plugins/queuesort.PrioritySort.Less.
"""

from collections.abc import Sequence
from typing import ClassVar

from scheduler.framework.cluster_events import ClusterEventWithHint

__all__ = ["PrioritySort"]


class PrioritySort:
    """Names the order of the scheduling queue."""

    name: ClassVar[str] = "PrioritySort"

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()
