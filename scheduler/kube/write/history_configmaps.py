"""The ConfigMaps that hold the history for the next leader, in our own namespace.

Some are a ring for preemptions, and one has the last attempts of pods. Only the leader writes, and
each write names the version that it is based on: an old leader cannot overwrite what a new one has
written.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from scheduler.kube.client.client import Client
from scheduler.kube.errors import Unreachable
from scheduler.kube.release_owner import ReleaseOwner
from scheduler.kube.write.own_configmap import ConfigMap, ConfigMapPlace, decoded

__all__ = ["ATTEMPTS", "PARTS", "HistoryPart", "StoredHistory", "stored_history"]

#: How many ConfigMaps the ring has. RBAC names each of them.
PARTS: Final = 8
#: How the name of the one with attempts ends.
ATTEMPTS: Final = "attempts"
#: The key of the ConfigMaps' binary data.
KEY: Final = "history.json.zst"


class HistoryPart:
    """One of the ConfigMaps; it knows the last state.

    Args:
        place: Its namespace and name.
        owner: Becomes an owner of it.
    """

    def __init__(self, place: ConfigMapPlace, owner: ReleaseOwner) -> None:
        self.name: Final = place.name
        self._place = place
        self._owner = owner
        #: Without its content.
        self._state = ConfigMap()

    async def read(self, client: Client) -> bytes:
        """Return what it holds; nothing if it does not exist.

        Raises:
            KubeError: It cannot be read.
        """
        found = await self._place.read(client)
        self._state = ConfigMap(metadata=found.metadata)
        return found.binary_data.get(KEY, b"")

    async def write(self, client: Client, content: bytes) -> None:
        """Replace what it holds.

        Raises:
            Conflict, NotFound: Another instance has changed it. It is to be read again.
            KubeError: It could not be written, or it is unknown whether it was.
        """
        known = self._state
        data: dict[str, Any] = {"binaryData": {KEY: content}}
        if known.version:
            # Keys of `data` would count for the size, and one of the same name would be refused.
            data["data"] = None
        answer = await self._owner.write(
            client,
            known.metadata,
            lambda changes: client.call(self._place.request(known, data, changes)),
        )
        written = decoded(answer)
        if written.binary_data.get(KEY) != content:
            raise Unreachable("the response to the write is not the history that was written")
        self._state = ConfigMap(metadata=written.metadata)


class StoredHistory(NamedTuple):
    """All of them."""

    ring: Sequence[HistoryPart]
    attempts: HistoryPart


def stored_history(namespace: str, name: str, owner: ReleaseOwner) -> StoredHistory:
    """Return all parts.

    Args:
        namespace: Of the ConfigMaps.
        name: What their names begin with.
        owner: Becomes an owner of each.
    """
    *ring, attempts = (
        HistoryPart(ConfigMapPlace(namespace, f"{name}-{end}"), owner)
        for end in (*range(PARTS), ATTEMPTS)
    )
    return StoredHistory(ring, attempts)
