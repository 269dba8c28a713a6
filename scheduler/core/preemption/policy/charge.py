"""What a preemption counts for: which budgets and limits of policies it uses up."""

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["Charge"]


@dataclass(frozen=True, slots=True)
class Charge:
    """Which policies count a preemption and its victims."""

    #: Names of the policies with a budget that counts a victim, by the victim's uid.
    victims: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: Names of the policies that limit preemptions for the preemptor's owner.
    limited_by: frozenset[str] = frozenset()
    #: `metadata.generation` of the policies that bind the preemption, by name.
    generations: Mapping[str, int] = field(default_factory=dict)
    #: Uids of victims that must not leave against a disruption budget: the API server decides.
    strict: frozenset[str] = frozenset()

    @property
    def counts(self) -> bool:
        """Whether anything is used up."""
        return bool(self.limited_by) or any(self.victims.values())
