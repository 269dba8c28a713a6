"""What is tried for a pod that fits nowhere: the post filters in order, preemption among them.

Where extenders have a say in preemption it is a conversation, and what was planned is planned once
more when they have answered.

Source: kube-scheduler v1.36.3 framework/runtime.RunPostFilterPlugins;
framework/preemption.Evaluator.Preempt.

Axes: N rows, F feasible nodes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.core.attempt import extenders
from scheduler.core.attempt.equivalence import PodClass
from scheduler.core.attempt.extenders import (
    Conversation,
    ExtenderFailedError,
    ExtenderFilterResult,
    UnknownVictimError,
)
from scheduler.core.feasibility.filters import Preparation
from scheduler.core.preemption.evaluate import candidates, evaluator
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.core.preemption.evaluate.evaluator import NoCandidate, Preemptor
from scheduler.core.preemption.evaluate.relocation import RelocationCost
from scheduler.core.preemption.policy.vetoes import CandidateVetoes
from scheduler.framework.verdicts import Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.base import Record
from scheduler.model.effects import Verb
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Rows

__all__ = ["AttemptContext", "FilterResult", "Look", "PostFilterResult", "PostFilterRunner"]

NO_CANDIDATE: Final = "no candidate node for preemption"


class AttemptContext(NamedTuple):
    """What an attempt is about."""

    pod: Pod
    pod_class: PodClass
    explain: bool
    #: Who may object to preemptions; `None` where nobody can.
    objections: CandidateVetoes | None


class FilterResult(NamedTuple):
    """How the cluster looks to a pod at one moment."""

    prepared: Preparation
    #: (N,) the verdict on every row, by the filters and by the extenders.
    codes: Codes
    #: (F,) the rows that take the pod.
    feasible: Rows
    #: Whether only the nominated node was looked at, because the pod fits there.
    alone: bool = False
    #: Whether it fits on nodes that the extenders were not asked about.
    more: bool = False


class PostFilterResult(Record, frozen=True):
    """What the post filters found."""

    candidate: Candidate | None = None
    message: str = ""
    keeps_nomination: bool = False
    preemption_tried: bool = False
    held: bool = False
    until: Seconds | None = None


#: Judges all nodes as they are now, also where the pod fits on the nominated one.
Look = Callable[[AttemptContext, ExtenderFilterResult | None], FilterResult]


class PostFilterRunner:
    """Looks for a cure."""

    def __init__(self, cluster: Cluster, verdicts: Verdicts, look: Look) -> None:
        self._cluster = cluster
        self._verdicts = verdicts
        self._look = look

    def cure(
        self, case: AttemptContext, sight: FilterResult, consent: ExtenderFilterResult | None
    ) -> Conversation[PostFilterResult | None]:
        """Ask the post filters; `None` when the cluster has changed too much meanwhile."""
        rejected = sight.prepared.rejected
        by = rejected.plugin if rejected is not None and not rejected.resolvable else None
        post_filters = case.pod_class.profile.post_filters
        said: list[str] = []
        # Without any post filter a nomination is cleared; one that says nothing of it keeps it.
        keeps = bool(post_filters)
        tried = held = False
        until: Seconds | None = None
        for plugin in post_filters:
            if isinstance(plugin, str):
                tried = True
                found = yield from self._preempt(case, sight, consent)
                if found is None:
                    return None
                if isinstance(found, Candidate):
                    return PostFilterResult(candidate=found, preemption_tried=True)
                text = f"preemption: {found.message}"
                if found.failed:
                    return PostFilterResult(
                        None, text, keeps_nomination=True, preemption_tried=True
                    )
                said.append(text)
                keeps, held, until = found.keeps_nomination, found.held, found.until
            else:
                spoken = plugin.post_filter(case.pod, prefilter_rejected_by=by)
                said.append(spoken.message)
                if spoken.ends:
                    keeps = True
                    break
        return PostFilterResult(None, ", ".join(said), keeps, tried, held, until)

    def _preempt(
        self, case: AttemptContext, sight: FilterResult, consent: ExtenderFilterResult | None
    ) -> Conversation[Candidate | NoCandidate | None]:
        """Plan a preemption that no extender objects to; `None` when the plan is out of date.

        Whom a node would cost must be the same before and after the extenders were asked.
        """
        pod_class = case.pod_class
        if not extenders.anyone(pod_class.extenders, Verb.PREEMPT):
            preemptor = self._preemptor(case, sight)
            return evaluator.plan(preemptor, sight.codes, self._verdicts, pod_class.outlook)
        before = self._candidates(case, sight)
        if isinstance(before, NoCandidate):
            return before
        try:
            said = yield from extenders.preemptions(pod_class.extenders, before, self._cluster)
        except ExtenderFailedError as error:
            return self._failed(error, before)
        now = self._look(case, consent)
        if now.more or now.feasible.shape[0]:
            return None
        after = self._candidates(case, now)
        known = {} if isinstance(after, NoCandidate) else after
        left = [
            each
            for name, each in said.items()
            if extenders.is_same(before.get(name), known.get(name))
        ]
        return None if said and not left else self._best(case, left)

    def _best(self, case: AttemptContext, left: Sequence[Candidate]) -> Candidate | NoCandidate:
        """Return the best of the candidates that extenders have named, if nobody objects to it."""
        if case.objections is not None and left:
            left = self._allowed(case.objections, left)
            if not left:
                return evaluator.refused(case.objections.tally)
        best = candidates.one_of(left, case.pod.uid, self._cluster)
        return best or NoCandidate(NO_CANDIDATE, keeps_nomination=True)

    def _allowed(self, objections: CandidateVetoes, found: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates to whose victims, as extenders have named them, nobody objects."""
        names, allowed = self._cluster.columns.names, []
        for each in found:
            said = objections.to(names[each.row], each.victims)
            if said:
                objections.tally.add_nodes(said)
            else:
                allowed.append(each)
        return allowed

    def _failed(
        self, error: ExtenderFailedError, asked: Mapping[str, Candidate]
    ) -> NoCandidate | None:
        """Give up after an extender's failure; `None` if it named what went while it was asked."""
        victims = [pod.uid for each in asked.values() for pod in each.victims]
        there = [*map(self._cluster.columns.node, asked), *map(self._cluster.placed, victims)]
        if isinstance(error, UnknownVictimError) and None in there:
            return None
        return NoCandidate(str(error), keeps_nomination=True, failed=True)

    def _candidates(
        self, case: AttemptContext, sight: FilterResult
    ) -> dict[str, Candidate] | NoCandidate:
        preemptor = self._preemptor(case, sight)
        return evaluator.candidates(preemptor, sight.codes, self._verdicts, case.pod_class.outlook)

    def _preemptor(self, case: AttemptContext, sight: FilterResult) -> Preemptor:
        profile = case.pod_class.profile
        cheapest = None
        if profile.prefers_movable:
            cheapest = RelocationCost(profile, self._cluster, self._verdicts)
        return Preemptor(
            case.pod, self._cluster, sight.prepared.predicates, case.objections, cheapest
        )
