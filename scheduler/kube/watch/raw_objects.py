"""Objects as the API server has them, as bytes, for those who ask more than our own rules do.

Rules read typed objects with few fields; an extender is told everything but the managed fields,
as kube-scheduler does. Nodes are watched a second time, in full, and kept; that is done only for
extenders that do not know the nodes themselves. A pod is looked up when it is asked about: to
keep all pods in full would take a gigabyte in a large cluster, for the few that are waiting.
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

#: Pods that are remembered between the questions of an attempt.
REMEMBERED_PODS: Final = 256

_Part = Raw | UnsetType


class _Metadata(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """All that the API knows of an object's metadata but `managedFields`."""

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


class _RawObjects(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A pod or a node."""

    metadata: _Metadata = _Metadata()
    api_version: str = ""
    kind: str = ""
    spec: _Part = UNSET
    status: _Part = UNSET


_WHOLE: Final = msgspec.json.Decoder(_RawObjects)


class RawNodes(Mapping[str, bytes]):
    """All nodes as JSON, by name; kept up to date by an informer of `resource`."""

    def __init__(self) -> None:
        self._nodes: dict[str, bytes] = {}
        self.resource: Final[ApiResource[Any]] = ApiResource(
            NODES.name, NODES.path, _RawObjects, _itself, _its_key, named=NODES.kind
        )

    def __getitem__(self, name: str) -> bytes:
        return self._nodes[name]

    def __iter__(self) -> Any:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def take(self, news: list[Any]) -> None:
        """Take over what the informer has seen: nodes, and names of nodes that are gone."""
        for each in news:
            if isinstance(each, _RawObjects):
                self._nodes[each.metadata.name] = msgspec.json.encode(each)
            else:
                self._nodes.pop(each, None)


def _itself(node: _RawObjects) -> Any:
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
            KubeError: It cannot be had.
        """
        known = self._known.get(pod.uid)
        if known is not None and known[0] == version:
            return known[1]
        body = await self._client.call(requests.look_up(pod))
        try:
            whole = _WHOLE.decode(body)
        except UNREADABLE as error:
            raise Unreachable(f"cannot get pods: {error}") from error
        if whole.metadata.uid != pod.uid:
            raise NotFound(404, "NotFound", f"pod {pod} is gone")
        encoded = msgspec.json.encode(whole)
        self._known[pod.uid] = whole.metadata.resource_version, encoded
        self._known.move_to_end(pod.uid)
        if len(self._known) > REMEMBERED_PODS:
            self._known.popitem(last=False)
        return encoded
