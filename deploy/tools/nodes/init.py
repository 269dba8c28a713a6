"""The first process of a node: starts its programs, reaps processes, and executes commands.

It is a script that needs nothing but the standard library: `python -I -S init.py PLAN`. PLAN is a
JSON file with the fields of `Plan`. It writes `{"disconnected": true}` to standard output, waits
for a line while the sandbox connects its network, and writes `{"running": true}` when all programs
run. After that a line `restart NAME` kills a program and starts it again. When the input ends, the
sandbox has ended, and the node ends as well.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

#: Timeout for containerd to respond.
RUNTIME_SECONDS = 30.0
PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Plan:
    """The configuration of the node.

    Attributes:
        environ: the environment of all programs.
        binds: folders of the node by their mount points.
        settings: values of kernel parameters that the kubelet reads; those of the machine stay.
        network: commands that configure the network.
        runtime: the command that runs containers.
        images: archives to import.
        programs: what else runs, by name.
        logs: folder for the output of all.
    """

    environ: dict[str, str]
    binds: dict[str, str]
    settings: dict[str, str]
    network: list[list[str]]
    runtime: list[str]
    images: list[str]
    programs: dict[str, list[str]]
    logs: str


class Init:
    """Owns all processes of the node: it is their parent, or adopts them."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._changed = threading.Condition()
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def prepare(self) -> None:
        """Mount the node's folders and kernel parameters."""
        _mount("--make-rshared", "/")
        for place, folder in self._plan.binds.items():
            _mount("--bind", folder, place)
        _mount("-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
        for name, value in self._plan.settings.items():
            # The kubelet only reads those that have the value it wants.
            file = Path("/run") / name.replace("/", "-")
            file.write_text(f"{value}\n")
            _mount("--bind", str(file), f"/proc/sys/{name}")
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")

    def start(self) -> None:
        """Configure the network, import the images, start all programs."""
        for command in self._plan.network:
            self._run(command)
        self._start("containerd", self._plan.runtime)
        deadline = time.monotonic() + RUNTIME_SECONDS
        while self._run(["ctr", "version"], check=False) != 0:
            if time.monotonic() > deadline:
                raise TimeoutError(f"containerd does not respond within {RUNTIME_SECONDS:g} s")
            time.sleep(PAUSE_SECONDS)
        for archive in self._plan.images:
            self._run(["ctr", "-n", "k8s.io", "images", "import", archive])
        for name, command in self._plan.programs.items():
            self._start(name, command)

    def reap(self) -> None:
        """Reap every process that ends; never returns."""
        while True:
            pid, status = os.waitpid(-1, 0)
            with self._changed:
                for process in self._running.values():
                    if process.pid == pid:
                        process.returncode = os.waitstatus_to_exitcode(status)
                self._changed.notify_all()

    def serve(self) -> None:
        """Execute commands until the input ends, then end the node."""
        for line in sys.stdin:
            command, name = line.split()
            if command == "restart":
                self._restart(name)
                _say(restarted=name)
        os._exit(0)  # the kernel kills the rest

    def _restart(self, name: str) -> None:
        process = self._running[name]
        with self._changed:
            if process.returncode is None:
                os.kill(process.pid, signal.SIGKILL)
            self._changed.wait_for(lambda: process.returncode is not None)
            self._start(name, self._plan.programs[name])

    def _start(self, name: str, command: list[str]) -> None:
        with self._log(name).open("ab") as log:
            self._running[name] = subprocess.Popen(
                command, env=self._plan.environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _run(self, command: list[str], *, check: bool = True) -> int:
        with self._log("init").open("ab") as log:
            environ = self._plan.environ
            return subprocess.run(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=check
            ).returncode

    def _log(self, name: str) -> Path:
        return Path(self._plan.logs) / f"{name}.log"


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True)


def _say(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def main() -> None:
    """Run the first process of a node."""
    init = Init(Plan(**json.loads(Path(sys.argv[1]).read_text())))
    try:
        init.prepare()
        _say(disconnected=True)
        sys.stdin.readline()
        init.start()
    except (OSError, subprocess.SubprocessError) as error:
        _say(error=str(error))
        return
    _say(running=True)
    threading.Thread(target=init.serve, daemon=True).start()
    init.reap()


if __name__ == "__main__":
    main()
