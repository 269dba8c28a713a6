"""Runs the post filters for a pod that fits on no node, in order; preemption is one of them.

If extenders take part in preemption, it is a generator (see `extenders`), and the candidates are
computed once more when the extenders have responded.

Source: kube-scheduler v1.36.3 framework/runtime.RunPostFilterPlugins;
framework/preemption.Evaluator.Preempt. Differs: extenders that only filter are asked, too.

Axes: N rows, F feasible nodes.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from scheduler.core.attempt import extenders
from scheduler.core.attempt.equivalence import PodClass
from scheduler.core.attempt.extenders import (
    Conversation,
    ExtenderFailedError,
    ExtenderFilterResult,
    UnknownVictimError,
)
from scheduler.core.feasibility.filters import Preparation
from scheduler.core.preemption.dry_run_result import EvictionOutcomes
from scheduler.core.preemption.evaluate import candidates, evaluator
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.core.preemption.evaluate.evaluator import PreemptionInputs
from scheduler.core.preemption.evaluate.no_candidate import NoCandidate, vetoed
from scheduler.core.preemption.evaluate.relocation import RelocationCost
from scheduler.core.preemption.policy.vetoes import CandidateVetoes
from scheduler.framework.cycle_state import AttemptState
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.base import Record
from scheduler.model.decisions import Detail
from scheduler.model.effects import Effect, Verb
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Rows

__all__ = [
    "NOT_RUN",
    "AttemptContext",
    "FilterAll",
    "FilterResult",
    "PostFilterResult",
    "PostFilterRunner",
]

NO_CANDIDATE: Final = "no candidate node for preemption"


@dataclass(slots=True)
class AttemptContext:
    """The pod of an attempt and what is needed to decide for it."""

    state: AttemptState
    pod_class: PodClass
    detail: Detail
    #: Finds `vetoes` as they are now.
    find_vetoes: Callable[[], CandidateVetoes | None]
    #: The vetoes of policies and of the loop breaker; `None` where no preemption can be vetoed.
    vetoes: CandidateVetoes | None = None
    #: What evictions would mean on each node; from `Detail.COUNTS` on.
    outcomes: EvictionOutcomes | None = None

    def renew_vetoes(self) -> None:
        """Find the vetoes again: while extenders were asked, others were planned to be evicted."""
        self.vetoes = self.find_vetoes()
        if self.vetoes is not None:
            self.vetoes.detail = self.detail


class FilterResult(NamedTuple):
    """The verdicts on all nodes at one moment."""

    prepared: Preparation
    #: (N,) the verdict on every row, of filters and extenders.
    codes: Codes
    #: (F,) the rows that are feasible.
    feasible: Rows
    #: Whether only the nominated node was filtered, because the pod fits there.
    nominated_only: bool = False
    #: Whether it fits on nodes that the extenders were not asked about.
    has_unasked_nodes: bool = False


class PostFilterResult(Record, frozen=True):
    """The result of the post filters."""

    #: The preemption that frees resources for the pod.
    candidate: Candidate | None = None
    message: str = ""
    #: Whether the pod keeps its nomination although no node was found.
    keeps_nomination: bool = False
    preemption_tried: bool = False
    #: Whether a veto that may end blocks preemption, and when the first one ends.
    blocked: bool = False
    until: Seconds | None = None
    #: What plugins want done, so that the pod becomes schedulable later.
    effects: tuple[Effect, ...] = ()


NOT_RUN: Final = PostFilterResult()


def placement_message(candidate: Candidate, cluster: Cluster) -> str:
    """Return the message about a preemption that will help.

    Source: kube-scheduler v1.37.2 framework/preemption.Evaluator.Preempt; v1.36.3 has none.
    """
    if not cluster.reference.reports_preemption:
        return ""
    node, victims = cluster.columns.names[candidate.row], len(candidate.victims)
    where = f"found a potential placement for pod on node {node}"
    return f"preemption: {where}, preempting {victims} victims"


#: Filters all nodes as they are now, also where the pod fits on the nominated one.
FilterAll = Callable[[AttemptContext, ExtenderFilterResult | None], FilterResult]


class PostFilterRunner:
    """Runs post filters, preemption among them."""

    def __init__(self, cluster: Cluster, verdicts: Verdicts, filter_all: FilterAll) -> None:
        self._cluster = cluster
        self._verdicts = verdicts
        self._filter_all = filter_all

    def run(
        self,
        context: AttemptContext,
        filtered: FilterResult,
        extender_result: ExtenderFilterResult | None,
    ) -> Conversation[PostFilterResult | None]:
        """Run the post filters; `None` when the cluster has changed too much meanwhile."""
        context.renew_vetoes()
        rejected = filtered.prepared.rejected
        by = rejected.plugin if rejected is not None and not rejected.resolvable else None
        post_filters = context.pod_class.profile.post_filters
        messages: list[str] = []
        effects: tuple[Effect, ...] = ()
        # Without any post filter a nomination is cleared; a post filter keeps it by default.
        keeps = bool(post_filters)
        tried = blocked = False
        until: Seconds | None = None
        for plugin in post_filters:
            if isinstance(plugin, str):  # `PREEMPTION`, whose work is done here
                tried = True
                result = yield from self._preempt(context, filtered, extender_result)
                if result is None:
                    return None
                if isinstance(result, Candidate):
                    text = placement_message(result, self._cluster)
                    return PostFilterResult(result, text, preemption_tried=True, effects=effects)
                text = f"preemption: {result.message}"
                if result.failed:
                    return PostFilterResult(
                        None, text, keeps_nomination=True, preemption_tried=True, effects=effects
                    )
                messages.append(text)
                keeps, blocked, until = result.keeps_nomination, result.blocked, result.until
            else:
                answer = plugin.post_filter(context.state, prefilter_rejected_by=by)
                effects += answer.effects
                if answer.message:
                    messages.append(answer.message)
                if answer.ends:
                    keeps = True
                    break
        return PostFilterResult(None, ", ".join(messages), keeps, tried, blocked, until, effects)

    def _preempt(
        self,
        context: AttemptContext,
        filtered: FilterResult,
        extender_result: ExtenderFilterResult | None,
    ) -> Conversation[Candidate | NoCandidate | None]:
        """Choose a preemption on a node that every extender accepts; `None` if it is out of date.

        Extenders that filter nodes but have no preempt verb are asked about the chosen node before
        a victim is evicted, and if they refuse it, about all other candidates. They cannot be told
        that the victims will be gone.

        Raises:
            ExtenderFailedError: An extender that only filters failed, and must not be ignored.
        """
        filtering = extenders.without_preemption(context.pod_class.extenders)
        accepted: set[str] = set()
        refused: dict[str, Verdict] = {}
        for about_all in (False, True, None):
            chosen = yield from self._choose(context, filtered, extender_result, refused)
            if not filtering or not isinstance(chosen, Candidate):
                return chosen
            node = self._cluster.columns.names[chosen.row]
            if node in accepted:
                return chosen
            if about_all is None:
                break  # the cluster has changed: other candidates than those of the questions
            nodes = {node}
            if about_all:
                candidates = self._find_candidates(context, filtered, refused)
                nodes |= set() if isinstance(candidates, NoCandidate) else candidates.keys()
            answer = yield from extenders.filter_nodes(filtering, sorted(nodes - accepted))
            accepted |= answer.accepted
            refused |= answer.refused()
            context.renew_vetoes()
            filtered = self._filter_all(context, extender_result)
            if filtered.has_unasked_nodes or filtered.feasible.shape[0]:
                break
        return None

    def _choose(
        self,
        context: AttemptContext,
        filtered: FilterResult,
        extender_result: ExtenderFilterResult | None,
        refused: Mapping[str, Verdict],
    ) -> Conversation[Candidate | NoCandidate | None]:
        """Choose a preemption that extenders with a preempt verb allow; `None` if out of date.

        The victims on a node must be the same before and after the extenders were asked.
        """
        pod_class = context.pod_class
        if not extenders.has_verb(pod_class.extenders, Verb.PREEMPT):
            inputs = self._preemption_inputs(context, filtered, refused)
            return evaluator.select_candidate(
                inputs, filtered.codes, self._verdicts, pod_class.candidate_cache
            )
        before = self._find_candidates(context, filtered, refused)
        if isinstance(before, NoCandidate):
            return before
        try:
            allowed = yield from extenders.allowed_preemptions(
                pod_class.extenders, before, self._cluster
            )
        except ExtenderFailedError as error:
            return self._failed(error, before)
        context.renew_vetoes()
        now = self._filter_all(context, extender_result)
        if now.has_unasked_nodes or now.feasible.shape[0]:
            return None
        after = self._find_candidates(context, now, refused)
        known = {} if isinstance(after, NoCandidate) else after
        remaining = [
            candidate
            for name, candidate in allowed.items()
            if extenders.is_same(before.get(name), known.get(name))
        ]
        return None if allowed and not remaining else self._best(context, remaining)

    def _best(
        self, context: AttemptContext, remaining: Sequence[Candidate]
    ) -> Candidate | NoCandidate:
        """Return the best of the candidates that extenders allow and nothing vetoes."""
        if context.vetoes is not None and remaining:
            # Extenders may have named other victims.
            remaining, table = candidates.allowed(remaining, context.vetoes)
            if table is not None:
                context.vetoes.tally.add(table)
            if not remaining:
                return vetoed(context.vetoes.tally)
        uid, objective = context.state.pod.uid, context.pod_class.candidate_cache.objective
        best = candidates.best_of(remaining, uid, self._cluster, objective)
        return best or NoCandidate(NO_CANDIDATE, keeps_nomination=True)

    def _failed(
        self, error: ExtenderFailedError, asked: Mapping[str, Candidate]
    ) -> NoCandidate | None:
        """Give up after an extender's failure; `None` if it named what was deleted meanwhile."""
        victims = [pod.uid for candidate in asked.values() for pod in candidate.victims]
        there = [*map(self._cluster.columns.node, asked), *map(self._cluster.find_pod, victims)]
        if isinstance(error, UnknownVictimError) and None in there:
            return None
        return NoCandidate(str(error), keeps_nomination=True, failed=True)

    def _find_candidates(
        self, context: AttemptContext, filtered: FilterResult, refused: Mapping[str, Verdict]
    ) -> dict[str, Candidate] | NoCandidate:
        inputs = self._preemption_inputs(context, filtered, refused)
        return evaluator.find_candidates(
            inputs, filtered.codes, self._verdicts, context.pod_class.candidate_cache
        )

    def _preemption_inputs(
        self, context: AttemptContext, filtered: FilterResult, refused: Mapping[str, Verdict]
    ) -> PreemptionInputs:
        profile = context.pod_class.profile
        relocation = None
        if profile.prefers_movable:
            relocation = RelocationCost(profile, self._cluster, self._verdicts, context.state.now)
        return PreemptionInputs(
            context.state.pod,
            self._cluster,
            filtered.prepared.predicates,
            context.pod_class.candidate_cache.objective,
            context.vetoes,
            relocation,
            context.detail >= Detail.COMPARISON,
            self._by_row(refused) if refused else None,
            context.outcomes,
        )

    def _by_row(self, refused: Mapping[str, Verdict]) -> Codes:
        """Return, (N,), the verdicts on nodes by row; 0 elsewhere."""
        columns = self._cluster.columns
        codes = np.zeros(columns.size, dtype=np.uint16)
        for node, verdict in refused.items():
            row = columns.row(node)
            if row is not None:
                codes[row] = self._verdicts.code(verdict)
        return codes
