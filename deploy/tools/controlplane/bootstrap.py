"""Prepares folder, ports, certificates and kubeconfigs before the components start."""

import http.client
import secrets
import shutil
import socket
import ssl
import tempfile
from collections.abc import Iterable
from pathlib import Path

from deploy.tools.controlplane import kubeconfig
from deploy.tools.controlplane.certificates import Authority, service_account_keys
from deploy.tools.controlplane.components import LOOPBACK, Places

#: A tmpfs for etcd's data and the logs, used if it has this much free space in bytes.
TMPFS = Path("/dev/shm")
TMPFS_ROOM = 2 << 30

#: The group that Kubernetes binds to cluster-admin.
ADMINS = "system:masters"

#: Host names and addresses in the certificate of the API server.
SERVER_NAMES = (LOOPBACK, "localhost", "kubernetes", "kubernetes.default.svc", "10.97.0.1")

#: The lowest port. Ports are below those that the kernel gives to outgoing connections; otherwise
#: such a connection could take the API server's port during a restart.
FIRST_PORT = 20000


def new_folder() -> Path:
    """Make the folder of a control plane."""
    parent = None
    if TMPFS.is_dir() and shutil.disk_usage(TMPFS).free >= TMPFS_ROOM:
        parent = TMPFS
    return Path(tempfile.mkdtemp(prefix="control-plane-", dir=parent))


def new_places(folder: Path) -> Places:
    """Choose ports that are free now."""
    return Places(folder, *_free_ports(5))


def prepare(places: Places, authority: Authority, addresses: Iterable[str] = ()) -> None:
    """Write keys, certificates, the components' and the admin's kubeconfigs, KWOK's stages.

    Args:
        places: the files and ports.
        authority: signs the certificates.
        addresses: additional host names and addresses of the API server.
    """
    for name in ("pki", "kubeconfig", "logs"):
        (places.folder / name).mkdir()
    private, public = service_account_keys()
    files = {
        "ca.crt": authority.certificate,
        "service-accounts.key": private,
        "service-accounts.pub": public,
    }
    identities = {
        "apiserver": authority.server((*SERVER_NAMES, *addresses)),
        "controllers": authority.server((LOOPBACK,)),
        # The client certificate of the API server for kubelets.
        "kubelets": authority.client("kube-apiserver", ADMINS),
    }
    for name, identity in identities.items():
        files |= {f"{name}.crt": identity.certificate, f"{name}.key": identity.key}
    for name, content in files.items():
        Path(places.pki(name)).write_bytes(content)
    for name, user, group in (
        ("admin", "admin", ADMINS),
        ("kube-controller-manager", "system:kube-controller-manager", None),
        ("kwok", "kwok", ADMINS),
    ):
        identity = authority.client(user, group)
        config = kubeconfig.render(places.server, authority.certificate, user, identity)
        places.kubeconfig(name).write_text(config)
    shutil.copy(Path(__file__).with_name("kwok.yaml"), places.folder)


def answers(port: int, path: str, tls: ssl.SSLContext | None = None) -> bool:
    """Return whether a local server answers a GET with 200."""
    connection = (
        http.client.HTTPConnection(LOOPBACK, port, timeout=2.0)
        if tls is None
        else http.client.HTTPSConnection(LOOPBACK, port, timeout=2.0, context=tls)
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _free_ports(count: int) -> list[int]:
    ports: list[int] = []
    while len(ports) < count:
        port = FIRST_PORT + secrets.randbelow(_first_ephemeral_port() - FIRST_PORT)
        if port not in ports and _is_free(port):
            ports.append(port)
    return ports


def _first_ephemeral_port() -> int:
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return first if first > FIRST_PORT + 1000 else 1 << 16


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        try:
            sock.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
