"""Requests of the plugin to the API server, with the user's kubeconfig.

They are few, and go through the proxies that the user's environment or kubeconfig names, so aiohttp
makes them and not the client of the scheduler, which uses no proxy. aiohttp reads no environment:
it would also send passwords of `~/.netrc`.
"""

import asyncio
import ipaddress
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec

from scheduler.kube.auth.kubeconfig import Selection
from scheduler.kube.errors import ApiError, KubeError, Unauthorized, Unreachable, refusal
from scheduler.kubectl.errors import api_server_error

__all__ = ["ApiServer"]

#: For an answer, and for the handshake of a tunnel.
ANSWER_SECONDS: Final = 15.0
#: Data on channel 0 and errors on channel 1, as bytes.
PROTOCOL: Final = "v4.channel.k8s.io"
#: What aiohttp raises. A `ValueError` is about a URL, a proxy or a header that it does not send.
_FAILURES: Final = (aiohttp.ClientError, OSError, TimeoutError, ValueError)
#: Method and content type of requests that write, by verb.
_WRITES: Final = {
    "create": ("POST", "application/json"),
    "patch": ("PATCH", "application/merge-patch+json"),
    "delete": ("DELETE", "application/json"),
}
_UPGRADE: Final = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "a3ViZWN0bC1wcmVlbXB0aQ==",
    "Sec-WebSocket-Protocol": PROTOCOL,
}


class ApiServer:
    """The API server of a context. Close it in the event loop that used it."""

    def __init__(self, selection: Selection) -> None:
        self._base = selection.cluster.server.rstrip("/")
        self._login = selection.login
        name = selection.cluster.tls_server_name
        self._settings: dict[str, Any] = {"server_hostname": name} if name else {}
        self._settings["proxy"] = selection.cluster.proxy_url or _proxy(self._base)
        self._session: aiohttp.ClientSession | None = None

    @property
    def url(self) -> str:
        """The address of the server."""
        return self._base

    async def get(self, path: str, what: str, rule: str) -> Any:
        """Return an object.

        Args:
            path: With the query.
            what: The resource, for messages: `leases "x"`.
            rule: The rule of a Role that allows it, for messages.

        Raises:
            ApiError: The server answered 404.
            PluginError: It refused otherwise, or could not be asked.
        """
        try:
            return await self._get(path, what)
        except ApiError as error:
            if error.status == 404:
                raise
            raise api_server_error(error, rule) from error
        except KubeError as error:
            raise api_server_error(error, rule) from error

    async def write(self, verb: str, path: str, body: Any, what: str, rule: str) -> Any:
        """Create, patch (by a merge patch) or delete an object; return the answer.

        Args:
            verb: `create`, `patch` or `delete`.
            path: With the query.
            body: What is sent.
            what: The resource, for messages.
            rule: The rule of a ClusterRole that allows it, for messages.

        Raises:
            ApiError: The server answered 404 or 409.
            PluginError: It refused otherwise, or could not be asked.
        """
        method, kind = _WRITES[verb]
        try:
            sent = {"Content-Type": kind}, msgspec.json.encode(body)
            return _decoded(await self._asked(verb, what, path, method, *sent), self._base)
        except ApiError as error:
            if error.status in {404, 409}:
                raise
            raise api_server_error(error, rule) from error
        except KubeError as error:
            raise api_server_error(error, rule) from error

    async def asked(self, path: str, what: str) -> Any:
        """Return an object; raises KubeError."""
        return await self._get(path, what)

    async def dry_run(self, path: str, body: Any, what: str) -> None:
        """Apply an object without storing it; the query of the path says `dryRun=All`.

        Raises:
            KubeError: The server refused, or could not be asked.
        """
        assert "dryRun=All" in path, path
        headers = {"Content-Type": "application/apply-patch+yaml"}
        await self._asked("apply", what, path, "PATCH", headers, msgspec.json.encode(body))

    async def tunnel(self, path: str) -> aiohttp.ClientWebSocketResponse:
        """Open a WebSocket with channels.

        Raises:
            KubeError: The server refused, or could not be reached.
        """
        try:
            return await self._tunnel(path)
        except Unauthorized:
            return await self._tunnel(path)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def _get(self, path: str, what: str) -> Any:
        return _decoded(await self._asked("get", what, path), self._base)

    async def _asked(self, verb: str, what: str, path: str, *request: Any) -> bytes:
        """Return the body of a success; a request is sent again after a new login."""
        status, headers, body = await self._read(path, *request)
        if status == 401:
            status, headers, body = await self._read(path, *request)
        if status >= 300:
            raise refusal(status, headers, body, verb, what)
        return body

    async def _read(
        self, path: str, method: str = "GET", more: Mapping[str, str] = MappingProxyType({}),
        data: bytes | None = None,
    ) -> tuple[int, Mapping[str, str], bytes]:  # fmt: skip
        headers = await self._login.credentials.headers()
        session = self._opened()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                async with session.request(
                    method,
                    self._base + path,
                    headers={**headers, **more},
                    data=data,
                    **self._settings,
                ) as answer:
                    body = b"" if answer.status == 101 else await answer.read()
        except _FAILURES as error:
            raise self._unreachable(error) from error
        if answer.status == 401:
            self._login.credentials.on_unauthorized(headers)
        received = {name.lower(): value for name, value in answer.headers.items()}
        return answer.status, received, body

    async def _tunnel(self, path: str) -> aiohttp.ClientWebSocketResponse:
        headers = await self._login.credentials.headers()
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                opened: aiohttp.ClientWebSocketResponse = await self._opened().ws_connect(
                    self._base + path,
                    protocols=(PROTOCOL,),
                    headers=headers,
                    max_msg_size=0,
                    **self._settings,
                )
                return opened
        except aiohttp.WSServerHandshakeError as error:
            # aiohttp does not tell the reason of a refusal, so it is asked for once more.
            status, received, body = await self._read(path, "GET", _UPGRADE)
            if status == 101:
                raise Unreachable("the tunnel was refused once") from error
            raise refusal(status, received, body, "forward", "ports") from error
        except _FAILURES as error:
            raise self._unreachable(error) from error

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            secured = self._login.tls
            connector = aiohttp.TCPConnector(ssl=True if secured is None else secured.context)
            self._session = aiohttp.ClientSession(connector=connector)
        return self._session

    def _unreachable(self, error: Exception) -> Unreachable:
        reason = "no response in time" if isinstance(error, TimeoutError) else str(error)
        return Unreachable(f"the API server {self._base} cannot be reached: {reason}")


def _decoded(body: bytes, server: str) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Unreachable(f"{server}: the response is not JSON") from error


def _proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL; `None` without one.

    Source: golang.org/x/net v0.49.0 http/httpproxy, Config.ProxyFunc.
    """
    parts, proxies = urlsplit(url), getproxies()
    host, proxy = parts.hostname or "", proxies.get(parts.scheme)
    if not proxy or host == "localhost" or proxy_bypass(parts.netloc):
        return None
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        pass
    else:
        if address.is_loopback or _is_in(address, proxies.get("no", "")):
            return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_in(address: ipaddress.IPv4Address | ipaddress.IPv6Address, excluded: str) -> bool:
    """Return whether an address belongs to one of the networks in `NO_PROXY`."""
    for each in excluded.split(","):
        try:
            if address in ipaddress.ip_network(each.strip(), strict=False):
                return True
        except ValueError:
            continue  # not a network
    return False
