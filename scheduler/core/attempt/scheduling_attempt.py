"""One scheduling attempt: finds a node for a pod in the cluster as it is. It changes nothing.

    prepare -> the nominated node alone -> all nodes -> score and select -> Placed
                                             `-> no node fits -> post filters -> Preempting
                                                                             `-> Unschedulable

An attempt is a generator: it yields extender calls and receives their responses. Without extenders
it yields nothing. The cluster may change meanwhile, so after each response all nodes are filtered
again, and only those are used that fit now and that the extenders have accepted. If none of the
nodes of the calls is left, but other nodes or preemptions have become possible, the attempt starts
over. It fails after `MAX_ROUNDS` of these, so that extenders are called for other pods, too.

Source: kube-scheduler v1.36.3 schedule_one.go schedulingAlgorithm. Differs: every node is filtered
and every feasible one is scored.

Axes: N rows, F feasible nodes.
"""

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

import numpy as np

from scheduler.core.attempt import extenders
from scheduler.core.attempt.equivalence import EquivalenceClasses, PodClass
from scheduler.core.attempt.extenders import Conversation, ExtenderFailedError, ExtenderFilterResult
from scheduler.core.attempt.fit_checks import FitChecks
from scheduler.core.attempt.node_results import NodeResult, NodeResults
from scheduler.core.attempt.node_totals import NodeTotals
from scheduler.core.attempt.post_filters import (
    NOT_RUN,
    AttemptContext,
    FilterResult,
    PostFilterResult,
    PostFilterRunner,
)
from scheduler.core.feasibility import nominated_pods, tie_breaking
from scheduler.core.feasibility.explain import rejections
from scheduler.core.feasibility.filters import Preparation, fitting
from scheduler.core.feasibility.fit_error import count_reasons, fit_error, pending_reason
from scheduler.core.preemption.dry_run_result import EvictionOutcomes
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.core.preemption.policy.engine import PolicyEngine
from scheduler.core.preemption.policy.vetoes import CandidateVetoes
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.extender_protocol import EXTENDER
from scheduler.framework.plugin import PluginError
from scheduler.framework.profile import Profile
from scheduler.framework.verdicts import NO_NODE, Verdict, Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.api.pod_size import MAX_PARTS, is_too_large
from scheduler.model.base import Record
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.decisions import AttemptDetails, AttemptPhase, Detail
from scheduler.model.effects import Verb
from scheduler.model.policy_vetoes import RuleVeto
from scheduler.model.times import Seconds
from scheduler.queue.phases import PendingReason
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Rows

__all__ = ["MAX_ROUNDS", "AttemptResult", "SchedulingAlgorithm"]

#: How often an attempt is made in all. Each costs extenders requests, and the pod that waits for
#: them ends up in backoff, after which the cluster may change less.
MAX_ROUNDS: Final = 5
OVERTAKEN: Final = f"extender results were outdated by cluster changes {MAX_ROUNDS} times in a row"

#: The mean time between two comparisons for pages, where one takes 100 µs at 5,000 candidates, and
#: how many may be made at once.
COMPARED_EVERY: Final[Seconds] = 0.01
COMPARED_AT_ONCE: Final = 20

#: Why a pod is rejected before any rule looks at it.
TOO_LARGE: Final = (
    f"pod has more than {MAX_PARTS} containers, volumes and ports, "
    "which preemptive-scheduler does not schedule"
)
#: The name of no plugin: no event but a change of the pod can help it.
_BY_SIZE: Final = frozenset({"PodSize"})
NO_NODES: Final = "no nodes available to schedule pods"


class AttemptResult(Record, frozen=True):
    """The result of an attempt: a node, a preemption, or a message why there is neither."""

    #: The node that takes the pod, and what the attempt knows, for its reservations.
    node: str | None = None
    state: AttemptState | None = None
    post_filter: PostFilterResult = NOT_RUN
    #: Why it fits on no node; also set beside a candidate.
    message: str = ""
    #: Plugins that rejected it; empty when there were no nodes at all.
    rejectors: frozenset[str] = frozenset()
    #: Key of the set of pods that would be rejected like it at this moment; empty for it alone.
    equivalence_key: bytes = b""
    nodes: int = 0
    feasible: int = 0
    #: What was found about each node, in name order; only of explained attempts.
    results: Sequence[NodeResult] = ()
    #: What policies refused, and what policies in audit mode would have refused.
    vetoes: tuple[RuleVeto, ...] = ()
    #: The kind of reason why it stays pending, where there is neither a node nor a preemption.
    reason: PendingReason = PendingReason.NEVER_FITS
    details: AttemptDetails | None = None

    @property
    def candidate(self) -> Candidate | None:
        """The preemption that frees resources for the pod."""
        return self.post_filter.candidate


class SchedulingAlgorithm(FitChecks):
    """Makes scheduling attempts. Those that wait for extenders are independent of each other."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        cluster: Cluster,
        verdicts: Verdicts,
        policies: PolicyEngine,
        detail: Detail = Detail.NONE,
    ) -> None:
        #: Called when an attempt begins a phase; who drives the machine measures the time.
        self.enter_phase: Callable[[AttemptPhase], None] = lambda _phase: None
        self._detail = detail
        self._compares_from: Seconds = 0.0
        super().__init__(EquivalenceClasses(profiles, cluster, verdicts), cluster)
        self._verdicts = verdicts
        self._policies = policies
        every_node = functools.partial(self._filter, extender_result=None, nominated_only=True)
        #: The total scores of some nodes, for a comparison.
        self.totals: Final = NodeTotals(self._classes, every_node, cluster.columns)
        self._post_filters = PostFilterRunner(
            cluster, verdicts, functools.partial(self._filter, nominated_only=False)
        )

    def decide(
        self, classified: ClassifiedPod, *, now: Seconds, since: Seconds, detail: Detail
    ) -> Conversation[AttemptResult]:
        """Decide for a pod.

        Args:
            classified: The pod.
            now: The time. Policies are evaluated for it also when extenders answer later: an
                earlier time is on the safe side.
            since: When the pod was first found unschedulable.
            detail: How much the result tells, if that is more than the machine always tells.

        Raises:
            PluginError: The pod cannot be decided, or not in `MAX_ROUNDS`.
        """
        pod = classified.pod
        state = AttemptState(pod, now)
        for _ in range(MAX_ROUNDS):
            nodes = self._cluster.columns.node_count
            if nodes == 0:
                return AttemptResult(message=NO_NODES)
            if is_too_large(pod):
                text = fit_error(nodes, (), prefilter=TOO_LARGE)
                return AttemptResult(message=text, rejectors=_BY_SIZE, nodes=nodes)
            detail = max(detail, self._detail)
            if detail is Detail.COMPARISON and now < self._compares_from:
                detail = Detail.NONE
            find_vetoes = functools.partial(self._policies.vetoes, pod, now, since)
            context = AttemptContext(state, self._classes.get(classified), detail, find_vetoes)
            if detail >= Detail.COUNTS:
                context.outcomes = EvictionOutcomes()
            result = yield from self._attempt(context)
            if result is not None:
                if detail >= Detail.COMPARISON and result.candidate is not None:
                    earliest = now - (COMPARED_AT_ONCE - 1) * COMPARED_EVERY
                    self._compares_from = max(self._compares_from, earliest) + COMPARED_EVERY
                return result
        raise PluginError(OVERTAKEN)

    def _attempt(self, context: AttemptContext) -> Conversation[AttemptResult | None]:
        """Try once; `None` when the cluster has changed too much meanwhile."""
        self.enter_phase(AttemptPhase.FILTER)
        nominated_only, extender_result = True, None
        if context.pod_class.extenders:
            nominated_only, extender_result = yield from self._ask_filters(context)
        filtered = self._filter(context, extender_result, nominated_only=nominated_only)
        scores: Mapping[str, Mapping[str, int]] = {}
        configured = context.pod_class.extenders
        if filtered.feasible.shape[0] > 1 and extenders.has_verb(configured, Verb.PRIORITIZE):
            names = self._names(filtered.feasible)
            scores = yield from extenders.score_nodes(configured, names)
            # Also where all of them failed: the cluster has changed while they were asked.
            extender_result = (
                extender_result or ExtenderFilterResult(frozenset(names), frozenset(names))
            ).limited_to(names)
            filtered = self._filter(context, extender_result, nominated_only=nominated_only)
        if filtered.feasible.shape[0]:
            return self._select_node(context, filtered, scores)
        if filtered.has_unasked_nodes or not self._cluster.columns.node_count:
            return None
        if error := self._verdicts.error(filtered.codes, alone=True):
            raise PluginError(error)
        return (yield from self._run_post_filters(context, filtered, extender_result))

    def _ask_filters(
        self, context: AttemptContext
    ) -> Conversation[tuple[bool, ExtenderFilterResult | None]]:
        """Ask the extenders which nodes they accept: the nominated one first, then all.

        Returns:
            Whether only the nominated node was asked about, and the answer; `None` where no
            extender filters.

        Source: kube-scheduler v1.36.3 schedule_one.go findNodesThatFitPod, evaluateNominatedNode.
        """
        configured = context.pod_class.extenders
        if not extenders.has_verb(configured, Verb.FILTER):
            return True, None
        filtered = self._filter(context, None, nominated_only=True)
        if filtered.nominated_only:
            try:
                nodes = self._names(filtered.feasible)
                extender_result = yield from extenders.filter_nodes(configured, nodes)
            except ExtenderFailedError:
                extender_result = None
            if extender_result is not None and extender_result.accepted:
                return True, extender_result
            filtered = self._filter(context, None, nominated_only=False)
        nodes = self._names(filtered.feasible)
        return False, (yield from extenders.filter_nodes(configured, nodes))

    def _names(self, rows: Rows) -> list[str]:
        names = self._cluster.columns.names
        return [names[row] for row in rows.tolist()]

    def _filter(
        self,
        context: AttemptContext,
        extender_result: ExtenderFilterResult | None,
        *,
        nominated_only: bool,
    ) -> FilterResult:
        """Filter all nodes as they are now.

        Args:
            context: The attempt.
            extender_result: The former answer of extenders; `None` where none was asked.
            nominated_only: Whether the nominated node is enough where the pod fits there.
        """
        pod, pod_class = context.state.pod, context.pod_class
        prepared = pod_class.filters.pre_filter(context.state)
        if prepared.rejected is not None:
            code = self._verdicts.code(prepared.rejected)
            codes = np.where(self._cluster.columns.exists(), code, NO_NODE).astype(np.uint16)
            return FilterResult(prepared, codes, fitting(codes))
        nominated = self._codes_on_nominated(pod, pod_class, prepared)
        fits = nominated is not None and bool((nominated == 0).any())
        if nominated is not None and fits and nominated_only:
            filtered = FilterResult(prepared, nominated, fitting(nominated), nominated_only=True)
            return self._apply_extender_result(filtered, extender_result)
        codes, feasible = self._codes(pod, pod_class, prepared, None if fits else nominated)
        return self._apply_extender_result(FilterResult(prepared, codes, feasible), extender_result)

    def _apply_extender_result(
        self, filtered: FilterResult, extender_result: ExtenderFilterResult | None
    ) -> FilterResult:
        """Return the result with the nodes rejected that the extenders did not accept."""
        if extender_result is None:
            return filtered
        feasible, codes, has_unasked_nodes = filtered.feasible, filtered.codes.copy(), False
        reasons: tuple[str, ...] = ()
        if filtered.prepared.only is not None:
            reasons = self._excluded(filtered.prepared, NO_NODE).reasons
        silent = Verdict(EXTENDER, reasons, resolvable=False)
        for row, name in zip(feasible.tolist(), self._names(feasible), strict=True):
            if name not in extender_result.accepted:
                has_unasked_nodes = has_unasked_nodes or name not in extender_result.asked
                codes[row] = self._verdicts.code(extender_result.verdict(name, silent))
        return FilterResult(
            filtered.prepared, codes, fitting(codes), filtered.nominated_only, has_unasked_nodes
        )

    def _codes(
        self, pod: Pod, pod_class: PodClass, prepared: Preparation, nominated: Codes | None
    ) -> tuple[Codes, Rows]:
        """Return, (N,), the verdict on every row, and the rows where it is 0.

        The verdict on the nominated node stays, even if PreFilter results exclude that node; then
        the plugin of that verdict is named with the plugins that excluded the other nodes.
        """
        if prepared.only is None:
            return pod_class.filters.run_all(prepared, self._expected(pod, prepared))
        columns = self._cluster.columns
        rows = columns.rows_of(prepared.only)
        nominated_code = NO_NODE if nominated is None else int(nominated.min())
        outside = self._verdicts.code(self._excluded(prepared, nominated_code))
        codes = np.where(columns.exists(), outside, NO_NODE).astype(np.uint16)
        expected = self._expected(pod, prepared, rows)
        codes[rows] = pod_class.filters.run_on_rows(rows, prepared, expected)
        if nominated is not None:
            codes = np.where(nominated != NO_NODE, nominated, codes)
        return codes, fitting(codes)

    def _excluded(self, prepared: Preparation, nominated_code: int) -> Verdict:
        """Return the verdict on excluded nodes; it also names the plugin of the nominated node."""
        by = () if nominated_code == NO_NODE else (self._verdicts[nominated_code].plugin,)
        plugins = sorted({*prepared.narrowed_by, *by})
        reason = f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}]"
        return Verdict("", (reason,), resolvable=False, shown_as=", ".join(plugins))

    def _codes_on_nominated(
        self, pod: Pod, pod_class: PodClass, prepared: Preparation
    ) -> Codes | None:
        """Return, (N,), the verdict on the node that the pod is nominated to, `NO_NODE` elsewhere.

        Returns:
            `None` when the pod has no nomination, or its node is gone.
        """
        node = self._cluster.nominations.node(pod.uid)
        columns = self._cluster.columns
        row = None if node is None else columns.row(node)
        if row is None or columns.nodes[row] is None:
            return None
        rows: Rows = np.array([row], dtype=np.int64)
        codes = np.full(columns.size, NO_NODE, dtype=np.uint16)
        expected = self._expected(pod, prepared, rows)
        codes[rows] = pod_class.filters.run_on_rows(rows, prepared, expected)
        return codes

    def _expected(
        self, pod: Pod, prepared: Preparation, rows: Rows | None = None
    ) -> tuple[Rows, Codes] | None:
        """Return the verdicts with nominated pods; see the function of `nominated_pods`.

        Raises:
            PluginError: A filter fails.
        """
        expected = nominated_pods.verdicts_with_nominated_pods(
            pod, self._cluster, prepared.predicates, rows
        )
        if expected is not None and (error := self._verdicts.error(expected[1])):
            raise PluginError(error)
        return expected

    def _select_node(
        self,
        context: AttemptContext,
        filtered: FilterResult,
        scores: Mapping[str, Mapping[str, int]],
    ) -> AttemptResult:
        self.enter_phase(AttemptPhase.SCORE)
        columns, feasible = self._cluster.columns, filtered.feasible
        if feasible.shape[0] == 1:
            row = int(feasible[0])
        else:
            ties = self._best(context, feasible, scores.values())
            row = tie_breaking.pick(ties, context.state.pod.uid, columns)
        return AttemptResult(
            node=columns.names[row],
            state=context.state,
            nodes=columns.node_count,
            feasible=feasible.shape[0],
            results=self._results(context, filtered.codes, scores),
            details=self._details(context, filtered.codes),
        )

    def _best(
        self, context: AttemptContext, feasible: Rows, scores: Collection[Mapping[str, int]]
    ) -> Rows:
        """Return the rows with the highest score, the scores of extenders included."""
        class_scores, state = context.pod_class.scores, context.state
        if not scores:
            return class_scores.best(feasible, state)
        extra = [sum(by_node.get(name, 0) for by_node in scores) for name in self._names(feasible)]
        own = class_scores.ranking(feasible, state)
        return tie_breaking.best(feasible, own + np.array(extra, dtype=np.int64))

    def _run_post_filters(
        self,
        context: AttemptContext,
        filtered: FilterResult,
        extender_result: ExtenderFilterResult | None,
    ) -> Conversation[AttemptResult | None]:
        """Run the post filters and build the message; `None` when the attempt has to start over."""
        self.enter_phase(AttemptPhase.PREEMPT)
        post_filter = yield from self._post_filters.run(context, filtered, extender_result)
        if post_filter is None:
            return None
        prepared, codes = filtered.prepared, filtered.codes
        nodes = self._cluster.columns.node_count
        if prepared.rejected is not None:
            found, rejectors = [prepared.rejected], prepared.blamed
            prefilter = ", ".join(prepared.rejected.reasons)
            text = fit_error(nodes, (), prefilter=prefilter, post_filter=post_filter.message)
        else:
            found = [self._verdicts[code] for code in np.unique(codes[codes != NO_NODE]).tolist()]
            rejectors = frozenset({verdict.plugin for verdict in found} - {""}) | prepared.blamed
            reasons = count_reasons(codes, self._verdicts)
            text = fit_error(nodes, reasons.items(), post_filter=post_filter.message)
        vetoes = () if context.vetoes is None else self._rule_vetoes(context.vetoes, post_filter)
        alone = bool(vetoes or post_filter.blocked)
        key_of = context.pod_class.equivalence_key
        equivalence_key = b"" if alone else key_of(context.state.pod, rejectors, self._cluster)
        return AttemptResult(
            post_filter=post_filter,
            message=text,
            rejectors=rejectors,
            equivalence_key=equivalence_key,
            nodes=nodes,
            results=self._results(context, codes, {}),
            vetoes=vetoes,
            reason=pending_reason(found, refused=bool(vetoes), blocked=post_filter.blocked),
            details=self._details(context, codes),
        )

    def _rule_vetoes(
        self, vetoes: CandidateVetoes, post_filter: PostFilterResult
    ) -> tuple[RuleVeto, ...]:
        """Return what policies refused, or in audit mode would have refused about the candidate."""
        if post_filter.candidate is None:
            return vetoes.rule_vetoes()
        node = self._cluster.columns.names[post_filter.candidate.row]
        return vetoes.rule_vetoes(node, post_filter.candidate.victims)

    def _results(
        self, context: AttemptContext, codes: Codes, scores: Mapping[str, Mapping[str, int]]
    ) -> Sequence[NodeResult]:
        """Return what was found about each node, if that is wanted."""
        if context.outcomes is None or context.detail < Detail.NODES:
            return ()
        columns = self._cluster.columns
        weighted = functools.partial(context.pod_class.scores.weighted, state=context.state)
        of_row = (lambda _row: ()) if context.vetoes is None else context.vetoes.on_row
        outcome_on = context.outcomes.on_row
        return NodeResults(codes, self._verdicts, weighted, scores, columns, of_row, outcome_on)

    def _details(self, context: AttemptContext, codes: Codes) -> AttemptDetails | None:
        if context.outcomes is None:
            return None
        vetoes = () if context.vetoes is None else tuple(context.vetoes.tally.reasons())
        columns, outcomes = self._cluster.columns, context.outcomes.on_rows
        return AttemptDetails(rejections(codes, self._verdicts, columns, outcomes), vetoes)
