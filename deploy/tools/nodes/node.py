"""The processes of a node: started, killed, and its programs restarted."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from deploy.tools.controlplane import binaries
from deploy.tools.nodes import cgroups, configs, machine, networking
from deploy.tools.nodes.configs import Node
from deploy.tools.nodes.init import Plan

__all__ = ["NodeError", "NodeProcesses", "Supplies"]

INIT: Final = Path(__file__).with_name("init.py")

#: Starts a node in its namespaces; its first process ends with `unshare`, and all others with it.
UNSHARE: Final = (
    "unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
    "--propagation", "private",
)  # fmt: skip

#: Kernel parameters that the kubelet requires.
KERNEL: Final = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


class NodeError(RuntimeError):
    """A node did not start; the message says why."""


class Supplies:
    """The inputs of nodes.

    Args:
        programs: paths of kubelet, kube-proxy and the container runtime, by name.
        images: archives to import.
        authority: the certificate of the cluster's authority.
        kubeconfigs: for the kubelet of each node by its name, and for kube-proxy.
    """

    def __init__(
        self,
        programs: Mapping[str, str],
        images: list[str],
        authority: Path,
        kubeconfigs: Mapping[str, Path],
    ) -> None:
        self._programs = programs
        self._images = images
        self._authority = authority
        self._kubeconfigs = kubeconfigs

    def plan(self, node: Node, nodes: int) -> Plan:
        """Write the files of a node; return the plan for its first process."""
        binds = {place: str(node.folder / place[1:].replace("/", "-")) for place in _OWN_PLACES}
        logs = node.folder / "logs"
        for folder in (*map(Path, binds.values()), node.folder / "cni", node.cdi, logs):
            folder.mkdir(parents=True, exist_ok=True)
        files = {
            "cni/10-pods.conflist": configs.network(node),
            "containerd.toml": configs.containerd(node),
            "kubelet.yaml": configs.kubelet(node, self._authority),
            "proxy.yaml": configs.proxy(node, self._kubeconfigs["kube-proxy"]),
        }
        for name, text in files.items():
            (node.folder / name).write_text(text)
        kubelet = [
            self._programs["kubelet"],
            f"--config={node.folder}/kubelet.yaml",
            f"--kubeconfig={self._kubeconfigs[node.name]}",
            f"--hostname-override={node.name}",
            f"--node-ip={networking.address(node.number)}",
        ]
        return Plan(
            # A clean environment: some variables would lead a kubelet to the metadata of a cloud.
            environ={"PATH": self._search_path(), "HOME": "/root", "LANG": "C.UTF-8"},
            binds=binds,
            settings=KERNEL,
            network=[list(command) for command in networking.inside(node.number, nodes)],
            runtime=[self._programs["containerd"], f"--config={node.folder}/containerd.toml"],
            images=self._images,
            programs={
                "kube-proxy": [self._programs["kube-proxy"], f"--config={node.folder}/proxy.yaml"],
                "kubelet": kubelet,
            },
            logs=str(logs),
        )

    def _search_path(self) -> str:
        """Return PATH with the programs of the container runtime before those of the machine."""
        folders = (str(Path(self._programs[name]).parent) for name in binaries.RUNTIME)
        return ":".join([*folders, machine.search_path()])


_OWN_PLACES: Final = ("/var/lib", "/var/log")


class NodeProcesses:
    """The processes of a node."""

    def __init__(self, node: Node, plan: Plan) -> None:
        self.node = node
        self._plan = plan
        self._process: subprocess.Popen[str] | None = None

    def boot(self) -> None:
        """Start the node with its disk as it is. Call `await_running` afterwards."""
        cgroups.make(self.node.cgroup)
        plan = self.node.folder / "plan.json"
        plan.write_text(json.dumps(asdict(self._plan)))
        self._process = subprocess.Popen(
            [*UNSHARE, sys.executable, "-I", "-S", INIT, plan],
            env=self._plan.environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self.node.folder / "logs" / "init.log").open("ab"),
            text=True,
        )
        self._expect("disconnected")
        for command in networking.cable(self.node.number, self._first_process()):
            subprocess.run(command, check=True)
        self._tell("connected")

    def await_running(self) -> None:
        """Wait until kubelet and kube-proxy have been started.

        Raises:
            NodeError: one could not be started.
        """
        self._expect("running")

    def restart(self, program: str) -> None:
        """Kill a program of the node and start it again."""
        self._tell(f"restart {program}")
        self._expect("restarted")

    def cut_power(self) -> None:
        """Kill all processes, and wait until nothing but the disk is left."""
        if self._process is None:
            return
        with contextlib.suppress(OSError):
            os.kill(self._first_process(), signal.SIGKILL)
        self._process.wait()  # it waits for all processes of the namespace
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with contextlib.suppress(OSError):
                stream.close()
        self._process = None
        with contextlib.suppress(
            subprocess.CalledProcessError
        ):  # it was removed with the namespace
            command = ("ip", "link", "delete", f"node{self.node.number}")
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        cgroups.remove(self.node.cgroup)

    def _first_process(self) -> int:
        assert self._process is not None
        pid = self._process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else pid

    def _tell(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _expect(self, field: str) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline() or "{}")
        if field not in answer:
            log = self.node.folder / "logs" / "init.log"
            end = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
            raise NodeError(f"{self.node.name}: {answer.get('error', 'it ended')}\n{end}")
