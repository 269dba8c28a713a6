"""What a preemption counts for: which budgets and limits of policies it uses up.

Whoever evaluates policies is a `Bounds`; without any policy it is `Unbounded`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from scheduler.model.api.objects import Pod, PodDisruptionBudget
from scheduler.model.effects import Evict
from scheduler.model.policy_refusals import PolicyRefusal
from scheduler.model.times import Seconds

__all__ = ["Bounds", "Charge", "Unbounded"]


@dataclass(frozen=True, slots=True)
class Charge:
    """Which policies count a preemption and its victims."""

    #: Names of the policies with a budget that counts a victim, by the victim's uid.
    victims: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: Names of the policies that limit preemptions for the preemptor's owner.
    limits: frozenset[str] = frozenset()
    #: `metadata.generation` of the policies that bind the preemption, by name.
    generations: Mapping[str, int] = field(default_factory=dict)
    #: Uids of victims that must not leave against a disruption budget: the API server decides.
    strict: frozenset[str] = frozenset()

    @property
    def counts(self) -> bool:
        """Whether anything is used up."""
        return bool(self.limits) or any(self.victims.values())


class Bounds(Protocol):
    """Evaluates policies for preemptions that are carried out."""

    def charge(self, preemptor: Pod, node: str, victims: Sequence[Pod], now: Seconds) -> Charge:
        """Return what a preemption counts for that begins now."""

    def refuses(
        self, preemptor: Pod, node: str, victims: Sequence[Pod], now: Seconds, *, counted: bool
    ) -> str:
        """Return why a preemption that was planned before must not go on; empty when it may."""

    def count(self, refusals: Sequence[PolicyRefusal]) -> None:
        """Take note of what was refused in an attempt."""

    def evicted(self, effect: Evict, now: Seconds) -> None:
        """Take note that a victim was evicted."""

    def accounted(self, budget: PodDisruptionBudget) -> None:
        """Note a new state of a disruption budget; the cluster knows it already."""

    def budget_gone(self, key: str) -> None:
        """Note that a disruption budget is gone, by namespace and name."""

    def ended(self, preemptor: str) -> None:
        """Note that a plan has ended, by uid of its preemptor: its promises end with it."""

    def spared(self, victims: Iterable[str]) -> None:
        """Note that victims are not asked to leave after all, by uid."""

    @property
    def may_free(self) -> bool:
        """Whether `freed` has anything to look at."""

    def freed(self, now: Seconds) -> frozenset[str]:
        """Return the disruption budgets that allow more since this was last asked, by key."""


class Unbounded:
    """There is no policy."""

    def charge(self, preemptor: Pod, node: str, victims: Sequence[Pod], now: Seconds) -> Charge:
        """Count for nothing."""
        del preemptor, node, victims, now
        return Charge()

    def refuses(
        self, preemptor: Pod, node: str, victims: Sequence[Pod], now: Seconds, *, counted: bool
    ) -> str:
        """Refuse nothing."""
        del preemptor, node, victims, now, counted
        return ""

    def count(self, refusals: Sequence[PolicyRefusal]) -> None:
        """Nothing was refused."""

    def evicted(self, effect: Evict, now: Seconds) -> None:
        """Nobody counts it."""

    def accounted(self, budget: PodDisruptionBudget) -> None:
        """Nobody asks for it."""

    def budget_gone(self, key: str) -> None:
        """No promise depends on it."""

    def ended(self, preemptor: str) -> None:
        """Nothing was promised."""

    def spared(self, victims: Iterable[str]) -> None:
        """Nothing was promised."""

    @property
    def may_free(self) -> bool:
        """Nothing is in flight."""
        return False

    def freed(self, now: Seconds) -> frozenset[str]:
        """Nothing was promised, so nothing is freed."""
        del now
        return frozenset()
