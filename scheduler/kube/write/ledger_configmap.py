"""Where the ledger is written down: one ConfigMap in our own namespace.

Only the leader writes, and each write names the version that it is based on. So one that is
refused tells that another instance has written: one that has just lost the lease. What it wrote is
merged with what is to be written, and the machine is told.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from scheduler.kube.client.client import MERGE_PATCH, Client, Request
from scheduler.kube.errors import Conflict, NotFound, Unreachable
from scheduler.kube.watch.decoding import UNREADABLE
from scheduler.state.preemption.ledger import Ledger, LedgerError

__all__ = ["LedgerStore"]

#: The key of the ConfigMap's data.
KEY: Final = "ledger.json"

#: No policy is known here, so nothing can be told to be too old.
_ANY_TIME: Final = 0.0


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _ConfigMap(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    data: dict[str, str] = {}


_CONFIG_MAP: Final = msgspec.json.Decoder(_ConfigMap)


class LedgerStore:
    """The ConfigMap, and its last known state.

    Args:
        namespace: Of the ConfigMap.
        name: Of the ConfigMap.
        recalled: Hears the text that another instance has written.
    """

    def __init__(self, namespace: str, name: str, recalled: Callable[[str], None]) -> None:
        self._namespace = namespace
        self._name = name
        self._recalled = recalled
        #: `metadata.resourceVersion`; empty while there is none.
        self._version = ""
        self._text = ""
        #: What another instance has written since we wrote or read.
        self._foreign = ""

    async def load(self, client: Client) -> str:
        """Read what was written down; empty when there is nothing.

        Raises:
            KubeError: It cannot be read.
        """
        await self._read(client)
        return self._text

    def request(self, text: str) -> Request:
        """Return the request that writes a text, and what others wrote, over the last state."""
        data = {KEY: self._merged(text)}
        if self._version:
            # What others have put on it, such as the labels of a release, stays.
            change = {"metadata": {"resourceVersion": self._version}, "data": data}
            body = msgspec.json.encode(change)
            path = self._path(self._name)
            return Request("patch", "configmaps", "PATCH", path, body, MERGE_PATCH)
        metadata = {"namespace": self._namespace, "name": self._name}
        whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        return Request("create", "configmaps", "POST", self._path(), msgspec.json.encode(whole))

    async def save(self, client: Client, request: Request, text: str) -> None:
        """Write a text.

        Raises:
            Conflict, NotFound: Somebody else has written meanwhile; a new request is needed.
            KubeError: It could not be written, or nobody knows whether it was.
        """
        try:
            answer = await client.call(request)
        except (Conflict, NotFound):
            await self._read(client)
            if self._text == text:
                return  # an earlier attempt wrote it, and the answer was lost
            self._foreign = self._text
            if self._foreign:
                self._recalled(self._foreign)
            raise
        self._foreign = ""
        try:
            self._see(_CONFIG_MAP.decode(answer))
        except UNREADABLE:
            # It is written; the next write is refused, and the version is read then.
            self._version = "unknown"

    def _merged(self, text: str) -> str:
        """Return a text together with what another instance has written."""
        if not self._foreign:
            return text
        both = Ledger()
        try:
            both.merge(text)
            both.merge(self._foreign)
        except LedgerError:
            return text
        return both.text(_ANY_TIME)

    async def _read(self, client: Client) -> None:
        request = Request("get", "configmaps", "GET", self._path(self._name))
        try:
            self._see(_CONFIG_MAP.decode(await client.call(request)))
        except NotFound:
            self._version = self._text = ""
        except UNREADABLE as error:
            raise Unreachable(f"cannot {request}: {error}") from error

    def _see(self, found: _ConfigMap) -> None:
        self._version = found.metadata.resource_version
        self._text = found.data.get(KEY, "")

    def _path(self, name: str = "") -> str:
        folder = f"/api/v1/namespaces/{self._namespace}/configmaps"
        return f"{folder}/{name}" if name else folder
