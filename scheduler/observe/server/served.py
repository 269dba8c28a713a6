"""The connections that a web server serves, by the protocols that it makes for them."""

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from scheduler.observe.server.connections import OpenConnection

__all__ = ["ServedConnections"]


class Runner(Protocol):
    """Runs a web server, as `AppRunner` of aiohttp."""

    @property
    def server(self) -> Callable[[], asyncio.Protocol] | None:
        """Makes protocols while the server runs."""


class ServedConnections:
    """The connection of each protocol, and the other way round."""

    def __init__(self, runner: Runner) -> None:
        self._runner: Final = runner
        self._connections: dict[asyncio.BaseProtocol, OpenConnection] = {}
        self._protocols: dict[OpenConnection, asyncio.BaseProtocol] = {}

    def protocol(self, connection: OpenConnection) -> asyncio.Protocol:
        """Return the protocol of a new connection.

        Raises:
            ConnectionError: The server has stopped.
        """
        server = self._runner.server
        if server is None:
            raise ConnectionError("the server has stopped")
        protocol = server()
        self._connections[protocol] = connection
        self._protocols[connection] = protocol
        return protocol

    def forget(self, connection: OpenConnection) -> None:
        """Forget a connection that is lost."""
        protocol = self._protocols.pop(connection, None)
        if protocol is not None:
            del self._connections[protocol]

    def of(self, protocol: asyncio.BaseProtocol) -> OpenConnection | None:
        """Return the connection of a protocol; `None` if it is lost."""
        return self._connections.get(protocol)
