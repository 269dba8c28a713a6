"""Client certificates: asked for, not required; only those of the client CA authenticate a user."""

import asyncio
import contextlib
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scheduler.observe.server.access import AccessDecision, AccessVerdict, Caller, ClientIdentity
from scheduler.observe.server.client_certificates import (
    ClientAuthority,
    TlsContexts,
    TlsObject,
)
from scheduler.observe.server.listen import Listen
from scheduler.observe.server.tls import SelfSigned
from scheduler.service.clock import Clock

PEM = serialization.Encoding.PEM
CLIENT = (ExtendedKeyUsageOID.CLIENT_AUTH,)


class Ca:
    """A certificate authority that issues whatever a test wants."""

    def __init__(self, name: str = "ca", signer: "Ca | None" = None) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        self.certificate = (
            self._builder(self._subject, self._key, timedelta(hours=1), signer)
            .add_extension(constraints, critical=True)
            .sign((signer or self)._key, hashes.SHA256())
        )

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(PEM).decode()

    def _builder(self, subject, key, life, signer=None):
        today = datetime.fromtimestamp(Clock().wall(), UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name((signer or self)._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(today - timedelta(hours=2))
            .not_valid_after(today + life)
        )

    def issue(
        self, folder: Path, names: list[str], groups: tuple[str, ...] = (), *,
        usages=CLIENT, life: timedelta = timedelta(hours=1), chain: str = "",
    ) -> str:  # fmt: skip
        """Write a certificate with its key; return the path."""
        key = ec.generate_private_key(ec.SECP256R1())
        parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        parts += [x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names]
        builder = self._builder(x509.Name(parts), key, life)
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        private = key.private_bytes(
            PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = folder / f"{x509.random_serial_number()}.pem"
        path.write_bytes(private + certificate.public_bytes(PEM) + chain.encode())
        return str(path)


class Judge:
    """Allows every request, and notes who has sent it."""

    def __init__(self) -> None:
        self.clients: list[ClientIdentity | None] = []

    async def __call__(self, caller: Caller) -> AccessDecision:
        self.clients.append(caller.client)
        return AccessDecision(AccessVerdict.ALLOWED)


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def ca() -> Ca:
    return Ca()


@pytest.fixture
async def served(serve, judge: Judge, ca: Ca):
    served = await serve(judge, Listen())
    served.web.clients.set(ca.pem)
    return served


async def ask(served, path: str, certificate: str = "", tls: ssl.TLSVersion | None = None) -> bytes:
    """Send a request with a client certificate; return the first line of the answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if tls is not None:
        context.minimum_version = context.maximum_version = tls
    if certificate:
        context.load_cert_chain(certificate)
    reader, writer = await asyncio.open_connection("127.0.0.1", served.web.port, ssl=context)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    try:
        async with asyncio.timeout(5):
            answer = await reader.read()
    finally:
        writer.close()
    return answer.partition(b"\r\n")[0]


@pytest.mark.parametrize("tls", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_a_certificate_names_user_and_groups(served, judge, ca, tmp_path, tls):
    certificate = ca.issue(tmp_path, ["ada"], ("developers", "reviewers"))

    assert await ask(served, "/configz", certificate, tls) == b"HTTP/1.1 200 OK"

    (client,) = judge.clients
    assert (client.username, sorted(client.groups)) == ("ada", ["developers", "reviewers"])
    assert len(client.fingerprint) == 64


async def test_a_client_without_a_certificate_is_served(served, judge):
    assert await ask(served, "/configz") == b"HTTP/1.1 200 OK"
    assert judge.clients == [None]


async def test_before_a_ca_is_known_no_certificate_is_asked_for(serve, judge, ca, tmp_path):
    served = await serve(judge, Listen())

    await ask(served, "/configz", ca.issue(tmp_path, ["ada"]))

    assert judge.clients == [None]


def unknown(ca: Ca, folder: Path) -> str:
    return Ca("other").issue(folder, ["ada"])


def same_name(ca: Ca, folder: Path) -> str:
    return Ca("ca").issue(folder, ["ada"])


def expired(ca: Ca, folder: Path) -> str:
    return ca.issue(folder, ["ada"], life=timedelta(hours=-1))


def of_a_server(ca: Ca, folder: Path) -> str:
    return ca.issue(folder, ["ada"], usages=(ExtendedKeyUsageOID.SERVER_AUTH,))


def without_name(ca: Ca, folder: Path) -> str:
    return ca.issue(folder, [], ("developers",))


def by_a_user(ca: Ca, folder: Path) -> str:
    return Ca("mallory").issue(folder, ["ada"], chain=ca.pem)


@pytest.mark.parametrize(
    "made", [unknown, same_name, expired, of_a_server, without_name, by_a_user]
)
@pytest.mark.parametrize("tls", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_an_invalid_certificate_names_no_user_and_breaks_nothing(
    served, judge, ca, tmp_path, made, tls
):
    certificate = made(ca, tmp_path)

    assert await ask(served, "/healthz", certificate, tls) == b"HTTP/1.1 200 OK"
    assert await ask(served, "/configz", certificate, tls) == b"HTTP/1.1 200 OK"

    assert judge.clients == [None]


async def test_a_certificate_without_usages_is_valid(served, judge, ca, tmp_path):
    await ask(served, "/configz", ca.issue(tmp_path, ["ada"], usages=()))

    assert judge.clients[0].username == "ada"


async def test_an_intermediate_authority_may_be_sent_along(served, judge, ca, tmp_path):
    between = Ca("between", ca)

    await ask(served, "/configz", between.issue(tmp_path, ["ada"], chain=between.pem))

    assert judge.clients[0].username == "ada"


async def test_of_several_names_the_last_one_counts(served, judge, ca, tmp_path):
    await ask(served, "/configz", ca.issue(tmp_path, ["first", "last"]))

    assert judge.clients[0].username == "last"


async def test_another_ca_counts_from_the_next_connection_on(served, judge, ca, tmp_path):
    other = Ca("other")
    old, new = ca.issue(tmp_path, ["old"]), other.issue(tmp_path, ["new"])
    await ask(served, "/configz", old)

    served.web.clients.set(other.pem)
    await ask(served, "/configz", old)
    await ask(served, "/configz", new)

    assert [client and client.username for client in judge.clients] == ["old", None, "new"]


async def test_a_connection_of_an_earlier_ca_is_not_authenticated_any_more(
    served, judge, ca, tmp_path
):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(ca.issue(tmp_path, ["ada"]))
    reader, writer = await asyncio.open_connection("127.0.0.1", served.web.port, ssl=context)
    for pem in (ca.pem, Ca("other").pem):
        served.web.clients.set(pem)
        writer.write(b"GET /configz HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(5):
            await reader.readuntil(b"}}")
    writer.close()

    assert [client and client.username for client in judge.clients] == ["ada", None]


async def test_sessions_are_not_resumed(served, judge, ca, tmp_path):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.load_cert_chain(unknown(ca, tmp_path))
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.web.port, ssl=context)
        writer.write(b"GET /configz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await reader.read()
        assert not writer.get_extra_info("ssl_object").session_reused
        writer.close()

    assert judge.clients == [None, None]


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", b"\0" * 4000])
async def test_what_is_no_handshake_is_hung_up_on(served, sent):
    reader, writer = await asyncio.open_connection("127.0.0.1", served.web.port)
    writer.write(sent)
    if sent:
        writer.write_eof()
        async with asyncio.timeout(6):
            await reader.read()
    writer.close()

    assert await ask(served, "/healthz") == b"HTTP/1.1 200 OK"


@pytest.mark.parametrize("text", ["no PEM", "-----BEGIN CERTIFICATE-----\nAA==\n"])
def test_other_text_is_no_authority(text, ca):
    authority = ClientAuthority()
    authority.set(ca.pem)

    with pytest.raises(ValueError, match=r"."):
        authority.set(text)

    assert authority.certificates == (ca.certificate,)


async def test_an_unusable_serving_certificate_leaves_the_server_as_it_is(ca):
    broken = SelfSigned(("localhost",), Clock().wall())
    broken.pem = b"nothing"
    authority, problems = ClientAuthority(), []
    authority.set(ca.pem)
    contexts = TlsContexts(broken, authority, Clock().wall, problems.append)

    assert contexts.current() is contexts.current() is broken.context
    assert len(problems) == 1


def connected(ca: Ca) -> tuple[TlsObject, ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    """Return server and client after their handshake, and what they write to."""
    wall, authority = Clock().wall, ClientAuthority()
    authority.set(ca.pem)
    context = TlsContexts(SelfSigned(("127.0.0.1",), wall()), authority, wall, print).current()
    incoming, outgoing, received = ssl.MemoryBIO(), ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    client = trusting.wrap_bio(received, incoming)
    for _ in range(4):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
            received.write(outgoing.read())
    assert isinstance(server, TlsObject)
    return server, client, outgoing, incoming


def test_bytes_that_are_not_read_stay_where_they_are_counted(ca):
    """A client that sends while it is answered must not fill the memory of OpenSSL."""
    server, client, _, incoming = connected(ca)
    for _ in range(64):
        client.write(b"x" * 16_000)
    before = incoming.pending

    for _ in range(3):
        server.write(b"answer")

    assert incoming.pending == before > 1_000_000
    assert sum(len(server.read(16_384)) for _ in range(64)) == 64 * 16_000


def test_a_long_answer_is_taken_at_once(ca):
    """asyncio copies what is left over: 40 MB in parts of 16 kB took 13 seconds."""
    server, _, outgoing, _ = connected(ca)

    assert server.write(b"x" * 1_000_000) == 1_000_000
    assert outgoing.pending > 1_000_000
