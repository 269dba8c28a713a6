"""The command lines of the components: pure functions of settings and places."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

#: Flags by name without the dashes; None omits a flag.
Flags: TypeAlias = Mapping[str, str | None]

#: The address of all components.
LOOPBACK = "127.0.0.1"

#: KWOK simulates the kubelet of nodes with this annotation only.
KWOK_NODE = ("kwok.x-k8s.io/node", "fake")

#: As a kubelet has it; the lease is renewed every quarter of this time.
NODE_LEASE_SECONDS = 40


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a control plane."""

    #: Kubernetes version, e.g. "v1.36.3"; None is the default pin of `binaries`.
    version: str | None = None
    #: Start kube-controller-manager with all its controllers.
    controllers: bool = True
    #: Start KWOK: nodes become Ready, bound pods run, deleted pods terminate.
    kwok: bool = True
    #: Monitor nodes as a real cluster does: heartbeats (a Lease for each node, renewed every 10 s),
    #: taints on nodes that are not ready, eviction from them. Without it no node is tainted by the
    #: cluster, which suits benchmarks with thousands of nodes.
    node_lifecycle: bool = True
    #: Admission plugins to disable, in addition to those that cannot work. Without controllers
    #: there are no ServiceAccounts, and the not-ready taint of new nodes is never removed.
    admission_off: tuple[str, ...] = ()
    #: Additional addresses in the certificate of the API server.
    addresses: tuple[str, ...] = ()
    #: Feature gates of kube-apiserver and kube-controller-manager.
    feature_gates: Mapping[str, bool] = field(default_factory=dict)
    #: Flags by component; they override the defaults.
    flags: Mapping[str, Flags] = field(default_factory=dict)
    #: Timeout of the start, without the build of binaries.
    start_seconds: float = 60.0

    def disabled_admission(self) -> tuple[str, ...]:
        """Return the admission plugins to disable."""
        unserved = set(self.admission_off)
        if not self.controllers:
            unserved.add("ServiceAccount")
        if not self.watches_nodes():
            unserved.add("TaintNodesByCondition")
        return tuple(sorted(unserved))

    def watches_nodes(self) -> bool:
        """Return whether the node lifecycle controller runs."""
        return self.controllers and self.node_lifecycle


@dataclass(frozen=True)
class Places:
    """The files and ports of one control plane."""

    folder: Path
    etcd_port: int
    etcd_peer_port: int
    apiserver_port: int
    controllers_port: int
    kwok_port: int

    @property
    def server(self) -> str:
        """The address of the API server."""
        return f"https://{LOOPBACK}:{self.apiserver_port}"

    def pki(self, name: str) -> str:
        """Return the path of a certificate or key."""
        return str(self.folder / "pki" / name)

    def kubeconfig(self, name: str) -> Path:
        """Return the path of a kubeconfig."""
        return self.folder / "kubeconfig" / f"{name}.yaml"

    def log(self, name: str) -> Path:
        """Return the path of a component's log."""
        return self.folder / "logs" / f"{name}.log"


def arguments(name: str, settings: Settings, places: Places) -> list[str]:
    """Return the arguments of a component."""
    flags = {**_FLAGS[name](settings, places), **settings.flags.get(name, {})}
    return [f"--{flag}={value}" for flag, value in flags.items() if value is not None]


def _etcd(_: Settings, places: Places) -> Flags:
    client = f"http://{LOOPBACK}:{places.etcd_port}"
    peer = f"http://{LOOPBACK}:{places.etcd_peer_port}"
    return {
        "data-dir": str(places.folder / "etcd"),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
        "unsafe-no-fsync": "true",
        "quota-backend-bytes": str(4 << 30),
        "log-level": "warn",
    }


def _kube_apiserver(settings: Settings, places: Places) -> Flags:
    return {
        "etcd-servers": f"http://{LOOPBACK}:{places.etcd_port}",
        "bind-address": LOOPBACK,
        "secure-port": str(places.apiserver_port),
        "tls-cert-file": places.pki("apiserver.crt"),
        "tls-private-key-file": places.pki("apiserver.key"),
        "client-ca-file": places.pki("ca.crt"),
        "kubelet-client-certificate": places.pki("kubelets.crt"),
        "kubelet-client-key": places.pki("kubelets.key"),
        "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
        "service-account-key-file": places.pki("service-accounts.pub"),
        "service-account-signing-key-file": places.pki("service-accounts.key"),
        "service-cluster-ip-range": "10.97.0.0/16",
        # A loopback address is refused as an endpoint of the Service `kubernetes`, which is unused.
        "endpoint-reconciler-type": "none",
        "authorization-mode": "RBAC",
        "allow-privileged": "true",
        # By default pods are deleted one by one: 17 s for a namespace with 4,000 pods.
        "delete-collection-workers": "16",
        "disable-admission-plugins": ",".join(settings.disabled_admission()) or None,
        "feature-gates": _gates(settings),
    }


def _kube_controller_manager(settings: Settings, places: Places) -> Flags:
    kubeconfig = str(places.kubeconfig("kube-controller-manager"))
    return {
        "kubeconfig": kubeconfig,
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": LOOPBACK,
        "secure-port": str(places.controllers_port),
        "tls-cert-file": places.pki("controllers.crt"),
        "tls-private-key-file": places.pki("controllers.key"),
        "leader-elect": "false",
        "use-service-account-credentials": "true",
        "service-account-private-key-file": places.pki("service-accounts.key"),
        "root-ca-file": places.pki("ca.crt"),
        # With the default of 20 queries per second a Deployment of 300 pods takes 15 s.
        "controllers": "*" if settings.node_lifecycle else "*,-node-lifecycle-controller",
        "kube-api-qps": "500",
        "kube-api-burst": "1000",
        "feature-gates": _gates(settings),
    }


def _kwok(settings: Settings, places: Places) -> Flags:
    return {
        "config": str(places.folder / "kwok.yaml"),
        "kubeconfig": str(places.kubeconfig("kwok")),
        "manage-all-nodes": "false",
        "manage-nodes-with-annotation-selector": "=".join(KWOK_NODE),
        "node-ip": LOOPBACK,
        "cidr": "10.128.0.0/9",
        "node-lease-duration-seconds": str(NODE_LEASE_SECONDS if settings.node_lifecycle else 0),
        "server-address": f"{LOOPBACK}:{places.kwok_port}",
    }


_FLAGS = {
    "etcd": _etcd,
    "kube-apiserver": _kube_apiserver,
    "kube-controller-manager": _kube_controller_manager,
    "kwok": _kwok,
}


def names(settings: Settings) -> Iterator[str]:
    """Yield the components of these settings in the order of their start."""
    yield from ("etcd", "kube-apiserver")
    if settings.controllers:
        yield "kube-controller-manager"
    if settings.kwok:
        yield "kwok"


def _gates(settings: Settings) -> str | None:
    gates = [f"{gate}={str(on).lower()}" for gate, on in settings.feature_gates.items()]
    return ",".join(gates) or None
