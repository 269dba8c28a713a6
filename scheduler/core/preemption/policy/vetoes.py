"""Vetoes: what prevents preemptions that would help, by policies or by the preemption history.

A candidate with a veto is excluded, and the next best one is checked. Vetoes are cached by row for
a class of pods, since replicas are tried one after the other.

Axes: V potential victims of a row, most important first; C candidate rows.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.dry_run_result import DryRunResult
from scheduler.core.preemption.policy.candidate_vetoes import (
    history_vetoes,
    policy_vetoes,
    victim_vetoes,
)
from scheduler.core.preemption.policy.loop_breaker import LoopVeto, PreemptionHistory
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.core.preemption.policy.veto_table import RuleVetoes, Veto, VetoTable
from scheduler.core.preemption.policy.victim_matrix import OwnerCodes, VictimMatrix
from scheduler.model.api.objects import Pod
from scheduler.model.decisions import Detail
from scheduler.model.policy_vetoes import RuleVeto, ending
from scheduler.model.times import Seconds, earliest
from scheduler.state.columns.arrays import Bool, Int, Rows
from scheduler.state.preemption.ledger import Ledger

__all__ = ["CandidateVetoes", "Veto", "VetoCache", "VetoTally"]

#: At most this many tables are cached for one class of pods.
_MAX_TABLES: Final = 8
#: So many nodes have their vetoes with all details at once.
_FEW: Final = 16


class VetoCache:
    """Vetoes by row, as long as what they depend on stays the same. No row is in two tables."""

    __slots__ = ("_state", "_tables", "_until", "paused")

    def __init__(self) -> None:
        #: Whether vetoes found now do not hold for other pods of the class, so none is cached.
        self.paused = False
        self._tables: list[VetoTable] = []
        self._state: object = None
        self._until: Seconds | None = None

    @property
    def size_bytes(self) -> int:
        """The memory that the arrays take."""
        return sum(table.size_bytes for table in self._tables)

    def known(self, state: object, now: Seconds) -> Sequence[VetoTable]:
        """Return the vetoes that still hold.

        Args:
            state: What vetoes depend on now, beside pods, nodes and time.
            now: The time.
        """
        if self.paused:
            return ()
        if state != self._state or (self._until is not None and self._until <= now):
            self.clear()
            self._state = state
        return self._tables

    def add(self, table: VetoTable) -> None:
        """Cache the vetoes against some candidates."""
        if self.paused:
            return
        self._tables = [known for known in self._tables if len(known)]
        if len(self._tables) >= _MAX_TABLES:
            # What is forgotten is computed again; that is the least for the smallest one.
            self._tables.remove(min(self._tables, key=len))
        self._tables.append(table)
        self._until = earliest((self._until, table.until))

    def forget(self, rows: Rows) -> None:
        """Forget the vetoes against some rows."""
        for table in self._tables if rows.shape[0] else ():
            table.forget(rows)

    def clear(self) -> None:
        """Forget all vetoes."""
        self._tables = []
        self._until = None


class VetoTally:
    """How many nodes were vetoed for each reason, and when each ends at the earliest."""

    def __init__(self) -> None:
        self._nodes: Counter[str] = Counter()
        self._ends: dict[str, Seconds] = {}
        #: When the first of the reasons ends; `None` where time ends none.
        self.until: Seconds | None = None
        #: The vetoes of policies, one for each rule.
        self.by_rule: Final[dict[tuple[str, str], RuleVeto]] = {}

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def add_preemptor(self, vetoes: Iterable[Veto]) -> None:
        """Add what prevents any preemption."""
        for veto in vetoes:
            self._record(veto, veto.until)
            self._nodes[veto.text] = 1

    def add(self, table: VetoTable) -> None:
        """Add the nodes that are vetoed in a table."""
        for veto, until in table.vetoes():
            self._record(veto, until)
        self._nodes.update(table.nodes())

    def _record(self, veto: Veto, until: Seconds | None) -> None:
        """Record when a veto ends, and the veto itself if a policy made it."""
        self.until = earliest((self.until, until))
        timed = veto.timed if isinstance(veto, LoopVeto) else True
        if until is not None and timed:
            self._ends[veto.text] = min(until, self._ends.get(veto.text, until))
        if isinstance(veto, RuleVeto):
            self._record_by_rule(veto)

    def _record_by_rule(self, veto: RuleVeto) -> None:
        """Keep one veto for each rule, with all disruption budgets that are in the way."""
        rule = (veto.policy, veto.rule)
        known = self.by_rule.setdefault(rule, veto)
        if not veto.pdbs <= known.pdbs:
            self.by_rule[rule] = replace(known, pdbs=known.pdbs | veto.pdbs)

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
        #: How much the attempt tells.
        self.detail = Detail.NONE
        self.tally = VetoTally()
        #: Return the vetoes against a row that explain the attempt.
        self._explanations: list[Callable[[int], tuple[Veto, ...]]] = []
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
        self._explanations.clear()
        of_rules = () if self.rules is None else self.rules.preemptor_vetoes()
        self.tally.add_preemptor((*of_rules, *self._history.against_preemptor()))

    def acquit(self) -> None:
        """Forget what is against the preemptor: no node has pods that it could evict."""
        self.tally = VetoTally()

    @property
    def state(self) -> object:
        """What vetoes depend on, beside pods, nodes and time."""
        of_rules = None if self.rules is None else self.rules.state
        return (of_rules, self._ledger.version, self._history.state)

    def rule_vetoes(self, node: str = "", victims: Sequence[Pod] = ()) -> tuple[RuleVeto, ...]:
        """Return the vetoes of policies, one for each rule.

        Args:
            node: The node from which pods are evicted after all; empty if there is none.
            victims: The pods to evict; the vetoes of policies that only audit are added then.
        """
        of_nodes = tuple(self.tally.by_rule.values())
        if not victims or self.rules is None:
            return of_nodes
        audited = self.rules.audited
        matrix = VictimMatrix.of_victims([victims], [node], self._owner_codes)
        found = policy_vetoes(self.rules, audited, matrix, are_spared=False)
        vetoes = (veto for rule in found for veto in rule.detailed_at(0))
        of_victims = (veto for veto in vetoes if isinstance(veto, RuleVeto))
        return (*of_nodes, *self.rules.check_preemptor(audited), *of_victims)

    def table(self, run: DryRunResult) -> VetoTable:
        """Return the vetoes against all candidates of a dry run."""
        matrix = self._matrix(run.rows, run.slots, run.chosen)
        return self._table(run.rows, matrix, are_spared=True)

    def table_of(self, victims: Mapping[int, Sequence[Pod]]) -> VetoTable:
        """Return the vetoes against given victims, by row, whoever has chosen them."""
        names = self._cluster.columns.names
        nodes = [names[row] for row in victims]
        matrix = VictimMatrix.of_victims([*victims.values()], nodes, self._owner_codes)
        return self._table(np.array([*victims], dtype=np.int64), matrix, are_spared=False)

    def _matrix(self, rows: Rows, slots: Int, chosen: Bool) -> VictimMatrix:
        names = self._cluster.columns.names
        return VictimMatrix(slots, chosen, [names[row] for row in rows.tolist()], self._owner_codes)

    def _table(self, rows: Rows, matrix: VictimMatrix, *, are_spared: bool) -> VetoTable:
        rules = self.rules
        by_policies: Iterable[RuleVetoes] = ()
        if rules is not None:
            by_policies = policy_vetoes(rules, rules.enforced, matrix, are_spared=are_spared)
        by_history = history_vetoes(self._history, matrix)
        return VetoTable(rows, itertools.chain(by_policies, by_history), has_details=self.explains)

    def add(self, table: VetoTable) -> None:
        """Count vetoes, and explain the attempt by them; later changes of them do not count."""
        self.tally.add(table)
        if self.detail >= Detail.PODS or (self.explains and len(table) <= _FEW):
            detailed = table.detailed()
            self._explanations.append(lambda row: detailed.get(row, ()))
        elif self.explains:
            self._explanations.append(table.reader())

    @property
    def explains(self) -> bool:
        """Whether the attempt has the vetoes against each node, which are not cached then."""
        return self.detail >= Detail.NODES

    def on_row(self, row: int) -> tuple[Veto, ...]:
        """Return the vetoes against evicting pods from a row that the explanation has."""
        return tuple(veto for explanation in self._explanations for veto in explanation(row))

    def add_spared(self, rows: Rows) -> None:
        """Count rows, given as (C,), on which policies spare the pods that are in the way."""
        rules = self.rules
        if rules is None or not rows.shape[0]:
            return
        for positions, ranked in self._cluster.pods.ranked(rows):
            lower = self._cluster.pods.priorities(ranked) < self._pod.priority
            at: Rows = rows.take(positions)
            matrix = self._matrix(at, ranked, lower & (ranked >= 0))
            by_policy = (victim_vetoes(rules, applied, matrix) for applied in rules.enforced)
            found = itertools.chain.from_iterable(by_policy)
            self.add(VetoTable(at, found, has_details=self.explains))
