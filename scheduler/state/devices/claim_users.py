"""Indexes pending pods by claim, so that the events of a claim requeue only pods that use it."""

from collections.abc import Iterator, Set

from scheduler.model.api.objects import Pod

__all__ = ["ClaimUsers"]


class ClaimUsers:
    """Pods that wait for a node, by the claims that they name."""

    def __init__(self) -> None:
        self._users: dict[str, dict[str, None]] = {}
        self._keys: dict[str, tuple[str, ...]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def note(self, pod: Pod) -> None:
        """Store the claims of a state of a pod."""
        if not pod.spec.resource_claims:
            return
        self.forget(pod.uid)
        keys = self._keys[pod.uid] = tuple(dict.fromkeys(_keys(pod)))
        for key in keys:
            self._users.setdefault(key, {})[pod.uid] = None

    def forget(self, uid: str) -> None:
        """Forget a pod that does not wait any more."""
        for key in self._keys.pop(uid, ()):
            users = self._users[key]
            del users[uid]
            if not users:
                del self._users[key]

    def among(self, keys: Set[str]) -> Set[str]:
        """Return those of some claims, by their keys, that pods name."""
        return self._users.keys() & keys

    def of(self, key: str) -> tuple[str, ...]:
        """Return the uids of the pods that name a claim."""
        return tuple(self._users.get(key, ()))


def _keys(pod: Pod) -> Iterator[str]:
    namespace = pod.metadata.namespace
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name is not None:
            yield f"{namespace}/{entry.resource_claim_name}"
    for status in pod.status.resource_claim_statuses:
        if status.resource_claim_name is not None:
            yield f"{namespace}/{status.resource_claim_name}"
