"""The preemption policies in force, by name."""

from collections.abc import Iterator

from scheduler.model.policies import PreemptionPolicy
from scheduler.model.times import Seconds

__all__ = ["PoliciesInForce"]


class PoliciesInForce:
    """All policies that were accepted; those of one name replace each other."""

    def __init__(self) -> None:
        self._policies: dict[str, PreemptionPolicy] = {}
        #: Grows with every change.
        self.version = 0

    def __len__(self) -> int:
        return len(self._policies)

    def __iter__(self) -> Iterator[PreemptionPolicy]:
        """Yield the policies in the order of their names."""
        return iter(self._policies.values())

    def get(self, name: str) -> PreemptionPolicy | None:
        """Return a policy."""
        return self._policies.get(name)

    def write(self, policy: PreemptionPolicy) -> bool:
        """Take over a policy; tell whether anything is different now."""
        if self._policies.get(policy.name) == policy:
            return False
        self._policies[policy.name] = policy
        self._policies = dict(sorted(self._policies.items()))
        self.version += 1
        return True

    def erase(self, name: str) -> bool:
        """Forget a policy; tell whether it was known."""
        if self._policies.pop(name, None) is None:
            return False
        self.version += 1
        return True

    def windows(self) -> dict[str, Seconds]:
        """Return how far back each policy looks, in seconds, by name; 0 for not at all."""
        return {each.name: _window(each) for each in self}


def _window(policy: PreemptionPolicy) -> Seconds:
    limit = policy.max_preemptions_per_owner
    begun = 0.0 if limit is None else limit.window
    return max([begun, *(each.window for each in policy.budgets)])
