"""Read a kubeconfig file.

What clusters of one's own, kind, k3s and the control planes of cloud vendors write is read
here: certificates, keys and tokens, inline or as files. Login commands (`exec`) and the older
`auth-provider` entries are left to the official client, which is loaded only then because it
takes more than a second to import.

| what | like kubectl | differs |
|---|---|---|
| relative paths | relative to the file | |
| `current-context` | used | no other context can be chosen |
| several files joined by `:` | | one file only |
| `proxy-url`, `username`, `as` | | refused: better no connection than a wrong one |
"""

import base64
import binascii
import contextlib
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml

from scheduler.kube.credentials import Credentials, FixedHeaders, TokenFile, reason
from scheduler.kube.errors import ConnectionSettingsError
from scheduler.kube.login_command import LoginCommand

__all__ = ["Cluster", "Login", "lenient", "read"]


class _Entry(msgspec.Struct, frozen=True, rename="kebab"):
    """Base of everything in the file."""


class Cluster(_Entry, frozen=True):
    """Where an API server is, and how it proves that it is the one."""

    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str = ""


class User(_Entry, frozen=True):
    """Who we are."""

    token: str = ""
    token_file: str = msgspec.field(name="tokenFile", default="")
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    exec: dict[str, Any] | None = None
    auth_provider: dict[str, Any] | None = None
    username: str = ""
    as_user: str = msgspec.field(name="as", default="")


class _Context(_Entry, frozen=True):
    cluster: str
    user: str = ""


class _NamedCluster(_Entry, frozen=True):
    name: str
    cluster: Cluster


class _NamedUser(_Entry, frozen=True):
    name: str
    user: User | None = None


class _NamedContext(_Entry, frozen=True):
    name: str
    context: _Context


class _File(_Entry, frozen=True):
    current_context: str = ""
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None


@dataclass(frozen=True, slots=True)
class Login:
    """How to be let in: headers, and for HTTPS the certificates of both sides."""

    credentials: Credentials
    tls: ssl.SSLContext | None


_Named = TypeVar("_Named", _NamedCluster, _NamedUser, _NamedContext)


def read(path: Path) -> tuple[Cluster, Login]:
    """Return cluster and login of the current context of a kubeconfig file.

    Raises:
        ConnectionSettingsError: The file cannot be read, or does not say enough.
    """
    try:
        file = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")) or {}, _File)
        context = _find(file.contexts, file.current_context, "context").context
        cluster = _find(file.clusters, context.cluster, "cluster").cluster
        user = User()
        if context.user:
            user = _find(file.users, context.user, "user").user or user
        _check(cluster, user)
        return cluster, _login(cluster, user, path)
    except yaml.YAMLError as error:
        raise ConnectionSettingsError(f"kubeconfig {path}: is not YAML") from error
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ConnectionSettingsError(f"kubeconfig {path}: {reason(error)}") from error


def lenient(tls: ssl.SSLContext) -> ssl.SSLContext:
    """Accept certificate authorities as Go does.

    From Python 3.13 on a certificate authority must carry extensions that those of many
    clusters lack.
    """
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return tls


def _find(entries: list[_Named] | None, name: str, kind: str) -> _Named:
    for entry in entries or ():
        if entry.name == name:
            return entry
    raise ValueError(f"has no {kind} {name!r}" if name else f"names no current {kind}")


def _check(cluster: Cluster, user: User) -> None:
    server = urlsplit(cluster.server)
    if server.scheme not in {"http", "https"} or not server.hostname:
        raise ValueError(f"server {cluster.server!r} is not an http or https URL")
    unsupported = {
        "proxy-url": cluster.proxy_url,
        "username": user.username,
        "as": user.as_user,
    }
    for field, value in unsupported.items():
        if value:
            raise ValueError(f"{field} is not supported")


def _login(cluster: Cluster, user: User, path: Path) -> Login:
    secure = cluster.server.startswith("https:")
    tls = _server_tls(cluster, path.parent) if secure else None
    if user.exec is not None or user.auth_provider is not None:
        return Login(LoginCommand(path, tls), tls)
    if tls is not None:
        _add_client_certificate(tls, user, path.parent)
    if user.token:  # kubectl, too, prefers the literal token
        return Login(FixedHeaders(user.token), tls)
    if user.token_file:
        return Login(TokenFile(path.parent / user.token_file), tls)
    return Login(FixedHeaders(), tls)


def _server_tls(cluster: Cluster, folder: Path) -> ssl.SSLContext:
    try:
        if cluster.certificate_authority_data:
            authority = _decoded(cluster.certificate_authority_data, "certificate-authority-data")
            tls = ssl.create_default_context(cadata=authority.decode("ascii"))
        elif cluster.certificate_authority:
            file = folder / cluster.certificate_authority
            tls = ssl.create_default_context(cafile=str(file))
        else:
            tls = ssl.create_default_context()
    except (OSError, ssl.SSLError, UnicodeDecodeError) as error:
        raise ValueError(f"certificate-authority: {reason(error)}") from error
    if cluster.insecure_skip_tls_verify:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return lenient(tls)


def _add_client_certificate(tls: ssl.SSLContext, user: User, folder: Path) -> None:
    with contextlib.ExitStack() as stack:
        certificate = stack.enter_context(
            _as_file(
                user.client_certificate_data,
                "client-certificate-data",
                folder,
                user.client_certificate,
            )
        )
        key = stack.enter_context(
            _as_file(user.client_key_data, "client-key-data", folder, user.client_key)
        )
        if certificate is None and key is None:
            return
        if certificate is None or key is None:
            raise ValueError("client-certificate and client-key are needed together")
        try:
            tls.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(f"client-certificate: {reason(error)}") from error


@contextlib.contextmanager
def _as_file(inline: str, field: str, folder: Path, name: str) -> Iterator[Path | None]:
    """Give a file for inline bytes, because OpenSSL reads client certificates from files only."""
    if inline:
        with tempfile.NamedTemporaryFile() as file:
            file.write(_decoded(inline, field))
            file.flush()
            yield Path(file.name)
    else:
        yield folder / name if name else None


def _decoded(text: str, field: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{field} is not base64") from error
