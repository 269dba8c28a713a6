"""The preemption policies in force, by name."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from scheduler.model.policies import PreemptionPolicy
from scheduler.model.times import Seconds

__all__ = ["PoliciesInForce"]


@dataclass(slots=True)
class PoliciesInForce:
    """All accepted policies; a policy replaces the one of the same name."""

    _policies: dict[str, PreemptionPolicy] = field(default_factory=dict)
    #: Grows with every change.
    version: int = 0

    def __len__(self) -> int:
        return len(self._policies)

    def __iter__(self) -> Iterator[PreemptionPolicy]:
        """Yield the policies in the order of their names."""
        return iter(self._policies.values())

    def get(self, name: str) -> PreemptionPolicy | None:
        """Return a policy by name, if it is in force."""
        return self._policies.get(name)

    @property
    def stop(self) -> PreemptionPolicy | None:
        """The first policy that stops all preemption; `None` if none does."""
        return next((policy for policy in self if policy.stop is not None), None)

    def write(self, policy: PreemptionPolicy) -> bool:
        """Add or replace a policy; return whether anything has changed."""
        if self._policies.get(policy.name) == policy:
            return False
        self._policies[policy.name] = policy
        self._policies = dict(sorted(self._policies.items()))
        self.version += 1
        return True

    def erase(self, name: str) -> bool:
        """Remove a policy; return whether it was in force."""
        if self._policies.pop(name, None) is None:
            return False
        self.version += 1
        return True

    def windows(self) -> dict[str, Seconds]:
        """Return the longest window of each policy in seconds, by name; 0 for no window."""
        return {policy.name: max(_windows(policy), default=0.0) for policy in self}

    def shortest_window(self) -> Seconds:
        """Return the shortest window of all policies in seconds; 0 for no window."""
        return min((window for policy in self for window in _windows(policy)), default=0.0)


def _windows(policy: PreemptionPolicy) -> list[Seconds]:
    limit = policy.max_preemptions_per_owner
    windows = [budget.window for budget in policy.budgets]
    return windows if limit is None else [*windows, limit.window]
