"""Verdicts: the result of a filter for a node, as a small integer.

Code 0 means that the pod fits. Every other code is an index of one interned table. The feasible
nodes, the message, the preemption candidates and the explanation all come from one array of codes.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from scheduler.state.columns.arrays import Bool, Codes, grown

__all__ = ["FITS", "NO_NODE", "EvictionOutcome", "Verdict", "Verdicts"]

#: The code of a node where the pod fits.
FITS: Final = 0
#: The code of a row without a node; it is not counted.
NO_NODE: Final = 65_535

#: Codes of one half of the table. Further verdicts are merged into one verdict per plugin.
_HALF: Final = 30_000
#: Distance between the halves; leaves space for the merged verdicts, a few for each plugin.
_STRIDE: Final = _HALF + 1_000
#: From this number on the other half should be used; one more attempt still fits.
_CROWDED: Final = 20_000
_TOO_MANY: Final = ("node(s) rejected for one of too many different reasons",)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a pod does not fit a node."""

    #: The plugin that rejects the node; empty for the framework itself.
    plugin: str
    #: All reasons of the plugin, in its order.
    reasons: tuple[str, ...]
    #: Whether the removal of pods could lift it: *Unschedulable* rather than
    #: *UnschedulableAndUnresolvable*.
    resolvable: bool
    #: The plugins to show when the framework combines the results of several plugins.
    shown_as: str = ""
    #: Whether it is an error. It rejects the node in a hypothetical view; elsewhere it ends the
    #: attempt.
    failed: bool = False
    #: Whether the error concerns this node alone: it ends the attempt only if no other node fits.
    alone: bool = False

    def __str__(self) -> str:
        return f"{self.plugin or self.shown_as}: {', '.join(self.reasons)}"


class EvictionOutcome(Enum):
    """What evicting all pods of lower priority from a node would mean for a preemptor."""

    HELPS = "helps"
    #: No pod there has a lower priority.
    NO_VICTIMS = "noVictims"
    #: The preemptor would still not fit.
    NOT_ENOUGH = "notEnough"
    #: It would fit if policies spared no pod.
    VETOED = "vetoed"
    #: The same of devices, where that can be said: they are held by pods of its priority or higher;
    #: for a preemptor that waits for them; by pods on other nodes, or on none; by a claim that no
    #: pod has reserved; by what is no pod.
    DEVICES_HELD_BY_HIGHER = "devicesHeldByHigher"
    DEVICES_NOMINATED = "devicesNominated"
    DEVICES_HELD_ELSEWHERE = "devicesHeldElsewhere"
    DEVICES_UNRESERVED = "devicesUnreserved"
    DEVICES_HELD_BY_OTHERS = "devicesHeldByOthers"
    #: Not even all devices of the node would be enough.
    TOO_FEW_DEVICES = "tooFewDevices"
    #: Not known: too many nodes would have to be searched for devices.
    NOT_TRIED = "notTried"


class Verdicts:
    """The table of the verdicts in use, in two halves.

    Volume claims, resources and extenders can produce any number of reasons, and codes have 16
    bits. When one half is nearly full, the owner of the table drops all cached codes and calls
    `switch_half`. New codes then come from the other half. The codes of this half stay readable
    until the next switch, for attempts that still wait for extenders.
    """

    __slots__ = ("_codes", "_failed", "_next", "_resolvable", "_start", "_values")

    def __init__(self) -> None:
        self._values: list[Verdict] = [Verdict("", (), resolvable=False)]
        self._codes: dict[Verdict, int] = {self._values[0]: FITS}
        #: The first code of the half in use, and the next one that is free.
        self._start = self._next = 1
        self._resolvable: Bool = np.zeros(16, dtype=np.bool_)
        #: The codes of errors; most tables have none.
        self._failed: set[int] = set()

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, code: int) -> Verdict:
        return self._values[code]

    @property
    def is_full(self) -> bool:
        """Whether the half in use is nearly full."""
        return self._next - self._start >= _CROWDED

    def switch_half(self) -> None:
        """Switch to the other half, and forget its verdicts."""
        self._start = 1 if self._start > 1 else 1 + _STRIDE
        self._next = self._start
        fits = self._values[0]
        self._codes = {fits: FITS}
        size = len(self._values[self._start : self._start + _STRIDE])
        self._values[self._start : self._start + _STRIDE] = [fits] * size
        self._failed = {code for code in self._failed if self._values[code].failed}

    def code(self, verdict: Verdict) -> int:
        """Return the code of a verdict."""
        known = self._codes.get(verdict)
        if known is not None:
            return known
        if self._next - self._start >= _HALF and verdict.reasons != _TOO_MANY:
            return self.code(Verdict(verdict.plugin, _TOO_MANY, verdict.resolvable))
        code = self._codes[verdict] = self._next
        self._next += 1
        missing = code + 1 - len(self._values)
        self._values += [self._values[0]] * missing
        self._values[code] = verdict
        self._resolvable = grown(self._resolvable, code + 1)
        self._resolvable[code] = verdict.resolvable
        if verdict.failed:
            self._failed.add(code)
        return code

    def error(self, codes: Codes, *, alone: bool = False) -> str:
        """Return the text of an error among verdicts; empty if there is none.

        Args:
            codes: The verdicts.
            alone: Whether errors that concern their nodes alone count.
        """
        for code in sorted(self._failed.intersection(codes.tolist())) if self._failed else ():
            if alone or not self._values[code].alone:
                return ", ".join(self._values[code].reasons)
        return ""

    def resolvable(self, codes: Codes) -> Bool:
        """Return, for each code, whether the removal of pods could lift the rejection."""
        known = np.minimum(codes, self._resolvable.shape[0] - 1)
        resolvable: Bool = self._resolvable[known] & (codes != NO_NODE)
        return resolvable
