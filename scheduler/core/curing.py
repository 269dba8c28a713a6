"""What is tried for a pod that fits nowhere: the post filters in order, preemption among them.

Where extenders have a say in preemption it is a conversation, and what was planned is planned once
more when they have answered.

Source: kube-scheduler v1.36.3 framework/runtime.RunPostFilterPlugins;
framework/preemption.Evaluator.Preempt.

Axes: N rows, F feasible nodes.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from scheduler.core import extending
from scheduler.core.classes import PodClass
from scheduler.core.extending import Consent, ExtenderError, Talk, UnknownVictimError
from scheduler.core.filtering import Preparation
from scheduler.core.preemption import choose, plan
from scheduler.core.preemption.cheapest import Cheapest
from scheduler.core.preemption.choose import Candidate
from scheduler.core.preemption.objections import Objections
from scheduler.core.preemption.plan import Preemptor, Refused
from scheduler.framework.verdicts import Verdicts
from scheduler.model.base import Record
from scheduler.model.effects import Verb
from scheduler.model.objects import Pod
from scheduler.model.times import Seconds
from scheduler.state.arrays import Codes, Rows
from scheduler.state.cluster import Cluster

__all__ = ["Case", "Cure", "Curing", "Look", "Sight"]

NO_CANDIDATE: Final = "no candidate node for preemption"


class Case(NamedTuple):
    """What an attempt is about."""

    pod: Pod
    pod_class: PodClass
    explain: bool
    #: Who may object to preemptions; `None` where nobody can.
    objections: Objections | None


class Sight(NamedTuple):
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


class Cure(Record, frozen=True):
    """What the post filters found."""

    candidate: Candidate | None = None
    message: str = ""
    keeps_nomination: bool = False
    preemption_tried: bool = False
    held: bool = False
    until: Seconds | None = None


#: Judges all nodes as they are now, also where the pod fits on the nominated one.
Look = Callable[[Case, Consent | None], Sight]


class Curing:
    """Looks for a cure."""

    def __init__(self, cluster: Cluster, verdicts: Verdicts, look: Look) -> None:
        self._cluster = cluster
        self._verdicts = verdicts
        self._look = look

    def cure(self, case: Case, sight: Sight, consent: Consent | None) -> Talk[Cure | None]:
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
                    return Cure(candidate=found, preemption_tried=True)
                text = f"preemption: {found.message}"
                if found.failed:
                    return Cure(None, text, keeps_nomination=True, preemption_tried=True)
                said.append(text)
                keeps, held, until = found.keeps_nomination, found.held, found.until
            else:
                spoken = plugin.post_filter(case.pod, prefilter_rejected_by=by)
                said.append(spoken.message)
                if spoken.ends:
                    keeps = True
                    break
        return Cure(None, ", ".join(said), keeps, tried, held, until)

    def _preempt(
        self, case: Case, sight: Sight, consent: Consent | None
    ) -> Talk[Candidate | Refused | None]:
        """Plan a preemption that no extender objects to; `None` when the plan is out of date.

        Whom a node would cost must be the same before and after the extenders were asked.
        """
        pod_class = case.pod_class
        if not extending.anyone(pod_class.extenders, Verb.PREEMPT):
            preemptor = self._preemptor(case, sight)
            return plan.plan(preemptor, sight.codes, self._verdicts, pod_class.outlook)
        before = self._candidates(case, sight)
        if isinstance(before, Refused):
            return before
        try:
            said = yield from extending.preemptions(pod_class.extenders, before, self._cluster)
        except ExtenderError as error:
            return self._failed(error, before)
        now = self._look(case, consent)
        if now.more or now.feasible.shape[0]:
            return None
        after = self._candidates(case, now)
        known = {} if isinstance(after, Refused) else after
        left = [
            each
            for name, each in said.items()
            if extending.is_same(before.get(name), known.get(name))
        ]
        return None if said and not left else self._best(case, left)

    def _best(self, case: Case, left: Sequence[Candidate]) -> Candidate | Refused:
        """Return the best of the candidates that extenders have named, if nobody objects to it."""
        if case.objections is not None and left:
            left = self._allowed(case.objections, left)
            if not left:
                return plan.refused(case.objections.tally)
        best = choose.one_of(left, case.pod.uid, self._cluster)
        return best or Refused(NO_CANDIDATE, keeps_nomination=True)

    def _allowed(self, objections: Objections, found: Sequence[Candidate]) -> list[Candidate]:
        """Return the candidates to whose victims, as extenders have named them, nobody objects."""
        names, allowed = self._cluster.columns.names, []
        for each in found:
            said = objections.to(names[each.row], each.victims)
            if said:
                objections.tally.add_nodes(said)
            else:
                allowed.append(each)
        return allowed

    def _failed(self, error: ExtenderError, asked: Mapping[str, Candidate]) -> Refused | None:
        """Give up after an extender's failure; `None` if it named what went while it was asked."""
        victims = [pod.uid for each in asked.values() for pod in each.victims]
        there = [*map(self._cluster.columns.node, asked), *map(self._cluster.placed, victims)]
        if isinstance(error, UnknownVictimError) and None in there:
            return None
        return Refused(str(error), keeps_nomination=True, failed=True)

    def _candidates(self, case: Case, sight: Sight) -> dict[str, Candidate] | Refused:
        preemptor = self._preemptor(case, sight)
        return plan.candidates(preemptor, sight.codes, self._verdicts, case.pod_class.outlook)

    def _preemptor(self, case: Case, sight: Sight) -> Preemptor:
        profile = case.pod_class.profile
        cheapest = None
        if profile.prefers_movable:
            cheapest = Cheapest(profile, self._cluster, self._verdicts)
        return Preemptor(
            case.pod, self._cluster, sight.prepared.predicates, case.objections, cheapest
        )
