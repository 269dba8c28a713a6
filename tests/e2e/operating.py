"""What an operator has: kubectl and helm on one cluster, and ports of its pods."""

import contextlib
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import yaml

from deploy.tools.controlplane.api import ApiClient
from tests.support.live import connect

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

    @contextlib.contextmanager
    def forward(self, namespace: str, target: str, port: int) -> Iterator[int]:
        """Lead a port of this machine to one of a pod (`pod/NAME`) or service; yields ours."""
        command = [self.kubectl_path, "-n", namespace, "port-forward", target, f":{port}"]
        with subprocess.Popen(
            command, env=self._environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                assert process.stdout is not None
                line = process.stdout.readline()
                found = re.search(r"127\.0\.0\.1:(\d+) ->", line)
                if found is None:
                    process.kill()
                    raise CommandError(process.communicate()[1])
                yield int(found[1])
            finally:
                process.terminate()

    def _run(self, command: Sequence[str | Path], given: str = "") -> str:
        answer = subprocess.run(
            command,
            env=self._environ(),
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        if answer.returncode != 0:
            raise CommandError(answer.stdout + answer.stderr)
        return answer.stdout

    def _environ(self) -> dict[str, str]:
        # Nothing of this user's own configuration counts.
        home = {"HOME": str(self.folder), "KUBECONFIG": str(self.cluster.kubeconfig)}
        return {"PATH": os.environ["PATH"], **home}


def page(port: int, path: str, token: str = "") -> tuple[int, str]:
    """Read a page of the scheduler at a port of this machine: status and text."""
    connection = connect(port, 30)
    try:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return response.status, response.read().decode()
    finally:
        connection.close()
