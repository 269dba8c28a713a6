"""How the candidates of a preemption compared, as values for people."""

from scheduler.model.base import Record
from scheduler.model.times import Seconds

__all__ = ["MAX_COMPARED", "ComparedCandidate", "Comparison"]

#: How many candidates a comparison names: the best ones.
MAX_COMPARED = 20


class ComparedCandidate(Record, frozen=True):
    """A node on which a preemption would help, with the criteria in the order of comparison."""

    node: str
    violations: int
    highest_priority: int
    #: Of all victims, each shifted by 2**31, as kube-scheduler adds them up.
    sum_of_priorities: int
    victims: int
    #: Of the victims of the highest priority, the start of the one that started first; `None` where
    #: one of them has not started.
    earliest_start: Seconds | None
    #: The criterion by which it lost to the chosen one; empty for the chosen one.
    lost_by: str = ""


class Comparison(Record, frozen=True):
    """The candidates of one preemption."""

    #: At most `MAX_COMPARED`, the chosen one first, then by rank.
    candidates: tuple[ComparedCandidate, ...]
    #: How many there were.
    total: int

    @property
    def criterion(self) -> str:
        """The criterion by which the chosen one won against the second; empty if it was alone."""
        return self.candidates[1].lost_by if len(self.candidates) > 1 else ""
