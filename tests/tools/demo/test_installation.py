"""The manifests that are shipped, as the demonstration installs them."""

import pytest

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.manifests import documents
from deploy.tools.demo import installation


def test_all_that_the_process_needs_of_the_base_is_installed():
    objects = list(installation.manifests())

    kinds = [each["kind"] for each in objects]
    assert kinds[:2] == ["Namespace", "ServiceAccount"]
    assert "Deployment" not in kinds
    # The kustomization, the Deployment, its disruption budget, and three roles for people.
    assert len(objects) == len(list(documents(installation.BASE))) - 6
    assert not {"PodDisruptionBudget"} & set(kinds)
    assert kinds.count("ClusterRole") == 1


def test_names_agree_throughout():
    # The name of a definition is that of what it defines.
    nameless = ("Kustomization", "CustomResourceDefinition")
    everything = [each for each in documents(installation.BASE) if each["kind"] not in nameless]
    for each in everything:
        metadata = each["metadata"]
        assert metadata["name"].startswith(installation.NAME)
        # The CA of client certificates is not in our namespace.
        foreign = metadata["name"].endswith("-authentication")
        wanted = "kube-system" if foreign else installation.NAME
        assert metadata.get("namespace", wanted) == wanted
    (deployment,) = (each for each in everything if each["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == installation.NAME


@pytest.mark.cluster
def test_the_api_server_accepts_the_deployment_and_its_pods(control_plane: ControlPlane):
    (deployment,) = documents(installation.BASE / "deployment.yaml")
    pod = {**deployment["spec"]["template"], "apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = {**pod["metadata"], "name": "scheduler"}
    query = {"dryRun": "All", "fieldManager": "test", "fieldValidation": "Strict"}
    installation.install(control_plane)

    path = f"/apis/apps/v1/namespaces/{installation.NAME}/deployments/{installation.NAME}"
    control_plane.api.patch(path, deployment, "apply", **query)
    # The namespace enforces the restricted Pod Security Standard.
    pods = f"/api/v1/namespaces/{installation.NAME}/pods/scheduler"
    control_plane.api.patch(pods, pod, "apply", **query)
