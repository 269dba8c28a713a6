"""What keeps preemptions from being tried now that would make room: policies, and loops.

A candidate that somebody objects to is refused, and the next best one is looked at. What was said
is kept for a class of pods by row, since replicas ask the same one after the other.

Axes: V pods on a row, most important first; C candidate rows.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.dry_run import DryRun
from scheduler.core.preemption.policy import bulk_vetoes, loop_breaker
from scheduler.core.preemption.policy.loop_breaker import PreemptionHistory
from scheduler.core.preemption.policy.rules import PolicyRules
from scheduler.core.preemption.policy.veto_sheet import Veto, VetoSheet
from scheduler.core.preemption.policy.victim_matrix import OwnerCodes, VictimMatrix
from scheduler.model.api.objects import Pod
from scheduler.model.policy_refusals import PolicyRefusal, earliest, ending
from scheduler.model.times import Seconds
from scheduler.state.columns.arrays import Int, Rows
from scheduler.state.preemption.ledger import Ledger

__all__ = ["CandidateVetoes", "Veto", "VetoCache", "VetoTally"]

#: So many sheets are remembered for one class of pods.
_MOST_SHEETS: Final = 8


class Known(NamedTuple):
    """Objections to candidates: of single rows, and of many at once. No row is in two of them."""

    by_row: Mapping[int, tuple[Veto, ...]]
    sheets: Sequence[VetoSheet]


class VetoCache:
    """Objections by row, as long as what they depend on stays the same."""

    __slots__ = ("_by_row", "_sheets", "_state", "_until", "paused")

    def __init__(self) -> None:
        #: Whether what is found out now is not good for other pods of the class.
        self.paused = False
        self._by_row: dict[int, tuple[Veto, ...]] = {}
        self._sheets: list[VetoSheet] = []
        self._state: object = None
        self._until: Seconds | None = None

    @property
    def size_bytes(self) -> int:
        """How much memory the arrays take."""
        return sum(each.size_bytes for each in self._sheets)

    def known(self, state: object, now: Seconds) -> Known:
        """Return the objections that still hold."""
        if self.paused:
            return Known({}, ())
        if state != self._state or (self._until is not None and self._until <= now):
            self.clear()
            self._state = state
        return Known(self._by_row, self._sheets)

    def note(self, said: Mapping[int, tuple[Veto, ...]]) -> None:
        """Remember the objections to the candidates of some rows."""
        if not self.paused:
            self._by_row.update(said)
            ends = (each.until for one in said.values() for each in one)
            self._until = earliest((self._until, *ends))

    def note_sheet(self, sheet: VetoSheet) -> None:
        """Remember the objections to many candidates."""
        if self.paused:
            return
        self._sheets = [each for each in self._sheets if len(each)]
        if len(self._sheets) >= _MOST_SHEETS:
            # What is forgotten is found out again.
            self.clear()
        self._sheets.append(sheet)
        self._until = earliest((self._until, sheet.until))

    def forget(self, rows: Rows) -> None:
        """Forget what was said of some rows."""
        if self._by_row:
            for row in rows.tolist():
                self._by_row.pop(row, None)
        for sheet in self._sheets if rows.shape[0] else ():
            sheet.forget(rows)

    def clear(self) -> None:
        """Forget everything."""
        self._by_row.clear()
        self._sheets = []
        self._until = None


class VetoTally:
    """How many nodes were refused for each reason, and when that ends at the earliest."""

    def __init__(self) -> None:
        self._nodes: dict[str, int] = {}
        self._ends: dict[str, Seconds] = {}
        #: Texts by identity of the objection, which is kept for that.
        self._texts: dict[int, tuple[Veto, str]] = {}
        #: When the first of the reasons ends; `None` where time ends none.
        self.until: Seconds | None = None
        #: The refusals by policies, one for each rule.
        self.refusals: Final[dict[tuple[str, str], PolicyRefusal]] = {}

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def add_nodes(self, said: Iterable[Veto], nodes: int = 1) -> None:
        """Add nodes that are refused for the same reasons."""
        for text in {self._noted(each): None for each in said}:
            self._nodes[text] = self._nodes.get(text, 0) + nodes

    def add_sheet(self, sheet: VetoSheet) -> None:
        """Add the nodes that are refused in a sheet."""
        for said, until in sheet.said():
            self._note(said, said.text, until)
        for text, nodes in sheet.nodes().items():
            self._nodes[text] = self._nodes.get(text, 0) + nodes

    def add(self, said: Veto, until: Seconds | None, nodes: int = 1) -> None:
        """Add nodes that are refused for a reason, until then at the earliest."""
        text = said.text
        self._nodes[text] = self._nodes.get(text, 0) + nodes
        self._note(said, text, until)

    def _noted(self, said: Veto) -> str:
        """Return the text of an objection, which is noted once: rows share the objects."""
        found = self._texts.get(id(said))
        if found is None:
            found = self._texts[id(said)] = (said, said.text)
            self._note(said, found[1], said.until)
        return found[1]

    def _note(self, said: Veto, text: str, until: Seconds | None) -> None:
        """Note when an objection ends, and what refuses."""
        self.until = earliest((self.until, until))
        timed = said.timed if isinstance(said, loop_breaker.LoopVeto) else True
        if until is not None and timed:
            self._ends[text] = min(until, self._ends.get(text, until))
        if isinstance(said, PolicyRefusal):
            self._refuse(said)

    def _refuse(self, said: PolicyRefusal) -> None:
        """Keep one refusal for each rule, with all disruption budgets that are in the way."""
        rule = (said.policy, said.rule)
        known = self.refusals.setdefault(rule, said)
        if not said.budgets <= known.budgets:
            self.refusals[rule] = replace(known, budgets=known.budgets | said.budgets)

    def reasons(self) -> list[tuple[str, int]]:
        """Return the reasons, with when they end, and the number of nodes; in text order."""
        ends = self._ends
        return sorted((text + ending(ends.get(text)), nodes) for text, nodes in self._nodes.items())


class CandidateVetoes:
    """Who objects to preemptions for one pod, in one attempt."""

    def __init__(
        self,
        pod: Pod,
        bounds: PolicyRules | None,
        families: OwnerCodes,
        past: PreemptionHistory,
        now: Seconds,
    ) -> None:
        self.bounds: Final = bounds
        self.now: Final = now
        #: Whether every candidate is to be asked about, for those who ask why.
        self.explain = False
        self.tally: Final = VetoTally()
        #: What was said of each row, in full.
        self.told: Final[dict[int, tuple[str, ...]]] = {}
        self._pod = pod
        self._cluster = families.cluster
        self._families = families
        self._ledger = past.ledger
        self._past = past

    @classmethod
    def of(
        cls,
        pod: Pod,
        bounds: PolicyRules | None,
        families: OwnerCodes,
        ledger: Ledger,
        now: Seconds,
    ) -> "CandidateVetoes | None":
        """Return who may object; `None` where nothing can be said against any preemption.

        Args:
            pod: The preemptor.
            bounds: The policies that bind it.
            families: Knows the owners of the pods of the cluster.
            ledger: What is remembered.
            now: The time.
        """
        remembered = len(ledger.fruitless) or len(ledger.wasted) or families.cluster.overdue
        if bounds is None and not remembered:
            return None
        return cls(
            pod, bounds, families, PreemptionHistory(pod, families.cluster, ledger, now), now
        )

    @property
    def state(self) -> object:
        """What objections depend on, beside pods, nodes and time."""
        bounded = None if self.bounds is None else self.bounds.state
        return (bounded, self._ledger.version, self._past.state)

    def to_preemptor(self) -> tuple[Veto, ...]:
        """Return why the pod must not preempt at all now; nothing when it may."""
        said = () if self.bounds is None else self.bounds.refusals()
        return (*said, *self._past.to_preemptor())

    def refusals(self, node: str = "", victims: Sequence[Pod] = ()) -> tuple[PolicyRefusal, ...]:
        """Return what policies refused, one of each rule.

        Args:
            node: Where pods are evicted after all; empty if nowhere.
            victims: Who is evicted; what policies that only audit would refuse is added then.
        """
        refused = tuple(self.tally.refusals.values())
        if not victims or self.bounds is None:
            return refused
        return (*refused, *self.bounds.audited(node, victims))

    def to(self, node: str, victims: Sequence[Pod]) -> tuple[Veto, ...]:
        """Return what is to be said against evicting pods from a node."""
        said = () if self.bounds is None else self.bounds.objections(node, victims)
        return (*said, *self._past.to(node, victims))

    def to_many(self, run: DryRun) -> VetoSheet:
        """Return what is to be said against the candidates of a dry run, all at once.

        Without the details of which pods it is about; else the same as `to`.
        """
        names = self._cluster.columns.names
        nodes = [names[row] for row in run.rows.tolist()]
        crowd = VictimMatrix(run.slots, run.chosen, nodes, self._families)
        return bulk_vetoes.told(self.bounds, self._past, run.rows, crowd)

    def to_all(self, row: int) -> tuple[Veto, ...]:
        """Return why too few pods of a row may go for the preemptor to fit there."""
        if self.bounds is None:
            return ()
        there = self._cluster.pods.pods_on(row)
        lower = [pod for pod in there if pod.priority < self._pod.priority]
        return self.bounds.objections_to_each(lower)

    def tally_denied(self, rows: Rows) -> None:
        """Count, (C,), rows on which policies let too few pods go."""
        if self.bounds is None or not rows.shape[0]:
            return
        for _, ranked in self._cluster.pods.ranked(rows):
            lower = self._cluster.pods.priorities(ranked) < self._pod.priority
            slots: Int = np.where(lower, ranked, -1)
            for refusal, spared, ends in self.bounds.spared_by_rule(slots):
                columns = spared.any(axis=0)
                if columns.any():
                    end = float(ends[columns].min())
                    until = None if np.isinf(end) else end
                    self.tally.add(refusal, until, int(np.count_nonzero(columns)))
