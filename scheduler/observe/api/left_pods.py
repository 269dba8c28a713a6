"""The document about a pod that has left the queue: its attempts, as far as they are remembered."""

from collections.abc import Iterable

from scheduler.model import times
from scheduler.model.rest.cluster import PendingPodView
from scheduler.model.rest.common import PodView
from scheduler.model.rest.explanations import AttemptView, PodExplanation
from scheduler.model.times import Seconds
from scheduler.observe.api.past_attempts import PastAttempt, PastPod

__all__ = ["PHASE", "attempt_views", "left_pod"]

#: The phase of a pod that is not in the queue any more.
PHASE = "left"


def attempt_views(attempts: Iterable[PastAttempt]) -> tuple[AttemptView, ...]:
    """Return the views of attempts."""
    return tuple(
        AttemptView(times.stamp(past.at), past.decision, past.node, past.message, past.repeated)
        for past in attempts
    )


def left_pod(past: PastPod, node: str, now: Seconds) -> PodExplanation:
    """Return why a pod has waited.

    Args:
        past: What is remembered of it.
        node: The node that it is on; empty if it is on none.
        now: The time.
    """
    ref = past.ref
    pod = PodView(namespace=ref.namespace, name=ref.name, uid=ref.uid, priority=past.priority)
    return PodExplanation(
        pending=PendingPodView(
            pod=pod,
            scheduler_name=past.scheduler_name,
            phase=PHASE,
            since=times.stamp(past.began),
            attempts=past.number,
        ),
        now=times.stamp(now),
        message=f"the pod was bound to node {node}" if node else "the pod has left the queue",
        left_at=times.stamp(past.left_at),
        history=attempt_views(past.attempts),
    )
