"""One attempt: a pod against the cluster as it is. Nothing is changed.

    prepare -> the nominated node alone -> all nodes -> score and select -> Placed
                                             `-> nothing fits -> post filters -> Preempting
                                                                             `-> Unschedulable

Where extenders have a say, an attempt is a conversation: it yields questions and is sent answers.
The cluster changes meanwhile, so after each answer everything is judged anew, and only those nodes
are taken that fit now and that the extenders have accepted. When none is left of what was asked
about, but other nodes or preemptions have become possible, the attempt starts over.

Source: kube-scheduler v1.36.3 schedule_one.go schedulingAlgorithm. Differs: every node is looked
at and every feasible one is scored.

Axes: N rows, F feasible nodes.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from scheduler.core import claims, extending, message, select, tracing
from scheduler.core.classes import Classes, PodClass
from scheduler.core.extending import Consent, ExtenderError, Talk, UnknownVictimError
from scheduler.core.filtering import Preparation
from scheduler.core.preemption import choose, plan
from scheduler.core.preemption.choose import Candidate
from scheduler.core.preemption.plan import Refused
from scheduler.framework.extenders import EXTENDER
from scheduler.framework.profile import Profile
from scheduler.framework.verdicts import NO_NODE, Verdict, Verdicts
from scheduler.model.decisions import NodeTrace
from scheduler.model.effects import Verb
from scheduler.model.objects import Pod
from scheduler.state.arrays import Codes, Int, Rows
from scheduler.state.cluster import Cluster

__all__ = ["Attempts", "Outcome"]

NO_NODES: Final = "no nodes available to schedule pods"
NO_CANDIDATE: Final = "no candidate node for preemption"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an attempt found. Exactly one of `node`, `candidate` and `message` decides."""

    #: The node that takes the pod.
    node: str | None = None
    #: The preemption that makes room for it.
    candidate: Candidate | None = None
    #: Why it fits nowhere; also set beside a candidate.
    message: str = ""
    #: Plugins that rejected it; empty when there were no nodes at all.
    rejectors: frozenset[str] = frozenset()
    #: Whether a nomination that the pod has stays in force although nothing was found.
    keeps_nomination: bool = False
    preemption_tried: bool = False
    nodes: int = 0
    feasible: int = 0
    trace: tuple[NodeTrace, ...] = ()


class _Case(NamedTuple):
    """What an attempt is about."""

    pod: Pod
    pod_class: PodClass
    explain: bool


class _Sight(NamedTuple):
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


class Attempts:
    """Decides for pods. Attempts that wait for extenders do not know each other."""

    def __init__(
        self, profiles: Mapping[str, Profile], cluster: Cluster, verdicts: Verdicts
    ) -> None:
        self._cluster = cluster
        self._verdicts = verdicts
        self._classes = Classes(profiles, cluster, verdicts)

    def decide(self, pod: Pod, key: bytes, *, explain: bool) -> Talk[Outcome]:
        """Decide for a pod of the class with this key.

        Raises:
            PluginError: It cannot be decided.
        """
        while True:
            if self._cluster.columns.node_count == 0:
                return Outcome(message=NO_NODES)
            case = _Case(pod, self._classes.get(pod, key), explain)
            outcome = yield from self._attempt(case)
            if outcome is not None:
                return outcome

    def _attempt(self, case: _Case) -> Talk[Outcome | None]:
        """Decide once; `None` when the cluster has changed too much meanwhile."""
        alone, consent = True, None
        if case.pod_class.extenders:
            alone, consent = yield from self._consent(case)
        sight = self._look(case, consent, alone=alone)
        scores: Mapping[str, Mapping[str, int]] = {}
        if case.pod_class.extenders and sight.feasible.shape[0] > 1:
            names = self._names(sight.feasible)
            scores = yield from extending.scores(case.pod_class.extenders, names)
            if scores:
                consent = (consent or Consent(frozenset(names), frozenset(names))).of_scored(names)
                sight = self._look(case, consent, alone=alone)
        if sight.feasible.shape[0]:
            return self._placed(case, sight, scores)
        if sight.more or not self._cluster.columns.node_count:
            return None
        return (yield from self._fits_nowhere(case, sight, consent))

    def _consent(self, case: _Case) -> Talk[tuple[bool, Consent | None]]:
        """Ask the extenders which nodes they take: the nominated one first, then all.

        Returns:
            Whether the nominated node alone was asked about, and what they said; `None` where none
            of them filters.

        Source: kube-scheduler v1.36.3 schedule_one.go findNodesThatFitPod, evaluateNominatedNode.
        """
        extenders = case.pod_class.extenders
        if not extending.anyone(extenders, Verb.FILTER):
            return True, None
        sight = self._look(case, None, alone=True)
        if sight.alone:
            try:
                said = yield from extending.consent(extenders, self._names(sight.feasible))
            except ExtenderError:
                said = None
            if said is not None and said.accepted:
                return True, said
            sight = self._look(case, None, alone=False)
        return False, (yield from extending.consent(extenders, self._names(sight.feasible)))

    def _names(self, rows: Rows) -> list[str]:
        names = self._cluster.columns.names
        return [names[row] for row in rows.tolist()]

    def _look(self, case: _Case, consent: Consent | None, *, alone: bool) -> _Sight:
        """Judge all nodes as they are now.

        Args:
            case: For whom.
            consent: What extenders said before; `None` where they have no say.
            alone: Whether the nominated node is enough where the pod fits there.
        """
        pod, pod_class = case.pod, case.pod_class
        prepared = pod_class.filtering.prepare()
        if prepared.rejected is not None:
            code = self._verdicts.code(prepared.rejected)
            codes = np.where(self._cluster.columns.exists(), code, NO_NODE).astype(np.uint16)
            return _Sight(prepared, codes, _feasible(codes))
        nominated = self._codes_on_nominated(pod, pod_class, prepared)
        fits = nominated is not None and bool((nominated == 0).any())
        if nominated is not None and fits and alone:
            sight = _Sight(prepared, nominated, _feasible(nominated), alone=True)
            return self._consented(sight, consent)
        codes = self._codes(pod, pod_class, prepared, None if fits else nominated)
        feasible = pod_class.filtering.fitting(codes)
        return self._consented(_Sight(prepared, codes, feasible), consent)

    def _consented(self, sight: _Sight, consent: Consent | None) -> _Sight:
        """Return what is left when the extenders have had their say."""
        if consent is None:
            return sight
        feasible, codes, more = sight.feasible, sight.codes.copy(), False
        reasons: tuple[str, ...] = ()
        if sight.prepared.only is not None:
            reasons = self._left_out(sight.prepared, NO_NODE).reasons
        silent = Verdict(EXTENDER, reasons, resolvable=False)
        for row, name in zip(feasible.tolist(), self._names(feasible), strict=True):
            if name not in consent.accepted:
                more = more or name not in consent.asked
                codes[row] = self._verdicts.code(consent.verdict(name, silent))
        return _Sight(sight.prepared, codes, _feasible(codes), sight.alone, more)

    def _codes(
        self, pod: Pod, pod_class: PodClass, prepared: Preparation, nominated: Codes | None
    ) -> Codes:
        """Return, (N,), the verdict on every row.

        What was found on the nominated node stands, also where it is none of the only nodes; its
        plugin is then named with those that left the others out.
        """
        if prepared.only is None:
            codes = pod_class.filtering.judge_all(prepared)
            return claims.with_claims(codes, pod, self._cluster, prepared.predicates)
        columns = self._cluster.columns
        rows = columns.rows_of(prepared.only)
        looked_at = NO_NODE if nominated is None else int(nominated.min())
        outside = self._verdicts.code(self._left_out(prepared, looked_at))
        codes = np.where(columns.exists(), outside, NO_NODE).astype(np.uint16)
        codes[rows] = pod_class.filtering.judge_rows(rows, prepared)
        codes = claims.with_claims(codes, pod, self._cluster, prepared.predicates, rows)
        return codes if nominated is None else np.where(nominated != NO_NODE, nominated, codes)

    def _left_out(self, prepared: Preparation, looked_at: int) -> Verdict:
        """Return the verdict on the nodes that some plugins left out, and the nominated one's."""
        plugins = " ".join(sorted({*prepared.narrowed_by, *self._plugin(looked_at)}))
        return Verdict("", (f"node(s) didn't satisfy plugin(s) [{plugins}]",), resolvable=False)

    def _plugin(self, code: int) -> tuple[str, ...]:
        """Return the plugin of a verdict, if it is one."""
        return () if code == NO_NODE else (self._verdicts[code].plugin,)

    def _codes_on_nominated(
        self, pod: Pod, pod_class: PodClass, prepared: Preparation
    ) -> Codes | None:
        """Return, (N,), the verdict on the node that the pod is nominated to, `NO_NODE` elsewhere.

        Returns:
            `None` when the pod has no nomination, or to a node that is gone.
        """
        node = self._cluster.nominations.node(pod.uid)
        columns = self._cluster.columns
        row = None if node is None else columns.row(node)
        if row is None or columns.nodes[row] is None:
            return None
        rows: Rows = np.array([row], dtype=np.int64)
        codes = np.full(columns.size, NO_NODE, dtype=np.uint16)
        codes[rows] = pod_class.filtering.judge_rows(rows, prepared)
        return claims.with_claims(codes, pod, self._cluster, prepared.predicates, rows)

    def _placed(
        self, case: _Case, sight: _Sight, scores: Mapping[str, Mapping[str, int]]
    ) -> Outcome:
        columns, feasible = self._cluster.columns, sight.feasible
        if feasible.shape[0] == 1:
            row = int(feasible[0])
        else:
            ranking = case.pod_class.scoring.ranking(feasible)
            if scores:
                ranking = ranking + self._extra(feasible, scores.values())
            row = select.best(feasible, ranking, case.pod.uid, columns)
        return Outcome(
            node=columns.names[row],
            nodes=columns.node_count,
            feasible=feasible.shape[0],
            trace=self._trace(case, sight.codes, scores),
        )

    def _extra(self, feasible: Rows, scores: Iterable[Mapping[str, int]]) -> Int:
        """Return, (F,), the sum of what extenders gave to each node."""
        sums = [sum(each.get(name, 0) for each in scores) for name in self._names(feasible)]
        return np.array(sums, dtype=np.int64)

    def _fits_nowhere(
        self, case: _Case, sight: _Sight, consent: Consent | None
    ) -> Talk[Outcome | None]:
        """Build the message and look for a cure; `None` when there may be something better."""
        cure = yield from self._post_filter(case, sight, consent)
        if cure is None:
            return None
        prepared, codes = sight.prepared, sight.codes
        nodes = self._cluster.columns.node_count
        if prepared.rejected is not None:
            rejectors = prepared.blamed
            prefilter = ", ".join(prepared.rejected.reasons)
            text = message.fit_error(nodes, (), prefilter=prefilter, post_filter=cure.message)
        else:
            present = np.unique(codes[codes != NO_NODE]).tolist()
            rejectors = frozenset({self._verdicts[code].plugin for code in present} - {""})
            rejectors |= prepared.blamed
            reasons = message.counted(codes, self._verdicts)
            text = message.fit_error(nodes, reasons.items(), post_filter=cure.message)
        return Outcome(
            candidate=cure.candidate,
            message=text,
            rejectors=rejectors,
            keeps_nomination=cure.keeps_nomination,
            preemption_tried=cure.preemption_tried,
            nodes=nodes,
            trace=self._trace(case, codes, {}),
        )

    def _post_filter(
        self, case: _Case, sight: _Sight, consent: Consent | None
    ) -> "Talk[_Cure | None]":
        """Ask the post filters in order.

        Source: kube-scheduler v1.36.3 framework/runtime.RunPostFilterPlugins.
        """
        rejected = sight.prepared.rejected
        by = rejected.plugin if rejected is not None and not rejected.resolvable else None
        post_filters = case.pod_class.profile.post_filters
        said: list[str] = []
        # Without any post filter a nomination is cleared; one that says nothing of it keeps it.
        keeps = bool(post_filters)
        tried = False
        for plugin in post_filters:
            if isinstance(plugin, str):
                tried = True
                found = yield from self._preempt(case, sight, consent)
                if found is None:
                    return None
                if isinstance(found, Candidate):
                    return _Cure(candidate=found, preemption_tried=True)
                text = f"preemption: {found.message}"
                if found.failed:
                    return _Cure(None, text, keeps_nomination=True, preemption_tried=True)
                said.append(text)
                keeps = found.keeps_nomination
            else:
                spoken = plugin.post_filter(case.pod, prefilter_rejected_by=by)
                said.append(spoken.message)
                if spoken.ends:
                    keeps = True
                    break
        return _Cure(None, ", ".join(said), keeps, tried)

    def _preempt(
        self, case: _Case, sight: _Sight, consent: Consent | None
    ) -> Talk[Candidate | Refused | None]:
        """Plan a preemption that no extender objects to; `None` when the plan is out of date.

        Whom a node would cost must be the same before and after the extenders were asked.
        """
        pod, pod_class = case.pod, case.pod_class
        if not extending.anyone(pod_class.extenders, Verb.PREEMPT):
            return plan.plan(
                pod, self._cluster, sight.prepared.predicates, sight.codes, self._verdicts,
                pod_class.outlook,
            )  # fmt: skip
        before = self._candidates(case, sight)
        if isinstance(before, Refused):
            return before
        try:
            said = yield from extending.preemptions(pod_class.extenders, before, self._cluster)
        except ExtenderError as error:
            return self._failed(error, before)
        now = self._look(case, consent, alone=False)
        if now.more or now.feasible.shape[0]:
            return None
        after = self._candidates(case, now)
        known = {} if isinstance(after, Refused) else after
        left = [
            each
            for name, each in said.items()
            if extending.is_same(before.get(name), known.get(name))
        ]
        if said and not left:
            return None
        best = choose.one_of(left, pod.uid, self._cluster)
        return best or Refused(NO_CANDIDATE, keeps_nomination=True)

    def _failed(self, error: ExtenderError, asked: Mapping[str, Candidate]) -> Refused | None:
        """Give up after an extender's failure; `None` if it named what went while it was asked."""
        victims = [pod.uid for each in asked.values() for pod in each.victims]
        there = [*map(self._cluster.columns.node, asked), *map(self._cluster.placed, victims)]
        if isinstance(error, UnknownVictimError) and None in there:
            return None
        return Refused(str(error), keeps_nomination=True, failed=True)

    def _candidates(self, case: _Case, sight: _Sight) -> dict[str, Candidate] | Refused:
        return plan.candidates(
            case.pod, self._cluster, sight.prepared.predicates, sight.codes, self._verdicts,
            case.pod_class.outlook,
        )  # fmt: skip

    def _trace(
        self, case: _Case, codes: Codes, scores: Mapping[str, Mapping[str, int]]
    ) -> tuple[NodeTrace, ...]:
        if not case.explain:
            return ()
        columns = self._cluster.columns
        return tracing.trace(codes, self._verdicts, case.pod_class.scoring, scores, columns)


@dataclass(frozen=True, slots=True)
class _Cure:
    """What the post filters found."""

    candidate: Candidate | None = None
    message: str = ""
    keeps_nomination: bool = False
    preemption_tried: bool = False


def _feasible(codes: Codes) -> Rows:
    rows: Rows = (codes == 0).nonzero()[0]
    return rows
