"""A cluster of kind for the end-to-end tests; it has the interface of `tools.nodes.cluster`."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from deploy.tools.controlplane import binaries, kubelets
from deploy.tools.controlplane.api import ApiClient
from deploy.tools.controlplane.components import KWOK_NODE
from deploy.tools.controlplane.processes import Processes

__all__ = ["CONFIG", "KindCluster", "KindError", "commands", "problems"]

CONFIG: Final = Path(__file__).with_name("kind.yaml")
NAME: Final = "preemptive-scheduler-e2e"
STAGES: Final = Path(__file__).parents[1] / "controlplane" / "kwok.yaml"

READY_SECONDS: Final = 180.0


class KindError(RuntimeError):
    """The cluster cannot be created, or a command failed; the message says why."""


def commands(kubeconfig: Path, images: Sequence[Path], node_image: str = "") -> list[list[str]]:
    """Return the commands that create the cluster and load the images."""
    chosen = [f"--image={node_image}"] if node_image else []
    head = ["kind", "create", "cluster", f"--name={NAME}", f"--config={CONFIG}"]
    return [
        [*head, f"--kubeconfig={kubeconfig}", f"--wait={READY_SECONDS:.0f}s", *chosen],
        *(["kind", "load", "image-archive", str(path), f"--name={NAME}"] for path in images),
    ]


def problems() -> list[str]:
    """Return the reasons why kind does not work here; empty if it works."""
    found = [f"{name} is not on PATH" for name in ("kind", "docker") if shutil.which(name) is None]
    if not found:
        answer = subprocess.run(["docker", "info"], capture_output=True, text=True, check=False)
        if answer.returncode != 0:
            lines = answer.stderr.strip().splitlines() or ["it fails without output"]
            found.append(f"docker does not work: {lines[-1]}")
    return found


class KindCluster:
    """Two workers in containers, until it is closed.

    After a crash `kind delete cluster` removes it.

    Attributes:
        kubeconfig: a file with all permissions.
        api: a client with all permissions.
        nodes: names of the workers.

    Args:
        images: archives of images to load on every node.
    """

    def __init__(self, images: Sequence[Path]) -> None:
        found = problems()
        if found:
            raise KindError("\n".join(["kind does not work here:", *found]))
        self._folder = Path(tempfile.mkdtemp(prefix="kind-"))
        self.kubeconfig = self._folder / "admin.kubeconfig"
        self._processes = Processes(self._folder)
        try:
            node_image = os.environ.get("KIND_NODE_IMAGE", "")
            for command in commands(self.kubeconfig, images, node_image):
                _run(command)
            self.api = ApiClient.from_kubeconfig(self.kubeconfig)
            self.nodes = [f"{NAME}-worker", f"{NAME}-worker2"]
            self._play()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Delete the cluster."""
        subprocess.run(["kind", "delete", "cluster", f"--name={NAME}"], check=False)
        self._processes.close()

    def disk(self, _node: str) -> None:
        """Return no folder: the disks of the nodes are inside of Docker."""
        return

    def cut_power(self, node: str) -> None:
        """Kill all processes of a node; its disk stays."""
        _run(["docker", "kill", node])

    def boot(self, node: str) -> None:
        """Start a node again, and wait until it is ready."""
        _run(["docker", "start", node])
        kubelets.await_ready(self.api, node, READY_SECONDS)

    def restart_kubelet(self, node: str) -> None:
        """Restart the kubelet of a node by SIGKILL, and wait until it responds."""
        _run(["docker", "exec", node, "systemctl", "kill", "--signal=SIGKILL", "kubelet"])
        _run(["docker", "exec", node, "systemctl", "restart", "kubelet"])
        kubelets.await_answer(self.api, node, READY_SECONDS)

    def change_token_key(self) -> None:
        """Sign tokens of ServiceAccounts with a new key.

        Raises:
            NotImplementedError: kubeadm keeps the key in the image of the control plane.
        """
        raise NotImplementedError("the keys of kind's API server cannot be changed")

    def drop_old_token_key(self) -> None:
        """Invalidate tokens of the old key; see `change_token_key`."""
        raise NotImplementedError("the keys of kind's API server cannot be changed")

    def _play(self) -> None:
        """Start KWOK for the nodes with its annotation."""
        flags = {
            "kubeconfig": self.kubeconfig,
            "config": STAGES,
            "manage-all-nodes": "false",
            "manage-nodes-with-annotation-selector": "=".join(KWOK_NODE),
            "node-lease-duration-seconds": 40,
        }
        argv: list[str | Path] = [
            binaries.find("kwok"),
            *(f"--{name}={value}" for name, value in flags.items()),
        ]
        self._processes.start("kwok", argv, self._folder / "kwok.log")


def _run(command: list[str]) -> None:
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise KindError(f"{' '.join(command[:4])} failed:\n{answer.stdout}{answer.stderr}")
