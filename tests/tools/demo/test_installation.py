"""The manifests that are shipped, as the demonstration installs them."""

from pathlib import Path

import pytest
import yaml

from deploy.tools.controlplane.cluster import ControlPlane
from deploy.tools.controlplane.manifests import documents
from deploy.tools.demo import installation
from scheduler.config import load


def test_all_that_the_process_needs_of_the_base_is_installed():
    objects = list(installation.manifests())

    kinds = [each["kind"] for each in objects]
    assert kinds[:2] == ["Namespace", "ServiceAccount"]
    assert "Deployment" not in kinds
    # The kustomization, the Deployment, its disruption budget, and three roles for people.
    assert len(objects) == len(list(documents(installation.BASE))) - 6
    assert not {"PodDisruptionBudget"} & set(kinds)
    assert kinds.count("ClusterRole") == 1


def test_the_kustomization_lists_every_manifest():
    listed = yaml.safe_load((installation.BASE / "kustomization.yaml").read_text())["resources"]

    assert {"kustomization.yaml", *listed} == {path.name for path in installation.BASE.iterdir()}


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


def test_the_lease_is_the_one_that_the_scheduler_takes_by_default():
    assert load.defaults().leader_election.resource_name == installation.NAME


def test_the_port_of_the_deployment_is_the_one_that_the_scheduler_serves_by_default():
    (deployment,) = documents(Path(installation.BASE / "deployment.yaml"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]

    assert container["ports"] == [{"name": "https", "containerPort": 10259}]
    assert container["args"][0] == "run"
    assert not [flag for flag in container["args"] if "port" in flag]


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
