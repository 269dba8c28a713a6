"""Plans a preemption: whether the pod is eligible, which node, which victims. Nothing is changed.

Source: kube-scheduler v1.36.3 framework/preemption.Evaluator.Preempt.

Axes: N rows, C candidate rows.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from scheduler.core.preemption.dry_run_result import VETOED, DryRunResult, EvictionOutcomes
from scheduler.core.preemption.evaluate.candidate_cache import CandidateCache
from scheduler.core.preemption.evaluate.candidates import (
    Candidate,
    Choice,
    TieBreak,
    allowed,
    candidates_of,
    candidates_on,
    keys_of,
    pick_one_node,
    tie_breaks,
)
from scheduler.core.preemption.evaluate.explain_comparison import (
    explain_comparison,
    with_other_victims,
)
from scheduler.core.preemption.evaluate.no_candidate import NoCandidate, no_candidate, vetoed
from scheduler.core.preemption.evaluate.objective import Objective
from scheduler.core.preemption.evaluate.relocation import RelocationCost, sampled
from scheduler.core.preemption.evaluate.victims import Pinned, Sparing, dry_run_preemption
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.core.preemption.policy.veto_table import VetoTable
from scheduler.core.preemption.policy.vetoes import CandidateVetoes, VetoCache
from scheduler.framework.plugin import CompiledFilter
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.decisions import Detail
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Float, Rows

__all__ = ["PreemptionInputs", "find_candidates", "select_candidate"]

NO_VICTIMS: Final = Verdict(
    "DefaultPreemption", ("No preemption victims found for incoming pod",), resolvable=False
)
NEVER: Final = "not eligible due to preemptionPolicy=Never."
ALLOCATED: Final = "not eligible due to devices that are not free or not allocated to it yet."
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."
#: At most this many of the best candidates are checked one by one, then all that remain at once.
#: Only one where more policies than `_MANY_POLICIES` apply, as each of them has to be evaluated.
_FEW: Final = 2
_MANY_POLICIES: Final = 8


class PreemptionInputs(NamedTuple):
    """A preemptor, with all that the evaluation of its preemption depends on."""

    pod: Pod
    #: The cluster as it is.
    cluster: Cluster
    #: The filters that apply to the pod in this attempt.
    predicates: Sequence[tuple[str, CompiledFilter]]
    #: The criteria by which candidates compare.
    objective: Objective
    #: What can veto preemptions; `None` where nothing can.
    vetoes: CandidateVetoes | None = None
    #: What decides between equally good candidates before the hash; `None` for nothing.
    relocation: RelocationCost | None = None
    #: Whether the chosen candidate says how it compared with the others.
    compares: bool = False
    #: (N,) why extenders refuse a row, 0 where they do not; `None` where none refuses.
    refused: Codes | None = None
    #: Gets what evictions would mean on the rows that were evaluated; `None` if nobody reads it.
    outcomes: EvictionOutcomes | None = None

    @property
    def rules(self) -> PolicyRules | None:
        """The policies that bind the preemptor, if any do."""
        return None if self.vetoes is None else self.vetoes.rules

    def tie_breaks(self) -> list[TieBreak]:
        """Return what decides between equally good candidates."""
        pod, cluster, relocation = self.pod, self.cluster, self.relocation
        if relocation is None:
            return tie_breaks(pod.uid, cluster)

        def lowest(tied: Rows) -> Rows:
            candidates = self.candidates_on(sampled(tied, pod.uid, cluster))
            return relocation.lowest(candidates, self.cheaper)

        return tie_breaks(pod.uid, cluster, lowest)

    def candidates_on(self, rows: Rows, pinned: Pinned | None = None) -> list[Candidate]:
        """Return the candidates on some rows, by a dry run; (C,) rows."""
        return candidates_on(rows, self.pod, self.cluster, self.predicates, self.rules, pinned)

    def cheaper(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """Return candidates, with other victims where these lose less and nothing vetoes it."""
        if self.relocation is None:
            return [*candidates]
        cheaper = self.relocation.cheaper(candidates, self.candidates_on, self.objective)
        others, _ = allowed(cheaper, self.vetoes)
        by_row = {other.row: other for other in others}
        return [by_row.get(candidate.row, candidate) for candidate in candidates]


def select_candidate(
    inputs: PreemptionInputs, codes: Codes, verdicts: Verdicts, cache: CandidateCache
) -> Candidate | NoCandidate:
    """Plan the preemption for a pod that fits on no node.

    Args:
        inputs: The pod, and what else the decision depends on.
        codes: (N,) why it fits on no node.
        verdicts: The table of the codes.
        cache: The cached results of its class.
    """
    evaluated = _evaluate(inputs, codes, verdicts, cache)
    if isinstance(evaluated, NoCandidate):
        return evaluated
    if inputs.vetoes is not None:
        search = _Search(inputs, inputs.vetoes, cache.vetoes, evaluated)
        return search.best() or search.no_candidate(verdicts)
    if (choice := evaluated.choice(inputs)) is None:
        return no_candidate(evaluated.rows, evaluated.codes, inputs.cluster, verdicts)
    (candidate,) = inputs.candidates_on(np.array([choice.row], dtype=np.int64))
    return evaluated.finished(candidate, choice, inputs)


def find_candidates(
    inputs: PreemptionInputs, codes: Codes, verdicts: Verdicts, cache: CandidateCache
) -> dict[str, Candidate] | NoCandidate:
    """Return all candidates by node, for extenders to choose from.

    For the arguments see `select_candidate`.
    """
    evaluated = _evaluate(inputs, codes, verdicts, cache)
    if isinstance(evaluated, NoCandidate):
        return evaluated
    if inputs.vetoes is not None:
        search = _Search(inputs, inputs.vetoes, cache.vetoes, evaluated)
        found = search.all()
        if not found:
            return search.no_candidate(verdicts)
    else:
        rows, _ = evaluated.candidates()
        if not rows.shape[0]:
            return no_candidate(evaluated.rows, evaluated.codes, inputs.cluster, verdicts)
        found = inputs.candidates_on(rows)
    names = inputs.cluster.columns.names
    return {names[candidate.row]: candidate for candidate in found}


class _Evaluated(NamedTuple):
    """The rows on which evicting pods could help, and what it would mean there; (C,) each."""

    rows: Rows
    #: 0 where evicting pods helps, `VETOED` where a veto prevents it, else the verdict.
    codes: Codes
    #: Whether pods would be evicted, and, (K, C), the sort keys of the objective.
    evicts: Bool
    keys: Float

    def candidates(self) -> tuple[Rows, Float]:
        """Return the rows of the candidates, with their sort keys.

        Evicting pods helps there, and takes at least one.
        """
        found = np.flatnonzero((self.codes == 0) & self.evicts)
        return self.rows[found], self.keys[:, found]

    def choice(self, inputs: PreemptionInputs) -> Choice | None:
        """Return the best candidate; `None` if there is none."""
        return pick_one_node(*self.candidates(), inputs.tie_breaks())

    def finished(self, chosen: Candidate, choice: Choice, inputs: PreemptionInputs) -> Candidate:
        """Return the chosen candidate with the victims that lose least.

        It has the comparison, if that is wanted.
        """
        (best,) = inputs.cheaper([chosen])
        if not inputs.compares:
            return best
        names, objective = inputs.cluster.columns.names, inputs.objective
        comparison = explain_comparison(*self.candidates(), choice, names, objective)
        if best is not chosen:
            key = keys_of([best], inputs.cluster, objective)[:, 0]
            comparison = with_other_victims(comparison, key, objective)
        return best._replace(comparison=comparison)


class _Search:
    """The search for a candidate without a veto.

    Vetoes that are known from earlier attempts exclude their rows at once. The remaining candidates
    are checked, and each veto that is found is added to the cache.
    """

    def __init__(
        self,
        inputs: PreemptionInputs,
        vetoes: CandidateVetoes,
        cache: VetoCache,
        evaluated: _Evaluated,
    ) -> None:
        self._inputs = inputs
        self._vetoes = vetoes
        self._cache = cache
        self._spared = evaluated.rows[evaluated.codes == VETOED]
        self._evaluated = evaluated._replace(codes=evaluated.codes.copy())
        #: The vetoes that hold.
        self._tables: list[VetoTable] = []
        if not vetoes.explains:
            for table in cache.known(vetoes.state, vetoes.now):
                self._exclude(table)

    def best(self) -> Candidate | None:
        """Return the best candidate without a veto, `None` when there is none.

        The best ones are checked one by one. When none of a few passes, all that remain are checked
        at once. So are all if more than the decision is wanted.
        """
        for _ in range(self._few()):
            choice = self._evaluated.choice(self._inputs)
            if choice is None:
                return None
            (run,) = self._runs(np.array([choice.row], dtype=np.int64))
            if self._check(run):
                (best,) = candidates_of(run, self._inputs.cluster)
                return self._finished(best, choice)
        self._check_all()
        choice = self._evaluated.choice(self._inputs)
        if choice is None:
            return None
        (best,) = self._inputs.candidates_on(np.array([choice.row], dtype=np.int64))
        return self._finished(best, choice)

    def _few(self) -> int:
        if self._vetoes.detail >= Detail.COUNTS:
            return 0
        rules = self._inputs.rules
        return 1 if rules is not None and len(rules.enforced) > _MANY_POLICIES else _FEW

    def _finished(self, chosen: Candidate, choice: Choice) -> Candidate:
        """Return the chosen candidate, compared with those that no veto excludes."""
        self._tally()
        return self._evaluated.finished(chosen, choice, self._inputs)

    def all(self) -> list[Candidate]:
        """Return all candidates without a veto."""
        self._check_all()
        rows, _ = self._evaluated.candidates()
        if rows.shape[0]:
            self._tally()
        return self._inputs.candidates_on(rows) if rows.shape[0] else []

    def no_candidate(self, verdicts: Verdicts) -> NoCandidate:
        """Return why there is no candidate."""
        self._tally()
        rows, codes = self._evaluated.rows, self._evaluated.codes
        return no_candidate(rows, codes, self._inputs.cluster, verdicts, self._vetoes.tally)

    def _tally(self) -> None:
        """Count the nodes by reason, and fill in the trace if there is to be one."""
        for table in self._tables:
            self._vetoes.add(table)
        self._vetoes.add_spared(self._spared)

    def _check_all(self) -> None:
        rows, _ = self._evaluated.candidates()
        for run in self._runs(rows):
            self._check(run)

    def _runs(self, rows: Rows) -> list[DryRunResult]:
        pod, cluster, predicates, *_ = self._inputs
        return dry_run_preemption(pod, cluster, predicates, rows, 0, Sparing(self._inputs.rules))

    def _check(self, run: DryRunResult) -> bool:
        """Exclude the candidates of a dry run that have a veto; return whether none has."""
        table = self._vetoes.table(run)
        if not len(table):
            return True
        self._exclude(table)
        if not self._vetoes.explains:
            self._cache.add(table)
        return False

    def _exclude(self, table: VetoTable) -> None:
        self._tables.append(table)
        self._evaluated.codes[np.isin(self._evaluated.rows, table.vetoed)] = VETOED


def _evaluate(
    inputs: PreemptionInputs, codes: Codes, verdicts: Verdicts, cache: CandidateCache
) -> _Evaluated | NoCandidate:
    """Return what preemption would mean on each row; for the arguments see `select_candidate`."""
    pod, cluster, predicates, _, vetoes, *_ = inputs
    resolvable = verdicts.resolvable(codes)
    if (reason := _not_eligible(pod, cluster, resolvable)) is not None:
        return NoCandidate(reason, keeps_nomination=True)
    if vetoes is not None:
        vetoes.restart()
    rows = np.flatnonzero(resolvable)
    no_victims = verdicts.code(NO_VICTIMS)
    found, evicts, keys = cache.evaluate(pod, predicates, rows, no_victims, inputs.rules)
    if inputs.refused is not None:
        found = np.where(found == 0, inputs.refused[rows], found)
    if inputs.outcomes is not None:
        inputs.outcomes.record(rows, found, no_victims)
        remaining = codes.copy()
        remaining[rows] = found
        for _, predicate in predicates:
            inputs.outcomes.explain(predicate.outcomes(remaining))
    if vetoes is not None and vetoes.tally:
        # A veto against the preemptor is no reason where it could evict no pod anyway.
        if ((found == 0) | (found == VETOED)).any():
            return vetoed(vetoes.tally)
        vetoes.acquit()
    return _Evaluated(rows, found, evicts, keys)


def _not_eligible(pod: Pod, cluster: Cluster, resolvable: Bool) -> str | None:
    """Return why the pod must not preempt, `None` when it may.

    Source: kube-scheduler v1.36.3 defaultpreemption.PodEligibleToPreemptOthers. Differs: a victim
    counts as terminating from the moment at which we request its eviction. A pod that waits for the
    devices of its victims must not preempt either, until its plan ends.
    """
    if pod.spec.preemption_policy == "Never":
        return NEVER
    node = cluster.nominations.node(pod.uid)
    row = None if node is None else cluster.columns.row(node)
    waits = cluster.held_devices.is_used and cluster.devices.waits_on(pod.uid, node)
    if row is None or not (resolvable[row] or waits):
        return None
    for other in cluster.pods.pods_on(row):
        if other.priority < pod.priority and cluster.is_being_preempted(other):
            return TERMINATING
    return ALLOCATED if waits else None
