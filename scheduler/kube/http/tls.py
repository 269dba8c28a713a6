"""TLS to a server: the authorities that we trust, and the client certificate that we send.

Certificate authorities and client certificates are renewed while a process runs: the kubelet
replaces the files of a ServiceAccount, kubeadm those of a kubeconfig. `Tls` makes a new context
when one of its files has changed; `scheduler.kube.http.http1` has it check once a minute, and at
once after a connection failed. Inline keys reach OpenSSL through memory, not through a disk.
"""

import contextlib
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

__all__ = ["Tls", "add_certificate", "client_context", "unverified"]


class Tls:
    """A TLS context that is renewed when its files change.

    Source: client-go v0.36.3 transport/ca_rotation.go, cert_rotation.go. Differs: files are
    checked each minute instead of every five, and after each failed attempt to connect; a change is
    detected by the file's identity, time and size, not by its content.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Sequence[Path] = ()) -> None:
        """Make the first context.

        Args:
            make: Reads the files and returns a context; raises OSError or ValueError.
            files: The files whose change requires a new context.
        """
        self._make = make
        self._files = tuple(files)
        self._seen = self._signature()
        #: The context for new connections.
        self.context: ssl.SSLContext = make()
        #: How often the context was replaced; connections of earlier ones are out of date.
        self.generation = 0

    def refresh(self) -> None:
        """Check the files, and make a new context if one has changed.

        Files that cannot be used, such as half of a new pair, leave the context as it is; the next
        check tries again.
        """
        signature = self._signature()
        if signature == self._seen:
            return
        with contextlib.suppress(OSError, ValueError):
            self.remake()
            self._seen = signature

    def remake(self) -> None:
        """Make a new context.

        Raises:
            OSError, ValueError: The files cannot be used; the old context stays.
        """
        self.context = self._make()
        self.generation += 1

    def _signature(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(_identity(path) for path in self._files)


def client_context(authority: bytes | Path | None) -> ssl.SSLContext:
    """Return a context that verifies servers as Go does.

    Args:
        authority: Certificates in PEM, or their file; `None` for the system's authorities.

    Raises:
        OSError, ValueError: The authority cannot be used.
    """
    if isinstance(authority, bytes):
        context = ssl.create_default_context(cadata=authority.decode("ascii"))
    else:
        context = ssl.create_default_context(cafile=str(authority) if authority else None)
    # From Python 3.13 on a certificate authority must carry extensions that those of many clusters
    # lack.
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


def unverified(context: ssl.SSLContext) -> ssl.SSLContext:
    """Let a context accept any server certificate; return it."""
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def add_certificate(
    context: ssl.SSLContext, certificate: bytes | Path | None, key: bytes | Path | None
) -> None:
    """Add a client certificate to a context; PEM, or the path of its file.

    Raises:
        ValueError: Only one of the two is given, or the key is encrypted.
        OSError: They cannot be used (`ssl.SSLError`).
    """
    if certificate is None and key is None:
        return
    if certificate is None or key is None:
        raise ValueError("client-certificate and client-key are needed together")
    with _as_file(certificate) as certificate_file, _as_file(key) as key_file:
        context.load_cert_chain(certificate_file, key_file, password=_no_passphrase)


def _no_passphrase() -> str:
    """Refuse to ask for a passphrase: OpenSSL would wait for one on the terminal."""
    raise ValueError("the key is encrypted, which is not supported")


@contextlib.contextmanager
def _as_file(content: bytes | Path) -> Iterator[str]:
    """Provide a path, because OpenSSL reads files only; inline keys never reach a disk."""
    if isinstance(content, Path):
        yield str(content)
        return
    with _nameless_file() as file:
        file.write(content)
        file.flush()
        file.seek(0)
        yield f"/dev/fd/{file.fileno()}"


def _nameless_file() -> IO[bytes]:
    """Return a file in memory; where the system has none, one without a name."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("certificate"), "w+b")
    return tempfile.TemporaryFile()


def _identity(path: Path) -> tuple[int, int, int] | None:
    """Return values that change when a file is replaced or written; `None` without a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
