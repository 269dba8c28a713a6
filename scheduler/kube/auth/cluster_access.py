"""Address and credentials of the API server.

They come from a kubeconfig file that the caller names, or else from the pod that we run in. The
environment is an argument: nothing else is read.
"""

import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from scheduler.kube.auth import kubeconfig
from scheduler.kube.auth.credentials import Credentials, TokenFile, reason
from scheduler.kube.errors import ConnectionSettingsError
from scheduler.kube.http.tls import Tls, client_context

__all__ = ["ClusterAccess", "from_pod", "load", "unused_proxies"]

#: Where the kubelet puts token and certificate authority into a pod.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class ClusterAccess:
    """Everything that is needed to send a request.

    Raises:
        ConnectionSettingsError: The server is https, and `secured` is missing.
    """

    #: The base URL, without a slash at the end.
    server: str
    credentials: Credentials
    #: `None` for plain HTTP.
    secured: Tls | None = None
    #: The name to expect in the server's certificate where it is not the host of the URL.
    tls_server_name: str | None = None

    def __post_init__(self) -> None:
        if self.secured is None and urlsplit(self.server).scheme == "https":
            # Without settings of their own, clients would verify with what the system trusts, or
            # not at all.
            raise ConnectionSettingsError(f"{self.server}: https needs TLS settings")

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The current TLS context; `None` for plain HTTP."""
        return None if self.secured is None else self.secured.context

    @property
    def host(self) -> str:
        """Host and port of the server, as written in the URL."""
        return urlsplit(self.server).netloc.rpartition("@")[2]


def load(
    kubeconfig_path: str | Path | None,
    environment: Mapping[str, str],
    service_account: Path = SERVICE_ACCOUNT,
    wall: Callable[[], float] = float,
) -> ClusterAccess:
    """Return the access that a kubeconfig file gives, or else the pod that we run in.

    Args:
        kubeconfig_path: The file; its current context is used.
        environment: The process environment; contains the address of the API server in a pod.
        service_account: The folder with the pod's token and certificate authority.
        wall: Seconds since the epoch, for logins that expire; with the default, which is always 0,
            only a refusal of the server shows that one has expired.

    Raises:
        ConnectionSettingsError: The settings are missing or unusable.
    """
    if kubeconfig_path:
        cluster, login = kubeconfig.read(Path(kubeconfig_path), wall)
        return ClusterAccess(
            server=cluster.server.rstrip("/"),
            credentials=login.credentials,
            secured=login.tls,
            tls_server_name=cluster.tls_server_name,
        )
    return from_pod(environment, service_account)


def from_pod(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> ClusterAccess:
    """Return the access that the kubelet gives to every pod.

    Raises:
        ConnectionSettingsError: This is not a pod, or it has no usable ServiceAccount.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port or not folder.is_dir():
        raise ConnectionSettingsError(
            "no API server: no kubeconfig was given, and this is not a pod with a ServiceAccount"
        )
    authority = folder / "ca.crt"
    try:
        secured = Tls(lambda: client_context(authority), [authority])
    except (OSError, ValueError) as error:
        raise ConnectionSettingsError(f"{authority}: {reason(error)}") from error
    address = f"[{host}]" if ":" in host else host
    return ClusterAccess(
        server=f"https://{address}:{port}",
        credentials=TokenFile(folder / "token"),
        secured=secured,
    )


def unused_proxies(where: ClusterAccess, environment: Mapping[str, str]) -> list[str]:
    """Return the variables that name a proxy for this server, which is not used.

    Source: Go net/http ProxyFromEnvironment. Differs: `NO_PROXY` is not read.
    """
    scheme = urlsplit(where.server).scheme
    names = (f"{scheme.upper()}_PROXY", f"{scheme}_proxy")
    return [name for name in names if environment.get(name)]
