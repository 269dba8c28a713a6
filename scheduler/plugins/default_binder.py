"""DefaultBinder: binds through the API server.

The writer sends the binding; the plugin exists so that a configuration can name it.

Source: kube-scheduler v1.36.3 plugins/defaultbinder.
"""

from collections.abc import Sequence
from typing import ClassVar

from scheduler.framework.cluster_events import ClusterEventWithHint

__all__ = ["DefaultBinder"]


class DefaultBinder:
    """Binds pods by POST to their `binding` subresource."""

    name: ClassVar[str] = "DefaultBinder"

    def events_to_register(self) -> Sequence[ClusterEventWithHint]:
        return ()
