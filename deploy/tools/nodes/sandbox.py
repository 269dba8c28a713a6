"""Runs control plane and nodes; it is the first process of its PID namespace.

`cluster` starts it as `python -m deploy.tools.nodes.sandbox OPTIONS` and sends commands: a JSON
object per line on standard input, {"command": ..., "node": ...}. It responds to each with one line
on standard output. The first line, {"kubeconfig": ..., "nodes": [...]}, is written when the nodes
run. When the input ends, it ends everything in order; if it is killed, the kernel kills all
processes.
"""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.certificates import service_account_keys
from deploy.tools.controlplane.cluster import ControlPlane, ControlPlaneError
from deploy.tools.controlplane.components import Settings
from deploy.tools.nodes import cgroups, machine, networking, relay
from deploy.tools.nodes.configs import Node
from deploy.tools.nodes.node import NodeError, NodeProcesses, Supplies

__all__ = ["Options", "main"]

_FLAGS: Final = {
    "kube-apiserver": {
        "bind-address": "0.0.0.0",  # in the sandbox's namespace
        "advertise-address": networking.GATEWAY,
        "endpoint-reconciler-type": None,
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "kubelet-preferred-address-types": "InternalIP",
    }
}

#: File with the public keys that verify tokens of ServiceAccounts.
TOKEN_KEYS: Final = "service-accounts.pub"


@dataclass(frozen=True)
class Options:
    """The options from `cluster`.

    Attributes:
        run: the name of this run, of its folder and its cgroups.
        folder: the folder for disks of nodes and logs, which is removed at the end.
        logs: the folder for copies of all logs at the end.
        nodes: names of the nodes.
        images: archives to import on each node.
        programs: paths of kubelet, kube-proxy and the container runtime, by name.
        socket: file descriptor of the listening socket for the API server.
    """

    run: str
    folder: str
    logs: str
    nodes: list[str]
    images: list[str]
    programs: dict[str, str]
    socket: int


class Sandbox:
    """Control plane and nodes."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._folder = Path(options.folder)
        self._control: ControlPlane | None = None
        self._nodes: dict[str, NodeProcesses] = {}

    def up(self) -> dict[str, Any]:
        """Start everything; return the kubeconfig and the names of the nodes."""
        # The folder of the control plane is removed with the namespace in any case.
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=True)
        count = len(self._options.nodes)
        for command in networking.bridge(count):
            subprocess.run(command, check=True)
        settings = Settings(addresses=(networking.GATEWAY,), flags=_FLAGS)
        self._control = ControlPlane(settings)
        self._control.start()
        self._run_scheduler(self._control)
        supplies = self._supplies(self._control)
        for number, name in enumerate(self._options.nodes, 1):
            node = self._node(name, number)
            self._nodes[name] = NodeProcesses(node, supplies.plan(node, count))
            self._nodes[name].boot()
        for running in self._nodes.values():
            running.await_running()
        listening = socket.socket(fileno=self._options.socket)
        address = "{}:{}".format(*listening.getsockname())
        port = int(self._control.server.rsplit(":", 1)[1])
        relay.start(listening, "127.0.0.1", port)
        admin = _served_at(self._control.admin_kubeconfig, f"https://{address}")
        return {"kubeconfig": admin, "nodes": self._options.nodes}

    def answer(self, command: str, node: str = "") -> dict[str, Any]:
        """Execute a command.

        Raises:
            LookupError: there is no such command or node.
            ControlPlaneError, NodeError: it failed.
        """
        assert self._control is not None
        if command == "boot":
            self._nodes[node].boot()
            self._nodes[node].await_running()
        elif command == "cut_power":
            self._nodes[node].cut_power()
        elif command == "restart_kubelet":
            self._nodes[node].restart("kubelet")
        elif command == "change_token_key":
            self._change_token_key(self._control)
        elif command == "drop_old_token_key":
            self._drop_old_token_key(self._control)
        else:
            raise LookupError(f"there is no command {command}")
        return {"done": command}

    def close(self) -> None:
        """End everything, and keep copies of the logs."""
        for node in self._nodes.values():
            node.cut_power()
        self._keep_logs()
        if self._control is not None:
            self._control.close()
        cgroups.remove(self._options.run)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _change_token_key(self, control: ControlPlane) -> None:
        """Sign tokens with a new key; tokens of the old one stay valid."""
        private, public = service_account_keys()
        keys = control.folder / "pki" / TOKEN_KEYS
        keys.with_suffix(".old").write_bytes(keys.read_bytes())
        keys.with_name("service-accounts.key").write_bytes(private)
        keys.write_bytes(public + keys.read_bytes())
        control.restart_apiserver()

    def _drop_old_token_key(self, control: ControlPlane) -> None:
        """Invalidate tokens that were signed with the old key.

        The controller manager is restarted, as the documentation of Kubernetes asks for when the
        key is replaced: the tokens of its controllers are invalid as well.
        """
        keys = control.folder / "pki" / TOKEN_KEYS
        old = keys.with_suffix(".old").read_bytes()
        keys.write_bytes(keys.read_bytes().removesuffix(old))
        control.restart_apiserver()
        control.restart_controllers()

    def _node(self, name: str, number: int) -> Node:
        cni = machine.cni_folder()
        assert cni is not None  # `cluster` has checked it
        cgroup = f"{self._options.run}/{name}"
        return Node(name, number, self._folder / name, cgroup, cni)

    def _supplies(self, control: ControlPlane) -> Supplies:
        """Write the kubeconfigs of nodes, with the address of the API server on their network."""
        port = control.server.rsplit(":", 1)[1]
        users = {name: (f"system:node:{name}", "system:nodes") for name in self._options.nodes}
        kubeconfigs = {}
        for name, (user, group) in {**users, "kube-proxy": ("system:kube-proxy", None)}.items():
            text = _served_at(
                control.kubeconfig_for(user, group), f"https://{networking.GATEWAY}:{port}"
            )
            kubeconfigs[name] = self._folder / f"{name}.kubeconfig"
            kubeconfigs[name].write_text(text)
        authority = self._folder / "ca.crt"
        shutil.copy(control.folder / "pki" / "ca.crt", authority)
        return Supplies(self._options.programs, self._options.images, authority, kubeconfigs)

    def _run_scheduler(self, control: ControlPlane) -> None:
        """Start kube-scheduler for all other pods, such as those of our scheduler."""
        name = "kube-scheduler"
        kubeconfig = control.kubeconfig_for(f"system:{name}")
        flags = [f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--secure-port=0"]
        control.run(name, [binaries.find(name), *flags])

    def _keep_logs(self) -> None:
        target = Path(self._options.logs)
        shutil.rmtree(target, ignore_errors=True)
        sources = {name: node.node.folder / "logs" for name, node in self._nodes.items()}
        if self._control is not None:
            sources["control-plane"] = self._control.folder / "logs"
        for name, source in sources.items():
            with contextlib.suppress(OSError, shutil.Error):
                shutil.copytree(source, target / name)


def _served_at(kubeconfig: Path, server: str) -> str:
    """Return a kubeconfig with another address."""
    config = yaml.safe_load(kubeconfig.read_text())
    for entry in config["clusters"]:
        entry["cluster"]["server"] = server
    return yaml.safe_dump(config, sort_keys=False)


def _say(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


def main() -> None:
    """Serve the owner until it ends, then clean up."""
    os.environ["PATH"] = machine.search_path()
    sandbox = Sandbox(Options(**json.loads(sys.argv[1])))
    try:
        _say(sandbox.up())
        for line in sys.stdin:
            try:
                _say(sandbox.answer(**json.loads(line)))
            except (LookupError, OSError, ControlPlaneError, NodeError) as error:
                _say({"error": f"{type(error).__name__}: {error}"})
    except (OSError, subprocess.SubprocessError, ControlPlaneError, NodeError) as error:
        _say({"error": f"{type(error).__name__}: {error}"})
    finally:
        sandbox.close()


if __name__ == "__main__":
    main()
