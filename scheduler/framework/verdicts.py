"""Verdicts: what a filter says about a node, as a small integer.

Code 0 means *fits*. Every other code is an index into one interned table, so that the mask, the
message, the candidates of preemption and the explanation all come from one array of codes.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.state.arrays import Bool, Codes
from scheduler.state.interning import Interner

__all__ = ["FITS", "NO_NODE", "Verdict", "Verdicts"]

#: The code of a node that takes the pod.
FITS: Final = 0
#: The code of a row that has no node; it is counted nowhere.
NO_NODE: Final = 65_535

#: More distinct verdicts than this are folded into one per plugin.
_MOST: Final = 60_000
_TOO_MANY: Final = ("node(s) rejected for one of too many different reasons",)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a node does not take a pod."""

    #: The plugin that said so; empty for the framework itself.
    plugin: str
    #: All reasons of the plugin, in its order.
    reasons: tuple[str, ...]
    #: Whether the removal of pods could change it: *Unschedulable* rather than
    #: *UnschedulableAndUnresolvable*.
    resolvable: bool
    #: The plugins to show where the framework says what several plugins lead to.
    shown_as: str = ""

    def __str__(self) -> str:
        return f"{self.plugin or self.shown_as}: {', '.join(self.reasons)}"


class Verdicts:
    """The table of all verdicts met."""

    __slots__ = ("_interner", "_resolvable")

    def __init__(self) -> None:
        self._interner: Interner[Verdict] = Interner(Verdict("", (), resolvable=False))
        self._resolvable: Bool = np.zeros(1, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self._interner)

    def __getitem__(self, code: int) -> Verdict:
        return self._interner.values[code]

    def code(self, verdict: Verdict) -> int:
        """Return the code of a verdict."""
        found = self._interner.find(verdict)
        if found is not None:
            return found
        if len(self._interner) >= _MOST and verdict.reasons != _TOO_MANY:
            # Odd objects can make endless sets of reasons, and codes have 16 bits.
            return self.code(Verdict(verdict.plugin, _TOO_MANY, verdict.resolvable))
        return self._interner.code(verdict)

    def resolvable(self, codes: Codes) -> Bool:
        """Return, for each code, whether the removal of pods could change it."""
        if self._resolvable.shape[0] != len(self._interner):
            values = self._interner.values
            self._resolvable = np.array([verdict.resolvable for verdict in values])
        known = np.minimum(codes, self._resolvable.shape[0] - 1)
        resolvable: Bool = self._resolvable[known] & (codes != NO_NODE)
        return resolvable
