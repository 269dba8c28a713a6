"""Vetoes: what prevents preemptions that would help, by policies or by the preemption history.

A candidate with a veto is excluded, and the next best one is checked. Vetoes are cached by row for
a class of pods, since replicas are tried one after the other.

Axes: V potential victims of a row, most important first; C candidate rows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.dry_run_result import DryRunResult
from scheduler.core.preemption.policy import bulk_vetoes
from scheduler.core.preemption.policy.loop_breaker import LoopVeto, PreemptionHistory
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.core.preemption.policy.veto_sheet import RuleVetoes, Veto, VetoSheet
from scheduler.core.preemption.policy.victim_matrix import OwnerCodes, VictimMatrix
from scheduler.model.api.objects import Pod
from scheduler.model.policy_refusals import PolicyRefusal, earliest, ending
from scheduler.model.times import Seconds
from scheduler.state.columns.arrays import Int, Rows
from scheduler.state.preemption.ledger import Ledger

__all__ = ["CandidateVetoes", "Explain", "Veto", "VetoCache", "VetoTally"]

#: At most this many sheets are cached for one class of pods.
_MAX_SHEETS: Final = 8


class Explain(Enum):
    """How an attempt explains itself."""

    NOTHING = 0
    #: What was found about each node. Candidates are checked at once, so vetoes have no details of
    #: the pods that they are about.
    IN_BULK = 1
    #: The same with all details; the candidates are checked one by one, 40 µs each.
    IN_DETAIL = 2


class KnownVetoes(NamedTuple):
    """Cached vetoes: of single rows, and of many rows at once. No row is in two of them."""

    by_row: Mapping[int, tuple[Veto, ...]]
    sheets: Sequence[VetoSheet]


class VetoCache:
    """Vetoes by row, as long as what they depend on stays the same."""

    __slots__ = ("_by_row", "_sheets", "_state", "_until", "paused")

    def __init__(self) -> None:
        #: Whether vetoes found now do not hold for other pods of the class, so none is cached.
        self.paused = False
        self._by_row: dict[int, tuple[Veto, ...]] = {}
        self._sheets: list[VetoSheet] = []
        self._state: object = None
        self._until: Seconds | None = None

    @property
    def size_bytes(self) -> int:
        """The memory that the arrays take."""
        return sum(sheet.size_bytes for sheet in self._sheets)

    def known(self, state: object, now: Seconds) -> KnownVetoes:
        """Return the vetoes that still hold.

        Args:
            state: What vetoes depend on now, beside pods, nodes and time.
            now: The time.
        """
        if self.paused:
            return KnownVetoes({}, ())
        if state != self._state or (self._until is not None and self._until <= now):
            self.clear()
            self._state = state
        return KnownVetoes(self._by_row, self._sheets)

    def add(self, by_row: Mapping[int, tuple[Veto, ...]]) -> None:
        """Cache the vetoes against the candidates of some rows."""
        if not self.paused:
            self._by_row.update(by_row)
            ends = (veto.until for vetoes in by_row.values() for veto in vetoes)
            self._until = earliest((self._until, *ends))

    def add_sheet(self, sheet: VetoSheet) -> None:
        """Cache the vetoes against many candidates."""
        if self.paused:
            return
        self._sheets = [known for known in self._sheets if len(known)]
        if len(self._sheets) >= _MAX_SHEETS:
            # What is forgotten is computed again.
            self.clear()
        self._sheets.append(sheet)
        self._until = earliest((self._until, sheet.until))

    def forget(self, rows: Rows) -> None:
        """Forget the vetoes against some rows."""
        if self._by_row:
            for row in rows.tolist():
                self._by_row.pop(row, None)
        for sheet in self._sheets if rows.shape[0] else ():
            sheet.forget(rows)

    def clear(self) -> None:
        """Forget all vetoes."""
        self._by_row.clear()
        self._sheets = []
        self._until = None


class VetoTally:
    """How many nodes were vetoed for each reason, and when each ends at the earliest."""

    def __init__(self) -> None:
        self._nodes: dict[str, int] = {}
        self._ends: dict[str, Seconds] = {}
        #: Texts by identity of the veto, which is kept so that the identity stays its own.
        self._texts: dict[int, tuple[Veto, str]] = {}
        #: When the first of the reasons ends; `None` where time ends none.
        self.until: Seconds | None = None
        #: The refusals by policies, one for each rule.
        self.refusals: Final[dict[tuple[str, str], PolicyRefusal]] = {}

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def add_nodes(self, vetoes: Iterable[Veto], nodes: int = 1) -> None:
        """Add nodes that have the same vetoes."""
        for text in {self._text(veto): None for veto in vetoes}:
            self._nodes[text] = self._nodes.get(text, 0) + nodes

    def add_sheet(self, sheet: VetoSheet) -> None:
        """Add the nodes that are vetoed in a sheet."""
        for veto, until in sheet.vetoes():
            self._record(veto, veto.text, until)
        for text, nodes in sheet.nodes().items():
            self._nodes[text] = self._nodes.get(text, 0) + nodes

    def add(self, veto: Veto, until: Seconds | None, nodes: int = 1) -> None:
        """Add nodes with one veto that ends at `until` at the earliest."""
        text = veto.text
        self._nodes[text] = self._nodes.get(text, 0) + nodes
        self._record(veto, text, until)

    def _text(self, veto: Veto) -> str:
        """Return the text of a veto, which is recorded once: rows share the objects."""
        known = self._texts.get(id(veto))
        if known is None:
            known = self._texts[id(veto)] = (veto, veto.text)
            self._record(veto, known[1], veto.until)
        return known[1]

    def _record(self, veto: Veto, text: str, until: Seconds | None) -> None:
        """Record when a veto ends, and the refusal if it is one."""
        self.until = earliest((self.until, until))
        timed = veto.timed if isinstance(veto, LoopVeto) else True
        if until is not None and timed:
            self._ends[text] = min(until, self._ends.get(text, until))
        if isinstance(veto, PolicyRefusal):
            self._record_refusal(veto)

    def _record_refusal(self, refusal: PolicyRefusal) -> None:
        """Keep one refusal for each rule, with all disruption budgets that are in the way."""
        rule = (refusal.policy, refusal.rule)
        known = self.refusals.setdefault(rule, refusal)
        if not refusal.pdbs <= known.pdbs:
            self.refusals[rule] = replace(known, pdbs=known.pdbs | refusal.pdbs)

    def reasons(self) -> list[tuple[str, int]]:
        """Return the reasons, with when they end, and the number of nodes; in text order."""
        ends = self._ends
        return sorted((text + ending(ends.get(text)), nodes) for text, nodes in self._nodes.items())


class CandidateVetoes:
    """Finds the vetoes against preemptions for one pod, in one attempt."""

    def __init__(
        self,
        pod: Pod,
        rules: PolicyRules | None,
        owner_codes: OwnerCodes,
        history: PreemptionHistory,
        now: Seconds,
    ) -> None:
        self.rules: Final = rules
        self.now: Final = now
        self.explain = Explain.NOTHING
        #: Whether every candidate is to be checked, so that no vetoed one is compared.
        self.checks_all = False
        self.tally = VetoTally()
        #: The vetoes against each row that explain the attempt: as they are listed, and what
        #: returns those of many rows at once.
        self._listed: dict[int, tuple[Veto, ...]] = {}
        self._of_many: list[Callable[[int], tuple[Veto, ...]]] = []
        self._pod = pod
        self._cluster = owner_codes.cluster
        self._owner_codes = owner_codes
        self._ledger = history.ledger
        self._history = history

    @classmethod
    def of(
        cls,
        pod: Pod,
        rules: PolicyRules | None,
        owner_codes: OwnerCodes,
        ledger: Ledger,
        now: Seconds,
    ) -> "CandidateVetoes | None":
        """Return what can veto preemptions for a pod; `None` where nothing can.

        Args:
            pod: The preemptor.
            rules: The policies that bind it.
            owner_codes: Has the owners of the pods of the cluster.
            ledger: Has the failed preemptions and wasted evictions.
            now: The time.
        """
        cluster = owner_codes.cluster
        remembered = len(ledger.backoff) or len(ledger.wasted_evictions) or cluster.overdue
        if rules is None and not remembered:
            return None
        return cls(pod, rules, owner_codes, PreemptionHistory(pod, cluster, ledger, now), now)

    def restart(self) -> None:
        """Count and explain from the beginning, with what is against the preemptor as the first.

        An attempt that calls extenders evaluates its candidates several times.
        """
        self.tally = VetoTally()
        self._listed.clear()
        self._of_many.clear()
        self.tally.add_nodes(self.against_preemptor())

    @property
    def state(self) -> object:
        """What vetoes depend on, beside pods, nodes and time."""
        of_rules = None if self.rules is None else self.rules.state
        return (of_rules, self._ledger.version, self._history.state)

    def against_preemptor(self) -> tuple[Veto, ...]:
        """Return why the pod must not preempt at all now; empty when it may."""
        refusals = () if self.rules is None else self.rules.preemptor_refusals()
        return (*refusals, *self._history.against_preemptor())

    def refusals(self, node: str = "", victims: Sequence[Pod] = ()) -> tuple[PolicyRefusal, ...]:
        """Return the refusals by policies, one for each rule.

        Args:
            node: The node from which pods are evicted after all; empty if there is none.
            victims: The pods to evict; the refusals by policies that only audit are added then.
        """
        refusals = tuple(self.tally.refusals.values())
        if not victims or self.rules is None:
            return refusals
        return (*refusals, *self.rules.audit_refusals(node, victims))

    def against(self, node: str, victims: Sequence[Pod]) -> tuple[Veto, ...]:
        """Return the vetoes against evicting some pods from a node."""
        refusals = () if self.rules is None else self.rules.candidate_refusals(node, victims)
        return (*refusals, *self._history.against(node, victims))

    def sheet(self, run: DryRunResult) -> VetoSheet:
        """Return the vetoes against all candidates of a dry run at once.

        They are those of `against`, without the details of which pods they are about.
        """
        names = self._cluster.columns.names
        nodes = [names[row] for row in run.rows.tolist()]
        matrix = VictimMatrix(run.slots, run.chosen, nodes, self._owner_codes)
        return bulk_vetoes.veto_sheet(self.rules, self._history, run.rows, matrix)

    def victim_refusals(self, row: int) -> tuple[Veto, ...]:
        """Return why policies spare the pods of a row that are in the way."""
        if self.rules is None:
            return ()
        on_row = self._cluster.pods.pods_on(row)
        lower = [pod for pod in on_row if pod.priority < self._pod.priority]
        return self.rules.victim_refusals(lower)

    def explain_by(self, by_row: Mapping[int, tuple[Veto, ...]]) -> None:
        """Add vetoes, by row, to the explanation of the attempt."""
        self._listed.update(by_row)

    def explain_by_sheet(self, sheet: VetoSheet) -> None:
        """Add the vetoes of a sheet to the explanation; its later changes do not count."""
        self._of_many.append(sheet.reader())

    def on_row(self, row: int) -> tuple[Veto, ...]:
        """Return the vetoes against evicting pods from a row that the explanation has."""
        listed = self._listed.get(row)
        if listed is not None:
            return listed
        return tuple(veto for of in self._of_many for veto in of(row))

    def tally_spared(self, rows: Rows) -> None:
        """Count rows, given as (C,), on which policies spare the pods that are in the way."""
        if self.rules is None or not rows.shape[0]:
            return
        for positions, ranked in self._cluster.pods.ranked(rows):
            lower = self._cluster.pods.priorities(ranked) < self._pod.priority
            slots: Int = np.where(lower, ranked, -1)
            rules: list[RuleVetoes] = []
            for refusal, spared, ends in self.rules.spared_by_rule(slots):
                columns = spared.any(axis=0)
                if columns.any():
                    end = float(ends[columns].min())
                    until = None if np.isinf(end) else end
                    self.tally.add(refusal, until, int(np.count_nonzero(columns)))
                    rules.append(RuleVetoes((refusal,), np.asarray(columns, dtype=np.int64), ends))
            if rules and self.explain is Explain.IN_BULK:
                # One sheet for all rules: each sheet is looked through for each row.
                self.explain_by_sheet(VetoSheet(rows.take(positions), rules))
