"""How the candidates of a preemption compared, as values for people."""

from enum import StrEnum
from typing import Final

from scheduler.model.base import Record

__all__ = ["MAX_COMPARED", "ComparedCandidate", "Comparison", "CriterionLabel", "Measure"]

#: How many candidates a comparison names: the best ones.
MAX_COMPARED: Final = 20


class Measure(StrEnum):
    """What the values of a criterion are."""

    NUMBER = "number"
    #: Seconds since 1970.
    TIME = "time"
    #: Of all victims, each priority shifted by 2**31, as kube-scheduler adds them up.
    SHIFTED_SUM = "shiftedSum"


class CriterionLabel(Record, frozen=True):
    """A criterion in words."""

    name: str
    #: Which candidate it prefers.
    meaning: str
    #: The title of its values, and a short one; empty where it has none, since it breaks ties.
    title: str = ""
    short_title: str = ""
    measure: Measure = Measure.NUMBER


class ComparedCandidate(Record, frozen=True):
    """A node on which a preemption would help."""

    node: str
    #: The value of each criterion of the comparison that has values; `None` where it is unknown.
    values: tuple[float | None, ...]
    #: The criterion by which it lost to the chosen one; `None` for the chosen one.
    lost_by: CriterionLabel | None = None


class Comparison(Record, frozen=True):
    """The candidates of one preemption."""

    #: The criteria that have values, in the order of comparison.
    criteria: tuple[CriterionLabel, ...]
    #: At most `MAX_COMPARED`, the chosen one first, then by rank.
    candidates: tuple[ComparedCandidate, ...]
    #: How many there were.
    total: int

    @property
    def criterion(self) -> CriterionLabel | None:
        """The criterion by which the chosen one won against the second; `None` if it was alone."""
        return self.candidates[1].lost_by if len(self.candidates) > 1 else None
