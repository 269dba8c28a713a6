"""Verdicts: what a filter says about a node, as a small integer.

Code 0 means *fits*. Every other code is an index into one interned table, so that the mask, the
message, the candidates of preemption and the explanation all come from one array of codes.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np

from scheduler.state.columns.arrays import Bool, Codes, grown

__all__ = ["FITS", "NO_NODE", "Verdict", "Verdicts"]

#: The code of a node that takes the pod.
FITS: Final = 0
#: The code of a row that has no node; it is counted nowhere.
NO_NODE: Final = 65_535

#: Codes of one half. More distinct verdicts than this are folded into one per plugin.
_HALF: Final = 30_000
#: From one half to the other: what is folded, a few for each plugin, has a place as well.
_STRIDE: Final = _HALF + 1_000
#: With so many the next half should be begun: what one attempt finds still fits in.
_CROWDED: Final = 20_000
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
    """The table of the verdicts in use, in two halves.

    Claims, resources and extenders can make endless different reasons, and codes have 16 bits. When
    one half is nearly full, the owner of all that keeps codes lets go of them and calls `turn`:
    from then on codes come from the other half, and those of this one stay readable until the next
    turn, for attempts that still wait for extenders.
    """

    __slots__ = ("_codes", "_next", "_resolvable", "_start", "_values")

    def __init__(self) -> None:
        self._values: list[Verdict] = [Verdict("", (), resolvable=False)]
        self._codes: dict[Verdict, int] = {self._values[0]: FITS}
        #: The first code of the half in use, and the next one that is free.
        self._start = self._next = 1
        self._resolvable: Bool = np.zeros(16, dtype=np.bool_)

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, code: int) -> Verdict:
        return self._values[code]

    @property
    def crowded(self) -> bool:
        """Whether the half in use is nearly full."""
        return self._next - self._start >= _CROWDED

    def turn(self) -> None:
        """Take codes from the other half, whose verdicts are forgotten."""
        self._start = 1 if self._start > 1 else 1 + _STRIDE
        self._next = self._start
        kept = self._values[0]
        self._codes = {kept: FITS}
        there = len(self._values[self._start : self._start + _STRIDE])
        self._values[self._start : self._start + _STRIDE] = [kept] * there

    def code(self, verdict: Verdict) -> int:
        """Return the code of a verdict."""
        found = self._codes.get(verdict)
        if found is not None:
            return found
        if self._next - self._start >= _HALF and verdict.reasons != _TOO_MANY:
            return self.code(Verdict(verdict.plugin, _TOO_MANY, verdict.resolvable))
        code = self._codes[verdict] = self._next
        self._next += 1
        missing = code + 1 - len(self._values)
        self._values += [self._values[0]] * missing
        self._values[code] = verdict
        self._resolvable = grown(self._resolvable, code + 1)
        self._resolvable[code] = verdict.resolvable
        return code

    def resolvable(self, codes: Codes) -> Bool:
        """Return, for each code, whether the removal of pods could change it."""
        known = np.minimum(codes, self._resolvable.shape[0] - 1)
        resolvable: Bool = self._resolvable[known] & (codes != NO_NODE)
        return resolvable
