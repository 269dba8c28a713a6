"""The contenders that are compared: the ceiling, kube-scheduler, and this scheduler."""

import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.tools.bench.workloads import SCHEDULER, Workload
from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.cluster import ControlPlane

__all__ = ["CONTENDERS", "Contender", "contenders_for"]

ROOT: Final = Path(__file__).parents[3]

#: Workloads for which kube-scheduler runs with its stock limits as well.
STOCK: Final = ("Basic",)
#: Workloads that no binder without logic can run: pods must wait, or there are none.
WITHOUT_CEILING: Final = ("EventHandling", "Idle", "Quiet")

#: Requests a second and at once, as in kube-scheduler's benchmark.
LIFTED: Final = 5000

_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True)
class Contender:
    """A scheduler in the comparison."""

    name: str
    #: For people.
    title: str
    #: Client limits: None leaves the stock ones.
    qps: int | None = LIFTED
    #: Whether it follows scheduling rules; if not, `verify` only checks that all pods have a node.
    keeps_rules: bool = True
    #: The path for its flame graph; for this scheduler only.
    profile: Path | None = None

    def start(self, cluster: ControlPlane, workload: Workload, code: Path) -> int:
        """Start it; return its process id.

        Args:
            cluster: where to schedule.
            workload: what will be scheduled.
            code: the folder in which our code lies.
        """
        kubeconfig = cluster.admin_kubeconfig
        environ = {**os.environ, "PYTHONPATH": f"{code}{os.pathsep}{ROOT}"}
        environ.pop("PYTHONDONTWRITEBYTECODE", None)  # each start would compile everything again
        cluster.run(self.name, self._command(cluster.folder, kubeconfig, workload), environ)
        return cluster.pid(self.name)

    def configuration(self, kubeconfig: Path | str) -> dict[str, Any]:
        """Return the KubeSchedulerConfiguration; the ceiling has none but this."""
        client: dict[str, Any] = {"kubeconfig": str(kubeconfig)}
        if self.qps is not None:
            client |= {"qps": self.qps, "burst": self.qps}
        if self.name.startswith("kube-scheduler"):
            client |= {"contentType": _PROTOBUF}
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": client,
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": SCHEDULER}],
        }

    def fingerprint(self, code: Path) -> str:
        """Return a fingerprint of its code and configuration."""
        digest = hashlib.sha256(json.dumps(self.configuration("")).encode())
        if self.name == "preemptive-scheduler":
            files: Iterable[Path] = sorted((code / "scheduler").rglob("*.py"))
        elif self.name == "ceiling":
            files = [Path(__file__).with_name(f"{each}.py") for each in ("ceiling", "wire")]
        else:
            files = []
            digest.update(binaries.pinned_version("kube-scheduler").encode())
        for path in files:
            digest.update(path.read_bytes())
        return digest.hexdigest()[:16]

    def _command(self, folder: Path, kubeconfig: Path, workload: Workload) -> list[str | Path]:
        if self.name == "ceiling":
            spaces = sorted({batch.namespace for batch in workload.measured})
            victims = f"--victims={workload.victims_per_pod}"
            return [
                sys.executable,
                "-m",
                "deploy.tools.bench.ceiling",
                victims,
                kubeconfig,
                *spaces,
            ]
        config = folder / f"{self.name}.yaml"
        config.write_text(yaml.safe_dump(self.configuration(kubeconfig)))
        flags = [f"--config={config}", "--secure-port=0"]
        if self.name == "preemptive-scheduler":
            python: list[str | Path] = [sys.executable, "-m"]
            if self.profile is not None:
                python += ["deploy.tools.bench.sampler", self.profile]
            return [*python, "scheduler.cli.main", "run", *flags]
        return [binaries.find("kube-scheduler"), *flags]


CONTENDERS: Final[Mapping[str, Contender]] = {
    each.name: each
    for each in (
        Contender("ceiling", "ceiling", keeps_rules=False),
        Contender("kube-scheduler", "kube-scheduler"),
        Contender("preemptive-scheduler", "preemptive-scheduler"),
        Contender("kube-scheduler-stock", "kube-scheduler, stock limits", qps=None),
    )
}


def contenders_for(workload: str) -> list[Contender]:
    """Return the contenders that run a workload, in the order of a round."""
    left_out = set()
    if workload not in STOCK:
        left_out.add("kube-scheduler-stock")
    if workload in WITHOUT_CEILING:
        left_out.add("ceiling")
    return [each for name, each in CONTENDERS.items() if name not in left_out]
