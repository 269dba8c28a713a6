"""The serving certificate of the web endpoints.

It is loaded from files if they are given, and again when they change, because certificates in a
cluster are short-lived. Otherwise it is self-signed, made at each start and again long before it
expires, and kept in memory only: it prevents eavesdropping, but does not authenticate the server.
"""

import ipaddress
import os
import ssl
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, Final, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from scheduler.model.times import Seconds

__all__ = ["Certificate", "CertificateFiles", "SelfSigned", "validity"]

_LIFETIME: Final = timedelta(days=365)
#: A self-signed certificate is replaced at this age, so that a clock that is wrong by weeks does
#: no harm.
_RENEWED_AFTER: Final = timedelta(days=270)
#: A certificate is valid from this long before it is made, because clocks differ.
_EARLIER: Final = timedelta(hours=1)


class Certificate(Protocol):
    """A serving certificate that can be replaced."""

    @property
    def context(self) -> ssl.SSLContext:
        """The TLS context with the current certificate."""

    @property
    def pem(self) -> bytes:
        """The current certificate with its chain, and its key."""

    def refresh(self, now: Seconds) -> bool:
        """Replace the certificate if it changed or is old; return whether it was replaced.

        Raises:
            OSError: The new one cannot be used; the old one stays in use.
        """


class CertificateFiles:
    """A TLS context whose certificate is reloaded when its files change.

    Args:
        cert_file: The certificate, followed by the intermediate ones.
        key_file: Its key.
        min_version: The minimum TLS version.
        ciphers: Cipher suites for TLS 1.2, under their OpenSSL names; empty for the default.

    Raises:
        OSError: A file cannot be read, or its content is invalid (`ssl.SSLError`).
    """

    def __init__(
        self,
        cert_file: str,
        key_file: str,
        min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        ciphers: str = "",
    ) -> None:
        self._paths = (Path(cert_file), Path(key_file))
        self._seen = self._signature()
        #: The TLS context with the certificate that was loaded last.
        self.context = _context(min_version, ciphers)
        self.context.load_cert_chain(*self._paths)
        #: That certificate with its chain, and its key.
        self.pem = self._read()

    def refresh(self, _now: Seconds) -> bool:
        """Load the files again if they have changed; return whether they had.

        Raises:
            OSError: The new files cannot be used; the old certificate stays in use.
        """
        signature = self._signature()
        if signature == self._seen:
            return False
        # A half-written pair must not replace the current one.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._paths)
        self.context.load_cert_chain(*self._paths)
        self.pem = self._read()
        self._seen = signature
        return True

    def _read(self) -> bytes:
        return b"\n".join(path.read_bytes() for path in self._paths)

    def _signature(self) -> tuple[tuple[int, int, int], ...]:
        stats = (path.stat() for path in self._paths)
        return tuple((stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in stats)


class SelfSigned:
    """A TLS context with a self-signed certificate, which is replaced long before it expires.

    Args:
        names: Host names and addresses of the certificate.
        now: Seconds since the epoch.
        min_version: The minimum TLS version.
        ciphers: Cipher suites for TLS 1.2, under their OpenSSL names; empty for the default.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        now: Seconds,
        min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        ciphers: str = "",
    ) -> None:
        self._names = names
        #: The TLS context with the newest certificate.
        self.context = _context(min_version, ciphers)
        #: That certificate, and its key.
        self.pem = b""
        self._made_at = now
        self._make(now)

    def refresh(self, now: Seconds) -> bool:
        """Make a new certificate if this one is old; return whether it was."""
        if now < self._made_at + _RENEWED_AFTER.total_seconds():
            return False
        self._make(now)
        return True

    def _make(self, now: Seconds) -> None:
        # ssl reads certificates from files only; this one is unnamed, and in memory if possible.
        with _nameless_file() as file:
            pem = _self_signed(self._names, datetime.fromtimestamp(now, UTC))
            file.write(pem)
            file.flush()
            self.context.load_cert_chain(f"/dev/fd/{file.fileno()}")
        self.pem = pem
        self._made_at = now


def validity(pem: bytes) -> tuple[Seconds, Seconds]:
    """Return from when to when all certificates of a chain are valid, in seconds since the epoch.

    Args:
        pem: The certificates; a key among them is ignored.
    """
    chain = x509.load_pem_x509_certificates(pem)
    start = max(each.not_valid_before_utc for each in chain)
    return start.timestamp(), min(each.not_valid_after_utc for each in chain).timestamp()


def _nameless_file() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("serving"), "w+b")
    return tempfile.TemporaryFile()


def _context(min_version: ssl.TLSVersion, ciphers: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = min_version
    if ciphers:
        context.set_ciphers(ciphers)
    context.set_alpn_protocols(["http/1.1"])
    return context


def _self_signed(names: tuple[str, ...], now: datetime) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    general = [_general(name) for name in names]
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0][:64])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName(general), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
