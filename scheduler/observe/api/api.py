"""The documents of `/api/v1` by path. Everything is only read, in the scheduler's loop."""

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from scheduler import __version__
from scheduler.core.machine import Machine
from scheduler.model import times
from scheduler.model.policies import PolicyState
from scheduler.model.rest.cluster import ApiIndex, LabelsDocument, NodeDocument, NodesDocument
from scheduler.model.rest.cluster import Summary as SummaryDocument
from scheduler.model.rest.explanations import FoundPodsDocument, PodExplanation
from scheduler.model.rest.preemptions import PoliciesDocument
from scheduler.model.rest.report import ReportDocument
from scheduler.model.times import Seconds
from scheduler.observe.api import lists, openapi
from scheduler.observe.api import shadow as shadow_page
from scheduler.observe.api.explanation import Explanations
from scheduler.observe.api.found_pods import FoundPods
from scheduler.observe.api.history import History
from scheduler.observe.api.node_feed import NodeFeed
from scheduler.observe.api.nodes import NodeViews, label_keys
from scheduler.observe.api.pod_feed import PodFeed, PodWatch
from scheduler.observe.api.policies import PolicyViews
from scheduler.observe.api.preemptions import PreemptionViews
from scheduler.observe.api.queue_views import QueueViews, selection_of
from scheduler.observe.api.report import Reports
from scheduler.observe.api.requests import (
    ApiPage,
    ApiRequest,
    NameAccess,
    Stream,
    continue_token,
    continued,
    limit_of,
)
from scheduler.observe.api.watches import Changes, is_watch, number_of, watch, whole
from scheduler.observe.shadow.shadow import Shadow

__all__ = ["PREFIX", "Api"]

PREFIX: Final = "/api/v1"
#: How old a summary may be that watches share.
_SUMMARY_SECONDS: Final = 0.9


@dataclasses.dataclass(eq=False)
class Api:
    """The documents about one machine, with what they are made from."""

    machine: Machine
    history: History
    #: Returns the machine's time.
    now: Callable[[], Seconds]
    #: Returns whether this replica decides.
    leads: Callable[[], bool]
    #: Returns the policies as the API server has them.
    policies: Callable[[], Iterable[PolicyState]]
    instance: str
    profiles: tuple[str, ...]
    started: Seconds
    #: What shadow mode has found; `None` where the process schedules.
    shadow: Shadow | None = None

    def __post_init__(self) -> None:
        """Prepare the views that the documents share."""
        machine, history = self.machine, self.history
        self._nodes = NodeViews(machine.cluster)
        self._feed = NodeFeed(machine.cluster, self._nodes, self.started)
        self._queue = QueueViews(machine)
        self._pod_feed = PodFeed(machine, self._queue, self.now)
        self._preemptions = PreemptionViews(machine, history)
        self._policies = PolicyViews(machine, history, self.policies)
        self._summarizing = asyncio.Lock()
        #: When the last summary was begun, and what it is.
        self._last_summary: tuple[Seconds, SummaryDocument] | None = None
        #: Held while a part of any list is made: many callers at once get no more than one.
        self._turn = asyncio.Lock()
        self._explanations = Explanations(machine, history, self._queue, self._preemptions)
        self._found = FoundPods(machine, self._queue, self._preemptions, self._explanations)
        self._reports = Reports(history)

    def pages(self) -> Mapping[str, ApiPage]:
        """Return the pages by path."""
        return {
            PREFIX: self._index,
            f"{PREFIX}/summary": self._summary,
            f"{PREFIX}/nodes": self._node_list,
            f"{PREFIX}/nodes/{{name}}": self._node,
            f"{PREFIX}/labels": self._labels,
            f"{PREFIX}/pods": self._pods,
            f"{PREFIX}/pods/{{namespace}}/{{name}}": self._pod,
            f"{PREFIX}/find": self._find,
            f"{PREFIX}/preemptions": self._preemption_list,
            f"{PREFIX}/policies": self._policy_list,
            f"{PREFIX}/shadow": self._shadow,
            f"{PREFIX}/report": self._report,
            openapi.PATH: self._openapi,
        }

    async def _index(self, request: ApiRequest) -> ApiIndex:
        return ApiIndex(
            version=__version__,
            reference=self.machine.reference.name,
            instance=self.instance,
            leader=self.leads(),
            profiles=self.profiles,
            shadow=self.shadow is not None,
            started=times.stamp(self.started),
            now=times.stamp(self.now()),
            paths=tuple(self.pages()),
            user=request.user,
        )

    async def _openapi(self, _request: ApiRequest) -> msgspec.Raw:
        return msgspec.Raw(await asyncio.to_thread(openapi.description))

    async def _summary(self, request: ApiRequest) -> SummaryDocument | Stream:
        if is_watch(request):
            return watch(request, whole(lambda: self._summarized(_SUMMARY_SECONDS)))
        return await self._summarized()

    async def _summarized(self, most_age: Seconds = 0.0) -> SummaryDocument:
        """Return the summary, a new one if the last one was begun before `most_age` seconds."""
        clock = asyncio.get_running_loop().time
        soonest = clock() - most_age
        async with self._summarizing:
            if self._last_summary is None or self._last_summary[0] < soonest:
                self._last_summary = clock(), await self._new_summary()
            return self._last_summary[1]

    async def _new_summary(self) -> SummaryDocument:
        machine, history, now = self.machine, self.history, self.now()
        figures = await self._queue.figures(now)
        cluster = machine.cluster
        content = SummaryDocument(
            now="",
            reference=machine.reference.name,
            leader=self.leads(),
            revision=0,
            queue=figures.phases,
            reasons=figures.reasons,
            other_reasons=figures.other_reasons,
            nodes=cluster.columns.node_count,
            pods=len(cluster.pods) - len(cluster.nominations),
            preemptions_active=sum(machine.preemptions.state.phases().values()),
            attempts=dict(history.attempts),
            preemptions=history.preemptions,
            victims=history.evictions,
            wasted_victims=sum(machine.preemptions.state.waste.wasted_evictions.values()),
        )
        # A change of the time alone is not reported.
        return replace(
            content,
            now=times.stamp(now),
            revision=number_of(content),
            oldest_pending_seconds=round(figures.oldest_seconds, 1),
        )

    async def _node_list(self, request: ApiRequest) -> AsyncGenerator[bytes] | Stream:
        limit, keys = limit_of(request.query), label_keys(request.query.get("labels", ""))
        if is_watch(request):
            return watch(request, lambda since: self._feed.update(since, keys))
        after = continued(request.query, "nodes")
        names = [name for name in self._nodes.names() if name > after]
        page, remaining = names[:limit], max(0, len(names) - limit)
        revision = self._feed.revision()

        def rest() -> NodesDocument:
            token = continue_token("nodes", page[-1]) if remaining else ""
            return NodesDocument(revision, continue_=token, remaining=remaining)

        return self._in_turn(lists.document(page, lambda part: self._nodes.of(part, keys), rest))

    async def _in_turn(self, parts: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
        """Yield the parts of a list; no other list makes one meanwhile."""
        async with contextlib.aclosing(parts):
            while True:
                async with self._turn:
                    part = await anext(parts, None)
                if part is None:
                    return
                yield part

    async def _node(self, request: ApiRequest) -> NodeDocument:
        name = request.query["name"]
        visible = await request.names.visible(self._nodes.namespaces_on(name))
        return self._nodes.single(name, visible)

    async def _labels(self, _request: ApiRequest) -> LabelsDocument:
        return await self._nodes.labels()

    async def _pods(self, request: ApiRequest) -> AsyncGenerator[bytes] | Stream:
        if is_watch(request):
            watching = PodWatch(self._pod_feed, selection_of(request.query), request.names)
            stream = watch(request, watching.changes)
            return dataclasses.replace(stream, parts=self._pod_feed.counted(stream.parts))
        return self._in_turn(await self._queue.page(request, self.now()))

    async def _pod(self, request: ApiRequest) -> PodExplanation | AsyncGenerator[bytes]:
        return await self._explanations.page(request, self.now())

    async def _find(self, request: ApiRequest) -> FoundPodsDocument:
        return await self._found.page(request, self.now())

    async def _preemption_list(self, request: ApiRequest) -> AsyncGenerator[bytes] | Stream:
        if is_watch(request):
            return watch(request, self._preemption_changes(request.names))
        return self._in_turn(await self._preemptions.page(request, self.now()))

    async def _shadow(self, request: ApiRequest) -> AsyncGenerator[bytes]:
        return self._in_turn(await shadow_page.page(self.shadow, request, leader=self.leads()))

    async def _report(self, request: ApiRequest) -> ReportDocument:
        return await self._reports.document(request, self.now())

    def _preemption_changes(self, names: NameAccess) -> Changes:
        async def changes(since: int) -> tuple[int, Iterable[bytes]] | None:
            return await self._preemptions.changes(since, names, self.now())

        return changes

    async def _policy_list(self, request: ApiRequest) -> PoliciesDocument | Stream:
        async def made() -> PoliciesDocument:
            content = await self._policies.document(request.names, self.now())
            return replace(content, revision=number_of(content))

        return watch(request, whole(made)) if is_watch(request) else await made()
