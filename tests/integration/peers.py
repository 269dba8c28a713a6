"""Two schedulers as one thing: kube-scheduler and ours, started with the same configuration.

Both serve the metrics of kube-scheduler, so the same numbers tell of both when all is decided.
"""

import contextlib
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import yaml
from prometheus_client.parser import text_string_to_metric_families

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.cluster import ControlPlane
from tests.support.control_plane import followed
from tests.support.live import LOOPBACK, PATIENCE_SECONDS, connect, free_port

#: What is set for both: no wait for a lease, no limit of requests, no sampling of nodes, and a
#: pod that was rejected may try again soon.
COMMON: Mapping[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "clientConnection": {"qps": 5000, "burst": 10000},
    "percentageOfNodesToScore": 100,
    "podInitialBackoffSeconds": 1,
    "podMaxBackoffSeconds": 1,
}

#: kube-scheduler's own user; the API server's first objects give it its rights.
USER = "system:kube-scheduler"

#: Between two looks at a page.
PROBE_SECONDS = 0.05

READY, METRICS = "/readyz", "/metrics"


class Peer(Protocol):
    """A scheduler that runs."""

    def get(self, path: str) -> tuple[int, str]:
        """Read a page that it serves: status and text."""

    def close(self) -> None:
        """End it."""


class KubeScheduler:
    """One process of kube-scheduler, in the version that we decide as on this API server.

    Args:
        plane: the control plane whose processes it joins.
        folder: for its configuration file.
        config: its configuration, without the kubeconfig.
    """

    def __init__(self, plane: ControlPlane, folder: Path, config: Mapping[str, Any]) -> None:
        self._plane = plane
        self._port = free_port()
        self._name = f"kube-scheduler-{self._port}"
        kubeconfig = plane.kubeconfig_for(USER)
        connection = {**config["clientConnection"], "kubeconfig": str(kubeconfig)}
        file = folder / f"{self._name}.yaml"
        file.write_text(yaml.safe_dump({**config, "clientConnection": connection}))
        argv: list[str | Path] = [
            binaries.find("kube-scheduler", followed().version),
            f"--config={file}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={self._port}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--authorization-always-allow-paths={READY},{METRICS}",
        ]
        self._log = plane.run(self._name, argv)
        self._await_ready()

    def get(self, path: str) -> tuple[int, str]:
        """Read a page that it serves: status and text."""
        connection = connect(self._port)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def close(self) -> None:
        """End it at once: none of its state is kept."""
        self._plane.stop(self._name, grace_seconds=0.0)

    def _await_ready(self) -> None:
        pause = threading.Event()
        for _ in range(int(PATIENCE_SECONDS / PROBE_SECONDS)):
            code = self._plane.exit_code(self._name)
            assert code is None, f"kube-scheduler ended with {code}:\n{self._log.read_text()}"
            with contextlib.suppress(OSError):  # it does not listen yet
                if self.get(READY)[0] == 200:
                    return
            pause.wait(PROBE_SECONDS)
        raise TimeoutError(f"kube-scheduler is not ready:\n{self._log.read_text()}")


def metrics(peer: Peer, *names: str) -> dict[tuple[str, ...], float]:
    """Read the samples of some metrics: the name and the values of the labels, and the number.

    A page of kube-scheduler is long, so only the lines that matter are parsed.
    """
    status, text = peer.get(METRICS)
    assert status == 200, text
    lines = [line for line in text.splitlines() if line.startswith(names)]
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families("\n".join([*lines, ""]))
        for sample in family.samples
    }
