"""The document that explains one pod: a pending one is evaluated now, without an effect."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Container, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from msgspec.structs import replace

from scheduler.core.attempt.node_results import NodeResult
from scheduler.core.attempt.scheduling_attempt import AttemptResult
from scheduler.core.eviction.plan import Placement
from scheduler.core.machine import Machine
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.model.api.start_time import runs_since
from scheduler.model.rest.common import PodView
from scheduler.model.rest.explanations import (
    AttemptView,
    NodeVerdict,
    PodEviction,
    PodExplanation,
    PossiblePreemption,
)
from scheduler.model.rest.preemptions import PolicyVeto, PreemptionDevices, VictimView
from scheduler.model.times import Seconds
from scheduler.observe.api import lists, verdicts
from scheduler.observe.api.higher_priority import SpaceHeld, held_on, space_held
from scheduler.observe.api.history import History
from scheduler.observe.api.left_pods import (
    attempt_views,
    evicted_pod,
    found_on_node,
    left_pod,
    placed_pod,
)
from scheduler.observe.api.past_preemption import PastPreemption, PastVictim
from scheduler.observe.api.preempted_devices import devices_of, seen_devices
from scheduler.observe.api.preemptions import PreemptionViews
from scheduler.observe.api.queue_views import QueueViews, found
from scheduler.observe.api.rejections import Rejections, grouped, nodes_by_name, veto_text
from scheduler.observe.api.requests import ApiRequest, NameAccess, StatusError
from scheduler.observe.api.suggestions import suggestions
from scheduler.observe.api.views import comparison_views, pending_view, violated_budgets
from scheduler.queue.phases import QueuePhase
from scheduler.queue.scheduling_queue import QueuedPod

__all__ = ["EVALUATED", "Evaluations", "Explanations", "turn"]

#: Phases in which a pod is on no node, and no binding of it is in progress.
EVALUATED: Final = (
    QueuePhase.ACTIVE,
    QueuePhase.BACKOFF,
    QueuePhase.UNSCHEDULABLE,
    QueuePhase.PREEMPTING,
)
#: Pause before each evaluation, so that many requests at once do not block the loop.
_PAUSE_SECONDS: Final = 0.2
#: How many evaluations may wait for their turn; requests beyond are refused.
_MAX_WAITING: Final = 16
_PREEMPTION: Final = " preemption: "
_DEALLOCATE: Final = (
    "kube-controller-manager deallocates claims of pods that are gone, as a rule within a second:"
    " look whether it runs, and at its log. After a minute the scheduler gives up the devices, and"
    " tries other nodes."
)
#: How many evictions of pods of one name are shown.
_EVICTIONS: Final = 5


async def turn(machine: Machine) -> None:
    """Wait until a pod may be evaluated: after a pause, and not while the machine is copied."""
    await asyncio.sleep(_PAUSE_SECONDS)
    while machine.is_copied:
        await asyncio.sleep(_PAUSE_SECONDS)


class Evaluations:
    """Evaluates one pod at a time, with a pause before each."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._lock = asyncio.Lock()
        self._waiting = 0

    @asynccontextmanager
    async def place(self) -> AsyncGenerator[None]:
        """Wait until it is one's turn to evaluate, and keep it.

        Raises:
            ApiError: Too many requests are waiting.
        """
        if self._waiting >= _MAX_WAITING:
            raise StatusError(429, "TooManyRequests", "too many pods are being explained", 1)
        self._waiting += 1
        try:
            async with self._lock:
                yield
        finally:
            self._waiting -= 1

    async def evaluate(
        self, queued: QueuedPod, now: Seconds, priority: int | None = None
    ) -> tuple[AttemptResult, str] | None:
        """Return the result of an attempt and its error; `None` if the pod waits no longer.

        To be called in one's turn.

        Args:
            queued: The pod.
            now: The time.
            priority: Evaluate it as if it had this priority.
        """
        await turn(self._machine)
        return self._machine.explain(queued, now, priority) if queued.phase in EVALUATED else None


class _Higher(NamedTuple):
    """What a higher priority would do for a pod that no preemption helps."""

    held: SpaceHeld
    victims: Sequence[Pod]
    node: str

    def text(self, visible: Container[str]) -> str:
        return self.held.text(self.victims, self.node, visible)


class Explanations:
    """Explains pods: why they wait, where they run, and who evicted them.

    Args:
        machine: The machine that decides.
        history: What it has decided.
        queue: Makes views of pods of the queue.
        preemptions: Makes views of preemptions.
    """

    def __init__(
        self, machine: Machine, history: History, queue: QueueViews, preemptions: PreemptionViews
    ) -> None:
        self._machine = machine
        self._history = history
        self._queue = queue
        self._preemptions = preemptions
        self._evaluations = Evaluations(machine)

    async def page(
        self, request: ApiRequest, now: Seconds
    ) -> PodExplanation | AsyncGenerator[bytes]:
        """Return where a pod is, and why.

        Raises:
            LookupError: It is not known.
            ApiError: The caller may not know it, or too many requests are waiting.
        """
        query = request.query
        namespace, name, uid = query["namespace"], query["name"], query.get("uid", "")
        visible = await request.names.visible({namespace})
        if namespace not in visible:
            rule = f'verb "get", resource "pods", namespace "{namespace}"'
            raise StatusError(403, "Forbidden", f"forbidden: this needs the permission {rule}")
        queued = await found(self._machine, namespace, name, uid)
        if queued is None:
            document = await self._unqueued(namespace, name, uid, now)
            is_last_known = document.state == "evicted" and not uid
            return await self.finished(document, request.names, now, is_last_known=is_last_known)
        document, result = await self.waiting(queued, request.names, now)
        document = await self.finished(document, request.names, now)
        if result is None or query.get("nodes", "") != "1":
            return document

        return lists.document(
            result.results, lambda part: map(_node, part), lambda: document, field="nodes"
        )

    async def waiting(
        self, queued: QueuedPod, names: NameAccess, now: Seconds
    ) -> tuple[PodExplanation, AttemptResult | None]:
        """Return why a pod waits, without a verdict, and its evaluation; `None` without one.

        Raises:
            ApiError: Too many requests are waiting.
        """
        gate = self._machine.gate_reason(queued.pod)
        if gate is not None:
            return self._unevaluated(queued, gate, now), None
        higher: _Higher | None = None
        async with self._evaluations.place():
            evaluated = await self._evaluations.evaluate(queued, now)
            if evaluated is None:
                return self._unevaluated(queued, f"the pod is {queued.phase}", now), None
            result, problem = evaluated
            # Rows get other nodes while something is awaited.
            node, nodes = _node_of(result, self._machine), nodes_by_name(self._machine.cluster)
            devices = self._freed_devices(queued, result, node, now)
            await asyncio.sleep(0)
            if result.candidate is None and not problem:
                higher = await self._higher_priority(queued, result, now)
        victims = () if result.candidate is None else result.candidate.victims
        others = {pod.metadata.namespace for pod in (victims if higher is None else higher.victims)}
        others |= {each.namespace for each in devices.items} if devices is not None else set()
        seen = await names.visible(others | {queued.pod.metadata.namespace})
        cluster = self._machine.cluster
        groups = await grouped(queued.pod, result)
        texts = () if problem else await suggestions(queued.pod, result, groups, nodes, cluster)
        candidate = result.candidate
        preemption = None if candidate is None else self._preemption(candidate, node, seen, now)
        if preemption is not None:
            own = queued.pod.metadata.namespace
            preemption = replace(preemption, devices=seen_devices(devices, own, seen.__contains__))
        document = self._explained(queued, result, problem, now, preemption)
        document = replace(
            document,
            verdicts=await groups.verdicts(),
            policies=_policies(groups, result),
            preempts_above=None if higher is None else higher.held.priority,
            suggestions=(*(() if higher is None else (higher.text(seen),)), *texts),
        )
        return document, result

    def _freed_devices(
        self, queued: QueuedPod, result: AttemptResult, node: str, now: Seconds
    ) -> PreemptionDevices | None:
        """Return the devices that the preemption of an attempt would free for its pod."""
        machine, candidate = self._machine, result.candidate
        if candidate is None:
            return None
        placement = Placement.of(queued.pod, node, candidate.victims, machine.cluster)
        return devices_of(machine.preemptions.devices.expected(placement, now), machine.cluster)

    async def _higher_priority(
        self, queued: QueuedPod, result: AttemptResult, now: Seconds
    ) -> "_Higher | None":
        """Return which priority would make space, if an attempt with it says so.

        To be called in one's turn to evaluate: what was found is not lost because others wait.
        """
        held = await space_held(queued.pod, result, self._machine.cluster)
        if held is None:
            return None
        evaluated = await self._evaluations.evaluate(queued, now, held.priority + 1)
        if evaluated is None or evaluated[0].candidate is None:
            return None
        node, victims = _node_of(evaluated[0], self._machine), evaluated[0].candidate.victims
        held = held_on(node, held, queued.pod, result, self._machine.cluster)
        return _Higher(held, victims, node)

    async def _unqueued(self, namespace: str, name: str, uid: str, now: Seconds) -> PodExplanation:
        """Return where a pod is that is not in the queue, without its evictions.

        Raises:
            LookupError: It is not known.
        """
        machine = self._machine
        past = self._history.past_attempts.left(namespace, name)
        if past is not None and uid not in ("", past.ref.uid):
            past = None
        pod = await found_on_node(machine.cluster, namespace, name, uid)
        if pod is not None:
            earlier = None if past is None or past.ref.uid != pod.uid else past
            return placed_pod(pod, earlier, machine, now)
        victims = await self._preemptions.victims(_of_name(namespace, name), now)
        of_uid = [each for _, each in victims if uid in ("", each.uid) and each.lost]
        last = max(of_uid, key=lambda each: each.evicted_at or 0.0, default=None)
        if last is not None and (past is None or past.left_at <= (last.evicted_at or 0.0)):
            return evicted_pod(last, past, now)
        if past is None:
            raise LookupError(_unknown(namespace, name, self._history.known_since))
        return left_pod(past, now)

    async def finished(
        self,
        document: PodExplanation,
        names: NameAccess,
        now: Seconds,
        *,
        is_last_known: bool = False,
    ) -> PodExplanation:
        """Return a document with the evictions of its pod, and its verdict.

        Args:
            document: Where the pod is.
            names: Which pods the caller may know by name.
            now: The time.
            is_last_known: Whether it is gone, and was found by its name only.
        """
        pod = document.pending.pod
        of_name = _of_name(pod.namespace, pod.name)

        def replaced_by_it(victim: PastVictim) -> bool:
            same_namespace = victim.pod.namespace == pod.namespace
            return victim.lost and same_namespace and _replaces(pod, victim)

        victims = await self._preemptions.victims(
            lambda victim: of_name(victim) or replaced_by_it(victim), now
        )
        latest = [known for known in victims if of_name(known[1])][:_EVICTIONS]
        replaced = [known for known in victims if replaced_by_it(known[1])]
        known = [*latest, *replaced[:1]]
        preempted = await self._preemptions.of_preemptor(pod.uid)
        waits = preempted if document.state == "waiting" and _waits(preempted) else None
        concerned = [past for past, _ in known] + ([] if waits is None else [waits])
        seen = await names.visible({each for past in concerned for each in past.namespaces})

        def view(of: tuple[PastPreemption, PastVictim]) -> PodEviction:
            return self._preemptions.eviction(*of, seen, now)

        evictions = tuple(map(view, latest))
        own = (each.victim.state for each in evictions if each.victim.pod.uid == pod.uid)
        document = replace(
            document,
            state="evicted" if any(state in verdicts.GOING for state in own) else document.state,
            evictions=evictions,
            replaces=view(replaced[0]) if replaced else None,
            preempted="" if preempted is None else preempted.name,
            devices=None
            if waits is None
            else seen_devices(waits.devices, pod.namespace, seen.__contains__),
        )
        verdict, impact = verdicts.of_pod(document, now, is_last_known=is_last_known)
        waiting = document.devices
        if waiting is not None and (waiting.claims or waiting.more_claims):
            document = replace(document, suggestions=(_DEALLOCATE, *document.suggestions))
        return replace(document, verdict=verdict, impact=impact)

    def _unevaluated(self, queued: QueuedPod, message: str, now: Seconds) -> PodExplanation:
        gates = queued.pod.spec.scheduling_gates if queued.phase is QueuePhase.GATED else []
        return PodExplanation(
            pending=self._queue.view(queued, now),
            now=times.stamp(now),
            message=message,
            node=self._machine.cluster.node_of(queued.uid) or "",
            suggestions=tuple(f'Remove the scheduling gate "{gate.name}".' for gate in gates),
            history=self._attempts(queued.uid),
        )

    def _explained(
        self,
        queued: QueuedPod,
        result: AttemptResult,
        problem: str,
        now: Seconds,
        preemption: PossiblePreemption | None,
    ) -> PodExplanation:
        """Return the document without what the nodes show."""
        _, _, why_not = result.message.partition(_PREEMPTION)
        return PodExplanation(
            pending=self._queue.view(queued, now),
            now=times.stamp(now),
            message=problem or result.message,
            node=result.node or "",
            preemption=preemption,
            preemption_message="" if preemption is not None else why_not,
            history=self._attempts(queued.uid),
        )

    def _attempts(self, uid: str) -> tuple[AttemptView, ...]:
        return attempt_views(self._history.past_attempts.of(uid))

    def _preemption(
        self, candidate: Candidate, node: str, visible: Container[str], now: Seconds
    ) -> PossiblePreemption:
        seen = [pod for pod in candidate.victims if pod.metadata.namespace in visible]
        compared = comparison_views(candidate.comparison, node)
        cluster, violating = self._machine.cluster, candidate.violating
        budgets = violated_budgets(candidate.victims, violating, cluster) if violating else {}
        return PossiblePreemption(
            node=node,
            victims=tuple(self._victim(pod, budgets.get(pod.uid), now) for pod in seen),
            hidden_victims=len(candidate.victims) - len(seen),
            pdb_violations=candidate.violations,
            criteria=compared.criteria,
            candidates=compared.candidates,
            candidates_total=compared.candidates_total,
            criterion=compared.criterion,
        )

    def _victim(self, pod: Pod, violated: tuple[str, ...] | None, now: Seconds) -> VictimView:
        since = runs_since(pod)
        return VictimView(
            pod=pending_view(pod, self._machine.cluster),
            ran_seconds=0.0 if since is None else round(max(0.0, now - since), 1),
            violates_pdb=violated is not None,
            budgets=violated or (),
        )


def _node_of(result: AttemptResult, machine: Machine) -> str:
    """Return the node of the candidate; empty without one. To be called right after the attempt."""
    return "" if result.candidate is None else machine.cluster.columns.names[result.candidate.row]


def _of_name(namespace: str, name: str) -> Callable[[PastVictim], bool]:
    return lambda each: each.pod.name == name and each.pod.namespace == namespace


def _waits(preempted: PastPreemption | None) -> bool:
    """Return whether a preemption is under way for devices."""
    return preempted is not None and preempted.ended_at is None and preempted.devices is not None


def _replaces(pod: PodView, victim: PastVictim) -> bool:
    """Return whether a pod replaces a victim."""
    return victim.replacement is not None and victim.replacement.uid == pod.uid


def _unknown(namespace: str, name: str, since: Seconds) -> str:
    """Return why nothing is known about a pod; the same whatever the reason is."""
    return (
        f'pod "{namespace}/{name}" is not known to this scheduler: it does not exist, it waits for'
        " another scheduler (spec.schedulerName), or it has ended. Evictions are known for seven"
        f" days, but none before the history begins, {times.stamp(since)}"
    )


def _policies(groups: Rejections, result: AttemptResult) -> tuple[PolicyVeto, ...]:
    """Return what forbids preemptions, with the number of nodes; no pod is named."""
    for veto in result.vetoes:
        groups.veto_counts.add(veto, nodes=0)
    return groups.veto_counts.views()


def _node(found: NodeResult) -> NodeVerdict:
    verdict = found.verdict
    return NodeVerdict(
        name=found.name,
        rejection="" if verdict is None else ", ".join(verdict.reasons),
        plugin="" if verdict is None else verdict.plugin or verdict.shown_as,
        scores=found.scores,
        total=sum(found.scores.values()),
        vetoes=tuple(veto_text(veto) for veto in found.vetoes),
    )
