"""What an operator has: kubectl and helm on one cluster, and ports of its pods."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from deploy.tools.controlplane.api import ApiClient

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "charts" / "preemptive-scheduler"

#: How long a command may take on a busy machine.
PATIENCE_SECONDS: Final = 240.0


class Cluster(Protocol):
    """A cluster with real nodes: of `deploy.tools.nodes` or `deploy.tools.kind`."""

    kubeconfig: Path
    api: ApiClient
    nodes: list[str]

    def disk(self, node: str) -> Path | None: ...
    def cut_power(self, node: str) -> None: ...
    def boot(self, node: str) -> None: ...
    def restart_kubelet(self, node: str) -> None: ...
    def change_token_key(self) -> None: ...
    def drop_old_token_key(self) -> None: ...
    def close(self) -> None: ...


class CommandError(Exception):
    """A command said no; the message is what it printed."""


@dataclass(frozen=True)
class Operator:
    """Runs commands as the administrator of a cluster."""

    cluster: Cluster
    helm_path: Path
    kubectl_path: Path
    folder: Path

    def kubectl(self, *arguments: str, given: str = "") -> str:
        """Return what kubectl prints."""
        return self._run([self.kubectl_path, *arguments], given)

    def helm(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        """Return what helm prints; values go into a file."""
        file = self.folder / "values.yaml"
        file.write_text(yaml.safe_dump(dict(values or {})))
        extra = [f"--values={file}"] if arguments[0] in ("install", "upgrade", "template") else []
        return self._run([self.helm_path, *arguments, *extra])

    def _run(self, command: Sequence[str | Path], given: str = "") -> str:
        answer = subprocess.run(
            command,
            env=self.environ(),
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        if answer.returncode != 0:
            raise CommandError(answer.stdout + answer.stderr)
        return answer.stdout

    def environ(self) -> dict[str, str]:
        """Return the environment of commands; nothing of this user's own configuration counts."""
        home = {"HOME": str(self.folder), "KUBECONFIG": str(self.cluster.kubeconfig)}
        return {"PATH": os.environ["PATH"], **home}
