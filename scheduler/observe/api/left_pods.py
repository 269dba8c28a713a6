"""Documents about pods that are not in the queue: on a node, evicted, or gone."""

import asyncio
from collections.abc import Iterable
from typing import Final

from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.model.api.start_time import runs_since
from scheduler.model.rest.cluster import PendingPodView
from scheduler.model.rest.common import PodView
from scheduler.model.rest.explanations import AttemptView, PlacementView, PodExplanation, PodState
from scheduler.model.times import Seconds
from scheduler.observe.api import lists
from scheduler.observe.api.past_attempts import PastAttempt, PastPod
from scheduler.observe.api.past_preemption import PastVictim
from scheduler.observe.api.views import pending_view, stamp
from scheduler.state.cluster import Cluster

__all__ = ["attempt_views", "evicted_pod", "found_on_node", "left_pod", "placed_pod"]

#: Pods that are looked at in one slice.
_SCANNED: Final = 2_000


def attempt_views(attempts: Iterable[PastAttempt]) -> tuple[AttemptView, ...]:
    """Return the views of attempts."""
    return tuple(
        AttemptView(times.stamp(past.at), past.decision, past.node, past.message, past.repeated)
        for past in attempts
    )


def left_pod(past: PastPod, now: Seconds) -> PodExplanation:
    """Return what is remembered of a pod that has left the queue and is on no node."""
    ref = past.ref
    pod = PodView(namespace=ref.namespace, name=ref.name, uid=ref.uid, priority=past.priority)
    return PodExplanation(
        pending=_pending(pod, past, past.scheduler_name, "left", times.stamp(past.began)),
        now=times.stamp(now),
        message="the pod has left the queue",
        state="left",
        left_at=times.stamp(past.left_at),
        history=attempt_views(past.attempts),
    )


def placed_pod(pod: Pod, past: PastPod | None, machine: Machine, now: Seconds) -> PodExplanation:
    """Return where a pod runs.

    Args:
        pod: The pod.
        past: What is remembered of it from the queue; `None` if nothing is.
        machine: The machine that decides.
        now: The time.
    """
    cluster, scheduler = machine.cluster, pod.spec.scheduler_name
    state: PodState = "running" if scheduler in machine.profile_names else "foreign"
    node, since = cluster.node_of(pod.uid) or "", pod.metadata.creation_timestamp or ""
    runs = runs_since(pod)
    budgets = cluster.pdbs.protecting(pod)
    known = (cluster.pdbs.find(key) for key in budgets)
    allowed = [pdb.status.disruptions_allowed for pdb in known if pdb is not None]
    return PodExplanation(
        pending=_pending(pending_view(pod, cluster), past, scheduler, state, since),
        now=times.stamp(now),
        message=f"the pod was bound to node {node}",
        state=state,
        placement=PlacementView(
            node,
            since if runs is None else times.stamp(runs),
            budgets,
            max(0, min(allowed, default=0)),
            pod.terminating,
            "" if cluster.policies.stop is None else cluster.policies.stop.name,
        ),
        left_at="" if past is None else times.stamp(past.left_at),
        history=() if past is None else attempt_views(past.attempts),
    )


def evicted_pod(victim: PastVictim, past: PastPod | None, now: Seconds) -> PodExplanation:
    """Return what is remembered of a pod that was evicted and is gone."""
    mine = past if past is not None and past.ref.uid == victim.uid else None
    since, scheduler = stamp(victim.since), "" if mine is None else mine.scheduler_name
    return PodExplanation(
        pending=_pending(victim.pod, mine, scheduler, "evicted", since),
        now=times.stamp(now),
        message="the pod was evicted",
        state="evicted",
        history=() if mine is None else attempt_views(mine.attempts),
    )


async def found_on_node(cluster: Cluster, namespace: str, name: str, uid: str) -> Pod | None:
    """Return a pod that is on a node, searched in slices; `None` if there is none.

    Args:
        cluster: The cluster.
        namespace: Its namespace.
        name: Its name.
        uid: Its uid; empty for any.
    """
    for part in lists.slices(cluster.pods.by_slot(), _SCANNED):
        for pod in part:
            if pod is None or pod.metadata.name != name or pod.metadata.namespace != namespace:
                continue
            if uid in ("", pod.uid) and cluster.find_pod(pod.uid) is not None:
                return cluster.find_pod(pod.uid)
        await asyncio.sleep(0)
    return None


def _pending(
    pod: PodView, past: PastPod | None, scheduler: str, phase: PodState, since: str
) -> PendingPodView:
    return PendingPodView(
        pod=pod,
        scheduler_name=scheduler,
        phase=phase,
        since=since if past is None else times.stamp(past.began),
        attempts=0 if past is None else past.number,
    )
