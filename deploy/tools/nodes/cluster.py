"""A cluster as an object that starts, operates and removes it."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from deploy.tools.controlplane import binaries, kubelets
from deploy.tools.controlplane.api import ApiClient
from deploy.tools.nodes import leftovers, machine
from deploy.tools.nodes.sandbox import Options

__all__ = ["LOGS", "NODES", "ClusterError", "NodeCluster"]

ROOT: Final = Path(__file__).parents[3]
#: The logs of the last cluster, after it was closed.
LOGS: Final = ROOT / "build" / "e2e" / "logs"
NODES: Final = ("worker-1", "worker-2")

#: Starts the sandbox in its namespaces.
UNSHARE: Final = (
    "unshare", "--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc",
)  # fmt: skip

#: Timeout of the sandbox's clean-up.
CLOSE_SECONDS: Final = 60.0
READY_SECONDS: Final = 90.0


class ClusterError(RuntimeError):
    """The cluster cannot be created, or a command failed; the message says why."""


class NodeCluster:
    """Two nodes and a control plane, until it is closed or this process ends for any reason.

    Attributes:
        kubeconfig: a file with all permissions; its server is on the loopback interface.
        api: a client with all permissions.
        nodes: names of the nodes.

    Args:
        images: archives of images to import on every node.
    """

    def __init__(self, images: Sequence[Path]) -> None:
        problems = machine.problems()
        if problems:
            raise ClusterError("\n".join(["this machine cannot host nodes:", *problems]))
        for run in leftovers.dead_runs():
            leftovers.remove(run)
        self._run = leftovers.run_name()
        self._folder = leftovers.folder(self._run)
        self._folder.mkdir(mode=0o755)
        self._lock = threading.Lock()
        self.nodes = list(NODES)
        try:
            self._sandbox = self._start(images)
            leftovers.record_sandbox(self._run, self._sandbox.pid)
            self.kubeconfig = self._folder / "admin.kubeconfig"
            self.kubeconfig.write_text(self._answer()["kubeconfig"])
            self.kubeconfig.chmod(0o600)
            self.api = ApiClient.from_kubeconfig(self.kubeconfig)
            for node in self.nodes:
                self.await_ready(node)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "NodeCluster":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End everything; may be called twice."""
        if hasattr(self, "api"):
            self.api.close()
        if hasattr(self, "_sandbox"):
            self._end_sandbox()
        leftovers.remove(self._run)

    def await_ready(self, node: str, timeout: float = READY_SECONDS) -> None:
        """Wait until a node is ready for pods."""
        kubelets.await_ready(self.api, node, timeout)

    def disk(self, node: str) -> Path:
        """Return the folder with the disk of a node; the node sees it under the same path."""
        return self._folder / node

    def cut_power(self, node: str) -> None:
        """Kill all processes of a node; its disk stays."""
        self._command("cut_power", node)

    def boot(self, node: str) -> None:
        """Start a node again, and wait until it is ready."""
        self._command("boot", node)
        self.await_ready(node)

    def restart_kubelet(self, node: str) -> None:
        """Restart the kubelet of a node by SIGKILL, and wait until it responds."""
        self._command("restart_kubelet", node)
        kubelets.await_answer(self.api, node, READY_SECONDS)

    def change_token_key(self) -> None:
        """Sign tokens of ServiceAccounts with a new key; tokens of the old one stay valid."""
        self._command("change_token_key")

    def drop_old_token_key(self) -> None:
        """Invalidate tokens that were signed with the old key."""
        self._command("drop_old_token_key")

    def _start(self, images: Sequence[Path]) -> subprocess.Popen[str]:
        names = ("kubelet", "kube-proxy", *binaries.RUNTIME)
        programs = {name: str(binaries.find(name)) for name in names}
        with socket.create_server(("127.0.0.1", 0)) as listening:
            options = Options(
                run=self._run,
                folder=str(self._folder),
                logs=str(LOGS),
                nodes=self.nodes,
                images=[str(path.absolute()) for path in images],
                programs=programs,
                socket=listening.fileno(),
            )
            with (self._folder / "sandbox.log").open("ab") as log:
                return subprocess.Popen(
                    [
                        *UNSHARE,
                        sys.executable,
                        "-m",
                        "deploy.tools.nodes.sandbox",
                        json.dumps(asdict(options)),
                    ],
                    cwd=ROOT,
                    env={**os.environ, "PATH": machine.search_path()},
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                    pass_fds=[listening.fileno()],
                    start_new_session=True,
                )

    def _command(self, command: str, node: str = "") -> dict[str, Any]:
        with self._lock:
            assert self._sandbox.stdin is not None
            try:
                self._sandbox.stdin.write(json.dumps({"command": command, "node": node}) + "\n")
                self._sandbox.stdin.flush()
            except OSError as error:
                raise ClusterError(f"the sandbox has ended: {error}") from error
            return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._sandbox.stdout is not None
        answer: dict[str, Any] = json.loads(self._sandbox.stdout.readline() or "null") or {
            "error": "the sandbox has ended"
        }
        if "error" in answer:
            log = (self._folder / "sandbox.log").read_text(errors="replace")
            raise ClusterError(f"{answer['error']}\n{log[-3000:]}".rstrip())
        return answer

    def _end_sandbox(self) -> None:
        assert self._sandbox.stdin is not None
        assert self._sandbox.stdout is not None
        with contextlib.suppress(OSError):
            self._sandbox.stdin.close()
        try:
            self._sandbox.wait(CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self._sandbox.kill()  # the kernel kills all processes in its namespaces
            self._sandbox.wait()
        self._sandbox.stdout.close()
