"""The ConfigMap that holds the ledger, in our own namespace.

Only the leader writes, and each write names the version that it is based on. A write that is
refused shows that another instance has written, one that has just lost the lease. Its text is
merged with the text that is to be written, and the machine gets it as well.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from scheduler.kube.client.backoff import ExponentialBackoff, Sleeper
from scheduler.kube.client.client import MERGE_PATCH, Client, Request
from scheduler.kube.errors import Conflict, KubeError, MissingRight, NotFound, Unreachable
from scheduler.kube.watch.decoding import UNREADABLE
from scheduler.state.preemption.ledger import Ledger, LedgerError

__all__ = ["LedgerStore"]

#: The key of the ConfigMap's data.
KEY: Final = "ledger.json"

#: Between two attempts to read the ledger when an instance becomes the leader.
FIRST_PAUSE_SECONDS: Final = 0.1
MAX_PAUSE_SECONDS: Final = 5.0

#: The policies are not known here, so no entry counts as too old.
_ANY_TIME: Final = 0.0


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _ConfigMap(msgspec.Struct):
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)
    data: dict[str, str] = {}


_CONFIG_MAP: Final = msgspec.json.Decoder(_ConfigMap)


class LedgerStore:
    """Reads and writes the ConfigMap; knows its last state.

    Args:
        namespace: Of the ConfigMap.
        name: Of the ConfigMap.
        recalled: Called with a text that another instance has written.
    """

    def __init__(self, namespace: str, name: str, on_loaded: Callable[[str], None]) -> None:
        self._namespace = namespace
        self._name = name
        self._on_loaded = on_loaded
        #: `metadata.resourceVersion`; empty while there is none.
        self._version = ""
        self._text = ""
        #: The text that another instance has written since we wrote or read.
        self._foreign = ""

    async def load_with_retries(self, client: Client, sleeper: Sleeper) -> str:
        """Return what earlier leaders have written; empty when there is nothing or no right to it.

        Waits as long as the API server does not answer. Without the right to read the ledger it
        cannot be written either: budgets then refuse, and everything that needs no ledger goes on.
        """
        backoff = ExponentialBackoff(sleeper, FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS)
        while True:
            try:
                return await self.load(client)
            except MissingRight as error:
                client.observer.ledger_forbidden(str(error))
                return ""
            except KubeError as error:
                client.observer.ledger_unreadable(str(error))
                await backoff.wait()

    async def load(self, client: Client) -> str:
        """Read the ledger; empty when there is none.

        Raises:
            KubeError: It cannot be read.
        """
        await self._read(client)
        return self._text

    def request(self, text: str) -> Request:
        """Return the request that replaces the last state by a text, merged with foreign text."""
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
            Conflict, NotFound: Another instance has written meanwhile; a new request is needed.
            KubeError: It could not be written, or it is unknown whether it was.
        """
        try:
            answer = await client.call(request)
        except (Conflict, NotFound):
            await self._read(client)
            if self._text == text:
                return  # an earlier attempt wrote it, and the answer was lost
            self._foreign = self._text
            if self._foreign:
                self._on_loaded(self._foreign)
            raise
        self._foreign = ""
        try:
            self._observe(_CONFIG_MAP.decode(answer))
        except UNREADABLE:
            # It is written; the next write will be refused, and then the version is read.
            self._version = "unknown"

    def _merged(self, text: str) -> str:
        """Return a text merged with what another instance has written."""
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
            self._observe(_CONFIG_MAP.decode(await client.call(request)))
        except NotFound:
            self._version = self._text = ""
        except UNREADABLE as error:
            raise Unreachable(f"cannot {request}: {error}") from error

    def _observe(self, config_map: _ConfigMap) -> None:
        self._version = config_map.metadata.resource_version
        self._text = config_map.data.get(KEY, "")

    def _path(self, name: str = "") -> str:
        folder = f"/api/v1/namespaces/{self._namespace}/configmaps"
        return f"{folder}/{name}" if name else folder
