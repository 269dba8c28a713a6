"""The document that explains one pending pod: it is evaluated now, without an effect."""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Container, Sequence
from typing import Final

from scheduler.core.attempt.scheduling_attempt import AttemptResult
from scheduler.core.machine import Machine
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.model import times
from scheduler.model.api.objects import Pod
from scheduler.model.api.start_time import runs_since
from scheduler.model.decisions import NodeTrace
from scheduler.model.policy_refusals import PolicyRefusal, ending
from scheduler.model.rest.explanations import (
    AttemptView,
    NodeVerdict,
    PodExplanation,
    PossiblePreemption,
    Verdict,
)
from scheduler.model.rest.preemptions import PolicyVeto, VictimView
from scheduler.model.times import Seconds
from scheduler.observe.api import lists
from scheduler.observe.api.helps import helps
from scheduler.observe.api.history import History
from scheduler.observe.api.left_pods import attempt_views, left_pod
from scheduler.observe.api.queue_views import QueueViews
from scheduler.observe.api.requests import ApiError, ApiRequest
from scheduler.observe.api.views import candidate_views, pending_view
from scheduler.queue.phases import QueuePhase
from scheduler.queue.scheduling_queue import QueuedPod

__all__ = ["Evaluations", "Explanations"]

#: Phases in which a pod is on no node, and no binding of it is in progress.
EVALUATED: Final = (
    QueuePhase.ACTIVE,
    QueuePhase.BACKOFF,
    QueuePhase.UNSCHEDULABLE,
    QueuePhase.PREEMPTING,
)
#: Pause before each evaluation, which takes some 30 ms at 5,000 nodes, so that many requests at
#: once do not block the loop.
_PAUSE_SECONDS: Final = 0.2
#: How many evaluations may wait for their turn; requests beyond are refused.
_MAX_WAITING: Final = 16
#: How many nodes are named as examples of a verdict.
_EXAMPLES: Final = 5
_PREEMPTION: Final = " preemption: "


class Evaluations:
    """Evaluates one pod at a time, with a pause before each."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._lock = asyncio.Lock()
        self._waiting = 0

    async def evaluate(self, queued: QueuedPod, now: Seconds) -> tuple[AttemptResult, str] | None:
        """Return the result of an attempt and its error; `None` if the pod waits no longer.

        Raises:
            ApiError: Too many requests are waiting.
        """
        if self._waiting >= _MAX_WAITING:
            raise ApiError(429, "TooManyRequests", "too many pods are being explained", 1)
        self._waiting += 1
        try:
            async with self._lock:
                await asyncio.sleep(_PAUSE_SECONDS)
                if queued.phase not in EVALUATED:
                    return None
                return self._machine.explain(queued, now)
        finally:
            self._waiting -= 1


class Explanations:
    """Explains pods of the queue.

    Args:
        machine: The machine that decides.
        history: What it has decided.
        queue: Makes views of pods of the queue.
    """

    def __init__(self, machine: Machine, history: History, queue: QueueViews) -> None:
        self._machine = machine
        self._history = history
        self._queue = queue
        self._evaluations = Evaluations(machine)

    async def page(
        self, request: ApiRequest, now: Seconds
    ) -> PodExplanation | AsyncGenerator[bytes]:
        """Return why a pod waits.

        Raises:
            LookupError: It is not in the queue, and not remembered either.
            ApiError: The caller may not know it, or too many requests are waiting.
        """
        namespace, name = request.query["namespace"], request.query["name"]
        visible = await request.names.visible({namespace})
        if namespace not in visible:
            rule = f'verb "get", resource "pods", namespace "{namespace}"'
            raise ApiError(403, "Forbidden", f"forbidden: this needs the right to {rule}")
        try:
            queued = await self._queue.find(namespace, name)
        except LookupError:
            past = self._history.past_attempts.left(namespace, name)
            if past is None:
                raise
            return left_pod(past, self._machine.cluster.node_of(past.ref.uid) or "", now)
        gate = self._machine.gate_reason(queued.pod)
        if gate is not None:
            return self._unevaluated(queued, gate, now)
        evaluated = await self._evaluations.evaluate(queued, now)
        if evaluated is None:
            return self._unevaluated(queued, f"the pod is {queued.phase}", now)
        result, problem = evaluated
        # Rows get other nodes while something is awaited.
        node = _node_of(result, self._machine)
        victims = () if result.candidate is None else result.candidate.victims
        others = {victim.metadata.namespace for victim in victims}
        seen = await request.names.visible(others | {namespace})
        cluster = self._machine.cluster
        help_texts = () if problem else await helps(queued.pod, result, cluster)
        candidate = result.candidate
        preemption = None if candidate is None else self._preemption(candidate, node, seen, now)
        document = self._explained(queued, result, problem, help_texts, now, preemption)
        if request.query.get("nodes", "") != "1":
            return document

        def nodes(part: Sequence[NodeTrace]) -> list[NodeVerdict]:
            return [_node(trace, result) for trace in part]

        return lists.document(result.trace, nodes, lambda: document, field="nodes")

    def _unevaluated(self, queued: QueuedPod, message: str, now: Seconds) -> PodExplanation:
        gates = queued.pod.spec.scheduling_gates if queued.phase is QueuePhase.GATED else []
        return PodExplanation(
            pending=self._queue.view(queued, now),
            now=times.stamp(now),
            message=message,
            node=self._machine.cluster.node_of(queued.uid) or "",
            helps=tuple(f'Remove the scheduling gate "{gate.name}".' for gate in gates),
            history=self._attempts(queued.uid),
        )

    def _explained(
        self,
        queued: QueuedPod,
        result: AttemptResult,
        problem: str,
        help_texts: tuple[str, ...],
        now: Seconds,
        preemption: PossiblePreemption | None,
    ) -> PodExplanation:
        _, _, why_not = result.message.partition(_PREEMPTION)
        return PodExplanation(
            pending=self._queue.view(queued, now),
            now=times.stamp(now),
            message=problem or result.message,
            node=result.node or "",
            verdicts=_verdicts(result),
            preemption=preemption,
            preemption_message="" if preemption is not None else why_not,
            policies=_policies(result),
            helps=help_texts,
            history=self._attempts(queued.uid),
        )

    def _attempts(self, uid: str) -> tuple[AttemptView, ...]:
        return attempt_views(self._history.past_attempts.of(uid))

    def _preemption(
        self, candidate: Candidate, node: str, visible: Container[str], now: Seconds
    ) -> PossiblePreemption:
        seen = [pod for pod in candidate.victims if pod.metadata.namespace in visible]
        candidates, total, criterion = candidate_views(candidate.comparison, node)
        return PossiblePreemption(
            node=node,
            victims=tuple(self._victim(pod, candidate, now) for pod in seen),
            hidden_victims=len(candidate.victims) - len(seen),
            pdb_violations=candidate.violations,
            candidates=candidates,
            candidates_total=total,
            criterion=criterion,
        )

    def _victim(self, pod: Pod, candidate: Candidate, now: Seconds) -> VictimView:
        since = runs_since(pod)
        return VictimView(
            pod=pending_view(pod, self._machine.cluster),
            ran_seconds=0.0 if since is None else round(max(0.0, now - since), 1),
            violates_pdb=pod.uid in candidate.violating,
        )


def _node_of(result: AttemptResult, machine: Machine) -> str:
    """Return the node of the candidate; empty without one. To be called right after the attempt."""
    return "" if result.candidate is None else machine.cluster.columns.names[result.candidate.row]


def _verdicts(result: AttemptResult) -> tuple[Verdict, ...]:
    """Return why nodes reject the pod, by plugin and reason, the most frequent ones first."""
    nodes: dict[tuple[str, str], list[str]] = {}
    resolvable: dict[tuple[str, str], bool] = {}
    for trace in result.trace:
        verdict = result.verdicts.get(trace.name)
        if verdict is None:
            continue
        plugin = verdict.plugin or verdict.shown_as
        for reason in verdict.reasons:
            key = (plugin, reason)
            nodes.setdefault(key, []).append(trace.name)
            resolvable[key] = resolvable.get(key, False) or verdict.resolvable
    found = [
        Verdict(*key, len(names), resolvable[key], tuple(names[:_EXAMPLES]))
        for key, names in nodes.items()
    ]
    return tuple(sorted(found, key=lambda each: (-each.nodes, each.plugin, each.reason)))


def _policies(result: AttemptResult) -> tuple[PolicyVeto, ...]:
    """Return what forbids preemptions, with the number of nodes; no pod is named."""
    counts: Counter[tuple[str, str, str]] = Counter()
    for vetoes in result.vetoes.values():
        counts.update({_veto(veto): 1 for veto in vetoes})
    for refusal in result.refusals:
        counts.setdefault(_veto(refusal), 0)
    return tuple(PolicyVeto(*key, count) for key, count in sorted(counts.items()))


def _veto(veto: object) -> tuple[str, str, str]:
    """Return policy, rule and message; failed preemptions of the past are no policy's."""
    if isinstance(veto, PolicyRefusal):
        return veto.policy, veto.rule.value, f"{veto.text}{ending(veto.until)}"
    return "", "failedPreemptions", str(getattr(veto, "text", ""))


def _node(trace: NodeTrace, result: AttemptResult) -> NodeVerdict:
    verdict = result.verdicts.get(trace.name)
    return NodeVerdict(
        name=trace.name,
        rejection="" if verdict is None else ", ".join(verdict.reasons),
        plugin="" if verdict is None else verdict.plugin or verdict.shown_as,
        scores=trace.scores,
        total=trace.total,
        objections=tuple(_veto(veto)[2] for veto in result.vetoes.get(trace.name, ())),
    )
