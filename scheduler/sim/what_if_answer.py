"""Builds the answer to a what-if from simulations: documents of `/api/v1`."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType
from typing import Any, Final

from scheduler.core.preemption.dry_run_result import EvictionOutcome
from scheduler.model import times
from scheduler.model.api.devices import DeviceResult
from scheduler.model.api.objects import Pod
from scheduler.model.decisions import Attempt, AttemptDetails, Preempting, Rejection, summary
from scheduler.model.policies import PolicyMode
from scheduler.model.rest.common import PodView
from scheduler.model.rest.explanations import RejectionGroup
from scheduler.model.rest.preemptions import PolicyVeto, Replacement, VictimView
from scheduler.model.rest.what_if import (
    DisplacedPod,
    DrainBlocker,
    EvaluatedNode,
    SimulatedPod,
    ViolatedBudget,
    WhatIfAnswer,
    WhatIfRequest,
)
from scheduler.model.times import Seconds
from scheduler.observe.api import views
from scheduler.observe.api.rejections import NEVER, NOTHING_TO_EVICT, eviction_text, helps
from scheduler.sim import recreation
from scheduler.sim.expanded import Expanded
from scheduler.sim.what_if_cluster import Displacement, WhatIfCluster
from scheduler.sim.what_if_verdict import NOT_PLANNED, with_verdict

__all__ = ["AnswerBuilder", "node_results"]

#: The rule of vetoes that no policy has made.
_HISTORY: Final = "preemptionHistory"
NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


class AnswerBuilder:
    """Puts the answer together from the simulations."""

    def __init__(
        self,
        now: Seconds,
        request: WhatIfRequest,
        expanded: Expanded,
        after: WhatIfCluster,
        before: WhatIfCluster | None,
        foreign: Mapping[str, str] = NOTHING,
    ) -> None:
        self._now = now
        self._request = request
        self._foreign = foreign
        self._expanded = expanded
        self._after = after
        #: Uids of the pods that would disappear anyway.
        self._anyway = frozenset[str]() if before is None else frozenset(before.displaced())
        self._gone = after.displaced()
        self._before = before
        #: The pods as they were at first, by uid; those that were made later too.
        self._pods = {pod.uid: pod for pod in after.known()}

    def answer(self, asked: Set[str], others: Sequence[str]) -> WhatIfAnswer:
        """Return the answer.

        Args:
            asked: Uids of the pods of the request.
            others: Uids of the other pending pods.
        """
        items = [
            self._simulated(uid)
            for uid in (reference.uid for reference in self._after.pending)
            if uid in asked and uid in self._after.first
        ]
        items += [self._not_planned(uid, text) for uid, text in self._foreign.items()]
        displaced = [
            self._displaced(each) for uid, each in self._gone.items() if uid not in self._anyway
        ]
        evicted = {each.pod.uid for each in displaced}.union(
            victim.pod.uid for item in items for victim in item.victims if victim.state == "planned"
        )
        answer = WhatIfAnswer(
            at=times.stamp(self._now),
            reference=self._after.machine.reference.name,
            evicts=bool(evicted),
            evictions=len(evicted),
            budgets=self._violated(),
            drain=tuple(self._request.drain),
            blockers=tuple(
                DrainBlocker(each.pod.spec.node_name, self._view(each.pod), each.budgets)
                for each in self._after.blockers()
            ),
            items=tuple(items),
            displaced=tuple(displaced),
            others=tuple(self._simulated(uid) for uid in others if self._differs(uid)),
            warnings=tuple(self._expanded.warnings),
        )
        return with_verdict(answer)

    def _violated(self) -> tuple[ViolatedBudget, ...]:
        """Return the disruption budgets that preemptions violate which would not happen anyway."""
        index = self._after.machine.cluster.pdbs
        violations = self._after.budgets.violations
        violated = [key for key, uids in violations.items() if uids - self._anyway]
        found = [index.get(key) for key in sorted(violated)]
        return tuple(
            ViolatedBudget(
                pdb.metadata.namespace,
                pdb.metadata.name,
                pdb.status.disruptions_allowed,
                len(violations[pdb.metadata.key]),
            )
            for pdb in found
        )

    def _not_planned(self, uid: str, text: str) -> SimulatedPod:
        """Return the result of a given pod that another scheduler schedules."""
        pod = self._pods[uid]
        source = self._expanded.sources.get(pod.key, "")
        return SimulatedPod(self._view(pod), NOT_PLANNED, source, message=text)

    def _differs(self, uid: str) -> bool:
        """Return whether a pending pod ends otherwise than without the request."""
        if self._before is None or uid not in self._after.first:
            return False
        if self._request.settle:
            return self._before.node_of(uid) != self._after.node_of(uid)
        then, now = self._before.first.get(uid), self._after.first[uid]
        return then is None or summary(then.decision) != summary(now.decision)

    def _simulated(self, uid: str) -> SimulatedPod:
        attempt = self._after.first[uid]
        pod = self._pods[uid]
        decision, node, message = summary(attempt.decision)
        details = attempt.details or AttemptDetails()
        compared = views.comparison_views(attempt.comparison, node)
        verdicts = (
            () if decision == "Scheduled" and not self._request.explain else details.rejections
        )
        chosen = attempt.decision
        victims = chosen.victims if isinstance(chosen, Preempting) else ()
        return SimulatedPod(
            pod=self._view(pod),
            decision=decision,
            source=self._expanded.sources.get(pod.key, ""),
            node=node,
            final_node=self._after.node_of(uid) if self._request.settle else "",
            message=message,
            verdicts=tuple(_group(each, attempt, pod) for each in verdicts),
            victims=tuple(self._victim(each.uid, attempt) for each in victims),
            pdb_violations=chosen.violations if isinstance(chosen, Preempting) else 0,
            devices=self._after.devices.get(uid) if isinstance(chosen, Preempting) else None,
            criteria=compared.criteria,
            candidates=compared.candidates,
            candidates_total=compared.candidates_total,
            criterion=compared.criterion,
            policies=_vetoes(attempt, details),
            claims=self._claims(uid),
            nodes=node_results(attempt),
        )

    def _victim(self, uid: str, attempt: Attempt) -> VictimView:
        pod = self._pods[uid]
        started = times.parse(pod.status.start_time)
        gone = self._gone.get(uid)
        leaving = self._after.was_leaving(uid)
        violations = self._after.budgets.violations if uid in attempt.violating else {}
        return VictimView(
            pod=self._view(pod),
            ran_seconds=0.0 if started is None else max(0.0, self._now - started),
            state="terminating" if leaving else "planned",
            violates_pdb=uid in attempt.violating,
            budgets=tuple(sorted(key for key, uids in violations.items() if uid in uids)),
            replacement=None if gone is None else self._replacement(gone.replacement),
        )

    def _displaced(self, each: Displacement) -> DisplacedPod:
        recreated = each.replacement is not None or (
            not self._request.settle and _has_controller(each.pod)
        )
        return DisplacedPod(
            pod=self._view(each.pod),
            from_node=each.pod.spec.node_name,
            cause=each.cause,
            recreated=recreated,
            replacement=self._replacement(each.replacement),
        )

    def _replacement(self, pod: Pod | None) -> Replacement | None:
        if pod is None:
            return None
        node = self._after.node_of(pod.uid)
        last = self._after.last.get(pod.uid)
        message = "" if node or last is None else summary(last.decision).message
        return Replacement(pod=self._view(pod), node=node, message=message)

    def _view(self, pod: Pod) -> PodView:
        return views.pending_view(pod, self._after.machine.cluster)

    def _claims(self, uid: str) -> Mapping[str, tuple[Mapping[str, Any], ...]]:
        return {
            key: tuple(map(_device, allocation.devices.results))
            for key, allocation in self._after.allocations.get(uid, {}).items()
        }


def _device(result: DeviceResult) -> Mapping[str, Any]:
    """Return one allocated device as it is shown."""
    shown: dict[str, Any] = {
        "request": result.request,
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
    }
    if result.admin_access:
        shown["adminAccess"] = True
    if result.consumed_capacity:
        shown["consumedCapacity"] = dict(result.consumed_capacity)
    return shown


def node_results(attempt: Attempt) -> tuple[EvaluatedNode, ...]:
    """Return the result of an attempt for each node, if it was explained."""
    return tuple(
        EvaluatedNode(each.name, each.rejection or "", each.scores, each.total, tuple(each.vetoes))
        for each in attempt.trace
    )


def _group(found: Rejection, attempt: Attempt, pod: Pod) -> RejectionGroup:
    """Return a verdict with what evictions would mean on its nodes."""
    refusal = "" if isinstance(attempt.decision, Preempting) else NOTHING_TO_EVICT
    if pod.spec.preemption_policy == "Never":
        refusal = NEVER
    vetoes = [each for each in attempt.vetoes if each.mode is PolicyMode.ENFORCE]
    words: Counter[str] = Counter()
    for outcome, nodes in found.outcomes.items():
        is_vetoed = outcome == EvictionOutcome.VETOED.value or bool(refusal)
        words[helps(EvictionOutcome(outcome), vetoes if is_vetoed else (), refusal)] += nodes
    if (untried := found.nodes - words.total()) and found.resolvable:
        words[helps(None, (), refusal or NOTHING_TO_EVICT)] += untried
    return RejectionGroup(
        plugin=found.plugin,
        reason=", ".join(found.reasons),
        nodes=found.nodes,
        resolvable=found.resolvable,
        examples=found.examples,
        eviction=eviction_text(words),
    )


def _has_controller(pod: Pod) -> bool:
    return recreation.controller_of(pod) is not None


def _vetoes(attempt: Attempt, details: AttemptDetails) -> tuple[PolicyVeto, ...]:
    """Return what forbids preemptions: policies, and earlier wasted preemptions."""
    found = []
    vetoes = [each for each in attempt.vetoes if each.mode is PolicyMode.ENFORCE]
    for text, nodes in details.vetoes:
        veto = next((each for each in vetoes if text.startswith(each.text)), None)
        found.append(
            PolicyVeto(
                policy="" if veto is None else veto.policy,
                rule=_HISTORY if veto is None else veto.rule.value,
                message=text,
                count=nodes,
            )
        )
    return tuple(found)
