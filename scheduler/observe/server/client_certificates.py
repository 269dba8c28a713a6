"""Client certificates: requested but not required, and verified by the cluster's client CA.

Python's `ssl` ends the handshake with a certificate that it cannot verify. Then a client that sends
one, whatever for, could neither probe nor use its token. So pyOpenSSL does the handshake where a
client CA is known: each certificate is accepted, and the result of its verification is kept. The
certificate of an unknown authority authenticates no user, and is otherwise ignored.

Sessions are not resumed: a resumed session would carry a certificate that was verified earlier.

Source: apiserver v0.36.3 pkg/server/secure_serving.go (`tls.RequestClientCert`),
pkg/authentication/request/x509 (`CommonNameUserConversion`).
"""

import ssl
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509.oid import NameOID
from OpenSSL import SSL, crypto

from scheduler.model.times import Seconds
from scheduler.observe.server.access import ClientIdentity
from scheduler.observe.server.tls import Certificate

__all__ = ["ClientAuthority", "RequestingContext", "TlsContexts", "TlsObject", "client_of"]

#: The most bytes that are read from the memory of a connection at once.
_CHUNK: Final = 16 * 1024
_VERSIONS: Final = {
    ssl.TLSVersion.TLSv1_2: SSL.TLS1_2_VERSION,
    ssl.TLSVersion.TLSv1_3: SSL.TLS1_3_VERSION,
}
_PROTOCOL: Final = b"http/1.1"


class ClientAuthority:
    """The certificates that sign those of clients. Set in the scheduler's loop, read in a thread.

    One assignment replaces everything, so no lock is needed.
    """

    def __init__(self) -> None:
        #: Empty until the certificates are known, and while there are none.
        self.certificates: tuple[x509.Certificate, ...] = ()

    def set(self, pem: str) -> bool:
        """Replace the certificates; return whether they are other ones.

        Args:
            pem: The certificates; empty for none, so that no client certificate is asked for.

        Raises:
            ValueError: The text has no certificates.
        """
        fresh = tuple(x509.load_pem_x509_certificates(pem.encode())) if pem else ()
        changed = fresh != self.certificates
        if changed:
            self.certificates = fresh
        return changed


class RequestingContext:
    """A TLS context that asks clients for a certificate.

    Args:
        plain: The context without that; its versions and cipher suites hold here, too.
        pem: The serving certificate with its chain, and its key.
        authority: The present client CA.
        wall: Returns the time of day.

    Raises:
        OSError: The serving certificate cannot be used.
    """

    def __init__(
        self,
        plain: ssl.SSLContext,
        pem: bytes,
        authority: ClientAuthority,
        wall: Callable[[], Seconds],
    ) -> None:
        #: The authority by which certificates are verified.
        self.certificates: Final = authority.certificates
        self._authority = authority
        self._wall = wall
        context = self._context = SSL.Context(SSL.TLS_SERVER_METHOD)
        context.set_min_proto_version(_VERSIONS[plain.minimum_version])
        old = [each["name"] for each in plain.get_ciphers() if each["protocol"] != "TLSv1.3"]
        if old:
            context.set_cipher_list(":".join(old).encode())
        context.set_options(SSL.OP_NO_TICKET | SSL.OP_NO_COMPRESSION | SSL.OP_NO_RENEGOTIATION)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_alpn_select_callback(_protocol)
        context.set_verify(SSL.VERIFY_PEER, _verified)
        try:
            self._load(pem)
        except (SSL.Error, crypto.Error, ValueError, TypeError) as error:
            raise OSError(f"the certificate cannot be used: {error}") from error

    def _load(self, pem: bytes) -> None:
        context = self._context
        first, *chain = x509.load_pem_x509_certificates(pem)
        context.use_certificate(first)
        for certificate in chain:
            context.add_extra_chain_cert(certificate)
        context.use_privatekey(serialization.load_pem_private_key(pem, None))  # type: ignore[arg-type]
        context.check_privatekey()
        store = context.get_cert_store()
        assert store is not None
        for certificate in self.certificates:
            trusted = crypto.X509.from_cryptography(certificate)
            store.add_cert(trusted)
            context.add_client_ca(certificate)

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **_options: Any
    ) -> "TlsObject":
        """Return the TLS side of a connection, as `ssl.SSLContext.wrap_bio` does."""
        connection = SSL.Connection(self._context, None)
        connection.set_accept_state()
        return TlsObject(connection, incoming, outgoing, self.client)

    def client(self, connection: SSL.Connection) -> ClientIdentity | None:
        """Return the user of a connection; `None` without a certificate that is valid now."""
        if connection.get_app_data() is not None or self.certificates != (
            self._authority.certificates
        ):
            return None
        certificate = connection.get_peer_certificate(as_cryptography=True)
        if certificate is None:
            return None
        now = self._wall()
        begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
        if not begin.timestamp() <= now <= end.timestamp():
            return None
        return _identity(certificate)


class TlsContexts:
    """The TLS context of new connections: it asks for a certificate once a client CA is known.

    Args:
        certificate: The serving certificate.
        authority: The client CA.
        wall: Returns the time of day.
        report: Called with the problem where the serving certificate cannot be used with a client
            CA; then no certificate is asked for.
    """

    def __init__(
        self,
        certificate: Certificate,
        authority: ClientAuthority,
        wall: Callable[[], Seconds],
        report: Callable[[str], object],
    ) -> None:
        self._report = report
        self._certificate = certificate
        self._authority = authority
        self._wall = wall
        self._made: tuple[object, RequestingContext | None] | None = None

    def current(self) -> ssl.SSLContext | RequestingContext:
        """Return the context for a connection that is made now."""
        plain, authority = self._certificate.context, self._authority
        if not authority.certificates:
            return plain
        pem = self._certificate.pem
        made_from = (pem, authority.certificates)
        if self._made is None or self._made[0] != made_from:
            self._made = (made_from, self._make(plain, pem))
        return self._made[1] or plain

    def _make(self, plain: ssl.SSLContext, pem: bytes) -> RequestingContext | None:
        try:
            return RequestingContext(plain, pem, self._authority, self._wall)
        except OSError as error:
            self._report(str(error))
            return None


class TlsObject:
    """The TLS side of one connection, with the methods of `ssl.SSLObject` that asyncio uses."""

    def __init__(
        self,
        connection: SSL.Connection,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        client: Callable[[SSL.Connection], ClientIdentity | None],
    ) -> None:
        self._connection = connection
        self._incoming = incoming
        self._outgoing = outgoing
        self._client = client

    @property
    def client(self) -> ClientIdentity | None:
        """The user of the client's certificate."""
        return self._client(self._connection)

    def do_handshake(self) -> None:
        """Continue the handshake; see `ssl.SSLObject`."""
        self._run(self._connection.do_handshake)

    def read(self, size: int, buffer: Any = None) -> Any:
        """Read decrypted bytes; see `ssl.SSLObject`."""
        try:
            data = self._run(lambda: self._connection.recv(size))
        except ssl.SSLZeroReturnError:
            data = b""
        if buffer is None:
            return data
        buffer[: len(data)] = data
        return len(data)

    def write(self, data: Any) -> int:
        """Encrypt bytes, all of them; return how many; see `ssl.SSLObject`.

        asyncio copies what is left over each time, which would take the square of a long answer.
        """
        whole = memoryview(data)
        for start in range(0, len(whole), _CHUNK):
            part = bytes(whole[start : start + _CHUNK])
            sent = 0
            while sent < len(part):
                sent += int(self._run(partial(self._connection.send, part[sent:])))
        return len(whole)

    def unwrap(self) -> None:
        """Continue to shut TLS down; see `ssl.SSLObject`."""
        if not self._run(self._connection.shutdown):
            raise ssl.SSLWantReadError

    def getpeercert(self, binary_form: bool = False) -> dict[str, Any]:
        """Return nothing: `client` has what counts."""
        del binary_form
        return {}

    def cipher(self) -> tuple[str, str, int] | None:
        """Return the cipher suite, the version of TLS and the secret bits."""
        connection = self._connection
        name, bits = connection.get_cipher_name(), connection.get_cipher_bits()
        return None if name is None else (name, connection.get_protocol_version_name(), bits or 0)

    def compression(self) -> None:
        """Return that nothing is compressed."""

    def _run(self, step: Callable[[], Any]) -> Any:
        """Take a step with as many of the bytes that have come as it needs; pass on what it makes.

        The others stay where asyncio counts them, and reads no more when there are many.
        """
        try:
            while True:
                try:
                    return step()
                except (SSL.WantReadError, SSL.WantWriteError) as error:
                    data = self._incoming.read(_CHUNK)
                    if not data:
                        raise ssl.SSLWantReadError from error
                    self._connection.bio_write(data)
        except SSL.ZeroReturnError as error:
            raise ssl.SSLZeroReturnError from error
        except SSL.Error as error:
            raise ssl.SSLError(1, f"TLS failed: {error}") from error
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        while True:
            try:
                self._outgoing.write(self._connection.bio_read(_CHUNK))
            except SSL.WantReadError:
                return


def client_of(tls: object) -> ClientIdentity | None:
    """Return the user of a connection by its TLS side; `None` without a valid certificate."""
    return tls.client if isinstance(tls, TlsObject) else None


def _verified(
    connection: SSL.Connection, _certificate: object, _error: int, _depth: int, ok: int
) -> bool:
    """Let the handshake go on, and remember if a certificate could not be verified."""
    if not ok:
        connection.set_app_data("not verified")
    return True


def _protocol(_connection: SSL.Connection, offered: Sequence[bytes]) -> Any:
    return _PROTOCOL if _PROTOCOL in offered else SSL.NO_OVERLAPPING_PROTOCOLS


def _identity(certificate: x509.Certificate) -> ClientIdentity | None:
    """Return the user that a certificate names; `None` if it names none."""
    try:
        subject = certificate.subject
    except ValueError:
        return None
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    groups = subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    # Of several names, the last one counts, as in Go.
    user = names[-1].value if names else ""
    if not isinstance(user, str) or not user:
        return None
    return ClientIdentity(
        user,
        tuple(group.value for group in groups if isinstance(group.value, str)),
        certificate.fingerprint(hashes.SHA256()).hex(),
    )
