"""How the candidates of a preemption compared, as values for people."""

from typing import Final

from scheduler.model.base import Record
from scheduler.model.rest.common import CriterionView

__all__ = [
    "MAX_COMPARED",
    "ComparedCandidate",
    "Comparison",
]

#: How many candidates a comparison names: the best ones.
MAX_COMPARED: Final = 20


class ComparedCandidate(Record, frozen=True):
    """A node on which a preemption would help."""

    node: str
    #: The value of each criterion of the comparison that has values; `None` where it is unknown.
    values: tuple[float | None, ...]
    #: The criterion by which it lost to the chosen one; `None` for the chosen one.
    lost_by: CriterionView | None = None


class Comparison(Record, frozen=True):
    """The candidates of one preemption."""

    #: The criteria that have values, in the order of comparison.
    criteria: tuple[CriterionView, ...]
    #: At most `MAX_COMPARED`, the chosen one first, then by rank.
    candidates: tuple[ComparedCandidate, ...]
    #: How many there were.
    total: int

    @property
    def criterion(self) -> CriterionView | None:
        """The criterion by which the chosen one won against the second; `None` if it was alone."""
        return self.candidates[1].lost_by if len(self.candidates) > 1 else None
