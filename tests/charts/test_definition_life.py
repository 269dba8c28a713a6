"""The definition of policies on a real API server: upgraded by hand, and with a second version."""

import copy
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deploy.tools.controlplane import binaries
from deploy.tools.controlplane.cluster import ControlPlane
from tests.charts.rendering import CHART, ROOT, Json
from tests.charts.test_live import DEFINITION, RELEASE, undefine
from tests.support import pages

pytestmark = [pytest.mark.chart, pytest.mark.cluster]

NEXT = "v1beta1"
STORED = {"storage": True}
APPLY = "kubectl apply --server-side --force-conflicts -f -"


def shipped() -> Json:
    return dict(yaml.safe_load((CHART / "crds" / "preemption-policies.yaml").read_text()))


def commands(page: str, start: str) -> list[str]:
    """Return the commands of the block of a page that begins with this one."""
    found = [*pages.commands(ROOT / page)]
    (block,) = {
        each.block for each in found if each.text.startswith(start) and each.line == each.block + 1
    }
    return [each.text for each in found if each.block == block]


@pytest.fixture
def tools(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Path]:
    """A folder with the programs of the commands; afterwards there is no definition."""
    for name in ("helm", "kubectl"):
        (tmp_path / name).symlink_to(binaries.find(name))
    yield tmp_path
    undefine(control_plane)


def run(cluster: ControlPlane, folder: Path, command: str, given: str = "") -> str:
    """Return what a command of a shell says; it fails with what it says otherwise."""
    environ = {
        "HOME": str(folder),
        "KUBECONFIG": str(cluster.admin_kubeconfig),
        "PATH": f"{folder}:{os.environ['PATH']}",
    }
    answer = subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        env=environ,
        input=given,
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_a_definition_that_helm_has_created_is_upgraded_by_the_command_of_the_pages(
    helm, control_plane, namespace, tools
):
    where = ("--namespace", namespace, "--kubeconfig", str(control_plane.admin_kubeconfig))
    helm.run(
        "upgrade", RELEASE, str(CHART), "--install", *where, values={"fullnameOverride": RELEASE}
    )
    (command,) = commands("docs/installation.md", "helm show crds")
    assert commands("charts/preemptive-scheduler/README.md", "helm show crds") == [command]
    show, _, apply = command.partition("|")
    changed = yaml.safe_load(run(control_plane, tools, show))
    assert changed == shipped()
    changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "Changed."

    with pytest.raises(AssertionError, match='conflict with "helm"'):
        run(control_plane, tools, apply.replace("--force-conflicts", ""), yaml.safe_dump(changed))
    run(control_plane, tools, apply, yaml.safe_dump(changed))

    (version,) = control_plane.api.get(DEFINITION)["spec"]["versions"]
    assert version["schema"]["openAPIV3Schema"]["description"] == "Changed."
    helm.run("uninstall", RELEASE, *where)


def test_a_second_version_keeps_every_policy_by_the_plan_of_the_page(control_plane, tools):
    api = control_plane.api
    first = shipped()
    api.apply(first)
    spec = {"mode": "Audit", "maxVictimsPerPreemption": 1}
    kind = {"apiVersion": "preemptive-scheduler.io/v1alpha1", "kind": "PreemptionPolicy"}
    api.apply({**kind, "metadata": {"name": "kept"}, "spec": spec})
    (old,) = first["spec"]["versions"]
    new = copy.deepcopy(old) | {"name": NEXT, "storage": False}

    api.apply(with_versions(first, old, new))
    api.apply(with_versions(first, old | {"storage": False, "deprecated": True}, new | STORED))
    with pytest.raises(AssertionError, match=r"status.storedVersions\[0\]: Invalid value"):
        run(control_plane, tools, APPLY, yaml.safe_dump(with_versions(first, new | STORED)))
    for command in commands("docs/preemption-policy.md", "kubectl get preemptionpolicies -o json"):
        run(control_plane, tools, command)
    api.apply(with_versions(first, new | STORED))

    get = f"kubectl get preemptionpolicies.{NEXT}.preemptive-scheduler.io kept -o json"
    found = json.loads(run(control_plane, tools, get))
    assert found["apiVersion"] == f"preemptive-scheduler.io/{NEXT}"
    assert found["spec"].items() >= spec.items()
    assert api.get(DEFINITION)["status"]["storedVersions"] == [NEXT]
    run(control_plane, tools, get.replace("get", "delete").removesuffix(" -o json"))


def with_versions(definition: Json, *versions: Json) -> Json:
    """Return the definition with other versions."""
    return {**definition, "spec": {**definition["spec"], "versions": list(versions)}}
