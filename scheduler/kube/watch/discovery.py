"""Whether an API server has a resource at all.

A 404 alone does not tell: something between us and the API server may have answered. What an API
server serves is told by its own pages about groups and their resources.
"""

from typing import Final

import msgspec

from scheduler.kube.client.client import Client, Request
from scheduler.kube.errors import NotFound, NotServed, Unreachable
from scheduler.kube.watch.decoding import UNREADABLE

__all__ = ["is_served"]

_GROUPS: Final = "/apis"


async def is_served(client: Client, path: str) -> bool:
    """Tell whether the API server has the resource of a path, such as `/apis/apps/v1/replicasets`.

    The list of all groups is asked for, and then that of the resources in the version of the group.
    Both must be what only an API server sends.

    Raises:
        KubeError: That cannot be told now, or we may not know.
    """
    version, _, resource = path.rpartition("/")
    group = version.removeprefix(f"{_GROUPS}/").partition("/")[0]
    known = await _read(client, _GROUPS, "APIGroupList")
    if all(each.name != group for each in known.groups):
        return False
    try:
        found = await _read(client, version, "APIResourceList")
    except (NotFound, NotServed):
        # Other versions of the group are served, and this one is not.
        return False
    return any(each.name == resource for each in found.resources)


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
        found = _DISCOVERED.decode(body)
    except UNREADABLE as error:
        raise Unreachable(f"cannot {request}: {error}") from error
    if found.kind != kind:
        raise Unreachable(
            f"cannot {request}: the answer is {found.kind or 'something'}, not {kind}"
        )
    return found
