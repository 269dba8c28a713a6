"""Prepares what the components need before they start: folder, ports, certificates."""

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

#: tmpfs, used if it has this much room: etcd's data of a large benchmark and the logs.
TMPFS = Path("/dev/shm")
TMPFS_ROOM = 2 << 30

#: Groups that Kubernetes binds to cluster-admin.
ADMINS = ("system:masters",)

#: Names under which the API server may be addressed, beside the loopback address.
SERVER_NAMES = (LOOPBACK, "localhost", "kubernetes", "kubernetes.default.svc", "10.97.0.1")

#: Ports below those that the kernel gives to outgoing connections, or one of these could take the
#: API server's port while it is being restarted.
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
        places: where it all goes.
        authority: signs the certificates.
        addresses: of the API server, beside those that it always has.
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
        "apiserver": authority.server("apiserver", (*SERVER_NAMES, *addresses)),
        "controllers": authority.server("controllers", (LOOPBACK,)),
        # The API server authenticates to kubelets with it.
        "kubelets": authority.client("kube-apiserver", ADMINS),
    }
    for name, identity in identities.items():
        files |= {f"{name}.crt": identity.certificate, f"{name}.key": identity.key}
    for name, content in files.items():
        Path(places.pki(name)).write_bytes(content)
    for name, user, groups in (
        ("admin", "admin", ADMINS),
        ("kube-controller-manager", "system:kube-controller-manager", ()),
        ("kwok", "kwok", ADMINS),
    ):
        identity = authority.client(user, groups)
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
