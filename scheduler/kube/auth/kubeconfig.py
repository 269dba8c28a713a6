"""Reads kubeconfig files.

It supports the files of self-managed clusters, kind, k3s and the control planes of cloud vendors:
certificates, keys and tokens, inline or as files, and login commands (`exec`). The older
`auth-provider` entries are left to the official client, which is loaded only then because it
takes more than a second to import.

| feature | like kubectl | differs |
|---|---|---|
| relative paths | relative to the file | |
| `current-context` | used | no other context can be chosen |
| `tokenFile` beside `token` | the file is used, the token until it can be read | |
| renewed files of certificates | used for new connections | |
| encrypted keys | | refused: no prompt for a passphrase |
| several files joined by `:` | | one file only |
| `proxy-url`, `username`, `as` | | refused: better no connection than a wrong one |
"""

import base64
import binascii
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec
import yaml

from scheduler.kube.auth.credential_plugins import AuthProvider, LoginCommand
from scheduler.kube.auth.credentials import Credentials, FixedHeaders, TokenFile, is_token, reason
from scheduler.kube.auth.exec_plugin import ExecCommand
from scheduler.kube.errors import ConnectionSettingsError
from scheduler.kube.http import tls
from scheduler.kube.http.tls import Tls

__all__ = ["ClusterEntry", "Login", "read"]


class _Entry(msgspec.Struct, frozen=True, rename="kebab"):
    """Base of all entries in the file."""


class ClusterEntry(_Entry, frozen=True):
    """Address and certificate authority of an API server."""

    server: str
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str | None = None
    proxy_url: str = ""
    extensions: list[dict[str, Any]] | None = None


class UserEntry(_Entry, frozen=True):
    """Credentials of a user."""

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
    cluster: ClusterEntry


class _NamedUser(_Entry, frozen=True):
    name: str
    user: UserEntry | None = None


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
    """How to authenticate: headers, and for HTTPS the certificates of both sides."""

    credentials: Credentials
    #: `None` for plain HTTP.
    tls: Tls | None


_Named = TypeVar("_Named", _NamedCluster, _NamedUser, _NamedContext)


def read(path: Path, wall: Callable[[], float]) -> tuple[ClusterEntry, Login]:
    """Return cluster and login of the current context of a kubeconfig file.

    Args:
        path: The file.
        wall: Seconds since the epoch, for logins that expire.

    Raises:
        ConnectionSettingsError: The file cannot be read, or lacks something.
    """
    try:
        file = msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")) or {}, _File)
        context = _find(file.contexts, file.current_context, "context").context
        cluster = _find(file.clusters, context.cluster, "cluster").cluster
        user = UserEntry()
        if context.user:
            user = _find(file.users, context.user, "user").user or user
        _check(cluster, user)
        return cluster, _login(cluster, user, path, wall)
    except yaml.YAMLError as error:
        raise ConnectionSettingsError(f"kubeconfig {path}: is not YAML") from error
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ConnectionSettingsError(f"kubeconfig {path}: {reason(error)}") from error


def _find(entries: list[_Named] | None, name: str, kind: str) -> _Named:
    for entry in entries or ():
        if entry.name == name:
            return entry
    raise ValueError(f"has no {kind} {name!r}" if name else f"names no current {kind}")


def _check(cluster: ClusterEntry, user: UserEntry) -> None:
    check_url(cluster.server)
    if cluster.tls_server_name is not None:
        _check_host(cluster.tls_server_name, "tls-server-name")
    if user.token and not is_token(user.token.strip()):
        raise ValueError("token cannot be sent in a header")
    unsupported = {
        "proxy-url": cluster.proxy_url,
        "username": user.username,
        "as": user.as_user,
    }
    for field, value in unsupported.items():
        if value:
            raise ValueError(f"{field} is not supported")


def check_url(server: str) -> None:
    """Check the base URL of a server.

    Raises:
        ValueError: Requests cannot be sent to it.
    """
    url = urlsplit(server)
    if url.scheme not in {"http", "https"} or not url.hostname:
        raise ValueError(f"server {server!r} is not an http or https URL")
    if not _port(url, server):
        raise ValueError(f"server {server!r}: port 0 cannot be connected to")
    if url.query or url.fragment or url.username is not None:
        raise ValueError(f"server {url.hostname!r}: only host, port and path are supported")
    if not (url.path.isascii() and url.path.isprintable()) or " " in url.path:
        raise ValueError(f"server {server!r}: the path must be escaped")
    _check_host(url.hostname, "server")


def _port(url: SplitResult, server: str) -> int:
    try:
        return 443 if url.port is None else url.port
    except ValueError as error:
        raise ValueError(f"server {server!r}: {error}") from error


def _check_host(name: str, field: str) -> None:
    """Refuse a name that cannot be the name of a host, and would fail at each connection."""
    try:
        plain = name.encode("idna").decode()
    except UnicodeError as error:
        raise ValueError(f"{field} {name!r} is not the name of a host") from error
    if not name.isascii():
        raise ValueError(f"{field} {name!r} must be written in ASCII: {plain}")


def _login(cluster: ClusterEntry, user: UserEntry, path: Path, wall: Callable[[], float]) -> Login:
    secure = urlsplit(cluster.server).scheme == "https"
    command = _command(cluster, user, path, wall)
    if command is not None:
        secured = _issued_tls(cluster, path.parent, command) if secure else None
        return Login(command, secured)
    secured = _tls(cluster, user, path.parent) if secure else None
    token = user.token.strip()
    if user.token_file:
        return Login(TokenFile(path.parent / user.token_file, token), secured)
    return Login(FixedHeaders(token), secured)


def _command(
    cluster: ClusterEntry, user: UserEntry, path: Path, wall: Callable[[], float]
) -> LoginCommand | None:
    """Return the login by command or auth provider, if there is one."""
    source = f"kubeconfig {path}"
    if user.exec is not None:
        command = ExecCommand(
            user.exec, path.parent, _cluster_info(cluster, path.parent), wall, source
        )
        return LoginCommand(command, source)
    if user.auth_provider is not None:
        return LoginCommand(AuthProvider(path), source)
    return None


def _cluster_info(cluster: ClusterEntry, folder: Path) -> dict[str, Any]:
    """Return the cluster info for a login command.

    Source: client-go v0.36.3 clientauthentication/v1 Cluster, rest.ConfigToExecCluster.
    """
    authority = _authority(cluster, folder)
    data = authority.read_bytes() if isinstance(authority, Path) else authority or b""
    config = [
        extension.get("extension")
        for extension in cluster.extensions or ()
        if extension.get("name") == "client.authentication.k8s.io/exec"
    ]
    info = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": base64.b64encode(data).decode(),
        "config": config[0] if config else None,
    }
    return {name: value for name, value in info.items() if value}


def _issued_tls(cluster: ClusterEntry, folder: Path, command: LoginCommand) -> Tls:
    """Return TLS with the client certificate of a login, if it issues one."""
    authority = _authority(cluster, folder)

    def make() -> ssl.SSLContext:
        context = _server_tls(cluster, authority)
        tls.add_certificate(context, command.issued.certificate, command.issued.key)
        return context

    secured = Tls(make, [authority] if isinstance(authority, Path) else [])
    command.on_certificate = secured.remake
    return secured


def _tls(cluster: ClusterEntry, user: UserEntry, folder: Path) -> Tls:
    authority = _authority(cluster, folder)
    certificate = _content(
        user.client_certificate_data, "client-certificate-data", folder, user.client_certificate
    )
    key = _content(user.client_key_data, "client-key-data", folder, user.client_key)

    def make() -> ssl.SSLContext:
        context = _server_tls(cluster, authority)
        try:
            tls.add_certificate(context, certificate, key)
        except OSError as error:
            raise ValueError(f"client-certificate: {reason(error)}") from error
        return context

    parts = (authority, certificate, key)
    return Tls(make, [part for part in parts if isinstance(part, Path)])


def _authority(cluster: ClusterEntry, folder: Path) -> bytes | Path | None:
    inline, name = cluster.certificate_authority_data, cluster.certificate_authority
    return _content(inline, "certificate-authority-data", folder, name)


def _server_tls(cluster: ClusterEntry, authority: bytes | Path | None) -> ssl.SSLContext:
    try:
        context = tls.client_context(authority)
    except (OSError, ValueError) as error:
        raise ValueError(f"certificate-authority: {reason(error)}") from error
    return tls.unverified(context) if cluster.insecure_skip_tls_verify else context


def _content(inline: str, field: str, folder: Path, name: str) -> bytes | Path | None:
    """Return the inline content, else the path of the named file, else `None`."""
    if inline:
        return _decoded(inline, field)
    return folder / name if name else None


def _decoded(text: str, field: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{field} is not base64") from error
