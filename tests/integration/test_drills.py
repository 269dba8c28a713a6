"""The commands of docs/drills.md work, in the order of the page, and print what it shows."""

import base64
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.components import Settings
from deploy.tools.demo import installation
from tests.integration.objects import pod, prepare
from tests.integration.scene import Scene
from tests.integration.test_leadership import ELECTION
from tests.support import pages
from tests.support.certificates import Authority
from tests.support.control_plane import VERSION
from tests.support.live import Schedulers

pytestmark = [pytest.mark.cluster, pytest.mark.chart, pytest.mark.xdist_group(__name__)]

PAGE: Final = Path(__file__).parents[2] / "docs" / "drills.md"
NAME: Final = installation.NAME
POLICIES: Final = "/apis/preemptive-scheduler.io/v1alpha1/preemptionpolicies"
#: An outage that is shorter than this does not cost the lease.
PATIENT: Final = {
    "leaderElection": {
        **ELECTION["leaderElection"],
        "leaseDuration": "60s",
        "renewDeadline": "50s",
    }
}
#: Commands that cannot run here, by how they begin, and why.
NOT_RUN: Final = {
    "sudo etcdutl ": "the tool is not built; `restored` puts the data of etcd back instead",
}


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane that may be broken."""
    with ControlPlane(Settings(version=VERSION)) as own:
        yield own


@pytest.fixture(scope="module")
def plane(control_plane: ControlPlane) -> ControlPlane:
    prepare(control_plane.api)
    control_plane.api.apply(installation.BASE / "preemption-policies.yaml")
    return control_plane


@pytest.fixture
def scene(plane: ControlPlane, namespace: str, schedulers: Schedulers) -> Iterator[Scene]:
    """A scene without an audit: a drill takes its history back."""
    yield Scene(plane, namespace, schedulers.name)
    schedulers.close()


@pytest.fixture
def environ(plane: ControlPlane, tmp_path: Path) -> Mapping[str, str]:
    """An environment with kubectl and the plugin, and a kubeconfig that commands may change."""
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "kubectl").symlink_to(binaries.find("kubectl"))
    for name in ("kubectl-preemptive", "kubectl_complete-preemptive"):
        (tools / name).symlink_to(Path(sys.executable).with_name(name))
    config = tmp_path / "config"
    config.write_text(plane.admin_kubeconfig.read_text())
    return {"PATH": f"{tools}:/usr/bin:/bin", "KUBECONFIG": str(config), "HOME": str(tmp_path)}


class Drill:
    """What happens to the cluster before some commands, by how these begin."""

    def __init__(self, scene: Scene, schedulers: Schedulers, folder: Path) -> None:
        self._scene, self._schedulers = scene, schedulers
        self._folder = folder
        self._snapshot = Path()
        self._number = 0
        self.before: Mapping[str, Callable[[], object]] = {
            "kubectl get configmap": self.preempt,
            "kubectl wait --for=create configmap": self.preempt,
            "kubectl get --raw /readyz": self._scene.plane.restart_apiserver,
            "etcdutl ": self.restored,
        }

    def prepare(self) -> None:
        """Create what the page presupposes: a leader, a budget, a certificate, a Deployment."""
        kind = {"apiVersion": "preemptive-scheduler.io/v1alpha1", "kind": "PreemptionPolicy"}
        budget = {"budgets": [{"maxVictims": 9, "window": "1h"}]}
        self._scene.api.post(POLICIES, {**kind, "metadata": {"name": "budget"}, "spec": budget})
        authority = Authority(self._folder)
        found = base64.b64encode((authority.folder / "server.crt").read_bytes()).decode()
        path = f"/api/v1/namespaces/{NAME}/secrets"
        key = {"tls.crt": found, "tls.key": ""}
        self._scene.api.post(path, {"metadata": {"name": f"{NAME}-tls"}, "data": key})
        deployment = {"metadata": {"name": NAME}, "spec": _idle()}
        self._scene.api.post(f"/apis/apps/v1/namespaces/{NAME}/deployments", deployment)
        self._schedulers.start(config=PATIENT).wait_log("became_leader")

    def preempt(self) -> None:
        """Have the scheduler evict a pod, which the budget counts."""
        self._number += 1
        group, node = f"g{self._number}", {"group": f"g{self._number}"}
        at = self._scene.node(cpu="2", labels=node)
        self._scene.run(pod(f"low-{group}", "2", "low", on=at))
        self._scene.create(pod(f"high-{group}", "2", "high", nodeSelector=node))
        self._scene.wait_bound(f"high-{group}")

    def restored(self) -> None:
        """Restore etcd, and restart the replica as the page says."""
        snapshot = self._scene.plane.snapshot_etcd()
        self.preempt()
        self._scene.plane.restore_etcd(snapshot)
        self._schedulers.close()
        self._schedulers.start(config=PATIENT).wait_log("became_leader")


def _idle() -> dict[str, Any]:
    labels = {"app": "idle"}
    container = {"name": "c", "image": "none"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    return {"replicas": 0, "selector": {"matchLabels": labels}, "template": template}


def test_the_commands_of_the_page_work_in_order(scene, schedulers, environ, tmp_path):
    drill = Drill(scene, schedulers, tmp_path)
    drill.prepare()
    found = list(pages.commands(PAGE))
    assert len(found) > 10

    for command in found:
        for start, happens in drill.before.items():
            if command.text.startswith(start):
                happens()
        if not any(map(command.text.startswith, NOT_RUN)):
            assert pages.run(command, environ, tmp_path) == ""
    assert all(any(each.text.startswith(start) for each in found) for start in NOT_RUN)
