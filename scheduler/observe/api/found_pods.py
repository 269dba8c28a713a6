"""Finds pods by name, uid, owner or labels: those that wait, that run, and that were evicted."""

import asyncio
from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.model.api.selectors import Selector, parse_selector
from scheduler.model.api.start_time import runs_since
from scheduler.model.messages import count, joined
from scheduler.model.rest.common import Impact, PodView
from scheduler.model.rest.explanations import (
    FoundPod,
    FoundPodsDocument,
    PodExplanation,
    PodState,
)
from scheduler.model.times import Seconds
from scheduler.observe.api import lists, verdicts
from scheduler.observe.api.explanation import Explanations
from scheduler.observe.api.past_preemption import PastVictim
from scheduler.observe.api.preemptions import PreemptionViews
from scheduler.observe.api.queue_views import QueueViews, waiting_since
from scheduler.observe.api.requests import ApiRequest
from scheduler.observe.api.views import owner_view, pending_view, stamp
from scheduler.queue.phases import QueuePhase
from scheduler.queue.scheduling_queue import QueuedPod

__all__ = ["FoundPods"]

T = TypeVar("T")

#: How many pods are returned.
_MOST: Final = 500
#: Pods that are looked at in one slice.
_SCANNED: Final = 500
#: Pods of which views are made in one slice.
_VIEWED: Final = 50
#: Short names of kubectl, and its plurals end with an s.
_KINDS: Final = {
    "po": "pod",
    "deploy": "deployment",
    "rs": "replicaset",
    "sts": "statefulset",
    "ds": "daemonset",
    "rc": "replicationcontroller",
}


class Wanted(NamedTuple):
    """Which pods are asked for; what is empty selects all."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    #: The kind of a controller in lower case, and its name.
    kind: str = ""
    owner: str = ""
    labels: Selector | None = None

    def has(self, pod: Pod) -> bool:
        """Return whether a pod is asked for."""
        meta = pod.metadata
        return (
            self.namespace in ("", meta.namespace)
            and self.name in ("", meta.name)
            and self.uid in ("", meta.uid)
            and (self.labels is None or self.labels.matches(meta.labels))
            and (not self.owner or _owns(self.kind, self.owner, pod))
        )

    def had(self, pod: PodView) -> bool:
        """Return whether a pod that is gone is asked for; its labels are not known any more."""
        owner = pod.owner
        owns = owner is not None and (owner.kind.lower(), owner.name) == (self.kind, self.owner)
        return (
            self.labels is None
            and self.namespace in ("", pod.namespace)
            and self.name in ("", pod.name)
            and self.uid in ("", pod.uid)
            and (owns or not self.owner)
        )

    def __str__(self) -> str:
        """Return what was asked for, in words."""
        of = f"{self.kind} {self.owner}" if self.owner else self.name or self.uid
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{of or 'these labels'}{where}"


def wanted(query: Mapping[str, str]) -> Wanted:
    """Return what a query asks for.

    Raises:
        ValueError: It asks for nothing, or a parameter is malformed.
    """
    kind, slash, owner = query.get("owner", "").partition("/")
    kind = kind.lower()
    kind = _KINDS.get(kind, _KINDS.get(kind.removesuffix("s"), kind.removesuffix("s")))
    labels = query.get("labelSelector", "")
    name = query.get("name", "")
    if slash and kind == "pod":
        kind, owner, name = "", "", owner
    elif query.get("owner") and not (slash and kind and owner):
        raise ValueError("owner must be a kind and a name, as Deployment/web")
    if not (name or query.get("uid") or owner or labels):
        raise ValueError("one of name, uid, owner and labelSelector is needed")
    return Wanted(
        query.get("namespace", ""), name, query.get("uid", ""), kind, owner,
        parse_selector(labels) if labels else None,
    )  # fmt: skip


class _Group(NamedTuple):
    """Pods that wait for the same reason, the one that waits longest first."""

    pods: list[QueuedPod]

    def first(self) -> QueuedPod:
        return self.pods[0]


class FoundPods:
    """Finds pods.

    Args:
        machine: The machine that decides.
        queue: Makes views of pods of the queue.
        preemptions: Knows the pods that were evicted.
        explanations: Explains the first of the pods.
    """

    def __init__(
        self,
        machine: Machine,
        queue: QueueViews,
        preemptions: PreemptionViews,
        explanations: Explanations,
    ) -> None:
        self._machine = machine
        self._queue = queue
        self._preemptions = preemptions
        self._explanations = explanations

    async def page(self, request: ApiRequest, now: Seconds) -> FoundPodsDocument:
        """Return the pods that a query asks for.

        Raises:
            LookupError: There is none that the caller may see.
            ValueError: A parameter of the query is malformed.
            ApiError: Too many requests are waiting.
        """
        asked = wanted(request.query)
        # Before anything is found: how long a review takes would tell that there is something.
        seen = await request.names.visible(await self._namespaces(asked, now))
        queued = await self._seen_queued(asked, seen)
        groups = await self._groups(queued)
        pods = await self._placed(asked, seen)
        evicted = await self._evicted(asked, seen, now)
        waiting = await _views([each for group in groups for each in group.pods], self._waiting)
        placed = await _views(pods[:_MOST], self._running)
        items = [*waiting, *evicted, *placed]
        more = len(queued) - len(waiting), len(pods) - len(placed)
        if not items:
            raise LookupError(f"no pod is known of {asked}: none waits, runs or was evicted")
        first = await self._first(items[0], request, now)
        verdict, impact = _verdict(groups, items, more, first, now)
        return FoundPodsDocument(
            now=times.stamp(now),
            verdict=verdict,
            impact=impact,
            items=tuple(items[:_MOST]),
            remaining=max(0, len(items) - _MOST) + sum(more),
            first=first,
        )

    async def _namespaces(self, asked: Wanted, now: Seconds) -> frozenset[str]:
        """Return all namespaces in which a pod may be found."""
        if asked.namespace:
            return frozenset({asked.namespace})
        found: set[str] = set()
        for part in lists.slices(list(self._machine.queue), _SCANNED):
            found.update(each.pod.metadata.namespace for each in part)
            await asyncio.sleep(0)
        for placed in lists.slices(self._machine.cluster.pods.by_slot(), _SCANNED):
            found.update(pod.metadata.namespace for pod in placed if pod is not None)
            await asyncio.sleep(0)
        victims = await self._preemptions.victims(lambda each: each.lost, now)
        for past in lists.slices(victims, _SCANNED):
            found.update(victim.pod.namespace for _, victim in past)
            await asyncio.sleep(0)
        return frozenset(found)

    async def _seen_queued(self, asked: Wanted, seen: Container[str]) -> list[QueuedPod]:
        found: list[QueuedPod] = []
        for part in lists.slices(list(self._machine.queue), _SCANNED):
            alive = (each for each in part if each.phase is not QueuePhase.REMOVED)
            own = (each for each in alive if each.pod.metadata.namespace in seen)
            found += [each for each in own if asked.has(each.pod)]
            await asyncio.sleep(0)
        return found

    async def _groups(self, pods: Sequence[QueuedPod]) -> list[_Group]:
        """Return the pods by what they request and why they wait, the largest group first."""
        by: dict[object, list[QueuedPod]] = {}
        for part in lists.slices(pods[:_MOST], _VIEWED):
            for each in part:
                requests = pending_view(each.pod, self._machine.cluster).requests
                key = (*sorted(requests.items()), self._queue.reasons(each), each.pod.priority)
                by.setdefault(key, []).append(each)
            await asyncio.sleep(0)
        for group in by.values():
            group.sort(key=waiting_since)
        return sorted(map(_Group, by.values()), key=lambda group: -len(group.pods))

    def _waiting(self, queued: QueuedPod) -> FoundPod:
        pod = pending_view(queued.pod, self._machine.cluster)
        node = self._machine.cluster.nominations.node(queued.uid) or ""
        return FoundPod(pod, "waiting", node, times.stamp(waiting_since(queued)))

    async def _placed(self, asked: Wanted, seen: Container[str]) -> list[Pod]:
        cluster = self._machine.cluster
        found: list[Pod] = []
        for part in lists.slices(cluster.pods.by_slot(), _SCANNED):
            own = (pod for pod in part if pod is not None and pod.metadata.namespace in seen)
            here = (pod for pod in own if asked.has(pod))
            found += [pod for pod in here if cluster.find_pod(pod.uid) is not None]
            await asyncio.sleep(0)
        return found

    def _running(self, pod: Pod) -> FoundPod:
        cluster = self._machine.cluster
        ours = pod.spec.scheduler_name in self._machine.profile_names
        state: PodState = "running" if ours else "foreign"
        if cluster.is_being_preempted(pod):
            state = "evicted"
        node, since = cluster.node_of(pod.uid) or "", stamp(runs_since(pod))
        return FoundPod(pending_view(pod, cluster), state, node, since)

    async def _evicted(self, asked: Wanted, seen: Container[str], now: Seconds) -> list[FoundPod]:
        cluster = self._machine.cluster

        def is_wanted(each: PastVictim) -> bool:
            own = each.lost and each.pod.namespace in seen
            return own and asked.had(each.pod) and cluster.find_pod(each.uid) is None

        return [
            FoundPod(victim.pod, "evicted", past.node, stamp(victim.evicted_at))
            for past, victim in await self._preemptions.victims(is_wanted, now)
        ]

    async def _first(
        self, first: FoundPod, request: ApiRequest, now: Seconds
    ) -> PodExplanation | None:
        """Return the explanation of the first pod; `None` if it is gone meanwhile."""
        pod = first.pod
        where = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
        try:
            found = await self._explanations.page(ApiRequest(where, request.names), now)
        except LookupError:
            return None
        return found if isinstance(found, PodExplanation) else None


async def _views(found: Sequence[T], view: Callable[[T], FoundPod]) -> list[FoundPod]:
    """Return views of pods, made in slices."""
    views: list[FoundPod] = []
    for part in lists.slices(found, _VIEWED):
        views += map(view, part)
        await asyncio.sleep(0)
    return views


def _owns(kind: str, name: str, pod: Pod) -> bool:
    owner = owner_view(pod)
    if owner is None:
        return False
    if owner.name == name and owner.kind.lower() == kind:
        return True
    return any(
        each.controller and each.name == name and each.kind.lower() == kind
        for each in pod.metadata.owner_references
    )


def _verdict(
    groups: Sequence[_Group],
    items: Sequence[FoundPod],
    more: tuple[int, int],
    first: PodExplanation | None,
    now: Seconds,
) -> tuple[str, Impact]:
    """Return one sentence about all pods, and what it costs other pods.

    Args:
        groups: Those that wait, as far as they were looked at.
        items: All that were looked at.
        more: How many others wait, and how many others are on nodes.
        first: The explanation of the first one.
        now: The time.
    """
    if first is not None and len(items) == 1:
        return first.verdict, first.impact
    states = Counter(each.state for each in items)
    rest = [f"{states[state]} {verb}" for state, verb in _STATES.items() if states[state]]
    rest += [
        f"{each} more {verb}" for each, verb in zip(more, ("wait", "on nodes"), strict=True) if each
    ]
    owners = {f"{o.kind}/{o.name}" for each in items if (o := each.pod.owner) is not None}
    of = f" of {owners.pop()}" if len(owners) == 1 else ""
    if not groups or first is None or first.state != "waiting":
        impact: Impact = "evictions" if states["evicted"] else "none"
        return f"{count(len(items) + sum(more), 'pod')}{of}: {joined(rest)}.", impact
    number = len(groups[0].pods)
    who = f"{count(number, 'pod')}{of}" if number > 1 else verdicts.named(first.pending.pod)
    text, impact = verdicts.of_waiting(first, who, number, now)
    others = sum(len(group.pods) for group in groups[1:])
    if others:
        rest.insert(0, f"{others} more {'waits' if others == 1 else 'wait'} for other reasons")
    return f"{text}{'; ' if rest else ''}{joined(rest)}.", impact


_STATES: Final[dict[PodState, str]] = {
    "running": "on nodes",
    "foreign": "of other schedulers",
    "evicted": "evicted",
}
