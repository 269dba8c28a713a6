"""The console for a cluster on stand-ins of the scheduler, and a client that sends anything."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from scheduler.kube.http.tls import Tls
from scheduler.web_console.public_site import PublicSite
from scheduler.web_console.replicas import Replicas
from scheduler.web_console.server import ConsoleServer, page_files
from scheduler.web_console.target import Target
from scheduler.web_console.token_sign_in import COOKIE, TokenSignIn

__all__ = ["ADA", "BOB", "FORM", "PublicConsole", "public_console", "signed_in"]

ADA, BOB = "token-of-ada", "token-of-bob"
FORM: Final = "application/x-www-form-urlencoded"


@dataclass
class PublicConsole:
    """A console that listens, and one client of it."""

    users: TokenSignIn
    server: ConsoleServer
    replicas: Replicas
    origin: str
    port: int
    client: aiohttp.ClientSession
    #: What was logged: events with fields.
    log: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    async def ask(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, str, Mapping[str, str]]:
        """Send a request as it is; return status, body and headers."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        url = URL(f"http://127.0.0.1:{self.port}{path}", encoded=True)
        async with self.client.request(
            method, url, data=body, headers=named, allow_redirects=False
        ) as answer:
            return answer.status, await answer.text(), answer.headers.copy()

    async def sign_in(self, token: str, path: str = "/session", **headers: str) -> tuple[int, str]:
        """Send the form as a browser does; return the status, and the cookie or else the page."""
        body = urlencode({"token": token}).encode()
        sent = {"Origin": self.origin, "Content-Type": FORM, **headers}
        status, text, answered = await self.ask("POST", path, body, **sent)
        cookie = answered.get("Set-Cookie", "").partition(";")[0]
        return status, cookie or text

    async def watch(self, cookie: str) -> aiohttp.ClientResponse:
        """Open a watch, and wait until it begins."""
        url = f"{self.origin}/api/v1/summary?watch=1"
        answer = await self.client.get(url, headers={"Cookie": cookie})
        await answer.content.readline()
        return answer

    async def ended(self, watch: aiohttp.ClientResponse) -> None:
        """Wait until a watch is cut off."""
        with contextlib.suppress(aiohttp.ClientError):
            async with asyncio.timeout(10):
                await watch.content.read()
        watch.close()

    async def send(self, data: bytes) -> bytes:
        """Send bytes, and return all that comes until the server closes."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        try:
            async with asyncio.timeout(20):
                return await reader.read()
        finally:
            writer.close()

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return what was logged under a name."""
        return [fields for event, fields in self.log if event == name]

    @property
    def forwarded(self) -> int:
        """How many requests are being forwarded."""
        return self.server._forwards["all", ""]

    @property
    def cookies(self) -> int:
        """How many sessions there are."""
        return len(self.users._sessions)


@contextlib.asynccontextmanager
async def public_console(
    urls: Sequence[str],
    *,
    tls: Tls | None = None,
    server_name: str = "",
    url: str = "",
) -> AsyncIterator[PublicConsole]:
    """Serve the console on loopback; by default under that address."""
    log: list[tuple[str, dict[str, Any]]] = []

    def report(event: str, **fields: Any) -> None:
        log.append((event, fields))

    listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
    listener.setblocking(False)
    port = int(listener.getsockname()[1])
    origin = f"http://127.0.0.1:{port}"
    replicas = Replicas(urls, tls, server_name, report)
    users = TokenSignIn(url.format(port=port) or origin, replicas.send, report)
    server = ConsoleServer(replicas, page_files(), users, Target("prod", colour="red"))
    serving = asyncio.create_task(PublicSite(server.application(), listener).run())
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as client:
        try:
            yield PublicConsole(users, server, replicas, origin, port, client, log)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            await replicas.close()
            listener.close()


async def signed_in(console: PublicConsole, token: str = ADA) -> str:
    """Return the cookie of a new session."""
    status, cookie = await console.sign_in(token)
    assert (status, cookie.partition("=")[0]) == (303, COOKIE)
    return cookie
