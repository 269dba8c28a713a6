"""A control plane as an object that starts, restarts, pauses and removes its components.

    with ControlPlane() as cluster:
        cluster.create_nodes(3)
        cluster.api.apply(Path("manifest.yaml"))
        cluster.api.wait_for("/api/v1/namespaces/default/pods/web", is_running)

It listens on the loopback interface only. Its files are in one temporary folder, on tmpfs if there
is room. When the `with` block is left, or when this Python process ends for any reason, the
processes are ended and the folder is removed (see `supervisor`).
"""

import contextlib
import http.client
import itertools
import json
import os
import re
import shutil
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from deploy.tools.controlplane import binaries, bootstrap, kubeconfig
from deploy.tools.controlplane.api import ApiClient, ApiError
from deploy.tools.controlplane.certificates import Authority, Identity
from deploy.tools.controlplane.components import LOOPBACK, Settings, arguments, names
from deploy.tools.controlplane.nodes import NodeShape, is_ready, node
from deploy.tools.controlplane.processes import Processes

#: Components of every control plane; started together, because the API server waits for etcd.
CORE = ("etcd", "kube-apiserver")

#: Pause between two probes of a component that is starting.
PROBE_SECONDS = 0.02


class ControlPlaneError(RuntimeError):
    """A component did not become ready; the message has the end of its log."""


class ControlPlane:
    """etcd, kube-apiserver and, depending on the settings, kube-controller-manager and KWOK.

    Attributes:
        settings: the requested settings.
        api: a client with all permissions, for any number of threads.
        admin_kubeconfig: a kubeconfig with all permissions.
        folder: all files; `logs/` has a log for each component.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or Settings()
        self._binaries = {
            name: binaries.find(name, self._version(name)) for name in names(self.settings)
        }
        self.folder = bootstrap.new_folder()
        self._numbers = itertools.count(1)
        self._pids: dict[str, int] = {}
        try:
            self._places = bootstrap.new_places(self.folder)
            self._authority = Authority()
            bootstrap.prepare(self._places, self._authority, self.settings.addresses)
            self._tls = ssl.create_default_context(cadata=self._authority.certificate.decode())
            self.admin_kubeconfig = self._places.kubeconfig("admin")
            self.api = ApiClient.from_kubeconfig(self.admin_kubeconfig)
            self._processes = Processes(self.folder)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def __enter__(self) -> "ControlPlane":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def server(self) -> str:
        """The address of the API server, https://127.0.0.1:port."""
        return self._places.server

    def start(self) -> None:
        """Start all components and wait until they serve.

        Raises:
            ControlPlaneError: one did not become ready; everything is cleaned up.
        """
        deadline = time.monotonic() + self.settings.start_seconds
        try:
            for name in CORE:
                self._start(name)
            self._await("kube-apiserver", deadline)
            others = [name for name in names(self.settings) if name not in CORE]
            for name in others:
                self._start(name)
            for name in others:
                self._await(name, deadline)
            if self.settings.controllers:
                self._await_first_objects(deadline)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all processes and remove the folder; may be called twice."""
        self.api.close()
        self._processes.close()
        shutil.rmtree(self.folder, ignore_errors=True)  # the supervisor may have been killed

    # Identities

    def kubeconfig_for(self, user: str, group: str | None = None) -> Path:
        """Write a kubeconfig with a client certificate for any user in a group."""
        return self._write_kubeconfig(user, self._authority.client(user, group))

    def service_account_kubeconfig(
        self, namespace: str, name: str, expiration_seconds: int = 24 * 3600
    ) -> Path:
        """Write a kubeconfig with a fresh token of an existing ServiceAccount."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": expiration_seconds},
        }
        token: str = self.api.post(path, request)["status"]["token"]
        return self._write_kubeconfig(f"system:serviceaccount:{namespace}:{name}", token)

    # Objects

    def create_namespace(self, name: str, labels: Mapping[str, str] | None = None) -> None:
        """Create a namespace and wait until pods can be created in it.

        Pods need its ServiceAccount `default`, which a controller creates.
        """
        body = {"metadata": {"name": name, "labels": dict(labels or {})}}
        self.api.post("/api/v1/namespaces", body)
        if self.settings.controllers:
            self.api.wait_for(f"/api/v1/namespaces/{name}/serviceaccounts/default")

    def create_nodes(
        self, count: int, shape: NodeShape | None = None, *, prefix: str = "node", first: int = 0
    ) -> list[str]:
        """Create nodes `<prefix>-<first>`, ... and wait until they are ready.

        Without KWOK they are created ready.

        Returns:
            Their names.
        """
        shape = shape or NodeShape()
        bodies = [node(f"{prefix}-{i}", i, shape) for i in range(first, first + count)]
        if not self.settings.kwok:
            for body in bodies:
                body["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        self.api.post_all("/api/v1/nodes", bodies)
        created = [body["metadata"]["name"] for body in bodies]
        if shape.played:
            self._await_nodes(set(created), 30.0 + count / 50)
        return created

    # Faults

    def stop_apiserver(self, grace_seconds: float = 0.0) -> None:
        """End the API server: at once, or with a grace period.

        With open watches, which there always are, a graceful end takes a minute.
        """
        self._processes.stop("kube-apiserver", grace_seconds)
        self.api.close()

    def start_apiserver(self) -> None:
        """Start the API server again, on the same port, and wait until it is ready."""
        self._start("kube-apiserver")
        deadline = time.monotonic() + self.settings.start_seconds
        self._await("kube-apiserver", deadline)

    def restart_apiserver(self, grace_seconds: float = 0.0) -> None:
        """Stop and start the API server; its watch cache has no earlier versions afterwards."""
        self.stop_apiserver(grace_seconds)
        self.start_apiserver()

    def restart_controllers(self) -> None:
        """Stop and start the controller manager, and wait until it is ready.

        Its controllers get new tokens and list everything again. A running one does so as well
        after it was refused, but each of its informers waits up to a minute before it tries again.
        """
        name = "kube-controller-manager"
        self._processes.stop(name, 0.0)
        self._start(name)
        self._await(name, time.monotonic() + self.settings.start_seconds)

    def compact_etcd(self) -> int:
        """Discard the history in etcd; return the revision up to which it is discarded.

        The API server still serves older watches and continued lists from its cache. They get 410
        Gone after it has been restarted, or at once if it was started with
        `flags={"kube-apiserver": {"watch-cache": "false"}}`.
        """
        revision = int(self.etcd("maintenance/status", {})["header"]["revision"])
        self.etcd("kv/compaction", {"revision": revision, "physical": True})
        return revision

    def snapshot_etcd(self) -> Path:
        """Stop the API server and etcd, copy the data of etcd, and start both; return the copy."""
        copy = self.folder / f"snapshot-{next(self._numbers)}"
        self._replace_etcd(lambda data: shutil.copytree(data, copy))
        return copy

    def restore_etcd(self, snapshot: Path) -> None:
        """Start etcd and the API server again with the data of a snapshot; all later is lost."""

        def put_back(data: Path) -> None:
            shutil.rmtree(data)
            shutil.copytree(snapshot, data)

        self._replace_etcd(put_back)

    def _replace_etcd(self, change: Callable[[Path], object]) -> None:
        self.stop_apiserver()
        self._processes.stop("etcd", 5.0)
        change(self._places.folder / "etcd")
        self._start("etcd")
        self.start_apiserver()

    def pause(self, component: str) -> None:
        """Pause a component (SIGSTOP): connections stay open, but get no response."""
        self._processes.pause(component)

    def resume(self, component: str) -> None:
        """Resume a paused component (SIGCONT)."""
        self._processes.resume(component)

    # Processes

    def run(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> Path:
        """Start one more process, which ends with the control plane.

        Args:
            name: the name for `pid`, `exit_code`, `stop`, `pause` and `resume`.
            argv: the command.
            env: its environment; None for that of this process.

        Returns:
            The path of its log.
        """
        log = self._places.log(name)
        self._pids[name] = self._processes.start(name, argv, log, env)
        return log

    def stop(self, name: str, grace_seconds: float = 5.0) -> int:
        """End a process, by SIGKILL after the grace period; return its exit code."""
        return self._processes.stop(name, grace_seconds)

    def exit_code(self, name: str) -> int | None:
        """Return the exit code of a process, None while it runs."""
        return self._processes.exit_code(name)

    def pid(self, name: str) -> int:
        """Return the process id of a component or of a process that `run` started."""
        return self._pids[name]

    def log(self, name: str) -> Path:
        """Return the path of a component's log."""
        return self._places.log(name)

    # Start

    def _version(self, name: str) -> str | None:
        return self.settings.version if name.startswith("kube-") else None

    def _write_kubeconfig(self, user: str, credential: Identity | str) -> Path:
        name = re.sub(r"[^A-Za-z0-9.-]+", "-", user)
        path = self._places.kubeconfig(f"{next(self._numbers)}-{name}")
        authority = self._authority.certificate
        path.write_text(kubeconfig.render(self.server, authority, user, credential))
        return path

    def _start(self, name: str) -> None:
        # KWOK reads a configuration below HOME.
        environ = {**os.environ, "HOME": str(self.folder)}
        argv: list[str | Path] = [
            self._binaries[name],
            *arguments(name, self.settings, self._places),
        ]
        self.run(name, argv, environ)

    def _await(self, name: str, deadline: float) -> None:
        while not self._serves(name):
            for running in names(self.settings):
                code = self._processes.exit_code(running) if running in self._pids else None
                if code is not None:
                    raise ControlPlaneError(f"{running} ended with {code}:\n{self._tail(running)}")
            if time.monotonic() > deadline:
                limit = f"{self.settings.start_seconds:g} s"
                raise ControlPlaneError(f"{name} not ready in {limit}:\n{self._tail(name)}")
            time.sleep(PROBE_SECONDS)

    def _serves(self, name: str) -> bool:
        if name == "kwok":
            return bootstrap.answers(self._places.kwok_port, "/healthz")
        if name == "kube-controller-manager":
            return bootstrap.answers(self._places.controllers_port, "/healthz", self._tls)
        try:
            return self.api.request("GET", "/readyz", timeout=2.0) == b"ok"
        except (ApiError, OSError):
            return False

    def _await_first_objects(self, deadline: float) -> None:
        """Wait for the objects that every pod needs: ServiceAccount and CA certificate."""
        for path in ("serviceaccounts/default", "configmaps/kube-root-ca.crt"):
            remaining = deadline - time.monotonic()
            self.api.wait_for(f"/api/v1/namespaces/default/{path}", timeout=remaining)

    def _await_nodes(self, waiting: set[str], timeout: float) -> None:
        listing = self.api.get("/api/v1/nodes")
        waiting -= {item["metadata"]["name"] for item in listing["items"] if is_ready(item)}
        if not waiting:
            return
        version = listing["metadata"]["resourceVersion"]
        with contextlib.closing(self.api.watch("/api/v1/nodes", version, timeout)) as events:
            for kind, item in events:
                if kind == "MODIFIED" and is_ready(item):
                    waiting.discard(item["metadata"]["name"])
                if not waiting:
                    return
        raise ControlPlaneError(f"the API server ended the watch for {len(waiting)} nodes")

    def etcd(self, call: str, body: dict[str, object]) -> dict[str, Any]:
        """Call the JSON API of etcd, such as `kv/range`."""
        connection = http.client.HTTPConnection(LOOPBACK, self._places.etcd_port, timeout=60)
        try:
            connection.request("POST", f"/v3/{call}", json.dumps(body))
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        finally:
            connection.close()
        if response.status != 200:
            raise ControlPlaneError(f"etcd refuses {call}: {answer}")
        return answer

    def _tail(self, name: str) -> str:
        lines = self._places.log(name).read_text(errors="replace").splitlines()
        return "\n".join(lines[-20:])
