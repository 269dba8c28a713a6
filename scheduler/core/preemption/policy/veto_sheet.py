"""What is said against the candidates of many rows, rule by rule.

Thousands of candidates with hundreds of rules against each are not written down one by one: what
is told and remembered is counted with arrays.

Axes: C candidates.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from msgspec.structs import replace

from scheduler.core.preemption.policy.loop_breaker import LoopVeto as Loop
from scheduler.model.policy_refusals import PolicyRefusal, earliest
from scheduler.model.times import Seconds
from scheduler.state.columns.arrays import Bool, Float, Int, Rows

__all__ = ["RuleVetoes", "Veto", "VetoSheet"]

#: By a policy, or by what is remembered of preemptions that came to nothing.
Veto: TypeAlias = PolicyRefusal | Loop


class RuleVetoes(NamedTuple):
    """What one rule says against some candidates; several sweeps may share arrays."""

    #: All that it says; each candidate is told one of it at most.
    said: Sequence[Veto]
    #: (C,) which of it is said against each candidate, counted from 1; 0 where nothing is.
    which: Int
    #: (C,) when that ends, infinity where time does not end it; `None` where `said` tells.
    ends: Float | None = None

    def at(self, column: int) -> Iterator[Veto]:
        """Yield what is said against one candidate."""
        place = int(self.which[column])
        if place:
            said = self.said[place - 1]
            end = np.inf if self.ends is None else float(self.ends[column])
            if isinstance(said, PolicyRefusal) and not np.isinf(end):
                said = replace(said, until=end)
            yield said


class VetoSheet:
    """All that is said against the candidates of some rows."""

    def __init__(self, rows: Rows, sweeps: Iterable[RuleVetoes]) -> None:
        """Write it down.

        Args:
            rows: (C,) where the candidates are.
            sweeps: What the rules say.
        """
        self._rows = rows
        self._sweeps: list[RuleVetoes] = []
        #: By identity of the array, how many rows are told each part of a sweep, as it is now.
        self._found: dict[int, list[int]] | None = None
        #: (C,) True where anything is said that still holds.
        self._refused: Bool = np.zeros(rows.shape[0], dtype=np.bool_)
        met: dict[int, bool] = {}
        # Arrays are known by identity, so all of them are held.
        for sweep in list(sweeps):
            known = met.get(id(sweep.which))
            if known is None:
                known = met[id(sweep.which)] = bool(sweep.which.any())
                self._refused |= sweep.which > 0
            if known:
                self._sweeps.append(sweep)
        arrays = {id(one): one for each in self._sweeps for one in each[1:] if one is not None}
        #: How much memory the arrays take.
        self.size_bytes: Final = sum(each.nbytes for each in arrays.values())

    def __len__(self) -> int:
        return int(np.count_nonzero(self._refused))

    @property
    def refused(self) -> Rows:
        """The rows against which something is said."""
        rows: Rows = self._rows[self._refused]
        return rows

    def forget(self, rows: Rows) -> None:
        """Forget what was said of some rows."""
        self._found = None
        self._refused &= ~np.isin(self._rows, rows)

    def by_row(self) -> dict[int, tuple[Veto, ...]]:
        """Return what is said against each row."""
        rows = self._rows.tolist()
        return {rows[column]: self._at(column) for column in np.flatnonzero(self._refused).tolist()}

    def _at(self, column: int) -> tuple[Veto, ...]:
        return tuple(said for each in self._sweeps for said in each.at(column))

    def said(self) -> Iterator[tuple[Veto, Seconds | None]]:
        """Yield everything that is said, with when it ends at the earliest."""
        counts, ends = self._counts(), self._ends()
        for each in self._sweeps:
            of_places = counts[id(each.which)]
            for said, nodes in zip(each.said, of_places, strict=False):
                if nodes:
                    yield said, said.until if each.ends is None else ends[id(each.ends)]

    @property
    def until(self) -> Seconds | None:
        """When the first of what is said ends."""
        return earliest(until for _, until in self.said())

    def nodes(self) -> Mapping[str, int]:
        """Return how many rows are told each text."""
        counts = self._counts()
        told: dict[str, list[tuple[RuleVetoes, int]]] = {}
        for sweep in self._sweeps:
            of_places = counts[id(sweep.which)]
            for place, (said, nodes) in enumerate(zip(sweep.said, of_places, strict=False)):
                if nodes:
                    told.setdefault(said.text, []).append((sweep, place))
        found: dict[str, int] = {}
        for text, parts in told.items():
            if len({id(sweep) for sweep, _ in parts}) == 1:
                found[text] = sum(counts[id(sweep.which)][place] for sweep, place in parts)
            else:
                rows = np.zeros_like(self._refused)
                for sweep, place in parts:
                    rows |= sweep.which == place + 1
                found[text] = int(np.count_nonzero(rows & self._refused))
        return found

    def _counts(self) -> dict[int, list[int]]:
        """Return, by identity of the array, how many rows are told each part of a sweep."""
        if self._found is None:
            arrays = {id(each.which): each.which for each in self._sweeps}
            there = slice(None) if self._refused.all() else self._refused
            self._found = {
                key: np.bincount(which[there])[1:].tolist() for key, which in arrays.items()
            }
        return self._found

    def _ends(self) -> dict[int, Seconds | None]:
        """Return, by identity of the array, the first end."""
        arrays = {id(each.ends): each.ends for each in self._sweeps}
        found: dict[int, Seconds | None] = {}
        for key, ends in arrays.items():
            if ends is not None:
                end = float(ends[self._refused].min(initial=np.inf))
                found[key] = None if np.isinf(end) else end
        return found
