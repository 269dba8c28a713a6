"""The overlays of deploy/manifests: each changes what it says, and nothing else."""

import subprocess
from pathlib import Path

import pytest
import yaml

from deploy.tools.controlplane import binaries
from deploy.tools.demo import installation
from scheduler import __version__
from tests.charts.rendering import VALUES, Json, of_kind, one

pytestmark = pytest.mark.chart

OVERLAYS = sorted(path.parent for path in (installation.BASE.parent / "overlays").glob("*/kust*"))


def built(folder: Path) -> list[Json]:
    """Return the objects of a kustomization."""
    command = [binaries.find("kubectl"), "kustomize", folder]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize("folder", OVERLAYS, ids=lambda folder: folder.name)
def test_an_overlay_has_the_rights_of_the_base(folder):
    ours, base = built(folder), built(installation.BASE)

    rights = ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount")
    for kind in (*rights, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"):
        assert of_kind(ours, kind) == of_kind(base, kind)


@pytest.mark.parametrize(
    ("overlay", "kinds"),
    [
        ("registry", {"Deployment"}),
        ("gke", {"ResourceQuota"}),
        ("openshift", {"Deployment"}),
        ("control-plane", {"Deployment"}),
        ("single-replica", {"Deployment"}),
    ],
)
def test_an_overlay_changes_what_its_name_promises(helm, overlay, kinds):
    base, ours = built(installation.BASE), built(installation.BASE.parent / "overlays" / overlay)
    spec = one(ours, "Deployment")["spec"]
    pod = spec["template"]["spec"]

    assert {each["kind"] for each in ours if each not in base} == kinds
    (image,) = (each["image"] for each in pod["containers"])
    registry = "registry.example/infra/" if overlay == "registry" else ""
    assert image == f"{registry}preemptive-scheduler:{__version__}"
    assert ("runAsUser" in pod["securityContext"]) == (overlay != "openshift")
    assert ("tolerations" in pod) == (overlay == "control-plane")
    single = overlay == "single-replica"
    assert (spec["replicas"], len(of_kind(ours, "PodDisruptionBudget"))) == (
        (1, 0) if single else (2, 1)
    )
    if overlay == "gke":
        wanted = one(helm.template(VALUES["on GKE"]), "ResourceQuota")["spec"]
        assert one(ours, "ResourceQuota")["spec"] == wanted
