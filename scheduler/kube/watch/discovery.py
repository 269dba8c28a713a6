"""Whether an API server has a resource at all.

A 404 alone is no proof: something between us and the API server may have responded. The discovery
pages of the API server, about groups and their resources, are.
"""

from typing import Final

import msgspec

from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import NotFound, NotServed, Unreachable
from scheduler.kube.watch.decoding import UNREADABLE

__all__ = ["is_served"]

_GROUPS: Final = "/apis"


async def is_served(client: Client, path: str) -> bool:
    """Return whether the API server has a resource, by its path: `/apis/apps/v1/replicasets`.

    The list of all groups is requested, and then that of the resources in the version of the group.
    Both must be objects that only an API server sends.

    Raises:
        KubeError: The server cannot be asked now, or refuses to answer.
    """
    version, _, resource = path.rpartition("/")
    group = version.removeprefix(f"{_GROUPS}/").partition("/")[0]
    groups = await _read(client, _GROUPS, "APIGroupList")
    if all(known.name != group for known in groups.groups):
        return False
    try:
        served = await _read(client, version, "APIResourceList")
    except (NotFound, NotServed):
        # Other versions of the group are served, and this one is not.
        return False
    return any(known.name == resource for known in served.resources)


class _Named(msgspec.Struct):
    name: str


class _Discovered(msgspec.Struct):
    """A list of groups, or of resources."""

    kind: str = ""
    groups: list[_Named] = []
    resources: list[_Named] = []


_DISCOVERED: Final = msgspec.json.Decoder(_Discovered)


async def _read(client: Client, path: str, kind: str) -> _Discovered:
    request = Request("get", "discovery", "GET", path)
    body = await client.call(request)
    try:
        discovered = _DISCOVERED.decode(body)
    except UNREADABLE as error:
        raise Unreachable(f"cannot {request}: {error}") from error
    if discovered.kind != kind:
        raise Unreachable(
            f"cannot {request}: the response is {discovered.kind or 'something'}, not {kind}"
        )
    return discovered
