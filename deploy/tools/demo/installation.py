"""Installs the manifests of the scheduler, and runs it as a process.

It runs with the token of its own ServiceAccount, so it has the permissions of
`deploy/manifests/base` and no others.
"""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.manifests import documents

__all__ = ["NAME", "install", "manifests", "start"]

ROOT: Final = Path(__file__).parents[3]
BASE: Final = ROOT / "deploy" / "manifests" / "base"
_NOT_HERE: Final = (
    "deployment.yaml",
    "pod-disruption-budget.yaml",
    "policy-roles.yaml",
    "api-roles.yaml",
)

#: The name of the scheduler, its namespace, its ServiceAccount, its lease, and of the process.
NAME: Final = "preemptive-scheduler"


def manifests(base: Path = BASE) -> Iterator[dict[str, Any]]:
    """Yield the objects of the base that the process needs, in order.

    The cluster runs no images, so the Deployment is omitted, and so are roles for users.
    """
    for name in yaml.safe_load((base / "kustomization.yaml").read_text())["resources"]:
        if name not in _NOT_HERE:
            yield from documents(base / name)


def install(cluster: ControlPlane) -> None:
    """Create the namespace, the ServiceAccount, its permissions and FlowSchemas."""
    cluster.api.apply(manifests())


def start(cluster: ControlPlane, port: int) -> Path:
    """Start the scheduler; return the path of its log, which has JSON lines.

    Args:
        cluster: The control plane.
        port: Where it serves, on loopback only, so that it needs no credentials.
    """
    kubeconfig = cluster.service_account_kubeconfig(NAME, NAME)
    command = [sys.executable, "-m", "scheduler.cli.main", "run", "-v", "2"]
    flags = {
        "kubeconfig": kubeconfig,
        "leader-elect-resource-namespace": NAME,
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "logging-format": "json",
        "recording-dir": cluster.folder / "recording",
        "recording-size": "16Mi",
    }
    argv = [*command, *(f"--{name}={value}" for name, value in flags.items())]
    return cluster.run(NAME, argv, {**os.environ, "PYTHONPATH": str(ROOT)})
