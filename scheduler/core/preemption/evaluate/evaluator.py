"""Plans a preemption: whether it may be tried, which node, which victims. Nothing is changed.

Source: kube-scheduler v1.36.3 framework/preemption.Evaluator.Preempt.

Axes: N rows, C candidate rows.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from scheduler.core.feasibility import fit_error as message
from scheduler.core.preemption.dry_run import VETOED
from scheduler.core.preemption.evaluate import candidates as choose
from scheduler.core.preemption.evaluate import relocation as cheapest
from scheduler.core.preemption.evaluate.candidate_cache import CandidateCache, Criteria
from scheduler.core.preemption.evaluate.candidates import Candidate
from scheduler.core.preemption.evaluate.relocation import RelocationCost
from scheduler.core.preemption.evaluate.victims import dry_run
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.core.preemption.policy.veto_sheet import Veto
from scheduler.core.preemption.policy.vetoes import CandidateVetoes, VetoCache, VetoTally
from scheduler.framework.plugin import CompiledFilter
from scheduler.framework.verdicts import Verdict, Verdicts
from scheduler.model.api.objects import Pod
from scheduler.model.times import Seconds
from scheduler.state.cluster import Cluster
from scheduler.state.columns.arrays import Bool, Codes, Rows

__all__ = ["NoCandidate", "Preemptor", "candidates", "plan", "refused"]

NO_VICTIMS: Final = Verdict(
    "DefaultPreemption", ("No preemption victims found for incoming pod",), resolvable=False
)
NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
NEVER: Final = "not eligible due to preemptionPolicy=Never."
#: So many of the best candidates are asked about one by one before all of them are; only one
#: where there are more policies than that, each of which has to be asked.
_FEW: Final = 4
_MANY_POLICIES: Final = 8
TERMINATING: Final = "not eligible due to a terminating pod on the nominated node."


@dataclass(frozen=True, slots=True)
class NoCandidate:
    """Preemption is not tried, or does not help."""

    message: str
    #: Whether a nomination that the pod has stays in force.
    keeps_nomination: bool
    #: Whether it is an error, which no other post filter can cure.
    failed: bool = False
    #: Whether somebody has objected who may not object later.
    held: bool = False
    #: When the first of the objections ends; `None` where time ends none.
    until: Seconds | None = None


class Preemptor(NamedTuple):
    """Who would preempt, and what it depends on."""

    pod: Pod
    #: As it is.
    cluster: Cluster
    #: The filters that have something to say about the pod.
    predicates: Sequence[tuple[str, CompiledFilter]]
    #: Who may object to preemptions; `None` where nobody can.
    objections: CandidateVetoes | None = None
    #: What decides between equally good candidates before the hash does; `None` for nothing.
    cheapest: RelocationCost | None = None

    @property
    def bounds(self) -> PolicyRules | None:
        """The policies that bind it, if any do."""
        return None if self.objections is None else self.objections.bounds

    def prefer(self, tied: Rows) -> Rows:
        """Return those of some equally good rows whose victims lose least."""
        if self.cheapest is None:
            return tied
        few = cheapest.some(tied, self.pod.uid, self.cluster)
        found = choose.candidates(few, self.pod, self.cluster, self.predicates, self.bounds)
        return self.cheapest.among(found)


def plan(
    preemptor: Preemptor, codes: Codes, verdicts: Verdicts, outlook: CandidateCache
) -> Candidate | NoCandidate:
    """Plan the preemption for a pod that fits nowhere.

    Args:
        preemptor: The pod.
        codes: (N,) why it fits nowhere.
        verdicts: The table of the codes.
        outlook: What is known of its class.
    """
    seen = _look(preemptor, codes, verdicts, outlook)
    if isinstance(seen, NoCandidate):
        return seen
    rows, found, criteria = seen
    pod, cluster, predicates, objections, _ = preemptor
    if objections is not None:
        search = _Search(preemptor, objections, outlook.objections, seen)
        return search.best() or search.none(verdicts)
    row = choose.best(rows, found, criteria, pod.uid, cluster, preemptor.prefer)
    if row is None:
        return _none(rows, found, cluster, verdicts)
    only: Rows = np.array([row], dtype=np.int64)
    (candidate,) = choose.candidates(only, pod, cluster, predicates)
    return candidate


def candidates(
    preemptor: Preemptor, codes: Codes, verdicts: Verdicts, outlook: CandidateCache
) -> dict[str, Candidate] | NoCandidate:
    """Return all candidates by node, for others to choose among; for the arguments see `plan`."""
    seen = _look(preemptor, codes, verdicts, outlook)
    if isinstance(seen, NoCandidate):
        return seen
    rows, found, criteria = seen
    pod, cluster, predicates, objections, _ = preemptor
    if objections is not None:
        search = _Search(preemptor, objections, outlook.objections, seen)
        allowed = search.all()
        if not allowed:
            return search.none(verdicts)
    else:
        left = rows[(found == 0) & (criteria.victims > 0)]
        if not left.shape[0]:
            return _none(rows, found, cluster, verdicts)
        allowed = choose.candidates(left, pod, cluster, predicates)
    names = cluster.columns.names
    return {names[each.row]: each for each in allowed}


class _Seen(NamedTuple):
    """The rows that evicting pods could help, and what it would mean there; each (C,)."""

    rows: Rows
    found: Codes
    criteria: Criteria


class _Search:
    """The search for a candidate that nobody objects to."""

    def __init__(
        self, preemptor: Preemptor, objections: CandidateVetoes, memory: VetoCache, seen: _Seen
    ) -> None:
        self._preemptor = preemptor
        self._objections = objections
        self._memory = memory
        self._rows, found, self._criteria = seen
        known = memory.known(objections.state, objections.now)
        #: What is said against the candidates of rows, and of many rows at once.
        self._refused = dict(known.by_row)
        self._sheets = list(known.sheets)
        #: The same words are kept, and told, once.
        self._shared = {each: each for each in self._refused.values()}
        self._denied = self._rows[found == VETOED]
        self._found = found.copy()
        self._deny(list(self._refused))
        for sheet in self._sheets:
            self._deny(sheet.refused)

    def best(self) -> Candidate | None:
        """Return the best candidate that is allowed, `None` when there is none.

        The best ones are asked about one by one, and when none of a few is allowed, all.
        """
        pod, cluster, *_ = self._preemptor
        prefer = self._preemptor.prefer
        asked, few = 0, self._few()
        allowed: dict[int, Candidate] = {}
        while True:
            row = choose.best(self._rows, self._found, self._criteria, pod.uid, cluster, prefer)
            if row is None:
                return None
            if row in allowed:
                self._tell()
                return allowed[row]
            only: Rows = np.array([row], dtype=np.int64)
            everybody = asked == few or self._objections.explain
            asked += 1
            if everybody and not self._objections.explain:
                self._judge()
                continue
            for candidate in self._ask(self._left() if everybody else only):
                allowed[candidate.row] = candidate

    def _few(self) -> int:
        bounds = self._preemptor.bounds
        return 1 if bounds is not None and len(bounds.enforced) > _MANY_POLICIES else _FEW

    def all(self) -> list[Candidate]:
        """Return all candidates that are allowed."""
        if not self._objections.explain:
            self._judge()
        allowed = self._ask(self._left())
        if allowed:
            self._tell()
        return allowed

    def none(self, verdicts: Verdicts) -> NoCandidate:
        """Return why there is no candidate."""
        self._tell()
        cluster, tally = self._preemptor.cluster, self._objections.tally
        return _none(self._rows, self._found, cluster, verdicts, tally)

    def _tell(self) -> None:
        """Count what was said, and write it down for those who ask why."""
        objections = self._objections
        same = Counter(map(id, self._refused.values()))
        for said in {id(each): each for each in self._refused.values()}.values():
            objections.tally.add_nodes(said, same[id(said)])
        for sheet in self._sheets:
            objections.tally.add_sheet(sheet)
        objections.tally_denied(self._denied)
        if objections.explain:
            self._explain()

    def _explain(self) -> None:
        objections = self._objections
        for known in (self._refused, *(each.by_row() for each in self._sheets)):
            for row, said in known.items():
                objections.told[row] = tuple(map(str, said))
        for row in self._denied.tolist():
            objections.told[row] = tuple(map(str, objections.to_all(row)))

    def _left(self) -> Rows:
        left: Rows = self._rows[(self._found == 0) & (self._criteria.victims > 0)]
        return left

    def _ask(self, rows: Rows) -> list[Candidate]:
        """Ask about the candidates on some rows; return those that are allowed."""
        pod, cluster, predicates, *_ = self._preemptor
        bounds = self._preemptor.bounds
        allowed = []
        refused: dict[int, tuple[Veto, ...]] = {}
        for candidate in choose.candidates(rows, pod, cluster, predicates, bounds):
            said = self._objections.to(cluster.columns.names[candidate.row], candidate.victims)
            if said:
                refused[candidate.row] = self._shared.setdefault(said, said)
            else:
                allowed.append(candidate)
        self._refuse(refused)
        return allowed

    def _judge(self) -> None:
        """Refuse all candidates at once that are not allowed."""
        pod, cluster, predicates, *_ = self._preemptor
        bounds = self._preemptor.bounds
        for run in dry_run(pod, cluster, predicates, self._left(), no_victims=0, rules=bounds):
            sheet = self._objections.to_many(run)
            if len(sheet) <= _FEW:
                self._refuse(sheet.by_row())
                continue
            self._sheets.append(sheet)
            self._memory.note_sheet(sheet)
            self._deny(sheet.refused)

    def _refuse(self, said: Mapping[int, tuple[Veto, ...]]) -> None:
        self._refused.update(said)
        self._memory.note(said)
        self._deny(list(said))

    def _deny(self, rows: Sequence[int] | Rows) -> None:
        """Leave rows out that were refused."""
        self._found[np.isin(self._rows, rows)] = VETOED


def _look(
    preemptor: Preemptor, codes: Codes, verdicts: Verdicts, outlook: CandidateCache
) -> _Seen | NoCandidate:
    pod, cluster, predicates, objections, _ = preemptor
    resolvable = verdicts.resolvable(codes)
    refusal = _not_eligible(pod, cluster, resolvable)
    if refusal is not None:
        return NoCandidate(refusal, keeps_nomination=True)
    bounds = preemptor.bounds
    if objections is not None:
        objections.tally.add_nodes(objections.to_preemptor())
        if objections.tally:
            return refused(objections.tally)
    rows = np.flatnonzero(resolvable)
    no_victims = verdicts.code(NO_VICTIMS)
    return _Seen(rows, *outlook.look(pod, predicates, rows, no_victims, bounds))


def refused(tally: VetoTally) -> NoCandidate:
    """Return why the pod must not preempt at all now."""
    text = ", ".join(reason for reason, _ in tally.reasons())
    return NoCandidate(f"{text}.", keeps_nomination=False, held=True, until=tally.until)


def _none(
    rows: Rows, found: Codes, cluster: Cluster, verdicts: Verdicts, tally: VetoTally | None = None
) -> NoCandidate:
    """Return why there is no candidate.

    Args:
        rows: (C,) rows that were looked at.
        found: (C,) the verdict on each; `VETOED` where somebody has objected.
        cluster: Where the names of the nodes are.
        verdicts: The table of the codes.
        tally: What was said by those who have objected.

    Source: kube-scheduler v1.36.3 framework/preemption.DryRunPreemption: a node on which the pod
    fits without a victim, because only an extender has rejected it, is an error.
    """
    if not found.all():
        names = sorted(cluster.columns.names[row] for row in rows[found == 0].tolist())
        errors = [f'expected at least one victim pod on node "{name}"' for name in names]
        text = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return NoCandidate(text, keeps_nomination=True, failed=True)
    reasons = message.counted(found, verdicts)
    nodes = cluster.columns.node_count
    rest = nodes - int(np.count_nonzero(found))
    if rest:
        reasons[NOT_HELPFUL] += rest
    said = [] if tally is None else tally.reasons()
    text = message.fit_error(nodes, [*reasons.items(), *said])
    until = None if tally is None else tally.until
    return NoCandidate(text, keeps_nomination=False, held=bool(said), until=until)


def _not_eligible(pod: Pod, cluster: Cluster, resolvable: Bool) -> str | None:
    """Return why the pod must not preempt, `None` when it may.

    Source: kube-scheduler v1.36.3 defaultpreemption.PodEligibleToPreemptOthers. Differs: a victim
    counts as leaving from the moment at which its eviction was accepted.
    """
    if pod.spec.preemption_policy == "Never":
        return NEVER
    node = cluster.nominations.node(pod.uid)
    row = None if node is None else cluster.columns.row(node)
    if row is None or not resolvable[row]:
        return None
    for other in cluster.pods.pods_on(row):
        if other.priority < pod.priority and cluster.leaves_by_preemption(other):
            return TERMINATING
    return None
