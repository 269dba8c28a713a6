"""One attempt: a pod against the cluster as it is. Nothing is changed.

    prepare -> the nominated node alone -> all nodes -> score and select -> Placed
                                             `-> nothing fits -> post filters -> Preempting
                                                                             `-> Unschedulable

Where extenders have a say, an attempt is a conversation: it yields questions and is sent answers.
The cluster changes meanwhile, so after each answer everything is judged anew, and only those nodes
are taken that fit now and that the extenders have accepted. When none is left of what was asked
about, but other nodes or preemptions have become possible, the attempt starts over; it fails when
that happens time and again, so that extenders are asked about other pods, too.

Source: kube-scheduler v1.36.3 schedule_one.go schedulingAlgorithm. Differs: every node is looked
at and every feasible one is scored.

Axes: N rows, F feasible nodes.
"""

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from scheduler.core.attempt import extenders as extending
from scheduler.core.attempt.equivalence import EquivalenceClasses, PodClass
from scheduler.core.attempt.extenders import Conversation, ExtenderFailedError, ExtenderFilterResult
from scheduler.core.attempt.post_filters import (
    AttemptContext,
    FilterResult,
    PostFilterResult,
    PostFilterRunner,
)
from scheduler.core.feasibility import (
    explain as tracing,
)
from scheduler.core.feasibility import (
    fit_error as message,
)
from scheduler.core.feasibility import (
    nominated_pods,
    tie_breaking,
)
from scheduler.core.feasibility.filters import Preparation, fitting, rejects
from scheduler.core.feasibility.scores import ClassScores
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.core.preemption.evaluate.victims import has_room, still_needed
from scheduler.core.preemption.policy.engine import PolicyEngine
from scheduler.core.preemption.policy.vetoes import CandidateVetoes
from scheduler.framework.extender_protocol import EXTENDER
from scheduler.framework.plugin import PluginError
from scheduler.framework.profile import Profile
from scheduler.framework.verdicts import NO_NODE, Verdict, Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.api.pod_size import MOST_PARTS, is_too_large
from scheduler.model.base import Record
from scheduler.model.classified_pod import ClassifiedPod
from scheduler.model.decisions import NodeTrace
from scheduler.model.effects import Verb
from scheduler.model.policy_refusals import PolicyRefusal
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Codes, Rows

__all__ = ["MOST_ROUNDS", "AttemptResult", "SchedulingAlgorithm"]

#: So often an attempt starts over. Each time costs extenders requests, and the pod that waits for
#: them ends up in back-off, after which the cluster may be calmer.
MOST_ROUNDS: Final = 5
OVERTAKEN: Final = f"{MOST_ROUNDS} times the cluster changed too much while extenders were asked"

#: Why a pod is rejected before any rule looks at it.
TOO_LARGE: Final = (
    f"pod has more than {MOST_PARTS} containers, volumes and ports, "
    "which preemptive-scheduler does not schedule"
)
#: No plugin: no event but a change of the pod can help it.
_BY_SIZE: Final = frozenset({"PodSize"})
NO_NODES: Final = "no nodes available to schedule pods"


class AttemptResult(Record, frozen=True):
    """What an attempt found. Exactly one of `node`, `candidate` and `message` decides."""

    #: The node that takes the pod.
    node: str | None = None
    #: The preemption that makes room for it.
    candidate: Candidate | None = None
    #: Why it fits nowhere; also set beside a candidate.
    message: str = ""
    #: Plugins that rejected it; empty when there were no nodes at all.
    rejectors: frozenset[str] = frozenset()
    #: Whoever is of this kin would be rejected like it at the same moment; empty for nobody else.
    kin: bytes = b""
    #: Whether a nomination that the pod has stays in force although nothing was found.
    keeps_nomination: bool = False
    preemption_tried: bool = False
    nodes: int = 0
    feasible: int = 0
    trace: tuple[NodeTrace, ...] = ()
    #: What policies refused about preemption, and what those that only audit would have.
    refusals: tuple[PolicyRefusal, ...] = ()
    #: Whether an objection that may end keeps preemption from helping, and when the first ends.
    held: bool = False
    until: Seconds | None = None

    @property
    def goes_on(self) -> bool:
        """Whether it fits somewhere, or goes on waiting on the node that it is nominated to."""
        return self.node is not None or (self.candidate is None and self.keeps_nomination)


class SchedulingAlgorithm:
    """Decides for pods. Attempts that wait for extenders do not know each other."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        cluster: Cluster,
        verdicts: Verdicts,
        policing: PolicyEngine,
    ) -> None:
        self._cluster = cluster
        self._verdicts = verdicts
        self._policing = policing
        self._classes = EquivalenceClasses(profiles, cluster, verdicts)
        self._curing = PostFilterRunner(cluster, verdicts, self._look_at_all)

    def decide(
        self, classified: ClassifiedPod, *, now: Seconds, since: Seconds, explain: bool
    ) -> Conversation[AttemptResult]:
        """Decide for a pod.

        Args:
            classified: The pod.
            now: The time. Policies are asked about it also where extenders take their time: to
                look from an earlier time is to the safe side.
            since: When the pod was first found unschedulable.
            explain: Whether the outcome carries a trace of every node.

        Raises:
            PluginError: It cannot be decided, or not in so many rounds.
        """
        pod = classified.pod
        for _ in range(MOST_ROUNDS):
            nodes = self._cluster.columns.node_count
            if nodes == 0:
                return AttemptResult(message=NO_NODES)
            if is_too_large(pod):
                text = message.fit_error(nodes, (), prefilter=TOO_LARGE)
                return AttemptResult(message=text, rejectors=_BY_SIZE, nodes=nodes)
            objections = self._policing.objections(pod, now, since)
            if objections is not None:
                objections.explain = explain
            case = AttemptContext(pod, self._classes.get(classified), explain, objections)
            outcome = yield from self._attempt(case)
            if outcome is not None:
                return outcome
        raise PluginError(OVERTAKEN)

    def _attempt(self, case: AttemptContext) -> Conversation[AttemptResult | None]:
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
                consent = (
                    consent or ExtenderFilterResult(frozenset(names), frozenset(names))
                ).of_scored(names)
                sight = self._look(case, consent, alone=alone)
        if sight.feasible.shape[0]:
            return self._placed(case, sight, scores)
        if sight.more or not self._cluster.columns.node_count:
            return None
        return (yield from self._fits_nowhere(case, sight, consent))

    def _consent(
        self, case: AttemptContext
    ) -> Conversation[tuple[bool, ExtenderFilterResult | None]]:
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
            except ExtenderFailedError:
                said = None
            if said is not None and said.accepted:
                return True, said
            sight = self._look(case, None, alone=False)
        return False, (yield from extending.consent(extenders, self._names(sight.feasible)))

    def _names(self, rows: Rows) -> list[str]:
        names = self._cluster.columns.names
        return [names[row] for row in rows.tolist()]

    def _look(
        self, case: AttemptContext, consent: ExtenderFilterResult | None, *, alone: bool
    ) -> FilterResult:
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
            return FilterResult(prepared, codes, fitting(codes))
        nominated = self._codes_on_nominated(pod, pod_class, prepared)
        fits = nominated is not None and bool((nominated == 0).any())
        if nominated is not None and fits and alone:
            sight = FilterResult(prepared, nominated, fitting(nominated), alone=True)
            return self._consented(sight, consent)
        codes = self._codes(pod, pod_class, prepared, None if fits else nominated)
        feasible = pod_class.filtering.fitting(codes)
        return self._consented(FilterResult(prepared, codes, feasible), consent)

    def _look_at_all(
        self, case: AttemptContext, consent: ExtenderFilterResult | None
    ) -> FilterResult:
        return self._look(case, consent, alone=False)

    def _consented(self, sight: FilterResult, consent: ExtenderFilterResult | None) -> FilterResult:
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
        return FilterResult(sight.prepared, codes, fitting(codes), sight.alone, more)

    def _codes(
        self, pod: Pod, pod_class: PodClass, prepared: Preparation, nominated: Codes | None
    ) -> Codes:
        """Return, (N,), the verdict on every row.

        What was found on the nominated node stands, also where it is none of the only nodes; its
        plugin is then named with those that left the others out.
        """
        if prepared.only is None:
            codes = pod_class.filtering.judge_all(prepared)
            return nominated_pods.with_claims(codes, pod, self._cluster, prepared.predicates)
        columns = self._cluster.columns
        rows = columns.rows_of(prepared.only)
        looked_at = NO_NODE if nominated is None else int(nominated.min())
        outside = self._verdicts.code(self._left_out(prepared, looked_at))
        codes = np.where(columns.exists(), outside, NO_NODE).astype(np.uint16)
        codes[rows] = pod_class.filtering.judge_rows(rows, prepared)
        codes = nominated_pods.with_claims(codes, pod, self._cluster, prepared.predicates, rows)
        return codes if nominated is None else np.where(nominated != NO_NODE, nominated, codes)

    def _left_out(self, prepared: Preparation, looked_at: int) -> Verdict:
        """Return the verdict on the nodes that some plugins left out, and the nominated one's."""
        plugins = sorted({*prepared.narrowed_by, *self._plugin(looked_at)})
        reason = f"node(s) didn't satisfy plugin(s) [{' '.join(plugins)}]"
        return Verdict("", (reason,), resolvable=False, shown_as=", ".join(plugins))

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
        return nominated_pods.with_claims(codes, pod, self._cluster, prepared.predicates, rows)

    def _placed(
        self, case: AttemptContext, sight: FilterResult, scores: Mapping[str, Mapping[str, int]]
    ) -> AttemptResult:
        columns, feasible = self._cluster.columns, sight.feasible
        if feasible.shape[0] == 1:
            row = int(feasible[0])
        else:
            ties = self._best(case.pod_class.scoring, feasible, scores.values())
            row = tie_breaking.among(ties, case.pod.uid, columns)
        return AttemptResult(
            node=columns.names[row],
            nodes=columns.node_count,
            feasible=feasible.shape[0],
            trace=self._trace(case, sight.codes, scores),
        )

    def _best(
        self, scoring: ClassScores, feasible: Rows, scores: Collection[Mapping[str, int]]
    ) -> Rows:
        """Return the rows that none is better than, with what extenders gave to each node."""
        if not scores:
            return scoring.best(feasible)
        extra = [sum(each.get(name, 0) for each in scores) for name in self._names(feasible)]
        return tie_breaking.best(
            feasible, scoring.ranking(feasible) + np.array(extra, dtype=np.int64)
        )

    def _fits_nowhere(
        self, case: AttemptContext, sight: FilterResult, consent: ExtenderFilterResult | None
    ) -> Conversation[AttemptResult | None]:
        """Build the message and look for a cure; `None` when there may be something better."""
        cure = yield from self._curing.cure(case, sight, consent)
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
        refusals = () if case.objections is None else self._refusals(case.objections, cure)
        own = bool(refusals or cure.held)
        return AttemptResult(
            candidate=cure.candidate,
            message=text,
            rejectors=rejectors,
            kin=b"" if own else case.pod_class.spoken_for(case.pod, rejectors, self._cluster),
            keeps_nomination=cure.keeps_nomination,
            preemption_tried=cure.preemption_tried,
            nodes=nodes,
            trace=self._trace(case, codes, {}),
            refusals=refusals,
            held=cure.held,
            until=cure.until,
        )

    def _refusals(
        self, objections: CandidateVetoes, cure: PostFilterResult
    ) -> tuple[PolicyRefusal, ...]:
        """Return what policies refused, and what they would have refused about the candidate."""
        if cure.candidate is None:
            return objections.refusals()
        node = self._cluster.columns.names[cure.candidate.row]
        return objections.refusals(node, cure.candidate.victims)

    def still_needed(
        self,
        classified: ClassifiedPod,
        node: str,
        victims: frozenset[str],
        gone: frozenset[str] = frozenset(),
    ) -> frozenset[str] | None:
        """Return which victims of a plan for a pod must go; see `victims.still_needed`.

        Where extenders have chosen the victims, all of them count as needed.
        """
        pod_class = self._classes.get(classified)
        prepared = pod_class.filtering.prepare()
        row = self._row(node, prepared)
        if row is None:
            return None
        if extending.anyone(pod_class.extenders, Verb.PREEMPT) or prepared.rejected is not None:
            return victims
        return still_needed(classified.pod, self._cluster, prepared.predicates, row, victims, gone)

    def has_room(self, classified: ClassifiedPod, node: str, victims: frozenset[str]) -> bool:
        """Tell whether a pod fits without some others, claims aside; see `victims.has_room`."""
        prepared = self._classes.get(classified).filtering.prepare()
        row = self._row(node, prepared)
        if row is None or prepared.rejected is not None:
            return row is not None
        if not victims and rejects(prepared.predicates, row):
            return False
        return has_room(self._cluster, prepared.predicates, row, victims)

    def fits(self, classified: ClassifiedPod, node: str) -> bool:
        """Tell whether a pod fits on a node as it is, claims included; extenders aside."""
        prepared = self._classes.get(classified).filtering.prepare()
        row = self._row(node, prepared)
        if row is None or prepared.rejected is not None or rejects(prepared.predicates, row):
            return False
        none: frozenset[str] = frozenset()
        pod, predicates = classified.pod, prepared.predicates
        return still_needed(pod, self._cluster, predicates, row, none) is not None

    def asks_filters(self, classified: ClassifiedPod) -> bool:
        """Tell whether extenders decide which nodes the pod fits on."""
        return extending.anyone(self._classes.get(classified).extenders, Verb.FILTER)

    def _row(self, node: str, prepared: Preparation) -> int | None:
        """Return the row of a node that may take a pod some day, `None` where none may."""
        rejected, only = prepared.rejected, prepared.only
        if (rejected is not None and not rejected.resolvable) or (
            only is not None and node not in only
        ):
            return None
        row = self._cluster.columns.row(node)
        return None if row is None or self._cluster.columns.nodes[row] is None else row

    def _trace(
        self, case: AttemptContext, codes: Codes, scores: Mapping[str, Mapping[str, int]]
    ) -> tuple[NodeTrace, ...]:
        if not case.explain:
            return ()
        columns, scoring = self._cluster.columns, case.pod_class.scoring
        told = {} if case.objections is None else case.objections.told
        return tracing.trace(codes, self._verdicts, scoring, scores, columns, told)
