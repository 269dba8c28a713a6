"""The certificate that the web endpoints are served with.

From files, when they are given; they are read again when they change, because certificates in a
cluster are short-lived. Else a self-signed one, made at each start and again long before it ends,
and kept in memory only: it keeps listeners out, but does not prove which process answers.
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

__all__ = ["Certificate", "CertificateFiles", "SelfSigned"]

_LIFETIME: Final = timedelta(days=365)
#: A certificate of our own is replaced at this age, so that a clock that is wrong by weeks does no
#: harm.
_RENEWED_AFTER: Final = timedelta(days=270)
#: Clocks differ; a certificate must not seem to come from the future.
_EARLIER: Final = timedelta(hours=1)


class Certificate(Protocol):
    """Something that connections can be served with."""

    @property
    def context(self) -> ssl.SSLContext:
        """Serves connections with the certificate that is in force."""

    def refresh(self, now: Seconds) -> bool:
        """Replace the certificate if there is a new one, or need for one; return whether it was.

        Raises:
            OSError: The new one cannot be used; the old one still serves.
        """


class CertificateFiles:
    """A TLS context whose certificate follows its files.

    Args:
        cert_file: The certificate, with those between it and its authority.
        key_file: Its key.
        min_version: The oldest protocol that is spoken.
        ciphers: Suites up to TLS 1.2, as OpenSSL calls them; empty for its own choice.

    Raises:
        OSError: A file cannot be read, or is not what it should be (`ssl.SSLError`).
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
        #: Serves connections with the certificate that was loaded last.
        self.context = _context(min_version, ciphers)
        self.context.load_cert_chain(*self._paths)

    def refresh(self, _now: Seconds) -> bool:
        """Load the files again if they have changed; return whether they had.

        Raises:
            OSError: The new files cannot be used; the old certificate still serves.
        """
        signature = self._signature()
        if signature == self._seen:
            return False
        # A half-written pair must not get further.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(*self._paths)
        self.context.load_cert_chain(*self._paths)
        self._seen = signature
        return True

    def _signature(self) -> tuple[tuple[int, int, int], ...]:
        stats = (path.stat() for path in self._paths)
        return tuple((each.st_ino, each.st_mtime_ns, each.st_size) for each in stats)


class SelfSigned:
    """A TLS context with a certificate of its own signing, which is replaced long before it ends.

    Args:
        names: The host names and addresses that it is for.
        now: Seconds since the epoch.
        min_version: The oldest protocol that is spoken.
        ciphers: Suites up to TLS 1.2, as OpenSSL calls them; empty for its own choice.
    """

    def __init__(
        self,
        names: tuple[str, ...],
        now: Seconds,
        min_version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_2,
        ciphers: str = "",
    ) -> None:
        self._names = names
        #: Serves connections with the newest certificate.
        self.context = _context(min_version, ciphers)
        self._made_at = now
        self._make(now)

    def refresh(self, now: Seconds) -> bool:
        """Make another certificate when this one is old; return whether it was."""
        if now < self._made_at + _RENEWED_AFTER.total_seconds():
            return False
        self._make(now)
        return True

    def _make(self, now: Seconds) -> None:
        # ssl reads certificates from files only; this one has no name, and where possible no disk.
        with _nameless_file() as file:
            file.write(_self_signed(self._names, datetime.fromtimestamp(now, UTC)))
            file.flush()
            self.context.load_cert_chain(f"/dev/fd/{file.fileno()}")
        self._made_at = now


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
