"""The overlays of deploy/manifests: each changes what it says, and nothing else."""

import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.tools.controlplane import binaries
from deploy.tools.demo import installation
from scheduler import __version__
from tests.charts.rendering import VALUES, Helm, Json, of_kind, one

pytestmark = pytest.mark.chart

OVERLAYS = sorted(path.parent for path in (installation.BASE.parent / "overlays").glob("*/kust*"))


def built(folder: Path) -> list[Json]:
    """Return the objects of a kustomization."""
    command = [binaries.find("kubectl"), "kustomize", folder]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return list(yaml.safe_load_all(text))


def changed(overlay: str) -> dict[str, Json]:
    """Return the objects of an overlay that are not those of the base, by kind."""
    base = built(installation.BASE)
    return {
        each["kind"]: each
        for each in built(installation.BASE.parent / "overlays" / overlay)
        if each not in base
    }


def pod(changes: dict[str, Json]) -> Json:
    return dict(changes["Deployment"]["spec"]["template"]["spec"])


@pytest.mark.parametrize("folder", OVERLAYS, ids=lambda folder: folder.name)
def test_an_overlay_has_the_rights_of_the_base(folder: Path):
    ours, base = built(folder), built(installation.BASE)

    rights = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount")
    for kind in (*rights, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert of_kind(ours, kind) == of_kind(base, kind)


def test_the_base_names_the_image_of_this_version():
    (container,) = one(built(installation.BASE), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]

    assert container["image"] == f"preemptive-scheduler:{__version__}"


def test_the_registry_is_that_of_the_overlay():
    changes = changed("registry")

    (container,) = pod(changes)["containers"]
    assert changes.keys() == {"Deployment"}
    assert container["image"] == f"registry.example/infra/preemptive-scheduler:{__version__}"


def test_the_quota_is_that_of_the_chart(helm: Helm):
    changes = changed("gke")

    assert changes.keys() == {"ResourceQuota"}
    ours = changes["ResourceQuota"]
    assert ours["spec"] == one(helm.template(VALUES["on GKE"]), "ResourceQuota")["spec"]
    assert ours["metadata"]["namespace"] == "preemptive-scheduler"


def test_on_openshift_ids_are_those_of_the_namespace():
    changes = changed("openshift")

    assert changes.keys() == {"Deployment"}
    assert pod(changes)["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_replicas_run_on_the_control_plane():
    changes = changed("control-plane")

    assert changes.keys() == {"Deployment"}
    key = "node-role.kubernetes.io/control-plane"
    assert pod(changes)["nodeSelector"] == {"kubernetes.io/os": "linux", key: ""}
    (toleration,) = pod(changes)["tolerations"]
    assert toleration == {"key": key, "operator": "Exists", "effect": "NoSchedule"}


def test_a_single_replica_has_no_budget():
    changes = changed("single-replica")

    ours = built(installation.BASE.parent / "overlays" / "single-replica")
    assert changes.keys() == {"Deployment"}
    assert changes["Deployment"]["spec"]["replicas"] == 1
    assert of_kind(ours, "PodDisruptionBudget") == []
