"""Measures what shadow mode costs beside a scheduler that binds pods at a steady rate.

    python -m deploy.tools.bench.shadow --nodes 5000 --rate 100 --seconds 60

A control plane is started, without controllers. The other scheduler is this program: it creates
pods, binds each to the next node, and says soon after that it runs, as its kubelet would. The CPU
time of the process in shadow mode is read before and after.
"""

import argparse
import itertools
import json
import os
import ssl
import sys
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.components import Settings
from deploy.tools.controlplane.nodes import NodeShape

PORT: Final = 10299
PODS: Final = "/api/v1/namespaces/default/pods"
#: A second begins this often in parts, so that pods do not come all at once.
PARTS: Final = 20


def main() -> int:
    """Measure, and print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--rate", type=int, default=100, help="pods a second")
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args()
    with ControlPlane(Settings(controllers=False, kwok=False)) as cluster:
        shape = NodeShape(cpu="32", memory="128Gi", played=False)
        cluster.create_nodes(given.nodes, shape, prefix="n")
        environ = {key: value for key, value in os.environ.items() if not key.startswith("PYTHOND")}
        program = Path(sys.executable).with_name("preemptive-scheduler")
        cluster.run(
            "shadow",
            [program, "run", "--shadow=default-scheduler", "--leader-elect=false",
             f"--kubeconfig={cluster.admin_kubeconfig}", f"--secure-port={PORT}",
             "--bind-address=127.0.0.1"],
            environ,
        )  # fmt: skip
        pid = cluster.pid("shadow")
        _document()
        time.sleep(5.0)  # all nodes are compiled, and the pages were imported
        idle = _cpu(pid)
        time.sleep(10.0)
        idle = _cpu(pid) - idle
        before, began = _cpu(pid), time.monotonic()
        _load(cluster, given.rate, given.seconds, given.nodes)
        took, used = time.monotonic() - began, _cpu(pid) - before
        time.sleep(3.0)
        found = _document()
    print(
        f"{given.nodes} nodes, {given.rate * given.seconds} pods bound in {took:.1f} s"
        f" ({given.rate * given.seconds / took:.0f}/s): shadow mode used {used:.2f} s of CPU time,"
        f" {100 * used / took:.1f} % of a core (idle: {10 * idle:.1f} %), load average"
        f" {os.getloadavg()[0]:.1f}"
    )
    print(found["verdict"])
    return 0


def _load(cluster: ControlPlane, rate: int, seconds: int, nodes: int) -> None:
    """Create and bind pods, as many a second as asked for."""
    numbers, api = itertools.count(), cluster.api

    def one(number: int) -> None:
        name = f"p-{number}"
        api.post(PODS, _pod(name))
        target = {"kind": "Node", "name": f"n-{number % nodes}"}
        api.post(f"{PODS}/{name}/binding", {"metadata": {"name": name}, "target": target})
        api.patch(f"{PODS}/{name}/status", {"status": {"phase": "Running"}})

    began = time.monotonic()
    with ThreadPoolExecutor(16) as pool:
        for part in range(seconds * PARTS):
            for _ in range(rate // PARTS):
                pool.submit(one, next(numbers))
            time.sleep(max(0.0, began + (part + 1) / PARTS - time.monotonic()))


def _pod(name: str) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "128Mi"}
    return {
        "metadata": {"name": name, "labels": {"app": "load"}},
        "spec": {
            "containers": [{"name": "main", "image": "none", "resources": {"requests": requests}}],
            "tolerations": [{"operator": "Exists"}],
        },
    }


def _cpu(pid: int) -> float:
    """Return the CPU time that a process has used, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _document() -> Any:
    """Return the document of shadow mode, as soon as it is served."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    url = f"https://127.0.0.1:{PORT}/api/v1/shadow?limit=1"
    pause = threading.Event()
    for _ in range(600):
        try:
            with urllib.request.urlopen(url, context=context) as answer:
                return json.load(answer)
        except OSError:
            pause.wait(0.2)
    raise TimeoutError("shadow mode does not answer")


if __name__ == "__main__":
    sys.exit(main())
