"""The vetoes of rules against candidates, as a table.

With thousands of candidates and hundreds of rules, vetoes are not listed candidate by candidate:
what is reported and cached is counted with arrays. Which pods a veto is about is derived for one
candidate, when a trace has it.

Axes: C candidates.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.policy.loop_breaker import LoopVeto
from scheduler.model.policy_vetoes import RuleVeto
from scheduler.model.times import Seconds, earliest
from scheduler.state.columns.arrays import Bool, Float, Int, Rows

__all__ = ["RuleVetoes", "Veto", "VetoTable"]

#: By a policy, or by the history of failed preemptions and wasted evictions.
Veto: TypeAlias = RuleVeto | LoopVeto


class RuleVetoes(NamedTuple):
    """The vetoes of one rule against some candidates; rules may share arrays."""

    #: All vetoes of the rule; it has one at most against each candidate.
    vetoes: Sequence[Veto]
    #: (C,) the veto against each candidate, as an index counted from 1; 0 for none.
    which: Int
    #: (C,) when it ends, infinity where time does not end it; `None` where the vetoes have it.
    ends: Float | None = None
    #: Returns the parts of the veto against a candidate, each with the pods that it is about;
    #: `None` where there is no more to say. They are about the cluster as it is.
    details: Callable[[int], Iterable[Veto]] | None = None

    def at(self, column: int) -> Iterator[Veto]:
        """Yield the veto against one candidate, if there is one."""
        number = int(self.which[column])
        if number:
            veto = self.vetoes[number - 1]
            end = np.inf if self.ends is None else float(self.ends[column])
            if isinstance(veto, RuleVeto) and not np.isinf(end):
                veto = replace(veto, until=end)
            yield veto

    def detailed_at(self, column: int) -> Iterable[Veto]:
        """Return the parts of the veto against one candidate; empty if there is none."""
        vetoed = self.details is not None and self.which[column]
        return self.details(column) if self.details is not None and vetoed else self.at(column)


class VetoTable:
    """All vetoes against the candidates of some rows."""

    def __init__(
        self, rows: Rows, rules: Iterable[RuleVetoes], *, has_details: bool = False
    ) -> None:
        """Collect the vetoes.

        Args:
            rows: (C,) the rows of the candidates.
            rules: The vetoes of each rule.
            has_details: Whether `detailed` is to be called, before the cluster changes.
        """
        self._rows = rows
        self._rules: list[RuleVetoes] = []
        #: The number of rows for each veto of a rule, by identity of the array `which`; `None`
        #: when it has to be counted again.
        self._counted: dict[int, list[int]] | None = None
        #: (C,) True where a veto still holds.
        self._vetoed: Bool = np.zeros(rows.shape[0], dtype=np.bool_)
        met: dict[int, bool] = {}
        # The list keeps all arrays alive, so that no two of them have the same identity.
        for rule in list(rules):
            known = met.get(id(rule.which))
            if known is None:
                known = met[id(rule.which)] = bool(rule.which.any())
                self._vetoed |= rule.which > 0
            if known:
                self._rules.append(rule if has_details else rule._replace(details=None))
        arrays = {
            id(array): array for rule in self._rules for array in rule[1:3] if array is not None
        }
        #: The memory that the arrays take.
        self.size_bytes: Final = sum(array.nbytes for array in arrays.values())

    def __len__(self) -> int:
        return int(np.count_nonzero(self._vetoed))

    @property
    def vetoed(self) -> Rows:
        """The rows with a veto."""
        rows: Rows = self._rows[self._vetoed]
        return rows

    def forget(self, rows: Rows) -> None:
        """Forget the vetoes against some rows."""
        self._counted = None
        self._vetoed &= ~np.isin(self._rows, rows)

    def detailed(self) -> dict[int, tuple[Veto, ...]]:
        """Return the vetoes against each row, with all details."""
        rows = self._rows.tolist()
        return {
            rows[column]: tuple(veto for rule in self._rules for veto in rule.detailed_at(column))
            for column in np.flatnonzero(self._vetoed).tolist()
        }

    def reader(self) -> Callable[[int], tuple[Veto, ...]]:
        """Return a function from a row to its vetoes, which later changes do not affect."""
        rows, vetoed = self._rows, self._vetoed.copy()

        def against(row: int) -> tuple[Veto, ...]:
            columns = np.flatnonzero((rows == row) & vetoed).tolist()
            return tuple(
                veto for column in columns for rule in self._rules for veto in rule.at(column)
            )

        return against

    def vetoes(self) -> Iterator[tuple[Veto, Seconds | None]]:
        """Yield all vetoes, each with when it ends at the earliest."""
        counts, ends = self._counts(), self._ends()
        for rule in self._rules:
            for veto, nodes in zip(rule.vetoes, counts[id(rule.which)], strict=False):
                if nodes:
                    yield veto, veto.until if rule.ends is None else ends[id(rule.ends)]

    @property
    def until(self) -> Seconds | None:
        """When the first of the vetoes ends."""
        return earliest(until for _, until in self.vetoes())

    def nodes(self) -> Mapping[str, int]:
        """Return how many rows have a veto with each text."""
        counts = self._counts()
        with_text: dict[str, list[tuple[RuleVetoes, int]]] = {}
        for rule in self._rules:
            of_rule = counts[id(rule.which)]
            for index, (veto, nodes) in enumerate(zip(rule.vetoes, of_rule, strict=False)):
                if nodes:
                    with_text.setdefault(veto.text, []).append((rule, index))
        by_text: dict[str, int] = {}
        for text, parts in with_text.items():
            if len({id(rule) for rule, _ in parts}) == 1:
                by_text[text] = sum(counts[id(rule.which)][index] for rule, index in parts)
            else:
                rows = np.zeros_like(self._vetoed)
                for rule, index in parts:
                    rows |= rule.which == index + 1
                by_text[text] = int(np.count_nonzero(rows & self._vetoed))
        return by_text

    def _counts(self) -> dict[int, list[int]]:
        """Return, by identity of the array `which`, how many rows have each veto of a rule."""
        if self._counted is None:
            arrays = {id(rule.which): rule.which for rule in self._rules}
            columns = slice(None) if self._vetoed.all() else self._vetoed
            self._counted = {
                key: np.bincount(which[columns])[1:].tolist() for key, which in arrays.items()
            }
        return self._counted

    def _ends(self) -> dict[int, Seconds | None]:
        """Return, by identity of the array `ends`, the first end."""
        arrays = {id(rule.ends): rule.ends for rule in self._rules}
        first: dict[int, Seconds | None] = {}
        for key, ends in arrays.items():
            if ends is not None:
                end = float(ends[self._vetoed].min(initial=np.inf))
                first[key] = None if np.isinf(end) else end
        return first
