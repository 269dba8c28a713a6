"""What tests of the web endpoints and of their certificates share."""

import asyncio
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from prometheus_client import CollectorRegistry
from structlog.testing import CapturingLogger

from scheduler.observe.metrics.metrics import Metrics
from scheduler.observe.pages.routes import Routes, ZPage
from scheduler.observe.server import access
from scheduler.observe.server.access import Authorize
from scheduler.observe.server.listen import Listen
from scheduler.observe.server.web import Web
from scheduler.service.clock import Clock

PLAIN = Listen(plain=True)


@pytest.fixture
def write_pair() -> Callable[[Path, str], tuple[str, str]]:
    """Return a function that writes a certificate and its key, and returns their paths."""
    return _write_pair


def _write_pair(directory: Path, name: str) -> tuple[str, str]:
    """Write a certificate for a name, in place of an older one as a kubelet does it."""
    today = datetime.fromtimestamp(Clock().wall(), UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - timedelta(hours=1))
        .not_valid_after(today + timedelta(hours=1))
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    contents = {
        "tls.crt": certificate.public_bytes(pem),
        "tls.key": key.private_bytes(
            pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ),
    }
    # Both files are behind one link, which is replaced at once.
    pair = Path(tempfile.mkdtemp(dir=directory))
    for file, content in contents.items():
        (pair / file).write_bytes(content)
        if not (directory / file).is_symlink():
            (directory / file).symlink_to(f"..data/{file}")
    (directory / "..new").symlink_to(pair.name)
    os.replace(directory / "..new", directory / "..data")
    return str(directory / "tls.crt"), str(directory / "tls.key")


def pod_page(query: Mapping[str, str]) -> object:
    if "pod" not in query:
        raise ValueError("say which pod: ?pod=<namespace>/<name>")
    if query["pod"] != "shop/web":
        raise LookupError("no such pod")
    return {"pod": query["pod"], "attempts": 3}


def named_page(query: Mapping[str, str]) -> object:
    return {"pod": f"{query['namespace']}/{query['name']}", "more": query.get("more", "")}


async def parts_page(query: Mapping[str, str]) -> AsyncIterator[bytes]:
    for part in (b"[1,", b"2", b"]"):
        await asyncio.sleep(0)
        yield part


@pytest.fixture
def pages() -> Routes:
    """Return pages of every kind, and one check that fails."""
    return Routes(
        metrics=Metrics(CollectorRegistry()).exposition,
        configz=lambda: {"componentconfig": {"parallelism": 16}},
        flagz=lambda: ZPage("Flagz", "it", "its flags\n", {"flags": {"v": "2"}}),
        statusz=lambda: ZPage("Statusz", "it", "what runs\n", {"uptimeSeconds": 7}),
        readyz={"informer-sync": lambda: "pods not listed"},
        debug={
            "/debug/pod": pod_page,
            "/debug/text": lambda query: "plain",
            "/debug/pods/{namespace}/{name}": named_page,
            "/debug/parts": parts_page,
        },
    )


@pytest.fixture
async def serve(pages: Routes) -> AsyncIterator["Serve"]:
    """Return a function that starts a server on a free port."""
    serve = Serve(pages)
    yield serve
    await serve.close()


class Served:
    """A running web server and a client for it."""

    def __init__(self, web: Web, session: aiohttp.ClientSession, scheme: str) -> None:
        self.web = web
        self._session = session
        self._base = f"{scheme}://127.0.0.1:{web.port}"

    async def get(self, path: str, **more) -> tuple[int, str]:
        async with self._session.get(self._base + path, **more) as response:
            return response.status, await response.text()

    async def headers(self, path: str, **more) -> Mapping[str, str]:
        async with self._session.get(self._base + path, **more) as response:
            return response.headers

    async def raw(self, request: bytes) -> bytes:
        """Send bytes and return all that comes back until the server hangs up."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.web.port)
        writer.write(request)
        try:
            async with asyncio.timeout(5):
                return await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()

    async def certificate(self) -> bytes:
        """Return the certificate that is served, as DER."""
        trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        trusting.check_hostname = False
        trusting.verify_mode = ssl.CERT_NONE
        _, writer = await asyncio.open_connection("127.0.0.1", self.web.port, ssl=trusting)
        der = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        await writer.wait_closed()
        return der

    async def post(self, path: str) -> int:
        async with self._session.post(self._base + path, data=b"x" * 100_000) as response:
            return response.status


class Serve:
    """Starts web servers and stops them in the end."""

    def __init__(self, pages: Routes) -> None:
        self.pages = pages
        self._log = CapturingLogger()
        self._webs: list[Web] = []
        self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False))

    async def __call__(
        self,
        authorize: Authorize = access.allow_all,
        listen: Listen = PLAIN,
        pages: Routes | None = None,
    ) -> Served:
        web = Web(pages or self.pages, structlog.wrap_logger(self._log, []), authorize)
        self._webs.append(web)
        bound = socket.create_server(("127.0.0.1", 0))
        await web.start(listen, Clock().wall, bound)
        return Served(web, self._session, "http" if listen.plain else "https")

    @property
    def events(self) -> list[tuple[str, str, str]]:
        """Level, event and problem of all that was logged."""
        return [
            (call.method_name, call.kwargs["event"], call.kwargs.get("problem", ""))
            for call in self._log.calls
        ]

    async def close(self) -> None:
        await self._session.close()
        for web in self._webs:
            await web.close()
