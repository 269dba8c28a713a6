"""The documents of pending pods, and the figures about them."""

import asyncio
import bisect
import re
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.api import owners
from scheduler.model.api.objects import Pod
from scheduler.model.rest.cluster import PendingPodsDocument, PendingPodView, ReasonCount
from scheduler.model.times import Seconds
from scheduler.observe.api import lists
from scheduler.observe.api.requests import (
    ApiRequest,
    NameAccess,
    continue_token,
    continued_number,
    limit_of,
)
from scheduler.observe.api.views import owner_view, pending_requests, pending_view
from scheduler.queue.phases import QueuePhase
from scheduler.queue.scheduling_queue import QueuedPod

__all__ = ["QueueSelection", "QueueViews", "found", "is_owner", "selection_of", "waiting_since"]

#: How many reasons are counted by name.
MAX_REASONS: Final = 50
#: Pods that are looked at in one slice.
_SCANNED: Final = 500
#: The name of the list in its `continue`.
_LIST: Final = "pods"
_FIT: Final = "NodeResourcesFit"
_GATED: Final = "SchedulingGates"
_INSUFFICIENT: Final = re.compile(r"Insufficient ([A-Za-z0-9./_-]{1,320}?)(?=[,.]? |[,.]?$)")
#: Messages whose reasons are remembered.
_MAX_KNOWN: Final = 4096


#: Phases that are counted in any case.
_PHASES: Final = ("active", "backoff", "unschedulable", "gated", "preempting", "binding")


class QueueFigures(NamedTuple):
    """Figures about all pods of the queue."""

    #: The number of pods by phase.
    phases: dict[str, int]
    #: The most frequent reasons, and the number of pods with others.
    reasons: tuple[ReasonCount, ...]
    other_reasons: int
    #: For how long the oldest pod has waited.
    oldest_seconds: float


class QueueSelection(NamedTuple):
    """Which pods of the queue a reader wants; what is empty selects all."""

    phase: str = ""
    namespace: str = ""
    #: The name of a controller, or `kind/name`.
    owner: str = ""
    #: A reason of the summary.
    reason: str = ""


def selection_of(query: Mapping[str, str]) -> QueueSelection:
    """Return the selection of a query.

    Raises:
        ValueError: There is no such phase.
    """
    phase = query.get("phase", "")
    known = [each.value for each in QueuePhase]
    if phase and phase not in known:
        raise ValueError(f"phase must be one of {', '.join(known)}")
    rest = (query.get(name, "") for name in ("namespace", "owner", "reason"))
    return QueueSelection(phase, *rest)


def waiting_since(queued: QueuedPod) -> Seconds:
    """Return since when a pod waits: when it first could be scheduled, or entered the queue."""
    return queued.timestamp if queued.first_active is None else queued.first_active


class QueueViews:
    """Makes views of the pods of the queue.

    Args:
        machine: The machine whose queue it is.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        #: Held while all pods are looked through for a page: many pages at once wait.
        self._turn = asyncio.Lock()
        self._known: dict[tuple[frozenset[str], str], tuple[str, ...]] = {}

    async def page(self, request: ApiRequest, now: Seconds) -> AsyncGenerator[bytes]:
        """Return pods of the queue in the order of their arrival.

        Raises:
            ValueError: A parameter of the query is malformed.
        """
        query = request.query
        limit, after = limit_of(query), continued_number(query, _LIST)
        selection = selection_of(query)
        async with self._turn:
            wanted = [queued async for queued in self._matching(selection)]
        seen = await self._seen(wanted, request.names)
        if selection.namespace or selection.owner:
            wanted = seen  # a count would tell whether there are pods of that name
        # The queue is in the order of arrival.
        first = 0
        if after is not None:
            first = bisect.bisect_right(seen, after, key=lambda queued: queued.sequence)
        page, remaining = seen[first : first + limit], max(0, len(seen) - first - limit)
        async with self._turn:
            requests = await self._requests(seen)

        def views(part: Sequence[QueuedPod]) -> list[PendingPodView]:
            alive = (queued for queued in part if queued.phase is not QueuePhase.REMOVED)
            return [self.view(queued, now) for queued in alive]

        def rest() -> PendingPodsDocument:
            return PendingPodsDocument(
                hidden=len(wanted) - len(seen),
                requests=requests,
                continue_=continue_token(_LIST, page[-1].sequence) if remaining else "",
                remaining=remaining,
            )

        return lists.document(page, views, rest)

    async def _matching(self, selection: QueueSelection) -> AsyncGenerator[QueuedPod]:
        """Yield the pods of the queue that a selection has."""
        for part in lists.slices(list(self._machine.queue), _SCANNED):
            for queued in part:
                if queued.phase is not QueuePhase.REMOVED and self.matches(queued, selection):
                    yield queued
            await asyncio.sleep(0)

    def matches(self, queued: QueuedPod, selection: QueueSelection) -> bool:
        """Return whether a selection has a pod."""
        phase, namespace, owner, reason = selection
        return (
            phase in ("", queued.phase.value)
            and namespace in ("", queued.pod.metadata.namespace)
            and (not owner or is_owner(owner, queued.pod))
            and (not reason or reason in self.reasons(queued))
        )

    @staticmethod
    async def _seen(pods: Sequence[QueuedPod], names: NameAccess) -> list[QueuedPod]:
        """Return the pods that the caller may know by name."""
        namespaces: set[str] = set()
        for part in lists.slices(pods, _SCANNED):
            namespaces.update(queued.pod.metadata.namespace for queued in part)
            await asyncio.sleep(0)
        visible = await names.visible(namespaces)
        seen: list[QueuedPod] = []
        for part in lists.slices(pods, _SCANNED):
            seen += [queued for queued in part if queued.pod.metadata.namespace in visible]
            await asyncio.sleep(0)
        return seen

    async def _requests(self, pods: Sequence[QueuedPod]) -> dict[str, int]:
        """Return the total requests of some pods."""
        total: Counter[str] = Counter()
        for part in lists.slices(pods, 50):
            for queued in part:
                total.update(pending_requests(queued.pod, self._machine.cluster))
            await asyncio.sleep(0)
        return dict(total)

    def view(self, queued: QueuedPod, now: Seconds) -> PendingPodView:
        """Return the view of a pod, with its name."""
        condition, expiry = queued.reported_condition, queued.backoff_expiry
        waits = queued.phase is QueuePhase.BACKOFF and expiry > now
        return PendingPodView(
            pod=pending_view(queued.pod, self._machine.cluster),
            scheduler_name=queued.pod.spec.scheduler_name,
            phase=queued.phase.value,
            since=times.stamp(waiting_since(queued)),
            attempts=queued.attempts,
            backoff_until=times.stamp(expiry) if waits else "",
            rejected_by=tuple(sorted(queued.rejectors)),
            nominated_node=self._machine.cluster.nominations.node(queued.uid) or "",
            message="" if condition is None else condition[1],
        )

    def reasons(self, queued: QueuedPod) -> tuple[str, ...]:
        """Return why a pod was rejected in its last attempt, in general words.

        These are names of plugins, and for `NodeResourcesFit` the resources that are not enough. A
        message can name objects of a namespace, so it is not used for totals.
        """
        if queued.phase is QueuePhase.GATED:
            return (_GATED,)
        message = "" if queued.reported_condition is None else queued.reported_condition[1]
        key = (queued.rejectors, message)
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            known = self._known[key] = self._read_reasons(*key)
        return known

    def _read_reasons(self, rejectors: frozenset[str], message: str) -> tuple[str, ...]:
        reasons = []
        for plugin in sorted(rejectors):
            offered = self._machine.cluster.axis.offered()
            found = _INSUFFICIENT.findall(message) if plugin == _FIT else []
            named = sorted({name for name in found if name in offered})
            reasons += [f"{plugin}: Insufficient {name}" for name in named] or [plugin]
        return tuple(reasons)

    async def figures(self, now: Seconds) -> QueueFigures:
        """Return the figures about all pods of the queue."""
        counts: Counter[str] = Counter()
        phases = Counter(dict.fromkeys(_PHASES, 0))
        oldest = now
        for part in lists.slices(list(self._machine.queue), _SCANNED):
            for queued in part:
                if queued.phase is QueuePhase.REMOVED:
                    continue
                phases[queued.phase.value] += 1
                counts.update(self.reasons(queued))
                if queued.phase is not QueuePhase.GATED:
                    oldest = min(oldest, waiting_since(queued))
            await asyncio.sleep(0)
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        reasons = tuple(ReasonCount(*item) for item in ranked[:MAX_REASONS])
        others = sum(pods for _, pods in ranked[MAX_REASONS:])
        return QueueFigures(dict(phases), reasons, others, max(0.0, now - oldest))


async def found(machine: Machine, namespace: str, name: str, uid: str = "") -> QueuedPod | None:
    """Return a pod of the queue, which is searched in slices; `None` if it is not there."""
    for part in lists.slices(list(machine.queue), _SCANNED):
        for queued in part:
            meta = queued.pod.metadata
            gone = queued.phase is QueuePhase.REMOVED
            if meta.name == name and meta.namespace == namespace and not gone:
                return queued if uid in ("", meta.uid) else None
        await asyncio.sleep(0)
    return None


def is_owner(wanted: str, pod: Pod) -> bool:
    """Return whether a pod's owner is the one that is given as its name, or as `Kind/name`.

    A pod of a Deployment also has the ReplicaSet as an owner.
    """
    owner, controller = owner_view(pod), owners.controller(pod)
    if owner is None or controller is None:
        return False
    both = (f"{owner.kind}/{owner.name}", f"{controller.kind}/{controller.name}")
    return wanted == owner.name or wanted in both
