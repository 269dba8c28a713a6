"""Where the API server is, and how to be let in.

The caller says which kubeconfig file counts; without one, the pod that we run in tells. The
environment is an argument: nothing is consulted behind the caller's back.
"""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from scheduler.kube import kubeconfig
from scheduler.kube.credentials import Credentials, TokenFile, reason
from scheduler.kube.errors import ConnectionSettingsError

__all__ = ["Connection", "from_pod", "load"]

#: Where the kubelet puts token and certificate authority into a pod.
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True, slots=True)
class Connection:
    """Everything that is needed to send a request."""

    #: The base URL, without a slash at the end.
    server: str
    credentials: Credentials
    #: `None` for plain HTTP.
    tls: ssl.SSLContext | None = None
    #: The name to expect in the server's certificate where it is not the host of the URL.
    tls_server_name: str | None = None


def load(
    kubeconfig_path: str | Path | None,
    environment: Mapping[str, str],
    service_account: Path = SERVICE_ACCOUNT,
) -> Connection:
    """Return the connection of a kubeconfig file, or else of the pod that we run in.

    Args:
        kubeconfig_path: The file; its current context is used.
        environment: The process environment; tells a pod where its API server is.
        service_account: The folder with the pod's token and certificate authority.

    Raises:
        ConnectionSettingsError: The settings are missing or unusable.
    """
    if kubeconfig_path:
        cluster, login = kubeconfig.read(Path(kubeconfig_path))
        return Connection(
            server=cluster.server.rstrip("/"),
            credentials=login.credentials,
            tls=login.tls,
            tls_server_name=cluster.tls_server_name,
        )
    return from_pod(environment, service_account)


def from_pod(environment: Mapping[str, str], folder: Path = SERVICE_ACCOUNT) -> Connection:
    """Return the connection that the kubelet gives to every pod.

    Raises:
        ConnectionSettingsError: This is no pod, or it has no usable ServiceAccount.
    """
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    port = environment.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port or not folder.is_dir():
        raise ConnectionSettingsError(
            "no API server: no kubeconfig was given, and this is not a pod with a ServiceAccount"
        )
    authority = folder / "ca.crt"
    try:
        tls = ssl.create_default_context(cafile=str(authority))
    except (OSError, ssl.SSLError) as error:
        raise ConnectionSettingsError(f"{authority}: {reason(error)}") from error
    address = f"[{host}]" if ":" in host else host
    return Connection(
        server=f"https://{address}:{port}",
        credentials=TokenFile(folder / "token"),
        tls=kubeconfig.lenient(tls),
    )
