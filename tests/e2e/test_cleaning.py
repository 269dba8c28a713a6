"""Whatever ends a cluster of ours, the machine is as it was."""

import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from deploy.tools.nodes import cgroups, leftovers
from tests.e2e.operating import ROOT

pytestmark = pytest.mark.skipif(
    os.environ.get("E2E_CLUSTER") == "kind", reason="kind cleans up in its own way"
)

#: Has a cluster until it is ended.
OWNER = """
import signal, sys
from deploy.tools.nodes.cluster import NodeCluster
signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored by whoever started us
with NodeCluster([]) as cluster:
    print("ready", flush=True)
    sys.stdin.read()
"""
#: What the kubelet would write to the machine if it could.
KERNEL = ("vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")
#: Folders that kubelet, containerd and network plugins make wherever they find none.
FOLDERS = ("/var/lib/kubelet", "/var/lib/cni", "/var/log/pods", "/run/netns", "/opt/containerd")


def traces(run: str) -> dict[str, object]:
    """Return what a cluster could leave on the machine, and what of a run there is."""
    return {
        "links": output("ip", "-oneline", "link", "show"),
        "addresses": output("ip", "-oneline", "address", "show"),
        "rules": output("nft", "list", "ruleset"),
        "mounts": mounts(),
        "kernel": {name: Path(f"/proc/sys/{name}").read_text() for name in KERNEL},
        "cgroups": cgroups.names(run),
        "folders": {name: Path(name).exists() for name in FOLDERS},
        "disk": leftovers.folder(run).exists(),
        "processes": processes(run),
    }


def output(*command: str) -> str:
    environ = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
    answer = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    # Each new object of the network takes a number, which says nothing.
    return "\n".join(sorted(line.partition(": ")[2] for line in answer.stdout.splitlines()))


def mounts() -> set[str]:
    """Return what is mounted, but for what engines that build images mount meanwhile."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line for line in lines if "/containers/" not in line and "/buildah" not in line}


def processes(run: str) -> set[str]:
    """Return the processes that belong to a run: all are told its name, or a path with it."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if run in words:
            found.add(f"{entry.parent.name} {words}")
    return found


@dataclass(frozen=True)
class Owner:
    """A process that has a cluster, and the name of that run."""

    process: subprocess.Popen[str]
    run: str


def start() -> Owner:
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return Owner(process, f"{leftovers.PREFIX}{leftovers.identity(process.pid)}")


def end_in_order(owner: Owner) -> None:
    owner.process.communicate()
    assert owner.process.returncode == 0


def interrupt(owner: Owner) -> None:
    """As Ctrl-C does."""
    owner.process.send_signal(signal.SIGINT)
    assert owner.process.wait() != 0
    owner.process.communicate()  # closes the pipes


def kill(owner: Owner) -> None:
    """Kill the owner: the site notices, and cleans up."""
    owner.process.kill()
    owner.process.communicate()
    leftovers.remove(owner.run)


def kill_both(owner: Owner) -> None:
    """Kill the owner and the site at once: nobody is there to clean up but the next run."""
    site = int((leftovers.folder(owner.run) / leftovers.SITE).read_text().partition("-")[0])
    os.kill(site, signal.SIGKILL)
    owner.process.kill()
    owner.process.communicate()
    assert owner.run in leftovers.dead_runs()
    leftovers.remove(owner.run)


@pytest.mark.parametrize("end", [end_in_order, interrupt, kill, kill_both])
def test_nothing_is_left(end):
    nothing = traces("a run that there is not")

    owner = start()
    there = traces(owner.run)
    end(owner)

    assert there["processes"]
    assert there["cgroups"] == {owner.run}
    assert there["disk"]
    assert traces(owner.run) == nothing
