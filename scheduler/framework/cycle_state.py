"""What one attempt to schedule one pod knows.

Source: kube-scheduler v1.36.3 framework.CycleState.
"""

from msgspec import field

from scheduler.model.api.objects import Pod
from scheduler.model.base import Record
from scheduler.model.times import Seconds

__all__ = ["AttemptState"]


class AttemptState(Record, frozen=True):
    """The pod and the time of an attempt, and what plugins keep for its later extension points.

    Equal pods share what is compiled for them, and attempts may alternate: so whatever belongs to
    one attempt is here.
    """

    pod: Pod
    now: Seconds
    #: What a plugin has written, by its name.
    data: dict[str, object] = field(default_factory=dict)
