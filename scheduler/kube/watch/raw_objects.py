"""Complete JSON of pods and nodes, for extenders.

Plugins read typed objects with few fields; an extender gets everything but the managed fields, as
from kube-scheduler. Nodes are watched a second time, in full, and kept; that is done only for
extenders that do not know the nodes themselves. A pod is looked up when a request needs it: keeping
all pods in full would take a gigabyte in a large cluster, for the few that are waiting.
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from scheduler.kube.client import requests
from scheduler.kube.client.client import Client
from scheduler.kube.errors import NotFound, Unreachable
from scheduler.kube.watch.decoding import UNREADABLE
from scheduler.kube.watch.resources import NODES, ApiResource
from scheduler.model.effects import PodRef

__all__ = ["RawNodes", "RawPods"]

#: Pods that are cached between the requests of an attempt.
REMEMBERED_PODS: Final = 256

_Part = Raw | UnsetType


class _Metadata(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The metadata of an object without `managedFields`."""

    name: str = ""
    generate_name: _Part = UNSET
    namespace: str = ""
    self_link: _Part = UNSET
    uid: str = ""
    resource_version: str = ""
    generation: _Part = UNSET
    creation_timestamp: _Part = UNSET
    deletion_timestamp: _Part = UNSET
    deletion_grace_period_seconds: _Part = UNSET
    labels: _Part = UNSET
    annotations: _Part = UNSET
    owner_references: _Part = UNSET
    finalizers: _Part = UNSET

    @property
    def key(self) -> str:
        """As `ObjectMeta.key`."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _RawObject(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod or a node."""

    metadata: _Metadata = _Metadata()
    api_version: str = ""
    kind: str = ""
    spec: _Part = UNSET
    status: _Part = UNSET


_DECODER: Final = msgspec.json.Decoder(_RawObject)


class RawNodes(Mapping[str, bytes]):
    """All nodes as JSON, by name; kept up to date by an informer of `resource`."""

    def __init__(self) -> None:
        self._nodes: dict[str, bytes] = {}
        self.resource: Final[ApiResource[Any]] = ApiResource(
            NODES.name, NODES.path, _RawObject, _itself, _its_key, named=NODES.kind
        )

    def __getitem__(self, name: str) -> bytes:
        return self._nodes[name]

    def __iter__(self) -> Any:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def take(self, news: list[Any]) -> None:
        """Store what the informer has seen: nodes, and names of nodes that are gone."""
        for node in news:
            if isinstance(node, _RawObject):
                self._nodes[node.metadata.name] = msgspec.json.encode(node)
            else:
                self._nodes.pop(node, None)


def _itself(node: _RawObject) -> Any:
    return node


def _its_key(key: str, _: str) -> Any:
    return key


class RawPods:
    """Looks up pods."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: OrderedDict[str, tuple[str, bytes]] = OrderedDict()

    async def get(self, pod: PodRef, version: str = "") -> bytes:
        """Return a pod as JSON, in this version or a newer one.

        Raises:
            NotFound: It is gone, or is another one of the same name.
            KubeError: It cannot be read.
        """
        known = self._known.get(pod.uid)
        if known is not None and known[0] == version:
            return known[1]
        body = await self._client.call(requests.get_pod(pod))
        try:
            raw = _DECODER.decode(body)
        except UNREADABLE as error:
            raise Unreachable(f"cannot get pods: {error}") from error
        if not raw.metadata.uid:
            raise Unreachable("cannot get pods: the response is no pod")
        if raw.metadata.uid != pod.uid:
            raise NotFound(404, "NotFound", f"pod {pod} is gone")
        encoded = msgspec.json.encode(raw)
        self._known[pod.uid] = raw.metadata.resource_version, encoded
        self._known.move_to_end(pod.uid)
        if len(self._known) > REMEMBERED_PODS:
            self._known.popitem(last=False)
        return encoded
