"""Connections to a port of a pod, through the API server.

Each connection is a WebSocket with the subprotocol `v4.channel.k8s.io`, whose messages begin with
the number of a channel: 0 for data, 1 for errors. The first message of each channel has the port.
The event loop sees one end of a pair of sockets and speaks TLS over it; a task copies between the
other end and the WebSocket. Nothing listens on this machine, so no other user of it can use the
connection.

Source: cri-streaming v0.36.1 pkg/streaming/portforward/websocket.go.
"""

import asyncio
import contextlib
import socket
import ssl
from typing import Final
from urllib.parse import quote

import aiohttp

from scheduler.kube.errors import ApiError, Forbidden, KubeError, NotFound, Unreachable
from scheduler.kube.http.connection import HttpConnection
from scheduler.kubectl.api_server import ApiServer
from scheduler.kubectl.errors import CommandError, api_server_error

__all__ = ["PortForward"]

DATA, ERROR = 0, 1
#: How much is read of the socket at once.
PART_BYTES: Final = 65_536
#: For the TLS handshake with the pod.
HANDSHAKE_SECONDS: Final = 10.0
RULE: Final = (
    '  - apiGroups: [""]\n    resources: ["pods/portforward"]\n    verbs: ["create", "get"]'
)


class PortForward:
    """Makes connections to a port of a pod; it can be used for several ones at once.

    Args:
        api: The API server.
        namespace: Of the pod.
        pod: Its name.
        port: A port on which the pod listens.
        context: How to verify the pod, and the client certificate.
        server_name: The name that the certificate of the pod must have, if it is verified.
    """

    def __init__(
        self,
        api: ApiServer,
        namespace: str,
        pod: str,
        port: int,
        context: ssl.SSLContext,
        server_name: str,
    ) -> None:  # fmt: skip
        self._api = api
        base = f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(pod, safe='')}"
        self._path = f"{base}/portforward?ports={port}"
        self._pod = f"{namespace}/{pod}"
        self._context = context
        self._server_name = server_name
        self._tunnels: set[asyncio.Task[None]] = set()

    async def connect(self) -> HttpConnection:
        """Return a new connection, after the TLS handshake.

        Raises:
            PluginError: The API server refuses.
            Unreachable: The pod does not answer.
        """
        try:
            channel = await self._api.tunnel(self._path)
        except ApiError as error:
            raise self._refused(error) from error
        near, far = socket.socketpair()
        tunnel = _Tunnel(channel, far)
        task = asyncio.create_task(tunnel.run())
        self._tunnels.add(task)
        task.add_done_callback(self._tunnels.discard)
        return await self._secured(near, tunnel)

    async def close(self) -> None:
        """End all tunnels."""
        for task in self._tunnels:
            task.cancel()
        await asyncio.gather(*self._tunnels, return_exceptions=True)

    async def _secured(self, near: socket.socket, tunnel: "_Tunnel") -> HttpConnection:
        connection = HttpConnection()
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await asyncio.get_running_loop().create_connection(
                    lambda: connection,
                    sock=near,
                    ssl=self._context,
                    server_hostname=self._server_name,
                )
        except ssl.SSLCertVerificationError as error:
            raise CommandError(
                f"the certificate of pod {self._pod} is not trusted: {error.verify_message}",
                "--certificate-authority names the file of its authority, --tls-server-name the"
                " name in it",
            ) from error
        except (OSError, TimeoutError) as error:
            near.close()
            problem = tunnel.problem or str(error) or "no response in time"
            raise Unreachable(f"pod {self._pod}: {problem}", sent=False) from error
        return connection

    def _refused(self, error: KubeError) -> KubeError | CommandError:
        if isinstance(error, NotFound):  # the leader may have changed
            return Unreachable(f"pod {self._pod}, which leads, does not exist", sent=False)
        if isinstance(error, Forbidden):
            return api_server_error(error, RULE)
        return CommandError(
            f"no port of pod {self._pod} can be forwarded: {error}",
            "check that it works with kubectl:\n"
            f"  kubectl port-forward -n {self._pod.replace('/', ' pod/')} 10259",
        )


class _Tunnel:
    """Copies between a WebSocket and a socket, until one of them ends."""

    def __init__(self, channel: aiohttp.ClientWebSocketResponse, far: socket.socket) -> None:
        far.setblocking(False)
        self._channel = channel
        self._far = far
        #: What the other side said about an error.
        self.problem = ""

    async def run(self) -> None:
        """Copy in both directions."""
        copies = [asyncio.create_task(self._receive()), asyncio.create_task(self._send())]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in copies:
                each.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
            self._far.close()
            with contextlib.suppress(aiohttp.ClientError, OSError):
                await self._channel.close()

    async def _receive(self) -> None:
        """Copy what the pod sends; leave out the port at the beginning of each channel."""
        loop = asyncio.get_running_loop()
        skip = {DATA: 2, ERROR: 2}
        async for message in self._channel:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            number, data = message.data[0], message.data[1:]
            left_out = min(skip.get(number, 0), len(data))
            if left_out:
                skip[number] -= left_out
                data = data[left_out:]
            if number == DATA:
                await loop.sock_sendall(self._far, data)
            elif number == ERROR and data:
                self.problem += data.decode(errors="replace")

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        while data := await loop.sock_recv(self._far, PART_BYTES):
            await self._channel.send_bytes(bytes([DATA]) + data)
