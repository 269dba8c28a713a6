"""Reads kubeconfig files.

It supports the files of self-managed clusters, kind, k3s and the control planes of cloud vendors:
certificates, keys and tokens, inline or as files, and login commands (`exec`). The older
`auth-provider` entries are left to the official client, which is loaded only then because it
takes more than a second to import.

| feature | like kubectl | differs |
|---|---|---|
| relative paths | relative to the file | |
| contexts | the current one, or the one that `select` is told | |
| several files | `select`: the first file that has an entry or a current context counts | |
| `proxy-url` | `select` returns it | `read` refuses it: the scheduler uses no proxy |
| `tokenFile` beside `token` | the file is used, the token until it can be read | |
| renewed files of certificates | used for new connections | |
| encrypted keys | | refused: no prompt for a passphrase |
| `username`, `as`, `as-uid` and the like | | refused: better no connection than a wrong one |
"""

import base64
import binascii
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml

from scheduler.kube.auth.credential_plugins import AuthProvider, LoginCommand
from scheduler.kube.auth.credentials import Credentials, FixedHeaders, TokenFile, is_token, reason
from scheduler.kube.auth.exec_plugin import ExecCommand
from scheduler.kube.errors import ConnectionSettingsError
from scheduler.kube.http import tls
from scheduler.kube.http.tls import Tls

__all__ = ["ClusterEntry", "Login", "Selection", "read", "select"]


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
    as_uid: str = ""
    as_groups: list[str] | None = None
    as_user_extra: dict[str, list[str]] | None = None


class _Context(_Entry, frozen=True):
    cluster: str
    user: str = ""
    namespace: str = ""


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
    #: Adds the client certificate, if there is one, to a context for another server.
    identify: Callable[[ssl.SSLContext], None] = lambda _: None


class Selection(NamedTuple):
    """What one context of kubeconfig files says."""

    context: str
    #: Empty where the context names none.
    namespace: str
    cluster: ClusterEntry
    login: Login
    #: The names of both in the kubeconfig.
    cluster_name: str
    user_name: str


_Named = TypeVar("_Named", _NamedCluster, _NamedUser, _NamedContext)


@dataclass(frozen=True, slots=True)
class _Merged:
    """The entries of several files by name, each with the file that it is from."""

    paths: tuple[Path, ...]
    current_context: str = ""
    clusters: dict[str, tuple[_NamedCluster, Path]] = field(default_factory=dict)
    users: dict[str, tuple[_NamedUser, Path]] = field(default_factory=dict)
    contexts: dict[str, tuple[_NamedContext, Path]] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return f"kubeconfig {':'.join(map(str, self.paths))}"


def read(path: Path, wall: Callable[[], float]) -> tuple[ClusterEntry, Login]:
    """Return cluster and login of the current context of a kubeconfig file.

    Args:
        path: The file.
        wall: Seconds since the epoch, for logins that expire.

    Raises:
        ConnectionSettingsError: The file cannot be read, or lacks something.
    """
    found = select((path,), "", wall)
    if found.cluster.proxy_url:
        raise ConnectionSettingsError(f"kubeconfig {path}: proxy-url is not supported")
    return found.cluster, found.login


def select(paths: Sequence[Path], context: str, wall: Callable[[], float]) -> Selection:
    """Return what a context says, of files that are merged as kubectl merges them.

    Args:
        paths: The files. Of several ones, those that do not exist are left out.
        context: The name of the context; empty for the current one.
        wall: Seconds since the epoch, for logins that expire.

    Raises:
        ConnectionSettingsError: A file cannot be read, or something is missing.

    Source: client-go v0.36.3 tools/clientcmd, ClientConfigLoadingRules.Load.
    """
    merged = _merge(paths)
    try:
        name = context or merged.current_context
        chosen = _find(merged.contexts, name, "context")[0].context
        named_cluster, cluster_path = _find(merged.clusters, chosen.cluster, "cluster")
        user, user_path = UserEntry(), cluster_path
        if chosen.user:
            named_user, user_path = _find(merged.users, chosen.user, "user")
            user = named_user.user or user
        cluster = named_cluster.cluster
        _check(cluster, user)
        parts = _Parts(cluster, cluster_path.parent, user, user_path, context)
        names = chosen.cluster, chosen.user
        return Selection(name, chosen.namespace, cluster, _login(parts, wall), *names)
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ConnectionSettingsError(f"{merged.source}: {reason(error)}") from error


def _merge(paths: Sequence[Path]) -> _Merged:
    files = [path for path in paths if len(paths) == 1 or path.exists()]
    merged = _Merged(tuple(files or paths))
    current = ""
    for path in files:
        file = _file(path)
        current = current or file.current_context
        for cluster in file.clusters or ():
            merged.clusters.setdefault(cluster.name, (cluster, path))
        for user in file.users or ():
            merged.users.setdefault(user.name, (user, path))
        for context in file.contexts or ():
            merged.contexts.setdefault(context.name, (context, path))
    return replace(merged, current_context=current)


def _file(path: Path) -> _File:
    try:
        return msgspec.convert(yaml.safe_load(path.read_text(encoding="utf-8")) or {}, _File)
    except yaml.YAMLError as error:
        raise ConnectionSettingsError(f"kubeconfig {path}: is not YAML") from error
    except (OSError, ValueError, msgspec.ValidationError) as error:
        raise ConnectionSettingsError(f"kubeconfig {path}: {reason(error)}") from error


def _find(entries: dict[str, tuple[_Named, Path]], name: str, kind: str) -> tuple[_Named, Path]:
    if name in entries:
        return entries[name]
    raise ValueError(f"has no {kind} {name!r}" if name else f"names no current {kind}")


def _check(cluster: ClusterEntry, user: UserEntry) -> None:
    check_url(cluster.server)
    if cluster.tls_server_name is not None:
        _check_host(cluster.tls_server_name, "tls-server-name")
    has_authority = cluster.certificate_authority or cluster.certificate_authority_data
    if cluster.insecure_skip_tls_verify and has_authority:  # as transport.TLSConfigFor
        raise ValueError("certificate-authority with insecure-skip-tls-verify is not allowed")
    if user.token and not is_token(user.token.strip()):
        raise ValueError("token cannot be sent in a header")
    unsupported = {
        "username": user.username, "as": user.as_user, "as-uid": user.as_uid,
        "as-groups": user.as_groups, "as-user-extra": user.as_user_extra,
    }  # fmt: skip
    for name, value in unsupported.items():
        if value:
            raise ValueError(f"{name} is not supported")


def check_url(server: str) -> None:
    """Check the base URL of a server.

    Raises:
        ValueError: Requests cannot be sent to it.
    """
    url = urlsplit(server)
    if url.scheme not in {"http", "https"} or not url.hostname:
        raise ValueError(f"server {server!r} is not an http or https URL")
    try:
        port = url.port
    except ValueError as error:
        raise ValueError(f"server {server!r}: {error}") from error
    if port == 0:
        raise ValueError(f"server {server!r}: port 0 cannot be connected to")
    if url.query or url.fragment or url.username is not None:
        raise ValueError(f"server {url.hostname!r}: only host, port and path are supported")
    if not (url.path.isascii() and url.path.isprintable()) or " " in url.path:
        raise ValueError(f"server {server!r}: the path must be escaped")
    _check_host(url.hostname, "server")


def _check_host(name: str, field: str) -> None:
    """Refuse a name that cannot be the name of a host, and would fail at each connection."""
    try:
        plain = name.encode("idna").decode()
    except UnicodeError as error:
        raise ValueError(f"{field} {name!r} is not the name of a host") from error
    if not name.isascii():
        raise ValueError(f"{field} {name!r} must be written in ASCII: {plain}")


class _Parts(NamedTuple):
    """Cluster and user, and the files that they are from."""

    cluster: ClusterEntry
    cluster_folder: Path
    user: UserEntry
    user_path: Path
    #: The name of a context that is not the current one; or empty.
    context: str


def _login(parts: _Parts, wall: Callable[[], float]) -> Login:
    cluster, user = parts.cluster, parts.user
    secure = urlsplit(cluster.server).scheme == "https"
    command = _command(parts, wall)
    if command is not None:
        secured = _issued_tls(cluster, parts.cluster_folder, command) if secure else None
        return Login(command, secured, lambda context: _add_issued(context, command))
    folder = parts.user_path.parent
    certificate = _content(
        user.client_certificate_data, "client-certificate-data", folder, user.client_certificate
    )
    key = _content(user.client_key_data, "client-key-data", folder, user.client_key)

    def identify(context: ssl.SSLContext) -> None:
        try:
            tls.add_certificate(context, certificate, key)
        except OSError as error:
            raise ValueError(f"client-certificate: {reason(error)}") from error

    files = [part for part in (certificate, key) if isinstance(part, Path)]
    secured = _tls(cluster, parts.cluster_folder, identify, files) if secure else None
    token = user.token.strip()
    if user.token_file:
        return Login(TokenFile(folder / user.token_file, token), secured, identify)
    return Login(FixedHeaders(token), secured, identify)


def _command(parts: _Parts, wall: Callable[[], float]) -> LoginCommand | None:
    """Return the login by command or auth provider, if there is one."""
    user, path = parts.user, parts.user_path
    source = f"kubeconfig {path}"
    if user.exec is not None:
        info = _cluster_info(parts.cluster, parts.cluster_folder)
        return LoginCommand(ExecCommand(user.exec, path.parent, info, wall, source), source)
    if user.auth_provider is not None:
        return LoginCommand(AuthProvider(path, parts.context), source)
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
        _add_issued(context, command)
        return context

    secured = Tls(make, [authority] if isinstance(authority, Path) else [])
    command.on_certificate = secured.remake
    return secured


def _add_issued(context: ssl.SSLContext, command: LoginCommand) -> None:
    tls.add_certificate(context, command.issued.certificate, command.issued.key)


def _tls(
    cluster: ClusterEntry,
    folder: Path,
    identify: Callable[[ssl.SSLContext], None],
    files: Sequence[Path],
) -> Tls:
    authority = _authority(cluster, folder)

    def make() -> ssl.SSLContext:
        context = _server_tls(cluster, authority)
        identify(context)
        return context

    return Tls(make, [*files, *([authority] if isinstance(authority, Path) else [])])


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
