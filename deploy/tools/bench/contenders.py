"""The contenders that are compared: the ceiling, kube-scheduler, and this scheduler."""

import hashlib
import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from deploy.tools.bench.workloads import SCHEDULER, Workload
from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.building import BuildError
from deploy.tools.controlplane.cluster import ControlPlane

__all__ = ["CONTENDERS", "Contender", "contenders_for", "kube_scheduler_version"]

ROOT: Final = Path(__file__).parents[3]

#: Workloads for which kube-scheduler runs with its default limits as well.
STOCK: Final = ("Basic",)
#: Workloads that the ceiling cannot run: pods must wait, claims are created, or there are no pods.
WITHOUT_CEILING: Final = ("EventHandling", "ExtendedResource", "Idle", "Quiet")

#: QPS and burst, as in kube-scheduler's benchmark.
LIFTED: Final = 5000

#: Grace period of a scheduler.
STOP_SECONDS: Final = 15.0

#: Draws flame graphs; `make profile` installs it.
PROFILER: Final = ROOT / "build" / "tools" / "bin" / "py-spy"
SAMPLES_PER_SECOND: Final = 250

_PROTOBUF: Final = "application/vnd.kubernetes.protobuf"


@dataclass(frozen=True)
class Contender:
    """A scheduler in the comparison."""

    name: str
    #: The name in tables and plots.
    title: str
    #: QPS and burst; None for the defaults.
    qps: int | None = LIFTED
    #: Whether it follows scheduling rules; if not, only bindings are verified.
    keeps_rules: bool = True
    #: The file for its flame graph; for this scheduler only.
    profile: Path | None = None
    #: Whether the flight recorder is on; for this scheduler only.
    records: bool = False

    def start(self, cluster: ControlPlane, workload: Workload, code: Path) -> int:
        """Start it; return its process id.

        Args:
            cluster: the control plane.
            workload: the workload.
            code: the folder with the code of this scheduler.
        """
        kubeconfig = cluster.admin_kubeconfig
        environ = {**os.environ, "PYTHONPATH": f"{code}{os.pathsep}{ROOT}"}
        environ.pop(
            "PYTHONDONTWRITEBYTECODE", None
        )  # without bytecode each start compiles everything
        cluster.run(self.name, self._command(cluster.folder, kubeconfig, workload), environ)
        pid = cluster.pid(self.name)
        if self.profile is not None:
            options = [f"--pid={pid}", f"--rate={SAMPLES_PER_SECOND}", f"--output={self.profile}"]
            cluster.run(PROFILER.name, [PROFILER, "record", *options])
        return pid

    def stop(self, cluster: ControlPlane) -> None:
        """End it; its flame graph is complete then.

        Raises:
            RuntimeError: There is no flame graph; the message is that of the profiler.
        """
        cluster.stop(self.name, STOP_SECONDS)
        if self.profile is None:
            return
        deadline = time.monotonic() + STOP_SECONDS
        while cluster.exit_code(PROFILER.name) is None and time.monotonic() < deadline:
            time.sleep(0.1)
        if cluster.exit_code(PROFILER.name) != 0:
            raise RuntimeError(cluster.log(PROFILER.name).read_text(errors="replace"))

    def configuration(self, kubeconfig: Path | str) -> dict[str, Any]:
        """Return the KubeSchedulerConfiguration; the ceiling does not read it."""
        client: dict[str, Any] = {"kubeconfig": str(kubeconfig)}
        if self.qps is not None:
            client |= {"qps": self.qps, "burst": self.qps}
        if self.name.startswith("kube-scheduler"):
            client |= {"contentType": _PROTOBUF}
        profile: dict[str, Any] = {"schedulerName": SCHEDULER}
        if self.name == "preemptive-scheduler":
            minor = kube_scheduler_version().rpartition(".")[0]
            args = {"name": "PreemptiveScheduler", "args": {"reference": minor}}
            profile |= {"pluginConfig": [args]}
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": client,
            "leaderElection": {"leaderElect": False},
            "profiles": [profile],
        }

    def fingerprint(self, code: Path) -> str:
        """Return a fingerprint of its code and configuration."""
        digest = hashlib.sha256(json.dumps(self.configuration("")).encode())
        if self.name == "preemptive-scheduler":
            files: Iterable[Path] = sorted((code / "scheduler").rglob("*.py"))
        elif self.name == "ceiling":
            ours = [
                Path(__file__).with_name(f"{each}.py") for each in ("ceiling", "calls", "devices")
            ]
            files = [*ours, *sorted((code / "scheduler" / "kube" / "http").glob("*.py"))]
        else:
            files = []
            digest.update(kube_scheduler_version().encode())
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
                *(["--claims"] if workload.claims else []),
                kubeconfig,
                *spaces,
            ]
        config = folder / f"{self.name}.yaml"
        config.write_text(yaml.safe_dump(self.configuration(kubeconfig)))
        flags = [f"--config={config}", "--secure-port=0"]
        if self.records:
            flags.append(f"--recording-dir={folder / 'recording'}")
        if self.name == "preemptive-scheduler":
            return [sys.executable, "-m", "scheduler.cli.main", "run", *flags]
        return [binaries.find("kube-scheduler", kube_scheduler_version()), *flags]


def kube_scheduler_version(environ: Mapping[str, str] = os.environ) -> str:
    """Return the release of kube-scheduler that runs, whose decisions this scheduler follows.

    Args:
        environ: REFERENCE chooses it, as v1.36; the default is the release of the API server.

    Raises:
        BuildError: That release cannot be built; the message is one line.
    """
    wanted, versions = environ.get("REFERENCE", ""), binaries.pinned_versions("kube-scheduler")
    found = next((each for each in versions if f"{each}.".startswith(f"{wanted}.")), None)
    if found is None and wanted:
        raise BuildError(f"no kube-scheduler {wanted}; there are {', '.join(versions)}")
    return found or versions[0]


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
