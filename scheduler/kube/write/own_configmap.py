"""A ConfigMap in our own namespace: reading it, and the request that replaces what was read.

Each write names the version that it is based on. One that is refused shows that another instance
has written meanwhile.
"""

from typing import Any, Final, NamedTuple

import msgspec

from scheduler.kube.client.client import MERGE_PATCH, Client, Request
from scheduler.kube.errors import NotFound, Unreachable
from scheduler.kube.watch.decoding import UNREADABLE

__all__ = ["ConfigMap", "ConfigMapPlace", "decoded"]


class ConfigMap(msgspec.Struct, rename="camel"):
    """A ConfigMap as it was last read or written; this one does not exist."""

    kind: str = ""
    metadata: dict[str, Any] = {}
    data: dict[str, str] = {}
    binary_data: dict[str, bytes] = {}

    @property
    def version(self) -> str:
        """Its `metadata.resourceVersion`; empty while there is none."""
        return str(self.metadata.get("resourceVersion") or "")


_CONFIG_MAP: Final = msgspec.json.Decoder(ConfigMap)


class ConfigMapPlace(NamedTuple):
    """Namespace and name of a ConfigMap."""

    namespace: str
    name: str

    async def read(self, client: Client) -> ConfigMap:
        """Return the ConfigMap as it is now; one without a version if there is none.

        Raises:
            KubeError: It cannot be read.
        """
        request = Request("get", "configmaps", "GET", f"{self._folder}/{self.name}")
        try:
            found = decoded(await client.call(request))
        except NotFound:
            return ConfigMap()
        if found.kind != "ConfigMap":
            raise Unreachable(f"cannot {request}: the response is something else")
        return found

    def request(
        self, known: ConfigMap, content: dict[str, Any], changes: dict[str, Any] | None = None
    ) -> Request:
        """Return the request that replaces the state that is known.

        Args:
            known: The ConfigMap as it was last read or written.
            content: The new `data` or `binaryData`; bytes are written in base64.
            changes: Fields of the metadata that change, too.
        """
        if known.version:
            # What others have put on it stays.
            change = {"metadata": {**(changes or {}), "resourceVersion": known.version}, **content}
            path, body = f"{self._folder}/{self.name}", msgspec.json.encode(change)
            return Request("patch", "configmaps", "PATCH", path, body, MERGE_PATCH)
        metadata = {"namespace": self.namespace, "name": self.name, **(changes or {})}
        whole = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, **content}
        return Request("create", "configmaps", "POST", self._folder, msgspec.json.encode(whole))

    @property
    def _folder(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/configmaps"


def decoded(body: bytes) -> ConfigMap:
    """Return the ConfigMap in an answer.

    Raises:
        Unreachable: It cannot be read, so it comes from something on the way.
    """
    try:
        return _CONFIG_MAP.decode(body)
    except UNREADABLE as error:
        raise Unreachable(f"the response is not a ConfigMap: {error}") from error
