"""Every command that a page tells operators to paste works, on a real API server.

The chart is installed as `docs/installation.md` says, and a scheduler runs with its rights and
configuration. What this machine lacks for a command is said in `LACKING`; such a command is parsed.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
import yaml

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.components import Settings
from deploy.tools.controlplane.nodes import NodeShape
from tests.charts.rendering import CHART, NAME, ROOT, configuration
from tests.charts.runbook_commands import Command, blocks, glob_outside_quotes
from tests.integration.access import EVERYWHERE
from tests.integration.objects import Json, is_running, pod, priority_class
from tests.support.control_plane import VERSION
from tests.support.live import Scheduler, free_port

pytestmark = [pytest.mark.chart, pytest.mark.cluster, pytest.mark.xdist_group(__name__)]

#: In this order; the last page ends with the removal of all.
PAGES: Final = {
    ROOT / "docs" / "operations.md": NAME,
    ROOT / "docs" / "troubleshooting.md": "default",
    ROOT / "docs" / "security.md": NAME,
    CHART / "README.md": NAME,
    ROOT / "docs" / "installation.md": NAME,
}
BLOCKS: Final = [(each, namespace) for page, namespace in PAGES.items() for each in blocks(page)]

#: What the commands that match need, and this machine does not have.
LACKING: Final = {
    r"^make |^docker ": "an engine that builds and pushes images",
    r"^cosign |^gh attestation |^sha256sum |^(IDENTITY|ISSUER)=": "a release that was signed",
    r" rollout restart ": "a kubelet that starts the replicas again",
    r"^kubectl (-n \S+ )?logs\b": "a kubelet, which reads logs",
    # tests/integration/test_kubectl_plugin.py runs it.
    r"^kubectl preemptive ": "a kubelet that forwards ports",
    r"^kubectl describe certificate$": "cert-manager",
}
#: Named in a sentence, and not to be pasted.
NAMES: Final = {
    "helm --wait",
    "helm rollback",
    "helm template",
    "helm upgrade",
    "helm upgrade --force",
    "kubectl apply",
    "kubectl apply -k",
    "kubectl debug",
    "kubectl exec",
    "kubectl preemptive",
    "kubectl replace",
    "kubectl replace --force",
}
#: What is done once, before all other commands.
FIRST: Final = re.compile(
    r"^helm install preemptive-scheduler |"
    r"^kubectl create (serviceaccount|clusterrole|clusterrolebinding) (scheduler-)?pages\b"
)

#: What a reader fills in.
FILLED_IN: Final = (
    (r"oci://\S+ --version \S+", "charts/preemptive-scheduler"),
    (r"(?<!\\$)\bPOD\b(?!=)", "$(kubectl get pods -o jsonpath='{.items[0].metadata.name}')"),
    (r"\bpreemptionpolicy NAME\b", "preemptionpolicy careful"),
    (r"\buid UID\b", "uid 0000"),
    (r"\bnamespace batch\b", "namespace default"),
)
#: Of policies.
DEFINITION: Final = (
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"
    "preemptionpolicies.preemptive-scheduler.io"
)
_VALUES: Final = {
    "preemptionPolicies": [
        {"name": "careful", "spec": {"budgets": [{"maxVictims": 10, "window": "1h"}]}}
    ]
}
#: Where the forwarded port would be, the scheduler itself listens.
_KUBECTL: Final = """\
#!/bin/sh
case " $* " in *" port-forward "*) exit 0 ;; esac
exec {kubectl} "$@"
"""
#: An answer like 401 is a failure.
_CURL: Final = """\
#!/bin/sh
exec {curl} --fail-with-body "$@"
"""


@dataclass(frozen=True)
class Desk:
    """Where an operator works: a folder like the repository, programs, and a cluster."""

    folder: Path
    environment: dict[str, str]
    port: int

    def run(self, script: str, namespace: str) -> str:
        """Run commands in a shell; return what they print.

        Raises:
            AssertionError: One has failed.
        """
        for pattern, text in FILLED_IN:
            script = re.sub(pattern, text, script)
        ended = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script.replace("10259/", f"{self.port}/")],
            cwd=self.folder, capture_output=True, text=True, timeout=120, check=False,
            env={**self.environment, "KUBECONFIG": str(self.folder / f"{namespace}.kubeconfig")},
        )  # fmt: skip
        assert ended.returncode == 0, f"{script}\n{ended.stdout}{ended.stderr}"
        return ended.stdout


def _program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane of its own: the names of the release are those of the pages."""
    with ControlPlane(Settings(version=VERSION)) as own:
        yield own


@pytest.fixture(scope="module")
def desk(plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """The cluster after the installation, with a scheduler that leads and pods to look at."""
    folder, programs = tmp_path_factory.mktemp("desk"), tmp_path_factory.mktemp("programs")
    for name in ("charts", "deploy", "docs"):
        (folder / name).symlink_to(ROOT / name)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    (folder / "values.yaml").write_text(yaml.safe_dump(_VALUES))
    access = yaml.safe_load(plane.admin_kubeconfig.read_text())
    for namespace in {*PAGES.values()}:
        access["contexts"][0]["context"]["namespace"] = namespace
        (folder / f"{namespace}.kubeconfig").write_text(yaml.safe_dump(access))
    _program(programs, "kubectl", _KUBECTL.format(kubectl=binaries.find("kubectl")))
    _program(programs, "curl", _CURL.format(curl=shutil.which("curl")))
    (programs / "helm").symlink_to(binaries.find("helm"))
    path = os.pathsep.join((str(programs), str(ROOT / ".venv" / "bin"), os.environ["PATH"]))
    environment = {"PATH": path, "HOME": str(folder)}
    made = Desk(folder, environment, free_port())
    first = [each.text for block, _ in BLOCKS for each in block if FIRST.search(each.text)]
    made.run(f"{first.pop()} --values values.yaml", NAME)
    made.run("\n".join(each for each in first if each.startswith("kubectl")), NAME)
    _populate(plane)
    with _scheduler(plane, made) as scheduler:
        scheduler.wait_log("pod_bound")
        yield made


def _populate(plane: ControlPlane) -> None:
    """Let the replicas run, as kube-scheduler and a kubelet would, and create pods to schedule."""
    (node,) = plane.create_nodes(1, NodeShape(cpu="4"))
    replicas = f"/api/v1/namespaces/{NAME}/pods"
    for each in plane.api.wait_for_list(replicas, lambda found: len(found) >= 2):
        body = {"metadata": {"name": each["metadata"]["name"]}}
        path = f"{replicas}/{each['metadata']['name']}"
        plane.api.post(f"{path}/binding", {**body, "target": {"kind": "Node", "name": node}})
        plane.api.wait_for(path, is_running)
    # A definition that Helm has installed, of an older version.
    versions = plane.api.get(DEFINITION)["spec"]["versions"]
    del versions[0]["schema"]["openAPIV3Schema"]["description"]
    plane.api.patch(DEFINITION, {"spec": {"versions": versions}}, fieldManager="helm")
    for name in ("low", "high"):
        plane.api.post("/apis/scheduling.k8s.io/v1/priorityclasses", priority_class(name))
    pods: list[Json] = [
        pod("batch", "1", "low", by=NAME),
        pod("gated", by=NAME, schedulingGates=[{"name": "example.com/quota"}]),
        pod("too-big", "64", by=NAME),
        pod("urgent", "1", "high", by=NAME),
    ]
    plane.api.post_all("/api/v1/namespaces/default/pods", pods)


@contextmanager
def _scheduler(plane: ControlPlane, desk: Desk) -> Iterator[Scheduler]:
    """Run a scheduler with the chart's configuration and rights."""
    path = f"/apis/apps/v1/namespaces/{NAME}/deployments/{NAME}"
    deployed = [plane.api.get(path) | {"kind": "Deployment"}]
    file = desk.folder / "scheduler.yaml"
    file.write_text(configuration(deployed))
    reach = ["--config", file, "--kubeconfig", plane.service_account_kubeconfig(NAME, NAME)]
    serving = [*EVERYWHERE, "--secure-port", str(desk.port)]
    scheduler = Scheduler(NAME, desk.port, [*reach, *serving], desk.folder / "log")
    try:
        yield scheduler
    finally:
        scheduler.close()


def _lacking(command: Command) -> str:
    return next((why for what, why in LACKING.items() if re.search(what, command.text)), "")


def _id(block: tuple[Command, ...]) -> str:
    return f"{block[0].page}:{block[0].line}: {block[0].text[:40]}"


@pytest.mark.parametrize(("block", "namespace"), BLOCKS, ids=[_id(each) for each, _ in BLOCKS])
def test_a_command_of_a_page_works(desk, block, namespace):
    wanted = [each for each in block if each.text not in NAMES]
    runs = [each.text for each in wanted if not _lacking(each) and not FIRST.search(each.text)]

    desk.run("\n".join(runs), namespace)

    for each in wanted:
        subprocess.run(["bash", "-nc", each.text], check=True)
        assert not glob_outside_quotes(each.text), "zsh refuses it"


def test_what_is_lacking_is_needed_by_some_command():
    texts = [each.text for block, _ in BLOCKS for each in block]

    assert len(texts) > 60
    assert [what for what in LACKING if not any(re.search(what, text) for text in texts)] == []
    assert [name for name in NAMES if name not in texts] == []
